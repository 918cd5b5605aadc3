//! Claims: does each documented event count what its label says, on this machine?
//!
//! The codes of a table of claims are swept, and each verdict is compared with the meanings of the label.
//! The result is agreement, disagreement, or neither with the reason.

use cyclometer_catalog::claims::{ClaimTable, ClaimedMeaning, EventClaim};
use cyclometer_core::{Error, ErrorKind, EventCode, Recovery, Result};
use cyclometer_inference::{ClaimFinding, ClaimedCount, ConceptSum, Inference, KernelTable, TermWeight};
use cyclometer_sweep::Exclusion;

use crate::reverse::{ReverseObserver, ReversedEvent, SweepMachine, SweepOptions};

/// The result of a check.
#[derive(Debug)]
pub struct CheckedClaims {
    /// The kernels that ran, with what each does.
    pub kernels: KernelTable,
    /// The claims, in the order in which they were given.
    pub claims: Vec<CheckedClaim>,
    /// Claims about codes that have no verdict, with the reason.
    pub excluded: Vec<(EventClaim, Exclusion)>,
}

/// A claim with what the machine counts.
#[derive(Debug)]
pub struct CheckedClaim {
    /// The claim.
    pub claim: EventClaim,
    /// The comparison of the label with the counts.
    pub finding: ClaimFinding,
    /// The verdict on its code.
    pub event: ReversedEvent,
}

impl CheckedClaims {
    /// Agreements, disagreements, and those that are neither.
    pub fn numbers(&self) -> [usize; 3] {
        let number = |wanted: fn(&ClaimFinding) -> bool| {
            self.claims.iter().filter(|checked| wanted(&checked.finding)).count()
        };
        [
            number(|finding| matches!(finding, ClaimFinding::Agrees)),
            number(|finding| matches!(finding, ClaimFinding::Disagrees(_))),
            number(|finding| matches!(finding, ClaimFinding::Undecided(_))),
        ]
    }
}

impl SweepMachine {
    /// The vendor's claims about its chip: the events of its table. Those without concepts in a table that is
    /// part of this program say so.
    pub fn vendor_claims(&self) -> ClaimTable {
        let id = self.cpu_id();
        let known = ClaimTable::shipped_for(id).find(|table| table.vendor);
        let mut table = known.unwrap_or_else(|| ClaimTable {
            name: id.to_owned(),
            title: format!("events of the vendor's table for {id}"),
            source: format!("the catalogue's table {id}"),
            cpus: vec![id.to_owned()],
            vendor: true,
            claims: Vec::new(),
        });
        let described = table.claims.len();
        for entry in cyclometer_catalog::cpus::cpu(id).iter().flat_map(|cpu| cpu.events()) {
            let EventCode { select, umask, .. } = entry.code();
            let plain = EventCode { select, umask, ..EventCode::default() } == entry.code();
            let is_general = entry.counters().is_some_and(|counters| counters.general_bits() != 0);
            if !plain || !is_general {
                continue;
            }
            let code = self.chip().event_number(select, umask);
            match table.claims.iter_mut().position(|claim| claim.code == code) {
                Some(index) if index < described => {}
                Some(index) => table.claims[index].labels.push(entry.name().to_owned()),
                None => table.claims.push(EventClaim {
                    code,
                    labels: vec![entry.name().to_owned()],
                    meanings: Vec::new(),
                    unclear: Some("no concepts are written down for this event".to_owned()),
                }),
            }
        }
        table
    }

    /// Checks claims: sweeps their codes, and compares each label with what its code counts.
    ///
    /// # Errors
    ///
    /// Those of [`SweepMachine::reverse`].
    pub fn check_claims(
        &self,
        claims: Vec<EventClaim>,
        options: &SweepOptions,
        observer: &mut dyn ReverseObserver,
    ) -> Result<CheckedClaims> {
        if claims.is_empty() {
            let error = Error::new(ErrorKind::InvalidInput, "there is no claim to check");
            return Err(error.with_recovery(Recovery::fix("name a table with claims: --table seed-000")));
        }
        let mut codes: Vec<u32> = Vec::new();
        claims.iter().for_each(|claim| {
            if !codes.contains(&claim.code) {
                codes.push(claim.code);
            }
        });
        let found = self.reverse(&codes, options, observer)?;
        let inference = Inference::new(&found.kernels);
        let (mut checked, mut excluded) = (Vec::new(), Vec::new());
        for claim in claims {
            let why = found.excluded.iter().find(|(code, _)| *code == claim.code).map(|(_, why)| why.clone());
            if let Some(why) = why {
                excluded.push((claim, why));
                continue;
            }
            let Some(event) = found.events.iter().find(|event| event.code == claim.code) else { continue };
            let meanings: Vec<ClaimedCount> = claim.meanings.iter().map(counted).collect();
            let finding = inference.check_claim(&event.judgement, &meanings);
            checked.push(CheckedClaim { claim, finding, event: event.clone() });
        }
        Ok(CheckedClaims { kernels: found.kernels, claims: checked, excluded })
    }
}

fn counted(meaning: &ClaimedMeaning) -> ClaimedCount {
    let terms = meaning.concepts.iter().map(|concept| (*concept, TermWeight::One));
    let sum = ConceptSum::new(terms.collect());
    if meaning.part { ClaimedCount::Part(sum) } else { ClaimedCount::Sum(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulated;

    #[test]
    fn vendor_claims_have_one_row_for_a_code_and_every_plain_event() {
        let claims = |id: &str| SweepMachine::simulated(Simulated::find(id).unwrap()).vendor_claims();
        let intel = claims("skylake");
        let mut codes: Vec<u32> = intel.claims.iter().map(|claim| claim.code).collect();
        let rows = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), rows);
        let named = intel.matching("MEM_LOAD_RETIRED.L1_MISS").map(|claim| claim.code).collect::<Vec<_>>();
        assert_eq!(named, [0x08d1]);
        let apple = claims("apple-m1");
        assert_eq!(apple.claims, ClaimTable::shipped("apple-m1").unwrap().claims);
    }
}
