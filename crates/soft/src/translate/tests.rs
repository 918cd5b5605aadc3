//! The emitted code, instruction by instruction, and the program point of each.

use iced_x86::code_asm::*;
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, Mnemonic, NasmFormatter, OpKind, Register};

use super::batch::BlockBatch;
use super::budget::BudgetCharge;
use super::emit::{CodeEmitter, EmitState, as_load, len_of_conditional};
use super::instruction::{DecodedInstruction, OSZAP, STATUS};
use super::pages::CodePages;
use super::program_point::PcBits;
use super::*;
use crate::ExecutionEvent;
use crate::profile::{BlockHeat, FileProfile, Heat};

const AT: u64 = 0x40_0000;
const REGION_AT: u64 = 0x3000_0000;
const TABLE_AT: u64 = 0x7f00_0000;

/// Code at [`AT`], and nothing executable elsewhere.
struct TestProgram(Vec<u8>);

impl CodeSource for TestProgram {
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
        let bytes = self.0.get(usize::try_from(address.checked_sub(AT)?).ok()?..)?;
        let mut page = Box::new([0xcc; PAGE as usize]);
        let count = bytes.len().min(PAGE as usize);
        page[..count].copy_from_slice(&bytes[..count]);
        Some(page)
    }
}

fn decoded(address: u64, bytes: &[u8]) -> Vec<Instruction> {
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).into_iter().collect()
}

fn text(instruction: &Instruction) -> String {
    let mut text = String::new();
    NasmFormatter::new().format(instruction, &mut text);
    text
}

/// An address of libraries, which no instruction can contain.
const FAR_AT: u64 = 0x7fff_fd00_0000;

fn shape(bytes: &[u8]) -> DecodedInstruction {
    DecodedInstruction::decode(bytes, AT).unwrap()
}

fn clean() -> EmitState {
    EmitState { subject: 0, done: 0, bits: PcBits::CLEAN }
}

/// The instructions that are emitted, up to the first stop behind them.
#[track_caller]
fn emits(emit: impl FnOnce(&mut CodeEmitter), expected: &[&str]) {
    let mut out = CodeEmitter::new(REGION_AT, 0, Default::default());
    emit(&mut out);
    let (address, bytes, marks, _) = out.finish();
    let all = decoded(address, &bytes);
    let marked = all.iter().filter(|i| marks.iter().any(|entry| REGION_AT + u64::from(entry.at) == i.ip()));
    assert_eq!(marked.map(text).collect::<Vec<_>>(), expected);
}

#[test]
fn a_counter_is_one_instruction_where_flags_do_not_matter() {
    emits(|out| out.count(clean(), 0x21000, true), &["inc qword [gs:21000h]"]);
    let kept = ["mov r11,[gs:21000h]", "lea r11,[r11+1]", "mov [gs:21000h],r11"];
    emits(|out| out.count(clean(), 0x21000, false), &kept);
}

