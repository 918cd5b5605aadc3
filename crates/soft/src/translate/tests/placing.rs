//! Where blocks, thunks and lookup stubs are, and how they are linked.

use iced_x86::Instruction;
use iced_x86::code_asm::*;

use super::*;

#[test]
fn the_same_code_gives_the_same_bytes() {
    let writes = |()| translated(&mut mixture()).1.into_iter().filter(|write| write.bytes.len() > 8).count();
    assert_eq!(writes(()), writes(()));
    let first = |()| {
        let mut translation = Translation::new(TABLE_AT, TranslationSettings::default());
        translation.add_region(REGION_AT, 16);
        translation.enter(&mut mixture(), AT).unwrap();
        translation.take_writes()
    };
    assert_eq!(first(()), first(()));
}

/// Many jumps to a block behind them, each too far from it for one batch, and for it to be likely.
fn crowd(jumps: usize) -> TestProgram {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut end = a.create_label();
    (0..jumps).for_each(|_| a.je(end).unwrap());
    a.ret().unwrap();
    (0..0x1_1000).for_each(|_| a.int3().unwrap());
    a.set_label(&mut end).unwrap();
    a.nop().unwrap();
    a.ret().unwrap();
    TestProgram(a.assemble(AT).unwrap())
}

#[test]
fn a_block_that_too_many_stubs_wait_for_is_linked_one_by_one() {
    let jumps = instrumentation::MOST_LINKS + 500;
    let mut program = crowd(jumps);
    let mut translation = Translation::new(TABLE_AT, TranslationSettings::default());
    translation.add_region(REGION_AT, 16);
    let all = decoded(AT, &program.0);
    let (first, end) = (all[0].ip(), all[0].near_branch64());
    // Fall-throughs, up to where the jumps end.
    let mut next = Some(first);
    while let Some(address) = next {
        translation.enter(&mut program, address).unwrap();
        let jumps = all.iter().take(jumps).map(Instruction::ip);
        next = jumps.into_iter().find(|ip| translation.block_at(*ip).is_none());
    }
    let to = translation.enter(&mut program, end).unwrap();
    let open = |translation: &Translation| {
        let is_open =
            |exit_stub: &ExitStub| matches!(exit_stub, ExitStub::DirectLink { target, .. } if *target == end);
        let exit_stubs = translation.exit_stubs.iter().filter(|(_, exit_stub)| is_open(exit_stub));
        exit_stubs.map(|(at, _)| *at).collect::<Vec<u64>>()
    };
    let rest = open(&translation);
    assert!(!rest.is_empty(), "all were linked at once");
    translation.take_writes();
    for stop in &rest {
        let destination = translation.link(&mut program, *stop).unwrap().unwrap();
        let writes = translation.take_writes();
        assert!(writes.iter().any(|write| write.address == *stop && write.bytes[0] == 0xe9), "{writes:?}");
        // Straight, or over a counter.
        assert!(destination == to || translation.point_at(destination).is_some());
        assert_eq!(translation.link(&mut program, *stop).unwrap(), Some(destination));
    }
    assert_eq!(open(&translation), []);
}

/// A branch, an indirect jump, and functions that nothing leads to; their addresses.
fn scattered() -> (TestProgram, [u64; 4]) {
    let mut a = CodeAssembler::new(64).unwrap();
    let (mut seldom, mut one, mut other) = (a.create_label(), a.create_label(), a.create_label());
    a.test(eax, eax).unwrap();
    a.je(seldom).unwrap();
    a.jmp(rdx).unwrap();
    a.set_label(&mut seldom).unwrap();
    a.nop().unwrap();
    a.ret().unwrap();
    a.set_label(&mut one).unwrap();
    a.ret().unwrap();
    (0..PAGE).for_each(|_| a.int3().unwrap());
    a.set_label(&mut other).unwrap();
    a.ret().unwrap();
    let made = a.assemble_options(AT, iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS).unwrap();
    let label = |label| made.label_ip(label).unwrap();
    let addresses = [AT, label(&seldom), label(&one), label(&other)];
    (TestProgram(made.inner.code_buffer), addresses)
}

