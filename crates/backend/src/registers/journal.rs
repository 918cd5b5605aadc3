//! The restore steps of a CPU's registers, which are written to a file before the registers change.
//!
//! A journal is a text with a line for each step, so that any process can read it after its writer has died.
//! Registers stand in it by name, and are looked up on the chip's list, so that no text can name another
//! register. Reading is bounded, and a text without its last line is invalid.

use std::fmt::{self, Write};

use cyclometer_arch::{Chip, NotListed, PmuReg, Register, RegisterBits, Step};
use cyclometer_core::cpuset::CPU_LIMIT;

/// The longest journal that is read, in bytes. The journal of a CPU with all of its counters takes 6 KiB.
pub const MAX_BYTES: usize = 256 << 10;

/// Maximum number of steps of a journal.
const MAX_STEPS: usize = 4096;

/// The longest name of a register or of a boot.
const MAX_NAME: usize = 64;

/// The first line: the kind of file, and its version.
const FIRST: &str = "cyclometer registers 1";

/// A process, with its start time to tell it from later ones with the same id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// When it was started, in clock ticks since the boot.
    pub started: u64,
}

impl Process {
    fn parse(text: &str) -> Result<Process, &'static str> {
        let (pid, started) = text.split_once(' ').ok_or(PROCESS)?;
        let started = started.parse().map_err(|_| PROCESS)?;
        match pid.parse() {
            Ok(pid) if pid > 0 => Ok(Process { pid, started }),
            _ => Err(PROCESS),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.started)
    }
}

const PROCESS: &str = "a process has an id and the time when it was started";

/// A step whose register has not been looked up yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NamedStep {
    /// Bits are written.
    Write {
        /// The name of the register.
        register: String,
        /// The values of the bits.
        value: u64,
        /// The bits that are written.
        mask: u64,
    },
    /// Earlier writes take effect before the next step.
    Barrier,
}

/// The steps that restore the registers of one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Journal {
    /// The boot in which the registers were written; at the next one they are reset.
    pub boot: String,
    /// The process that writes the registers.
    pub maker: Process,
    /// The process that restores them when the maker dies.
    pub daemon: Process,
    /// The CPU.
    pub cpu: u32,
    /// The steps that restore its registers.
    pub steps: Vec<NamedStep>,
}

/// The error of a text that is no journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadJournal {
    /// The line that is wrong, from 1 on.
    pub line: usize,
    /// The reason.
    pub why: &'static str,
}

impl fmt::Display for BadJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for BadJournal {}

impl Journal {
    /// Replaces the registers of steps by their names.
    pub fn named(steps: &[Step]) -> Vec<NamedStep> {
        let name = |step: &Step| match step {
            Step::Barrier => NamedStep::Barrier,
            Step::Write(RegisterBits { register, value, mask }) => {
                NamedStep::Write { register: register.to_string(), value: *value, mask: *mask }
            }
        };
        steps.iter().map(name).collect()
    }

    /// The text of this journal, which [`Journal::parse`] reads.
    pub fn to_text(&self) -> String {
        let Journal { boot, maker, daemon, cpu, steps } = self;
        let mut text = format!("{FIRST}\nboot {boot}\nmaker {maker}\nkeeper {daemon}\ncpu {cpu}\n");
        for step in steps {
            let _ = match step {
                NamedStep::Barrier => writeln!(text, "barrier"),
                NamedStep::Write { register, value, mask } => {
                    writeln!(text, "write {register} {value:#x} {mask:#x}")
                }
            };
        }
        text + "end\n"
    }

