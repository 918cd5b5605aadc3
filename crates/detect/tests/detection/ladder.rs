//! The source order's causes, told apart: recorded machines with one fact changed.

use crate::support::{self, recording};
use cyclometer_core::ladder::{Cause, CauseKind, Rung, Works};
use cyclometer_core::machine::Machine;
use cyclometer_detect::{
    FactRecorder, FactSource, RecordedFacts, detect, detect_for_counting, detect_for_regions,
};

/// A recorded machine with some lines replaced; a replacement that finds nothing is a mistake.
fn changed(name: &str, changes: &[(&str, &str)]) -> Machine {
    let mut text = recording(name);
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no {from:?}");
        text = text.replace(from, to);
    }
    detect(&RecordedFacts::parse(&text).unwrap())
}

/// Whether perf works, and its causes.
fn perf(machine: &Machine) -> (Works, Vec<Cause>) {
    let state = machine.ladder.state(Rung::Perf).unwrap();
    (state.works, state.causes.clone())
}

fn check(name: &str, changes: &[(&str, &str)], works: Works, kind: CauseKind, mend: Option<&str>) {
    let (found, causes) = perf(&changed(name, changes));
    assert_eq!(found, works, "{name} {changes:?}: {causes:?}");
    let cause = causes.iter().find(|cause| cause.kind == kind);
    let cause = cause.unwrap_or_else(|| panic!("{name} {changes:?}: no {kind:?} in {causes:?}"));
    assert_eq!(cause.mend.as_deref(), mend, "{name} {changes:?}");
    assert_eq!(cause, &causes[0], "{name} {changes:?}: not the first cause");
}

const CYCLES_OK: &str = "perf type=0 config=0x0 user=1 kernel=0 pid=0 cpu=-1 ok";
const ALL_SKYLAKE_DEVICES: &str = "breakpoint cpu msr power software tracepoint";

#[test]
fn each_refusal_of_cycles_has_its_own_cause() {
    let refused = |errno: i32| CYCLES_OK.replace("ok", &errno.to_string());
    let (busy, missing, denied) = (refused(16), refused(2), refused(13));
    check("zen4", &[(CYCLES_OK, &busy)], Works::Partly, CauseKind::HeldByAnother, None);
    check("zen4", &[(CYCLES_OK, &missing)], Works::Partly, CauseKind::NoPmu, None);
    check("zen4", &[(CYCLES_OK, &denied)], Works::Partly, CauseKind::NoPermission, None);
    check("kvm-filtered", &[], Works::Partly, CauseKind::HypervisorFilter, None);
}

#[test]
fn bare_metal_without_a_core_pmu_tells_known_cpus_from_unknown_ones() {
    let no_device = (ALL_SKYLAKE_DEVICES, "breakpoint msr power software tracepoint");
    let no_cycles = (CYCLES_OK, "perf type=0 config=0x0 user=1 kernel=0 pid=0 cpu=-1 2");
    let other_model = ("cpuid * 0x1 0 0x000506e3", "cpuid * 0x1 0 0x000f0ff3");
    check("skylake", &[no_device, no_cycles], Works::Partly, CauseKind::NoPmu, None);
    check("skylake", &[no_device, no_cycles, other_model], Works::Partly, CauseKind::UnknownCpu, None);
}

#[test]
fn a_hidden_device_list_does_not_hide_a_working_pmu() {
    let machine = changed("skylake", &[(ALL_SKYLAKE_DEVICES, "")]);
    assert!(machine.pmus.is_empty());
    assert_eq!(machine.ladder.perf_hardware, Ok(()));
}

#[test]
fn a_kernel_without_perf_is_told_from_a_filter() {
    let no_setting = ("file /proc/sys/kernel/perf_event_paranoid 2", "# none");
    let not_there = (" cpu=-1 1\n", " cpu=-1 38\n");
    let unfiltered = ("| Seccomp:\t2", "| Seccomp:\t0");
    check("docker-seccomp", &[no_setting, not_there], Works::No, CauseKind::NotInKernel, None);
    check("docker-seccomp", &[not_there, unfiltered], Works::No, CauseKind::NotInKernel, None);
    let docker = Some("docker run --security-opt seccomp=unconfined …");
    check("docker-seccomp", &[not_there], Works::No, CauseKind::Seccomp, docker);
    check("docker-seccomp", &[], Works::No, CauseKind::Seccomp, docker);
}

