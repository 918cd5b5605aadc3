//! Random programs that end, and write all that they know.

use cyclometer_soft::iced_x86::IcedError;
use cyclometer_soft::iced_x86::code_asm::*;

use crate::elf::{CODE, DATA, DATA_BYTES, ElfProgram};
use crate::instruction_pool::{InstructionPool, MIDDLE, RandomSource};

/// Where the table of code addresses is.
const TABLE: u64 = DATA + 0x8000;
/// Where registers are written at the end.
const DUMP: u64 = DATA + 0x4000;
/// Bytes of the data that are written to the standard output.
const WRITTEN: u64 = 0x5000;
/// Most instructions that a program executes, roughly.
const MOST: u64 = 6000;

type AssembledCode = Result<(), IcedError>;

/// Makes one program: the same for the same seed on one kind of processor.
pub fn program(seed: u64, pool: &InstructionPool) -> ElfProgram {
    let mut random = RandomSource(seed);
    loop {
        let mut writer = CodeWriter::new(RandomSource(random.word()), pool);
        writer.all().expect("instructions that can be encoded");
        if writer.cost <= MOST {
            return writer.finish().expect("labels that are set");
        }
    }
}

struct CodeWriter<'a> {
    a: CodeAssembler,
    random: RandomSource,
    pool: &'a InstructionPool,
    table: Vec<CodeLabel>,
    /// Functions that may be called, with the instructions that they execute.
    functions: Vec<(CodeLabel, u64)>,
    /// Instructions executed from the start, roughly.
    cost: u64,
    depth: u32,
    /// Outside of functions: what is above the stack pointer is nobody's.
    on_top: bool,
}

