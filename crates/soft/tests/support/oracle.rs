//! Counts by single steps: what the software PMU is compared with.
//!
//! Each stop behind a step is an executed instruction, which is decoded by itself; nothing is known of blocks
//! or edges. Consecutive stops at one repeated string instruction are one execution. Where a signal's handler
//! begins, nothing was executed; what raises a fault was not executed either. The report is that of the
//! software PMU.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;

use cyclometer_soft::addend::{Addend, AddendKind, NOT_TAKEN, TAKEN};
use cyclometer_soft::host::FIXED_BYTES;
use cyclometer_soft::iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory};
use cyclometer_soft::{ExecutionEvent, classify};
use cyclometer_sys::trace::{self, Change, Options, Registers};

const SIGTRAP: i32 = 5;

/// Codes of `SIGTRAP`.
///
/// # Source
///
/// `include/uapi/asm-generic/siginfo.h`; a handler's first instruction: `kernel/signal.c`,
/// `signal_setup_done`, which calls `ptrace_notify(SIGTRAP)`, whose argument becomes the code.
mod code {
    pub const BREAKPOINT: i32 = 1;
    pub const STEP: i32 = 2;
    pub const HANDLER: i32 = 5;
    pub const KERNEL: i32 = 0x80;
}

/// Traces a process that has not executed its command yet, counts it and its descendants to their ends, and
/// reports.
pub fn count(pid: u32, mut socket: UnixStream) {
    let options =
        Options::FORK | Options::VFORK | Options::CLONE | Options::EXEC | Options::EXIT | Options::EXIT_KILL;
    trace::seize(pid, options).unwrap();
    socket.write_all(b"ready\n").unwrap();
    let mut oracle = Oracle::default();
    oracle.adopt(pid, 0, false);
    while !oracle.tasks.is_empty() {
        let (tid, change) = oracle.next();
        if oracle.handle(tid, change).is_err() {
            // It was killed; its end is reported.
            let _ = trace::resume(tid, 0);
        }
    }
    socket.write_all(oracle.report().as_bytes()).unwrap();
}

#[derive(Default)]
struct Oracle {
    tasks: HashMap<u32, OracleTask>,
    processes: Vec<OracleProcess>,
    /// First stops of children that came before those of their makers.
    early: Vec<(u32, Change)>,
}

struct OracleTask {
    process: usize,
    /// It executes the command: before, nothing is counted.
    counted: bool,
    /// The next instruction, and the registers before it.
    next: Option<(usize, Registers)>,
    /// How many elements its mask selects.
    selected: u64,
    /// The next instruction was interrupted by a signal that is ignored. An untraced process does not notice
    /// that.
    again: bool,
}

struct OracleProcess {
    pid: u32,
    parent: u32,
    name: String,
    /// By the address and the bytes there: code may change at any time.
    known: HashMap<(u64, [u8; 15]), usize>,
    codes: Vec<OracleCode>,
}

/// An instruction at an address.
struct OracleCode {
    instruction: Instruction,
    events: Vec<(ExecutionEvent, u32)>,
    addend: Option<Addend>,
    executions: u64,
    /// Iterations, or times taken.
    units: u64,
    not_taken: u64,
}

impl Oracle {
    fn adopt(&mut self, pid: u32, parent: u32, counted: bool) {
        let process =
            OracleProcess { pid, parent, name: name(pid), known: HashMap::new(), codes: Vec::new() };
        self.processes.push(process);
        self.add(pid, self.processes.len() - 1, counted);
    }

    fn add(&mut self, tid: u32, process: usize, counted: bool) {
        let task = OracleTask { process, counted, next: None, selected: 0, again: false };
        self.tasks.insert(tid, task);
    }

    /// A new process, or a new thread of its parent's process.
    fn born(&mut self, tid: u32, maker: u32) {
        let OracleTask { process, counted, .. } = self.tasks[&maker];
        if is_thread(tid) {
            self.add(tid, process, counted);
        } else {
            self.adopt(tid, self.processes[process].pid, counted);
        }
    }

    /// Waits for a change.
    fn next(&mut self) -> (u32, Change) {
        let tids: Vec<u32> = self.tasks.keys().copied().collect();
        if let Some(early) = self.early.iter().position(|(tid, _)| tids.contains(tid)) {
            return self.early.swap_remove(early);
        }
        if let [tid] = tids[..] {
            return (tid, trace::wait_for(tid).unwrap());
        }
        loop {
            match trace::wait().unwrap() {
                Some((tid, change)) if tids.contains(&tid) => return (tid, change),
                Some(stranger) => self.early.push(stranger),
                None => std::thread::yield_now(),
            }
        }
    }

