//! A program in translated code, compared at each instruction with its twin that steps natively.

use std::collections::HashSet;
use std::fmt::Write as _;

use cyclometer_soft::host::{InstructionProbe, ProbeOrder, ProbeView};
use cyclometer_soft::iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, Instruction, Mnemonic, NasmFormatter, RflagsBits,
};
use cyclometer_sys::trace::{self, Registers};

use crate::lab::Notes;
use crate::probes::{self, SharedNotes};

/// Bytes of the stack that are compared.
const STACK: usize = 64;

/// Flags of the processor that a debugger changes: the trap flag and the resume flag.
const OF_DEBUGGERS: u64 = 0x1_0100;
const TRAP: u64 = 0x100;

/// The status flags but the carry.
const OSZAP: u64 = 0x8d4;

/// The status flags but the carry, and what the decoder calls them. A counter may change those that nobody
/// reads.
const MAY_BE_STALE: [(u64, u32); 5] = [
    (0x004, RflagsBits::PF),
    (0x010, RflagsBits::AF),
    (0x040, RflagsBits::ZF),
    (0x080, RflagsBits::SF),
    (0x800, RflagsBits::OF),
];

/// A comparison under way.
pub struct Lockstep {
    twin: u32,
    most: u64,
    started: bool,
    /// Flags that differ, as the decoder calls them: the next instruction must not read them.
    stale: u32,
    /// Instructions of the twin; iterations are not among them.
    steps: u64,
    /// Looks at translated code.
    looks: u64,
    /// Bytes of the stack where a real return stored the address of translated code, below the program's
    /// stack.
    left_over: HashSet<u64>,
    /// The last instruction in translated code.
    trail: Vec<(u64, u64)>,
    verdict: Option<String>,
}

impl Lockstep {
    pub fn new(twin: u32, most: u64) -> Lockstep {
        Lockstep {
            twin,
            most,
            started: false,
            stale: 0,
            steps: 0,
            looks: 0,
            left_over: HashSet::new(),
            trail: Vec::new(),
            verdict: None,
        }
    }

    /// The twin's registers, one instruction later; what that makes of nothing is taken from the other.
    fn step(&mut self, view: &ProbeView) -> Result<Registers, String> {
        let before = self.registers()?;
        let next = instruction(self.twin, before.rip);
        if next.rflags_read() & self.stale != 0 {
            return Err(format!("the flags that {next} reads at {:#x} are not its own", before.rip));
        }
        let oracle = is_oracle(next.mnemonic());
        if !probes::step(self.twin).map_err(|e| e.to_string())? {
            return Err("the twin has ended".to_owned());
        }
        let mut after = self.registers()?;
        self.steps += u64::from(after.rip != before.rip);
        if oracle && after.rip == view.program.rip {
            let Registers { rax, rbx, rcx, rdx, .. } = view.program;
            after = Registers { rax, rbx, rcx, rdx, ..after };
            trace::set_registers(self.twin, &after).map_err(|e| e.to_string())?;
        }
        Ok(after)
    }

    fn registers(&self) -> Result<Registers, String> {
        trace::registers(self.twin).map_err(|e| e.to_string())
    }

    fn is_jump(&self, at: u64) -> bool {
        let next = instruction(self.twin, at);
        next.mnemonic() == Mnemonic::Jmp && next.flow_control() == FlowControl::UnconditionalBranch
    }

    fn compare(&mut self, view: &ProbeView) -> Result<(), String> {
        let twin = self.registers()?;
        let Err(first) = self.same(view, &twin) else {
            self.note_stale(view, &twin);
            return Ok(());
        };
        let mut next = self.step(view)?;
        // A jump to what comes next in translated code is not there.
        while self.same(view, &next).is_err() && self.is_jump(next.rip) {
            next = self.step(view)?;
        }
        self.same(view, &next)
            .map_err(|second| format!("before an instruction: {first}\nbehind it: {second}"))?;
        self.note_stale(view, &next);
        Ok(())
    }

    fn note_stale(&mut self, view: &ProbeView, twin: &Registers) {
        let differ = view.program.eflags ^ twin.eflags;
        let stale = MAY_BE_STALE.iter().filter(|(flag, _)| differ & flag != 0);
        self.stale = stale.fold(0, |all, (_, name)| all | name);
    }

    fn explained(&self, view: &ProbeView, wrong: &str) -> String {
        let mut text = format!("at {:#x}, translated at {:#x}\n{wrong}\n", view.program.rip, view.pc);
        for (pc, rip) in &self.trail {
            let _ = writeln!(text, "{pc:#x} for {rip:#x}: {}", disassembled(view.tid, *pc));
        }
        text
    }

