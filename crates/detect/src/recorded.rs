//! Facts replayed from a text file.

use std::collections::BTreeMap;
use std::time::Duration;

use cyclometer_core::machine::{Architecture, Os};
use cyclometer_core::nvml::{NvmlObstacle, NvmlReturn};
use cyclometer_core::{Error, ErrorKind, Recovery, Result};
use cyclometer_sys::tracer_call::TracerCall;

use crate::facts::{
    AccountFacts, FactSource, KpcCounters, MAX_ENTRIES, MAX_FILE_BYTES, NvmlFacts, PerfProbe,
    ProcessAccounts, TraceRefusal,
};
use crate::text::integer;

/// The longest recording that is read, in bytes.
pub(crate) const MAX_RECORDING_BYTES: usize = 16 << 20;

/// Linux's number for "function not implemented".
const ENOSYS: i32 = 38;

/// The number for "no such file".
const ENOENT: i32 = 2;

/// Linux's number for "operation not supported".
const EOPNOTSUPP: i32 = 95;

/// The key of a `CPUID` leaf: CPU (`None`: any), leaf, sub-leaf.
pub(crate) type CpuidKey = (Option<u32>, u32, u32);

/// A file whose lines are being read.
struct OpenFile {
    path: String,
    lines: usize,
}

/// The facts of a machine, read from text.
///
/// The format is UTF-8, one fact a line, the kind first; numbers are decimal or `0x…`:
///
/// ```text
/// note recorded: …            first line: `recorded: …` or `synthetic: …`, and from what
/// os linux                    linux, macos, other
/// architecture x86_64         x86_64, aarch64, riscv64, other
/// release 6.12.107            release of the kernel
/// euid 1000                   effective user id
/// cpus 8                      CPU count for systems that list them nowhere
/// file PATH TEXT              a file of one line (TEXT may be left out: an empty file)
/// file PATH                   a file of several lines, which follow, each behind "| "
/// | first line
/// list DIR NAME NAME …        the names in a directory
/// cpuid CPU LEAF SUB A B C D  a CPUID leaf; CPU `*` for any; `none` instead of A B C D: cannot be asked
/// sysctl NAME TEXT            a sysctl of macOS
/// perf type=T config=C user=0|1 kernel=0|1 pid=P cpu=N ok|ERRNO
/// trace ok                    a process may trace another, as the software PMU does; else one of:
/// trace ERRNO CALL            a system call is refused (CALL may be left out: ptrace)
/// trace traced PID            another process traces what starts here
/// counted software            the software PMU runs the process that asks
/// sysreg ok|ERRNO             whether user mode may use the registers of Apple's PMU
/// kpc N forced|shared|ERRNO kperf's configurable counters, after all were requested with or without success
/// accounts process=none|totals|cores thread=0|1 counts=0|1   macOS's accounts of counters: those of
///                             processes, whether threads have some, whether counts are in them
/// nvml driver VERSION         the driver behind NVIDIA's management library, and then each of its devices:
/// nvml device NAME MODEL      nvidia0, nvidia0-mig1; instead of these lines one of:
/// nvml missing TEXT|error CODE|silent MS   why the library gave no answer
/// # …                         a remark, as is an empty line
/// ```
///
/// In paths, names and texts a control character or a backslash is written as `\xNN`, a blank in a path or
/// name as `\x20`. A fact that is not in the file does not exist: a missing file, an empty directory, a perf
/// event or tracing that the kernel refuses with `ENOSYS`, registers that are closed (`EOPNOTSUPP`), no kperf
/// (`ENOENT`), no accounts of counters.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedFacts {
    pub(crate) note: String,
    pub(crate) os: Os,
    pub(crate) architecture: Architecture,
    pub(crate) release: Option<String>,
    pub(crate) euid: Option<u32>,
    pub(crate) cpus: u32,
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) lists: BTreeMap<String, Vec<String>>,
    pub(crate) cpuid: BTreeMap<CpuidKey, Option<[u32; 4]>>,
    pub(crate) sysctls: BTreeMap<String, String>,
    pub(crate) perf: BTreeMap<PerfProbe, std::result::Result<(), i32>>,
    pub(crate) trace: Option<std::result::Result<(), TraceRefusal>>,
    pub(crate) counted: bool,
    pub(crate) sysreg: Option<std::result::Result<(), i32>>,
    pub(crate) accounts: Option<AccountFacts>,
    pub(crate) kpc: Option<std::result::Result<KpcCounters, i32>>,
    pub(crate) nvml: Option<std::result::Result<NvmlFacts, NvmlObstacle>>,
}

