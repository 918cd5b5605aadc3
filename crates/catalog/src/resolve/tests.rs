use super::*;
use crate::testing::{big_little, hybrid, skylake, vm_with_soft, vm_without_pmu};
use cyclometer_core::CounterMask;
use cyclometer_core::event::{OsMetric, Part};

fn find(text: &str, machine: &Machine) -> Event {
    resolve_list(text, machine, true).unwrap_or_else(|e| panic!("{text}: {e}")).remove(0)
}

fn perf_parts(event: &Event) -> Vec<(u32, u64)> {
    let perf = |part: &Part| match part {
        Part::Perf(p) => (p.pmu_type, p.words.config),
        other => panic!("{other:?}"),
    };
    event.candidates[0].parts.iter().map(perf).collect()
}

#[test]
fn only_cycles_instructions_and_energy_can_never_be_zero() {
    let never_zero = |name| find(name, &skylake()).candidates[0].never_zero;
    assert!(never_zero("cycles") && never_zero("instructions"));
    assert!(never_zero("power/energy-pkg/"));
    assert!(!never_zero("branch-misses") && !never_zero("page-faults") && !never_zero("r00c0"));
}

#[test]
fn every_default_event_resolves_everywhere() {
    for machine in [skylake(), hybrid(), big_little(), vm_without_pmu()] {
        let events = resolve_list(DEFAULT_EVENTS, &machine, false).unwrap();
        assert_eq!(events.len(), 12);
        assert!(events.iter().all(|e| !e.candidates.is_empty() && !e.requested));
    }
}

#[test]
fn generic_names_count_user_mode_unless_told_otherwise() {
    let machine = skylake();
    assert_eq!(find("instructions", &machine).candidates[0].modes, Some(Modes::USER));
    assert_eq!(find("instructions:k", &machine).candidates[0].modes, Some(Modes::KERNEL));
}

#[test]
fn spellings_of_one_event_are_one_event() {
    let machine = skylake();
    for (a, b) in [
        ("cycles", "CPU_CYCLES"),
        ("branches", "branch_instructions"),
        ("l1d_cache_misses", "L1-dcache-load-misses"),
        ("faults", "page_faults"),
    ] {
        assert_eq!(find(a, &machine).candidates, find(b, &machine).candidates, "{a} {b}");
    }
}

#[test]
fn the_pmu_of_an_event_is_named_where_its_name_shows_it() {
    let named = |text| find(text, &hybrid()).named_pmu;
    assert_eq!(named("cpu_core/event=0x3c/").as_deref(), Some("cpu_core"));
    assert_eq!(named("cpu_core/event=0x3c,name=clocks/"), None, "another name replaces it");
    assert_eq!(named("cycles"), None);
}

#[test]
fn the_software_device_knows_its_events_by_name() {
    let machine = vm_without_pmu();
    let find = |text| find(text, &machine).candidates;
    assert_eq!(find("software/page-faults/"), find("page-faults"));
}

fn rungs(text: &str, machine: &Machine) -> Vec<Rung> {
    find(text, machine).candidates.iter().map(|candidate| candidate.rung).collect()
}

#[test]
fn portable_names_have_the_software_pmu_below_the_hardware_where_it_can_be() {
    for name in ["instructions", "branches", "branch-instructions", "BRANCH_INSTRUCTIONS"] {
        assert_eq!(rungs(name, &vm_with_soft()), [Rung::Perf, Rung::Soft], "{name}");
        assert_eq!(rungs(name, &skylake()), [Rung::Perf], "{name}");
    }
    for name in ["cycles", "branch-misses", "cache-references", "L1-dcache-loads", "l1d_cache_loads"] {
        assert_eq!(rungs(name, &vm_with_soft()), [Rung::Perf], "{name} can be modelled only");
    }
}

#[test]
fn names_of_the_software_pmu_are_its_own_everywhere() {
    for machine in [skylake(), big_little(), vm_with_soft()] {
        for name in ["calls", "loads", "simd_256", "fp_add", "rep_iterations", "flops", "soft/branches/"] {
            assert_eq!(rungs(name, &machine), [Rung::Soft], "{name}");
        }
    }
    let calls = find("calls", &vm_with_soft());
    assert_eq!(calls.candidates[0].parts, [Part::Soft("calls".to_owned())]);
    assert_eq!(calls.candidates[0].provenance, Provenance::Counted);
    assert_eq!(calls.candidates[0].modes, Some(Modes::USER));
    let branches = find("branch_instructions", &vm_with_soft());
    assert_eq!(branches.candidates[1].parts, [Part::Soft("branches".to_owned())]);
    assert_eq!(find("bytes_loaded", &skylake()).unit, Unit::Bytes);
    assert_eq!(find("calls:k", &skylake()).candidates[0].modes, Some(Modes::KERNEL));
}