    /// Reads a journal.
    ///
    /// # Errors
    ///
    /// The first line that differs from the form of [`Journal::to_text`]; a text that is too long, or
    /// incomplete.
    pub fn parse(bytes: &[u8]) -> Result<Journal, BadJournal> {
        let at = |line| move |why| BadJournal { line, why };
        if bytes.len() > MAX_BYTES {
            return Err(at(1)("it is too long for a journal"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| at(1)("it is no text"))?;
        let body = text
            .strip_suffix("\nend\n")
            .ok_or_else(|| at(text.lines().count())("the last line is missing"))?;
        let mut lines = (1..).zip(body.split('\n'));
        let mut head = |word: &str| {
            let (line, text) = lines.next().unwrap_or((5, ""));
            text.strip_prefix(word)
                .map(|rest| (line, rest))
                .ok_or_else(|| at(line)("it does not begin as a journal"))
        };
        head(FIRST).and_then(|(line, rest)| nothing(rest).map_err(at(line)))?;
        let boot = head("boot ").and_then(|(line, rest)| name(rest).map_err(at(line)))?;
        let maker = head("maker ").and_then(|(line, rest)| Process::parse(rest).map_err(at(line)))?;
        let daemon = head("keeper ").and_then(|(line, rest)| Process::parse(rest).map_err(at(line)))?;
        let cpu = head("cpu ").and_then(|(line, rest)| cpu(rest).map_err(at(line)))?;
        let mut steps = Vec::new();
        for (line, text) in lines {
            if steps.len() == MAX_STEPS {
                return Err(at(line)("there are too many steps"));
            }
            steps.push(step(text).map_err(at(line))?);
        }
        Ok(Journal { boot, maker, daemon, cpu, steps })
    }

    /// The steps, with registers from the list of a chip.
    ///
    /// # Errors
    ///
    /// A register that is not on the list; bits that a driver may not write.
    pub fn steps(&self, chip: &Chip) -> Result<Vec<Step>, NotListed> {
        self.steps.iter().map(|step| listed(chip, step)).collect()
    }
}

fn listed(chip: &Chip, step: &NamedStep) -> Result<Step, NotListed> {
    let NamedStep::Write { register: name, value, mask } = step else { return Ok(Step::Barrier) };
    let refused = || NotListed { register: name.clone() };
    let register = Register::parse(chip, name).map_err(|_| refused())?;
    let register = PmuReg::of(chip, register)?;
    // Only the name itself is accepted: neither a number nor another spelling.
    let own = register.to_string() == *name;
    let allowed = mask & !register.access().writable() == 0;
    match own && allowed && value & !mask == 0 {
        true => Ok(Step::Write(RegisterBits { register, value: *value, mask: *mask })),
        false => Err(refused()),
    }
}

fn nothing(rest: &str) -> Result<(), &'static str> {
    if rest.is_empty() { Ok(()) } else { Err("it does not begin as a journal") }
}

fn name(text: &str) -> Result<String, &'static str> {
    let fits = !text.is_empty() && text.len() <= MAX_NAME;
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if fits && plain { Ok(text.to_owned()) } else { Err("a name has up to 64 letters, digits, - and _") }
}

fn cpu(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|cpu| *cpu < CPU_LIMIT).ok_or("no CPU has that number")
}

fn step(line: &str) -> Result<NamedStep, &'static str> {
    if line == "barrier" {
        return Ok(NamedStep::Barrier);
    }
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next(), words.next(), words.next()) {
        (Some("write"), Some(register), Some(value), Some(mask), None) => Ok(NamedStep::Write {
            register: name(register)?,
            value: hexadecimal(value)?,
            mask: hexadecimal(mask)?,
        }),
        _ => Err("no step is written like that"),
    }
}

