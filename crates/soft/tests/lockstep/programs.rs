//! Small programs that are written by hand: what translators find hard.

use cyclometer_soft::iced_x86::code_asm::*;
use cyclometer_soft::iced_x86::{BlockEncoderOptions, IcedError};

use crate::elf::{CODE, DATA, DATA_BYTES, ElfProgram};

type MadeProgram = Result<(), IcedError>;

/// Addresses of code that a program finds at [`DATA`].
type ProgramTable = Vec<CodeLabel>;

/// Writes the instructions of a program.
type ProgramWriter = fn(&mut CodeAssembler, &mut ProgramTable) -> MadeProgram;

/// Every program with its name.
pub fn all() -> Vec<(&'static str, ElfProgram)> {
    let writers: [(&str, ProgramWriter); 10] = [
        ("calls", calls),
        ("returns", returns),
        ("jumps", jumps),
        ("strings", strings),
        ("flags", flags),
        ("r11", r11_everywhere),
        ("masks", masks),
        ("misaligned", misaligned),
        ("maps", maps),
        ("children", children),
    ];
    writers.into_iter().map(|(name, write)| (name, program(write).expect(name))).collect()
}

/// A program that handles signals, of itself and of its faults.
pub fn signals() -> ElfProgram {
    program(handle_signals).expect("a program")
}

/// A program whose first thread does what is harmless for ever, until another thread executes the program
/// once more, with an argument, at which it ends.
pub fn usurper() -> ElfProgram {
    let mut a = CodeAssembler::new(64).expect("64 bits");
    usurp(&mut a).expect("a program");
    made(&mut a, &ProgramTable::new()).expect("a program")
}

fn program(write: ProgramWriter) -> Result<ElfProgram, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut table = ProgramTable::new();
    a.mov(rsp, DATA + DATA_BYTES - 64)?;
    write(&mut a, &mut table)?;
    finish(&mut a)?;
    made(&mut a, &table)
}