#[test]
fn memory_operands_are_not_what_a_vendor_calls_loads() {
    assert!(find("loads", &vm_with_soft()).notes[0].contains("not a vendor's event"));
    assert_eq!(find("calls", &vm_with_soft()).notes, [""; 0]);
}

#[test]
fn a_hybrid_gets_one_part_for_each_core_pmu() {
    let machine = hybrid();
    assert_eq!(perf_parts(&find("instructions", &machine)), [(4, 0xc0), (10, 0xc0)]);
    assert_eq!(perf_parts(&find("LLC-loads", &machine)), [(3, 4 << 32 | 2), (3, 10 << 32 | 2)]);
    assert_eq!(perf_parts(&find("r1c5", &machine)), [(4, 0x1c5), (10, 0x1c5)]);
    assert_eq!(perf_parts(&find("cpu/event=0xc5/", &machine)), [(4, 0xc5), (10, 0xc5)]);
    assert_eq!(perf_parts(&find("cpu_atom/event=0xc5/", &machine)), [(10, 0xc5)]);
}

#[test]
fn big_little_uses_each_pmus_own_numbers() {
    assert_eq!(perf_parts(&find("cycles", &big_little())), [(8, 0x11), (9, 0x11)]);
    assert_eq!(perf_parts(&find("inst_retired", &big_little())), [(8, 0x08), (9, 0x08)]);
}

#[test]
fn fields_follow_the_format_files() {
    let machine = skylake();
    let event = find("cpu/event=0xc5,umask=0x1,cmask=2,edge/", &machine);
    assert_eq!(perf_parts(&event), [(4, 0x0204_01c5)]);
    assert_eq!(perf_parts(&find("cpu/config=0x1234/", &machine)), [(4, 0x1234)]);
    assert_eq!(perf_parts(&find("cpu/mem-loads,umask=7/", &machine)), [(4, 0x07cd)]);
}

#[test]
fn energy_is_scaled_and_wider_than_a_process() {
    let event = find("power/energy-pkg/", &skylake());
    assert_eq!(event.unit, Unit::Joules);
    assert_eq!(event.candidates[0].scale, 2f64.powi(-32));
    assert_eq!(event.candidates[0].widest, Some(Scope::Package));
    assert_eq!(event.candidates[0].modes, None);
}

#[test]
fn energy_falls_back_to_the_kernels_power_capping() {
    use cyclometer_core::energy::{EnergyDomain, EnergyZone};
    let zone = |domain, number| EnergyZone {
        domain,
        folder: format!("/sys/class/powercap/intel-rapl:{number}"),
        max_energy_range_uj: 1 << 38,
    };
    let with_zones = |mut machine: Machine| {
        machine.energy =
            vec![zone(EnergyDomain::Package, 0), zone(EnergyDomain::Package, 1), zone(EnergyDomain::Ram, 2)];
        machine
    };
    let both = find("power/energy-pkg/", &with_zones(skylake()));
    let rungs: Vec<Rung> = both.candidates.iter().map(|way| way.rung).collect();
    assert_eq!(rungs, [Rung::Perf, Rung::Os]);
    assert_eq!(find("energy-pkg", &with_zones(skylake())).candidates, both.candidates);
    for name in ["power/energy-ram/", "energy-ram", "ENERGY-RAM"] {
        for machine in [with_zones(skylake()), with_zones(vm_without_pmu())] {
            let event = find(name, &machine);
            let [way] = event.candidates.as_slice() else { panic!("{name}: {event:?}") };
            assert_eq!(
                (way.rung, way.widest, way.modes, &event.unit),
                (Rung::Os, Some(Scope::Package), None, &Unit::Joules)
            );
            assert_eq!(way.resolution, "/sys/class/powercap/intel-rapl:2/energy_uj");
        }
    }
    let packages = &find("energy-pkg", &with_zones(vm_without_pmu())).candidates[0];
    assert_eq!((packages.parts.len(), packages.scale), (2, 1e-6));
    let nothing = find("energy-psys", &vm_without_pmu());
    assert!(nothing.candidates.is_empty());
    let reason = nothing.unsupported.unwrap().to_string();
    assert!(reason.ends_with("nor a zone of /sys/class/powercap"), "{reason}");
}

