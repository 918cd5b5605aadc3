//! Loops of one block, which count in a register.

use iced_x86::Mnemonic;
use iced_x86::code_asm::*;

use super::super::emit::{CodeEmitter, len_of_conditional};
use super::super::program_point::PcBits;
use super::*;

/// mov ecx, 5; some instructions of a loop that ends with `end`, and a return.
fn looping(
    round: impl FnOnce(&mut CodeAssembler),
    end: impl FnOnce(&mut CodeAssembler, CodeLabel),
) -> TestProgram {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut head = a.create_label();
    a.mov(ecx, 5).unwrap();
    a.set_label(&mut head).unwrap();
    round(&mut a);
    end(&mut a, head);
    a.ret().unwrap();
    TestProgram(a.assemble(AT).unwrap())
}

fn while_not_zero(a: &mut CodeAssembler, head: CodeLabel) {
    a.dec(ecx).unwrap();
    a.jne(head).unwrap();
}

/// The instructions of the block behind the first, each with three facts: r11 has the counter, the block is
/// counted, and the number of instructions done.
fn round(mut program: TestProgram) -> Vec<(String, (bool, bool, u16))> {
    let mut translation = Translation::new(TABLE_AT, TranslationSettings::default());
    translation.add_region(REGION_AT, 16);
    translation.enter(&mut program, AT).unwrap();
    let writes = translation.take_writes();
    let own = translation.block_at(AT + 5).unwrap();
    let code = writes.iter().max_by_key(|write| write.bytes.len()).unwrap();
    let known = decoded(code.address, &code.bytes).into_iter().filter_map(|instruction| {
        let place = translation.point_at(instruction.ip())?;
        let FlowState::In { block, phase, done, .. } = place.flow else { return None };
        let counts = place.counter.is_some();
        assert!(!counts || (place.counter == translation.block_counter(own) && place.repair.r11));
        (block == own && instruction.mnemonic() != Mnemonic::Nop)
            .then(|| (text(&instruction), (counts, phase == CountPhase::Counted, done)))
    });
    known.collect()
}

#[test]
fn a_loop_of_one_block_counts_in_a_register() {
    let found = round(looping(|a| a.add(rax, rbx).unwrap(), while_not_zero));
    let (texts, states): (Vec<String>, Vec<_>) = found.into_iter().unzip();
    let [load, count, add, dec, jump, store] = &texts[..] else { panic!("{texts:?}") };
    let counter = load.strip_prefix("mov r11,").unwrap();
    assert_eq!(
        [count, add, dec, store],
        ["inc r11", "add rax,rbx", "dec ecx", &format!("mov {counter},r11")]
    );
    assert!(jump.starts_with("jne"), "{jump}");
    let counted = |done| (true, true, done);
    assert_eq!(states, [(false, false, 0), (true, false, 0), counted(0), counted(1), counted(2), counted(3)]);
}

#[test]
fn a_loop_with_flags_that_live_on_counts_without_changing_them() {
    let found = round(looping(|a| a.cmove(rax, rbx).unwrap(), |a, head| a.loop_(head).unwrap()));
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(texts[1..3], ["lea r11,[r11+1]", "cmove rax,rbx"]);
    // Skips the jump to the next block.
    assert!(texts[3].starts_with("loop") && texts[4].starts_with("jmp"), "{texts:?}");
    // The back edge: the counter is still in the register.
    assert!(texts[5].starts_with("jmp") && found[5].1 == (true, true, 2), "{found:?}");
}

#[test]
fn a_loop_that_needs_r11_counts_in_memory() {
    let counting = |program| round(program).iter().any(|(_, (counting, ..))| *counting);
    assert!(counting(looping(|a| a.add(rax, rbx).unwrap(), while_not_zero)));
    assert!(!counting(looping(|a| a.add(rax, r11).unwrap(), while_not_zero)), "the program's r11");
    assert!(!counting(looping(|a| a.rep().stosb().unwrap(), while_not_zero)), "units");
}

#[test]
fn a_short_loop_lies_in_one_line() {
    const LINE: u64 = 64;
    for before in 0..LINE as usize {
        for len in [1, 20, 64] {
            let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
            out.skip(before);
            out.align_to_line(clean(), 9, len);
            let padding = decoded(REGION_AT, &out.finish().1[before..]);
            assert!(
                padding
                    .iter()
                    .take_while(|i| i.mnemonic() != Mnemonic::Int3)
                    .all(|i| i.mnemonic() == Mnemonic::Nop)
            );
        }
    }
    let start = |before: usize, len: usize| {
        let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
        out.skip(before);
        out.align_to_line(clean(), 9, len);
        out.here() + 9 - REGION_AT
    };
    assert_eq!((start(0, 55), start(0, 56), start(0, 64), start(0, 65)), (9, 64, 64, 9));
    assert_eq!((start(54, 1), start(54, 2), start(55, 64)), (63, 64, 64));
}

#[test]
fn a_conditional_branch_is_as_long_as_is_said() {
    let branches: [&[u8]; 7] = [
        &[0x75, 2],
        &[0x2e, 0x75, 2],
        &[0x0f, 0x85, 2, 0, 0, 0],
        &[0xe2, 2],
        &[0xe0, 2],
        &[0xe3, 2],
        &[0x67, 0xe3, 2],
    ];
    for branch in branches {
        let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
        out.conditional(clean(), clean().with(PcBits::TAKEN), &shape(branch));
        assert_eq!(out.here() - REGION_AT, len_of_conditional(&shape(branch)) as u64, "{branch:x?}");
    }
}