impl CodeWriter<'_> {
    fn new(random: RandomSource, pool: &InstructionPool) -> CodeWriter<'_> {
        let a = CodeAssembler::new(64).expect("64 bits");
        CodeWriter { a, random, pool, table: vec![], functions: vec![], cost: 0, depth: 0, on_top: false }
    }

    fn finish(mut self) -> Result<ElfProgram, IcedError> {
        use cyclometer_soft::iced_x86::BlockEncoderOptions;
        let made = self.a.assemble_options(CODE, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)?;
        let mut data: Vec<u8> = (0..0x1000).flat_map(|_| self.random.word().to_le_bytes()).collect();
        for label in &self.table {
            data.extend(made.label_ip(label)?.to_le_bytes());
        }
        Ok(ElfProgram::new(&made.inner.code_buffer, &data).expect("a file"))
    }

    fn all(&mut self) -> AssembledCode {
        let mut start = self.a.create_label();
        self.a.jmp(start)?;
        for _ in 0..self.random.below(4) {
            self.function()?;
        }
        self.set(&mut start)?;
        self.cost = 0;
        self.begin()?;
        self.on_top = true;
        for _ in 0..4 + self.random.below(8) {
            self.item()?;
        }
        self.end()
    }

    /// Everything has a random value, but rsp and r15.
    fn begin(&mut self) -> AssembledCode {
        self.a.mov(rsp, DATA + DATA_BYTES - 0x800 - self.random.below(4) / 3 * 3)?;
        self.a.mov(r15, MIDDLE)?;
        for register in [rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14] {
            let value = if self.random.below(2) == 0 { self.random.below(70) } else { self.random.word() };
            self.a.mov(register, value)?;
        }
        for (i, register) in [xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7].into_iter().enumerate() {
            self.a.movups(register, r15 + 64 * i)?;
        }
        for _ in 0..16 {
            let value = self.random.word() as i32;
            self.a.push(value)?;
        }
        let flags = self.random.word() as i32 & 0x8d5;
        self.a.push(flags)?;
        self.a.popfq()
    }

    /// Writes registers, flags and data, and ends.
    fn end(&mut self) -> AssembledCode {
        let base = DUMP as i64;
        for (i, register) in
            [rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12].into_iter().enumerate()
        {
            self.a.mov(ptr(base + 8 * i as i64), register)?;
        }
        self.a.mov(qword_ptr(base + 0x100), rsp)?;
        self.a.pushfq()?;
        self.a.and(dword_ptr(rsp), -0x101)?;
        self.a.pop(qword_ptr(base + 0x108))?;
        for (i, register) in [xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7].into_iter().enumerate() {
            self.a.movups(ptr(base + 0x200 + 16 * i as i64), register)?;
        }
        for (i, register) in [xmm8, xmm9, xmm10, xmm11, xmm12, xmm13, xmm14, xmm15].into_iter().enumerate() {
            self.a.movups(ptr(base + 0x300 + 16 * i as i64), register)?;
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            for (i, register) in [zmm0, zmm3, zmm7, zmm12, zmm15].into_iter().enumerate() {
                self.a.vmovups(ptr(base + 0x400 + 64 * i as i64), register)?;
            }
            for (i, register) in [k1, k2, k3, k4, k5, k6, k7].into_iter().enumerate() {
                self.a.kmovw(ptr(base + 0x800 + 8 * i as i64), register)?;
            }
        }
        for i in 0..8 {
            self.a.pop(qword_ptr(base + 0x900 + 8 * i))?;
        }
        self.a.mov(eax, 1)?;
        self.a.mov(edi, 1)?;
        self.a.mov(rsi, DATA)?;
        self.a.mov(edx, WRITTEN as i32)?;
        self.a.syscall()?;
        self.a.mov(eax, 231)?;
        self.a.xor(edi, edi)?;
        self.a.syscall()
    }

    /// A function that may be called by what comes later.
    fn function(&mut self) -> AssembledCode {
        let mut label = self.a.create_label();
        self.set(&mut label)?;
        self.cost = 0;
        let saved = std::mem::replace(&mut self.depth, 1);
        for _ in 0..1 + self.random.below(3) {
            self.item()?;
        }
        self.depth = saved;
        match self.random.below(5) {
            0 => {
                self.a.pop(rax)?;
                self.a.jmp(rax)?;
            }
            1 => {
                self.a.lea(rsp, rsp + 8)?;
                self.a.jmp(qword_ptr(rsp - 8))?;
            }
            2 => self.a.ret_1(16)?,
            _ => self.a.ret()?,
        }
        self.functions.push((label, self.cost + 6));
        Ok(())
    }

    fn item(&mut self) -> AssembledCode {
        self.cost += 3;
        let nested = self.depth < 3;
        match self.random.below(21) {
            0 if nested => self.branch(),
            1 if nested => self.counted_loop(),
            2 if nested => self.rcx_loop(),
            3 if nested => self.switch(),
            4 | 5 if !self.functions.is_empty() => self.call(),
            6 => self.strings(),
            7 => self.stack(),
            8 if nested => self.misaligned(),
            9 => self.flags(),
            10 => self.jumps_over(),
            11 => self.small_division(),
            12 => self.no_system_call(),
            13 if nested => self.branch(),
            14 if nested => self.jump_if_rcx_is_zero(),
            15 => self.carry_chain(),
            16 | 17 => self.flags_over_a_block(),
            _ => self.straight(),
        }
    }

    /// A label, where others may be as well.
    fn set(&mut self, label: &mut CodeLabel) -> AssembledCode {
        self.a.set_label(label)?;
        self.a.zero_bytes()
    }

    fn straight(&mut self) -> AssembledCode {
        for _ in 0..1 + self.random.below(10) {
            self.cost += 1;
            let instruction = self.pool.instruction(&mut self.random, self.on_top);
            self.a.add_instruction(instruction)?;
        }
        Ok(())
    }

    fn body(&mut self) -> AssembledCode {
        self.depth += 1;
        for _ in 0..self.random.below(3) {
            self.item()?;
        }
        self.depth -= 1;
        self.straight()
    }

    /// A repeated program costs that much more.
    fn repeated(&mut self, times: u64) -> AssembledCode {
        let before = self.cost;
        self.body()?;
        self.cost = before + (self.cost - before + 2) * times;
        Ok(())
    }

    fn branch(&mut self) -> AssembledCode {
        let (mut other, mut end) = (self.a.create_label(), self.a.create_label());
        self.conditional(other)?;
        self.body()?;
        let both = self.random.below(2) == 0;
        if both {
            self.a.jmp(end)?;
        }
        self.set(&mut other)?;
        if both {
            self.body()?;
        }
        self.set(&mut end)
    }

    #[rustfmt::skip]
    fn conditional(&mut self, to: CodeLabel) -> AssembledCode {
        let a = &mut self.a;
        match self.random.below(16) {
            0 => a.jo(to), 1 => a.jno(to), 2 => a.jb(to), 3 => a.jae(to), 4 => a.je(to), 5 => a.jne(to), 6 => a.jbe(to),
            7 => a.ja(to), 8 => a.js(to), 9 => a.jns(to), 10 => a.jp(to), 11 => a.jnp(to), 12 => a.jl(to),
            13 => a.jge(to), 14 => a.jle(to), _ => a.jg(to),
        }
    }

    /// A loop that counts in r14 or r13, by an instruction that the counter's flags must not disturb.
    fn counted_loop(&mut self) -> AssembledCode {
        let times = 1 + self.random.below(if self.depth > 1 { 3 } else { 8 });
        let counter = if self.depth.is_multiple_of(2) { r14 } else { r13 };
        let mut head = self.a.create_label();
        self.a.push(counter)?;
        self.a.mov(counter, times)?;
        self.set(&mut head)?;
        let straight = self.random.below(3) == 0;
        let depth = if straight { std::mem::replace(&mut self.depth, 9) } else { self.depth };
        self.repeated(times)?;
        self.depth = depth;
        match self.random.below(3) {
            0 => self.a.dec(counter)?,
            1 => self.a.sub(counter, 1)?,
            _ => {
                self.a.lea(counter, counter - 1)?;
                self.a.test(counter, counter)?;
            }
        }
        self.a.jne(head)?;
        self.a.pop(counter)
    }

    /// `loop`, `loope` or `loopne`; the body may use rcx.
    fn rcx_loop(&mut self) -> AssembledCode {
        let times = 1 + self.random.below(4);
        let mut head = self.a.create_label();
        self.a.mov(ecx, times as i32)?;
        self.set(&mut head)?;
        self.a.push(rcx)?;
        self.repeated(times)?;
        self.a.pop(rcx)?;
        self.narrow()?;
        match self.random.below(3) {
            0 => self.a.loop_(head),
            1 => self.a.loope(head),
            _ => self.a.loopne(head),
        }
    }

    /// Sometimes the prefix that makes ecx of rcx.
    fn narrow(&mut self) -> AssembledCode {
        if self.random.below(3) == 0 { self.a.db(&[0x67]) } else { Ok(()) }
    }

    fn jump_if_rcx_is_zero(&mut self) -> AssembledCode {
        let mut end = self.a.create_label();
        match self.random.below(3) {
            0 => self.a.mov(ecx, 0)?,
            1 => self.a.mov(rcx, 1u64 << 32)?,
            _ => {}
        }
        self.narrow()?;
        self.a.jrcxz(end)?;
        self.body()?;
        self.set(&mut end)
    }

    /// Four ways, chosen by an address in the table.
    fn switch(&mut self) -> AssembledCode {
        let first = self.table.len();
        let mut labels: Vec<CodeLabel> = (0..4).map(|_| self.a.create_label()).collect();
        self.table.extend(labels.iter().copied());
        let at = TABLE as i64 + 8 * first as i64;
        self.a.and(ebx, 3)?;
        match self.random.below(4) {
            0 => self.a.jmp(qword_ptr(rbx * 8 + at))?,
            1 => {
                self.a.mov(rax, qword_ptr(rbx * 8 + at))?;
                self.a.jmp(rax)?;
            }
            2 => {
                self.a.lea(rcx, ptr(rbx * 8 + at))?;
                self.a.jmp(qword_ptr(rcx))?;
            }
            _ => {
                self.a.lea(r12, ptr(rbx * 8 + (at - 16)))?;
                self.a.mov(esi, 8)?;
                self.a.jmp(qword_ptr(r12 + rsi * 2))?;
            }
        }
        let mut end = self.a.create_label();
        for (i, label) in labels.iter_mut().enumerate() {
            self.set(label)?;
            self.table[first + i] = *label;
            self.straight()?;
            self.a.jmp(end)?;
        }
        self.set(&mut end)
    }

    /// A call by one of many ways, with 16 bytes of arguments that the function may or may not drop.
    fn call(&mut self) -> AssembledCode {
        let (function, cost) = *self.random.of(&self.functions);
        if self.cost + cost > MOST {
            return self.straight();
        }
        self.cost += cost + 4;
        let entry = TABLE as i64 + 8 * self.table.len() as i64;
        self.table.push(function);
        self.a.push(rbp)?;
        self.a.mov(rbp, rsp)?;
        self.a.push(qword_ptr(r15 - 64))?;
        self.a.push(rdx)?;
        // The caller's frame is found again in memory, whatever the function does to rbp.
        let frame = (DATA + 0x1_0000 + 8 * self.table.len() as u64) as i64;
        self.a.push(rbp)?;
        self.a.pop(qword_ptr(frame))?;
        match self.random.below(9) {
            0 => self.a.call(qword_ptr(entry))?,
            1 => {
                self.a.mov(rax, qword_ptr(entry))?;
                self.a.call(rax)?;
            }
            2 => {
                self.a.mov(rcx, qword_ptr(entry))?;
                self.a.call(rcx)?;
            }
            3 => {
                self.a.mov(rsi, entry)?;
                self.a.call(qword_ptr(rsi))?;
            }
            4 => {
                self.a.mov(r12, qword_ptr(entry))?;
                self.a.call(r12)?;
            }
            5 => {
                // Not the eight bytes next to the stack pointer: those are the translator's during a call.
                self.a.push(qword_ptr(entry))?;
                self.a.xchg(qword_ptr(rsp), rcx)?;
                self.a.push(rcx)?;
                self.a.lea(rsp, rsp + 16)?;
                self.a.call(qword_ptr(rsp - 16))?;
            }
            6 => {
                // The target is read before the return address is pushed.
                self.a.mov(ecx, 3)?;
                self.a.lea(rsp, rsp - 8)?;
                self.a.push(qword_ptr(entry))?;
                self.a.call(qword_ptr(rsp + rcx * 8 - 24))?;
            }
            _ => self.a.call(function)?,
        }
        self.a.mov(rsp, qword_ptr(frame))?;
        self.a.pop(rbp)
    }

    fn strings(&mut self) -> AssembledCode {
        let backward = self.random.below(3) == 0;
        let count = self.random.below(20);
        self.cost += 8;
        self.a.lea(rsi, r15 + 0x200 + self.random.below(64) as i32)?;
        self.a.lea(rdi, r15 - 0x200 + self.random.below(64) as i32)?;
        self.a.mov(rcx, count)?;
        if backward {
            self.a.std()?;
        }
        let a = &mut self.a;
        match self.random.below(16) {
            0 => a.rep().movsb()?,
            1 => a.rep().movsq()?,
            2 => a.rep().stosb()?,
            3 => a.rep().stosd()?,
            4 => a.rep().lodsw()?,
            5 => a.repe().cmpsb()?,
            6 => a.repne().cmpsd()?,
            7 => a.repe().scasb()?,
            8 => a.repne().scasq()?,
            9 => a.movsb()?,
            10 => a.stosq()?,
            11 => a.cmpsw()?,
            12 => a.scasd()?,
            13 => {
                a.rep().movsb()?;
                a.repne().scasb()?;
                a.repe().cmpsq()?;
            }
            14 => a.repe().cmpsb()?,
            _ => a.lodsb()?,
        }
        if backward {
            self.a.cld()?;
        }
        Ok(())
    }

    /// Pushes and pops of every kind, as many bytes of each.
    fn stack(&mut self) -> AssembledCode {
        self.cost += 10;
        let a = &mut self.a;
        match self.random.below(8) {
            0 => {
                a.push(rbx)?;
                a.push(rsp)?;
                a.pop(rcx)?;
                a.pop(rdx)
            }
            1 => {
                a.push(-5)?;
                a.pop(qword_ptr(r15 + 40))
            }
            2 => {
                a.push(ax)?;
                a.push(word_ptr(r15 + 3))?;
                a.pop(r8w)?;
                a.pop(bx)
            }
            3 => {
                a.push(qword_ptr(rsp + 8))?;
                a.pop(qword_ptr(r15 + 48))
            }
            4 => {
                a.enter(32, 0)?;
                a.mov(qword_ptr(rbp - 8), rax)?;
                a.leave()
            }
            5 => {
                a.xchg(qword_ptr(rsp), rax)?;
                a.add(rsp, 8)?;
                a.push(rax)
            }
            6 => {
                // The address of code is the program's own.
                let mut here = a.create_label();
                a.call(here)?;
                a.set_label(&mut here)?;
                a.pop(rdi)
            }
            _ => {
                let mut there = a.create_label();
                a.lea(rax, qword_ptr(there))?;
                a.push(rax)?;
                a.ret()?;
                a.int3()?;
                a.set_label(&mut there)?;
                a.zero_bytes()
            }
        }
    }

    fn misaligned(&mut self) -> AssembledCode {
        let by = 1 + self.random.below(7) as i32;
        if self.random.below(2) == 0 {
            self.a.lea(rsp, rsp - by)?
        } else {
            self.a.sub(rsp, by)?
        }
        self.body()?;
        if self.random.below(2) == 0 { self.a.lea(rsp, rsp + by) } else { self.a.add(rsp, by) }
    }

    fn flags(&mut self) -> AssembledCode {
        self.cost += 5;
        let a = &mut self.a;
        match self.random.below(4) {
            0 => {
                a.pushfq()?;
                a.and(dword_ptr(rsp), -0x101)?;
                a.inc(r9)?;
                a.popfq()
            }
            1 => {
                a.pushfq()?;
                a.and(dword_ptr(rsp), -0x101)?;
                a.pop(r10)
            }
            2 => {
                a.lahf()?;
                a.add(bl, 7)?;
                a.sahf()
            }
            _ => {
                a.and(cl, 32)?;
                a.cmp(rax, rdx)?;
                a.shl(edx, cl)?;
                a.setb(r8b)
            }
        }
    }

    fn jumps_over(&mut self) -> AssembledCode {
        let (mut first, mut second) = (self.a.create_label(), self.a.create_label());
        self.a.jmp(second)?;
        self.set(&mut first)?;
        self.a.inc(r11)?;
        let mut end = self.a.create_label();
        self.a.jmp(end)?;
        self.a.ud2()?;
        self.set(&mut second)?;
        self.a.jmp(first)?;
        self.set(&mut end)
    }

    fn small_division(&mut self) -> AssembledCode {
        self.cost += 4;
        self.a.mov(edx, self.random.below(5) as i32)?;
        self.a.mov(ecx, 6 + self.random.below(1000) as i32)?;
        if self.random.below(2) == 0 { self.a.div(rcx) } else { self.a.div(ecx) }
    }

    /// A system call that does not exist. A stepped program must not show in the flags.
    fn no_system_call(&mut self) -> AssembledCode {
        self.cost += 3;
        self.a.mov(eax, 0x7fff + self.random.below(100) as i32)?;
        self.a.syscall()?;
        self.a.and(r11, -0x101)
    }

    /// Flags from the block before, over an instruction that may keep them, to one that reads them.
    fn flags_over_a_block(&mut self) -> AssembledCode {
        self.cost += 8;
        let count = *self.random.of(&[0, 0, 1, 32, 64, 5]);
        self.a.lea(rsi, r15 + 0x40)?;
        self.a.lea(rdi, r15 - 0x40)?;
        self.a.mov(ecx, count)?;
        match self.random.below(3) {
            0 => self.a.cmp(rax, rdx)?,
            1 => self.a.add(bl, 0x70)?,
            _ => self.a.sub(r8, r9)?,
        }
        let mut next = self.a.create_label();
        self.conditional(next)?;
        self.a.lea(r10, r10 + 1)?;
        self.set(&mut next)?;
        let a = &mut self.a;
        match self.random.below(10) {
            0 => a.shl(edx, cl)?,
            1 => a.sar(r11, cl)?,
            2 => a.ror(ax, cl)?,
            3 => a.rcl(rbx, cl)?,
            4 => a.shld(rbp, rax, cl)?,
            5 => a.repe().cmpsb()?,
            6 => a.repne().scasw()?,
            7 => a.imul_2(r12, rax)?,
            8 => a.bsr(rdx, rbp)?,
            _ => a.dec(r11)?,
        }
        match self.random.below(4) {
            0 => a.lahf(),
            1 => {
                a.seto(r8b)?;
                a.setp(r9b)?;
                a.sets(bl)
            }
            2 => {
                a.cmovp(rax, rdx)?;
                a.cmovs(rdx, r10)?;
                a.adc(rbx, r10)
            }
            _ => {
                a.pushfq()?;
                a.and(dword_ptr(rsp), -0x101)?;
                a.pop(r12)
            }
        }
    }

    fn carry_chain(&mut self) -> AssembledCode {
        self.cost += 6;
        let a = &mut self.a;
        for _ in 0..2 {
            match self.random.below(6) {
                0 => a.adc(rax, rbx)?,
                1 => a.sbb(qword_ptr(r15 + 8), rdx)?,
                2 => a.inc(rcx)?,
                3 => a.dec(dword_ptr(r15 + 16))?,
                4 => a.rcl(r9, 1)?,
                _ => a.adc(r8d, -1)?,
            }
            match self.random.below(3) {
                0 => a.cmovb(rdi, rsi)?,
                1 => a.setbe(r10b)?,
                _ => a.sbb(r12d, r12d)?,
            }
        }
        Ok(())
    }
}
