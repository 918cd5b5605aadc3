//! Sweeps that are interrupted and go on, codes that disturb, and codes that are never placed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cyclometer_core::concept::Concept;
use cyclometer_core::{CounterId, Error, ErrorKind, Random};
use cyclometer_inference::KernelIndex;
use cyclometer_kernels::{Geometry, InstructionSet};
use cyclometer_sim::{Model, Semantics, Settings};
use cyclometer_sweep::{
    CodePlacement, Exclusion, JournalError, JournalHeader, JournalWriter, SimulatedTarget, SweepCounts,
    SweepError, SweepJournal, SweepKernel, SweepObserver, SweepProgress, SweepRun, SweepSettings,
    SweepTarget, SweptCode, kernels_for,
};

const MEANINGS: &str = "cyclometer-semantics 1
0x11 counters=0x0e0 counts loads
0x12 counters=0x3fc counts branches + stores
0x13 counters=0x3fc counts loads at-most 1 per cycle
0x14 counters=0x004 counts l1i-misses
";

const CODES: [u32; 6] = [0x10, 0x11, 0x12, 0x13, 0x14, 0x15];

const SETTINGS: SweepSettings = SweepSettings { iterations: 61, repeats: 2, seed: 4, is_noisy: false };

fn target() -> (SimulatedTarget, Vec<SweepKernel>) {
    let mut kernels = kernels_for(InstructionSet::Aarch64, &Geometry::default());
    let semantics = Arc::new(Semantics::parse(MEANINGS.as_bytes()).unwrap());
    let model = Model::find("apple-m1").unwrap();
    let target = SimulatedTarget::new(model, Settings::default(), semantics, &mut kernels);
    (target, kernels)
}

fn header(target: &dyn SweepTarget, kernels: &[SweepKernel]) -> JournalHeader {
    JournalHeader {
        tool: "0.0".to_owned(),
        machine: "sim:apple-m1\nwith a line end".to_owned(),
        kernels: JournalHeader::digest(kernels),
        settings: SETTINGS,
        counters: target.counters(),
        durations: kernels.iter().map(|kernel| kernel.durations.clone()).collect(),
        codes: CODES.to_vec(),
    }
}

/// A journal in memory, and the number of codes after which the process is killed.
struct Killed<'a> {
    text: &'a mut String,
    writer: JournalWriter,
    left: usize,
    begun: Vec<u32>,
}

impl SweepObserver for Killed<'_> {
    fn begins(&mut self, code: u32) {
        self.begun.push(code);
    }

    fn swept(&mut self, code: &SweptCode, _: SweepProgress) -> Result<(), Error> {
        if self.left == 0 {
            return Err(Error::new(ErrorKind::Os, "killed"));
        }
        self.left -= 1;
        if self.begun.contains(&code.code) {
            self.text.extend(self.writer.code(code));
        }
        Ok(())
    }
}

fn go_on(text: &mut String, left: usize) -> (Result<Vec<SweptCode>, SweepError>, Vec<u32>) {
    let (mut target, kernels) = target();
    if text.is_empty() {
        *text = JournalWriter::begin(&header(&target, &kernels)).1;
    }
    let journal = SweepJournal::read(text.as_bytes()).unwrap();
    text.truncate(journal.whole_bytes);
    let denied = BTreeSet::new();
    let run = SweepRun {
        codes: &journal.header.codes,
        kernels: &kernels,
        settings: &journal.header.settings,
        denied: &denied,
        known: &journal.done,
    };
    let mut observer = Killed { text, writer: journal.writer, left, begun: Vec::new() };
    let swept = run.run(&mut target, &mut observer);
    (swept, observer.begun)
}

#[test]
fn a_sweep_that_was_killed_anywhere_ends_as_one_that_was_not() {
    let mut whole = String::new();
    let (expected, _) = go_on(&mut whole, usize::MAX);
    let expected = expected.unwrap();
    assert_eq!(expected.len(), CODES.len());
    let mut random = Random::seeded(7);
    for _ in 0..4 {
        let mut text = String::new();
        let killed = random.below(CODES.len());
        assert!(matches!(go_on(&mut text, killed).0, Err(SweepError::Observer(_))));
        // The kill has cut a line.
        let head = JournalWriter::begin(&header(&target().0, &target().1)).1.len();
        text.truncate(head + random.below(text.len() - head + 1));
        let known = SweepJournal::read(text.as_bytes()).unwrap().done.len();
        let (again, begun) = go_on(&mut text, usize::MAX);
        assert_eq!(again.unwrap(), expected);
        assert_eq!(begun.len(), CODES.len() - known, "codes in the journal are not counted again");
        assert_eq!(text, whole, "and so is the journal");
    }
}

