//! Files of semantics: what is written is read back, and an error names line, thing and remedy.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use cyclometer_core::{Concept, CounterId, CounterMask};
use cyclometer_semantics::{
    ConceptTerm, CountUnit, CountingRule, EventSemantics, FIRST_LINE, InterruptNoise, MAX_BYTES, MAX_LINE,
    MAX_ROWS, MOST_TERMS, Meaning, Semantics, SemanticsError, Weight,
};
use proptest::prelude::*;

fn read(lines: &str) -> Result<Semantics, SemanticsError> {
    Semantics::parse(format!("{FIRST_LINE}\n{lines}").as_bytes())
}

fn meaning(text: &str) -> Meaning {
    let semantics = read(&format!("7 counters=1 counts {text}")).unwrap();
    *semantics.meaning(7, CounterId::General(0)).unwrap()
}

#[test]
fn each_part_of_a_line_has_its_meaning() {
    let term = |concept, quarters| ConceptTerm { concept, weight: Weight::quarters(quarters).unwrap() };
    let sum = |terms: &[ConceptTerm]| Meaning::weighted(terms).unwrap();
    let loads = Meaning::sum(&[Concept::Loads]);
    let threshold =
        |events, per, below, edges| loads.by(CountingRule::Threshold { events, per, below, edges });
    let noise = InterruptNoise { per_interrupt: 2, per_million_cycles: 9 };
    for (text, expected) in [
        ("nothing", Meaning::DEAD),
        ("loads", loads),
        ("1/4 loads + 3/2 stores + 4 calls", {
            sum(&[term(Concept::Loads, 1), term(Concept::Stores, 6), term(Concept::Calls, 16)])
        }),
        ("loads wrong-paths 250", loads.with_wrong_paths(250)),
        ("loads at-least 2 per cycle", threshold(2, CountUnit::Cycle, false, false)),
        ("loads edges fewer-than 1 per iteration", threshold(1, CountUnit::Iteration, true, true)),
        ("loads at-most 3 per iteration", {
            loads.by(CountingRule::AtMost { events: 3, per: CountUnit::Iteration })
        }),
        ("loads alternates 64", loads.by(CountingRule::Alternates { events: 64 })),
        ("loads after 10 stores", loads.by(CountingRule::After { concept: Concept::Stores, events: 10 })),
        ("loads noise 9 per million-cycles noise 2 per interrupt", loads.with_noise(noise)),
        ("  loads\t# a comment", loads),
    ] {
        assert_eq!(meaning(text), expected, "{text}");
    }
}

#[test]
fn an_error_names_the_line_the_thing_and_the_remedy() {
    for (lines, line, message, remedy) in [
        (
            "\n# nothing\n0x7 counters=1 counts lods",
            4,
            "'lods' is no concept",
            "docs/reference/semantics-format.md",
        ),
        ("0x1ffffffff counters=1 counts loads", 2, "'0x1ffffffff' is no event code", "0x8c"),
        ("-3 counters=1 counts loads", 2, "'-3' is no event code", "0x8c"),
        ("7 counters=0 counts loads", 2, "'counters=0' names no counters", "counters=0x80"),
        ("7 counters=0x10000000000000000 counts loads", 2, "names no counters", "counters=0x80"),
        ("7", 2, "'counters=' is missing", "docs"),
        ("7 counters=1 count loads", 2, "'count' where 'counts' is expected", "'counts'"),
        ("7 counters=1 counts", 2, "a concept is missing", "docs"),
        ("7 counters=1 counts 5 loads", 2, "'5' is no weight", "1/4 to 4"),
        ("7 counters=1 counts 1/3 loads", 2, "'1/3' is no weight", "1/4 to 4"),
        ("7 counters=1 counts loads + loads", 2, "'loads' is in the sum twice", "sum of the weights"),
        ("7 counters=1 counts loads stores", 2, "'stores' is unexpected", "order"),
        ("7 counters=1 counts loads at-least 0 per cycle", 2, "'0' is no number", "from 1 to 4294967295"),
        ("7 counters=1 counts loads at-least 2 per second", 2, "'second' is no unit", "'iteration'"),
        ("7 counters=1 counts loads edges", 2, "'edges' has no condition", "at-least"),
        ("7 counters=1 counts loads wrong-paths 65536", 2, "'65536' is no number", "65535"),
        ("7 counters=1 counts loads noise 1 per moon", 2, "'moon' is no cause of noise", "'interrupt'"),
        ("7 counters=1 counts loads noise 1 per interrupt noise 1 per interrupt", 2, "twice", "once"),
        ("7 counters=3 counts loads\n\n7 counters=6 counts calls", 4, "counters 1 in line 2", "one line"),
    ] {
        let error = read(lines).unwrap_err();
        assert_eq!(error.line, line, "{lines}");
        assert!(error.to_string().contains(message), "{lines}: {error}");
        assert!(error.remedy.contains(remedy), "{lines}: {}", error.remedy);
    }
}

