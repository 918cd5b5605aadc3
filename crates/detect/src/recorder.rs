//! Records every requested fact, in the format of [`RecordedFacts`].

use std::cell::RefCell;
use std::fmt::Write;

use cyclometer_core::machine::{Architecture, Os};
use cyclometer_core::nvml::NvmlObstacle;

use crate::facts::{
    AccountFacts, FactSource, KpcCounters, NvmlFacts, PerfProbe, ProcessAccounts, TraceRefusal,
};
use crate::recorded::RecordedFacts;

/// A fact source that passes every request on to another one, and records the answers.
///
/// A host name is never requested. Container ids, which contain one, are blanked. The rights of this
/// process are all that is recorded of its status.
pub struct FactRecorder<'a> {
    inner: &'a dyn FactSource,
    seen: RefCell<RecordedFacts>,
}

impl<'a> FactRecorder<'a> {
    /// Records requests to `inner` from now on.
    pub fn new(inner: &'a dyn FactSource) -> FactRecorder<'a> {
        let mut seen = RecordedFacts::empty();
        seen.os = inner.os();
        seen.architecture = inner.architecture();
        seen.release = inner.kernel_release();
        seen.euid = inner.euid();
        seen.cpus = inner.online_cpu_count();
        FactRecorder { inner, seen: RefCell::new(seen) }
    }

    /// The requests and answers so far; `note` begins with `recorded:` or `synthetic:`.
    pub fn to_text(&self, note: &str) -> String {
        let mut text = format!("note {}\n", escape(note));
        write_facts(&self.seen.borrow(), &mut text);
        text
    }
}

impl FactSource for FactRecorder<'_> {
    fn os(&self) -> Os {
        self.inner.os()
    }

    fn architecture(&self) -> Architecture {
        self.inner.architecture()
    }

    fn kernel_release(&self) -> Option<String> {
        self.inner.kernel_release()
    }

    fn euid(&self) -> Option<u32> {
        self.inner.euid()
    }

    fn online_cpu_count(&self) -> u32 {
        self.inner.online_cpu_count()
    }

    fn read(&self, path: &str) -> Option<String> {
        let content = self.inner.read(path)?;
        self.seen.borrow_mut().files.insert(path.to_owned(), recordable(path, &content));
        Some(content)
    }

    fn list(&self, dir: &str) -> Vec<String> {
        let names = self.inner.list(dir);
        if !names.is_empty() {
            self.seen.borrow_mut().lists.insert(dir.to_owned(), recordable_names(dir, &names));
        }
        names
    }

    fn cpuid(&self, cpu: Option<u32>, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let registers = self.inner.cpuid(cpu, leaf, subleaf);
        self.seen.borrow_mut().cpuid.insert((cpu, leaf, subleaf), registers);
        registers
    }

    fn sysctl(&self, name: &str) -> Option<String> {
        let value = self.inner.sysctl(name)?;
        self.seen.borrow_mut().sysctls.insert(name.to_owned(), value.clone());
        Some(value)
    }

    fn perf_probe(&self, probe: &PerfProbe) -> Result<(), i32> {
        let outcome = self.inner.perf_probe(probe);
        self.seen.borrow_mut().perf.insert(*probe, outcome);
        outcome
    }

    fn trace_probe(&self) -> Result<(), TraceRefusal> {
        let outcome = self.inner.trace_probe();
        self.seen.borrow_mut().trace = Some(outcome);
        outcome
    }

    fn is_counted_by_software(&self) -> bool {
        let counted = self.inner.is_counted_by_software();
        self.seen.borrow_mut().counted = counted;
        counted
    }

    fn sysreg_probe(&self) -> Result<(), i32> {
        let outcome = self.inner.sysreg_probe();
        self.seen.borrow_mut().sysreg = Some(outcome);
        outcome
    }

    fn counter_accounts(&self) -> Option<AccountFacts> {
        let accounts = self.inner.counter_accounts();
        self.seen.borrow_mut().accounts = accounts;
        accounts
    }