#[test]
fn a_filter_is_mended_where_the_container_is_started() {
    let podman = ("file /.dockerenv", "file /run/.containerenv");
    let pod = ("file /.dockerenv", "list /var/run/secrets/kubernetes.io/serviceaccount token");
    let none = ("file /.dockerenv", "# none");
    let command = Some("podman run --security-opt seccomp=unconfined …");
    check("docker-seccomp", &[podman], Works::No, CauseKind::Seccomp, command);
    let profile = Some("in the pod: securityContext: {seccompProfile: {type: Unconfined}}");
    check("docker-seccomp", &[pod], Works::No, CauseKind::Seccomp, profile);
    check("docker-seccomp", &[none], Works::No, CauseKind::Seccomp, None);
}

#[test]
fn paranoia_in_a_filtered_container_is_told_by_the_error_number() {
    let paranoid = ("perf_event_paranoid 2", "perf_event_paranoid 3");
    let denied = (" cpu=-1 1\n", " cpu=-1 13\n");
    let sysctl = Some("sudo sysctl kernel.perf_event_paranoid=2");
    check("docker-seccomp", &[paranoid, denied], Works::No, CauseKind::NoPermission, sysctl);
}

#[test]
fn user_mode_counting_works_at_paranoid_2_and_names_what_is_missing() {
    let sysctl = Some("sudo sysctl kernel.perf_event_paranoid=1");
    check("skylake", &[], Works::Yes, CauseKind::NoPermission, sysctl);
    check(
        "skylake-paranoid-3",
        &[],
        Works::No,
        CauseKind::NoPermission,
        Some("sudo sysctl kernel.perf_event_paranoid=2"),
    );
}

#[test]
fn reads_from_user_space_that_are_off_are_a_limit() {
    let off = ("devices/cpu/rdpmc 1", "devices/cpu/rdpmc 0");
    let machine = changed("zen2", &[off]);
    let command = "echo 1 | sudo tee /sys/bus/event_source/devices/cpu/rdpmc";
    check("zen2", &[off], Works::Yes, CauseKind::NoUserAccess, Some(command));
    assert!(!machine.capabilities.user_mode_access);
    assert!(changed("zen2", &[]).capabilities.user_mode_access);
}

#[test]
fn a_pmu_that_cannot_leave_modes_out_works_in_part() {
    check("visionfive2", &[], Works::Partly, CauseKind::NoModeFilter, None);
    let every_mode = "perf type=0 config=0x0 user=1 kernel=1 pid=0 cpu=-1 ";
    let denied = (&*format!("{every_mode}ok"), &*format!("{every_mode}13"));
    let ordinary = ("| CapEff:\t000001ffffffffff", "| CapEff:\t0000000000000000");
    let sysctl = Some("sudo sysctl kernel.perf_event_paranoid=1");
    check("visionfive2", &[denied, ordinary], Works::Partly, CauseKind::NoPermission, sysctl);
}

#[test]
fn a_hybrid_of_which_one_part_counts_works_in_part() {
    let atom = "perf type=10 config=0x3c user=1 kernel=0 pid=0 cpu=-1 ";
    let busy = (&*format!("{atom}ok"), &*format!("{atom}16"));
    check("alder-lake", &[busy], Works::Partly, CauseKind::HeldByAnother, None);
    assert_eq!(changed("alder-lake", &[busy]).ladder.perf_hardware, Ok(()));
}

#[test]
fn hybrids_are_told_apart_by_cpuid_where_the_kernel_shows_no_devices() {
    let with_devices = detect(&support::machine("alder-lake"));
    let without = changed("alder-lake", &[("list /sys/bus/event_source/devices ", "# ")]);
    for (a, b) in with_devices.core_types.iter().zip(&without.core_types) {
        assert_eq!((&a.cpu_id, &a.cpus, &a.pmu), (&b.cpu_id, &b.cpus, &b.pmu));
    }
    assert_eq!(without.core_types.len(), 2);
}

#[test]
fn under_a_hypervisor_the_values_of_cpuid_rule() {
    let virtual_bit = ("0x00800800 0x7ffafbff", "0x00800800 0xfffafbff");
    let guest = changed("alder-lake", &[virtual_bit]);
    assert_eq!(guest.core_types[0].pmu.counters.general_bits(), 0b11_1111);
    let metal = changed("alder-lake", &[]);
    assert_eq!(metal.core_types[0].pmu.counters.general_bits(), 0xff);
}