fn hexadecimal(text: &str) -> Result<u64, &'static str> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or("values are hexadecimal: 0x…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_arch::ChipCounters;
    use cyclometer_core::{CounterMask, CounterWidth, pmu::Family};

    fn skylake() -> Chip {
        Chip {
            family: Family::Intel,
            pmu_version: Some(4),
            selector_bits: Some(8),
            counter_width: Some(CounterWidth::carrying(48)),
            counters: ChipCounters::of(CounterMask::first(4, 3)),
        }
    }

    fn write(register: &str, value: u64, mask: u64) -> NamedStep {
        NamedStep::Write { register: register.to_owned(), value, mask }
    }

    fn journal(steps: Vec<NamedStep>) -> Journal {
        let (maker, daemon) = (Process { pid: 12, started: 3456 }, Process { pid: 14, started: 3457 });
        Journal { boot: "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0".to_owned(), maker, daemon, cpu: 3, steps }
    }

    #[test]
    fn what_was_written_down_is_read_back() {
        let steps =
            vec![write("IA32_PERF_GLOBAL_CTRL", 0, u64::MAX), NamedStep::Barrier, write("IA32_PMC0", 7, 7)];
        for journal in [journal(steps), journal(Vec::new())] {
            assert_eq!(Journal::parse(journal.to_text().as_bytes()), Ok(journal));
        }
    }

    #[test]
    fn names_and_steps_go_both_ways_for_every_register_of_a_chip() {
        let chip = skylake();
        let steps = |register: PmuReg| {
            let mask = register.access().writable();
            Step::Write(RegisterBits { register, value: 0x5a & mask, mask })
        };
        let steps: Vec<Step> = PmuReg::all(&chip).into_iter().map(steps).chain([Step::Barrier]).collect();
        assert_eq!(journal(Journal::named(&steps)).steps(&chip), Ok(steps));
    }

    #[test]
    fn a_register_or_bits_that_are_no_drivers_are_refused() {
        let refused = |step| assert!(journal(vec![step]).steps(&skylake()).is_err());
        refused(write("IA32_MISC_ENABLE", 0, 1));
        refused(write("IA32_PERFEVTSEL4", 0, 1));
        refused(write("PERF_CTL0", 0, 1));
        // Numbers and other spellings find a register elsewhere, not here.
        refused(write("0x186", 0, 1));
        refused(write("PERFEVTSEL0", 0, 1));
        // Debug register of the processor: one bit only. A read-only register: none.
        refused(write("IA32_DEBUGCTL", 0, 1));
        refused(write("IA32_DEBUGCTL", 0, u64::MAX));
        refused(write("IA32_PEBS_ENABLE", 0, 1));
        refused(write("IA32_PERFEVTSEL0", 2, 1));
        assert!(journal(vec![write("IA32_DEBUGCTL", 0, 1 << 12)]).steps(&skylake()).is_ok());
    }

    fn wrong(text: &str) -> BadJournal {
        Journal::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let good = journal(vec![write("IA32_PMC0", 7, 7), NamedStep::Barrier]).to_text();
        let check = |from: &str, to: &str, line, why: &str| {
            assert!(good.contains(from), "{from}");
            let error = wrong(&good.replacen(from, to, 1));
            assert_eq!((error.line, error.why), (line, why), "{from} -> {to}");
        };
        let (head, process) = ("it does not begin as a journal", PROCESS);
        check("registers 1", "registers 2", 1, head);
        check("registers 1", "registers 11", 1, head);
        check("boot 0f", "boot ../0f", 2, "a name has up to 64 letters, digits, - and _");
        check("boot ", "", 2, head);
        check("maker 12", "maker 0", 3, process);
        check("maker 12 3456", "maker 12", 3, process);
        check("keeper 14", "keeper -1", 4, process);
        check("cpu 3", "cpu 65536", 5, "no CPU has that number");
        check("0x7 0x7", "0x7", 6, "no step is written like that");
        check("0x7 0x7", "0x7 0x7 0x7", 6, "no step is written like that");
        check("0x7 0x7", "7 0x7", 6, "values are hexadecimal: 0x…");
        check("0x7 0x7", "0x+7 0x7", 6, "values are hexadecimal: 0x…");
        check("0x7 0x7", "0x7 0x10000000000000000", 6, "values are hexadecimal: 0x…");
        check("IA32_PMC0", "IA32/PMC0", 6, "a name has up to 64 letters, digits, - and _");
        check("barrier", "", 7, "no step is written like that");
        check("end\n", "", 7, "the last line is missing");
        check("end\n", "end", 8, "the last line is missing");
    }

    #[test]
    fn no_part_of_a_journal_passes_for_a_whole_one() {
        let whole = journal(vec![write("IA32_PMC0", 7, 7), NamedStep::Barrier]).to_text();
        for end in 0..whole.len() {
            assert!(Journal::parse(&whole.as_bytes()[..end]).is_err(), "{end}");
        }
        assert!(Journal::parse(b"end\n").is_err());
        assert!(Journal::parse(b"\nend\n").is_err());
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        let long = journal(vec![NamedStep::Barrier; MAX_STEPS + 1]).to_text();
        assert_eq!(wrong(&long).why, "there are too many steps");
        assert!(Journal::parse(journal(vec![NamedStep::Barrier; MAX_STEPS]).to_text().as_bytes()).is_ok());
        assert_eq!(wrong(&" ".repeat(MAX_BYTES + 1)).why, "it is too long for a journal");
        assert_eq!(Journal::parse(&[0xff, b'\n']).unwrap_err().why, "it is no text");
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let whole = journal(vec![write("IA32_PMC0", 7, 7), NamedStep::Barrier]).to_text().into_bytes();
        let mut random = cyclometer_core::Random::seeded(7);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"\n 0x_-end"[random.below(9)]),
                }
            }
            if let Ok(journal) = Journal::parse(&bytes) {
                let _ = journal.steps(&skylake());
                assert_eq!(Journal::parse(journal.to_text().as_bytes()), Ok(journal));
            }
        }
    }
}
