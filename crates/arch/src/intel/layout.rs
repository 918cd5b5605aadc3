//! Fields of Intel's registers and of perf's words.

use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::pmu::ConfigWord;

use crate::chip::Chip;
use crate::field::{FieldSpec, each_counter, set_bits};
use crate::intel::{ALL_COUNTERS, Register, shared};
use crate::x86::{
    self, CMASK_FIELD, EN_FIELD, INT_FIELD, INV_FIELD, NOT_PERFS, OS_FIELD, UMASK_FIELD, USR_FIELD,
};

const EVENT: FieldSpec = FieldSpec::bits(0, 7, "EVENT", "event select").always();
const E: FieldSpec = FieldSpec::bit(18, "E", "counts rising edges");
const PC: FieldSpec = FieldSpec::bit(19, "PC", "pin control: toggles a pin; reserved on newer cores");
const ANY: FieldSpec = FieldSpec::bit(21, "ANY", "counts for all threads of the core").since(3).until(4);
const IN_TX: FieldSpec = FieldSpec::bit(32, "IN_TX", "counts inside of transactions only").needing(TSX);
const IN_TXCP: FieldSpec =
    FieldSpec::bit(33, "IN_TXCP", "leaves out what aborted transactions counted; on counter 2").needing(TSX);
const EQ: FieldSpec = FieldSpec::bit(36, "EQ", "compares with CMASK for equality").since(6).by(PERF_EVENT);
const UMASK2: FieldSpec = FieldSpec::bits(40, 47, "UMASK2", "second unit mask").since(6).by(PERF_EVENT);

const TSX: &str = "TSX";
const PERF_EVENT: &str = "Linux arch/x86/include/asm/perf_event.h";
/// How SDM volume 4 tells that a chip has PERF_METRICS.
const HAS_METRICS: &str = "IA32_PERF_CAPABILITIES bit 15";

const PERFEVTSEL: &[FieldSpec] = &[
    EVENT,
    UMASK_FIELD,
    USR_FIELD,
    OS_FIELD,
    E,
    PC,
    INT_FIELD,
    ANY,
    EN_FIELD,
    INV_FIELD,
    CMASK_FIELD,
    IN_TX,
    IN_TXCP,
    FieldSpec::bit(34, "ADAPTIVE", "PEBS records of this counter are adaptive").since(5).by(PERF_EVENT),
    FieldSpec::bit(35, "BR_CNTR", "branch records hold what this counter counted").since(5).by(PERF_EVENT),
    EQ,
    FieldSpec::bit(37, "RDPMC_USR_DISABLE", "rdpmc in user mode reads 0").since(6).by(PERF_EVENT),
    UMASK2,
];

/// perf's raw config, without the bits of PERFEVTSEL that the kernel does not take from there.
const PERF: &[FieldSpec] =
    &[EVENT, UMASK_FIELD, E, PC, ANY, INV_FIELD, CMASK_FIELD, IN_TX, IN_TXCP, EQ, UMASK2];

/// The fields that a register has on any version; those that others have are left out elsewhere.
pub(crate) fn register(chip: &Chip, register: Register) -> Vec<FieldSpec> {
    match register {
        Register::EventSelect(_) | Register::V6EventSelect(_) => PERFEVTSEL.to_vec(),
        Register::FixedControl => fixed_control(chip),
        Register::GlobalControl => global_control(chip),
        Register::GlobalStatus | Register::GlobalStatusReset | Register::GlobalStatusSet => {
            global_status(chip)
        }
        Register::GlobalInUse => global_in_use(chip),
        Register::Metrics => METRICS.to_vec(),
        Register::Capabilities => CAPABILITIES.to_vec(),
        Register::PebsEnable => pebs_enable(chip),
        Register::DebugControl => [&x86::DEBUG_CONTROL[..], DEBUG_CONTROL].concat(),
        Register::Extra(kind) => vec![extra(kind)],
        Register::Counter(_)
        | Register::FullWidthCounter(_)
        | Register::FixedCounter(_)
        | Register::V6Counter(_)
        | Register::V6FixedCounter(_) => vec![FieldSpec::count(chip.counter_width)],
        Register::V6Reload(_) | Register::V6FixedReload(_) => reload_mask(chip),
        Register::V6Pebs(_) | Register::V6FixedPebs(_) => PEBS_CONFIG.to_vec(),
    }
}

