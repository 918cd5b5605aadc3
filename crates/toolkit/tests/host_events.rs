//! Vendors' and portable events on recorded machines: perf's words, the counters, and the notes.
#![allow(clippy::unwrap_used, reason = "a test may")]

use cyclometer_toolkit::catalogue::cpus;
use cyclometer_toolkit::catalogue::encode::encode_all;
use cyclometer_toolkit::catalogue::portable;
use cyclometer_toolkit::core::event::{Part, PerfEvent};
use cyclometer_toolkit::core::{CounterMask, Event};
use cyclometer_toolkit::{
    Error, ErrorKind, EventTables, Machine, Rung, Stat, list_events, list_vendor_events, replay_machine,
};

fn machine(name: &str) -> Machine {
    let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let recording = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    replay_machine(&recording).unwrap_or_else(|error| panic!("{error}"))
}

fn event(on: &str, text: &str) -> Event {
    let plan = Stat::new(machine(on)).events(text).and_then(|stat| stat.plan());
    plan.unwrap_or_else(|error| panic!("{on} {text}: {error}")).lines.remove(0).event
}

fn refused(on: &str, text: &str) -> Error {
    match Stat::new(machine(on)).events(text) {
        Ok(_) => panic!("{on} {text} is accepted"),
        Err(error) => error,
    }
}

fn parts(event: &Event) -> Vec<PerfEvent> {
    let candidate =
        event.candidates.first().unwrap_or_else(|| panic!("{}: {:?}", event.name, event.unsupported));
    let perf = |part: &Part| match part {
        Part::Perf(part) => part.clone(),
        other => panic!("{other:?}"),
    };
    candidate.parts.iter().map(perf).collect()
}

fn reason(event: &Event) -> String {
    event.unsupported.as_ref().map_or_else(String::new, |reason| reason.to_string())
}

fn resolution(on: &str, text: &str) -> String {
    let event = event(on, text);
    match event.candidates.first() {
        Some(candidate) => candidate.resolution.clone(),
        None => format!("not here: {}", reason(&event)),
    }
}

#[test]
fn vendors_names_are_counted_on_every_kind_of_machine() {
    let cases = [
        ("skylake", "BR_MISP_RETIRED.ALL_BRANCHES", "cpu/config=0xc5/ (BR_MISP_RETIRED.ALL_BRANCHES)"),
        ("skylake", "br_misp_retired.all_branches:u", "cpu/config=0xc5/ (BR_MISP_RETIRED.ALL_BRANCHES)"),
        ("skylake", "skl::BR_MISP_RETIRED:ALL_BRANCHES", "cpu/config=0xc5/ (BR_MISP_RETIRED.ALL_BRANCHES)"),
        ("skylake", "cpu/BR_MISP_RETIRED.ALL_BRANCHES/", "cpu/config=0xc5/ (BR_MISP_RETIRED.ALL_BRANCHES)"),
        ("skylake", "INST_RETIRED.ANY", "cpu/config=0xc0/ (INST_RETIRED.ANY)"),
        ("skylake", "CPU_CLK_UNHALTED.REF_TSC", "cpu/config=0x300/ (CPU_CLK_UNHALTED.REF_TSC)"),
        ("zen4", "ex_ret_brn_misp", "cpu/config=0xc3/ (ex_ret_brn_misp)"),
        (
            "zen4",
            "op_cache_hit_miss.op_cache_hit",
            "cpu/config=0x20000038f/ (op_cache_hit_miss.op_cache_hit)",
        ),
        ("neoverse-n1", "L1D_CACHE_REFILL_RD", "armv8_pmuv3_0/config=0x42/ (L1D_CACHE_REFILL_RD)"),
        (
            "m1-asahi",
            "INST_BRANCH",
            "apple_firestorm_pmu/config=0x8d/ + apple_icestorm_pmu/config=0x8d/ (INST_BRANCH)",
        ),
        ("visionfive2", "DCACHE_MISS", "cpu/config=0x202/ (DCACHE_MISS)"),
        (
            "vm-without-vpmu",
            "BR_MISP_RETIRED.ALL_BRANCHES",
            "cpu/config=0xc5/ (BR_MISP_RETIRED.ALL_BRANCHES)",
        ),
    ];
    for (on, text, expected) in cases {
        assert_eq!(resolution(on, text), expected, "{on} {text}");
    }
}