fn made(a: &mut CodeAssembler, table: &ProgramTable) -> Result<ElfProgram, IcedError> {
    let made = a.assemble_options(CODE, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
    let mut data = Vec::new();
    for label in table {
        data.extend(made.label_ip(label)?.to_le_bytes());
    }
    data.resize(0x100, 0x5a);
    Ok(ElfProgram::new(&made.inner.code_buffer, &data).expect("a file"))
}

/// Writes the general registers and ends with a status.
fn finish(a: &mut CodeAssembler) -> MadeProgram {
    for register in [r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax] {
        a.push(register)?;
    }
    a.mov(eax, 1)?;
    a.mov(edi, 1)?;
    a.mov(rsi, rsp)?;
    a.mov(edx, 15 * 8)?;
    a.syscall()?;
    a.mov(eax, 60)?;
    a.mov(edi, 7)?;
    a.syscall()
}

/// Every form of an indirect call.
fn calls(a: &mut CodeAssembler, table: &mut ProgramTable) -> MadeProgram {
    let (mut function, mut main) = (a.create_label(), a.create_label());
    a.jmp(main)?;
    a.set_label(&mut function)?;
    a.inc(r11)?;
    a.add(r12, qword_ptr(rsp))?;
    a.ret()?;
    a.set_label(&mut main)?;
    table.push(function);
    let at = DATA as i64;
    for register in [rax, rcx, rbx, rbp, rsi, r8, r13] {
        a.mov(register, qword_ptr(at))?;
        a.call(register)?;
        a.mov(register, at + 16)?;
        a.call(qword_ptr(register - 16))?;
        a.mov(r10d, 2)?;
        a.call(qword_ptr(register + r10 * 8 - 32))?;
        a.lea(rsp, rsp - 0x100)?;
        a.push(qword_ptr(at))?;
        a.call(qword_ptr(rsp))?;
        a.pop(register)?;
        a.lea(rsp, rsp + 0x100)?;
    }
    a.mov(ecx, 1)?;
    a.call(qword_ptr(rcx * 8 + (at - 8)))?;
    a.call(qword_ptr(at))?;
    a.call(function)?;
    for bytes in [&[0x3e, 0xff, 0x14, 0x25][..], &[0x67, 0xff, 0x14, 0x25], &[0x66, 0x48, 0xff, 0x14, 0x25]] {
        a.db(&[bytes, &(DATA as u32).to_le_bytes()].concat())?;
    }
    Ok(())
}

/// Returns that go elsewhere, drop arguments, or have no call.
fn returns(a: &mut CodeAssembler, _: &mut ProgramTable) -> MadeProgram {
    let labels: [CodeLabel; 6] = std::array::from_fn(|_| a.create_label());
    let [mut main, mut drops, mut recurse, mut deep, mut away, mut back] = labels;
    a.jmp(main)?;
    a.set_label(&mut drops)?;
    a.ret_1(24)?;
    a.set_label(&mut recurse)?;
    a.dec(edi)?;
    a.je(deep)?;
    a.call(recurse)?;
    a.inc(r8)?;
    a.set_label(&mut deep)?;
    a.db(&[0xf3, 0xc3])?;
    a.set_label(&mut away)?;
    a.lea(rax, ptr(back))?;
    a.mov(qword_ptr(rsp), rax)?;
    a.ret()?;
    a.set_label(&mut main)?;
    for _ in 0..3 {
        a.push(1)?;
    }
    a.call(drops)?;
    a.mov(edi, 40)?;
    a.call(recurse)?;
    a.call(away)?;
    a.ud2()?;
    a.set_label(&mut back)?;
    // Two stacks with the same entries of the return-address table.
    a.mov(rbx, rsp)?;
    a.lea(rsp, rsp - 0x1_0000)?;
    let function = function(a)?;
    a.call(function)?;
    a.mov(rsp, rbx)
}

fn function(a: &mut CodeAssembler) -> Result<CodeLabel, IcedError> {
    let (mut over, mut function) = (a.create_label(), a.create_label());
    a.jmp(over)?;
    a.set_label(&mut function)?;
    a.xor(r9, rsp)?;
    a.ret()?;
    a.set_label(&mut over)?;
    a.nop()?;
    Ok(function)
}

/// Jumps by tables, and targets that share the lower 16 bits of their addresses.
fn jumps(a: &mut CodeAssembler, table: &mut ProgramTable) -> MadeProgram {
    let mut labels: Vec<CodeLabel> = (0..5).map(|_| a.create_label()).collect();
    let (mut head, mut end) = (a.create_label(), a.create_label());
    let at = DATA as i64;
    a.mov(ebx, 20)?;
    a.set_label(&mut head)?;
    a.mov(eax, ebx)?;
    a.and(eax, 3)?;
    a.jmp(qword_ptr(rax * 8 + at))?;
    for label in &mut labels[..4] {
        a.set_label(label)?;
        a.add(r8, rax)?;
        a.rol(r8, 3)?;
        a.dec(ebx)?;
        a.jne(head)?;
        a.jmp(end)?;
    }
    // 64 KB further on.
    a.db(&vec![0xcc; 0x1_0000 - 40])?;
    a.set_label(&mut labels[4])?;
    for _ in 0..60 {
        a.nop()?;
    }
    a.jmp(qword_ptr(at + 8 * 5))?;
    a.set_label(&mut end)?;
    a.mov(rcx, qword_ptr(at + 32))?;
    a.mov(rsi, qword_ptr(at))?;
    a.lea(rcx, rcx + 17)?;
    a.jmp(rcx)?;
    let mut last = a.create_label();
    a.set_label(&mut last)?;
    labels.push(last);
    table.extend(labels);
    a.nop()
}

fn strings(a: &mut CodeAssembler, _: &mut ProgramTable) -> MadeProgram {
    for count in [0, 1, 7, 33] {
        for form in 0..8 {
            a.mov(rsi, DATA + 0x200)?;
            a.mov(rdi, DATA + 0x600 + form)?;
            a.mov(ecx, count)?;
            a.mov(al, 0x5a)?;
            match form {
                0 => a.rep().movsb()?,
                1 => a.rep().stosq()?,
                2 => a.repe().cmpsb()?,
                3 => a.repne().scasb()?,
                4 => a.repe().scasw()?,
                5 => a.rep().lodsd()?,
                6 => a.repne().cmpsq()?,
                _ => {
                    a.std()?;
                    a.rep().movsd()?;
                    a.cld()?;
                }
            }
            a.setbe(r8b)?;
            a.adc(r9, rcx)?;
            a.add(r10, rdi)?;
        }
    }
    Ok(())
}

/// Elements that masks select, with and without somebody who reads the flags of before.
fn masks(a: &mut CodeAssembler, _: &mut ProgramTable) -> MadeProgram {
    let narrow = is_x86_feature_detected!("avx2");
    let wide = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    for reads in [true, false] {
        for mask in [0, 1, -1] {
            a.mov(rsi, DATA + 0x80)?;
            a.mov(eax, mask)?;
            if narrow {
                a.vpxor(ymm2, ymm2, ymm2)?;
                a.vmovd(xmm3, eax)?;
                carry(a, |a| a.vpgatherdd_3(ymm1, dword_ptr(rsi + ymm2 * 1), ymm3), reads)?;
                a.vmovd(xmm3, eax)?;
                carry(a, |a| a.vpmaskmovd(ymm1, ymm3, ymmword_ptr(rsi)), reads)?;
                carry(a, |a| a.vpmaskmovd(ymmword_ptr(rsi), ymm3, ymm1), reads)?;
            }
            if wide {
                a.vpxor(ymm2, ymm2, ymm2)?;
                a.kmovd(k2, eax)?;
                carry(a, |a| a.vmovdqu8(ymm18.k2(), ymmword_ptr(rsi)), reads)?;
                carry(a, |a| a.vmovdqu32(xmmword_ptr(rsi).k2(), xmm18), reads)?;
                carry(a, |a| a.vpgatherdd(ymm19.k2(), dword_ptr(rsi + ymm2 * 1)), reads)?;
                a.kmovd(k2, eax)?;
                carry(a, |a| a.vpscatterdd(dword_ptr(rsi + ymm2 * 1).k2(), ymm19), reads)?;
            }
        }
    }
    Ok(())
}

/// An instruction between a carry and who reads it, or writes it anew.
fn carry(
    a: &mut CodeAssembler,
    between: impl FnOnce(&mut CodeAssembler) -> MadeProgram,
    reads: bool,
) -> MadeProgram {
    a.stc()?;
    between(a)?;
    match reads {
        true => a.adc(r8, r9)?,
        false => a.test(r8, r8)?,
    }
    a.setb(r10b)
}

/// Loops whose flags live over the places of counters.
fn flags(a: &mut CodeAssembler, _: &mut ProgramTable) -> MadeProgram {
    let (mut chain, mut odd, mut even) = (a.create_label(), a.create_label(), a.create_label());
    a.mov(ecx, 12)?;
    a.stc()?;
    a.set_label(&mut chain)?;
    a.adc(rax, rcx)?;
    a.jo(odd)?;
    a.lea(rdx, rdx + rax)?;
    a.jmp(even)?;
    a.set_label(&mut odd)?;
    a.lea(rbx, rbx + 1)?;
    a.set_label(&mut even)?;
    a.dec(ecx)?;
    a.jne(chain)?;
    for by in [0, 1, 32, 64] {
        a.cmp(rax, rdx)?;
        a.mov(cl, by)?;
        a.shl(r8, cl)?;
        a.setb(r9b)?;
        a.rcr(r10, cl)?;
        a.lahf()?;
        a.shr(esi, cl)?;
        a.pushfq()?;
        a.and(dword_ptr(rsp), -0x101)?;
        a.popfq()?;
        a.cmovp(rbx, rax)?;
    }
    let mut again = a.create_label();
    a.mov(ecx, 5)?;
    a.set_label(&mut again)?;
    a.cmp(ecx, 3)?;
    a.loopne(again)?;
    a.mov(ecx, 3)?;
    let mut last = a.create_label();
    a.set_label(&mut last)?;
    a.inc(r14)?;
    a.loop_(last)
}

/// The register that translated code has for itself, in every role, between counters that must keep flags.
fn r11_everywhere(a: &mut CodeAssembler, table: &mut ProgramTable) -> MadeProgram {
    let [mut main, mut function, mut again, mut less, mut target] = [(); 5].map(|()| a.create_label());
    a.jmp(main)?;
    a.set_label(&mut function)?;
    a.add(r8, r11)?;
    a.lea(r11, r11 + 3)?;
    a.ret()?;
    a.set_label(&mut main)?;
    a.mov(ecx, 6)?;
    a.set_label(&mut again)?;
    a.mov(r11, qword_ptr(DATA))?;
    a.call(r11)?;
    a.mov(r11, DATA)?;
    a.call(qword_ptr(r11))?;
    a.mov(r11d, 1)?;
    a.call(qword_ptr(r11 * 8 + DATA as i32 - 8))?;
    a.mov(r11b, cl)?;
    a.mov(r11w, cx)?;
    a.cmp(ecx, 3)?;
    a.lea(r11, r11 + 1)?;
    a.cmove(r11, r8)?;
    a.jb(less)?;
    a.setnp(r11b)?;
    a.xadd(r9, r11)?;
    a.set_label(&mut less)?;
    a.adc(r11, rcx)?;
    a.bsf(r11, r15)?;
    a.rdsspq(r11)?;
    a.tzcnt(r11d, r8d)?;
    a.xchg(rax, r11)?;
    a.push(r11)?;
    a.pop(r11)?;
    a.shl(r11, cl)?;
    // A counter of iterations between what has it.
    a.mov(r10d, ecx)?;
    a.mov(rdi, DATA + 64)?;
    a.mov(ecx, 3)?;
    a.lea(r11, r11 + 5)?;
    a.rep().stosb()?;
    a.add(r8, r11)?;
    a.mov(ecx, r10d)?;
    a.mov(qword_ptr(DATA + 16), r11)?;
    a.mov(r11, qword_ptr(DATA + 8))?;
    a.jmp(r11)?;
    a.set_label(&mut target)?;
    table.extend([function, target]);
    a.dec(ecx)?;
    a.jne(again)?;
    a.xor(r11d, r11d)
}

fn misaligned(a: &mut CodeAssembler, _: &mut ProgramTable) -> MadeProgram {
    let (mut main, mut function) = (a.create_label(), a.create_label());
    a.jmp(main)?;
    a.set_label(&mut function)?;
    a.add(r8, rsp)?;
    a.ret()?;
    a.set_label(&mut main)?;
    for by in 1..12 {
        let mut inner = a.create_label();
        a.lea(rsp, rsp - by)?;
        a.call(inner)?;
        a.lea(rsp, rsp + by)?;
        let mut over = a.create_label();
        a.jmp(over)?;
        a.set_label(&mut inner)?;
        a.lea(rsp, rsp - 5)?;
        a.call(function)?;
        a.lea(rsp, rsp + 5)?;
        a.call(function)?;
        a.ret()?;
        a.set_label(&mut over)?;
        a.nop()?;
    }
    // The 16 bits of the stack pointer wrap.
    a.mov(rbx, rsp)?;
    a.mov(rsp, DATA + 0x1_0000 + 12)?;
    for _ in 0..4 {
        a.call(function)?;
        a.lea(rsp, rsp - 3)?;
    }
    a.mov(rsp, rbx)
}

/// System calls, those among them that are looked at.
fn maps(a: &mut CodeAssembler, _: &mut ProgramTable) -> MadeProgram {
    for (number, arguments) in [
        (9, [0x7000_0000, 0x2000, 3, 0x32, -1, 0]),
        (10, [0x7000_0000, 0x1000, 1, 0, 0, 0]),
        (10, [0x7000_0000, 0x1000, 3, 0, 0, 0]),
        (11, [0x7000_1000, 0x1000, 0, 0, 0, 0]),
        (3, [-1, 0, 0, 0, 0, 0]),
        (0x1234, [0, 0, 0, 0, 0, 0]),
        (158, [0x1004, DATA as i64, 0, 0, 0, 0]),
        (59, [0, 0, 0, 0, 0, 0]),
        (1, [1, CODE as i64, 5, 0, 0, 0]),
    ] {
        for (register, argument) in [rdi, rsi, rdx, r10, r8, r9].into_iter().zip(arguments) {
            a.mov(register, argument)?;
        }
        a.mov(eax, number)?;
        a.cmp(eax, 10)?;
        a.syscall()?;
        a.and(r11, -0x101)?;
        a.rol(r12, 5)?;
        a.add(r12, rax)?;
        a.xor(r12, r11)?;
        a.xor(r13, rcx)?;
    }
    Ok(())
}

/// fork and wait, then vfork and wait.
fn children(a: &mut CodeAssembler, _: &mut ProgramTable) -> MadeProgram {
    for number in [57, 58] {
        let mut parent = a.create_label();
        a.mov(eax, number)?;
        a.syscall()?;
        a.test(eax, eax)?;
        a.jne(parent)?;
        a.mov(eax, 1)?;
        a.mov(edi, 1)?;
        a.mov(rsi, CODE)?;
        a.mov(edx, 3)?;
        a.syscall()?;
        a.mov(edi, 5)?;
        a.mov(eax, 60)?;
        a.syscall()?;
        a.set_label(&mut parent)?;
        a.mov(rdi, rax)?;
        a.mov(rsi, DATA + 0x80)?;
        a.xor(edx, edx)?;
        a.xor(r10d, r10d)?;
        a.mov(eax, 61)?;
        a.syscall()?;
        a.mov(ebx, dword_ptr(DATA as i64 + 0x80))?;
    }
    // Process ids differ from run to run.
    a.xor(eax, eax)?;
    a.xor(edi, edi)?;
    a.xor(r11d, r11d)
}

/// Handlers for a signal that it sends to itself, and for an instruction that does not exist.
fn handle_signals(a: &mut CodeAssembler, table: &mut ProgramTable) -> MadeProgram {
    let (mut main, mut handler, mut restorer) = (a.create_label(), a.create_label(), a.create_label());
    a.jmp(main)?;
    a.set_label(&mut handler)?;
    a.inc(qword_ptr(DATA as i64 + 0x80))?;
    // Behind the two bytes of the instruction, for a fault.
    let mut sent = a.create_label();
    a.cmp(edi, 4)?;
    a.jne(sent)?;
    // struct rt_sigframe's ucontext is in rdx; rip is the 17th of the registers from byte 40 on.
    a.add(qword_ptr(rdx + 40 + 8 * 16), 2)?;
    a.set_label(&mut sent)?;
    a.ret()?;
    a.set_label(&mut restorer)?;
    a.mov(eax, 15)?;
    a.syscall()?;
    a.set_label(&mut main)?;
    table.extend([handler, restorer]);
    let at = DATA as i64;
    a.mov(rax, qword_ptr(at))?;
    a.mov(qword_ptr(at + 0x200), rax)?;
    a.mov(qword_ptr(at + 0x208), 0x0400_0004)?;
    a.mov(rax, qword_ptr(at + 8))?;
    a.mov(qword_ptr(at + 0x210), rax)?;
    a.mov(qword_ptr(at + 0x80), 0)?;
    for signal in [4, 10] {
        a.mov(eax, 13)?;
        a.mov(edi, signal)?;
        a.mov(rsi, DATA + 0x200)?;
        a.xor(edx, edx)?;
        a.mov(r10d, 8)?;
        a.syscall()?;
    }
    for _ in 0..3 {
        a.cmp(eax, 1)?;
        a.ud2()?;
        a.adc(rbx, rbx)?;
        a.mov(eax, 39)?;
        a.syscall()?;
        a.mov(edi, eax)?;
        a.mov(eax, 62)?;
        a.mov(esi, 10)?;
        a.syscall()?;
    }
    a.mov(rbp, qword_ptr(at + 0x80))?;
    a.xor(edi, edi)?;
    a.xor(r11d, r11d)
}

fn usurp(a: &mut CodeAssembler) -> MadeProgram {
    let (mut again, mut thread) = (a.create_label(), a.create_label());
    let (mut head, mut odd) = (a.create_label(), a.create_label());
    a.cmp(dword_ptr(rsp), 1)?;
    a.jne(again)?;
    a.mov(rsp, DATA + DATA_BYTES - 64)?;
    // CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD, CLONE_SYSVSEM
    a.mov(eax, 56)?;
    a.mov(edi, 0x5_0f00)?;
    a.mov(rsi, DATA + 0x8000)?;
    a.xor(edx, edx)?;
    a.syscall()?;
    a.test(eax, eax)?;
    a.je(thread)?;
    let function = function(a)?;
    a.lea(r13, ptr(function))?;
    a.set_label(&mut head)?;
    a.call(function)?;
    a.call(r13)?;
    a.add(r8, rax)?;
    a.test(r8b, 1)?;
    a.jne(odd)?;
    a.push(r8)?;
    a.pop(r9)?;
    a.set_label(&mut odd)?;
    a.mov(ecx, 3)?;
    a.mov(edi, DATA as u32 + 0x400)?;
    a.rep().stosb()?;
    a.jmp(head)?;
    a.set_label(&mut thread)?;
    execute_again(a)?;
    a.set_label(&mut again)?;
    a.mov(eax, 231)?;
    a.mov(edi, 7)?;
    a.syscall()
}

/// `execve("/proc/self/exe", { "/proc/self/exe", "/proc/self/exe", 0 }, { 0 })`, after a while.
fn execute_again(a: &mut CodeAssembler) -> MadeProgram {
    let mut wait = a.create_label();
    a.mov(ecx, 20)?;
    a.set_label(&mut wait)?;
    a.dec(ecx)?;
    a.jne(wait)?;
    a.push(0)?;
    a.mov(rax, u64::from_le_bytes(*b"elf/exe\0"))?;
    a.push(rax)?;
    a.mov(rax, u64::from_le_bytes(*b"/proc//s"))?;
    a.push(rax)?;
    a.mov(rdi, rsp)?;
    a.push(0)?;
    a.mov(rdx, rsp)?;
    a.push(rdi)?;
    a.push(rdi)?;
    a.mov(rsi, rsp)?;
    a.mov(eax, 59)?;
    a.syscall()
}