#[test]
fn a_journal_is_read_as_it_was_written_and_no_further_than_it_is_whole() {
    let (target, kernels) = target();
    let header = header(&target, &kernels);
    let mut text = String::new();
    go_on(&mut text, usize::MAX).0.unwrap();
    let journal = SweepJournal::read(text.as_bytes()).unwrap();
    assert_eq!(journal.header.machine, "sim:apple-m1 with a line end");
    assert_eq!((&journal.header.durations, &journal.header.codes), (&header.durations, &header.codes));
    assert_eq!((journal.whole_bytes, journal.done.len()), (text.len(), 6));
    let lines: Vec<&str> = text.lines().collect();
    let without = [&lines[..9], &lines[10..]].concat().join("\n");
    assert_eq!(SweepJournal::read(without.as_bytes()).unwrap().done.len(), 1, "a removed line shows");
    let changed = text.replacen("code 0x", "code 0x1", 1);
    assert_eq!(SweepJournal::read(changed.as_bytes()).unwrap().done.len(), 0, "a changed one shows");
}

#[test]
fn journals_of_other_sweeps_and_other_files_are_refused_with_the_reason() {
    let (target, kernels) = target();
    let ours = header(&target, &kernels);
    let refusal = |change: fn(&mut JournalHeader)| {
        let mut other = ours.clone();
        change(&mut other);
        other.check(&ours).unwrap_err().to_string()
    };
    assert_eq!(ours.check(&ours), Ok(()));
    let version = refusal(|other| other.tool = "9.9".to_owned());
    assert_eq!(version, "the journal is of another version of the tool: 9.9, and now 0.0");
    assert!(refusal(|other| other.machine = "sim:skylake".to_owned()).contains("machine: sim:skylake"));
    assert!(refusal(|other| other.kernels = "0".to_owned()).contains("set of kernels"));
    assert!(refusal(|other| other.counters = vec![None]).contains("counters: unknown, and now 2,3,"));
    assert_eq!(SweepJournal::read(b"nonsense"), Err(JournalError::NoJournal));
    assert_eq!(SweepJournal::read(b""), Err(JournalError::NoJournal));
    let head = JournalWriter::begin(&ours).1;
    for cut in 19..head.len() {
        let read = SweepJournal::read(&head.as_bytes()[..cut]);
        assert!(matches!(read, Err(JournalError::DamagedHeader { .. })), "{cut}");
    }
}

#[test]
fn a_journal_with_impossible_settings_is_refused_with_the_line_of_its_settings() {
    let (target, kernels) = target();
    let most = SweepSettings {
        iterations: SweepSettings::MOST_ITERATIONS,
        repeats: SweepSettings::MOST_REPEATS,
        ..SweepSettings::default()
    };
    let read = |settings: SweepSettings| {
        let text = JournalWriter::begin(&JournalHeader { settings, ..header(&target, &kernels) }).1;
        SweepJournal::read(text.as_bytes())
    };
    assert_eq!(read(most.clone()).unwrap().header.settings, most);
    for settings in [
        SweepSettings { iterations: 0, ..most.clone() },
        SweepSettings { iterations: SweepSettings::MOST_ITERATIONS + 1, ..most.clone() },
        SweepSettings { repeats: 0, ..most.clone() },
        SweepSettings { repeats: u32::MAX, ..most.clone() },
    ] {
        assert_eq!(read(settings.clone()), Err(JournalError::BadLine { line: 5 }), "{settings:?}");
    }
}

/// A target with a counter of instructions, that code 7 disturbs from its second kernel on, and that refuses
/// code 8.
struct Disturbed {
    code: Option<u32>,
    instructions: Vec<f64>,
    placed: Vec<u32>,
}

impl SweepTarget for Disturbed {
    fn counters(&self) -> Vec<Option<CounterId>> {
        vec![None]
    }