/// Whether counters can count for all threads of a core: from version 3 on, until it was taken away with
/// version 5.
///
/// # Source
///
/// Intel SDM volume 3, "Architectural Performance Monitoring Version 3"; volume 2, CPUID leaf 0AH, EDX bit 15
/// (AnyThread deprecation), which the cores of version 5 set.
pub(crate) const fn has_any(chip: &Chip) -> bool {
    ANY.presence.is_on(chip.pmu_version)
}

pub(crate) fn perf(word: ConfigWord) -> Vec<FieldSpec> {
    match word {
        ConfigWord::Config => [PERF, &NOT_PERFS].concat(),
        ConfigWord::Config1 => vec![FieldSpec::bits(
            0,
            63,
            "EXTRA",
            "value of the event's extra register: offcore_rsp, ldlat, frontend or snoop_rsp",
        )],
        ConfigWord::Config2 => {
            vec![FieldSpec::bits(0, 63, "ACR_MASK", "counters whose overflow reloads this one")]
        }
    }
}

/// The index that `rdpmc` takes in ECX.
pub(crate) const RDPMC: &[FieldSpec] = &[
    FieldSpec::bits(0, 15, "INDEX", "the counter's number among those of its type").always(),
    FieldSpec::bits(16, 31, "TYPE", "type of counter; other values are none").always().with_values(&[
        (0, "general counter"),
        (0x4000, "fixed counter"),
        (0x2000, "PERF_METRICS"),
    ]),
];

/// The bits of a fixed counter, as those of counter 0, and by how much they are shifted.
const FIXED: &[FieldSpec] = &[
    FieldSpec::bit(0, "OS_FIXED", "the fixed counter counts in the kernel"),
    FieldSpec::bit(1, "USR_FIXED", "the fixed counter counts in user mode"),
    FieldSpec::bit(2, "ANY_FIXED", "the fixed counter counts for all threads of the core").since(3).until(4),
    FieldSpec::bit(3, "PMI_FIXED", "an overflow of it raises an interrupt"),
    FieldSpec::bit(32, "ADAPTIVE_FIXED", "PEBS records of it are adaptive").since(5).by(PERF_EVENT),
    FieldSpec::bit(33, "RDPMC_USR_DISABLE_FIXED", "rdpmc in user mode reads 0").since(6).by(PERF_EVENT),
];

const METRICS_CLEAR: FieldSpec = FieldSpec::bit(2, "METRICS_CLEAR_FIXED", "reading PERF_METRICS clears it")
    .since(5)
    .needing("IA32_PERF_CAPABILITIES bit 19")
    .by(PERF_EVENT);

fn fixed_control(chip: &Chip) -> Vec<FieldSpec> {
    let fixed = chip.counters_or(ALL_COUNTERS).fixed_bits() & 0xff;
    let of = |n: u8| {
        let own = (n == crate::intel::SLOTS).then_some(METRICS_CLEAR);
        let all = FIXED.iter().copied().chain(own);
        all.map(move |field| field.of(n.into(), field.low + 4 * n))
    };
    set_bits(fixed).flat_map(of).collect()
}

/// One bit for each counter: general ones from bit 0, fixed ones from bit 32.
fn per_counter(chip: &Chip, general: FieldSpec, fixed: FieldSpec) -> Vec<FieldSpec> {
    let counters = chip.counters_or(ALL_COUNTERS);
    let mut fields = each_counter(counters.general_bits() & 0xffff_ffff, general, 0);
    fields.extend(each_counter(counters.fixed_bits() & 0xffff, fixed, 32));
    fields
}

/// The same with the bits of counters that exist with Hyper-Threading off only.
fn per_thread(chip: &Chip, general: FieldSpec, fixed: FieldSpec) -> Vec<FieldSpec> {
    let mut fields = per_counter(chip, general, fixed);
    fields.extend(shared::fields(chip, general));
    fields
}

fn global_control(chip: &Chip) -> Vec<FieldSpec> {
    let mut fields = per_thread(
        chip,
        FieldSpec::bit(0, "EN_PMC", "the counter may count, if its event select enables it too"),
        FieldSpec::bit(0, "EN_FIXED_CTR", "the fixed counter may count, in the modes of FIXED_CTR_CTRL"),
    );
    fields.push(
        FieldSpec::bit(48, "EN_PERF_METRICS", "PERF_METRICS count")
            .since(5)
            .needing(HAS_METRICS)
            .by("Linux arch/x86/include/asm/perf_event.h, GLOBAL_CTRL_EN_PERF_METRICS"),
    );
    fields
}

