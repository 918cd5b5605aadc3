use std::collections::{HashMap, HashSet};

use super::*;

/// Every CPU of the catalogue.
fn cpus() -> Vec<Cpu<'static>> {
    cpus::cpus().collect()
}

#[test]
fn every_line_of_the_data_is_read() {
    let read: usize = all()
        .iter()
        .map(|p| {
            let facts = [!p.about.is_empty(), !p.aliases.is_empty(), p.like.is_some()];
            1 + p.lines().len() + facts.into_iter().filter(|has| *has).count()
        })
        .sum();
    assert_eq!(1 + PORTABLE.first.len() + read, text::lines(DATA));
    for portable in all() {
        assert!(!portable.about.is_empty() && portable.about.len() <= 100, "{}", portable.name);
    }
}

#[test]
fn an_event_takes_the_lines_of_one_that_has_lines_of_its_own() {
    for (portable, like) in all().iter().filter_map(|portable| Some((portable, portable.like?))) {
        let other = find(like).unwrap_or_else(|| panic!("{} is like {like}", portable.name));
        assert_eq!(other.like, None, "{}", portable.name);
    }
}

/// The events of misses and of their base on a CPU, with ` + ` between summands; `None` where one of both is
/// not counted.
fn rate_on(cpu: &Cpu<'_>, misses: &str, base: &str) -> Option<[String; 2]> {
    let names = |name| match find(name).unwrap().on_cpu(cpu) {
        PortableEvents::Event { names, .. } => Some(names.join(" + ")),
        PortableEvents::None { .. } => None,
    };
    Some([names(misses)?, names(base)?])
}

#[test]
fn misses_are_divided_by_accesses_of_the_same_kind() {
    // Misses, and the ends of the names of accesses that they are a part of.
    let l1d: &[(&str, &[&str])] = &[
        ("MEM_LOAD_RETIRED.L1_MISS", &["MEM_INST_RETIRED.ALL_LOADS"]),
        ("MEM_LOAD_UOPS_RETIRED.L1_MISS", &["MEM_UOPS_RETIRED.ALL_LOADS"]),
        ("MEM_UOPS_RETIRED.L1_MISS_LOADS", &["MEM_UOPS_RETIRED.ALL_LOADS"]),
        ("ls_dmnd_fills_from_sys.all", &["all_data_cache_accesses", "ls_dispatch.all"]),
        ("ls_mab_alloc.load_store_allocations", &["all_data_cache_accesses"]),
        ("L1D_CACHE_REFILL", &["L1D_CACHE"]),
        ("DCACHE_MISS", &["dcache_access"]),
        ("L1_D_CACHE_MISSES", &["L1_D_CACHE_ACCESSES"]),
        ("L1_DCACHE_READ_MISS + L1_DCACHE_WRITE_MISS", &["L1_DCACHE_READ_ACCESS + L1_DCACHE_WRITE_ACCESS"]),
        ("LOAD_INS_MISS_DCACHE + STORE_INS_MISS_DCACHE", &["LOAD_INS_DCACHE + STORE_INS_DCACHE"]),
    ];
    let mut rates = 0;
    for cpu in cpus() {
        if let Some([misses, base]) = rate_on(&cpu, "l1d_cache_misses", "l1d_cache_miss_base") {
            let same = l1d.iter().any(|(known, bases)| *known == misses && bases.contains(&base.as_str()));
            assert!(same, "{}: {misses} / {base}", cpu.id());
            rates += 1;
        }
        for (misses, base) in [
            ("l1i_cache_misses", "l1i_cache_accesses"),
            ("l2_cache_misses", "l2_cache_miss_base"),
            ("llc_misses", "llc_miss_base"),
        ] {
            let Some([misses, base]) = rate_on(&cpu, misses, base) else { continue };
            let prefetched = ["L2_RQSTS.ALL_CODE_RD", "L2_LINES_IN.ALL"].contains(&misses.as_str());
            assert!(!prefetched, "{}: {misses} / {base}", cpu.id());
        }
    }
    assert!(rates > 90, "{rates}");
    let base = |cpu: &str| find("l1d_cache_miss_base").unwrap().on(cpu);
    for cpu in ["sandybridge", "nehalemep", "bonnell", "amdzen2", "apple-m4"] {
        assert!(matches!(base(cpu), PortableEvents::None { .. }), "{cpu}: {:?}", base(cpu));
    }
}

#[test]
fn no_name_means_two_events() {
    let mut seen = HashSet::new();
    for portable in all() {
        for name in std::iter::once(&portable.name).chain(&portable.aliases) {
            assert!(seen.insert(name.to_lowercase()), "{name}");
        }
    }
}

#[test]
fn names_are_found_in_any_case_and_by_alias() {
    assert_eq!(find("L1D_CACHE_MISSES").map(Portable::name), Some("l1d_cache_misses"));
    assert_eq!(find("branch-misses").map(Portable::name), Some("branch_misses"));
    assert!(find("l9_cache_misses").is_none());
}

#[test]
fn every_cpu_has_an_answer_for_every_event() {
    for cpu in cpus() {
        for portable in all() {
            let has = |name: &str| cpu.event(name).is_some();
            let fitting = portable.fitting(cpu.family(), cpu.id(), &has);
            assert!(fitting.is_some(), "{} on {}", portable.name, cpu.id());
        }
    }
}

#[test]
fn every_event_that_an_answer_names_is_in_the_cpus_table() {
    for cpu in cpus() {
        for portable in all() {
            let names = match portable.on_cpu(&cpu) {
                PortableEvents::Event { names, .. } => names,
                PortableEvents::None { nearest, .. } => nearest,
            };
            for name in names {
                assert!(cpu.event(name).is_some(), "{name} on {}", cpu.id());
            }
        }
    }
}

