//! The source on scripted accounts.

use std::collections::VecDeque;
use std::sync::Mutex;

use cyclometer_core::exec::{ExitStatus, Usage};
use cyclometer_core::{MissingReason, PartReason};
use cyclometer_sys::counter_accounts::{CoreTypeAccount, ProcessAccount, ThreadAccount};

use super::*;

/// Accounts that give the next answer at each read, and the last one again and again.
#[derive(Debug)]
struct Script(Mutex<VecDeque<std::result::Result<ProcessAccount, i32>>>);

impl Script {
    fn source(answers: &[std::result::Result<ProcessAccount, i32>]) -> SelfCountsSource {
        SelfCountsSource::new(Arc::new(Script(Mutex::new(answers.iter().copied().collect()))))
    }

    fn next(&self) -> io::Result<ProcessAccount> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0] };
        answer.map_err(io::Error::from_raw_os_error)
    }
}

impl CounterAccounts for Script {
    fn thread(&self) -> io::Result<ThreadAccount> {
        let account = self.next()?;
        Ok(ThreadAccount { cycles: account.cycles, instructions: account.instructions, energy_nj: 7 })
    }

    fn process(&self, _pid: u32) -> io::Result<ProcessAccount> {
        self.next()
    }
}

fn account(cycles: u64) -> ProcessAccount {
    let cores = CoreTypeAccount { performance_cycles: cycles / 2, ..CoreTypeAccount::default() };
    ProcessAccount { cycles, instructions: 3 * cycles, cores: Some(cores), children_time: 0 }
}

fn slots(counts: &[AccountedCount]) -> Vec<Slot> {
    let slot = |(id, count): (usize, &AccountedCount)| {
        Slot::new(SlotId(id), format!("event{id}"), Rung::SelfCounts, vec![Part::Account(*count)])
    };
    counts.iter().enumerate().map(slot).collect()
}

const BOTH: [AccountedCount; 2] = [AccountedCount::Cycles, AccountedCount::PerformanceCycles];

fn cells(counting: &mut dyn Counting) -> Vec<Cell> {
    let mut reading = Reading::default();
    counting.read(&mut reading).unwrap();
    reading.cells
}

fn raws(counting: &mut dyn Counting) -> Vec<u64> {
    cells(counting).iter().map(|cell| cell.raw).collect()
}

fn exit(counters: Option<CounterUsage>) -> Exit {
    let usage = Usage { counters, ..Usage::default() };
    Exit { status: Some(ExitStatus::Code(0)), wall_ns: 5_000, usage: Some(usage) }
}

#[test]
fn a_command_has_intervals_while_it_runs_and_its_last_account_at_the_end() {
    let source = Script::source(&[Ok(account(10)), Ok(account(10)), Ok(account(50)), Ok(account(90))]);
    let mut counting = source.open(&slots(&BOTH), &Target::Child(7)).unwrap();
    assert_eq!(cells(counting.as_mut()), [], "nothing counts before the start");
    counting.start().unwrap();
    assert_eq!(raws(counting.as_mut()), [40, 20]);
    assert_eq!(raws(counting.as_mut()), [80, 40]);
    counting.exited(&exit(Some(totals::shared(account(1010)))));
    counting.stop().unwrap();
    let last = cells(counting.as_mut());
    assert_eq!(last.iter().map(|cell| cell.raw).collect::<Vec<_>>(), [1000, 500]);
    assert!(last.iter().all(|cell| cell.lost.is_none() && cell.partial.is_none()));
    assert!(last.iter().all(|cell| (cell.time_enabled_ns, cell.time_running_ns) == (5_000, 5_000)));
}

#[test]
fn a_command_whose_last_account_is_missing_has_lost_its_counts() {
    let source = Script::source(&[Ok(account(10))]);
    let mut counting = source.open(&slots(&BOTH), &Target::Child(7)).unwrap();
    counting.start().unwrap();
    counting.exited(&exit(None));
    for cell in cells(counting.as_mut()) {
        let target = "the command".to_owned();
        assert_eq!(cell.lost, Some(MissingReason::EndedUnread { target }));
        assert_eq!(cell.time_running_ns, 0);
    }
    let mut raw = Vec::new();
    counting.sample(&mut raw).unwrap();
    assert_eq!(raw, [Raw::LOST, Raw::LOST]);
    assert_eq!(counting.value(0).unwrap(), None);
}

#[test]
fn children_that_are_not_in_the_account_make_it_partial_where_they_were_requested() {
    let before = ProcessAccount { children_time: 4, ..account(10) };
    let later = ProcessAccount { children_time: 9, ..account(30) };
    let partial = |target: Target, last: ProcessAccount| {
        let mut counting =
            Script::source(&[Ok(before), Ok(before), Ok(last)]).open(&slots(&BOTH), &target).unwrap();
        counting.start().unwrap();
        cells(counting.as_mut())[0].partial.clone()
    };
    let expected = Some(PartReason::WithoutChildren);
    assert_eq!(partial(Target::Child(7), later), expected);
    assert_eq!(partial(Target::Process { pid: 7, inherit: true }, later), expected);
    assert_eq!(partial(Target::Process { pid: 7, inherit: false }, later), None);
    let same = ProcessAccount { children_time: 4, ..account(30) };
    assert_eq!(partial(Target::Child(7), same), None, "the children were reaped before the start");
}