#[test]
fn attributes_are_put_where_the_kernels_format_files_say() {
    let cases = [
        ("skylake", "UOPS_ISSUED.ANY:cmask=1:inv", 0x180_010e),
        ("skylake", "skl::UOPS_ISSUED:ANY:c=1:i:e", 0x184_010e),
        ("skylake", "cpu/UOPS_ISSUED.ANY,cmask=1,edge,pc/", 0x10c_010e),
        ("skylake", "INST_RETIRED.ANY:cmask=1", 0x100_00c0),
        // Unit masks of Lion Cove go on at bit 40, equality stands at bit 36.
        ("lunar-lake", "cpu_core/UOPS_ISSUED.ANY,cmask=2,eq/", 0x10_0200_01ae),
        ("zen4", "ex_ret_ops:cmask=3", 0x300_00c1),
    ];
    for (on, text, config) in cases {
        assert_eq!(parts(&event(on, text))[0].words.config, config, "{on} {text}");
    }
    let latency = event("skylake", "cpu/MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4,ldlat=50/");
    assert_eq!((parts(&latency)[0].words.config, parts(&latency)[0].words.config1), (0x1cd, 50));
    let offcore = event("skylake", "cpu/event=0xb7,umask=1,offcore_rsp=0x10001/");
    assert_eq!((parts(&offcore)[0].words.config, parts(&offcore)[0].words.config1), (0x1b7, 0x10001));
}

#[test]
fn constraints_are_the_vendors_counters_that_the_machine_has() {
    let cases = [
        ("skylake", "BR_MISP_RETIRED.ALL_BRANCHES", Some((0xf, 0))),
        // perf uses a general counter, too, where that counts the same.
        ("skylake", "INST_RETIRED.ANY", Some((0xf, 0b001))),
        ("skylake", "INST_RETIRED.ANY_P", Some((0xf, 0b001))),
        ("skylake", "CPU_CLK_UNHALTED.REF_TSC", Some((0, 0b100))),
        ("skylake", "INST_RETIRED.ANY:cmask=1", Some((0xf, 0))),
        ("sapphire-rapids", "TOPDOWN.SLOTS", Some((0, 0b1000))),
        ("m1-asahi", "INST_ALL", Some((0x80, 0b10))),
        ("m1-asahi", "RETIRE_UOP", Some((0x80, 0))),
        ("m1-asahi", "INST_LDST", Some((0x80, 0))),
        ("neoverse-n1", "L1D_CACHE_REFILL_RD", Some((0x3f, 0))),
        ("visionfive2", "DCACHE_MISS", None),
    ];
    for (on, text, counters) in cases {
        let constraint = parts(&event(on, text))[0].constraint;
        assert_eq!(
            constraint,
            counters.map(|(general, fixed)| CounterMask::from_bits(general, fixed)),
            "{on} {text}"
        );
    }
}

#[test]
fn vendors_instructions_and_cycles_can_never_be_zero() {
    let never_zero = |on, text| event(on, text).candidates[0].never_zero;
    assert!(never_zero("skylake", "INST_RETIRED.ANY") && never_zero("skylake", "CPU_CLK_UNHALTED.THREAD"));
    assert!(never_zero("zen4", "ex_ret_instr") && never_zero("alder-lake", "INST_RETIRED.ANY"));
    assert!(!never_zero("skylake", "INST_RETIRED.ANY:cmask=1"));
    assert!(!never_zero("skylake", "BR_MISP_RETIRED.ALL_BRANCHES"));
}

#[test]
fn events_that_no_driver_counts_say_so() {
    let fixed = event("m4-macos", "FIXED_CYCLES");
    assert!(reason(&fixed).contains("perf has no code"), "{fixed:?}");
    let other = event("visionfive2", "l2_cache_misses");
    assert!(other.candidates.is_empty() && other.unsupported.is_some(), "{other:?}");
}

#[test]
fn what_the_vendor_says_of_an_event_is_noted() {
    assert_eq!(event("skylake", "INST_RETIRED.ANY_P").notes, ["errata: SKL091, SKL044"]);
    assert_eq!(event("sapphire-rapids", "ARITH.DIVIDER_ACTIVE").notes, ["deprecated by the vendor"]);
    assert_eq!(event("sapphire-rapids", "ARITH.DIV_ACTIVE").notes, [""; 0]);
}

/// Whether an event is counted on this PMU alone, where the machine has others.
fn is_only(event: &Event, pmu: &str) -> bool {
    event.candidates[0].only.as_ref().is_some_and(|only| only.is_only(pmu))
}