#[test]
fn a_file_without_the_header_of_this_version_is_refused() {
    for (file, message) in [
        (&b""[..], "the file has no semantics"),
        (b"0x7 counters=1 counts loads\n", "the file has no semantics"),
        (b"cyclometer-semantics 2\n", "version '2' is unknown"),
        (b"\xff\xfe", "the line is not UTF-8"),
    ] {
        let error = Semantics::parse(file).unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (1, message));
    }
    assert_eq!(read("").unwrap(), Semantics::default());
}

#[test]
fn bytes_lines_rows_and_terms_are_bounded() {
    let long = vec![b'\n'; MAX_BYTES + 1];
    assert!(Semantics::parse(&long).unwrap_err().remedy.contains("at most"));
    let line = format!("# {}", "x".repeat(MAX_LINE));
    assert!(read(&line).unwrap_err().message.contains("the line has 1002 bytes"));
    let rows: String = (0..=MAX_ROWS).map(|code| format!("{code} counters=1 counts loads\n")).collect();
    let error = read(&rows).unwrap_err();
    assert_eq!(error.line, MAX_ROWS + 2);
    let names = |n: usize| -> String {
        let names: Vec<&str> = Concept::ALL.iter().take(n).map(|concept| concept.name()).collect();
        format!("7 counters=1 counts {}", names.join(" + "))
    };
    assert!(read(&names(MOST_TERMS)).is_ok());
    assert!(read(&names(MOST_TERMS + 1)).unwrap_err().message.contains("the sum is too long"));
}

#[test]
fn control_characters_of_a_file_do_not_reach_a_message() {
    let error = read("7 counters=1 counts \u{1b}[2Jloads").unwrap_err();
    assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
}

#[test]
fn the_page_of_the_format_lists_every_concept_and_its_example_is_read() {
    let page = include_str!("../../../docs/reference/semantics-format.md");
    for concept in Concept::ALL {
        let row = format!("| `{concept}` | {} |", concept.about());
        assert!(page.contains(&row), "docs/reference/semantics-format.md has no row {row}");
    }
    let example = page.lines().filter_map(|line| line.strip_prefix("    "));
    let example: String = example.map(|line| format!("{line}\n")).collect();
    assert_eq!(Semantics::parse(example.as_bytes()).unwrap().rows().len(), 6);
}

fn rules() -> impl Strategy<Value = CountingRule> {
    let unit = || prop_oneof![Just(CountUnit::Cycle), Just(CountUnit::Iteration)];
    let concept = prop::sample::select(Concept::ALL);
    prop_oneof![
        Just(CountingRule::Events),
        (1u32.., unit(), any::<bool>(), any::<bool>())
            .prop_map(|(events, per, below, edges)| CountingRule::Threshold { events, per, below, edges }),
        (1u32.., unit()).prop_map(|(events, per)| CountingRule::AtMost { events, per }),
        (1u64..).prop_map(|events| CountingRule::Alternates { events }),
        (1u64.., concept).prop_map(|(events, concept)| CountingRule::After { concept, events }),
    ]
}

fn rows() -> impl Strategy<Value = EventSemantics> {
    let terms = prop::collection::btree_map(prop::sample::select(Concept::ALL), 1u8..=16, 0..=MOST_TERMS);
    (any::<u32>(), 1u64.., terms, any::<u16>(), rules(), any::<u16>(), any::<u16>()).prop_map(
        |(code, general, terms, wrong, rule, per_interrupt, per_million_cycles)| {
            let terms: Vec<ConceptTerm> = terms
                .into_iter()
                .map(|(concept, n)| ConceptTerm { concept, weight: Weight::quarters(n).unwrap() })
                .collect();
            let meaning = Meaning::weighted(&terms)
                .unwrap()
                .with_wrong_paths(wrong)
                .by(rule)
                .with_noise(InterruptNoise { per_interrupt, per_million_cycles });
            EventSemantics { code, counters: CounterMask::from_bits(general, 0), meaning }
        },
    )
}

proptest! {
    #[test]
    fn a_table_survives_its_file(rows in prop::collection::vec(rows(), 0..12)) {
        let Ok(semantics) = Semantics::new(&rows) else { return Ok(()) };
        prop_assert_eq!(Semantics::parse(semantics.to_text().as_bytes()).unwrap(), semantics);
    }

    #[test]
    fn changed_files_are_a_table_or_an_error(
        rows in prop::collection::vec(rows(), 1..6), changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..9),
    ) {
        let Ok(semantics) = Semantics::new(&rows) else { return Ok(()) };
        let mut bytes = semantics.to_text().into_bytes();
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(read) = Semantics::parse(&bytes) {
            prop_assert_eq!(Semantics::parse(read.to_text().as_bytes()).unwrap(), read);
        }
    }

    #[test]
    fn any_bytes_are_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let file = [FIRST_LINE.as_bytes(), b"\n", &bytes].concat();
        if let Err(error) = Semantics::parse(&file) {
            prop_assert!(error.line >= 1 && !error.remedy.is_empty());
        }
    }
}