fn global_status(chip: &Chip) -> Vec<FieldSpec> {
    let mut fields = per_thread(
        chip,
        FieldSpec::bit(0, "OVF_PMC", "the counter overflowed"),
        FieldSpec::bit(0, "OVF_FIXED_CTR", "the fixed counter overflowed"),
    );
    fields.extend_from_slice(STATUS);
    fields
}

const STATUS: &[FieldSpec] = &[
    FieldSpec::bit(48, "OVF_PERF_METRICS", "PERF_METRICS overflowed").since(5).needing(HAS_METRICS),
    FieldSpec::bit(54, "ARCH_PEBS", "the buffer of PEBS records reached its threshold")
        .since(6)
        .by("Linux arch/x86/include/asm/perf_event.h, GLOBAL_STATUS_ARCH_PEBS_THRESHOLD_BIT"),
    FieldSpec::bit(55, "TRACE_TOPA_PMI", "a region of the trace buffer is full").needing("Processor Trace"),
    FieldSpec::bit(58, "LBR_FRZ", "branch records are frozen").since(4),
    FieldSpec::bit(59, "CTR_FRZ", "counters are frozen").since(4),
    FieldSpec::bit(60, "ASCI", "an enclave may have changed the counts").needing("SGX"),
    FieldSpec::bit(61, "OVF_UNCORE", "an uncore counter overflowed").since(3),
    FieldSpec::bit(62, "OVF_DS_BUFFER", "the debug store buffer overflowed"),
    FieldSpec::bit(63, "COND_CHGD", "the state of the PMU changed"),
];

fn global_in_use(chip: &Chip) -> Vec<FieldSpec> {
    let mut fields = per_thread(
        chip,
        FieldSpec::bit(0, "PERFEVTSEL_IN_USE", "the event select is not 0: somebody uses the counter"),
        FieldSpec::bit(0, "FIXED_CTR_IN_USE", "somebody uses the fixed counter"),
    );
    fields.push(FieldSpec::bit(63, "PMI_IN_USE", "some counter is set up to interrupt"));
    fields
}

fn pebs_enable(chip: &Chip) -> Vec<FieldSpec> {
    let mut fields = per_counter(
        chip,
        FieldSpec::bit(0, "PEBS_EN_PMC", "the counter's overflows make PEBS records"),
        FieldSpec::bit(0, "PEBS_EN_FIXED", "the fixed counter's overflows make PEBS records").since(5),
    );
    let latency = FieldSpec::bit(0, "LL_EN_PMC", "records of the counter hold load latencies").until(4);
    fields.extend(each_counter(0xf, latency, 32));
    fields.push(
        FieldSpec::bit(63, "PS_EN", "records are those of precise stores")
            .needing("Sandy Bridge, Ivy Bridge"),
    );
    fields
}

/// Which counters' overflows reload a counter.
fn reload_mask(chip: &Chip) -> Vec<FieldSpec> {
    per_counter(
        chip,
        FieldSpec::bit(0, "RELOAD_BY_PMC", "an overflow of the other counter reloads this one"),
        FieldSpec::bit(0, "RELOAD_BY_FIXED", "an overflow of the fixed counter reloads this one"),
    )
}

const PEBS_CONFIG: &[FieldSpec] = &[
    FieldSpec::bits(0, 31, "RELOAD", "the lower half of what the counter is reloaded with"),
    FieldSpec::bits(40, 41, "LBR", "PEBS records of the counter hold branch records"),
    FieldSpec::bit(49, "XMM", "PEBS records of the counter hold the XMM registers"),
    FieldSpec::bit(61, "GPR", "PEBS records of the counter hold the general registers"),
    FieldSpec::bit(62, "AUX", "PEBS records of the counter hold address, latency and transaction"),
    FieldSpec::bit(63, "EN", "overflows of the counter make PEBS records"),
];

const fn share(n: u8, name: &'static str, meaning: &'static str) -> FieldSpec {
    FieldSpec::bits(8 * n, 8 * n + 7, name, meaning)
}