#[test]
fn a_hybrid_counts_on_the_core_types_that_have_the_event_and_names_the_others() {
    let both = event("alder-lake", "BR_MISP_RETIRED.ALL_BRANCHES");
    let words: Vec<(u32, u64)> = parts(&both).iter().map(|part| (part.pmu_type, part.words.config)).collect();
    assert_eq!(words.len(), 2, "{words:x?}");
    assert!(both.candidates[0].only.is_none() && both.notes.is_empty(), "{both:?}");
    let one = event("alder-lake", "MEM_LOAD_RETIRED.L3_MISS");
    assert_eq!(one.candidates[0].resolution, "cpu_core/config=0x20d1/ (MEM_LOAD_RETIRED.L3_MISS)");
    assert!(is_only(&one, "cpu_core"));
    assert_eq!(
        one.notes[0],
        "not everywhere: cpu_atom (alderlake/atom) has no event MEM_LOAD_RETIRED.L3_MISS"
    );
    let slots = event("alder-lake", "cpu/slots/");
    assert!(is_only(&slots, "cpu_core"));
    assert_eq!(slots.notes, ["not everywhere: cpu_atom has no event cpu/slots/"]);
    // An event of one core type has no note: the report says when the program also ran on the other type.
    let asked = event("alder-lake", "cpu_core/MEM_LOAD_RETIRED.L3_MISS/");
    assert!(parts(&asked).len() == 1 && is_only(&asked, "cpu_core"));
    assert_eq!(asked.notes, [""; 0]);
    let asked = event("alder-lake", "cpu_atom::BR_MISP_RETIRED:ALL_BRANCHES");
    assert_eq!(asked.candidates[0].resolution, "cpu_atom/config=0xc5/ (BR_MISP_RETIRED.ALL_BRANCHES)");
    let lacking = event("alder-lake", "cpu_atom/MEM_LOAD_RETIRED.L3_MISS/");
    assert_eq!(
        reason(&lacking),
        "alderlake/atom has no event MEM_LOAD_RETIRED.L3_MISS; another core type has it"
    );
}

#[test]
fn portable_names_are_the_vendors_events_of_the_machine() {
    let cases = [
        ("skylake", "l2_cache_misses"),
        ("skylake", "stalls_frontend"),
        ("zen4", "l2_cache_misses"),
        ("neoverse-n1", "llc_misses"),
        ("m1-asahi", "l1d_cache_misses"),
        ("alder-lake", "l1d_cache_misses"),
    ];
    let mut found = String::new();
    for (on, text) in cases {
        found += &format!("{on} {text}: {}\n", resolution(on, text));
    }
    assert_eq!(found, include_str!("golden/portable.txt"));
}

#[test]
fn a_portable_event_that_is_a_sum_is_counted_by_all_its_summands() {
    let loads = event("zen4", "l1d_cache_loads");
    let way = &loads.candidates[0];
    assert_eq!(way.summands, ["ls_dispatch.ld_dispatch", "ls_dispatch.ld_st_dispatch"]);
    assert_eq!(
        way.resolution,
        "cpu/config=0x129/ (ls_dispatch.ld_dispatch) + cpu/config=0x429/ (ls_dispatch.ld_st_dispatch)"
    );
    let codes: Vec<u64> = parts(&loads).iter().map(|part| part.words.config).collect();
    assert_eq!(codes, [0x129, 0x429]);
    let hybrid = event("alder-lake", "unaligned_accesses");
    let pmus: Vec<String> = parts(&hybrid).into_iter().map(|part| part.pmu).collect();
    assert_eq!(
        pmus,
        ["cpu_atom", "cpu_core", "cpu_core"],
        "a sum on one core type, a single event on the other"
    );
}

#[test]
fn every_sum_of_every_recorded_machine_has_a_part_for_each_summand_and_fits() {
    let mut sums = 0;
    for on in all_machines() {
        for name in portable::names() {
            let event = event(on, name);
            for way in event.candidates.iter().take(1).filter(|way| !way.summands.is_empty()) {
                assert_eq!(way.parts.len(), way.summands.len(), "{on} {name}");
                let plan = Stat::new(machine(on)).events(name).and_then(|stat| stat.plan()).unwrap();
                assert_eq!(plan.passes.len(), 1, "{on} {name}: {:?}", plan.sharing);
                assert!(!plan.is_rotated(), "{on} {name}");
                sums += 1;
            }
            assert!(!reason(&event).contains("add them up"), "{on} {name}: {:?}", event.unsupported);
        }
    }
    assert!(sums > 20, "{sums}");
}