#[test]
fn a_block_is_subtracted_from_the_budget_before_its_first_instruction() {
    let stops = |live, out: &mut CodeEmitter| {
        let (field, behind, at) = out.spend(clean(), BudgetCharge { instructions: 300, live });
        out.fill(field, behind);
        assert_eq!(at.bits.has(PcBits::RCX), live & OSZAP != 0);
    };
    let carry = ["mov r11,[gs:18h]", "lea r11,[r11-12Ch]", "mov [gs:18h],r11", "inc r11"];
    emits(|out| stops(STATUS & !OSZAP, out), &[&carry[..], &["jle near 0000000030000022h"]].concat());
    emits(|out| stops(0, out), &["sub qword [gs:18h],12Ch", "js near 0000000030000013h"]);
    let kept = [
        "mov [gs:8],rcx",
        "mov rcx,[gs:18h]",
        "lea rcx,[rcx-12Ch]",
        "mov [gs:18h],rcx",
        "movzx ecx,byte [gs:1Fh]",
        "jrcxz 0000000030000032h",
        "jmp 0000000030000032h",
        "mov rcx,[gs:8]",
    ];
    emits(|out| stops(STATUS, out), &kept);
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

#[test]
fn a_stub_subtracts_its_address_and_adds_it_again() {
    let restored = ["mov rcx,[gs:8]"];
    let near = [
        "lea rcx,[rcx-400000h]",
        "jrcxz 0000000030000016h",
        "lea rcx,[rcx+400000h]",
        "jmp qword [rel 30000016h]",
    ];
    emits(|out| _ = out.lookup_stub(0, AT, None), &[&near[..], &restored].concat());
    let far = [
        "mov r11,0FFFF800003000000h",
        "lea rcx,[rcx+r11]",
        "jrcxz 0000000030000024h",
        "mov r11,7FFFFD000000h",
        "lea rcx,[rcx+r11]",
        "jmp qword [rel 30000024h]",
    ];
    emits(|out| _ = out.lookup_stub(0, FAR_AT, None), &[&far[..], &restored].concat());
}

fn ret(out: &mut CodeEmitter, drops: u16, outside: Option<u32>) {
    let (at, after) = out.begin_return(clean(), clean(), outside);
    out.end_return(at, drops, after);
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

fn batch(program: &mut TestProgram, entry: u64) -> BlockBatch {
    let bounds = (REGION_AT, REGION_AT + REGION);
    BlockBatch::find(&mut CodePages::default(), program, entry, bounds, &|_| 0, Default::default())
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

/// A bit of everything: calls, tables, loops, strings, system calls, faults.
fn mixture() -> TestProgram {
    let mut a = CodeAssembler::new(64).unwrap();
    let (mut head, mut function, mut end) = (a.create_label(), a.create_label(), a.create_label());
    a.call(function).unwrap();
    a.mov(ecx, 5).unwrap();
    a.set_label(&mut head).unwrap();
    a.adc(rax, qword_ptr(AT + 0x2000)).unwrap();
    a.inc(r11).unwrap();
    a.rep().movsb().unwrap();
    a.repne().scasb().unwrap();
    a.jb(end).unwrap();
    a.call(qword_ptr(rbx + rcx * 8)).unwrap();
    a.inc(r11).unwrap();
    a.call(r11).unwrap();
    a.loop_(head).unwrap();
    a.inc(r11).unwrap();
    a.syscall().unwrap();
    a.jrcxz(end).unwrap();
    a.jmp(qword_ptr(rax * 8 + 0x60_0000)).unwrap();
    a.set_label(&mut end).unwrap();
    a.inc(r11).unwrap();
    a.int3().unwrap();
    a.ud2().unwrap();
    a.set_label(&mut function).unwrap();
    a.add(qword_ptr(rsp), 0).unwrap();
    a.ret_1(8).unwrap();
    a.mov(gs, eax).unwrap();
    TestProgram(a.assemble(AT).unwrap())
}

/// All writes of code that a translation makes until everything is linked.
fn translated(program: &mut TestProgram) -> (Translation, Vec<CodeWrite>) {
    let mut translation = Translation::new(TABLE_AT, TranslationSettings::default());
    translation.add_region(REGION_AT, 16);
    translation.enter(program, AT).unwrap();
    let mut writes = translation.take_writes();
    for address in [AT + 5, AT + 10] {
        translation.indirect(program, address).unwrap();
    }
    let stops: Vec<u64> = translation.exit_stubs.keys().copied().collect();
    for stop in stops {
        translation.link(program, stop).unwrap();
    }
    writes.extend(translation.take_writes());
    (translation, writes)
}

#[test]
fn every_emitted_instruction_has_a_program_point() {
    let mut program = mixture();
    let (translation, writes) = translated(&mut program);
    let starts: Vec<u64> = decoded(AT, &program.0).iter().map(Instruction::ip).collect();
    let mut seen = 0;
    for write in writes.iter().filter(|write| write.bytes.len() > 8) {
        for instruction in decoded(write.address, &write.bytes) {
            let Some(place) = translation.point_at(instruction.ip()) else { continue };
            seen += 1;
            if let NextAddress::Known(address) = place.next {
                let known = starts.contains(&address) || address == AT + program.0.len() as u64;
                assert!(known, "{} leads to {address:#x}", text(&instruction));
            }
        }
    }
    let marks: usize = translation.regions.iter().map(|region| region.pc_entries().count()).sum();
    assert!(marks > 100, "{marks}");
    assert_eq!(seen, marks, "marks that are at no instruction");
    let resolved = translation.regions[0].pc_entries().filter(|entry| translation.resolve(entry).is_some());
    assert_eq!(resolved.count(), marks, "marks that lead nowhere");
}

#[test]
fn an_instruction_that_changes_r11_is_done_where_it_goes_to_the_slot() {
    let mut program = mixture();
    let behind: Vec<u64> =
        decoded(AT, &program.0).iter().filter(|i| text(i) == "inc r11").map(Instruction::next_ip).collect();
    let (translation, writes) = translated(&mut program);
    let mut stores = Vec::new();
    for write in writes.iter().filter(|write| write.bytes.len() > 8) {
        for store in decoded(write.address, &write.bytes).iter().filter(|i| text(i) == "mov [gs:10h],r11") {
            let place = translation.point_at(store.ip()).unwrap();
            assert!(!place.repair.r11, "{:x}", store.ip());
            let NextAddress::Known(address) = place.next else { panic!("{:x}", store.ip()) };
            stores.push(address);
        }
    }
    assert!(behind.iter().all(|address| stores.contains(address)), "{behind:x?} {stores:x?}");
}

#[test]
fn an_indirect_call_takes_r11_where_the_program_has_it() {
    let mut a = CodeAssembler::new(64).unwrap();
    a.inc(r11).unwrap();
    a.call(r11).unwrap();
    let mut program = TestProgram(a.assemble(AT).unwrap());
    let writes = entered(&mut program).take_writes();
    let all: Vec<String> =
        writes.iter().flat_map(|write| decoded(write.address, &write.bytes)).map(|i| text(&i)).collect();
    let start = all.iter().position(|text| text == "inc r11").unwrap();
    assert_eq!(all[start + 1..start + 4], ["mov [gs:10h],r11", "mov [gs:8],rcx", "mov rcx,r11"]);
}

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

#[test]
fn an_address_without_code_has_no_program_point() {
    let mut program = mixture();
    let (translation, _) = translated(&mut program);
    let body = translation.blocks[0].body;
    assert!(translation.point_at(body).is_some());
    assert_eq!(translation.point_at(body + 1), None, "the middle of an instruction");
    assert_eq!(translation.point_at(AT), None);
    assert_eq!(translation.point_at(REGION_AT + REGION - 1), None);
}

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

/// The same code with a profile.
struct Hinted {
    program: TestProgram,
    profile: FileProfile,
}

impl Hinted {
    fn new(program: TestProgram, blocks: &[(u64, bool)]) -> Hinted {
        let mut profile = FileProfile::default();
        for (address, entrance) in blocks {
            let heats = BlockHeat { block: Heat::of(64), ..BlockHeat::default() };
            profile.learn(((address - AT) / PAGE) as u32, (address % PAGE) as u16, heats, *entrance);
        }
        Hinted { program, profile }
    }
}

impl CodeSource for Hinted {
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
        self.program.page(address)
    }

    fn origin(&mut self, address: u64) -> Option<FilePage> {
        let page = ((address - AT) / PAGE) as u32;
        Some(FilePage { file: 0, page, profile: self.profile.page(page) })
    }
}

/// The exits of the first block's branch that a translation counts, by the heat of each exit. The successors
/// are equally hot.
fn counted_ways(exits: [u64; 2]) -> [bool; 2] {
    // jz over a nop, to where both meet.
    let mut code = Hinted::new(TestProgram(vec![0x85, 0xc0, 0x74, 0x03, 0x90, 0xeb, 0x01, 0x90, 0xc3]), &[]);
    for (offset, exits) in [(0, exits), (4, [0, 1000]), (7, [1000, 0]), (8, [0, 1000])] {
        let heats = BlockHeat { block: Heat::of(1000), exits: exits.map(Heat::of), entry: Heat::default() };
        code.profile.learn(0, offset, heats, false);
    }
    let translation = entered(&mut code);
    let first = translation.block(translation.block_at(AT).unwrap());
    first.edges.map(|edge| translation.flow().counter_of(edge.unwrap()).is_some())
}

#[test]
fn counters_are_where_earlier_runs_have_gone_less_often() {
    assert_eq!(counted_ways([1000, 2]), [false, true]);
    assert_eq!(counted_ways([2, 1000]), [true, false]);
    assert_eq!(counted_ways([500, 500]), [true, false], "a jump less");
}

#[test]
fn units_that_nobody_wants_are_not_counted() {
    // rep movsb; a load under a mask; ret.
    let code = vec![0xf3, 0xa4, 0x62, 0xf1, 0x7f, 0x29, 0x6f, 0x06, 0xc3];
    let units = |counted| {
        let mut translation =
            Translation::new(TABLE_AT, TranslationSettings { counted, ..TranslationSettings::default() });
        translation.add_region(REGION_AT, 16);
        translation.enter(&mut TestProgram(code.clone()), AT).unwrap();
        translation.unit_counters()
    };
    assert_eq!(units(AddendKinds::OF_UNITS), 2);
    assert_eq!(units(AddendKinds::needed_for([ExecutionEvent::Loads])), 1);
    assert_eq!(
        units(AddendKinds::needed_for([ExecutionEvent::Instructions, ExecutionEvent::TakenBranches])),
        0
    );
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

fn entered(code: &mut dyn CodeSource) -> Translation {
    let mut translation = Translation::new(TABLE_AT, TranslationSettings::default());
    translation.add_region(REGION_AT, 16);
    translation.enter(code, AT).unwrap();
    translation
}

/// The last instruction before an address in the written code.
fn before(writes: &[CodeWrite], address: u64) -> String {
    let inside =
        |write: &&CodeWrite| write.address < address && write.address + write.bytes.len() as u64 > address;
    let write = writes.iter().find(inside).unwrap();
    let code = decoded(write.address, &write.bytes[..(address - write.address) as usize]);
    code.last().map_or_else(String::new, text)
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