    fn handle(&mut self, tid: u32, change: Change) -> io::Result<()> {
        match change {
            Change::Exited(_) | Change::Killed(_) => {
                self.tasks.remove(&tid);
                Ok(())
            }
            Change::Exec => self.executed(tid),
            Change::Fork | Change::VFork | Change::Clone => {
                self.born(trace::event_message(tid)? as u32, tid);
                self.step(tid, 0)
            }
            Change::Exiting => {
                // A killed task did not complete its last instruction.
                if trace::event_message(tid)? & 0x7f == 0 {
                    self.retire(tid, None);
                }
                trace::resume(tid, 0)
            }
            Change::Group(_) => trace::listen(tid),
            Change::Signal(SIGTRAP) => self.trapped(tid),
            Change::Signal(signal) => {
                let again = restarts(&trace::registers(tid)?) && is_ignored(tid, signal);
                self.tasks.entry(tid).and_modify(|task| task.again = again);
                self.go_on(tid, signal)
            }
            Change::Interrupted | Change::VForkDone | Change::Other(_) => self.go_on(tid, 0),
        }
    }

    fn executed(&mut self, tid: u32) -> io::Result<()> {
        // Whichever thread called, it has the first one's id now.
        let former = trace::event_message(tid)? as u32;
        if let Some(task) = self.tasks.remove(&former) {
            self.tasks.insert(tid, task);
        }
        let task = self.tasks.get_mut(&tid).unwrap();
        let process = &mut self.processes[task.process];
        process.name = name(tid);
        process.known.clear();
        task.counted = true;
        trace::write_memory(tid, random_bytes(tid)?, &FIXED_BYTES)?;
        self.step(tid, 0)
    }

    fn trapped(&mut self, tid: u32) -> io::Result<()> {
        match trace::signal_info(tid)?.code() {
            code::BREAKPOINT | code::STEP => {
                let after = trace::registers(tid)?;
                self.retire(tid, Some(&after));
                self.go_on_from(tid, 0, after)
            }
            code::HANDLER => {
                self.tasks.entry(tid).and_modify(|task| task.again = false);
                self.go_on(tid, 0)
            }
            code::KERNEL => {
                let after = trace::registers(tid)?;
                self.retire(tid, Some(&after));
                self.go_on_from(tid, SIGTRAP, after)
            }
            _ => {
                // Where the program sends it to itself, the step's own is not told apart from it.
                let after = trace::registers(tid)?;
                if self.tasks[&tid].next.is_some_and(|(_, before)| before.rip != after.rip) {
                    self.retire(tid, Some(&after));
                }
                self.go_on_from(tid, SIGTRAP, after)
            }
        }
    }

    fn go_on(&mut self, tid: u32, signal: i32) -> io::Result<()> {
        let registers = trace::registers(tid)?;
        self.go_on_from(tid, signal, registers)
    }

    fn go_on_from(&mut self, tid: u32, signal: i32, mut registers: Registers) -> io::Result<()> {
        if restarts(&registers) {
            registers.rip -= 2;
        }
        let task = self.tasks.get_mut(&tid).unwrap();
        let code = self.processes[task.process].code(tid, registers.rip);
        task.next = code.map(|code| (code, registers));
        if let Some(Addend::Elements(of)) =
            code.and_then(|code| self.processes[task.process].codes[code].addend.clone())
        {
            task.selected = masks::selected(tid, &of)?;
        }
        self.step(tid, signal)
    }

    fn step(&mut self, tid: u32, signal: i32) -> io::Result<()> {
        if self.tasks[&tid].counted { trace::step(tid, signal) } else { trace::resume(tid, signal) }
    }

    /// The next instruction was executed, unless it is a repeated one that continues.
    fn retire(&mut self, tid: u32, after: Option<&Registers>) {
        let task = self.tasks.get_mut(&tid).unwrap();
        let Some((index, before)) = task.next.take() else { return };
        if std::mem::take(&mut task.again) {
            return;
        }
        let process = &mut self.processes[task.process];
        let selected = task.selected;
        process.codes[index].retire(&before, after, selected);
    }

    fn report(&self) -> String {
        self.processes.iter().map(OracleProcess::report).chain(["end\n".to_owned()]).collect()
    }
}