#[test]
fn software_events_fall_back_to_accounting() {
    let event = find("context-switches", &vm_without_pmu());
    let rungs: Vec<_> = event.candidates.iter().map(|c| (c.rung, c.provenance)).collect();
    assert_eq!(rungs, [(Rung::Perf, Provenance::Kernel), (Rung::Os, Provenance::Kernel)]);
    assert_eq!(event.candidates[1].parts, [Part::Os(OsMetric::ContextSwitches)]);
}

#[test]
fn a_user_mode_count_of_a_kernel_event_is_not_a_silent_zero() {
    let event = find("context-switches:u", &skylake());
    assert!(event.candidates.is_empty());
    let reason = event.unsupported.unwrap().to_string();
    assert_eq!(reason, "context-switches happens in the kernel: it has no user-mode count");
}

#[test]
fn a_portable_event_without_a_generic_one_names_the_nearest() {
    let event = find("l2_cache_misses", &skylake());
    assert!(event.candidates.is_empty());
    assert!(event.unsupported.unwrap().to_string().ends_with("the nearest that it has is cache-misses"));
}

#[test]
fn the_cache_that_is_meant_is_said() {
    assert!(find("cache-misses", &skylake()).notes[0].starts_with("means the last-level cache"));
}

#[test]
fn a_missing_core_pmu_is_no_typo() {
    let event = find("cpu/event=0xc5/", &vm_without_pmu());
    assert_eq!(event.unsupported.unwrap().to_string(), "the kernel has no PMU named cpu here");
}

#[test]
fn what_the_software_pmu_counts_of_a_missing_core_pmu_is_named() {
    let unsupported = |event: &str| {
        find(event, &vm_with_soft()).unsupported.map_or_else(String::new, |reason| reason.to_string())
    };
    let missing = "the kernel has no PMU named cpu here";
    let counted = |name: &str| format!("{missing}; the software PMU counts -e {name}");
    assert_eq!(unsupported("cpu/instructions/"), counted("instructions"));
    assert_eq!(unsupported("cpu/branch-instructions/"), counted("branch-instructions"));
    for other in ["cpu/cycles/", "cpu/cache-misses/", "cpu/instructions,cmask=1/", "cpu/config=0xc0/"] {
        assert_eq!(unsupported(other), missing, "{other}");
    }
    assert_eq!(unsupported("cpu/instructions/u"), counted("instructions"));
    for beyond in ["cpu/instructions/k", "cpu/instructions/uk", "cpu/instructions/G"] {
        assert_eq!(unsupported(beyond), missing, "{beyond}");
    }
}

#[test]
fn a_software_pmu_that_does_not_work_says_why_behind_a_missing_core_pmu() {
    use cyclometer_core::ladder::{Cause, CauseKind, Works};
    let unsupported = |event: &str, works| {
        let mut machine = vm_with_soft();
        let text = "a seccomp filter forbids ptrace".to_owned();
        for state in machine.ladder.rungs.iter_mut().filter(|state| state.rung == Rung::Soft) {
            state.works = works;
            state.causes = vec![Cause { kind: CauseKind::Seccomp, text: text.clone(), mend: None }];
        }
        find(event, &machine).unsupported.map_or_else(String::new, |reason| reason.to_string())
    };
    let missing = "the kernel has no PMU named cpu here";
    let software = "the software PMU, which counts -e instructions, does not work here";
    let reason = format!("{missing}; {software}: a seccomp filter forbids ptrace");
    assert_eq!(unsupported("cpu/instructions/", Works::No), reason);
    assert_eq!(unsupported("cpu/instructions/k", Works::No), missing);
    assert_eq!(unsupported("cpu/cycles/", Works::No), missing);
    assert_eq!(unsupported("cpu/instructions/", Works::NotHere), missing, "another architecture");
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    let cases = [
        ("cycels", "no event is named 'cycels'", "nearest names: cycles"),
        ("cppu/event=1/", "no PMU is named 'cppu' (in cppu/event=1/)", "nearest names: cpu"),
        ("soft/cals/", "the software PMU has no event 'cals' (in soft/cals/)", "nearest names: calls"),
        (
            "soft/calls=2/",
            "soft/calls=2/: between the slashes stands one event of the software PMU",
            "write soft/instructions/",
        ),
        (
            "cpu/evnt=1/",
            "the PMU 'cpu' has no field or event 'evnt' (in cpu/evnt=1/)",
            "nearest names: event",
        ),
        (
            "cpu/umask=0x100/",
            "'umask' of cpu/umask=0x100/ is 0x100, more than its field holds",
            "the greatest value is 0xff",
        ),
        (
            "sched:sched_switch",
            "'sched:sched_switch' looks like a tracepoint or breakpoint",
            "these are not counted",
        ),
        ("foo::cycles", "no PMU is named 'foo' (in foo::cycles)", "leave it out: cycles"),
        (
            "cpu_time:u",
            "cpu_time does not tell modes apart, so ':u' means nothing",
            "write cpu_time without modifiers",
        ),
    ];
    for (text, message, help) in cases {
        let error = resolve_list(text, &skylake(), true).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(error.recovery().to_string().starts_with(help), "{}", error.recovery());
    }
}