#[test]
fn a_guest_of_macos_has_the_fixed_counters_only() {
    let guest = changed("m4-macos", &[("kern.hv_vmm_present 0", "kern.hv_vmm_present 1")]);
    assert_eq!(guest.capabilities.counter_count, 0);
    assert_eq!(guest.capabilities.fixed_counters, 2);
    assert_eq!(guest.hypervisor.as_deref(), Some("Apple Virtualization"));
}

/// Whether the software PMU works, and why not.
fn soft(changes: &[(&str, &str)]) -> (Works, Option<Cause>) {
    let machine = changed("vm-without-vpmu", changes);
    let state = machine.ladder.state(Rung::Soft).unwrap();
    (state.works, state.causes.first().cloned())
}

fn check_soft(changes: &[(&str, &str)], kind: CauseKind, text: &str, mend: Option<&str>) {
    let (works, cause) = soft(changes);
    let cause = cause.unwrap_or_else(|| panic!("{changes:?}: no cause"));
    assert_eq!((works, cause.kind), (Works::No, kind), "{changes:?}: {cause:?}");
    assert!(cause.text.contains(text), "{changes:?}: {cause:?}");
    assert_eq!(cause.mend.as_deref(), mend, "{changes:?}");
}

const TRACED: &str = "\ntrace ok";
const CAPABLE: &str = "| CapEff:\t000001fffeffffff";
const NOBODY: &str = "| CapEff:\t0000000000000000";

fn scope(level: u32, trace: &str) -> String {
    format!("\ntrace {trace}\nfile /proc/sys/kernel/yama/ptrace_scope {level}")
}

#[test]
fn the_software_pmu_works_where_tracing_does() {
    assert_eq!(soft(&[]), (Works::Yes, None));
    assert_eq!(soft(&[(CAPABLE, NOBODY), (TRACED, &scope(1, "ok"))]), (Works::Yes, None));
    assert_eq!(soft(&[(TRACED, &scope(2, "ok"))]), (Works::Yes, None), "with the capability");
}

#[test]
fn yama_forbids_the_software_pmu_by_a_setting_with_or_without_a_cure() {
    let at = |level| [(CAPABLE.to_owned(), NOBODY.to_owned()), (TRACED.to_owned(), scope(level, "1"))];
    let check = |level, text: &str, mend| {
        let changes = at(level);
        let changes: Vec<(&str, &str)> = changes.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        check_soft(&changes, CauseKind::NoPermission, text, mend);
    };
    check(2, "is 2: only CAP_SYS_PTRACE may trace", Some("sudo sysctl kernel.yama.ptrace_scope=1"));
    check(3, "is 3: tracing is disabled until the next boot", None);
    check(1, "a security module or a sandbox", None);
}

#[test]
fn a_filter_against_ptrace_is_told_with_its_cure() {
    let filtered = ("| Seccomp:\t0", "| Seccomp:\t2");
    let denied = (TRACED, "\ntrace 1");
    let docker = Some("docker run --cap-add SYS_PTRACE …");
    check_soft(&[filtered, denied], CauseKind::Seccomp, "a seccomp filter forbids ptrace", docker);
    let none = ("file /.dockerenv", "# none");
    check_soft(&[filtered, denied, none], CauseKind::Seccomp, "start the program without it", None);
    check_soft(&[(TRACED, "\ntrace 38")], CauseKind::NotInKernel, "the kernel has no ptrace", None);
}