    fn kpc_probe(&self) -> Result<KpcCounters, i32> {
        let outcome = self.inner.kpc_probe();
        self.seen.borrow_mut().kpc = Some(outcome);
        outcome
    }

    fn nvml_probe(&self) -> Result<NvmlFacts, NvmlObstacle> {
        let outcome = self.inner.nvml_probe();
        self.seen.borrow_mut().nvml = Some(outcome.clone());
        outcome
    }
}

/// The content to record: without values that change from run to run, and without facts that detection does
/// not use.
fn recordable(path: &str, content: &str) -> String {
    match path {
        "/proc/1/cgroup" => without_container_ids(content),
        "/proc/self/status" => {
            let kept = |line: &&str| KEPT_STATUS.iter().any(|field| line.starts_with(field));
            content.lines().filter(kept).collect::<Vec<_>>().join("\n")
        }
        path if path.starts_with("/sys/firmware/acpi/tables/") => content.chars().take(ACPI_HEADER).collect(),
        _ => content.to_owned(),
    }
}

/// The names to record: of device files, those of GPUs alone.
fn recordable_names(dir: &str, names: &[String]) -> Vec<String> {
    let is_kept = |name: &&String| dir != "/dev" || name.starts_with("nvidia") || *name == "dxg";
    names.iter().filter(is_kept).cloned().collect()
}

/// The lines of `/proc/self/status` that are recorded.
const KEPT_STATUS: [&str; 4] = ["CapEff:", "NSpid:", "Seccomp:", "TracerPid:"];

/// Length of the header of an ACPI table, in bytes; the table may follow, but is of no use.
const ACPI_HEADER: usize = 36;

/// A container's host name is the beginning of its id, so ids become `0`.
fn without_container_ids(content: &str) -> String {
    let is_id = |word: &str| word.len() >= 12 && word.chars().all(|c| c.is_ascii_hexdigit());
    let blank = |word: &str| {
        let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_id(bare) { word.replace(bare, "0") } else { word.to_owned() }
    };
    content.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).map(blank).collect()
}

fn write_facts(facts: &RecordedFacts, out: &mut String) {
    let os = match facts.os {
        Os::Linux => "linux",
        Os::MacOs => "macos",
        _ => "other",
    };
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("os {os}"));
    line(format!("architecture {}", facts.architecture));
    facts.release.iter().for_each(|release| line(format!("release {}", escape(release))));
    facts.euid.iter().for_each(|euid| line(format!("euid {euid}")));
    line(format!("cpus {}", facts.cpus));
    facts.files.iter().for_each(|(path, content)| line(file(path, content)));
    for (dir, names) in &facts.lists {
        let names: Vec<String> = names.iter().map(|name| escape_word(name)).collect();
        line(format!("list {} {}", escape_word(dir), names.join(" ")));
    }
    facts.cpuid.iter().for_each(|(key, registers)| line(cpuid(*key, *registers)));
    for (name, value) in &facts.sysctls {
        line(format!("sysctl {} {}", escape_word(name), escape(value)));
    }
    facts.perf.iter().for_each(|(probe, outcome)| line(perf(probe, *outcome)));
    facts.trace.iter().for_each(|outcome| line(format!("trace {}", trace_words(outcome))));
    if facts.counted {
        line("counted software".to_owned());
    }
    facts.sysreg.iter().for_each(|outcome| line(format!("sysreg {}", outcome_word(*outcome))));
    facts.kpc.iter().for_each(|outcome| line(format!("kpc {}", kpc_words(*outcome))));
    facts.accounts.iter().for_each(|accounts| line(account_words(accounts)));
    facts.nvml.iter().flat_map(nvml_words).for_each(|words| line(format!("nvml {words}")));
}

