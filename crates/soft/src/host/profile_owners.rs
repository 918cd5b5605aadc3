//! The processes or threads whose executions a profile keeps apart.

use std::collections::{BTreeMap, BTreeSet};

use super::process::{TracedProcess, name_of};
use super::protocol::ReportedOwner;
use crate::code_profile::{CodeProfile, ProfileOwner};

/// The owners of executions.
pub(super) struct ProfileOwners {
    kind: ProfileOwner,
    /// The threads that have counts, by their number.
    threads: BTreeMap<u32, ReportedOwner>,
}

impl ProfileOwners {
    pub(super) fn new(kind: ProfileOwner) -> ProfileOwners {
        ProfileOwners { kind, threads: BTreeMap::new() }
    }

    pub(super) fn are_threads(&self) -> bool {
        self.kind == ProfileOwner::Thread
    }

    /// Notes the name that a thread has now.
    pub(super) fn note_thread(&mut self, number: u32, pid: u32, tid: u32) {
        let name = name_of(tid);
        self.threads.insert(number, ReportedOwner { pid, tid: Some(tid), name });
    }

    /// The profile of a process with this index, of which each run has its owner.
    pub(super) fn own(&self, process: usize, profile: CodeProfile) -> CodeProfile {
        match self.kind {
            ProfileOwner::Process => profile.owned_by(process as u32),
            // Those of each thread were given to it before they were added up.
            ProfileOwner::Thread => profile,
        }
    }

    /// The owners that have a part of a profile, by number.
    pub(super) fn of(&self, profile: &CodeProfile, processes: &[TracedProcess]) -> Vec<(u32, ReportedOwner)> {
        let numbers: BTreeSet<u32> = profile.runs().filter_map(|(run, _)| run.place.owner).collect();
        let of_process = |number: u32| {
            let process = processes.get(number as usize)?;
            Some(ReportedOwner { pid: process.pid, tid: None, name: process.name.clone() })
        };
        let owner = |number: u32| {
            let owner = match self.kind {
                ProfileOwner::Process => of_process(number)?,
                ProfileOwner::Thread => self.threads.get(&number)?.clone(),
            };
            Some((number, owner))
        };
        numbers.into_iter().filter_map(owner).collect()
    }
}
