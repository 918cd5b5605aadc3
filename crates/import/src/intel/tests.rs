//! The traps of Intel's files, one by one.

use cyclometer_catalog::table::TableEvent;
use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::{CounterMask, EventCode};

use super::{core_events, file};
use crate::error::ImportResult;

/// The fields, and those that every event has where they are not among them.
fn filled(fields: &str) -> String {
    let mut filled = fields.to_owned();
    for (field, value) in [("EventCode", "0x1"), ("Counter", "0,1,2,3")] {
        if !fields.contains(&format!("\"{field}\"")) {
            filled.push_str(&format!(r#", "{field}": "{value}""#));
        }
    }
    filled
}

/// The only event of a file of Intel whose event has these fields, and no others.
fn exactly(fields: &str) -> ImportResult<TableEvent> {
    let json = format!(r#"{{"Header": {{}}, "Events": [{{"EventName": "E", {fields}}}]}}"#);
    Ok(core_events(json.as_bytes())?.remove(0))
}

fn event(fields: &str) -> TableEvent {
    exactly(&filled(fields)).unwrap()
}

fn refused(fields: &str) -> String {
    exactly(&filled(fields)).unwrap_err().to_string()
}

fn code(select: u16, umask: u8) -> EventCode {
    EventCode { select, umask, ..EventCode::default() }
}

/// Select, unit mask, register and its value.
type Told = (u16, u8, Option<(u32, u64)>);

/// Every code of an event.
fn all(event: &TableEvent) -> Vec<Told> {
    let codes = std::iter::once(event.code).chain(event.also.iter().map(|also| also.code));
    codes.map(|c| (c.select, c.umask, c.extra.map(|extra| (extra.register.msr(), extra.value)))).collect()
}

#[test]
fn a_fixed_event_with_code_0_keeps_its_pseudo_code_and_its_counter() {
    let event = event(r#""EventCode": "0x00", "UMask": "0x03", "Counter": "Fixed counter 2""#);
    assert_eq!(event.code, code(0, 3));
    assert_eq!(event.counters, Some(CounterMask::from_bits(0, 0b100)));
}

#[test]
fn fixed_counters_numbered_from_1_beside_a_pseudo_code_are_corrected() {
    // Silvermont.
    let event = event(r#""EventCode": "0x00", "UMask": "0x01", "Counter": "Fixed counter 1""#);
    assert_eq!((event.code, event.counters), (code(0, 1), Some(CounterMask::from_bits(0, 1))));
}

#[test]
fn fixed_counters_numbered_from_1_without_a_pseudo_code_are_corrected() {
    // Nehalem and Westmere have code 0 and unit mask 0; Bonnell has code 0xA.
    for select in ["0x0", "0xA"] {
        for (number, index) in [(1, 0), (2, 1), (3, 2)] {
            let fields =
                format!(r#""EventCode": "{select}", "UMask": "0x0", "Counter": "Fixed counter {number}""#);
            let event = event(&fields);
            assert_eq!(event.code, code(0, index + 1), "{fields}");
            assert_eq!(event.counters, Some(CounterMask::from_bits(0, 1 << index)), "{fields}");
        }
    }
}

#[test]
fn the_wrong_fixed_counter_of_jaketown_is_corrected_by_its_unit_mask() {
    let event =
        event(r#""EventCode": "0x00", "UMask": "0x02", "Counter": "Fixed counter 2", "AnyThread": "1""#);
    assert_eq!(event.counters, Some(CounterMask::from_bits(0, 0b10)));
    assert_eq!(event.code, EventCode { any: true, ..code(0, 2) });
}

#[test]
fn fixed_counters_with_a_hole_keep_their_numbers() {
    // Skymont has 0, 1, 2, 4, 5, 6.
    for index in [0u8, 1, 2, 4, 5, 6] {
        let umask = index + 1;
        let event = event(&format!(
            r#""EventCode": "0x00", "UMask": "{umask:#04x}", "Counter": "Fixed counter {index}""#
        ));
        assert_eq!(event.counters, Some(CounterMask::from_bits(0, 1 << index)));
    }
}

#[test]
fn a_fixed_counter_that_cannot_be_is_refused() {
    let error = refused(r#""EventCode": "0x00", "UMask": "0x40", "Counter": "Fixed counter 1""#);
    assert_eq!(error, "E, Counter: there is no fixed counter 63");
    let error = refused(r#""EventCode": "0x00", "Counter": "Fixed counter 99""#);
    assert_eq!(error, "E, Counter: 'Fixed counter 99' is no counter");
    let error = refused(r#""EventCode": "0x00", "Counter": "Fixed counter 1, Fixed counter 2""#);
    assert_eq!(error, "E, Counter: names two fixed counters");
}

#[test]
fn a_second_unit_mask_counts_though_the_first_is_0() {
    let event = event(r#""EventCode": "0xC4", "UMask": "0x00", "UMaskExt": "0X01", "Counter": "0,1""#);
    assert_eq!(event.code, EventCode { umask2: 1, ..code(0xc4, 0) });
}

#[test]
fn an_offcore_pair_is_two_codes_with_a_register_each() {
    let event = event(
        r#""EventCode": "0xB7, 0xBB", "UMask": "0x01", "MSRIndex": "0x1a6,0x1a7", "MSRValue": "0x10001",
           "Counter": "0,1,2,3""#,
    );
    let value = Some((0x1a6, 0x10001));
    assert_eq!(all(&event), [(0xb7, 1, value), (0xbb, 1, Some((0x1a7, 0x10001)))]);
    assert_eq!(event.also[0].counters, Some(CounterMask::from_bits(0xf, 0)));
}

#[test]
fn an_offcore_pair_can_be_one_code_with_two_unit_masks() {
    // Silvermont and its kind.
    let event =
        event(r#""EventCode": "0XB7", "UMask": "0x01,0x02", "MSRIndex": "0x1a6, 0x1a7", "MSRValue": "0x8""#);
    assert_eq!(all(&event), [(0xb7, 1, Some((0x1a6, 8))), (0xb7, 2, Some((0x1a7, 8)))]);
}

#[test]
fn a_pair_with_one_register_is_the_code_of_that_register_only() {
    // Requests outstanding are known to the first register, partial writes of Knights Landing to the second.
    let first = event(r#""EventCode": "0xB7", "UMask": "0x01,0x02", "MSRIndex": "0x1a6", "MSRValue": "0x4""#);
    assert_eq!(all(&first), [(0xb7, 1, Some((0x1a6, 4)))]);
    let second =
        event(r#""EventCode": "0xB7", "UMask": "0x01,0x02", "MSRIndex": "0x1A7", "MSRValue": "0x4""#);
    assert_eq!(all(&second), [(0xb7, 2, Some((0x1a7, 4)))]);
}

#[test]
fn a_pair_without_a_value_stays_a_pair() {
    let event = event(r#""EventCode": "0xB7, 0xBB", "UMask": "0x01", "MSRIndex": "0", "MSRValue": "0""#);
    assert_eq!(all(&event), [(0xb7, 1, None), (0xbb, 1, None)]);
}

#[test]
fn a_restriction_of_registers_binds_unit_masks_by_position() {
    let event = event(
        r#""EventCode": "0xD6", "UMask": "0x01,0x02,0x04,0x08", "MSRIndex": "0x3E0,0x3E1,0x3E2,0x3E3",
           "MSRValue": "0xED000400000001", "Counter": "0,1,2,3", "ProgrammingRestriction": "MSRIndex-UMask""#,
    );
    let value = 0xED_0004_0000_0001;
    let expected = [(1, 0x3e0), (2, 0x3e1), (4, 0x3e2), (8, 0x3e3)];
    let expected = expected.map(|(umask, register)| (0xd6, umask, Some((register, value))));
    assert_eq!(all(&event), expected);
    assert!(event.also.iter().all(|also| also.counters.unwrap().general_bits() == 0xf));
}

#[test]
fn a_restriction_of_registers_can_bind_counters_too() {
    let event = event(
        r#""EventCode": "0xD6", "UMask": "0x01,0x02", "MSRIndex": "0x3E0,0x3E1", "MSRValue": "0x5",
           "Counter": "0,3", "ProgrammingRestriction": "MSRIndex-UMask-Counter""#,
    );
    assert_eq!(event.counters.unwrap().general_bits(), 0b0001);
    assert_eq!(event.also[0].counters.unwrap().general_bits(), 0b1000);
    let error = refused(
        r#""EventCode": "0xD6", "UMask": "0x01,0x02", "Counter": "0,1,2",
           "ProgrammingRestriction": "MSRIndex-UMask-Counter""#,
    );
    assert_eq!(error, "E, Counter: 3 values beside 2, which it is bound to");
}

#[test]
fn lists_that_do_not_pair_are_refused() {
    let error = refused(r#""EventCode": "0xB7,0xBB", "UMask": "0x01,0x02,0x03""#);
    assert_eq!(error, "E, EventCode: 2 values beside 3");
    let error = refused(
        r#""EventCode": "0xB7,0xBB,0xBC", "UMask": "0x01", "MSRIndex": "0x1a6,0x1a7", "MSRValue": "1""#,
    );
    assert_eq!(error, "E, MSRIndex: 2 values beside 3");
}

#[test]
fn no_register_is_written_in_three_ways() {
    for none in ["0", "0x00", ""] {
        let event = event(&format!(r#""EventCode": "0x3c", "MSRIndex": "{none}", "MSRValue": "0x00""#));
        assert_eq!(event.code.extra, None, "{none}");
    }
}

#[test]
fn a_register_with_value_0_is_a_register_all_the_same() {
    let event = event(r#""EventCode": "0xB", "UMask": "0x10", "MSRIndex": "0x3F6", "MSRValue": "0x0""#);
    let extra = event.code.extra.unwrap();
    assert_eq!((extra.register, extra.value), (ExtraRegisterKind::LoadLatency, 0));
}

#[test]
fn a_register_that_refines_no_event_is_refused() {
    let error = refused(r#""EventCode": "0xB7", "MSRIndex": "0x1a8", "MSRValue": "0x1""#);
    assert_eq!(error, "E, MSRIndex: 0x1a8 is no register that refines events");
}

#[test]
fn hexadecimal_numbers_come_in_both_cases_and_counter_masks_in_decimal() {
    let event = event(
        r#""EventCode": "0XaB", "UMask": "0x0C", "CounterMask": "16", "Invert": "1", "EdgeDetect": "1",
           "Equal": "1", "Counter": "0, 1 ,2""#,
    );
    let expected = EventCode { cmask: 16, inv: true, edge: true, eq: true, ..code(0xab, 0x0c) };
    assert_eq!((event.code, event.counters.unwrap().general_bits()), (expected, 0b111));
}

#[test]
fn deprecated_events_stay_and_say_so() {
    let event = event(r#""EventCode": "0x1", "Deprecated": "1", "TakenAlone": "1""#);
    assert!(event.deprecated && event.taken_alone);
}

#[test]
fn errata_are_names_and_null_is_none() {
    for none in ["null", "0", "", " null "] {
        let event = event(&format!(r#""EventCode": "0x1", "Errata": "{none}""#));
        assert!(event.errata.is_empty(), "{none}");
    }
    let event = event(r#""EventCode": "0x1", "Errata": "HSD29, HSM30,BDM100""#);
    assert_eq!(event.errata, ["HSD29", "HSM30", "BDM100"]);
}

#[test]
fn fields_that_do_not_fit_are_refused_with_event_and_field() {
    assert_eq!(refused(r#""EventCode": "0x1B7""#), "E, EventCode: 0x1b7 is more than 0xff");
    assert_eq!(refused(r#""UMask": "0x100""#), "E, UMask: 0x100 is more than 0xff");
    assert_eq!(refused(r#""CounterMask": "256""#), "E, CounterMask: 0x100 is more than 0xff");
    assert_eq!(refused(r#""Counter": "0,40""#), "E, Counter: '40' is no counter");
    assert_eq!(refused(r#""Invert": "yes""#), "E, Invert: 'yes' is no number");
    assert_eq!(refused(r#""MSRIndex": "0x1a6,,0x1a7""#), {
        "E, MSRIndex: '0x1a6,,0x1a7' has a place without a number"
    });
    for flag in ["Invert", "EdgeDetect", "Equal", "AnyThread", "Deprecated", "TakenAlone"] {
        let expected = format!("E, {flag}: 0x7 is neither 0 nor 1");
        assert_eq!(refused(&format!(r#""{flag}": "7""#)), expected);
    }
}

#[test]
fn an_event_without_a_select_is_refused() {
    let refused = |fields: &str| exactly(fields).unwrap_err().to_string();
    for select in ["", r#", "EventCode": null"#, r#", "EventCode": """#] {
        let error = refused(&format!(r#""UMask": "0x1", "Counter": "0,1"{select}"#));
        assert_eq!(error, "E, EventCode: is missing", "{select}");
    }
    let error = refused(r#""UMask": "0x1", "Counter": "0,1,Fixed counter 0""#);
    assert_eq!(error, "E, EventCode: is missing");
}

#[test]
fn a_fixed_event_of_linux_needs_no_select() {
    let fields = r#""UMask": "0x3", "Counter": "Fixed counter 2""#;
    assert_eq!(exactly(fields).unwrap_err().to_string(), "E, EventCode: is missing");
    let linux = |fields: &str| core_events(format!(r#"[{{"EventName": "E", {fields}}}]"#).as_bytes());
    let event = linux(fields).unwrap().remove(0);
    assert_eq!((event.code, event.counters), (code(0, 3), Some(CounterMask::from_bits(0, 0b100))));
    let error = linux(r#""UMask": "0x1", "Counter": "0,1""#).unwrap_err().to_string();
    assert_eq!(error, "E, EventCode: is missing");
}

#[test]
fn linux_has_both_unit_masks_in_one_number() {
    let linux = |umask: &str| {
        let json =
            format!(r#"[{{"EventName": "E", "EventCode": "0xc3", "UMask": "{umask}", "Counter": "0"}}]"#);
        core_events(json.as_bytes()).map(|mut events| events.remove(0).code)
    };
    assert_eq!(linux("0x80ff").unwrap(), EventCode { umask2: 0x80, ..code(0xc3, 0xff) });
    assert_eq!(linux("0xff").unwrap(), code(0xc3, 0xff));
    let error = linux("0x10000").unwrap_err().to_string();
    assert_eq!(error, "E, UMask: 0x10000 is more than 0xffff");
}

#[test]
fn an_event_without_counters_is_refused() {
    for counter in ["", r#", "Counter": null"#, r#", "Counter": """#, r#", "Counter": ",""#] {
        let error = exactly(&format!(r#""EventCode": "0x1"{counter}"#)).unwrap_err().to_string();
        assert_eq!(error, "E, Counter: is missing", "{counter}");
    }
}

#[test]
fn a_file_of_linux_names_counters_for_every_event_or_for_none() {
    let plain = r#"{"EventName": "A", "EventCode": "0xc4"}"#;
    let fixed = r#"{"EventName": "B", "UMask": "0x2"}"#;
    let events = core_events(format!("[{plain}, {fixed}]").as_bytes()).unwrap();
    assert_eq!((events[0].code, events[0].counters), (code(0xc4, 0), None));
    assert_eq!((events[1].code, events[1].counters), (code(0, 2), Some(CounterMask::from_bits(0, 0b10))));
    let refused = |events: &str| core_events(events.as_bytes()).unwrap_err().to_string();
    let named = r#"{"EventName": "C", "EventCode": "0x1", "Counter": "0"}"#;
    assert_eq!(refused(&format!("[{plain}, {named}]")), "A, Counter: is missing");
    assert_eq!(refused(&format!(r#"{{"Events": [{plain}]}}"#)), "A, Counter: is missing");
    for umask in [0, 0x11] {
        let event = format!(r#"[{{"EventName": "B", "UMask": "{umask}"}}]"#);
        assert_eq!(refused(&event), "B, EventCode: is missing");
    }
}

#[test]
fn the_header_gives_version_and_date() {
    let json = br#"{"Header": {"Version": "1.40", "DatePublished": "05/27/2026"}, "Events": []}"#;
    let file = file(json, None).unwrap();
    assert_eq!((file.version.as_str(), file.date.as_str()), ("1.40", "2026-05-27"));
}

#[test]
fn files_of_linux_are_arrays_with_units_and_metrics() {
    let json = br#"[
        {"EventName": "A", "EventCode": "0xc0", "Unit": "cpu_core"},
        {"EventName": "B", "EventCode": "0xc1", "Unit": "cpu_atom"},
        {"EventName": "C", "EventCode": "0xc2"},
        {"EventName": "UNC_D", "EventCode": "0x1ff", "Unit": "CHA"},
        {"MetricName": "m", "MetricExpr": "A / B"}]"#;
    let names = |device| -> Vec<String> {
        let events = file(json, device).unwrap().events;
        events.into_iter().map(|event| event.name).collect()
    };
    assert_eq!(names(None), ["A", "B", "C"]);
    assert_eq!(names(Some("cpu_atom")), ["B", "C"]);
}

#[test]
fn what_is_no_event_file_is_refused() {
    let refused = |json: &str| core_events(json.as_bytes()).unwrap_err().to_string();
    assert_eq!(refused("{}"), "there is no list of events ('Events')");
    assert_eq!(refused(r#"{"Events": 7}"#), "there is no list of events ('Events')");
    assert_eq!(refused("[7]"), "entry 1: is no object");
    assert_eq!(refused(r#"[{"EventCode": "0x1"}]"#), "entry 1: has no EventName");
    assert_eq!(
        refused(r#"[{"EventName": "A", "EventCode": "1"}, {"EventName": "a"}]"#),
        "a, EventName: is there twice"
    );
}

#[test]
fn the_code_is_the_event_but_where_two_share_it() {
    let named = |name: &str, fields: &str| {
        let json = format!(r#"[{{"EventName": "{name}", {fields}}}]"#);
        let event = core_events(json.as_bytes()).unwrap().remove(0);
        (event.config, event.code)
    };
    let fixed = r#""EventCode": "0x00", "UMask": "0x01", "Counter": "Fixed counter 0""#;
    assert_eq!(named("INST_RETIRED.PREC_DIST", fixed), (Some(0x100), code(0, 1)));
    assert_eq!(named("INST_RETIRED.ANY", fixed), (None, code(0, 1)));
    let general = r#""EventCode": "0xC0", "UMask": "0x01", "Counter": "0,1,2,3""#;
    assert_eq!(named("INST_RETIRED.ANY_P", general), (None, code(0xc0, 1)));
    assert_eq!(named("INST_RETIRED.PREC_DIST", general), (None, code(0xc0, 1)));
    let reference = r#""EventCode": "0x3C", "UMask": "0x01", "Counter": "0,1""#;
    assert_eq!(named("CPU_CLK_UNHALTED.REF", reference), (None, code(0x3c, 1)));
}