/// The words of each line about NVML.
fn nvml_words(outcome: &Result<NvmlFacts, NvmlObstacle>) -> Vec<String> {
    match outcome {
        Ok(found) => {
            let device =
                |(name, model): &(String, String)| format!("device {} {}", escape_word(name), escape(model));
            let driver = format!("driver {}", escape(&found.driver));
            std::iter::once(driver).chain(found.devices.iter().map(device)).collect()
        }
        Err(NvmlObstacle::NoLibrary(reason)) => vec![format!("missing {}", escape(reason))],
        Err(NvmlObstacle::Returned(code)) => vec![format!("error {}", code.0)],
        Err(NvmlObstacle::NoAnswer(limit)) => vec![format!("silent {}", limit.as_millis())],
    }
}

fn account_words(accounts: &AccountFacts) -> String {
    let process = match accounts.process {
        None => "none",
        Some(ProcessAccounts::Totals) => "totals",
        Some(ProcessAccounts::ByCoreType) => "cores",
    };
    let (thread, counts) = (u8::from(accounts.thread), u8::from(accounts.counts));
    format!("accounts process={process} thread={thread} counts={counts}")
}

fn file(path: &str, content: &str) -> String {
    let mut text = format!("file {}", escape_word(path));
    match content.trim_end_matches('\n') {
        "" => {}
        several if several.contains('\n') || several.starts_with(' ') => {
            several.split('\n').for_each(|line| {
                let _ = write!(text, "\n| {}", escape(line));
            });
        }
        one => {
            let _ = write!(text, " {}", escape(one));
        }
    }
    text
}

fn cpuid((cpu, leaf, subleaf): crate::recorded::CpuidKey, registers: Option<[u32; 4]>) -> String {
    let cpu = cpu.map_or("*".to_owned(), |cpu| cpu.to_string());
    let values =
        registers.map_or("none".to_owned(), |registers| registers.map(|r| format!("{r:#010x}")).join(" "));
    format!("cpuid {cpu} {leaf:#x} {subleaf} {values}")
}

fn perf(probe: &PerfProbe, outcome: Result<(), i32>) -> String {
    let outcome = outcome_word(outcome);
    format!(
        "perf type={} config={:#x} user={} kernel={} pid={} cpu={} {outcome}",
        probe.pmu_type,
        probe.config,
        u8::from(!probe.exclude_user),
        u8::from(!probe.exclude_kernel),
        probe.pid,
        probe.cpu,
    )
}

fn outcome_word(outcome: Result<(), i32>) -> String {
    outcome.map_or_else(|errno| errno.to_string(), |()| "ok".to_owned())
}

fn kpc_words(outcome: Result<KpcCounters, i32>) -> String {
    match outcome {
        Ok(KpcCounters { configurable, forced }) => {
            format!("{configurable} {}", if forced { "forced" } else { "shared" })
        }
        Err(errno) => errno.to_string(),
    }
}

fn trace_words(outcome: &Result<(), TraceRefusal>) -> String {
    match outcome {
        Ok(()) => "ok".to_owned(),
        Err(TraceRefusal::Call { call, errno }) => format!("{errno} {call}"),
        Err(TraceRefusal::Traced { by }) => format!("traced {by}"),
    }
}