    /// The difference of the stacks. Below the stack pointer there may be another address of code.
    fn stack_differs(&mut self, tid: u32, from: u64) -> String {
        let (here, there) = (stack(tid, from), stack(self.twin, from));
        let mut wrong = here.len() != there.len();
        for (address, (here, there)) in (from..).zip(here.iter().zip(&there)) {
            if here == there {
                self.left_over.remove(&address);
            }
            wrong |= here != there && !self.left_over.contains(&address);
        }
        if wrong { format!(" the stack is {here:x?} instead of {there:x?}") } else { String::new() }
    }

    /// The address that a real return takes from the stack stays below it.
    fn note_left_over(&mut self, view: &ProbeView) {
        if instruction(view.tid, view.pc).mnemonic() == Mnemonic::Ret {
            self.left_over.extend(view.program.rsp.wrapping_sub(8)..view.program.rsp);
        }
    }

    fn same(&mut self, view: &ProbeView, twin: &Registers) -> Result<(), String> {
        let mut text = String::new();
        for ((name, here), (_, there)) in named(&view.program).into_iter().zip(named(twin)) {
            let own_id = here == u64::from(view.tid) && there == u64::from(self.twin);
            // The flags that a system call stores there have the trap flag of the stepped program.
            let trap = name == "r11" && here ^ there == TRAP;
            if here != there && !own_id && !trap {
                let _ = write!(text, " {name} is {here:#x} instead of {there:#x}");
            }
        }
        if text.is_empty() {
            text = self.stack_differs(view.tid, twin.rsp);
        }
        if text.is_empty() { Ok(()) } else { Err(text) }
    }
}

impl InstructionProbe for Lockstep {
    fn look(&mut self, view: &ProbeView) -> ProbeOrder {
        if self.verdict.is_some() {
            return ProbeOrder::GoOn;
        }
        if !self.started {
            let begins = trace::registers(self.twin).is_ok_and(|twin| twin.rip == view.program.rip);
            self.started = begins;
        }
        self.looks += 1;
        self.trail.push((view.pc, view.program.rip));
        if self.trail.len() > 12 {
            self.trail.remove(0);
        }
        self.note_left_over(view);
        if let Err(difference) = self.compare(view) {
            self.verdict = Some(self.explained(view, &difference));
        } else if self.looks >= self.most {
            self.verdict = Some(String::new());
        }
        match &self.verdict {
            None => ProbeOrder::GoOn,
            Some(_) => {
                let _ = trace::detach(self.twin, 0);
                ProbeOrder::Detach
            }
        }
    }
}

impl Notes for SharedNotes<Lockstep> {
    /// How many steps, how many looks, then what is wrong.
    fn notes(&self) -> String {
        let lockstep = self.0.borrow();
        // The twin is before its last system call.
        let steps = lockstep.steps + 1;
        if lockstep.verdict.is_none() {
            let _ = trace::detach(lockstep.twin, 0);
        }
        format!("{steps} {} {}", lockstep.looks, lockstep.verdict.as_deref().unwrap_or_default())
    }
}

fn named(r: &Registers) -> [(&'static str, u64); 19] {
    [
        ("rip", r.rip),
        ("rax", r.rax),
        ("rcx", r.rcx),
        ("rdx", r.rdx),
        ("rbx", r.rbx),
        ("rsp", r.rsp),
        ("rbp", r.rbp),
        ("rsi", r.rsi),
        ("rdi", r.rdi),
        ("r8", r.r8),
        ("r9", r.r9),
        ("r10", r.r10),
        ("r11", r.r11),
        ("r12", r.r12),
        ("r13", r.r13),
        ("r14", r.r14),
        ("r15", r.r15),
        ("flags", r.eflags & !(OF_DEBUGGERS | OSZAP)),
        ("fs", r.fs_base),
    ]
}

fn stack(tid: u32, from: u64) -> Vec<u8> {
    let mut bytes = vec![0; STACK];
    let count = trace::read_memory(tid, from, &mut bytes).unwrap_or(0);
    bytes.truncate(count);
    bytes
}

/// Whether two executions of it have different results.
fn is_oracle(mnemonic: Mnemonic) -> bool {
    matches!(mnemonic, Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Rdrand | Mnemonic::Cpuid)
}

fn instruction(tid: u32, pc: u64) -> Instruction {
    let mut bytes = [0; 15];
    let count = trace::read_memory(tid, pc, &mut bytes).unwrap_or(0);
    Decoder::with_ip(64, &bytes[..count], pc, DecoderOptions::NONE).decode()
}

fn disassembled(tid: u32, pc: u64) -> String {
    let mut text = String::new();
    NasmFormatter::new().format(&instruction(tid, pc), &mut text);
    text
}