impl RecordedFacts {
    /// Reads a recording; the format is described at [`RecordedFacts`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] with the number of the line that is no fact.
    pub fn parse(text: &str) -> Result<RecordedFacts> {
        if text.len() > MAX_RECORDING_BYTES {
            return Err(invalid(1, "the recording is larger than 16 MiB"));
        }
        let mut facts = RecordedFacts::empty();
        let mut open_file: Option<OpenFile> = None;
        for (number, line) in (1..).zip(text.lines()) {
            if number == 1 {
                facts.note = note(line).map_err(|why| invalid(number, why))?;
            } else if let Some(rest) = line.strip_prefix('|') {
                let added = facts.add_line(open_file.as_mut(), rest);
                added.map_err(|why| invalid(number, why))?;
            } else {
                open_file = facts.add(line).map_err(|why| invalid(number, why))?;
            }
        }
        if facts.note.is_empty() { Err(invalid(1, "the note is missing")) } else { Ok(facts) }
    }

    /// The recording's origin: recorded or synthetic, and from what.
    pub fn note(&self) -> &str {
        &self.note
    }

    pub(crate) fn empty() -> RecordedFacts {
        RecordedFacts {
            note: String::new(),
            os: Os::Other,
            architecture: Architecture::Other,
            release: None,
            euid: None,
            cpus: 1,
            files: BTreeMap::new(),
            lists: BTreeMap::new(),
            cpuid: BTreeMap::new(),
            sysctls: BTreeMap::new(),
            perf: BTreeMap::new(),
            trace: None,
            counted: false,
            sysreg: None,
            accounts: None,
            kpc: None,
            nvml: None,
        }
    }

    /// Adds one fact; gives the file whose lines may follow.
    fn add(&mut self, line: &str) -> std::result::Result<Option<OpenFile>, &'static str> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "" | "#" => {}
            "os" => self.os = os(rest)?,
            "architecture" => self.architecture = architecture(rest)?,
            "release" => self.release = Some(unescape(rest)?),
            "euid" => self.euid = Some(small(rest)?),
            "cpus" => self.cpus = small(rest)?,
            "file" => return self.add_file(rest),
            "list" => self.add_list(rest)?,
            "cpuid" => self.add_cpuid(rest)?,
            "sysctl" => self.add_sysctl(rest)?,
            "perf" => self.add_perf(rest)?,
            "trace" => self.trace = Some(trace_outcome(rest)?),
            "counted" if rest == "software" => self.counted = true,
            "counted" => return Err("what counts is software, or the line is left out"),
            "sysreg" => self.sysreg = Some(outcome(rest)?),
            "accounts" => self.accounts = Some(account_facts(rest)?),
            "kpc" => self.kpc = Some(kpc_outcome(rest)?),
            "nvml" => self.add_nvml(rest)?,
            _ => return Err("no kind of fact is called that"),
        }
        Ok(None)
    }

    fn add_file(&mut self, rest: &str) -> std::result::Result<Option<OpenFile>, &'static str> {
        let (path, content) = match rest.split_once(' ') {
            Some((path, content)) => (unescape(path)?, Some(unescape(content)?)),
            None => (unescape(rest)?, None),
        };
        if path.is_empty() {
            return Err("a file needs a path");
        }
        let several_lines = content.is_none();
        self.files.insert(path.clone(), content.unwrap_or_default());
        Ok(several_lines.then_some(OpenFile { path, lines: 0 }))
    }

    fn add_line(&mut self, file: Option<&mut OpenFile>, rest: &str) -> std::result::Result<(), &'static str> {
        let file = file.ok_or("no file is open for this line")?;
        let content = self.files.entry(file.path.clone()).or_default();
        let line = unescape(rest.strip_prefix(' ').unwrap_or(rest))?;
        if content.len() + line.len() > MAX_FILE_BYTES {
            return Err("the file is larger than 1 MiB");
        }
        if file.lines > 0 {
            content.push('\n');
        }
        content.push_str(&line);
        file.lines += 1;
        Ok(())
    }

    fn add_list(&mut self, rest: &str) -> std::result::Result<(), &'static str> {
        let mut words = rest.split(' ').filter(|word| !word.is_empty());
        let dir = unescape(words.next().ok_or("a list needs a directory")?)?;
        let names: std::result::Result<Vec<String>, _> = words.take(MAX_ENTRIES).map(unescape).collect();
        let mut names = names?;
        names.sort();
        self.lists.insert(dir, names);
        Ok(())
    }

    fn add_cpuid(&mut self, rest: &str) -> std::result::Result<(), &'static str> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (key, values) = words.split_at_checked(3).ok_or("a CPUID leaf has a CPU, leaf and sub-leaf")?;
        let cpu = if key[0] == "*" { None } else { Some(small(key[0])?) };
        let registers = match values {
            ["none"] => None,
            [a, b, c, d] => Some([small(a)?, small(b)?, small(c)?, small(d)?]),
            _ => return Err("a CPUID leaf has four registers, or none"),
        };
        self.cpuid.insert((cpu, small(key[1])?, small(key[2])?), registers);
        Ok(())
    }

    fn add_sysctl(&mut self, rest: &str) -> std::result::Result<(), &'static str> {
        let (name, value) = rest.split_once(' ').ok_or("a sysctl has a name and a value")?;
        self.sysctls.insert(unescape(name)?, unescape(value)?);
        Ok(())
    }

    fn add_nvml(&mut self, rest: &str) -> std::result::Result<(), &'static str> {
        let (kind, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let obstacle = match kind {
            "missing" => NvmlObstacle::NoLibrary(unescape(rest)?),
            "error" => NvmlObstacle::Returned(NvmlReturn(small(rest)?)),
            "silent" => NvmlObstacle::NoAnswer(Duration::from_millis(small(rest)?.into())),
            "driver" => {
                self.nvml = Some(Ok(NvmlFacts { driver: unescape(rest)?, devices: Vec::new() }));
                return Ok(());
            }
            "device" => {
                let Some(Ok(found)) = &mut self.nvml else { return Err("a device of NVML needs a driver") };
                let (name, model) = rest.split_once(' ').unwrap_or((rest, ""));
                found.devices.push((unescape(name)?, unescape(model)?));
                return Ok(());
            }
            _ => return Err("nvml has a driver and devices, or is missing, silent or an error"),
        };
        self.nvml = Some(Err(obstacle));
        Ok(())
    }

    fn add_perf(&mut self, rest: &str) -> std::result::Result<(), &'static str> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [pmu_type, config, user, kernel, pid, cpu, outcome] = words.as_slice() else {
            return Err("a perf probe has six fields and an outcome");
        };
        let probe = PerfProbe {
            pmu_type: small(behind(pmu_type, "type=")?)?,
            config: integer(behind(config, "config=")?).ok_or("config= needs a number")?,
            exclude_user: excluded(behind(user, "user=")?)?,
            exclude_kernel: excluded(behind(kernel, "kernel=")?)?,
            pid: behind(pid, "pid=")?.parse().map_err(|_| "pid= needs a number")?,
            cpu: behind(cpu, "cpu=")?.parse().map_err(|_| "cpu= needs a number")?,
        };
        self.perf.insert(probe, self::outcome(outcome)?);
        Ok(())
    }
}

