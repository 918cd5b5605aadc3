//! The sequence of register accesses.

use cyclometer_arch::{Fault, Placed, PmuReg, ProgramOptions, Registers};
use cyclometer_backend::registers::{OverflowSource, WindowSetup, Windows};
use cyclometer_sim::{Concept, Happening, Model, Settings, SimMachine, ThreadId};

use crate::bench::{Events, fixed, freezing, machine, on, source};

/// Registers that record accesses to them.
struct Traced {
    machine: SimMachine,
    trace: Vec<String>,
}

impl Registers for Traced {
    fn read(&mut self, cpu: u32, register: PmuReg) -> Result<u64, Fault> {
        self.trace.push(format!("{register}?"));
        self.machine.read(cpu, register)
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> Result<(), Fault> {
        self.trace.push(format!("{register} = {value:#x}"));
        self.machine.write(cpu, register, value)
    }

    fn barrier(&mut self, cpu: u32) {
        self.trace.push("barrier".to_owned());
        self.machine.barrier(cpu);
    }
}

/// The accesses at the beginning, at the first switch to a thread, and at the first interrupt, with the
/// source's distance past its period there.
fn traces(
    model: &'static Model,
    placed: &[Placed],
    sources: &[OverflowSource],
    options: ProgramOptions,
) -> ([Vec<String>; 3], u64) {
    let (machine, _) = machine(model, Settings::default(), &["loop"]);
    let mut traced = Traced { machine, trace: Vec::new() };
    let setup = WindowSetup::new(&model.chip, placed, sources, options).unwrap();
    let mut windows: Windows<ThreadId> = Windows::of_all(setup);
    windows.begin(&mut traced, 0, None).unwrap();
    let begin = std::mem::take(&mut traced.trace);
    let Happening::Switch { cpu: 0, from, to } = traced.machine.next(1_000_000) else { panic!() };
    windows.on_switch(&mut traced, 0, from, to).unwrap();
    let enter = std::mem::take(&mut traced.trace);
    let Happening::Interrupt { cpu: 0, .. } = traced.machine.next(1_000_000) else { panic!() };
    let outcome = windows.on_interrupt(&mut traced, 0).unwrap();
    assert_eq!(outcome.rows.len(), 1);
    ([begin, enter, traced.trace], outcome.rows[0].fired[0].past)
}

fn writes(trace: &[String]) -> Vec<&str> {
    trace.iter().filter(|step| step.contains(" = ")).map(String::as_str).collect()
}

/// Fixed counter 0 interrupts every 512,000 instructions; fixed counters 1 and 2 and four events are read
/// with it.
fn seven_counters() -> Vec<Placed> {
    let chip = Model::find("skylake").unwrap().chip;
    let fixed = (0..3).map(|n| fixed(chip.family, n));
    let general = [(0xc5, 0x00), (0xc2, 0x01), (0xd0, 0x81), (0xd0, 0x82)];
    fixed.chain((0u8..).zip(general).map(|(n, (select, umask))| on(n, select, umask))).collect()
}

#[test]
fn windows_of_512000_instructions_on_the_first_fixed_counter() {
    let model = Model::find("skylake").unwrap();
    let ([begin, enter, interrupt], past) =
        traces(model, &seven_counters(), &[source(0, 512_000)], ProgramOptions::default());
    assert_eq!(
        writes(&begin),
        [
            "IA32_PERF_GLOBAL_CTRL = 0x0",
            "IA32_PERFEVTSEL0 = 0x4100c5",
            "IA32_PERFEVTSEL1 = 0x4101c2",
            "IA32_PERFEVTSEL2 = 0x4181d0",
            "IA32_PERFEVTSEL3 = 0x4182d0",
            // The interrupt of fixed counter 0 is bit 3; without a period it is 0x222.
            "IA32_FIXED_CTR_CTRL = 0x22a",
            "IA32_PERF_GLOBAL_STATUS_RESET = 0x70000000f",
            // -512,000 in 48 bits; no later write zeroes it.
            "IA32_FIXED_CTR0 = 0xfffffff83000",
            "IA32_FIXED_CTR1 = 0x0",
            "IA32_FIXED_CTR2 = 0x0",
            "IA32_PMC0 = 0x0",
            "IA32_PMC1 = 0x0",
            "IA32_PMC2 = 0x0",
            "IA32_PMC3 = 0x0",
        ]
    );
    assert_eq!(writes(&enter), ["IA32_FIXED_CTR0 = 0xfffffff83000", "IA32_PERF_GLOBAL_CTRL = 0x70000000f"]);
    // The next period is shorter by the instructions between the overflow and its interrupt.
    assert!((1..300).contains(&past), "{past}");
    let preset_again = format!("IA32_FIXED_CTR0 = {:#x}", 0xffff_fff8_3000u64 + past);
    let expected = [
        // First check that it is still ours, then stop it, and only then read.
        "IA32_PERF_GLOBAL_CTRL?",
        "IA32_PERF_GLOBAL_CTRL?",
        "IA32_PERF_GLOBAL_CTRL = 0x0",
        "barrier",
        "IA32_PERF_GLOBAL_STATUS?",
        "IA32_FIXED_CTR_CTRL?",
        "IA32_PERFEVTSEL0?",
        "IA32_PERFEVTSEL1?",
        "IA32_PERFEVTSEL2?",
        "IA32_PERFEVTSEL3?",
        "IA32_FIXED_CTR0?",
        "IA32_FIXED_CTR1?",
        "IA32_FIXED_CTR2?",
        "IA32_PMC0?",
        "IA32_PMC1?",
        "IA32_PMC2?",
        "IA32_PMC3?",
        preset_again.as_str(),
        "barrier",
        "IA32_FIXED_CTR0?",
        // Only the bit that was read.
        "IA32_PERF_GLOBAL_STATUS_RESET = 0x100000000",
        "barrier",
        "IA32_PERF_GLOBAL_CTRL?",
        "IA32_PERF_GLOBAL_CTRL = 0x70000000f",
        "barrier",
        "IA32_PERF_GLOBAL_CTRL?",
    ];
    assert_eq!(interrupt, expected);
}

#[test]
fn counting_without_a_period_does_not_let_the_fixed_counter_interrupt() {
    let model = Model::find("skylake").unwrap();
    let ([begin, enter, interrupt], _) =
        traces(model, &seven_counters(), &[source(3, 1_000)], ProgramOptions::default());
    assert!(writes(&begin).contains(&"IA32_FIXED_CTR_CTRL = 0x222"));
    assert!(writes(&begin).contains(&"IA32_PERFEVTSEL0 = 0x5100c5"));
    assert_eq!(writes(&enter), ["IA32_PMC0 = 0xfffffffffc18", "IA32_PERF_GLOBAL_CTRL = 0x70000000f"]);
    assert!(writes(&interrupt).contains(&"IA32_PERF_GLOBAL_STATUS_RESET = 0x1"));
    assert!(!writes(&interrupt).iter().any(|write| write.contains("FIXED")));
}

/// The writes at an interrupt. The first value of the source is replaced, as it depends on the skid.
fn handled(id: &str, options: ProgramOptions) -> Vec<String> {
    let model = Model::find(id).unwrap();
    let events = Events::general(model, &[Concept::Cycles, Concept::Branches]);
    let ([_, _, interrupt], _) = traces(model, &events.placed, &[source(0, 100_000)], options);
    let first_write = interrupt.iter().position(|step| step.contains(" = ")).unwrap();
    let counters = events.placed.iter().zip(0..).map(|(placed, n)| {
        let program = cyclometer_arch::register_program(&model.chip, &[*placed], options).unwrap();
        (program.reads[0].register.to_string(), n)
    });
    let mut handled = interrupt.clone();
    for (name, _) in counters {
        let read = interrupt.iter().position(|step| *step == format!("{name}?")).unwrap();
        assert!(read > first_write, "{id} reads {name} before it stops it");
        for step in &mut handled {
            if step.starts_with(&format!("{name} = ")) {
                *step = format!("{name} = preset");
            }
        }
    }
    handled.into_iter().filter(|step| step.contains(" = ")).collect()
}

#[test]
fn every_family_stops_first_then_presets_acknowledges_and_starts() {
    let plain = ProgramOptions::default();
    assert_eq!(
        handled("sapphirerapids", freezing(true)),
        [
            "IA32_PERF_GLOBAL_CTRL = 0x0",
            "IA32_PMC0 = preset",
            // This write also thaws the frozen counters.
            "IA32_PERF_GLOBAL_STATUS_RESET = 0x800000000000001",
            "IA32_PERF_GLOBAL_CTRL = 0x3",
        ]
    );
    assert_eq!(
        handled("amdzen2", plain),
        [
            "PERF_CTL0 = 0x110076",
            "PERF_CTL1 = 0x100c2",
            "PERF_CTR0 = preset",
            "PERF_CTL0 = 0x510076",
            "PERF_CTL1 = 0x4100c2",
        ]
    );
    assert_eq!(
        handled("amdzen4", plain),
        [
            "PERF_CNTR_GLOBAL_CTL = 0x0",
            "PERF_CTR0 = preset",
            "PERF_CNTR_GLOBAL_STATUS_CLR = 0x1",
            "PERF_CNTR_GLOBAL_CTL = 0x3",
        ]
    );
    assert_eq!(
        handled("apple-m1", freezing(true)),
        // Counter 2 counts, interrupts as a FIQ and stops all; counter 5 counts; bit 11 is the interrupt
        // itself.
        ["PMCR0 = 0x100c00", "PMC2 = preset", "PMCR0 = 0x100400", "PMCR0 = 0x104424"]
    );
    assert_eq!(
        handled("neoverse-n1", plain),
        ["PMCNTENCLR_EL0 = 0x3", "PMEVCNTR0_EL0 = preset", "PMOVSCLR_EL0 = 0x1", "PMCNTENSET_EL0 = 0x3"]
    );
}
