//! The emitted instructions.

use iced_x86::code_asm::*;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::super::budget::BudgetCharge;
use super::super::emit::{CodeEmitter, StubAddress, as_load};
use super::super::instruction::{OSZAP, STATUS};
use super::super::program_point::PcBits;
use super::super::versions::CheckedCode;
use super::*;

#[test]
fn a_counter_is_one_instruction_where_flags_do_not_matter() {
    emits(|out| out.count(clean(), 0x21000, true), &["inc qword [gs:21000h]"]);
    let kept = ["mov r11,[gs:21000h]", "lea r11,[r11+1]", "mov [gs:21000h],r11"];
    emits(|out| out.count(clean(), 0x21000, false), &kept);
}

#[test]
fn a_block_is_subtracted_from_the_budget_before_its_first_instruction() {
    let stops = |live, test, out: &mut CodeEmitter| {
        let (field, behind, at) = out.spend(clean(), BudgetCharge { instructions: 300, live }, test);
        out.fill(field, behind);
        assert_eq!(at.bits.has(PcBits::RCX), live & OSZAP != 0);
    };
    let carry = ["mov r11,[gs:18h]", "lea r11,[r11-12Ch]", "mov [gs:18h],r11", "inc r11"];
    emits(
        |out| stops(STATUS & !OSZAP, RcxTest::Loop, out),
        &[&carry[..], &["jle near 0000000030000022h"]].concat(),
    );
    emits(|out| stops(0, RcxTest::Loop, out), &["sub qword [gs:18h],12Ch", "js near 0000000030000013h"]);
    let kept = [
        "mov [gs:8],rcx",
        "mov rcx,[gs:18h]",
        "lea rcx,[rcx-12Ch]",
        "mov [gs:18h],rcx",
        "movzx ecx,byte [gs:1Fh]",
    ];
    let jrcxz = ["jrcxz 0000000030000032h", "jmp 0000000030000032h"];
    // The jump is in the immediate value.
    let hidden = ["lea ecx,[rcx+1]", "loop 0000000030000032h", "mov r11,0CCCCCC00000003E9h"];
    let back = ["mov rcx,[gs:8]"];
    emits(|out| stops(STATUS, RcxTest::Jrcxz, out), &[&kept[..], &jrcxz, &back].concat());
    emits(|out| stops(STATUS, RcxTest::Loop, out), &[&kept[..], &hidden, &back].concat());
}

#[test]
fn an_instruction_that_uses_r11_gets_the_programs_and_puts_it_back() {
    let (load, store) = ("mov r11,[gs:10h]", "mov [gs:10h],r11");
    let copied = |bytes: &[u8], expected: &[&str]| {
        let copy = |out: &mut CodeEmitter| {
            out.copy(clean(), &shape(bytes));
            out.release_r11(clean());
        };
        emits(copy, expected);
    };
    copied(&[0x48, 0x89, 0xc8], &["mov rax,rcx"]);
    copied(&[0x4c, 0x89, 0xd8], &[load, "mov rax,r11"]);
    copied(&[0x43, 0x8b, 0x04, 0x1a], &[load, "mov eax,[r10+r11]"]);
    copied(&[0x45, 0x31, 0xdb], &[load, "xor r11d,r11d", store]);
    copied(&[0x41, 0x89, 0xc3], &[load, "mov r11d,eax", store]);
    // All of it may stay, or a part.
    copied(&[0xf3, 0x49, 0x0f, 0x1e, 0xcb], &[load, "rdsspq r11", store]);
    copied(&[0xf3, 0x4c, 0x0f, 0xbc, 0xd8], &[load, "tzcnt r11,rax", store]);
    copied(&[0x41, 0x88, 0xc3], &[load, "mov r11b,al", store]);
    copied(&[0x66, 0x41, 0x89, 0xc3], &[load, "mov r11w,ax", store]);
    copied(&[0x4c, 0x0f, 0x44, 0xd8], &[load, "cmove r11,rax", store]);
    copied(&[0x4c, 0x87, 0xd8], &[load, "xchg r11,rax", store]);
    copied(&[0x4d, 0x8b, 0x1b], &[load, "mov r11,[r11]", store]);
    copied(&[0x41, 0x5b], &[load, "pop r11", store]);
}