impl FactSource for RecordedFacts {
    fn os(&self) -> Os {
        self.os
    }

    fn architecture(&self) -> Architecture {
        self.architecture
    }

    fn kernel_release(&self) -> Option<String> {
        self.release.clone()
    }

    fn euid(&self) -> Option<u32> {
        self.euid
    }

    fn online_cpu_count(&self) -> u32 {
        self.cpus
    }

    fn read(&self, path: &str) -> Option<String> {
        Some(self.files.get(path)?.trim_end_matches('\n').to_owned())
    }

    fn list(&self, dir: &str) -> Vec<String> {
        self.lists.get(dir).cloned().unwrap_or_default()
    }

    fn cpuid(&self, cpu: Option<u32>, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let exact = self.cpuid.get(&(cpu, leaf, subleaf));
        *exact.or_else(|| self.cpuid.get(&(None, leaf, subleaf)))?
    }

    fn sysctl(&self, name: &str) -> Option<String> {
        self.sysctls.get(name).cloned()
    }

    fn perf_probe(&self, probe: &PerfProbe) -> std::result::Result<(), i32> {
        self.perf.get(probe).copied().unwrap_or(Err(ENOSYS))
    }

    fn trace_probe(&self) -> std::result::Result<(), TraceRefusal> {
        self.trace.unwrap_or(Err(TraceRefusal::Call { call: TracerCall::Ptrace, errno: ENOSYS }))
    }

    fn is_counted_by_software(&self) -> bool {
        self.counted
    }

    fn sysreg_probe(&self) -> std::result::Result<(), i32> {
        self.sysreg.unwrap_or(Err(EOPNOTSUPP))
    }

    fn kpc_probe(&self) -> std::result::Result<KpcCounters, i32> {
        self.kpc.unwrap_or(Err(ENOENT))
    }