#[test]
fn constraints_come_from_the_inventory() {
    let Part::Perf(instructions) = &find("instructions", &skylake()).candidates[0].parts[0] else { panic!() };
    assert_eq!(instructions.constraint, Some(CounterMask::from_bits(0xf, 0b001)));
    let Part::Perf(branches) = &find("branches", &skylake()).candidates[0].parts[0] else { panic!() };
    assert_eq!(branches.constraint, Some(CounterMask::from_bits(0xf, 0)));
}

#[test]
fn generic_events_are_known_by_the_names_of_libpfm() {
    let machine = skylake();
    for (libpfm, perf) in [
        ("perf::CYCLES:k", "cycles:k"),
        ("PERF_COUNT_HW_CACHE_L1D:READ:MISS", "L1-dcache-load-misses"),
        ("perf::page-faults", "page-faults"),
    ] {
        let (theirs, ours) = (find(libpfm, &machine), find(perf, &machine));
        assert_eq!(theirs.candidates, ours.candidates, "{libpfm}");
        assert_eq!(theirs.name, libpfm.strip_suffix(":k").unwrap_or(libpfm));
    }
}

#[test]
fn an_event_of_another_pmu_is_said_to_be_that_pmus_alone() {
    for (name, reason) in [
        ("skx::INST_RETIRED:ANY_P", "cpu has no event skx::INST_RETIRED:ANY_P; skylakex has it"),
        ("arm_n1::INST_RETIRED", "cpu has no event arm_n1::INST_RETIRED; neoverse-n1 has it"),
    ] {
        let event = find(name, &skylake());
        assert!(event.candidates.is_empty());
        let found = event.unsupported.unwrap().to_string();
        assert!(found.starts_with(reason), "{found}");
    }
}

#[test]
fn clocks_take_modes_as_perf_prints_them_and_say_that_they_change_nothing() {
    for name in ["task-clock:u", "cpu-clock:k", "software/task-clock/u"] {
        let event = find(name, &vm_without_pmu());
        assert_eq!((event.modifiers.modes, event.candidates[0].modes), (None, None), "{name}");
        assert!(event.notes[0].contains("counts all modes together"), "{:?}", event.notes);
    }
    assert!(find("task-clock", &skylake()).notes.is_empty());
}

#[test]
fn an_event_has_the_name_that_its_term_gives() {
    let named = find("cpu/event=0xc0,umask=1,name=retired,period=1000,percore/", &skylake());
    let plain = find("cpu/event=0xc0,umask=1/", &skylake());
    assert_eq!((named.name.as_str(), &named.candidates), ("retired", &plain.candidates));
}