    fn place(&mut self, code: u32) -> Result<CodePlacement, Error> {
        self.code = Some(code);
        self.placed.push(code);
        Ok(if code == 8 { CodePlacement::Refused("EINVAL".to_owned()) } else { CodePlacement::Placed })
    }

    fn clear(&mut self) -> Result<bool, Error> {
        self.code = None;
        Ok(true)
    }

    fn count(&mut self, kernel: KernelIndex, iterations: u64) -> Result<SweepCounts, Error> {
        // The first kernel is one whose instructions the counter never has right.
        let wrong = kernel.0 == 0 || self.code == Some(7);
        let factor = if wrong { 1.5 } else { 1.0 };
        let instructions = Some(30 + (self.instructions[kernel.0] * factor * iterations as f64) as u64);
        Ok(SweepCounts { counts: vec![iterations], instructions })
    }
}

fn disturbed(codes: &[u32], denied: &[u32]) -> (Vec<SweptCode>, Vec<u32>) {
    let kernels = kernels_for(InstructionSet::Aarch64, &Geometry::default());
    let instructions = kernels.iter().map(|kernel| kernel.recipe.number_of(Concept::Instructions)).collect();
    let mut target = Disturbed { code: None, instructions, placed: Vec::new() };
    let (denied, known) = (denied.iter().copied().collect(), BTreeMap::new());
    let run = SweepRun { codes, kernels: &kernels, settings: &SETTINGS, denied: &denied, known: &known };
    let mut text = String::new();
    let writer = JournalWriter::begin(&header(&target, &kernels)).0;
    let mut observer = Killed { text: &mut text, writer, left: usize::MAX, begun: Vec::new() };
    let swept = run.run(&mut target, &mut observer).unwrap();
    (swept, target.placed)
}

#[test]
fn a_code_that_changes_another_counter_is_excluded_and_so_is_one_that_is_refused() {
    let (swept, _) = disturbed(&[6, 7, 8], &[]);
    assert_eq!(swept[0].exclusion(), None);
    let Some(Exclusion::Disturbs { expected, found, .. }) = swept[1].exclusion() else { panic!("{swept:?}") };
    assert!((found / expected - 1.5).abs() < 0.01, "{expected} {found}");
    assert_eq!(swept[2].exclusion(), Some(&Exclusion::Refused("EINVAL".to_owned())));
    assert!(swept[1].exclusion().unwrap().to_string().starts_with("disturbs the counter of instructions"));
}

#[test]
fn a_denied_code_is_never_placed() {
    let (swept, placed) = disturbed(&[5, 6], &[5]);
    assert_eq!((swept[0].exclusion(), placed), (Some(&Exclusion::Denied), vec![6]));
}

#[test]
fn a_noisy_machine_does_not_make_a_dead_code_live() {
    let run = |is_noisy| {
        let kernels = kernels_for(InstructionSet::Aarch64, &Geometry::default());
        let settings = SweepSettings { is_noisy, ..SETTINGS };
        let (denied, known) = (BTreeSet::new(), BTreeMap::new());
        let run =
            SweepRun { codes: &[1], kernels: &kernels, settings: &settings, denied: &denied, known: &known };
        let mut text = String::new();
        let writer = JournalWriter::begin(&header(&Interrupted, &kernels)).0;
        let mut observer = Killed { text: &mut text, writer, left: usize::MAX, begun: Vec::new() };
        let swept = run.run(&mut Interrupted, &mut observer).unwrap();
        swept[0].observations().unwrap().counters[0].observations.len() / kernels.len()
    };
    assert_eq!((run(true), run(false)), (2, 4), "sizes that are counted");
}

/// A target on which an interrupt is counted in each run.
struct Interrupted;

impl SweepTarget for Interrupted {
    fn counters(&self) -> Vec<Option<CounterId>> {
        vec![Some(CounterId::General(0))]
    }

    fn place(&mut self, _: u32) -> Result<CodePlacement, Error> {
        Ok(CodePlacement::Placed)
    }

    fn count(&mut self, _: KernelIndex, _: u64) -> Result<SweepCounts, Error> {
        Ok(SweepCounts { counts: vec![1], instructions: None })
    }
}
