//! The catalogue's table of the software PMU and the software PMU itself know the same events.

use std::collections::BTreeMap;

use cyclometer_soft::ExecutionEvent;

/// The aliases under each name.
type Names = BTreeMap<&'static str, Vec<&'static str>>;

#[test]
fn the_table_and_the_software_pmu_have_the_same_names() {
    let own: Names =
        ExecutionEvent::ALL.iter().map(|event| (event.name(), event.aliases().to_vec())).collect();
    let table: Names = cyclometer_catalog::soft_events().map(|event| (event.name, event.aliases)).collect();
    assert_eq!(table, own);
}

#[test]
fn the_table_has_the_order_of_the_software_pmu() {
    let own: Vec<&str> = ExecutionEvent::ALL.iter().map(|event| event.name()).collect();
    let table: Vec<&str> = cyclometer_catalog::soft_events().map(|event| event.name).collect();
    assert_eq!(table, own);
}
