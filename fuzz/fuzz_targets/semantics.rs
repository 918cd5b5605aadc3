//! Tables of what events count: a table is written so that it reads back the same, and each of its meanings
//! counts the same in two pieces as in one.
#![no_main]

use cyclometer_core::Concept;
use cyclometer_semantics::{Activity, ActivityProgress, Semantics};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let Ok(semantics) = Semantics::parse(file) else { return };
    assert_eq!(Semantics::parse(semantics.to_text().as_bytes()).as_ref(), Ok(&semantics));
    let activity = Activity::of_iteration(
        7,
        &[(Concept::Instructions, 20.0), (Concept::Loads, 2.5), (Concept::Mispredicts, 0.125)],
    );
    for row in semantics.rows() {
        let (mut progress, meaning) = (ActivityProgress::default(), row.meaning);
        let whole = meaning.counted(&progress, &activity, 1000);
        let first = meaning.counted(&progress, &activity, 333);
        progress.advance(&activity, 333);
        assert_eq!(first + meaning.counted(&progress, &activity, 667), whole);
    }
});