#[test]
fn every_event_that_a_line_names_is_described() {
    let of_event = |portable: &'static Portable| portable.lines().iter();
    for line in all().iter().flat_map(of_event) {
        for name in named(line).into_iter().flatten() {
            assert!(crate::about::describe(name, line.family).is_some(), "{} {name}", line.family.word());
        }
    }
}

/// The names in a line, grouped by alternative.
fn named(line: &PortableLine) -> Vec<Vec<&'static str>> {
    match &line.says {
        Says::Events(alternatives) => alternatives.clone(),
        Says::Nothing(nearest) => nearest.iter().map(|name| vec![*name]).collect(),
    }
}

/// The CPUs' uses of the lines: by the line's address, the names of the answers.
fn uses() -> HashMap<*const PortableLine, HashSet<Vec<&'static str>>> {
    let mut used: HashMap<_, HashSet<_>> = HashMap::new();
    for (cpu, portable) in cpus().iter().flat_map(|cpu| all().iter().map(move |portable| (cpu, portable))) {
        let has = |name: &str| cpu.event(name).is_some();
        let Some((line, answer)) = portable.fitting(cpu.family(), cpu.id(), &has) else { continue };
        let names = used.entry(std::ptr::from_ref(line)).or_default();
        match answer {
            PortableEvents::Event { names: sum, .. } => names.extend([sum]),
            PortableEvents::None { nearest, .. } => names.extend(nearest.into_iter().map(|name| vec![name])),
        }
    }
    used
}

#[test]
#[cfg(all(feature = "intel", feature = "amd", feature = "arm", feature = "riscv", feature = "apple"))]
fn no_line_and_no_alternative_is_dead() {
    let used = uses();
    let of_event = |portable: &'static Portable| portable.lines().iter().map(|line| (portable.name, line));
    for (name, line) in all().iter().flat_map(of_event).chain(PORTABLE.first.iter().map(|line| ("*", line))) {
        let used = used.get(&std::ptr::from_ref(line));
        assert!(used.is_some(), "no CPU uses {name}: {line:?}");
        for names in named(line) {
            assert!(used.is_some_and(|used| used.contains(&names)), "dead: {name} {names:?}");
        }
    }
}

#[test]
fn reasons_are_given_and_remarks_are_short() {
    for portable in all() {
        for line in portable.lines() {
            let needs_reason = matches!(line.says, Says::Nothing(_));
            assert!(!needs_reason || !line.remark.is_empty(), "{}: {line:?}", portable.name);
            assert!(line.remark.len() <= 120, "{}: {}", portable.name, line.remark);
        }
    }
}

#[test]
fn the_first_fitting_line_and_alternative_answers() {
    let table = |names: &'static [&'static str]| move |name: &str| names.contains(&name);
    let misses = find("branch_misses").unwrap();
    let answer = misses.among(Family::Arm, "neoverse-n1", table(&["BR_MIS_PRED", "BR_MIS_PRED_RETIRED"]));
    assert_eq!(answer, PortableEvents::Event { names: vec!["BR_MIS_PRED_RETIRED"], note: None });
    let answer = misses.among(Family::Arm, "cortex-a57", table(&["BR_MIS_PRED"]));
    let PortableEvents::Event { names, note: Some(note) } = answer else { panic!("{answer:?}") };
    assert_eq!(names, ["BR_MIS_PRED"]);
    assert!(note.contains("wrong path"), "{note}");
}

#[test]
fn a_sum_needs_all_of_its_events() {
    let loads = find("loads").unwrap();
    let answer = loads.among(Family::Apple, "apple-m1", |name| name == "INST_INT_LD");
    assert_eq!(answer, PortableEvents::None { reason: NO_LINE, nearest: Vec::new() });
    let answer = loads.among(Family::Apple, "apple-m1", |name| name.ends_with("_LD"));
    assert!(
        matches!(answer, PortableEvents::Event { names, .. } if names == ["INST_INT_LD", "INST_SIMD_LD"])
    );
}

#[test]
fn what_a_cpu_lacks_has_a_reason_and_the_nearest_that_it_has() {
    let calls = find("calls").unwrap();
    let answer = calls.among(Family::Amd, "amdzen4", |name| name == "ex_ret_near_ret");
    let PortableEvents::None { reason, nearest } = answer else { panic!("{answer:?}") };
    assert!(!reason.is_empty());
    assert_eq!(nearest, ["ex_ret_near_ret"]);
}

#[test]
fn an_unknown_cpu_has_no_answer() {
    let answer = find("instructions").unwrap().on("no-such-cpu");
    assert_eq!(answer, PortableEvents::None { reason: UNKNOWN_CPU, nearest: Vec::new() });
}

#[test]
fn patterns_fit_ids() {
    let cases = [
        (&["*"][..], "skylake", true),
        (&["nehalem*"], "nehalemex", true),
        (&["*/atom"], "alderlake/atom", true),
        (&["*/atom"], "alderlake/core", false),
        (&["*", "!cortex-r*"], "cortex-r52", false),
        (&["a*c*e"], "abcde", true),
        (&["a*c"], "abcd", false),
        (&["amdzen1"], "amdzen1", true),
        (&["!amdzen1"], "amdzen2", false),
    ];
    for (patterns, id, fits) in cases {
        assert_eq!(is_among(patterns, id), fits, "{patterns:?} {id}");
    }
}