#[test]
fn r11_stays_the_programs_until_it_is_needed() {
    let (reads, changes, neither) = ([0x4c, 0x89, 0xd8], [0x49, 0xff, 0xc3], [0x48, 0x89, 0xc8]);
    let copies = |instructions: &[[u8; 3]], out: &mut CodeEmitter| {
        instructions.iter().for_each(|bytes| out.copy(clean(), &shape(bytes)));
    };
    let loud = |out: &mut CodeEmitter| out.count(clean(), 0x21000, false);
    emits(
        |out| {
            copies(&[reads, neither, changes, reads, changes], out);
            loud(out);
            copies(&[reads], out);
            loud(out);
        },
        &[
            "mov r11,[gs:10h]",
            "mov rax,r11",
            "mov rax,rcx",
            "inc r11",
            "mov rax,r11",
            "inc r11",
            "mov [gs:10h],r11",
            "mov r11,[gs:21000h]",
            "lea r11,[r11+1]",
            "mov [gs:21000h],r11",
            "mov r11,[gs:10h]",
            "mov rax,r11",
            "mov r11,[gs:21000h]",
            "lea r11,[r11+1]",
            "mov [gs:21000h],r11",
        ],
    );
    // A counter that needs no register.
    emits(
        |out| {
            copies(&[changes], out);
            out.count(clean(), 0x21000, true);
            copies(&[reads], out);
            out.release_r11(clean());
        },
        &["mov r11,[gs:10h]", "inc r11", "inc qword [gs:21000h]", "mov rax,r11", "mov [gs:10h],r11"],
    );
}

#[test]
fn r11_is_in_the_slot_but_where_the_program_has_it() {
    let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
    out.copy(clean(), &shape(&[0x49, 0xff, 0xc3]));
    out.copy(clean(), &shape(&[0x48, 0x89, 0xc8]));
    out.release_r11(clean());
    out.system_call(clean(), AT + 2, clean(), TABLE_AT + FILTER);
    let (address, bytes, marks, _) = out.finish();
    let own = |i: &Instruction| {
        let at = (i.ip() - REGION_AT) as u32;
        marks.iter().any(|entry| entry.at == at && entry.bits.has(PcBits::OWN_R11))
    };
    let all = decoded(address, &bytes);
    let behind: Vec<_> = all.iter().filter(|i| own(i)).map(text).collect();
    let system_call = ["syscall", "lea rcx,[rel 400002h]", "mov [gs:10h],r11"];
    let block = ["inc r11", "mov rax,rcx", "mov [gs:10h],r11"];
    assert_eq!(behind, [&block[..], &system_call].concat());
}

#[test]
fn iterations_are_counted_by_what_rcx_holds() {
    emits(
        |out| out.subtract_rcx(clean(), 0x30000),
        &["mov r11,[gs:30000h]", "not r11", "lea r11,[r11+rcx]", "not r11", "mov [gs:30000h],r11"],
    );
}

#[test]
fn a_call_pushes_the_programs_return_address_and_keeps_its_own() {
    emits(
        |out| out.direct_thunk(clean(), AT + 5),
        &["movzx r11d,sp", "pop qword [gs:r11+10000h]", "push 400005h"],
    );
    emits(
        |out| out.indirect_thunk(clean(), FAR_AT, TABLE_AT, clean()),
        &[
            "movzx r11d,sp",
            "pop qword [gs:r11+10000h]",
            "push qword [rel 30000020h]",
            "movzx r11d,cx",
            "jmp qword [r11*8+7F000000h]",
        ],
    );
}

fn lookup_stub(address: u64, test: RcxTest, return_site: bool) -> impl FnOnce(&mut CodeEmitter) {
    let stub = StubAddress { address, otherwise: REGION_AT + 0x1000 };
    move |out| _ = out.lookup_stub(0, stub, None, test, return_site)
}

#[test]
fn a_stub_subtracts_its_address_and_adds_it_again() {
    let restored = ["mov rcx,[gs:8]"];
    let elsewhere = "jmp 0000000030001000h";
    let near = ["lea rcx,[rcx-400000h]", "jrcxz 000000003000000Eh", "jmp 0000000030000017h"];
    let back = ["lea rcx,[rcx+400000h]", elsewhere];
    let emitted = [&near[..], &restored, &back].concat();
    emits(lookup_stub(AT, RcxTest::Jrcxz, false), &emitted);
    emits(lookup_stub(AT, RcxTest::Jrcxz, true), &emitted);
    let far = [
        "mov r11,0FFFF800003000000h",
        "lea rcx,[rcx+r11]",
        "jrcxz 0000000030000015h",
        "jmp 000000003000001Eh",
    ];
    let back = ["mov r11,7FFFFD000000h", "lea rcx,[rcx+r11]", elsewhere];
    emits(lookup_stub(FAR_AT, RcxTest::Jrcxz, false), &[&far[..], &restored, &back].concat());
}

