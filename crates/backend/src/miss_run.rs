//! The run of a command for the model of its caches: under translation, step by step where that is
//! impossible, or natively with stepped windows.

use std::time::{Duration, Instant};

use cyclometer_core::cache_geometry::{CacheGeometry, HierarchyGeometry};
use cyclometer_core::code::{CodeCounts, CodePlace};
use cyclometer_core::exec::{CommandSpec, ExitStatus, Waited};
use cyclometer_core::tlb_geometry::{TlbGeometry, TlbHierarchy};
use cyclometer_core::{Child, Result, SlotId};
use cyclometer_soft::host::stepped_windows::{
    EveryStep, MissObserver, SiteMisses, WindowLimits, WindowStepper,
};
use cyclometer_soft::model::misses::{BoundedMisses, CacheSize, MissCounts, ModelSizes, TlbSizes};

use crate::Launcher;
use crate::launch::NativeChild;
use crate::miss_counts::{MissRun, MissRunKind, MissSums, WindowMisses};
use crate::modelled_run::{cannot_trace, object_of};
use crate::soft::ModelledCommand;

/// Runs a command, and gives what it executes to a model of its caches.
///
/// # Errors
///
/// `ErrorKind::PermissionDenied` where tracing is not permitted, and the launcher's for a command that cannot
/// be executed. In the first case, the command was not executed, or has run to its end.
pub fn miss_run(
    launcher: &Launcher,
    command: &CommandSpec,
    geometry: &HierarchyGeometry,
    kind: MissRunKind,
) -> Result<MissRun> {
    let sizes = ModelSizes {
        caches: [geometry.l1i, geometry.l1d, geometry.ll].map(size),
        tlbs: geometry.tlbs.as_ref().map(tlb_sizes),
    };
    let values = MissSums::value_count(geometry.tlbs.is_some());
    let start = Instant::now();
    if kind == MissRunKind::Full
        && let Some(modelled) = ModelledCommand::prepare(launcher, command, sizes)?
    {
        return translated(modelled, values).map(|run| MissRun { wall: start.elapsed(), ..run });
    }
    let mut child = launcher.child(command, None)?;
    let observer = MissObserver::new(sizes);
    let run = match kind {
        MissRunKind::Full => every_step(launcher, &mut child, observer, values),
        MissRunKind::Windows { steps, time, gap } => {
            windows(&mut child, observer, WindowLimits { steps, time }, gap)
        }
    };
    if run.is_err() {
        // The command runs to its end, even after an error of the tracer.
        let _ = child.wait(None)?;
    }
    run.map(|run| MissRun { wall: start.elapsed(), ..run })
}

fn size(geometry: CacheGeometry) -> CacheSize {
    CacheSize {
        sets: geometry.sets(),
        ways: usize::try_from(geometry.ways).unwrap_or(1),
        line_bytes: geometry.line_bytes,
    }
}

fn tlb_sizes(geometry: &TlbHierarchy) -> TlbSizes {
    let ways = |tlb: TlbGeometry| usize::try_from(tlb.ways).unwrap_or(1);
    let first = |tlb: TlbGeometry, page_bytes| CacheSize {
        sets: tlb.sets(),
        ways: ways(tlb),
        line_bytes: page_bytes,
    };
    TlbSizes {
        itlb: first(geometry.itlb, geometry.code_page_bytes),
        dtlb: first(geometry.dtlb, geometry.data_page_bytes),
        second_sets: geometry.stlb.sets(),
        second_ways: ways(geometry.stlb),
    }
}

/// A command that is translated, whose logs are replayed. Each instruction has so many values.
fn translated(mut modelled: ModelledCommand, values: usize) -> Result<MissRun> {
    modelled.child().release()?;
    let mut interrupted = None;
    let exit = loop {
        match modelled.child().wait(None)? {
            Waited::Exited(exit) => break exit.status,
            Waited::TimedOut => {}
            Waited::Interrupted(by) => {
                if !by.reached_command {
                    modelled.child().signal(by.signal);
                }
                // A command that continues all the same is modelled to its end. The tracer gets no request to
                // finish before: it would wait for a reader of its report, and not release the command.
                interrupted.get_or_insert(by.signal);
            }
        }
    };
    modelled.finish();
    let (places, left) = modelled.counts(exit)?;
    let sites: Vec<SiteMisses> =
        places.into_iter().map(|(path, offset, counts)| site(path, offset, counts)).collect();
    let mut all = MissCounts::default();
    sites.iter().for_each(|site| all.add(&site.counts));
    let window = WindowMisses { sums: sums(&all), native: Duration::ZERO };
    let windows = if all.instructions > 0 { vec![window] } else { Vec::new() };
    Ok(MissRun { exit, interrupted, wall: Duration::ZERO, windows, code: by_code(&sites, values), left })
}

