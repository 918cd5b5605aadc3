//! A program in translated code, compared at each instruction with its twin that steps natively.

use std::fmt::Write as _;

use cyclometer_soft::host::{Order, Probe, View};
use cyclometer_soft::iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};
use cyclometer_sys::trace::{self, Registers};

use crate::lab::Notes;
use crate::probes::{self, Shared};

/// Bytes of the stack that are compared.
const STACK: usize = 64;

/// Flags of the processor that a debugger changes: the trap flag and the resume flag.
const OF_DEBUGGERS: u64 = 0x1_0100;

/// A comparison under way.
pub struct Lockstep {
    twin: u32,
    most: u64,
    started: bool,
    /// Instructions of the twin; iterations are not among them.
    steps: u64,
    /// Looks at translated code.
    looks: u64,
    /// What was executed last in translated code.
    trail: Vec<(u64, u64)>,
    verdict: Option<String>,
}

impl Lockstep {
    pub fn new(twin: u32, most: u64) -> Lockstep {
        Lockstep { twin, most, started: false, steps: 0, looks: 0, trail: Vec::new(), verdict: None }
    }

    /// The twin's registers, one instruction later.
    fn step(&mut self) -> Option<Registers> {
        let before = trace::registers(self.twin).ok()?.rip;
        probes::step(self.twin).ok().filter(|alive| *alive)?;
        let after = trace::registers(self.twin).ok()?;
        self.steps += u64::from(after.rip != before);
        Some(after)
    }

    fn compare(&mut self, view: &View) -> Result<(), String> {
        let twin = trace::registers(self.twin).map_err(|e| e.to_string())?;
        let Err(first) = self.same(view, &twin) else { return Ok(()) };
        let next = self.step().ok_or_else(|| format!("the twin has ended; {first}"))?;
        self.same(view, &next).map_err(|second| {
            let mut text = format!("at {:#x}, translated at {:#x}\n", view.program.rip, view.pc);
            let _ = writeln!(text, "before an instruction: {first}\nbehind it: {second}");
            for (pc, rip) in &self.trail {
                let _ = writeln!(text, "{pc:#x} for {rip:#x}: {}", disassembled(view.tid, *pc));
            }
            text
        })
    }

    fn same(&self, view: &View, twin: &Registers) -> Result<(), String> {
        let mut text = String::new();
        for ((name, here), (_, there)) in named(&view.program).into_iter().zip(named(twin)) {
            if here != there {
                let _ = write!(text, " {name} is {here:#x} instead of {there:#x}");
            }
        }
        if text.is_empty() && stack(view.tid, twin.rsp) != stack(self.twin, twin.rsp) {
            let _ = write!(text, " the stack is {:x?}", stack(view.tid, twin.rsp));
            let _ = write!(text, " instead of {:x?}", stack(self.twin, twin.rsp));
        }
        if text.is_empty() { Ok(()) } else { Err(text) }
    }
}

impl Probe for Lockstep {
    fn look(&mut self, view: &View) -> Order {
        if self.verdict.is_some() {
            return Order::GoOn;
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
        if let Err(difference) = self.compare(view) {
            self.verdict = Some(difference);
        } else if self.looks >= self.most {
            self.verdict = Some(String::new());
        }
        match &self.verdict {
            None => Order::GoOn,
            Some(_) => {
                let _ = trace::detach(self.twin, 0);
                Order::Leave
            }
        }
    }
}

impl Notes for Shared<Lockstep> {
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
        ("flags", r.eflags & !OF_DEBUGGERS),
        ("fs", r.fs_base),
    ]
}

fn stack(tid: u32, from: u64) -> Vec<u8> {
    let mut bytes = vec![0; STACK];
    let count = trace::read_memory(tid, from, &mut bytes).unwrap_or(0);
    bytes.truncate(count);
    bytes
}

fn disassembled(tid: u32, pc: u64) -> String {
    let mut bytes = [0; 15];
    let count = trace::read_memory(tid, pc, &mut bytes).unwrap_or(0);
    let instruction = Decoder::with_ip(64, &bytes[..count], pc, DecoderOptions::NONE).decode();
    let mut text = String::new();
    NasmFormatter::new().format(&instruction, &mut text);
    text
}