#[test]
fn a_sum_on_counters_that_nobody_knows_says_what_may_be_wrong_with_it() {
    let sum = event("visionfive2", "fp_instructions");
    assert_eq!(sum.candidates[0].summands.len(), 5);
    let told = "a sum of 5 events: it is too small where the CPU has fewer than 5 counters for them, which only the firmware knows";
    assert_eq!(sum.candidates[0].uncertain.as_ref().map(|part| part.to_string()).as_deref(), Some(told));
    assert!(sum.notes.iter().all(|note| note != told), "the count itself says it: {:?}", sum.notes);
    assert_eq!(event("zen4", "l1d_cache_loads").candidates[0].uncertain, None);
    let single = portable::names().map(|name| event("visionfive2", name)).find(|event| {
        let candidate = event.candidates.first();
        candidate.is_some_and(|candidate| candidate.rung == Rung::Perf && candidate.summands.is_empty())
    });
    assert_eq!(single.unwrap().candidates[0].uncertain, None, "it is no sum");
}

#[test]
fn all_portable_events_of_a_machine_are_planned_at_once_with_every_sum_whole() {
    for on in all_machines() {
        let names: Vec<&str> = portable::names().collect();
        let plan =
            Stat::new(machine(on)).runs(1).events(&names.join(",")).and_then(|stat| stat.plan()).unwrap();
        assert!(plan.is_rotated(), "{on}");
        for slot in plan.passes.iter().flat_map(|pass| &pass.slots) {
            let way = plan.lines[slot.id.0].candidate().unwrap();
            assert_eq!(slot.parts.len(), way.parts.len(), "{on} {}", slot.name);
        }
        assert!(plan.sharing.sets.len() >= plan.sharing.lower_bound, "{on}");
        assert!(plan.sharing.sets.len() <= 2 * plan.sharing.lower_bound, "{on}: {:?}", plan.sharing);
    }
}

fn all_machines() -> impl Iterator<Item = &'static str> {
    ["skylake", "alder-lake", "lunar-lake", "zen2", "zen4", "neoverse-n1", "m1-asahi", "big-little"]
        .into_iter()
}

#[test]
fn names_of_other_cpus_say_where_they_are() {
    let other = event("skylake", "ex_ret_brn_misp");
    assert!(other.candidates.is_empty());
    assert!(
        reason(&other).starts_with("skylake has no event ex_ret_brn_misp; amdzen1, amdzen2"),
        "{other:?}"
    );
    let known = event("zen4", "MEM_LOAD_RETIRED.FB_HIT");
    assert!(reason(&known).ends_with(" have it"), "{:?}", known.unsupported);
}

#[test]
fn nothing_that_is_asked_for_is_ignored() {
    let cases = [
        ("cycles:cmask=1", "'cmask' cannot refine cycles, which is a generic event of the kernel"),
        (
            "L1-dcache-loads:inv",
            "'inv' cannot refine L1-dcache-loads, which is a generic event of the kernel",
        ),
        ("page-faults:edge", "'edge' cannot refine page-faults, which is an event that no core PMU counts"),
        ("r1c5:inv", "'inv' cannot refine r1c5, which is a raw code"),
        (
            "BR_MISP_RETIRED.ALL_BRANCHES:cmask=256",
            "'cmask' of BR_MISP_RETIRED.ALL_BRANCHES is 0x100, more than its field holds",
        ),
        (
            "BR_MISP_RETIRED.ALL_BRANCHES:colour=1",
            "the PMU 'cpu' has no field or event 'colour' (in BR_MISP_RETIRED.ALL_BRANCHES)",
        ),
        (
            "cpu/BR_MISP_RETIRED.ALL_BRANCHES,colour=1/",
            "the PMU 'cpu' has no field or event 'colour' (in cpu/BR_MISP_RETIRED.ALL_BRANCHES,colour=1/)",
        ),
        (
            "CPU_CLK_UNHALTED.REF_TSC:cmask=1",
            "CPU_CLK_UNHALTED.REF_TSC: a fixed counter has no field 'cmask'",
        ),
        ("UOPS_ISSUED.ANY:eq", "UOPS_ISSUED.ANY: the intel layout has no field 'eq' at PMU version 4"),
    ];
    for (text, message) in cases {
        let error = refused("skylake", text);
        assert_eq!(error.to_string(), message);
        assert_eq!(error.kind() == ErrorKind::UnknownEvent, message.contains("no field or event"), "{text}");
    }
    let on_arm = refused("neoverse-n1", "L1D_CACHE_REFILL_RD:cmask=1");
    assert!(on_arm.to_string().contains("no format for 'cmask'") || on_arm.to_string().contains("'cmask'"));
}

