//! The examination of one event.

use crate::bounds;
use crate::finding::Finding;
use crate::judge::{Examination, Repetitions, Strictness};
use crate::meter::EventMeter;
use crate::truth::Truth;

/// Counts what is known about an event and judges it.
pub fn examine(event: &str, truth: Truth, meter: &mut dyn EventMeter, effort: Repetitions) -> Finding {
    let examination = Examination { meter, effort };
    match truth {
        Truth::Known(quantities) => examination.quantities(event, quantities, Strictness::Exact),
        Truth::Near(quantities) => examination.quantities(event, quantities, Strictness::Near),
        other => bounds::examine(event, other, examination),
    }
}