/// Control characters and backslashes as `\xNN`.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\0'..='\u{8}' | '\n'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// The same with blanks escaped.
fn escape_word(text: &str) -> String {
    escape(text).replace(' ', "\\x20")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_sys::tracer_call::TracerCall;
    use proptest::prelude::*;

    fn replay(recorder: &FactRecorder<'_>) -> RecordedFacts {
        RecordedFacts::parse(&recorder.to_text("recorded: a test")).unwrap()
    }

    fn holding(path: &str, content: &str) -> RecordedFacts {
        let mut facts = RecordedFacts::empty();
        facts.files.insert(path.to_owned(), content.to_owned());
        facts
    }

    #[test]
    fn container_ids_are_blanked() {
        let text = "0::/docker/0123456789abcdef0123/x\n1:cpu:/kubepods/burstable";
        assert_eq!(recordable("/proc/1/cgroup", text), "0::/docker/0/x\n1:cpu:/kubepods/burstable");
        assert_eq!(recordable("/proc/cpuinfo", text), text);
    }

    #[test]
    fn of_the_own_status_only_rights_are_kept() {
        let status = "Name:\tx\nPid:\t5\nTracerPid:\t0\nCapEff:\t0\nSeccomp:\t2\nSeccomp_filters:\t1";
        assert_eq!(recordable("/proc/self/status", status), "TracerPid:\t0\nCapEff:\t0\nSeccomp:\t2");
    }

    #[test]
    fn only_what_was_asked_is_recorded() {
        let source = holding("/a", "1");
        let recorder = FactRecorder::new(&source);
        assert_eq!(replay(&recorder).read("/a"), None);
        recorder.read("/a");
        assert_eq!(replay(&recorder).read("/a").as_deref(), Some("1"));
    }

    proptest! {
        #[test]
        fn a_file_of_any_content_is_read_back(path in "/[a-z \\\\]{1,8}", content in "(?s).{0,40}") {
            let source = holding(&path, &content);
            let recorder = FactRecorder::new(&source);
            let original = recorder.read(&path);
            prop_assert_eq!(replay(&recorder).read(&path), original);
        }

        #[test]
        fn lists_and_probes_are_read_back(name in "[a-z ]{1,8}", config: u64, errno in 1..200i32) {
            let mut source = RecordedFacts::empty();
            source.lists.insert("/d".to_owned(), vec![name]);
            let probe = PerfProbe {
                pmu_type: 4, config, exclude_user: true, exclude_kernel: false, pid: -1, cpu: 3,
            };
            source.perf.insert(probe, Err(errno));
            source.trace = Some(match errno % 3 {
                0 => Ok(()),
                1 => Err(TraceRefusal::Call { call: TracerCall::MemfdCreate, errno }),
                _ => Err(TraceRefusal::Traced { by: errno as u32 }),
            });
            source.counted = errno % 2 == 0;
            source.sysreg = Some(if errno % 3 == 0 { Ok(()) } else { Err(errno) });
            let process = [None, Some(ProcessAccounts::Totals), Some(ProcessAccounts::ByCoreType)];
            source.accounts = (errno % 5 > 0).then(|| AccountFacts {
                process: process[errno as usize % 3],
                thread: errno % 2 == 0,
                counts: config % 2 == 0,
            });
            source.kpc = Some(match errno % 3 {
                0 => Err(errno),
                one => Ok(KpcCounters { configurable: errno as u32, forced: one == 1 }),
            });
            source.nvml = Some(match errno % 4 {
                0 => Err(NvmlObstacle::NoLibrary("no such file".to_owned())),
                1 => Err(NvmlObstacle::Returned(cyclometer_core::nvml::NvmlReturn(errno as u32))),
                2 => Err(NvmlObstacle::NoAnswer(std::time::Duration::from_millis(errno as u64))),
                _ => Ok(NvmlFacts {
                    driver: "550.1".to_owned(),
                    devices: vec![("nvidia0".to_owned(), "NVIDIA H100 80GB".to_owned())],
                }),
            });
            let recorder = FactRecorder::new(&source);
            recorder.list("/d");
            let _ = recorder.nvml_probe();
            recorder.counter_accounts();
            let _ = recorder.perf_probe(&probe);
            let _ = recorder.trace_probe();
            recorder.is_counted_by_software();
            let _ = recorder.sysreg_probe();
            let _ = recorder.kpc_probe();
            let replayed = replay(&recorder);
            prop_assert_eq!(replayed.list("/d"), source.list("/d"));
            prop_assert_eq!(replayed.perf_probe(&probe), Err(errno));
            prop_assert_eq!(replayed.trace_probe(), source.trace_probe());
            prop_assert_eq!(replayed.is_counted_by_software(), source.counted);
            prop_assert_eq!(replayed.sysreg_probe(), source.sysreg_probe());
            prop_assert_eq!(replayed.counter_accounts(), source.accounts);
            prop_assert_eq!(replayed.kpc_probe(), source.kpc_probe());
            prop_assert_eq!(replayed.nvml_probe(), source.nvml_probe());
        }
    }
}