#[test]
fn the_usual_path_through_a_stub_with_a_loop_takes_no_jump() {
    let restored = ["mov rcx,[gs:8]"];
    let elsewhere = "jmp 0000000030001000h";
    let back = ["lea rcx,[rcx+400000h]", elsewhere];
    let near = ["lea rcx,[rcx-3FFFFFh]", "loop 0000000030000000h"];
    emits(lookup_stub(AT, RcxTest::Loop, false), &[&back[..], &near, &restored].concat());
    let back = ["mov r11,7FFFFD000000h", "lea rcx,[rcx+r11]", elsewhere];
    let far = ["mov r11,0FFFF800003000001h", "lea rcx,[rcx+r11]", "loop 0000000030000000h"];
    emits(lookup_stub(FAR_AT, RcxTest::Loop, false), &[&back[..], &far, &restored].concat());
}

#[test]
fn a_return_site_starts_with_its_check_and_hides_the_jump_out_of_it() {
    let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
    let stub = StubAddress { address: AT, otherwise: REGION_AT + 0x1000 };
    let emitted = out.lookup_stub(0, stub, None, RcxTest::Loop, true);
    assert_eq!(emitted.start, REGION_AT);
    let (address, bytes, marks, _) = out.finish();
    let usual: Vec<String> = decoded(address, &bytes).iter().map(text).take(4).collect();
    assert!(usual[2].starts_with("mov r11,0CCCCCC"), "{usual:?}");
    assert_eq!(usual[..2], ["lea rcx,[rcx-3FFFFFh]", "loop 000000003000000Bh"]);
    assert_eq!(usual[3], "mov rcx,[gs:8]");
    // Where the loop is taken, the immediate value is a jump to the code that restores rcx.
    let taken = &decoded(address + 0xb, &bytes[0xb..])[0];
    let out_of_it = (taken.near_branch64() - address) as usize;
    let rest: Vec<String> =
        decoded(taken.near_branch64(), &bytes[out_of_it..]).iter().map(text).take(2).collect();
    assert_eq!((taken.len(), taken.mnemonic()), (5, Mnemonic::Jmp));
    assert_eq!(rest, ["lea rcx,[rcx+400000h]", "jmp 0000000030001000h"]);
    assert!(marks.iter().any(|entry| entry.at == 0xb && entry.bits.has(PcBits::TO_STUB_AND_RCX)));
}

#[test]
fn a_stub_too_far_from_the_next_one_jumps_by_an_address_in_memory() {
    let stub = StubAddress { address: AT, otherwise: FAR_AT };
    for test in [RcxTest::Jrcxz, RcxTest::Loop] {
        let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
        out.lookup_stub(0, stub, None, test, false);
        let (address, bytes, ..) = out.finish();
        let all = decoded(address, &bytes);
        let jump = all.iter().find(|i| text(i).starts_with("jmp qword [rel ")).unwrap();
        let at = (jump.memory_displacement64() - address) as usize;
        assert_eq!(bytes[at..at + 8], FAR_AT.to_le_bytes());
    }
}

#[test]
fn every_loop_of_a_long_check_reaches_the_path_for_other_bytes() {
    let bytes: Vec<u8> = (0..127).collect();
    for len in 1..bytes.len() {
        let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
        let code = CheckedCode { address: AT, bytes: &bytes[..len], next: REGION_AT + 0x1000 };
        let check = out.check(clean(), code, RcxTest::Loop);
        let (address, emitted, ..) = out.finish();
        let differs = decoded(address, &emitted)[0];
        assert_eq!(text(&differs), "mov rcx,[gs:8]");
        let checked = decoded(check, &emitted[(check - address) as usize..]);
        let loops: Vec<u64> = checked
            .iter()
            .filter(|i| i.mnemonic() == Mnemonic::Loop)
            .map(Instruction::near_branch64)
            .collect();
        assert_eq!(loops.len(), len / 8 + (len % 8).count_ones() as usize, "{len}");
        for to in loops.into_iter().filter(|to| *to != address) {
            let jump = &decoded(to, &emitted[(to - address) as usize..])[0];
            assert_eq!((jump.len(), text(jump)), (5, format!("jmp {address:016X}h")), "{len}");
        }
    }
}