impl OracleProcess {
    /// The instruction at an address.
    fn code(&mut self, tid: u32, address: u64) -> Option<usize> {
        let mut bytes = [0; 15];
        let count = match trace::read_memory(tid, address, &mut bytes).unwrap_or(0) {
            // Memory that can only be executed is read by words.
            0 => {
                let words = [trace::peek(tid, address).ok()?, trace::peek(tid, address + 8).ok()?];
                let [low, high] = words.map(u64::to_le_bytes);
                bytes[..8].copy_from_slice(&low);
                bytes[8..].copy_from_slice(&high[..7]);
                bytes.len()
            }
            count => count,
        };
        if let Some(known) = self.known.get(&(address, bytes)) {
            return Some(*known);
        }
        let instruction = Decoder::with_ip(64, &bytes[..count], address, DecoderOptions::NONE).decode();
        let class = classify(&instruction, InstructionInfoFactory::new().info(&instruction));
        let events = class.events.compact().iter().collect();
        let code =
            OracleCode { instruction, events, addend: class.addend, executions: 0, units: 0, not_taken: 0 };
        self.codes.push(code);
        self.known.insert((address, bytes), self.codes.len() - 1);
        Some(self.codes.len() - 1)
    }

    fn report(&self) -> String {
        let mut sums: BTreeMap<ExecutionEvent, u64> =
            ExecutionEvent::ALL.iter().map(|event| (*event, 0)).collect();
        let mut tiles = false;
        for code in &self.codes {
            code.add_to(&mut sums);
            let kind = code.addend.as_ref().map(Addend::kind);
            tiles |= code.executions > 0 && kind == Some(AddendKind::Bytes);
        }
        sums.insert(ExecutionEvent::DistinctCodeBytes, self.distinct_bytes());
        let mut text = format!("process {} {} {}\n", self.pid, self.parent, self.name);
        for (event, count) in sums {
            let known = !(tiles && AddendKind::Bytes.feeds().contains(&event));
            let word =
                if known { format!("count {event} {count}") } else { format!("missing {event} tiles") };
            writeln!(text, "{word}").unwrap();
        }
        text
    }

    fn distinct_bytes(&self) -> u64 {
        let executed = self.codes.iter().filter(|code| code.executions > 0);
        let bytes = executed.flat_map(|code| code.instruction.ip()..code.instruction.next_ip());
        bytes.collect::<std::collections::HashSet<u64>>().len() as u64
    }
}

impl OracleCode {
    /// Counts an execution; whether there was one. `after` is `None` for a process that has ended by it.
    fn retire(&mut self, before: &Registers, after: Option<&Registers>, selected: u64) -> bool {
        let rip = after.map_or(self.instruction.next_ip(), |after| after.rip);
        match (&self.addend, after) {
            (Some(Addend::Iterations(_)), Some(after)) => {
                self.units += self.counter(before) - self.counter(after);
                if rip == self.instruction.ip() {
                    return false;
                }
            }
            (Some(Addend::Direction), _) => {
                let (target, next) = (self.instruction.near_branch_target(), self.instruction.next_ip());
                assert!([target, next].contains(&rip), "{:?} went to {rip:#x}", self.instruction);
                let taken = if target == next { self.condition(before.eflags) } else { rip == target };
                *if taken { &mut self.units } else { &mut self.not_taken } += 1;
            }
            (Some(Addend::Elements(_)), _) => self.units += selected,
            _ => {}
        }
        self.executions += 1;
        true
    }

    /// Whether these flags make a branch: asked only where it leads to the next instruction.
    fn condition(&self, flags: u64) -> bool {
        use cyclometer_soft::iced_x86::ConditionCode::*;
        let [carry, parity, zero, sign, overflow] = [0, 2, 6, 7, 11].map(|bit| flags >> bit & 1 == 1);
        match self.instruction.condition_code() {
            o => overflow,
            no => !overflow,
            b => carry,
            ae => !carry,
            e => zero,
            ne => !zero,
            be => carry || zero,
            a => !carry && !zero,
            s => sign,
            ns => !sign,
            p => parity,
            np => !parity,
            l => sign != overflow,
            ge => sign == overflow,
            le => zero || sign != overflow,
            g => !zero && sign == overflow,
            None => panic!("{:?} to the next instruction", self.instruction),
        }
    }