#[test]
fn each_call_that_the_software_pmu_needs_is_named_where_it_is_refused() {
    let filtered = ("| Seccomp:\t0", "| Seccomp:\t2");
    let docker = ("file /.dockerenv", "file /.dockerenv");
    let none = ("file /.dockerenv", "# none");
    let pod = ("file /.dockerenv", "list /var/run/secrets/kubernetes.io/serviceaccount token");
    let check = |call: &str, container, text: &str, mend: Option<&str>| {
        let refused = format!("\ntrace 1 {call}");
        check_soft(&[filtered, container, (TRACED, &refused)], CauseKind::Seccomp, text, mend);
    };
    let tracing = Some("docker run --cap-add SYS_PTRACE …");
    let unconfined = Some("docker run --security-opt seccomp=unconfined …");
    let of_a_pod = Some("in the pod: securityContext: {seccompProfile: {type: Unconfined}}");
    check(
        "process_vm_writev",
        docker,
        "a seccomp filter forbids process_vm_writev in this container",
        tracing,
    );
    check("memfd_create", docker, "a seccomp filter forbids memfd_create in this container", unconfined);
    check("memfd_create", pod, "a seccomp filter forbids memfd_create in this pod", of_a_pod);
    check("memfd_create", none, "forbids memfd_create; start the program without it", None);
    let refused = [(TRACED, "\ntrace 38 memfd_create")];
    check_soft(&refused, CauseKind::NotInKernel, "the kernel has no memfd_create", None);
    check_soft(&[(TRACED, "\ntrace 11 fork")], CauseKind::NotInKernel, "fork fails here (error 11)", None);
    let limited = [filtered, (TRACED, "\ntrace 1 setrlimit")];
    let remedy = Some("sudo prlimit --fsize=unlimited --pid $$");
    check_soft(&limited, CauseKind::FileSizeLimit, "less than 1793 MiB (RLIMIT_FSIZE, `ulimit -f`)", remedy);
    check("prlimit64", none, "a seccomp filter forbids prlimit64", None);
    let absent = [filtered, none, (TRACED, "\ntrace 38 setrlimit")];
    check_soft(&absent, CauseKind::Seccomp, "a seccomp filter forbids setrlimit", None);
    let failed = [(TRACED, "\ntrace 22 setrlimit")];
    check_soft(&failed, CauseKind::NotInKernel, "setrlimit fails here (error 22)", None);
    let scope =
        [(CAPABLE, NOBODY), (TRACED, "\ntrace 1 memfd_create\nfile /proc/sys/kernel/yama/ptrace_scope 2")];
    check_soft(&scope, CauseKind::NoPermission, "refuses memfd_create (error 1)", None);
}

/// A process that another one traces.
const TRACER: &str = "\nfile /proc/71/comm strace\nfile /proc/self/status\n| TracerPid:\t71\n";

#[test]
fn a_tracer_that_takes_every_process_is_named() {
    let status = ("\nfile /proc/self/status\n", TRACER);
    let text = "strace (process 71) traces every process that starts here";
    check_soft(&[status, (TRACED, "\ntrace traced 71")], CauseKind::HeldByAnother, text, None);
    assert_eq!(soft(&[status]), (Works::Yes, None), "it does not follow what starts here");
}

#[test]
fn only_a_diagnosis_tries_tracing_in_a_process_that_is_traced() {
    let text = recording("vm-without-vpmu").replace("\nfile /proc/self/status\n", TRACER);
    let counted = format!("{text}counted software\n");
    let tried = |detect: fn(&dyn FactSource) -> Machine, text: &str| {
        let facts = RecordedFacts::parse(text).unwrap();
        let recorder = FactRecorder::new(&facts);
        let state = detect(&recorder).ladder.state(Rung::Soft).unwrap().clone();
        (recorder.to_text("recorded: a test").contains("\ntrace "), state.works)
    };
    assert_eq!(tried(detect, &text), (true, Works::Yes));
    assert_eq!(tried(detect_for_counting, &text), (false, Works::Yes));
    assert_eq!(tried(detect_for_regions, &text), (false, Works::Yes));
    assert_eq!(tried(detect, &counted), (false, Works::No));
    assert_eq!(tried(detect_for_counting, &counted), (false, Works::No));
    assert_eq!(tried(detect_for_regions, &counted), (false, Works::Yes), "it tells a program its own counts");
    assert_eq!(tried(detect_for_regions, &recording("vm-without-vpmu")), (false, Works::Yes));
}

#[test]
fn other_machines_are_told_apart_from_a_narrow_program() {
    let arm = changed("neoverse-n1", &[]);
    assert_eq!(arm.ladder.state(Rung::Soft).unwrap().works, Works::NotHere);
    assert_eq!(arm.ladder.state(Rung::Soft).unwrap().causes[0].text, "x86-64 only so far");
    let other = ("architecture x86_64", "architecture other");
    let narrow = ("\ntrace ok", "\nfile /proc/sys/kernel/arch x86_64");
    check_soft(&[other, narrow], CauseKind::OtherSystem, "32-bit program on a 64-bit kernel", None);
    assert_eq!(soft(&[other]).0, Works::NotHere);
}

