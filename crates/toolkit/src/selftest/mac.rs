//! The sources of a Mac: kperf as root, and the sums that macOS keeps for a thread.

use cyclometer_backend::kperf::{KperfSharing, RunningProcesses};
use cyclometer_backend::sources;
use cyclometer_catalog::ListingKind;
use cyclometer_core::machine::Os;
use cyclometer_core::{Rung, Source};
use cyclometer_selftest::{Finding, KernelMemory, Repetitions, ThreadMeter, Truth, examine};

use super::{Section, SectionKind, SelfTestRun, works};
use crate::kperf_source;

/// Events of the configurable counters, with portable events that the fixed counters count in both modes.
const BY_NAME: [(&str, &str); 2] = [("INST_ALL", "instructions"), ("CORE_ACTIVE_CYCLE", "cycles")];

/// The events of macOS's sums of a thread.
const ACCOUNTED: [&str; 2] = ["cycles", "instructions"];

impl SelfTestRun<'_> {
    /// Whether this is a Mac, on which perf counts nothing.
    pub(super) fn is_on_a_mac(&self) -> bool {
        self.test.machine.os == Os::MacOs
    }

    /// The configurable counters, in user mode.
    pub(super) fn by_kperf(&self) -> Section {
        let section = Section::new(SectionKind::Hardware, Rung::Kperf);
        if let Some(reason) = self.obstacle(Rung::Kperf) {
            return section.without(&reason);
        }
        let how = (KperfSharing::default(), RunningProcesses::Refused);
        let source = match kperf_source::open(&self.test.machine, &self.tables, how) {
            Ok(Some(source)) => source,
            Ok(None) => return section.without("there is no kperf on this system"),
            Err(error) => return section.without(&error.to_string()),
        };
        let mut memory = KernelMemory::new();
        let listed = self.listed(&[ListingKind::Hardware, ListingKind::Cache, ListingKind::Portable]);
        let by_name = BY_NAME.map(|names| self.by_name(source.as_ref(), names, &mut memory));
        let examined = listed.iter().map(|one| self.examined(source.as_ref(), one, ":u", &mut memory));
        Section { findings: by_name.into_iter().chain(examined).collect(), ..section }
    }

    /// Counts an event of the vendor's by its name, and judges it as the portable event that it counts.
    fn by_name(
        &self,
        source: &dyn Source,
        (name, portable): (&str, &str),
        memory: &mut KernelMemory,
    ) -> Finding {
        self.finding(name, || {
            let slots = self.slots(&format!("{name}:u"), source.rung())?;
            let mut meter = ThreadMeter::open(source, &slots, memory)?;
            Ok(examine(name, Truth::of(portable), &mut meter, Repetitions::HARDWARE))
        })
    }

    /// The sums of the thread, in user and kernel mode.
    pub(super) fn by_accounts(&self) -> Section {
        let section = Section::new(SectionKind::Accounts, Rung::SelfCounts);
        if let Some(reason) = self.obstacle(Rung::SelfCounts) {
            return section.without(&reason);
        }
        let mut all = sources().into_iter();
        let Some(source) = all.find(|source| source.rung() == Rung::SelfCounts) else {
            return section.without("there are no sums of threads on this system");
        };
        let mut memory = KernelMemory::new();
        let listed = self.listed(&[ListingKind::Hardware, ListingKind::Portable]);
        let accounted = listed.iter().filter(|one| ACCOUNTED.contains(&one.name.as_str()));
        let examined = accounted.map(|one| {
            let finding = self.examined(source.as_ref(), one, ":uk", &mut memory);
            finding.with_kernel()
        });
        Section { findings: examined.collect(), ..section }
    }

    /// Why a source does not count here.
    fn obstacle(&self, rung: Rung) -> Option<String> {
        match self.test.machine.ladder.state(rung) {
            None => Some(format!("there is no source {rung} here")),
            Some(state) if !works(state.works) => {
                let cause = state.causes.first();
                Some(cause.map_or_else(|| state.works.word().to_owned(), |cause| cause.text.clone()))
            }
            Some(_) => None,
        }
    }
}