    /// The counter of iterations: rcx, or ecx with an address-size prefix.
    fn counter(&self, registers: &Registers) -> u64 {
        use cyclometer_soft::iced_x86::OpKind::*;
        let narrow =
            self.instruction.op_kinds().any(|kind| matches!(kind, MemorySegESI | MemorySegEDI | MemoryESEDI));
        if narrow { registers.rcx & 0xffff_ffff } else { registers.rcx }
    }

    fn add_to(&self, sums: &mut BTreeMap<ExecutionEvent, u64>) {
        let mut add = |event: ExecutionEvent, count: u64| *sums.entry(event).or_default() += count;
        self.events.iter().for_each(|(event, each)| add(*event, u64::from(*each) * self.executions));
        match &self.addend {
            Some(Addend::Direction) => {
                TAKEN.into_iter().for_each(|(event, each)| add(event, u64::from(each) * self.units));
                NOT_TAKEN.into_iter().for_each(|(event, each)| add(event, u64::from(each) * self.not_taken));
            }
            Some(addend) => {
                addend
                    .per_unit()
                    .into_iter()
                    .for_each(|(event, each)| add(event, u64::from(each) * self.units));
            }
            None => {}
        }
    }
}

/// Whether a stop is at the end of a system call that is made again, unless a handler is called.
///
/// # Source
///
/// Linux `include/linux/errno.h`: `ERESTARTSYS` and its kind, 512 to 514 and 516.
fn restarts(registers: &Registers) -> bool {
    registers.orig_rax.cast_signed() >= 0 && matches!(registers.rax.cast_signed(), -516 | -514..=-512)
}

/// Whether a process does nothing about a signal.
///
/// # Source
///
/// `signal(7)`; `proc(5)`, `/proc/pid/status`.
fn is_ignored(pid: u32, signal: i32) -> bool {
    const BY_DEFAULT: [i32; 4] = [17, 18, 23, 28];
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let has = |field: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0").trim();
        u64::from_str_radix(mask, 16).unwrap() >> (signal - 1) & 1 == 1
    };
    has("SigIgn:") || (BY_DEFAULT.contains(&signal) && !has("SigCgt:"))
}

/// Whether a task is not the first one of its process.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `Tgid`.
fn is_thread(tid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let first = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    first.is_some_and(|first| first.trim() != tid.to_string())
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end_matches('\n').to_owned()
}

/// The address of the 16 random bytes that the kernel gives to a program.
///
/// # Source
///
/// `getauxval(3)`, `AT_RANDOM`.
fn random_bytes(pid: u32) -> io::Result<u64> {
    const AT_RANDOM: u64 = 25;
    let bytes = fs::read(format!("/proc/{pid}/auxv"))?;
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let found = words.chunks_exact(2).find(|pair| pair[0] == AT_RANDOM);
    found.map(|pair| pair[1]).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Masks in the registers of a stopped process.
mod masks {
    use std::io;

    use cyclometer_soft::addend::{ElementMask, MaskedElements};
    use cyclometer_sys::cpuid::cpuid;
    use cyclometer_sys::trace;

    /// Where registers are in the area of `XSAVE`.
    ///
    /// # Source
    ///
    /// Intel SDM volume 1, section 13.4: x87 registers from byte 32, XMM from 160; leaf 0xd of `CPUID` for
    /// the rest: component 2 is the upper halves of YMM, 5 the opmasks.
    const MM: usize = 32;
    const XMM: usize = 160;

    /// How many elements are selected.
    pub(super) fn selected(tid: u32, of: &MaskedElements) -> io::Result<u64> {
        let state = trace::extended_state(tid)?;
        let word = |at: usize| u64::from_le_bytes(state[at..at + 8].try_into().unwrap());
        let lanes = usize::from(of.lanes);
        Ok(match of.mask {
            ElementMask::Opmask(register) => {
                let bits = word(component(5) + 8 * register.number());
                u64::from((bits & (u64::MAX >> (64 - lanes))).count_ones())
            }
            ElementMask::Signs(register) => {
                let number = register.number();
                let byte = |i: usize| match i {
                    _ if register.is_mm() => state[MM + 16 * number + i],
                    0..16 => state[XMM + 16 * number + i],
                    _ => state[component(2) + 16 * number + i - 16],
                };
                let each = usize::from(of.element_bytes);
                (0..lanes).filter(|lane| byte((lane + 1) * each - 1) & 0x80 != 0).count() as u64
            }
        })
    }

    fn component(number: u32) -> usize {
        cpuid(0xd, number)[1] as usize
    }
}
