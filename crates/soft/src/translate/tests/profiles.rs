//! Positions of counters after earlier runs.

use super::*;
use crate::ExecutionEvent;
use crate::profile::{BlockHeat, Heat};

/// The exits of the first block's branch that a translation counts, by the heat of each exit. The successors
/// are equally hot.
fn counted_ways(exits: [u64; 2]) -> [bool; 2] {
    // jz over a nop, to where both meet.
    let mut code = Hinted::new(TestProgram(vec![0x85, 0xc0, 0x74, 0x03, 0x90, 0xeb, 0x01, 0x90, 0xc3]), &[]);
    for (offset, exits) in [(0, exits), (4, [0, 1000]), (7, [1000, 0]), (8, [0, 1000])] {
        let heats = BlockHeat { block: Heat::of(1000), exits: exits.map(Heat::of), entry: Heat::default() };
        code.profile.learn(0, offset, heats, false);
    }
    let translation = entered(&mut code);
    let first = translation.block(translation.block_at(AT).unwrap());
    first.edges.map(|edge| translation.flow().counter_of(edge.unwrap()).is_some())
}

#[test]
fn counters_are_where_earlier_runs_have_gone_less_often() {
    assert_eq!(counted_ways([1000, 2]), [false, true]);
    assert_eq!(counted_ways([2, 1000]), [true, false]);
    assert_eq!(counted_ways([500, 500]), [true, false], "a jump less");
}

#[test]
fn units_that_nobody_wants_are_not_counted() {
    // rep movsb; a load under a mask; ret.
    let code = vec![0xf3, 0xa4, 0x62, 0xf1, 0x7f, 0x29, 0x6f, 0x06, 0xc3];
    let units = |counted| {
        let mut translation =
            Translation::new(TABLE_AT, TranslationSettings { counted, ..TranslationSettings::default() });
        translation.add_region(REGION_AT, 16);
        translation.enter(&mut TestProgram(code.clone()), AT).unwrap();
        translation.unit_counters()
    };
    assert_eq!(units(AddendKinds::OF_UNITS), 2);
    assert_eq!(units(AddendKinds::needed_for([ExecutionEvent::Loads])), 1);
    assert_eq!(
        units(AddendKinds::needed_for([ExecutionEvent::Instructions, ExecutionEvent::TakenBranches])),
        0
    );
}