#[test]
fn tracing_is_not_tried_for_a_session_that_has_a_pmu() {
    let untraceable = |name: &str| recording(name).replace(TRACED, "\ntrace 1");
    let counting = |name: &str| {
        let machine = detect_for_counting(&RecordedFacts::parse(&untraceable(name)).unwrap());
        machine.ladder.state(Rung::Soft).unwrap().works
    };
    assert_eq!(counting("zen2"), Works::Yes, "nobody asked");
    assert_eq!(counting("vm-without-vpmu"), Works::No, "there is no other way to count");
    let everything = detect(&RecordedFacts::parse(&untraceable("zen2")).unwrap());
    assert_eq!(everything.ladder.state(Rung::Soft).unwrap().works, Works::No);
}

#[test]
fn a_session_that_may_count_every_process_is_not_tried_with_one() {
    const OF_A_CPU: &str = "perf type=1 config=0x0 user=1 kernel=0 pid=-1 cpu=0 ok";
    let recorded = |detect: fn(&dyn FactSource) -> Machine, text: &str| {
        let facts = RecordedFacts::parse(text).unwrap();
        let recorder = FactRecorder::new(&facts);
        let ladder = detect(&recorder).ladder;
        let of_a_process = |line: &&str| line.starts_with("perf type=1 ") && line.contains(" pid=0 ");
        let asked = recorder.to_text("recorded: a test").lines().filter(of_a_process).count();
        (asked, (ladder.perf_software, ladder.perf_kernel_mode, ladder.perf_cpu_wide))
    };
    let text = recording("vm-without-vpmu");
    assert!(text.contains(OF_A_CPU));
    let (asked, everything) = recorded(detect, &text);
    assert_eq!(asked, 2, "user mode, and the kernel's: a diagnosis tries");
    assert_eq!(recorded(detect_for_counting, &text), (0, everything));
    let refused = text.replace(OF_A_CPU, &OF_A_CPU.replace("ok", "13"));
    assert_eq!(recorded(detect_for_counting, &refused), recorded(detect, &refused));
    assert_eq!(recorded(detect_for_counting, &refused).0, 2);
}

/// Lines to add to a recording of a machine whose registers can be written.
const MSR: &str = "\nlist /dev/cpu/0 msr\nfile /sys/kernel/security/lockdown [none] integrity confidentiality\n\
                   file /sys/module/msr/parameters/allow_writes default";

/// Whether registers can be written, and the kinds and remedies of what stands in the way.
fn msr(name: &str, changes: &[(&str, &str)]) -> (Works, Vec<(CauseKind, Option<String>)>) {
    let with_driver = [("\nos linux", &*format!("\nos linux{MSR}"))];
    let changes: Vec<(&str, &str)> = with_driver.into_iter().chain(changes.iter().copied()).collect();
    let machine = changed(name, &changes);
    let state = machine.ladder.state(Rung::Msr).unwrap();
    (state.works, state.causes.iter().map(|cause| (cause.kind, cause.mend.clone())).collect())
}

fn check_msr(name: &str, changes: &[(&str, &str)], kind: CauseKind, mend: Option<&str>) {
    let expected = (Works::No, vec![(kind, mend.map(str::to_owned))]);
    assert_eq!(msr(name, changes), expected, "{name} {changes:?}");
}

#[test]
fn registers_can_be_written_by_root_where_nothing_forbids_it() {
    for name in ["zen2", "alder-lake", "sapphire-rapids"] {
        assert_eq!(msr(name, &[]), (Works::Yes, vec![]), "{name}");
    }
}

