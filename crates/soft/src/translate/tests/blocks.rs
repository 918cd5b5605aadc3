//! How code is divided into blocks, and where their flags are dead.

use super::super::instruction::STATUS;
use super::*;

#[test]
fn a_flag_is_dead_only_when_a_new_value_is_sure() {
    const CF: u8 = 32;
    const ZF: u8 = 4;
    const OF: u8 = 1;
    const AF: u8 = 8;
    let check = |bytes: &[u8], reads: u8, kills: u8| {
        let shape = shape(bytes);
        assert_eq!((shape.reads, shape.kills), (reads, kills), "{}", text(&decoded(AT, bytes)[0]));
    };
    check(&[0x48, 0x01, 0xc8], 0, STATUS); // add
    check(&[0x48, 0x21, 0xc8], 0, STATUS); // and: AF too
    check(&[0x48, 0x11, 0xc8], CF, STATUS); // adc
    check(&[0x48, 0xff, 0xc0], 0, STATUS & !CF); // inc
    check(&[0x48, 0xd3, 0xe0], 0, 0); // shl by cl, which may be zero
    check(&[0x48, 0xc1, 0xe0, 0], 0, 0); // shl by 0
    check(&[0xc1, 0xe0, 32], 0, 0); // shl by 32, which is 0
    check(&[0x48, 0xc1, 0xe0, 3], 0, STATUS & !(AF | OF)); // shl by 3
    check(&[0x48, 0xd1, 0xe0], 0, STATUS & !AF); // shl by 1
    check(&[0xc0, 0xd0, 9], 0, 0); // rcl al by 9, a full turn: its value does not matter
    check(&[0x48, 0xf7, 0xe1], 0, CF | OF); // mul
    check(&[0x48, 0xf7, 0xf1], 0, 0); // div
    check(&[0x48, 0x0f, 0xbc, 0xc1], 0, ZF); // bsf
    check(&[0xf3, 0x48, 0x0f, 0xbc, 0xc1], 0, ZF | CF); // tzcnt
    check(&[0x66, 0x48, 0x0f, 0x38, 0xf6, 0xc1], CF, CF); // adcx
    check(&[0xf3, 0x48, 0x0f, 0x38, 0xf6, 0xc1], OF, OF); // adox
    check(&[0x9f], STATUS & !OF, 0); // lahf
    check(&[0x9e], 0, STATUS & !OF); // sahf
    check(&[0x9c], STATUS, 0); // pushf
    check(&[0x9d], 0, STATUS); // popf
    check(&[0xf5], CF, CF); // cmc
    check(&[0xa6], 0, 0); // cmpsb, as if it were repeated
    check(&[0xf3, 0xa6], 0, 0); // repe cmpsb
    check(&[0x0f, 0x05], STATUS, STATUS); // syscall: r11
    check(&[0x0f, 0x44, 0xc1], ZF, 0); // cmove
    check(&[0x0f, 0xb1, 0x0f], 0, STATUS); // cmpxchg
    check(&[0x74, 0], ZF, 0); // je
    check(&[0xe1, 0], ZF, 0); // loope
}

/// A jump at [`AT`], to code far away that accesses data beside it.
struct FarJump;

impl FarJump {
    const TARGET: u64 = AT + 0x7ff0_0000;
}

impl CodeSource for FarJump {
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
        let mut page = Box::new([0xcc; PAGE as usize]);
        if address == FarJump::TARGET {
            // lea rdi, [rip + 0x58facf]; ret
            let code = [0x48, 0x8d, 0x3d, 0xcf, 0xfa, 0x58, 0, 0xc3];
            page[..code.len()].copy_from_slice(&code);
            return Some(page);
        }
        let mut a = CodeAssembler::new(64).unwrap();
        a.jmp(FarJump::TARGET).unwrap();
        TestProgram(a.assemble(AT).unwrap()).page(address)
    }
}

#[test]
fn code_far_from_the_region_is_left_to_another_one() {
    let found_from = |region: u64| {
        let bounds = (region, region + REGION);
        let pages = &mut CodePages::default();
        let found = BlockBatch::find(pages, &mut FarJump, AT, bounds, &|_| 0, Default::default());
        let of = |pending: &super::super::batch::PendingBlock| (pending.address, pending.terminator);
        found.blocks.iter().map(of).collect::<Vec<_>>()
    };
    let jump = (AT, Terminator::Jump { target: FarJump::TARGET });
    assert_eq!(found_from(0x1000_0000), [jump], "the target is not near");
    let both = [jump, (FarJump::TARGET, Terminator::Return { drops: 0 })];
    assert_eq!(found_from(0x4000_0000), both);
}

#[test]
fn blocks_start_wherever_something_jumps_to_and_may_overlap() {
    // je into the middle of the next instruction: mov eax, ...; or nop; nop; nop; ret.
    let mut program = TestProgram(vec![0x74, 1, 0xb8, 0x90, 0x90, 0x90, 0xc3, 0xc3]);
    let found = batch(&mut program, AT);
    let starts: Vec<(u64, usize)> =
        found.blocks.iter().map(|pending| (pending.address, pending.len())).collect();
    assert_eq!(starts, [(AT, 1), (AT + 2, 2), (AT + 3, 4)]);
    let ends: Vec<Terminator> = found.blocks.iter().map(|pending| pending.terminator).collect();
    let ret = Terminator::Return { drops: 0 };
    assert_eq!(ends, [Terminator::Conditional { taken: AT + 3, not_taken: AT + 2 }, ret, ret]);
}

#[test]
fn a_loop_is_deeper_and_its_flags_live_around_it() {
    // clc; head: adc rax, rax; dec ecx; jne head; ret
    let mut program = TestProgram(vec![0xf8, 0x48, 0x11, 0xc0, 0xff, 0xc9, 0x75, 0xf9, 0xc3]);
    let found = batch(&mut program, AT);
    let head = &found.blocks[found.at(AT + 1).unwrap()];
    assert_eq!((head.expected, head.live_in), (800, 32));
    // Only the carry lives from adc to dec, which keeps it.
    assert_eq!(head.flags_dead, Some(0));
}