    fn counter_accounts(&self) -> Option<AccountFacts> {
        self.accounts
    }

    fn nvml_probe(&self) -> std::result::Result<NvmlFacts, NvmlObstacle> {
        let missing = || Err(NvmlObstacle::NoLibrary("the recording has none".to_owned()));
        self.nvml.clone().unwrap_or_else(missing)
    }
}

fn account_facts(words: &str) -> std::result::Result<AccountFacts, &'static str> {
    const FORM: &str = "accounts are process=none|totals|cores thread=0|1 counts=0|1";
    let words: Vec<&str> = words.split(' ').collect();
    let [process, thread, counts] = words.as_slice() else { return Err(FORM) };
    let process = match *process {
        "process=none" => None,
        "process=totals" => Some(ProcessAccounts::Totals),
        "process=cores" => Some(ProcessAccounts::ByCoreType),
        _ => return Err(FORM),
    };
    let flag = |word: &str, name: &str| match word.strip_prefix(name) {
        Some("=0") => Ok(false),
        Some("=1") => Ok(true),
        _ => Err(FORM),
    };
    Ok(AccountFacts { process, thread: flag(thread, "thread")?, counts: flag(counts, "counts")? })
}

fn outcome(word: &str) -> std::result::Result<std::result::Result<(), i32>, &'static str> {
    match word {
        "ok" => Ok(Ok(())),
        errno => Ok(Err(errno.parse().map_err(|_| "the outcome is ok or an error number")?)),
    }
}

fn kpc_outcome(words: &str) -> std::result::Result<std::result::Result<KpcCounters, i32>, &'static str> {
    match words.split_once(' ') {
        Some((count, how @ ("forced" | "shared"))) => {
            Ok(Ok(KpcCounters { configurable: small(count)?, forced: how == "forced" }))
        }
        Some(_) => Err("counters are forced or shared"),
        None => Ok(outcome(words)?.map(|()| KpcCounters { configurable: 0, forced: false })),
    }
}

fn trace_outcome(words: &str) -> std::result::Result<std::result::Result<(), TraceRefusal>, &'static str> {
    // An outcome that names no call is one of ptrace.
    let (first, second) = words.split_once(' ').unwrap_or((words, TracerCall::Ptrace.name()));
    if first == "traced" {
        return Ok(Err(TraceRefusal::Traced { by: small(second)? }));
    }
    let call = TracerCall::named(second).ok_or("the call is none that the software PMU makes")?;
    Ok(outcome(first)?.map_err(|errno| TraceRefusal::Call { call, errno }))
}

fn note(line: &str) -> std::result::Result<String, &'static str> {
    let note = line.strip_prefix("note ").ok_or("the first line must be a note")?;
    let known = ["recorded:", "synthetic:"].iter().any(|kind| note.starts_with(kind));
    if known { Ok(note.to_owned()) } else { Err("the note says neither recorded: nor synthetic:") }
}

fn os(word: &str) -> std::result::Result<Os, &'static str> {
    match word {
        "linux" => Ok(Os::Linux),
        "macos" => Ok(Os::MacOs),
        "other" => Ok(Os::Other),
        _ => Err("os is linux, macos or other"),
    }
}

fn architecture(word: &str) -> std::result::Result<Architecture, &'static str> {
    match word {
        "x86_64" => Ok(Architecture::X86_64),
        "aarch64" => Ok(Architecture::Aarch64),
        "riscv64" => Ok(Architecture::Riscv64),
        "other" => Ok(Architecture::Other),
        _ => Err("architecture is x86_64, aarch64, riscv64 or other"),
    }
}

fn small(text: &str) -> std::result::Result<u32, &'static str> {
    integer(text).and_then(|number| u32::try_from(number).ok()).ok_or("a number of 32 bits is expected")
}

fn excluded(included: &str) -> std::result::Result<bool, &'static str> {
    match included {
        "0" => Ok(true),
        "1" => Ok(false),
        _ => Err("user= and kernel= are 0 or 1"),
    }
}

fn behind<'a>(word: &'a str, prefix: &str) -> std::result::Result<&'a str, &'static str> {
    word.strip_prefix(prefix).ok_or("the fields are type= config= user= kernel= pid= cpu=")
}

/// Turns `\xNN` back into characters.
fn unescape(text: &str) -> std::result::Result<String, &'static str> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        let digits = escaped.strip_prefix('x').and_then(|tail| tail.get(..2)).ok_or(BAD_ESCAPE)?;
        let code = u8::from_str_radix(digits, 16).map_err(|_| BAD_ESCAPE)?;
        out.push_str(plain);
        out.push(char::from(code));
        rest = &escaped[3..];
    }
    out.push_str(rest);
    Ok(out)
}