#[test]
fn each_thing_that_keeps_registers_from_being_written_has_its_own_remedy() {
    let no_driver = ("list /dev/cpu/0 msr", "list /dev/cpu/0 cpuid");
    check_msr("zen2", &[no_driver], CauseKind::NotInKernel, Some("sudo modprobe msr"));
    let user = ("euid 0", "euid 1000");
    check_msr("zen2", &[user], CauseKind::NotRoot, Some("sudo cyclometer … --backend msr"));
    let bare = ("| CapEff:\t000001ffffffffff", "| CapEff:\t00000000a80425fb");
    check_msr("zen2", &[bare], CauseKind::NoPermission, None);
    let locked = ("lockdown [none] integrity", "lockdown none [integrity]");
    check_msr("zen2", &[locked], CauseKind::NoPermission, None);
    let off = ("allow_writes default", "allow_writes off");
    let allow = "echo on | sudo tee /sys/module/msr/parameters/allow_writes";
    check_msr("zen2", &[off], CauseKind::NoPermission, Some(allow));
    let watchdog = ("nmi_watchdog 0", "nmi_watchdog 1");
    check_msr("zen2", &[watchdog], CauseKind::NmiWatchdog, Some("sudo sysctl kernel.nmi_watchdog=0"));
    let (works, causes) = msr("zen2", &[no_driver, user, watchdog]);
    assert_eq!((works, causes.len()), (Works::No, 3), "{causes:?}");
}

#[test]
fn a_container_gets_its_devices_from_outside() {
    let (works, causes) = msr("docker-seccomp", &[]);
    let privileged = (CauseKind::NoPermission, Some("docker run --privileged …".to_owned()));
    assert_eq!((works, causes), (Works::No, vec![privileged]));
}

#[test]
fn in_a_virtual_machine_registers_may_be_there_and_writes_may_vanish() {
    let root = [("euid 1000", "euid 0"), ("| CapEff:\t0000000000000000", "| CapEff:\t000001ffffffffff")];
    assert_eq!(msr("kvm-filtered", &root), (Works::Yes, vec![(CauseKind::HypervisorFilter, None)]));
    let (works, causes) = msr("vm-without-vpmu", &[]);
    assert_eq!((works, causes.len(), causes[0].0), (Works::No, 1, CauseKind::NoVirtualPmu));
}

#[test]
fn other_machines_have_no_such_registers() {
    for name in ["neoverse-n1", "m1-asahi", "visionfive2"] {
        let machine = changed(name, &[]);
        assert_eq!(machine.ladder.state(Rung::Msr).unwrap().works, Works::NotHere, "{name}");
    }
    let other = ("0x756e6547 0x6c65746e 0x49656e69", "0x746e6543 0x736c7561 0x48727561");
    assert_eq!(msr("sapphire-rapids", &[other]).1[0].0, CauseKind::UnknownCpu);
}

const NO_MODULE: &str = "\nfile /proc/device-tree/compatible";
const MODULE: &str = "\nfile /sys/class/misc/apple_pmu_el0/dev 10:121\nfile /proc/device-tree/compatible";
const ROOT: [(&str, &str); 2] =
    [("euid 1000", "euid 0"), ("CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff")];

/// Whether Apple's registers can be had, and the only cause.
fn check_sysreg(
    name: &str,
    changes: &[(&str, &str)],
    works: Works,
    cause: Option<(CauseKind, &str, Option<&str>)>,
) {
    let machine = changed(name, changes);
    let state = machine.ladder.state(Rung::Sysreg).unwrap();
    assert_eq!(state.works, works, "{name} {changes:?}: {:?}", state.causes);
    let Some((kind, text, mend)) = cause else { return assert_eq!(state.causes, []) };
    let [found] = state.causes.as_slice() else { panic!("{name} {changes:?}: {:?}", state.causes) };
    assert_eq!((found.kind, found.mend.as_deref()), (kind, mend), "{name} {changes:?}");
    assert!(found.text.contains(text), "{name} {changes:?}: {}", found.text);
}

#[test]
fn apples_registers_under_linux_need_the_module_and_root() {
    let asahi = |more: &[(&str, &str)], works, cause| {
        let changes: Vec<_> = more.iter().copied().chain(ROOT).collect();
        check_sysreg("m1-asahi", &changes, works, cause);
    };
    let modprobe = Some("sudo modprobe apple_pmu_el0");
    asahi(&[], Works::No, Some((CauseKind::NotInKernel, "is not loaded", modprobe)));
    let loaded = (NO_MODULE, MODULE);
    asahi(&[loaded], Works::Yes, None);
    let held = ("\ncpus 8", "\ncpus 8\nsysreg ok");
    let fuser = Some("sudo fuser -v /dev/apple_pmu_el0");
    asahi(&[loaded, held], Works::No, Some((CauseKind::HeldByAnother, "another process", fuser)));
    let lockdown = |levels| format!("\nfile /sys/kernel/security/lockdown {levels}{MODULE}");
    let locked = lockdown("none [integrity] confidentiality");
    asahi(&[(NO_MODULE, &locked)], Works::No, Some((CauseKind::NoPermission, "locked down", None)));
    asahi(&[(NO_MODULE, &lockdown("[none] integrity confidentiality"))], Works::Yes, None);
    let user = Some((CauseKind::NotRoot, "CAP_SYS_RAWIO", Some("sudo cyclometer …")));
    check_sysreg("m1-asahi", &[loaded], Works::No, user);
    check_sysreg("m1-asahi", &[loaded, ROOT[0]], Works::No, user);
}