#[test]
fn a_check_subtracts_what_was_translated_from_the_programs_bytes() {
    let code = || CheckedCode { address: AT, bytes: &[1, 2, 3, 4, 0], next: REGION_AT + 0x1000 };
    let head = ["mov rcx,[gs:8]", "jmp 0000000030001000h", "mov [gs:8],rcx"];
    let steps = [
        "mov ecx,[rel 400000h]",
        "lea ecx,[rcx-4030201h]",
        "jrcxz 000000003000002Ah",
        "jmp 0000000030000000h",
        "movzx ecx,byte [rel 400004h]",
        "lea ecx,[rcx]",
        "jrcxz 000000003000003Eh",
        "jmp 0000000030000000h",
        "mov rcx,[gs:8]",
    ];
    emits(|out| _ = out.check(clean(), code(), RcxTest::Jrcxz), &[&head[..], &steps].concat());
    let steps = [
        "mov ecx,[rel 400000h]",
        "lea ecx,[rcx-4030200h]",
        "loop 0000000030000000h",
        "movzx ecx,byte [rel 400004h]",
        "lea ecx,[rcx+1]",
        "loop 0000000030000000h",
        "mov rcx,[gs:8]",
    ];
    emits(|out| _ = out.check(clean(), code(), RcxTest::Loop), &[&head[..], &steps].concat());
}

#[test]
fn amds_processors_get_loops() {
    let vendor = |name: &[u8; 12]| {
        let word = |at: usize| u32::from_le_bytes(name[at..at + 4].try_into().unwrap());
        RcxTest::of_processor([word(0), word(4), word(8)])
    };
    assert_eq!(vendor(b"AuthenticAMD"), RcxTest::Loop);
    assert_eq!(vendor(b"HygonGenuine"), RcxTest::Loop);
    assert_eq!(vendor(b"GenuineIntel"), RcxTest::Jrcxz);
    assert_eq!(vendor(b"AMDisbetter!"), RcxTest::Jrcxz);
}

#[test]
fn a_return_drops_the_programs_address_and_goes_by_its_own() {
    let usual = ["mov [gs:8],rcx", "movzx r11d,sp", "pop rcx"];
    let last = ["push qword [gs:r11+10000h]", "ret"];
    emits(|out| ret(out, 0, None), &[&usual[..], &last].concat());
    emits(|out| ret(out, 24, None), &[&usual[..], &["lea rsp,[rsp+18h]"], &last].concat());
}

#[test]
fn an_indirect_branch_is_counted_by_the_register_that_is_ours() {
    let count = ["mov r11,[gs:21000h]", "lea r11,[r11+1]", "mov [gs:21000h],r11"];
    let kept = ["mov [gs:8],rcx"];
    let rest = ["movzx r11d,sp", "pop rcx", "push qword [gs:r11+10000h]", "ret"];
    let outside = Some(0x21000);
    emits(|out| ret(out, 0, outside), &[&kept[..], &count, &rest].concat());
    // The branch may use r11.
    let jump = shape(&[0x41, 0xff, 0xe3]);
    let rest = ["movzx r11d,cx", "jmp qword [r11*8+7F000000h]"];
    emits(
        |out| {
            let (_, after) = out.begin_indirect_jump(clean(), &jump, clean(), outside);
            out.end_indirect_jump(TABLE_AT, after);
        },
        &[&kept[..], &["mov r11,[gs:10h]", "mov rcx,r11"], &count, &rest].concat(),
    );
}

#[test]
fn a_system_call_stops_by_the_filter_and_leaves_its_own_address() {
    emits(
        |out| _ = out.system_call(clean(), AT + 2, clean(), TABLE_AT + FILTER),
        &[
            "mov r11,[gs:10h]",
            "mov [gs:8],rcx",
            "movzx ecx,ax",
            "movzx ecx,byte [rcx+7F080000h]",
            "jrcxz 000000003000001Fh",
            "int3",
            "syscall",
            "lea rcx,[rel 400002h]",
            "mov [gs:10h],r11",
        ],
    );
}

#[test]
fn short_branches_reach_far() {
    let branch = |bytes: &[u8], expected: &[&str]| {
        let shape = shape(bytes);
        emits(|out| _ = out.conditional(clean(), clean().with(PcBits::TAKEN), &shape), expected);
    };
    branch(&[0x74, 0x10], &["je near 0000000030000006h"]);
    branch(&[0x2e, 0x7f, 0x10], &["jg near 0000000030000006h"]);
    branch(&[0x0f, 0x8c, 1, 0, 0, 0], &["jl near 0000000030000006h"]);
    let over = ["jmp short 0000000030000009h", "jmp 0000000030000009h"];
    branch(&[0xe3, 0x10], &[&["jrcxz 0000000030000004h"][..], &over].concat());
    branch(&[0xe0, 0x10], &[&["loopne 0000000030000004h"][..], &over].concat());
    let over = ["jmp short 000000003000000Ah", "jmp 000000003000000Ah"];
    branch(&[0x67, 0xe3, 0x10], &[&["jecxz 0000000030000005h"][..], &over].concat());
}