#[test]
fn the_thunk_of_a_call_is_right_before_the_called_block() {
    // call AT + 10; ret; call AT + 10 behind it: one call from before, one from behind.
    let forward = [&[0xe8, 5, 0, 0, 0, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc][..], &[0x90, 0xc3]].concat();
    let back =
        [&[0xeb, 0x0e][..], &[0xcc; 8], &[0x90, 0xc3], &[0xcc; 4], &[0xe8, 0xf5, 0xff, 0xff, 0xff, 0xc3]]
            .concat();
    for code in [forward, back] {
        let mut program = TestProgram(code);
        let mut translation = Translation::new(TABLE_AT, TranslationSettings::default());
        translation.add_region(REGION_AT, 16);
        translation.enter(&mut program, AT).unwrap();
        let called = translation.enter(&mut program, AT + 10).unwrap();
        let last = before(&translation.take_writes(), called);
        assert!(last.starts_with("push ") || last.starts_with("inc qword"), "{last}");
    }
}

#[test]
fn the_lookup_stub_is_right_before_a_block_that_nothing_falls_into() {
    let (program, [start, _, one, _]) = scattered();
    let mut profiled = Hinted::new(program, &[(start, false), (one, true)]);
    let mut translation = entered(&mut profiled);
    let body = translation.enter(&mut profiled, one).unwrap();
    let last = before(&translation.take_writes(), body);
    assert_eq!(last, "mov rcx,[gs:8]");
}

#[test]
fn blocks_of_a_page_in_the_profile_are_translated_with_it() {
    let (program, [start, seldom, one, other]) = scattered();
    let mut profiled = Hinted::new(program, &[(start, false), (one, true), (other, true)]);
    let mut translation = entered(&mut profiled);
    let known = |address| translation.block_at(address).is_some();
    assert_eq!(
        [start, seldom, one, other].map(known),
        [true, false, true, false],
        "not the way, not the other page"
    );
    assert!(translation.is_indirect_entry(one));
    // The table has this entry already: no write is needed.
    let table = |write: &CodeWrite| (TABLE_AT..TABLE_AT + TABLE_BYTES).contains(&write.address);
    let writes = translation.take_writes();
    assert_eq!(writes.iter().filter(|write| table(write)).count(), 1);
    let first = translation.indirect(&mut profiled, one).unwrap();
    assert_eq!(translation.take_writes(), []);
    let place = translation.point_at(first).unwrap();
    assert_eq!(place.next, NextAddress::Known(one));
}

#[test]
fn where_earlier_runs_have_not_been_guesses_hold() {
    let (program, [start, seldom, one, _]) = scattered();
    let known = |code: &mut dyn CodeSource| {
        let translation = entered(code);
        [start, seldom, one].map(|address| translation.block_at(address).is_some())
    };
    let mut elsewhere = Hinted::new(TestProgram(program.0.clone()), &[(one, false)]);
    assert_eq!(known(&mut elsewhere), [true, true, false], "this page, but not this block");
    let mut program = program;
    assert_eq!(known(&mut program), [true, true, false]);
}

#[test]
fn a_profile_of_other_code_does_no_harm() {
    let mut program = mixture();
    let end = AT + program.0.len() as u64;
    let all: Vec<(u64, bool)> = (AT..end).map(|address| (address, true)).collect();
    program.0.extend([0x06; 32]);
    let mut profiled = Hinted::new(program, &all);
    let translation = entered(&mut profiled);
    assert!(
        (AT..end)
            .all(|address| translation.block_at(address).is_some() && translation.is_indirect_entry(address))
    );
    let marks = translation.regions[0].pc_entries();
    assert!(marks.into_iter().all(|entry| translation.resolve(&entry).is_some()));
}