#[test]
fn typos_get_the_nearest_names_of_the_machines_own_tables() {
    let nearest = |text: &str| refused("skylake", text).recovery().to_string();
    assert!(nearest("BR_MISP_RETIRD.ALL_BRANCHES").contains("BR_MISP_RETIRED.ALL_BRANCHES"));
    assert!(nearest("skl::BR_MISP_RETIRD:ALL_BRANCHES").contains("BR_MISP_RETIRED.ALL_BRANCHES"));
    assert!(nearest("l2_cache_mises").contains("l2_cache_misses"));
    assert!(nearest("cycels").contains("cycles"));
    let alone = refused("skylake", "BR_MISP_RETIRED");
    assert_eq!(alone.to_string(), "'BR_MISP_RETIRED' alone is ambiguous on skylake: it has unit masks");
    assert!(refused("skylake", "sched:sched_switch").to_string().contains("tracepoint"));
}

#[test]
fn generic_names_stay_the_kernels() {
    for name in ["cycles", "branch-misses", "branch_misses", "L1-dcache-load-misses"] {
        let event = event("skylake", name);
        assert!([0, 3].contains(&parts(&event)[0].pmu_type), "{name}: {event:?}");
    }
}

#[test]
fn what_is_listed_can_be_asked_for() {
    for on in all_machines() {
        let machine = machine(on);
        let tables = EventTables::embedded();
        let mut listed = list_events(&machine);
        listed.extend(list_vendor_events(&machine, &tables, &|name| name.to_lowercase().contains("br")));
        for listing in &listed {
            let stat = Stat::new(machine.clone()).events(&listing.name);
            assert!(stat.is_ok(), "{on} {}: {}", listing.name, stat.err().unwrap());
        }
        let vendors = listed.iter().filter(|listing| listing.kind == cyclometer_toolkit::ListingKind::Vendor);
        assert!(vendors.clone().count() > 0, "{on}");
        for listing in vendors {
            assert!(!listing.description.is_empty() && listing.rung == Rung::Perf, "{listing:?}");
        }
    }
}

/// Checks that every event of a machine's tables is counted here as it is encoded. Collects those that are
/// not, and those whose name another event has.
fn every_event(on: &str, unlike: &mut Vec<String>) -> usize {
    let machine = machine(on);
    let mut checked = 0;
    for core in &machine.core_types {
        let cpu = cpus::cpu(core.cpu_id.as_deref().unwrap()).unwrap();
        let pmu = core.kernel_pmu.clone().unwrap();
        for encoding in encode_all(cpu) {
            let name = &encoding.selected.name;
            let events = Stat::new(machine.clone()).events(name).and_then(|stat| stat.plan());
            let event = events.unwrap_or_else(|error| panic!("{on} {name}: {error}")).lines.remove(0).event;
            let own = |part: &Part| matches!(part, Part::Perf(part) if part.pmu == pmu && Ok(part.words) == encoding.perf);
            let is_vendors = event.candidates.iter().any(|c| c.resolution.contains(&format!("({name})")));
            match event.candidates.iter().flat_map(|c| &c.parts).any(own) {
                true => checked += 1,
                false if is_vendors => panic!("{on} {name}: {event:?} is not {:?}", encoding.perf),
                false => unlike.push(match event.candidates.first() {
                    Some(candidate) => format!("{on} {name}: {}", candidate.resolution),
                    None => format!("{on} {name}: {}", reason(&event)),
                }),
            }
        }
    }
    checked
}

#[test]
fn every_event_of_every_recorded_machine_gets_the_catalogues_words() {
    let mut unlike = Vec::new();
    let checked: usize = all_machines().map(|on| every_event(on, &mut unlike)).sum();
    assert!(checked > 2500, "{checked}");
    assert_eq!(unlike.join("\n") + "\n", include_str!("golden/not-the-catalogues.txt"));
}