const BAD_ESCAPE: &str = "behind a backslash stands x and two hexadecimal digits";

fn invalid(line: usize, why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("machine recording, line {line}: {why}"))
        .with_recovery(Recovery::fix("correct the line, or record the machine again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(body: &str) -> Result<RecordedFacts> {
        RecordedFacts::parse(&format!("note synthetic: a test\n{body}"))
    }

    #[test]
    fn files_of_one_line_of_several_and_of_none_are_told_apart() {
        let facts = parse("file /a 1 2\nfile /b\n| x\n|\n| y\nfile /c\nfile /d\n| \\x00\\x5c\n").unwrap();
        assert_eq!(facts.read("/a").as_deref(), Some("1 2"));
        assert_eq!(facts.read("/b").as_deref(), Some("x\n\ny"));
        assert_eq!(facts.read("/c").as_deref(), Some(""));
        assert_eq!(facts.read("/d").as_deref(), Some("\0\\"));
        assert_eq!(facts.read("/e"), None);
    }

    #[test]
    fn a_leaf_of_one_cpu_goes_before_that_of_any() {
        let facts = parse("cpuid * 0x1a 0 1 2 3 4\ncpuid 2 0x1a 0 5 6 7 8\ncpuid 3 0x1a 0 none\n").unwrap();
        assert_eq!(facts.cpuid(None, 0x1a, 0), Some([1, 2, 3, 4]));
        assert_eq!(facts.cpuid(Some(1), 0x1a, 0), Some([1, 2, 3, 4]));
        assert_eq!(facts.cpuid(Some(2), 0x1a, 0), Some([5, 6, 7, 8]));
        assert_eq!(facts.cpuid(Some(3), 0x1a, 0), None);
        assert_eq!(facts.cpuid(None, 0x1b, 0), None);
    }

    #[test]
    fn probes_keep_their_error_numbers() {
        let facts = parse("perf type=0 config=0x0 user=1 kernel=0 pid=0 cpu=-1 13\n").unwrap();
        let probe =
            PerfProbe { pmu_type: 0, config: 0, exclude_user: false, exclude_kernel: true, pid: 0, cpu: -1 };
        assert_eq!(facts.perf_probe(&probe), Err(13));
        assert_eq!(facts.perf_probe(&PerfProbe { pmu_type: 1, ..probe }), Err(ENOSYS));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let cases = [
            ("nonsense 1", "line 2: no kind of fact is called that"),
            ("os linux\neuid x", "line 3: a number of 32 bits is expected"),
            ("os plan9", "line 2: os is linux, macos or other"),
            ("cpuid * 1 0 1 2 3", "line 2: a CPUID leaf has four registers, or none"),
            ("cpuid *", "line 2: a CPUID leaf has a CPU, leaf and sub-leaf"),
            ("perf type=0", "line 2: a perf probe has six fields and an outcome"),
            ("trace perhaps", "line 2: the outcome is ok or an error number"),
            ("trace 1 no_call", "line 2: the call is none that the software PMU makes"),
            ("trace traced by", "line 2: a number of 32 bits is expected"),
            ("kpc 8 taken", "line 2: counters are forced or shared"),
            ("nvml fast", "line 2: nvml has a driver and devices, or is missing, silent or an error"),
            ("nvml device nvidia0 X", "line 2: a device of NVML needs a driver"),
            ("counted twice", "line 2: what counts is software, or the line is left out"),
            ("perf type=0 config=0 user=2 kernel=0 pid=0 cpu=0 ok", "line 2: user= and kernel= are 0 or 1"),
            ("| text", "line 2: no file is open for this line"),
            ("file /a one\n| two", "line 3: no file is open for this line"),
            ("file /a \\q", "line 2: behind a backslash stands x and two hexadecimal digits"),
            ("file ", "line 2: a file needs a path"),
        ];
        for (body, message) in cases {
            let error = parse(body).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert_eq!(error.to_string(), format!("machine recording, {message}"));
        }
    }

    #[test]
    fn a_recording_must_say_what_it_is() {
        for bad in ["", "os linux\n", "note from somewhere\n"] {
            assert!(RecordedFacts::parse(bad).unwrap_err().to_string().contains("line 1"), "{bad:?}");
        }
        assert_eq!(parse("").unwrap().note(), "synthetic: a test");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(note synthetic: x\n)?((file|list|cpuid|perf|sysctl|[|]) .{0,40}\n){0,6}") {
            let _ = RecordedFacts::parse(&text);
        }
    }
}