/// Which cores have the second level of the top-down method in PERF_METRICS; Ice Lake has the first only.
const LEVEL_2: &str = "P-cores from Golden Cove on";

const METRICS: &[FieldSpec] = &[
    share(0, "RETIRING", "share of slots, of 255: retiring"),
    share(1, "BAD_SPECULATION", "share of slots, of 255: bad speculation"),
    share(2, "FRONTEND_BOUND", "share of slots, of 255: front end"),
    share(3, "BACKEND_BOUND", "share of slots, of 255: back end"),
    share(4, "HEAVY_OPERATIONS", "share of slots, of 255: heavy operations (of retiring)").needing(LEVEL_2),
    share(5, "BRANCH_MISPREDICTS", "share of slots, of 255: mispredicted branches (of bad speculation)")
        .needing(LEVEL_2),
    share(6, "FETCH_LATENCY", "share of slots, of 255: fetch latency (of front end)").needing(LEVEL_2),
    share(7, "MEMORY_BOUND", "share of slots, of 255: memory (of back end)").needing(LEVEL_2),
];

const CAPABILITIES: &[FieldSpec] = &[
    FieldSpec::bits(0, 5, "LBR_FMT", "format of branch records").always(),
    FieldSpec::bit(6, "PEBS_TRAP", "PEBS records come after the instruction (trap), not before"),
    FieldSpec::bit(7, "PEBS_ARCH_REG", "PEBS records hold the architectural registers"),
    FieldSpec::bits(8, 11, "PEBS_REC_FMT", "format of PEBS records").always(),
    FieldSpec::bit(12, "SMM_FREEZE", "counters can be frozen in system management mode"),
    FieldSpec::bit(13, "FW_WRITE", "counters can be written in full width, through IA32_A_PMCn"),
    FieldSpec::bit(14, "PEBS_BASELINE", "PEBS has the baseline features: every counter, adaptive records"),
    FieldSpec::bit(15, "PERF_METRICS", "IA32_PERF_METRICS is there"),
    FieldSpec::bit(16, "PEBS_OUTPUT_PT", "PEBS records can go to the processor trace"),
    FieldSpec::bit(17, "PEBS_TIMING_INFO", "PEBS records hold the retire latency"),
    FieldSpec::bit(19, "RDPMC_METRICS_CLEAR", "reading PERF_METRICS can clear it"),
];

const DEBUG_CONTROL: &[FieldSpec] = &[
    FieldSpec::bit(6, "TR", "branch trace messages are sent"),
    FieldSpec::bit(7, "BTS", "branch trace messages are stored"),
    FieldSpec::bit(8, "BTINT", "a full buffer of branch traces interrupts"),
    FieldSpec::bit(9, "BTS_OFF_OS", "no branch traces of the kernel"),
    FieldSpec::bit(10, "BTS_OFF_USR", "no branch traces of user mode"),
    FieldSpec::bit(11, "FREEZE_LBRS_ON_PMI", "an interrupt of the PMU freezes branch records"),
    FieldSpec::bit(12, "FREEZE_PERFMON_ON_PMI", "an interrupt of the PMU freezes the counters"),
    FieldSpec::bit(13, "ENABLE_UNCORE_PMI", "uncore counters may interrupt"),
    FieldSpec::bit(14, "FREEZE_WHILE_SMM", "counters are frozen in system management mode"),
    FieldSpec::bit(15, "RTM_DEBUG", "debugging of transactions"),
];

/// The whole value of an extra register.
pub(crate) const fn extra(kind: ExtraRegisterKind) -> FieldSpec {
    match kind {
        ExtraRegisterKind::LoadLatency => {
            FieldSpec::bits(0, 15, "LD_LAT", "loads count from this latency on, in cycles")
        }
        ExtraRegisterKind::Frontend => {
            FieldSpec::bits(0, 23, "FRONTEND", "which front-end event, its latency and bubble width")
        }
        ExtraRegisterKind::SnoopResponse0 | ExtraRegisterKind::SnoopResponse1 => {
            FieldSpec::bits(0, 63, "SNOOP_RSP", "which snoop responses count; bits as the core defines")
        }
        _ => FieldSpec::bits(
            0,
            63,
            "OFFCORE_RSP",
            "which requests and responses count; bits as the core defines",
        ),
    }
}
