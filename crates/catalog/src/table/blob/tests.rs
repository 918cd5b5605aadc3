use proptest::prelude::*;

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth, EventCode};

use super::*;
use crate::table::model::{Also, CpuTable, Generic, Header, TableEvent};

fn codes() -> impl Strategy<Value = EventCode> {
    let flags = any::<[bool; 4]>();
    let extra = proptest::option::of((0..10usize, any::<u64>()));
    (any::<u16>(), any::<[u8; 3]>(), flags, extra).prop_map(|(select, bytes, flags, extra)| EventCode {
        select,
        umask: bytes[0],
        umask2: bytes[1],
        cmask: bytes[2],
        inv: flags[0],
        edge: flags[1],
        eq: flags[2],
        any: flags[3],
        extra: extra.map(|(i, value)| ExtraRegister { register: ExtraRegisterKind::ALL[i], value }),
    })
}

fn masks() -> impl Strategy<Value = Option<CounterMask>> {
    let named = (any::<u64>(), 1..=u64::MAX);
    proptest::option::of(named.prop_map(|(general, fixed)| CounterMask::from_bits(general, fixed)))
}

fn events() -> impl Strategy<Value = TableEvent> {
    let also = proptest::collection::vec((codes(), masks()), 0..3);
    let errata = proptest::collection::vec("[A-Z]{3}[0-9]{1,3}", 0..3);
    let config = proptest::option::of(any::<u64>());
    ("[A-Za-z_.]{1,12}", codes(), masks(), also, errata, config, any::<[bool; 2]>()).prop_map(
        |(name, code, counters, also, errata, config, flags)| TableEvent {
            name,
            code: EventCode { extra: code.extra.filter(|_| config.is_none()), ..code },
            counters,
            also: also.into_iter().map(|(code, counters)| Also { code, counters }).collect(),
            errata,
            config,
            deprecated: flags[0],
            taken_alone: flags[1],
            ..TableEvent::default()
        },
    )
}

fn table(id: usize, mut events: Vec<TableEvent>) -> CpuTable {
    events.sort_by_key(|event| event.name.to_ascii_lowercase());
    events.dedup_by_key(|event| event.name.to_ascii_lowercase());
    for (i, event) in events.iter_mut().enumerate() {
        if i % 3 == 0 {
            event.aliases.push(format!("old-{}", event.name));
        }
    }
    let header = Header {
        cpu: format!("cpu{id}/core"),
        title: "A core".into(),
        family: Family::ALL[id % 5],
        matches: vec!["one".into(), "two".into()],
        pmu_version: Some(5),
        selector_bits: Some(16),
        counter_width: Some(CounterWidth { bits: 48, overflow_bit: 47 }),
        counters: CounterMask::from_bits(0xff, 0x77),
        version: "1.2".into(),
        date: "2026-01-01".into(),
        sources: vec!["here".into()],
        licence: "MIT".into(),
    };
    let generic = vec![Generic { name: "cache-misses".into(), config: 1 << 40, config1: id as u64 }];
    CpuTable { header, events, generic }
}

fn back(cpu: Cpu<'_>) -> CpuTable {
    let header = Header {
        cpu: cpu.id().into(),
        title: cpu.title().into(),
        family: cpu.family(),
        matches: cpu.matches().map(str::to_owned).collect(),
        pmu_version: cpu.pmu_version(),
        selector_bits: cpu.selector_bits(),
        counter_width: cpu.counter_width(),
        counters: cpu.counters(),
        version: cpu.version().into(),
        date: cpu.date().into(),
        sources: cpu.sources().map(str::to_owned).collect(),
        licence: cpu.licence().into(),
    };
    let event = |entry: Entry<'_>| TableEvent {
        name: entry.name().into(),
        aliases: entry.aliases().map(str::to_owned).collect(),
        code: entry.code(),
        config: entry.config(),
        counters: entry.counters(),
        also: entry.also().collect(),
        deprecated: entry.deprecated(),
        taken_alone: entry.taken_alone(),
        errata: entry.errata().map(str::to_owned).collect(),
        about: String::new(),
    };
    CpuTable { header, events: cpu.events().map(event).collect(), generic: cpu.generic().collect() }
}

proptest! {
    #[test]
    fn tables_survive_as_bytes(lists in proptest::collection::vec(proptest::collection::vec(events(), 0..20), 1..4)) {
        let mut tables: Vec<CpuTable> = lists.into_iter().enumerate().map(|(i, events)| table(i, events)).collect();
        let bytes = write(&tables).unwrap();
        let blob = Blob::new(&bytes).unwrap();
        let read: Vec<CpuTable> = blob.cpus().map(back).collect();
        for table in &mut tables {
            table.events.sort_by_key(|event| (event.name.to_ascii_lowercase(), event.name.clone()));
        }
        prop_assert_eq!(&read, &tables);
        for table in &tables {
            let cpu = blob.cpu(&table.header.cpu.to_ascii_uppercase()).unwrap();
            for event in &table.events {
                for name in std::iter::once(&event.name).chain(&event.aliases) {
                    let found = cpu.event(&name.to_ascii_uppercase()).unwrap();
                    prop_assert!(found.name().eq_ignore_ascii_case(&event.name));
                    prop_assert_eq!(found.code(), event.code);
                }
                let by_code: Vec<Entry<'_>> = cpu.by_code(&event.code, event.config).collect();
                prop_assert!(by_code.iter().any(|found| found.name().eq_ignore_ascii_case(&event.name)));
                let key = |code: &EventCode| (code.select, code.umask, code.umask2, code.extra);
                let same = |found: &Entry<'_>| match event.config {
                    Some(config) => found.config() == Some(config),
                    None => key(&found.code()) == key(&event.code) || found.also().any(|also| key(&also.code) == key(&event.code)),
                };
                prop_assert!(by_code.iter().all(same));
                for also in &event.also {
                    let found: Vec<Entry<'_>> = cpu.by_code(&also.code, None).collect();
                    prop_assert!(found.iter().any(|found| found.name() == event.name), "{:?}", also);
                }
            }
            prop_assert!(cpu.event("no such event").is_none());
        }
    }
}

#[test]
fn other_bytes_are_no_tables() {
    assert!(Blob::new(b"").is_none());
    assert!(Blob::new(&[0; 200]).is_none());
    let bytes = write(&[]).unwrap();
    let blob = Blob::new(&bytes).unwrap();
    assert!(blob.is_empty());
    assert!(blob.cpu("skylake").is_none());
}

#[test]
fn each_cpu_keeps_its_own_spelling() {
    let named = |id: usize, name: &str| {
        let event = TableEvent { name: name.into(), ..TableEvent::default() };
        table(id, vec![event])
    };
    let tables = [named(0, "DCACHE_MISS"), named(1, "dcache_miss"), named(2, "dcache_Miss")];
    let bytes = write(&tables).unwrap();
    for (i, spelled) in ["DCACHE_MISS", "dcache_miss", "dcache_Miss"].into_iter().enumerate() {
        let cpu = Blob::new(&bytes).unwrap().cpu(&format!("cpu{i}/core")).unwrap();
        for asked in ["dcache_miss", "DCACHE_MISS"] {
            assert_eq!(cpu.event(asked).map(|entry| entry.name()), Some(spelled));
        }
    }
}