#[test]
fn a_process_that_ends_keeps_its_last_counts_and_says_how_old_they_are() {
    let source = Script::source(&[Ok(account(10)), Ok(account(10)), Ok(account(25)), Err(errno::ESRCH)]);
    let mut counting = source.open(&slots(&BOTH), &Target::Process { pid: 7, inherit: false }).unwrap();
    counting.start().unwrap();
    assert_eq!(raws(counting.as_mut()), [15, 7]);
    counting.stop().unwrap();
    let last = cells(counting.as_mut());
    assert_eq!(last[0].raw, 15);
    let note = last[0].partial.clone().unwrap().to_string();
    assert!(note.starts_with("read ") && note.ends_with(" ms before it ended"), "{note}");
    let mut raw = Vec::new();
    counting.sample(&mut raw).unwrap();
    assert!(raw.iter().all(|raw| raw.is_lost), "a region must not use them");
}

#[test]
fn a_thread_is_read_at_both_ends_of_a_region() {
    let source = Script::source(&[Ok(account(10)), Ok(account(10)), Ok(account(25)), Ok(account(75))]);
    let wanted = slots(&[AccountedCount::Cycles, AccountedCount::Instructions]);
    let mut counting = source.open(&wanted, &Target::ThisThread).unwrap();
    counting.start().unwrap();
    let mut read = || {
        let mut raw = Vec::new();
        counting.sample(&mut raw).unwrap();
        raw.iter().map(|raw| raw.value).collect::<Vec<_>>()
    };
    assert_eq!((read(), read()), (vec![15, 45], vec![65, 195]));
}

fn refusal(answer: std::result::Result<ProcessAccount, i32>, count: AccountedCount, on: &Target) -> Refusal {
    match Script::source(&[answer]).open(&slots(&[count]), on) {
        Err(refusal) => refusal,
        Ok(_) => panic!("{on:?} was opened"),
    }
}

#[test]
fn a_refusal_says_what_macos_does_not_account_for() {
    use AccountedCount::{Cycles, PerformanceCycles};
    use RefusalKind::{NoPermission, NoSuchTarget, NotSupported, Other, TargetNotSupported};
    let process = Target::Process { pid: 7, inherit: true };
    let check = |refusal: Refusal, kind, text: &str| {
        assert_eq!(refusal.kind, kind, "{refusal:?}");
        assert!(refusal.reason.to_string().contains(text), "{refusal:?}");
        // Without a slot no other source would be tried.
        assert_eq!(refusal.slot.is_none(), kind == NoSuchTarget, "{refusal:?}");
    };
    check(refusal(Err(errno::ESRCH), Cycles, &process), NoSuchTarget, "there is no process 7");
    check(refusal(Err(errno::EPERM), Cycles, &process), NoPermission, "to its own user and to root");
    check(refusal(Err(errno::EINVAL), Cycles, &process), Other, "no account of process 7");
    let early = ProcessAccount { cores: None, ..account(1) };
    check(refusal(Ok(early), PerformanceCycles, &process), NotSupported, "from 13 on");
    let of_thread = refusal(Ok(account(1)), PerformanceCycles, &Target::ThisThread);
    check(of_thread, NotSupported, "for processes only");
    for target in
        [Target::Thread(7), Target::Several(vec![process]), Target::Cpus([0, 1].into_iter().collect())]
    {
        check(refusal(Ok(account(1)), Cycles, &target), TargetNotSupported, "without root, not for");
    }
}

#[test]
fn an_event_of_another_source_is_refused() {
    let slots = [Slot::new(SlotId(3), "calls", Rung::SelfCounts, vec![Part::Soft("calls".to_owned())])];
    let refused = Script::source(&[Ok(account(1))]).open(&slots, &Target::ThisThread).err().unwrap();
    assert_eq!((refused.slot, refused.kind), (Some(SlotId(3)), RefusalKind::Invalid));
}

#[test]
fn a_process_that_did_not_run_was_not_counted_meanwhile() {
    let source = Script::source(&[Ok(account(10))]);
    let mut counting = source.open(&slots(&BOTH), &Target::Process { pid: 7, inherit: false }).unwrap();
    counting.start().unwrap();
    for cell in cells(counting.as_mut()) {
        assert_eq!((cell.raw, cell.time_enabled_ns, cell.time_running_ns), (0, 0, 0));
    }
}

#[test]
fn where_the_kernel_counts_nothing_only_what_is_never_zero_has_a_cell() {
    use AccountedCount::{Cycles, EfficiencyCycles, Energy, Instructions, PerformanceEnergy};
    let wanted = [Cycles, Instructions, EfficiencyCycles, Energy, PerformanceEnergy];
    let found = |last: ProcessAccount| {
        let mut counting = Script::source(&[Ok(account(0)), Ok(account(0)), Ok(last)])
            .open(&slots(&wanted), &Target::Process { pid: 7, inherit: false })
            .unwrap();
        counting.start().unwrap();
        let found = cells(counting.as_mut());
        assert!(found.iter().all(|cell| cell.time_running_ns > 0 && cell.lost.is_none()), "{found:?}");
        found.iter().map(|cell| (cell.slot.0, cell.raw)).collect::<Vec<_>>()
    };
    assert_eq!(found(account(0)), [(0, 0), (1, 0), (3, 0)]);
    assert_eq!(found(account(8)), [(0, 8), (1, 24), (2, 4), (3, 0)], "no energy is reported");
}

#[test]
fn other_modes_than_user_and_kernel_together_are_refused() {
    for modes in [Modes::USER, Modes::KERNEL] {
        let mut slots = slots(&BOTH);
        slots[1].filter = Some(modes);
        let refused = Script::source(&[Ok(account(1))]).open(&slots, &Target::ThisThread).err().unwrap();
        assert_eq!((refused.slot, refused.kind), (Some(SlotId(1)), RefusalKind::NotSupported));
        assert!(refused.reason.to_string().contains("user and kernel mode together"), "{}", refused.reason);
    }
}