#[test]
fn apples_registers_under_macos_need_a_patched_kernel() {
    let patched = ("\ncpus 10", "\ncpus 10\nsysreg ok");
    check_sysreg("m4-macos", &[patched], Works::Yes, None);
    let closed = Some((CauseKind::NoUserAccess, "only a patched one", None));
    check_sysreg("m4-macos", &[], Works::No, closed);
    check_sysreg("m4-macos", &[("\ncpus 10", "\ncpus 10\nsysreg 95")], Works::No, closed);
}

/// How the accounts of macOS fare, and the causes.
fn selfcounts(changes: &[(&str, &str)]) -> (Works, Vec<(CauseKind, String, Option<String>)>) {
    let machine = changed("m4-macos", changes);
    let state = machine.ladder.state(Rung::SelfCounts).unwrap();
    (state.works, state.causes.iter().map(|c| (c.kind, c.text.clone(), c.mend.clone())).collect())
}

const ACCOUNTS: &str = "accounts process=cores thread=1 counts=1";

#[test]
fn macos_accounts_for_cycles_without_root_and_says_what_it_lacks() {
    let (works, causes) = selfcounts(&[]);
    assert_eq!((works, causes.len()), (Works::Yes, 1));
    assert_eq!((causes[0].0, causes[0].2.as_deref()), (CauseKind::NoModeFilter, None));
    assert!(causes[0].1.contains("user and kernel mode together, without child processes"), "{causes:?}");
    assert!(changed("m4-macos", &[]).ladder.perf_hardware.is_err());
}

#[test]
fn an_early_macos_lacks_accounts_and_is_to_be_updated() {
    let update = Some("softwareupdate --install --all".to_owned());
    let check = |accounts: &str, works, count, text: &str| {
        let (found, causes) = selfcounts(&[(ACCOUNTS, accounts)]);
        assert_eq!((found, causes.len()), (works, count), "{accounts}: {causes:?}");
        assert_eq!((causes[0].0, &causes[0].2), (CauseKind::NotInKernel, &update), "{accounts}");
        assert!(causes[0].1.contains(text), "{accounts}: {causes:?}");
    };
    check("accounts process=cores thread=0 counts=1", Works::Partly, 2, "before 12.4");
    check("accounts process=totals thread=1 counts=1", Works::Partly, 2, "before 13");
    check("accounts process=totals thread=0 counts=1", Works::Partly, 3, "before 12.4");
    check("accounts process=none thread=0 counts=0", Works::No, 1, "accounts for no cycles");
    check("", Works::No, 1, "accounts for no cycles");
}

#[test]
fn accounts_that_stay_zero_are_no_counts() {
    let zero = (ACCOUNTS, "accounts process=cores thread=1 counts=0");
    let (works, causes) = selfcounts(&[zero]);
    assert_eq!((works, causes[0].0), (Works::No, CauseKind::NoPmu));
    let (works, causes) = selfcounts(&[zero, ("hv_vmm_present 0", "hv_vmm_present 1")]);
    assert_eq!((works, causes[0].0), (Works::No, CauseKind::NoVirtualPmu), "{causes:?}");
    let elsewhere = changed("skylake", &[]);
    assert_eq!(elsewhere.ladder.state(Rung::SelfCounts).unwrap().works, Works::NotHere);
}