#[test]
fn terms_follow_generic_events_and_raw_codes_as_in_perf() {
    for machine in [skylake(), hybrid(), big_little(), vm_with_soft()] {
        for (text, name, plain) in [
            ("cycles/name=x/u", "x", "cycles:u"),
            ("instructions/name=foo/", "foo", "instructions"),
            ("page-faults/name=pf/", "pf", "page-faults"),
            ("L1-dcache-loads/name=y,percore/k", "y", "L1-dcache-loads:k"),
            ("r1c0/name=code/", "code", "r1c0"),
            ("faults/metric-id=a,period=100,percore/", "faults/metric-id=a,period=100,percore/", "faults"),
            ("task-clock/name=t/u", "t", "task-clock:u"),
        ] {
            let (named, plain) = (find(text, &machine), find(plain, &machine));
            assert_eq!((named.name.as_str(), &named.candidates), (name, &plain.candidates), "{text}");
            assert_eq!(named.modifiers, plain.modifiers, "{text}");
        }
    }
    let group = resolve_list("{cycles/name=a/,instructions/name=b/}:k,faults/name=c/", &skylake(), true);
    let named: Vec<_> =
        group.unwrap().into_iter().map(|event| (event.name, event.group, event.modifiers.modes)).collect();
    let kernel = Some(Modes::KERNEL);
    let expected = [("a", Some(0), kernel), ("b", Some(0), kernel), ("c", None, None)];
    assert_eq!(named, expected.map(|(name, group, modes)| (name.to_owned(), group, modes)));
}

#[test]
fn terms_that_perf_refuses_behind_a_generic_event_are_refused() {
    for (text, message) in [
        ("page-faults/event=1/", "'event' cannot refine page-faults/event=1/, which is"),
        ("cycles/foo/", "'foo' cannot refine cycles/foo/, which is a generic event of the kernel"),
        ("cycles/call-graph=dwarf/", "the term 'call-graph' of 'cycles/call-graph=dwarf/' is for samples"),
        ("no_such/name=x/", "no PMU is named 'no_such'"),
    ] {
        let error = resolve_list(text, &skylake(), true).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn perfs_times_take_modes_as_perf_prints_them() {
    for (text, plain) in
        [("duration_time:u", "duration_time"), ("user_time:u", "user_time"), ("system_time:k", "system_time")]
    {
        let (found, plain) = (find(text, &skylake()), find(plain, &skylake()));
        assert_eq!((&found.candidates, found.modifiers.modes), (&plain.candidates, None), "{text}");
        assert!(found.notes.iter().any(|note| note.contains("as in perf")), "{:?}", found.notes);
    }
}

#[test]
fn a_pmu_is_to_be_left_out_only_where_the_rest_is_an_event() {
    let help = |text: &str| {
        let error = resolve_list(text, &skylake(), true).unwrap_err();
        (error.to_string(), error.recovery().to_string())
    };
    for (text, rest) in [("foo::cycles", "cycles"), ("foo::BR_MISP_RETIRED.ALL_BRANCHES", "BR_MISP_RETIRED")]
    {
        assert!(help(text).1.starts_with(&format!("leave it out: {rest}")), "{text}: {:?}", help(text));
    }
    for text in ["netburst::X", "foo::bar", "foo::cycels", "a::B::CYCLES"] {
        let (message, help) = help(text);
        assert!(message.starts_with("no PMU is named '"), "{message}");
        assert!(!help.contains("leave it out"), "{text}: {help}");
    }
    assert!(help("foo::cycels").1.starts_with("nearest names: cycles"));
    let deep = format!("a{}", "::A".repeat(10_000));
    assert!(resolve_list(&deep, &skylake(), true).is_err());
}

#[test]
fn a_name_of_libpfm_that_the_vendor_spells_otherwise_is_named_with_the_vendors() {
    for (text, message, help) in [
        (
            "amd64_fam19h_zen4::RETIRED_INSTRUCTIONS",
            "'amd64_fam19h_zen4::RETIRED_INSTRUCTIONS' is libpfm4's name of an event of amdzen4",
            "write the vendor's name: ex_ret_instr",
        ),
        (
            "amd64_fam17h::CYCLES_NOT_IN_HALT",
            "'amd64_fam17h::CYCLES_NOT_IN_HALT' is libpfm4's name of an event of amdzen1",
            "write the vendor's name: ls_not_halted_cyc",
        ),
        (
            "amd64_fam1ah_zen5::EX_RET_INST",
            "amdzen5 has no event named 'amd64_fam1ah_zen5::EX_RET_INST'",
            "nearest names: ex_ret_instr",
        ),
    ] {
        let error = resolve_list(text, &skylake(), true).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(error.recovery().to_string().starts_with(help), "{}", error.recovery());
    }
}

#[test]
fn energy_is_known_by_the_names_of_libpfm() {
    let machine = skylake();
    assert_eq!(find("rapl::RAPL_ENERGY_PKG", &machine).candidates, find("energy-pkg", &machine).candidates);
}
