//! `encode`, `decode`, `plan` and `list --cpu` from the outside: output for people, and messages about
//! errors.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::io::Read;
use std::process::{Output, Stdio};

use support::{cyclometer, run, stderr, stdout};

/// Compares the output of several command lines with a file in `tests/golden`, each output below its command
/// line.
fn transcript(name: &str, lines: &[&[&str]]) {
    let mut text = String::new();
    for words in lines {
        let out = run(words);
        assert_eq!(stderr(&out), "", "{words:?}");
        let code = out.status.code().unwrap();
        let told = if code == 0 { String::new() } else { format!("[exit code {code}]\n") };
        text += &format!("$ cyclometer {}\n{}{told}\n", shown(words), stdout(&out));
    }
    compare(name, &text);
}

fn shown(words: &[&str]) -> String {
    let quoted = |word: &&str| if word.contains([' ', '*']) { format!("'{word}'") } else { word.to_string() };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn compare(name: &str, actual: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{path} differs; UPDATE_GOLDEN=1 accepts");
    let wide = actual.lines().find(|line| !line.starts_with('$') && line.chars().count() > 80);
    assert_eq!(wide, None, "{name} fits a terminal");
}

#[test]
fn encodings_read_well_on_every_family() {
    transcript(
        "encode.txt",
        &[
            &["encode", "--cpu", "skylake", "cycles", "BR_MISP_RETIRED.ALL_BRANCHES:u", "llc_misses"],
            &["encode", "--cpu", "skylake", "OFFCORE_RESPONSE.DEMAND_DATA_RD.L3_MISS.ANY_SNOOP"],
            &["encode", "--cpu", "alderlake", "INST_RETIRED.ANY", "l1d_cache_misses"],
            &["encode", "--cpu", "pantherlake/core", "BR_INST_RETIRED.FAR_BRANCH"],
            &["encode", "--cpu", "amdzen5", "cache-misses", "fp_ret_sse_avx_ops.all"],
            &["encode", "--cpu", "neoverse-n1", "l1d_cache_misses", "instructions:u"],
            &["encode", "--cpu", "sifive-bullet", "instructions", "INTEGER_LOAD_RETIRED"],
            &["encode", "--cpu", "riscv", "FW_MISALIGNED_LOAD"],
            &["encode", "--cpu", "apple-m1", "cycles", "INST_LDST"],
        ],
    );
}

#[test]
fn apples_word_for_macos_has_the_counter_and_the_modes_of_the_registers() {
    let encoded = |event: &str, counter: &str| {
        stdout(&run(&["encode", "--cpu", "apple-m1", "--counter", counter, event]))
    };
    for (event, counter, word) in [
        ("INST_BRANCH:u", "5", "config[3] = 0x2008d"),
        ("INST_BRANCH:k", "6", "config[4] = 0x4008d"),
        ("INST_BRANCH:uk", "7", "config[5] = 0x6008d"),
        ("INST_BRANCH", "7", "config[5] = 0x6008d"),
    ] {
        let text = encoded(event, counter);
        assert!(text.contains(word), "{event} on {counter}: {text}");
    }
    let fixed = stdout(&run(&["encode", "--cpu", "apple-m1", "cycles:k"]));
    assert!(!fixed.contains("kpc"), "{fixed}");
}

#[test]
fn values_are_explained_on_every_family() {
    transcript(
        "decode.txt",
        &[
            &["decode", "--cpu", "skylake", "0x4101C2=L3 cache miss"],
            &["decode", "--cpu", "skylake", "0x412e", "0x4f2e", "config=0x1b7", "config1=0x10001"],
            &["decode", "--cpu", "skylake", "FIXED_CTR_CTRL=0xb3", "rdpmc=0x400001"],
            &["decode", "--cpu", "alderlake", "0xc4"],
            &["decode", "--cpu", "pantherlake/core", "0x100000000c4"],
            &["decode", "--cpu", "amdzen4", "PERF_CTL0=0x430729"],
            &["decode", "--cpu", "neoverse-n1", "PMEVTYPER0_EL0=0x80000008"],
            &["decode", "--cpu", "sifive-bullet", "0x200"],
            &["decode", "--cpu", "apple-m1", "PMCR0=0x3", "PMESR1=0x9b00", "PMESR0=0xbf0000"],
        ],
    );
}

#[test]
fn registers_are_shown_on_every_family() {
    transcript(
        "registers.txt",
        &[
            &["registers", "--cpu", "skylake", "PERFEVTSEL0", "0x38f", "DEBUGCTL"],
            &["registers", "--cpu", "alderlake", "FIXED_CTR_CTRL"],
            &["registers", "--cpu", "amdzen4"],
            &["registers", "--cpu", "neoverse-n1", "PMCR_EL0", "PMCNTENSET_EL0"],
            &["registers", "--cpu", "sifive-bullet", "mhpmevent3"],
            &["registers", "--cpu", "apple-m1", "PMCR0", "PMESR0", "S3_2_C15_C10_0"],
        ],
    );
}

#[test]
fn registers_that_are_none_are_refused_with_those_there_are() {
    check_refused(
        &["registers", "--cpu", "skylake", "PMESR0"],
        &["no register 'PMESR0'", "IA32_PERFEVTSEL0..3"],
    );
    check_refused(&["registers", "--cpu", "apple-m1", "0x186"], &["no register '0x186'", "PMESR0..1"]);
    check_refused(&["regs", "--cpu", "nosuch"], &["no CPU 'nosuch'"]);
}

#[test]
fn plans_read_well_on_every_family() {
    transcript(
        "plan.txt",
        &[
            &["plan", "--cpu", "skylake", "-e", "cycles,instructions,branch_misses,l1d_cache_misses"],
            &["plan", "--cpu", "skylake", "-e", "cycles@9,CPU_CLK_UNHALTED.THREAD@3,instructions@2"],
            &["plan", "--cpu", "alderlake", "-e", "cycles,MEM_LOAD_RETIRED.L1_MISS"],
            &["plan", "--cpu", "amdzen5", "-e", "instructions,cache-misses@3,fp_ret_sse_avx_ops.all"],
            &["plan", "--cpu", "sifive-bullet", "-e", "INTEGER_LOAD_RETIRED"],
            &["plan", "--cpu", "apple-m1", "-e", "INST_SIMD_LD,RETIRE_UOP,INST_LDST,cycles"],
            &["plan", "--cpu", "apple-m1", "-e", "INST_ALL,INST_LDST,RETIRE_UOP,L1D_TLB_MISS", "--explain"],
            &["plan", "--cpu", "apple-m1", "-e", "{INST_LDST,INST_ALL},INST_ALL,{INST_LDST,INST_BRANCH}"],
            &["plan", "--cpu", "apple-m1", "-e", "INST_LDST,cycles,cycles", "--without", "5-7,fixed1"],
            &["plan", "--cpu", "apple-m4", "-e", "all"],
            &[
                "plan",
                "--cpu",
                "skylake",
                "-e",
                "FRONTEND_RETIRED.L2_MISS,FRONTEND_RETIRED.L1I_MISS,instructions",
                "--explain",
                "--repeat",
            ],
            &[
                "plan",
                "--cpu",
                "amdzen5",
                "-e",
                "fp_ret_sse_avx_ops.all,cycles,instructions,branches,branch-misses,cache-misses",
            ],
        ],
    );
}

#[test]
fn a_plan_of_counters_that_do_not_exist_is_refused() {
    for (counters, says) in [
        ("9-1", "the smaller number goes first"),
        ("x", "a counter is a number"),
        ("1-fixed3", "of general counters"),
        ("64", "0 to 63"),
    ] {
        check_refused(
            &["plan", "--cpu", "skylake", "-e", "cycles", "--without", counters],
            &[says, "--without"],
        );
    }
}

#[test]
fn events_of_any_cpu_are_listed() {
    transcript(
        "list-cpu.txt",
        &[
            &["list", "--cpu", "skylake", "BR_MISP_RETIRED.*"],
            &["list", "--cpu", "skylake", "--fixed"],
            &["list", "--cpu", "skylake", "--classes"],
            &["list", "--cpu", "skylake", "--deprecated"],
            &["list", "--cpu", "alderlake", "/^CORE_POWER/"],
            &["list", "--cpu", "amdzen4", "fp_ret_sse_avx_ops*"],
            &["list", "--cpu", "apple-m1", "--counter", "7", "INST_LDST"],
            &["list", "--cpus", "lake"],
            &["list", "--everywhere", "MEM_LOAD_RETIRED.L1_MISS"],
        ],
    );
}

/// Refused with exit status 125, nothing on standard output, a message with these parts and a remedy.
fn check_refused(words: &[&str], parts: &[&str]) {
    let out = run(words);
    assert_eq!(out.status.code(), Some(125), "{words:?}: {out:?}");
    assert_eq!(stdout(&out), "", "{words:?}");
    let text = stderr(&out);
    assert!(text.starts_with("cyclometer: error: ") && text.contains("\nhelp: "), "{words:?}: {text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{words:?}: {text:?}");
    for part in parts {
        assert!(text.contains(part), "{words:?}: '{part}' in {text}");
    }
}

#[test]
fn mistakes_are_named_with_what_helps() {
    check_refused(&["encode", "--cpu", "skylak", "cycles"], &["no CPU 'skylak'", "skylake, skylakex"]);
    check_refused(&["encode", "--cpu", "", "cycles"], &["list --cpus"]);
    check_refused(&["encode", "--cpu", "alderlake/p", "cycles"], &["alderlake/core"]);
    check_refused(&["encode", "--cpu", "skylake"], &["no event is named", "--all"]);
    check_refused(&["encode", "--cpu", "skylake", ""], &["an event is missing"]);
    check_refused(
        &["encode", "--cpu", "skylake", "BR_MISP_RETIRED"],
        &["ambiguous", "BR_MISP_RETIRED.NEAR_CALL"],
    );
    check_refused(
        &["encode", "--cpu", "skylake", "BR_MISP_RETIRED.ALL_BRANCHS"],
        &["BR_MISP_RETIRED.ALL_BRANCHES"],
    );
    check_refused(&["encode", "--cpu", "skylake", "umask=1"], &["a field without an event"]);
    check_refused(&["encode", "--cpu", "skylake", "cpu/umask=1/"], &["fields and no event"]);
    check_refused(&["encode", "--cpu", "skylake", "cpu/event=0x1c5/"], &["event=0x1c5", "0xff"]);
    check_refused(&["encode", "--cpu", "skylake", "cpu/event=0xc5,umask=0x10000/"], &["umask"]);
    check_refused(&["encode", "--cpu", "skylake", "cpu/event=0xc5,frob=1/"], &["no field 'frob'", "cmask"]);
    check_refused(&["encode", "--cpu", "neoverse-n1", "L1D_CACHE:cmask=1"], &["no field 'cmask'"]);
    check_refused(&["encode", "--cpu", "apple-m1", "l2_cache_misses"], &["outside of the core"]);
    check_refused(&["encode", "--cpu", "skylake", "--counter", "99", "cycles"], &["'99'", "encode --help"]);
    check_refused(
        &["encode", "--cpu", "skylake", "--counter", "9", "cycles"],
        &["counter 9", "0-3, fixed 1"],
    );
    check_refused(&["encode", "--cpu", "skylake", "BR\u{1b}[31m_MISP"], &["is no event name"]);
    check_refused(&["encode", "--cpu", "skylake", &"a".repeat(100_000)], &["100000 bytes"]);
    check_refused(&["plan", "--cpu", "skylake"], &["--event", "plan --help"]);
    check_refused(
        &["plan", "--cpu", "skylake", "-e", "MEM_LOAD_RETIRED.L1_MIS"],
        &["MEM_LOAD_RETIRED.L1_MISS"],
    );
    check_refused(
        &["plan", "--cpu", "alderlake", "-e", "no_such_event"],
        &["no event named 'no_such_event'"],
    );
}

#[test]
fn values_that_are_none_are_refused() {
    check_refused(&["decode", "--cpu", "skylake", "xyz"], &["'xyz' is no number", "PERFEVTSEL0=0x4300c0"]);
    check_refused(&["decode", "--cpu", "skylake", ""], &["is no number"]);
    check_refused(&["decode", "--cpu", "skylake", "="], &["is no number"]);
    check_refused(&["decode", "--cpu", "skylake", "PERFEVTSEL0=zz"], &["'zz' is no number"]);
    check_refused(&["decode", "--cpu", "skylake", "0xfffffffffffffffff"], &["more than 64 bits"]);
    check_refused(&["decode", "--cpu", "skylake", "PERFEVTSEL9=1"], &["PERFEVTSEL9", "IA32_PERFEVTSEL0..3"]);
    check_refused(&["decode", "--cpu", "neoverse-n1", "PERFEVTSEL0=1"], &["PMCR_EL0"]);
    check_refused(&["decode", "--cpu", "sky\u{1b}[2Jlake", "1"], &["the catalogue has no CPU"]);
    check_refused(&["decode"], &["decode --help"]);
}

#[test]
fn lists_without_anything_say_which_filter_nothing_passed() {
    check_refused(&["list", "--cpu", "nosuch"], &["no CPU 'nosuch'"]);
    check_refused(&["list", "--cpu", "skylake", "no_such"], &["no event of skylake fits 'no_such'"]);
    check_refused(&["list", "--cpu", "skylake", "--counter", "9"], &["may use counter 9", "--classes"]);
    check_refused(&["list", "--cpu", "skylake", "--deprecated", "mem"], &["is deprecated and fits 'mem'"]);
    check_refused(&["list", "--cpu", "skylake", "/(/"], &["is no pattern", "glob"]);
    check_refused(&["list", "--cpu", "skylake", "/(a{1000}){1000}/"], &["is no pattern"]);
    check_refused(&["list", "--cpu", "skylake", &"*a".repeat(50_000)], &["too long"]);
    check_refused(&["list", "--everywhere", "no_such"], &["no event of any CPU fits 'no_such'"]);
    check_refused(&["list", "--cpus", "no_such"], &["no CPU of the catalogue fits 'no_such'"]);
    check_refused(&["list", "--fixed"], &["--cpu"]);
    check_refused(&["list", "--cpu", "skylake", "--machine", "x"], &["cannot be used with"]);
}

#[test]
fn an_empty_pattern_lists_every_event() {
    let all = stdout(&run(&["list", "--cpu", "skylake"]));
    for pattern in ["", "*", "//"] {
        assert_eq!(stdout(&run(&["list", "--cpu", "skylake", pattern])), all, "'{pattern}'");
    }
}

#[test]
fn every_spelling_of_an_event_gives_the_same_bits() {
    let bits = |event: &str| {
        let out = run(&["encode", "--cpu", "skylake", event]);
        assert_eq!(out.status.code(), Some(0), "{event}: {}", stderr(&out));
        let text = stdout(&out);
        let line = |mark: &str| text.lines().find(|line| line.contains(mark)).map(str::to_owned);
        (line("config="), line("PERFEVTSEL0"))
    };
    let expected = bits("BR_MISP_RETIRED.ALL_BRANCHES");
    assert!(expected.0.as_ref().unwrap().ends_with("config=0xc5"), "{expected:?}");
    for event in [
        "br_misp_retired.all_branches",
        "skl::BR_MISP_RETIRED:ALL_BRANCHES",
        "branch_misses",
        "branch-misses",
        "cpu/event=0xc5/",
        "rc5",
    ] {
        assert_eq!(bits(event), expected, "{event}");
    }
}

#[test]
fn what_is_said_of_an_event_is_not_said_of_it_with_other_fields() {
    let said = |event: &str| stdout(&run(&["encode", "--cpu", "skylake", event]));
    assert!(said("INST_RETIRED.ANY").contains("on a counter of its own"));
    let text = said("INST_RETIRED.ANY:c=1");
    assert!(!text.contains("of its own") && text.contains("with fields changed\n"), "{text}");
    let text = said("cpu/FRONTEND_RETIRED.DSB_MISS,frontend=0x12/");
    assert!(text.contains("with fields changed to the\n  code of FRONTEND_RETIRED.L1I_MISS"), "{text}");
    for same in ["cpu/FRONTEND_RETIRED.DSB_MISS,frontend=0x11/", "FRONTEND_RETIRED.DSB_MISS:u"] {
        assert!(!said(same).contains("changed"), "{same}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = cyclometer()
        .args(["list", "--cpu", "skylake"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let out: Output = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), stderr(&out)), (Some(0), String::new()));
}

/// A document of the repository.
fn document(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The words of a command line, of which some may stand between single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('\'').enumerate() {
        match i % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn what_the_documents_show_is_what_is_printed() {
    let (mut seen, folder) = (0, tempfile::tempdir().unwrap());
    for name in [
        "README.md",
        "docs/reference/commands.md",
        "docs/guides/catalogue.md",
        "docs/guides/plan.md",
        "docs/guides/simulated.md",
    ] {
        let text = document(name);
        for block in text.split("```text\n").skip(1).filter_map(|block| block.split("```").next()) {
            if block.starts_with("cyclometer-semantics ") {
                std::fs::write(folder.path().join("hidden.sem"), block).unwrap();
            }
            for shown in block.split("$ cyclometer ").skip(1) {
                let (line, expected) = shown.split_once('\n').unwrap();
                let out = cyclometer().current_dir(folder.path()).args(words(line)).output().unwrap();
                assert_eq!(stdout(&out), expected, "{name}: {line}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 12);
}