/// Every addressing mode.
fn operands() -> Vec<AsmMemoryOperand> {
    let bases = [rax, rcx, rdx, rbx, rsp, rbp, r11, rdi, r8, r12, r13, r15];
    let displacements = [0, 8, -8, 0x1234, -0x1234_5678];
    let mut all = vec![qword_ptr(0x60_0000), qword_ptr(-8)];
    for base in bases {
        all.extend(displacements.map(|displacement| qword_ptr(base + displacement)));
        for index in [rax, rcx, rbp, r9, r12, r13] {
            all.extend([1, 2, 4, 8].map(|scale| qword_ptr(base + index * scale + 16)));
            all.push(qword_ptr(index * 8 + 0x60_0000));
        }
    }
    all.extend([qword_ptr(eax + 4), qword_ptr(r13d + r9d * 2 - 1)]);
    all.iter().flat_map(|operand| [*operand, operand.fs()]).collect()
}

#[test]
fn an_indirect_branch_becomes_a_load_from_the_same_place() {
    for operand in operands() {
        for is_call in [false, true] {
            let mut a = CodeAssembler::new(64).unwrap();
            if is_call { a.call(operand) } else { a.jmp(operand) }.unwrap();
            let bytes = a.assemble(AT).unwrap();
            loads_from(&bytes, &decoded(AT, &bytes)[0]);
        }
    }
}

#[track_caller]
fn loads_from(bytes: &[u8], branch: &Instruction) {
    let load = as_load(&shape(bytes));
    let load = decoded(AT, load.code());
    let name = text(branch);
    assert_eq!(load.len(), 1, "{name}");
    let load = &load[0];
    assert_eq!((load.mnemonic(), load.op0_register()), (Mnemonic::Mov, Register::RCX), "{name}");
    assert_eq!(load.op1_kind(), OpKind::Memory, "{name}");
    let place = |i: &Instruction| {
        let registers = (i.memory_segment(), i.memory_base(), i.memory_index());
        (registers, i.memory_index_scale(), i.memory_displacement64())
    };
    assert_eq!(place(load), place(branch), "{name}: {}", text(load));
}

#[test]
fn prefixes_that_do_nothing_do_not_change_the_load() {
    let check = |bytes: &[u8]| loads_from(bytes, &decoded(AT, bytes)[0]);
    check(&[0x3e, 0xff, 0x20]);
    check(&[0xf2, 0x41, 0xff, 0x20]);
    check(&[0x64, 0x43, 0xff, 0x24, 0x01]);
    check(&[0x66, 0x48, 0xff, 0x10]);
    // A REX prefix in front of another prefix is none.
    check(&[0x41, 0x3e, 0xff, 0x20]);
    check(&[0x43, 0x64, 0xff, 0x24, 0x01]);
    // The last one of two segment prefixes counts.
    check(&[0x65, 0x64, 0xff, 0x20]);
}

#[test]
fn a_branch_as_long_as_an_instruction_can_be_becomes_a_load_that_is_not_longer() {
    let check = |prefix: u8, rest: &[u8]| {
        let bytes = [vec![prefix; 15 - rest.len()], rest.to_vec()].concat();
        loads_from(&bytes, &decoded(AT, &bytes)[0]);
    };
    for prefix in [0x64, 0x67, 0x3e, 0xf2] {
        check(prefix, &[0xff, 0x20]); // jmp [rax]
        check(prefix, &[0xff, 0x10]); // call [rax]
        check(prefix, &[0x41, 0xff, 0x27]); // jmp [r15]
        check(prefix, &[0x43, 0xff, 0xa4, 0xc8, 4, 3, 2, 1]); // jmp [r8+r9*8+1020304h]
    }
}

#[test]
fn a_branch_by_the_instruction_pointer_loads_from_where_it_pointed() {
    let shape = shape(&[0xff, 0x25, 0x10, 0, 0, 0]);
    let load = as_load(&shape);
    assert_eq!(load.relative, Some((3, AT + 0x16)));
    emits(|out| out.copy(clean(), &load), &["mov rcx,[rel 400016h]"]);
}