#[test]
fn apples_registers_are_no_guests_and_no_other_vendors() {
    let guest = [("hv_vmm_present 0", "hv_vmm_present 1"), ("\ncpus 10", "\ncpus 10\nsysreg ok")];
    let guest_cause = (CauseKind::NoVirtualPmu, "not passed on to virtual machines", None);
    check_sysreg("m4-macos", &guest, Works::No, Some(guest_cause));
    let elsewhere = Some((CauseKind::OtherSystem, "Apple's CPUs", None));
    for name in ["skylake", "neoverse-n1", "visionfive2"] {
        check_sysreg(name, &[], Works::NotHere, elsewhere);
    }
}

/// The state of kperf on the recorded Mac with changed facts, with its causes.
fn kperf(changes: &[(&str, &str)]) -> (Works, Vec<(CauseKind, String)>) {
    let machine = changed("m4-macos", changes);
    let state = machine.ladder.state(Rung::Kperf).unwrap();
    (state.works, state.causes.iter().map(|cause| (cause.kind, cause.text.clone())).collect())
}

#[test]
fn kperf_needs_root_and_says_how_to_get_it() {
    let machine = changed("m4-macos", &[]);
    let state = machine.ladder.state(Rung::Kperf).unwrap();
    let cause = &state.causes[0];
    assert_eq!((state.works, cause.kind), (Works::No, CauseKind::NotRoot));
    assert_eq!(cause.mend.as_deref(), Some("sudo cyclometer …"));
    assert_eq!(
        detect(&RecordedFacts::parse(&recording("skylake")).unwrap())
            .ladder
            .state(Rung::Kperf)
            .unwrap()
            .works,
        Works::NotHere
    );
}

#[test]
fn each_refusal_of_kperf_has_its_own_cause() {
    for (answer, works, kind, words) in [
        ("8 forced", Works::Yes, CauseKind::NoModeFilter, "user mode only since macOS 15"),
        ("5 forced", Works::Partly, CauseKind::HeldByAnother, "the power manager keeps PMC5 to PMC7"),
        ("5 shared", Works::Partly, CauseKind::HeldByAnother, "another program has requested all counters"),
        ("8 shared", Works::Partly, CauseKind::HeldByAnother, "another program has requested all counters"),
        ("0 forced", Works::No, CauseKind::NoPmu, "no configurable counters"),
        ("7 forced", Works::No, CauseKind::UnknownCpu, "offers 7 configurable counters"),
        ("1", Works::No, CauseKind::NoPermission, "refuses kperf even to root"),
        ("2", Works::No, CauseKind::NotInKernel, "no kperf framework"),
        ("16", Works::No, CauseKind::HeldByAnother, "Instruments"),
        ("22", Works::No, CauseKind::NoPermission, "error 22"),
    ] {
        let (found, causes) = kperf(&[("euid 501", &format!("euid 0\nkpc {answer}"))]);
        assert_eq!((found, causes[0].0), (works, kind), "{answer}: {causes:?}");
        assert!(causes[0].1.contains(words), "{answer}: {causes:?}");
    }
    let guest = [("euid 501", "euid 0"), ("kern.hv_vmm_present 0", "kern.hv_vmm_present 1")];
    assert_eq!(kperf(&guest).1[0].0, CauseKind::NoVirtualPmu);
    let old = kperf(&[("euid 501", "euid 0\nkpc 8 forced"), ("release 24.6.0", "release 23.6.0")]);
    assert_eq!(old, (Works::Yes, Vec::new()));
}

#[test]
fn counters_that_the_power_manager_keeps_are_none_of_the_machines() {
    let general = |answer: &str| {
        let machine = changed("m4-macos", &[("euid 501", &format!("euid 0\nkpc {answer}"))]);
        machine.core_types.iter().map(|core| core.pmu.counters.general_bits()).collect::<Vec<_>>()
    };
    assert_eq!(general("5 forced"), [0x31c, 0x31c]);
    assert_eq!(general("8 forced"), [0x3fc, 0x3fc]);
    assert_eq!(general("16"), [0x3fc, 0x3fc]);
}

#[test]
fn a_chip_of_no_table_has_the_counters_that_kperf_offers() {
    let unknown = ("hw.cpufamily 1867590060", "hw.cpufamily 305419896");
    let counters = |answer: &str| {
        let machine = changed("m4-macos", &[unknown, ("euid 501", &format!("euid 0\nkpc {answer}"))]);
        machine.core_types[0].pmu.counters.general_bits()
    };
    assert_eq!([counters("8 forced"), counters("5 forced"), counters("6 forced")], [0x3fc, 0x31c, 0]);
}
