use super::*;

/// A small generator of numbers.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn load(address: u64) -> MemoryAccess {
    MemoryAccess { address, bytes: 8, writes: false, is_element: true }
}

fn run(model: &mut CoreModel, thread: u32, pc: u64, accesses: &[MemoryAccess]) {
    model.execute(&ExecutedInstruction { thread, pc, accesses, branch: None });
}

fn totals(model: &mut CoreModel) -> ModelCounts {
    model.end_window();
    let mut all = ModelCounts::default();
    model.take_sites().values().for_each(|counts| all.add(counts));
    all
}

#[test]
fn each_page_is_touched_once_in_a_window_and_again_in_the_next() {
    let mut model = CoreModel::default();
    let mut touched = || {
        (0..100).for_each(|n| run(&mut model, 0, 1, &[load(n * 1024)]));
        totals(&mut model).page_touches
    };
    assert_eq!([touched(), touched()], [25, 25]);
    assert_eq!(model.footprint_bytes(), 25 * 4096);
}

/// Bursts of windows of 400 accesses, whose addresses are functions of their number.
fn bursts(mut address: impl FnMut(u64) -> u64) -> (ModelCounts, MissBounds) {
    let mut model = CoreModel::default();
    for window in 0..40 {
        (0..400).for_each(|n| run(&mut model, 0, 1, &[load(address(window * 400 + n))]));
        model.end_window();
        if window % 8 == 7 {
            model.end_burst();
        }
    }
    let bounds = model.miss_bounds();
    (totals(&mut model), bounds)
}

#[test]
fn a_walk_in_random_order_misses_and_one_in_order_does_not() {
    let mut state = 1;
    let (ordered, none) = bursts(|n| n * 8);
    let (random_order, most) = bursts(|_| random(&mut state) % (1 << 28));
    assert!(ordered.irregular_touches < 10 && none.misses < 10.0, "{ordered:?} {none:?}");
    assert!(ordered.unit_stride_loads > 15_900, "{ordered:?}");
    assert!(random_order.irregular_touches > 15_800 && most.misses > 8_000.0, "{most:?}");
    assert!(most.misses <= most.touches as f64);
    assert_eq!(random_order.unit_stride_loads, 0);
}

#[test]
fn first_touches_of_a_working_set_that_fits_are_no_misses_whatever_its_order() {
    let mut state = 1;
    let (_, by_chance) = bursts(|_| random(&mut state) % (512 << 10));
    assert!(by_chance.touches > 10_000 && by_chance.misses == 0.0, "{by_chance:?}");
    let mut start = 0;
    let (_, in_order) = bursts(|n| {
        start = if n % 400 == 0 { random(&mut state) } else { start };
        (start + n % 400) * 577 % 8_000 * 64
    });
    assert_eq!(in_order.misses, 0.0, "{in_order:?}");
}

#[test]
fn lines_that_were_evicted_in_a_window_are_misses() {
    let mut model = CoreModel::default();
    for n in 0..60_000 {
        run(&mut model, 0, 1, &[load(n * 7_919 % 30_000 * 64)]);
    }
    let bounds = model.miss_bounds();
    assert!(bounds.misses > 20_000.0 && bounds.misses < 31_000.0, "{bounds:?}");
}

#[test]
fn long_strides_are_irregular_and_short_ones_are_foreseen() {
    let touches = |stride: u64| bursts(|n| n * stride).0.irregular_touches;
    assert!(touches(8_192) > 15_800);
    assert!(touches(256) < 100);
}

#[test]
fn a_pattern_is_learnt_and_a_coin_is_not() {
    let mispredictions = |mut outcome: Box<dyn FnMut(u64) -> bool>| {
        let mut model = CoreModel::default();
        for n in 0..4_000 {
            let branch = Some(BranchOutcome::Conditional { taken: outcome(n) });
            model.execute(&ExecutedInstruction { thread: 0, pc: 1, accesses: &[], branch });
        }
        totals(&mut model).mispredictions
    };
    let mut state = 3;
    assert!(mispredictions(Box::new(|n| n % 2 == 0)) < 20);
    assert!(mispredictions(Box::new(|n| n % 7 < 3)) < 60);
    assert!(mispredictions(Box::new(|n| n % 100 != 0)) < 100);
    assert!(mispredictions(Box::new(move |_| random(&mut state).is_multiple_of(2))) > 1_500);
}

#[test]
fn indirect_branches_with_one_target_are_predicted_and_random_targets_are_not() {
    let mispredictions = |mut target: Box<dyn FnMut() -> u64>| {
        let mut model = CoreModel::default();
        for _ in 0..4_000 {
            let branch = Some(BranchOutcome::Indirect { target: target() });
            model.execute(&ExecutedInstruction { thread: 0, pc: 1, accesses: &[], branch });
        }
        totals(&mut model).mispredictions
    };
    let mut state = 5;
    assert_eq!(mispredictions(Box::new(|| 0x1000)), 0);
    assert!(mispredictions(Box::new(move || 0x1000 + random(&mut state) % 8 * 0x40)) > 2_500);
}

#[test]
fn words_of_one_line_are_false_sharing_and_one_word_is_true_sharing() {
    let write = |address| MemoryAccess { address, bytes: 8, writes: true, is_element: false };
    let sharing = |first: u64, second: u64| {
        let mut model = CoreModel::default();
        for _ in 0..100 {
            run(&mut model, 0, 1, &[write(first)]);
            run(&mut model, 1, 1, &[write(second)]);
        }
        let all = totals(&mut model);
        (all.false_sharing, all.true_sharing)
    };
    assert_eq!(sharing(0, 8), (199, 0));
    assert_eq!(sharing(0, 0), (0, 199));
    assert_eq!(sharing(0, 64), (0, 0));
}

#[test]
fn lines_that_threads_only_read_are_not_contended() {
    let mut model = CoreModel::default();
    for n in 0..1_000 {
        run(&mut model, n % 2, 1, &[load(64)]);
    }
    let all = totals(&mut model);
    assert_eq!((all.false_sharing, all.true_sharing), (0, 0));
}