/// The counts of an instruction of a translated program: its caches were empty at first, so all misses are
/// known.
fn site(path: Option<String>, offset: u64, counts: [u64; 10]) -> SiteMisses {
    let known = |known| BoundedMisses { known, unknown: 0 };
    let [instructions, data_references, l1i, l1d, ll, branches, mispredictions, itlb, dtlb, stlb] = counts;
    let counts = MissCounts {
        instructions,
        data_references,
        l1i: known(l1i),
        l1d: known(l1d),
        ll: known(ll),
        branches,
        mispredictions: known(mispredictions),
        itlb: known(itlb),
        dtlb: known(dtlb),
        stlb: known(stlb),
    };
    SiteMisses { path, offset, counts }
}

fn every_step(
    launcher: &Launcher,
    child: &mut NativeChild,
    observer: MissObserver,
    values: usize,
) -> Result<MissRun> {
    let traced = EveryStep::of(child.process(), observer);
    child.release()?;
    let mut traced = traced.map_err(|error| cannot_trace(&error))?;
    let mut interrupted = None;
    traced.run(|| {
        interrupted = launcher.take_signal();
        interrupted.is_some()
    });
    // A terminal sends these two to the command, too.
    if let Some(signal) = interrupted.filter(|signal| ![SIGINT, SIGQUIT].contains(signal)) {
        child.signal(signal);
    }
    let (exit, signal) = ended(child)?;
    let sums = traced.observer().windows().iter().map(sums);
    let windows = sums.map(|sums| WindowMisses { sums, native: Duration::ZERO }).collect();
    Ok(MissRun {
        exit,
        interrupted: interrupted.or(signal),
        wall: Duration::ZERO,
        windows,
        code: by_code(traced.observer().sites(), values),
        left: traced.left().map(str::to_owned),
    })
}

/// Signals that a terminal sends to all processes of a group.
///
/// # Source
///
/// `signal(7)`, the numbers on x86-64.
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;

/// Waits for the end of a command, and passes signals on. Returns the end, and the first signal.
fn ended(child: &mut dyn Child) -> Result<(Option<ExitStatus>, Option<i32>)> {
    let mut first = None;
    loop {
        match child.wait(None)? {
            Waited::Exited(exit) => return Ok((exit.status, first)),
            Waited::TimedOut => {}
            Waited::Interrupted(by) => {
                if !by.reached_command {
                    child.signal(by.signal);
                }
                first.get_or_insert(by.signal);
            }
        }
    }
}

/// The time before the first window. Gaps grow by half.
const FIRST_GAP: Duration = Duration::from_millis(1);

fn windows(
    child: &mut NativeChild,
    observer: MissObserver,
    limits: WindowLimits,
    longest_gap: Duration,
) -> Result<MissRun> {
    let mut stepper = WindowStepper::new(child.process()).with_misses(observer);
    child.release()?;
    let (mut native, mut gap) = (Vec::new(), FIRST_GAP.min(longest_gap));
    let (exit, interrupted) = loop {
        match child.wait(Some(Instant::now() + gap))? {
            Waited::Exited(exit) => break (exit.status, None),
            Waited::Interrupted(by) => {
                if !by.reached_command {
                    child.signal(by.signal);
                }
                let (exit, _) = ended(child)?;
                break (exit, Some(by.signal));
            }
            Waited::TimedOut => {}
        }
        let begin = Instant::now();
        stepper.window(limits).map_err(|error| cannot_trace(&error))?;
        // A process that has just ended has no window.
        let begun = stepper.misses().map_or(0, |misses| misses.windows().len());
        native.resize(begun, gap);
        // The command runs natively for two thirds of the time at least.
        gap = (gap * 3 / 2).min(longest_gap).max(2 * begin.elapsed());
    };
    let seen = stepper.misses().map(MissObserver::windows).unwrap_or_default();
    let windows = seen.iter().zip(native).map(|(counts, native)| WindowMisses { sums: sums(counts), native });
    Ok(MissRun {
        exit,
        interrupted,
        wall: Duration::ZERO,
        windows: windows.filter(|window| window.sums.instructions > 0).collect(),
        code: CodeCounts::default(),
        left: None,
    })
}

fn sums(counts: &MissCounts) -> MissSums {
    let MissCounts { l1i, l1d, ll, mispredictions, itlb, dtlb, stlb, .. } = *counts;
    let misses = [l1i, l1d, ll, mispredictions, itlb, dtlb, stlb];
    MissSums {
        instructions: counts.instructions,
        data_references: counts.data_references,
        branches: counts.branches,
        known: misses.map(|misses| misses.known),
        unknown: misses.map(|misses| misses.unknown),
    }
}

fn by_code(sites: &[SiteMisses], values: usize) -> CodeCounts {
    let mut sites: Vec<&SiteMisses> = sites.iter().collect();
    sites.sort_by(|one, other| (&one.path, one.offset).cmp(&(&other.path, other.offset)));
    let mut code = CodeCounts { slots: (0..values).map(SlotId).collect(), ..CodeCounts::default() };
    for site in sites {
        let object = site.path.as_deref().map(|path| object_of(&mut code.objects, path));
        let counts = sums(&site.counts).values()[..values].into();
        code.places.push(CodePlace { object, offset: site.offset, owner: None, counts });
    }
    code
}
