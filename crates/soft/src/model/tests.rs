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
fn a_walk_in_random_order_misses_and_one_in_order_does_not() {
    let (mut ordered, mut random_order, mut state) = (CoreModel::default(), CoreModel::default(), 1);
    for n in 0..10_000 {
        run(&mut ordered, 0, 1, &[load(n * 8)]);
        run(&mut random_order, 0, 1, &[load(random(&mut state) % (1 << 28))]);
    }
    let (ordered, random_order) = (totals(&mut ordered), totals(&mut random_order));
    assert!(ordered.irregular_misses < 10, "{ordered:?}");
    assert!(ordered.unit_stride_loads > 9_900, "{ordered:?}");
    assert!(random_order.irregular_misses > 9_000, "{random_order:?}");
    assert_eq!(random_order.unit_stride_loads, 0);
}

#[test]
fn a_small_set_is_served_whatever_its_order() {
    let (mut model, mut state) = (CoreModel::default(), 1);
    for _ in 0..20_000 {
        run(&mut model, 0, 1, &[load(random(&mut state) % (16 << 10))]);
    }
    assert!(totals(&mut model).irregular_misses < 300);
}

#[test]
fn long_strides_miss_and_short_ones_are_foreseen() {
    let misses = |stride: u64| {
        let mut model = CoreModel::default();
        (0..5_000).for_each(|n| run(&mut model, 0, 1, &[load(n * stride)]));
        totals(&mut model).irregular_misses
    };
    assert!(misses(8_192) > 4_900);
    assert!(misses(256) < 10);
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
