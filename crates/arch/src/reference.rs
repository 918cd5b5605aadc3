//! Tables of registers: what a page about them shows, of a chip or of a family.
//!
//! Registers that differ in their number only are one row, and so are fields of several counters.

use std::fmt;

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth};

use crate::access::PmuReg;
use crate::chip::{Chip, ChipCounters};
use crate::decode::{every_field, layout};
use crate::field::{BitRange, FieldKind, FieldSpec};
use crate::presence::Presence;
use crate::register::{Register, RegisterAddress};
use crate::register_access::Access;
use crate::{amd, apple, arm, intel, riscv};

/// One register, or several that differ in their number only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterRow {
    /// The registers, in the order of their numbers.
    pub registers: Vec<Register>,
    /// Their name, with `n` for a number that differs.
    pub name: String,
    /// Where they are, by `n`; empty for what is no register of the chip.
    pub address: String,
    /// The operations that a driver may use on the first of them; `None`: none.
    pub access: Option<Access>,
    /// Which chips have it: versions of the PMU (in a family's table), and what a chip must have besides;
    /// empty: every one.
    pub presence: String,
    /// The document that describes its address and layout.
    pub source: &'static str,
    /// Its fields, from bit 0 up.
    pub fields: Vec<FieldRow>,
}

/// One field of a register, or the same field of several counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldRow {
    /// The vendor's name, with `n` for the number of a counter.
    pub name: String,
    /// Which bits: `22`, `8-15`, `32+n (n = 0-3)`.
    pub bits: String,
    /// The effect of the field.
    pub meaning: &'static str,
    /// The meaning of single values.
    pub values: &'static [(u64, &'static str)],
    /// How `decode` shows it.
    pub kind: FieldKind,
    /// Which chips have it; empty: every one that has the register.
    pub presence: String,
    /// The document that says so.
    pub source: &'static str,
}

/// The table of a chip: the registers and fields that it can have by its facts.
pub fn register_table(chip: &Chip) -> Vec<RegisterRow> {
    let alone = [ChipKind { chip: *chip, which: "", fields: layout }];
    let mut rows: Vec<RegisterRow> = Vec::new();
    for register in Register::all(chip) {
        add(&mut rows, row(&alone, None, register));
    }
    finished(rows)
}

/// The row of one register of a chip.
pub fn register_row(chip: &Chip, register: Register) -> RegisterRow {
    row(&[ChipKind { chip: *chip, which: "", fields: layout }], None, register).finished()
}

/// The table of a family: the registers and fields of all of its versions.
pub fn family_table(family: Family) -> Vec<RegisterRow> {
    let kinds = kinds(family);
    let mut rows: Vec<RegisterRow> = Vec::new();
    for register in kinds.iter().take(1).flat_map(|kind| Register::all(&kind.chip)) {
        add(&mut rows, row(&kinds, Some(family), register));
    }
    finished(rows)
}

/// A chip that stands for others, and how those are called where it differs from the other kinds of its
/// family.
struct ChipKind {
    chip: Chip,
    which: &'static str,
    fields: fn(&Chip, Register) -> Vec<FieldSpec>,
}

/// The chips that stand for a family. Differences between versions of a PMU are in presences; Apple's chips
/// have no version.
fn kinds(family: Family) -> Vec<ChipKind> {
    let kind = |which, chip| ChipKind { chip, which, fields: every_field };
    let chip = |pmu_version, counter_width_bits, counters| Chip {
        family,
        pmu_version,
        selector_bits: None,
        counter_width: Some(CounterWidth::carrying(counter_width_bits)),
        counters: ChipCounters::of(counters),
    };
    let apple = |selector_bits, counter_width_bits| Chip {
        selector_bits: Some(selector_bits),
        counter_width: Some(CounterWidth { bits: counter_width_bits, overflow_bit: counter_width_bits - 1 }),
        ..chip(None, counter_width_bits, apple::ALL_COUNTERS)
    };
    let intel = CounterMask::first(intel::MOST_GENERAL.into(), intel::MOST_FIXED.into());
    match family {
        Family::Intel => vec![kind("", chip(Some(6), 48, intel))],
        Family::Amd => vec![kind("", chip(Some(2), 48, amd::ALL_COUNTERS))],
        Family::Arm => vec![kind("", chip(Some(3), 64, arm::ALL_COUNTERS))],
        Family::RiscV => vec![kind("", chip(None, 64, riscv::ALL_COUNTERS))],
        Family::Apple => vec![
            kind("A14, M1", apple(8, 48)),
            kind("A15, M2", apple(8, 64)),
            kind("A16, M3 and later", apple(16, 64)),
        ],
    }
}

/// A row with the fields of every kind of chip.
struct DraftRow {
    register: Register,
    /// The family of a table of all versions; in a table of one chip versions go without saying.
    family: Option<Family>,
    access: Option<Access>,
    fields: Vec<(FieldSpec, Vec<&'static str>)>,
    kinds: usize,
}

fn row(kinds: &[ChipKind], family: Option<Family>, register: Register) -> DraftRow {
    let mut fields: Vec<(FieldSpec, Vec<&'static str>)> = Vec::new();
    for ChipKind { chip, which, fields: fields_of } in kinds {
        for field in fields_of(chip, register) {
            match fields.iter_mut().find(|(known, _)| *known == field) {
                Some((_, whose)) => whose.push(which),
                None => fields.push((field, vec![which])),
            }
        }
    }
    fields.sort_by_key(|(field, _)| field.low);
    let listed = kinds.first().and_then(|kind| PmuReg::of(&kind.chip, register).ok());
    DraftRow { register, family, access: listed.map(PmuReg::access), fields, kinds: kinds.len() }
}

impl DraftRow {
    fn finished(&self) -> RegisterRow {
        let name = self.register.name();
        RegisterRow {
            registers: vec![self.register],
            name: name.to_string(),
            address: self.register.address().map_or_else(String::new, |address| address.to_string()),
            access: self.access,
            presence: self.presence(self.register.presence()),
            source: self.register.source(),
            fields: self.field_rows(),
        }
    }

    fn presence(&self, presence: Presence) -> String {
        self.family
            .map_or_else(|| presence.needs.unwrap_or_default().to_owned(), |family| presence.text(family))
    }

    /// The fields, those of several counters together.
    fn field_rows(&self) -> Vec<FieldRow> {
        let mut groups: Vec<(&FieldSpec, &[&str], Vec<&FieldSpec>)> = Vec::new();
        for (field, whose) in &self.fields {
            let alike = |known: &FieldSpec| {
                FieldSpec { low: 0, high: known.high - known.low, index: None, ..*known }
                    == FieldSpec { low: 0, high: field.high - field.low, index: None, ..*field }
                    && known.index.is_some() == field.index.is_some()
            };
            let group = groups.iter_mut().find(|(first, who, _)| *who == &whose[..] && alike(first));
            match group {
                Some((.., members)) if field.index.is_some() => members.push(field),
                _ => groups.push((field, whose, vec![field])),
            }
        }
        groups.iter().map(|(first, whose, members)| self.field_row(first, whose, members)).collect()
    }

    fn field_row(&self, first: &FieldSpec, whose: &[&str], members: &[&FieldSpec]) -> FieldRow {
        let presence = self.presence(first.presence);
        let who = if whose.len() == self.kinds { String::new() } else { whose.join(", ") };
        let presence = match (who.is_empty(), presence.is_empty()) {
            (false, false) => format!("{who}; {presence}"),
            (true, _) => presence,
            (_, true) => who,
        };
        let name = match members {
            [one] => one.full_name(),
            _ => format!("{}n", first.name),
        };
        FieldRow {
            name,
            bits: places(members),
            meaning: first.meaning,
            values: first.values,
            kind: first.kind,
            presence,
            source: first.source,
        }
    }
}

/// Adds a row, to the one before it where they differ in their number only.
fn add(rows: &mut Vec<RegisterRow>, draft: DraftRow) {
    let row = draft.finished();
    let joins = |known: &&mut RegisterRow| {
        let (one, other) = (known.registers[0].name(), draft.register.name());
        (one.stem, one.tail, one.index.is_some()) == (other.stem, other.tail, other.index.is_some())
            && (&known.fields, known.access) == (&row.fields, row.access)
    };
    match rows.last_mut().filter(joins) {
        Some(known) => known.registers.push(draft.register),
        None => rows.push(row),
    }
}

/// Gives rows of several registers their names and addresses.
fn finished(mut rows: Vec<RegisterRow>) -> Vec<RegisterRow> {
    for row in rows.iter_mut().filter(|row| row.registers.len() > 1) {
        let first = row.registers[0].name();
        row.name = format!("{}n{}", first.stem, first.tail);
        row.address = addresses(&row.registers);
    }
    rows
}

/// Where a field of several counters is, by the counter's number.
fn places(members: &[&FieldSpec]) -> String {
    let one = |field: &FieldSpec| match field.low == field.high {
        true => field.low.to_string(),
        false => format!("{}-{}", field.low, field.high),
    };
    if let [only] = members {
        return one(only);
    }
    let numbers: Vec<(u64, u64)> =
        members.iter().map(|field| (field.index.unwrap_or_default().into(), field.low.into())).collect();
    let width = members.first().map_or(0, |field| field.high - field.low);
    let line = |run: &LinearValues| match width {
        0 => run.to_string(),
        _ => format!("{} to {}", run.formula(0), run.formula(width.into())) + &run.range(),
    };
    lines(&numbers).iter().map(line).collect::<Vec<_>>().join(", ")
}

fn addresses(registers: &[Register]) -> String {
    let place = |register: &Register| Some((register.name().index?.into(), register.address()?));
    let places: Vec<(u64, RegisterAddress)> = registers.iter().filter_map(place).collect();
    let number = |(n, address): &(u64, RegisterAddress)| Some((*n, address.number()?));
    let numbers: Option<Vec<(u64, u64)>> = places.iter().map(number).collect();
    match numbers {
        Some(numbers) => {
            let hex = |line: &LinearValues| LinearValues { is_hex: true, ..*line }.to_string();
            lines(&numbers).iter().map(hex).collect::<Vec<_>>().join(", ")
        }
        None => encodings(&places),
    }
}

/// The encodings of system registers: each of a few, the first and the last of many.
fn encodings(places: &[(u64, RegisterAddress)]) -> String {
    const FEW: usize = 10;
    match (places.first(), places.last()) {
        (Some((from, first)), Some((to, last))) if places.len() > FEW => {
            format!("{first} to {last} (n = {from}-{to})")
        }
        _ => {
            let all: Vec<String> = places.iter().map(|(_, address)| address.to_string()).collect();
            let numbers: Vec<String> = places.iter().map(|(n, _)| n.to_string()).collect();
            format!("{} (n = {})", all.join(", "), numbers.join(", "))
        }
    }
}

/// Values that grow evenly with a number: `base + step * n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LinearValues {
    from: u64,
    to: u64,
    at: u64,
    step: u64,
    is_hex: bool,
}

impl LinearValues {
    /// The value for `n`, and `more`.
    fn formula(&self, more: u64) -> String {
        let n = match self.step {
            1 => "n".to_owned(),
            step => format!("{step}n"),
        };
        let (at, before) = (self.at + more, self.step * self.from);
        let shown = |base: u64| if self.is_hex { format!("{base:#x}") } else { base.to_string() };
        match at.checked_sub(before) {
            Some(0) => n,
            Some(base) => format!("{}+{n}", shown(base)),
            None => format!("{n}-{}", shown(before - at)),
        }
    }

    fn range(&self) -> String {
        if self.from == self.to {
            format!(" (n = {})", self.from)
        } else {
            format!(" (n = {}-{})", self.from, self.to)
        }
    }
}

impl fmt::Display for LinearValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.formula(0), self.range())
    }
}

/// Divides pairs of a number and a value into lines; numbers grow by 1 within each.
fn lines(pairs: &[(u64, u64)]) -> Vec<LinearValues> {
    let mut lines: Vec<LinearValues> = Vec::new();
    for (n, at) in pairs.iter().copied() {
        match lines.last_mut() {
            Some(line) if line.from == line.to && n == line.to + 1 && at > line.at => {
                (line.to, line.step) = (n, at - line.at);
            }
            Some(line) if n == line.to + 1 && at == line.at + line.step * (n - line.from) => line.to = n,
            _ => lines.push(LinearValues { from: n, to: n, at, step: 1, is_hex: false }),
        }
    }
    lines
}

/// The bits that a driver may write, for people: `all bits`, `bits 0-7, 12`.
pub fn access_text(access: Option<Access>) -> String {
    match access {
        None => "none".to_owned(),
        Some(Access::Read) => "read".to_owned(),
        Some(Access::Write { bits: u64::MAX }) => "read, write".to_owned(),
        Some(Access::Write { bits }) => {
            let run = |BitRange(low, high): BitRange| match low == high {
                true => low.to_string(),
                false => format!("{low}-{high}"),
            };
            let runs: Vec<String> = crate::field::runs(bits).map(run).collect();
            let noun = if bits.count_ones() == 1 { "bit" } else { "bits" };
            format!("read, write {noun} {}", runs.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{chips, m1, m3, neoverse, skylake, zen4};

    fn found<'t>(table: &'t [RegisterRow], name: &str) -> &'t RegisterRow {
        table.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}"))
    }

    fn bits<'t>(row: &'t RegisterRow, name: &str) -> &'t str {
        &row.fields.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("{name}")).bits
    }

    #[test]
    fn registers_and_fields_that_differ_in_their_number_are_one_row() {
        let table = register_table(&skylake());
        assert_eq!(found(&table, "IA32_PERFEVTSELn").address, "0x186+n (n = 0-7)");
        assert_eq!(found(&table, "IA32_FIXED_CTRn").address, "0x309+n (n = 0-2)");
        let control = found(&table, "IA32_FIXED_CTR_CTRL");
        assert_eq!(
            (bits(control, "OS_FIXEDn"), bits(control, "PMI_FIXEDn")),
            ("4n (n = 0-2)", "3+4n (n = 0-2)")
        );
        let global = found(&table, "IA32_PERF_GLOBAL_CTRL");
        assert_eq!(bits(global, "EN_FIXED_CTRn"), "32+n (n = 0-2)");
        assert_eq!(found(&register_table(&zen4()), "PERF_CTRn").address, "0xc0010201+2n (n = 0-5)");
    }

    #[test]
    fn fields_of_apple_are_split_behind_the_eighth_counter() {
        let table = register_table(&m1());
        let control = found(&table, "PMCR0");
        assert_eq!(bits(control, "EN_PMCn"), "n (n = 0-7), 24+n (n = 8-9)");
        assert_eq!(bits(control, "PMI_EN_PMCn"), "12+n (n = 0-7), 36+n (n = 8-9)");
        assert_eq!(bits(found(&table, "PMESR0"), "EVENT_PMCn"), "8n-16 to 8n-9 (n = 2-5)");
        assert_eq!(bits(found(&register_table(&m3()), "PMESR1"), "EVENT_PMCn"), "16n-96 to 16n-81 (n = 6-9)");
        let counters = &found(&table, "PMCn").address;
        assert!(
            counters
                .ends_with("S3_2_C15_C7_0, S3_2_C15_C9_0, S3_2_C15_C10_0 (n = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)")
        );
        let types = register_table(&Chip { counters: ChipCounters::of(arm::ALL_COUNTERS), ..neoverse() });
        let types = &found(&types, "PMEVTYPERn_EL0").address;
        assert_eq!(types, "S3_3_C14_C12_0 to S3_3_C14_C15_6 (n = 0-30)");
    }

    #[test]
    fn a_family_has_what_any_of_its_versions_has() {
        let table = family_table(Family::Intel);
        let select = found(&table, "IA32_PERFEVTSELn");
        let presence = |name: &str| {
            let field = select.fields.iter().find(|field| field.name == name);
            field.unwrap_or_else(|| panic!("{name}")).presence.as_str()
        };
        assert_eq!(presence("ANY"), "version 3 to 4");
        assert_eq!(presence("UMASK2"), "from version 6 on");
        assert_eq!(presence("EVENT"), "");
        let apple = family_table(Family::Apple);
        let counter: Vec<_> = found(&apple, "PMCn").fields.iter().map(|f| (&*f.bits, &*f.presence)).collect();
        let later = "A15, M2, A16, M3 and later";
        assert_eq!(counter, [("0-46", "A14, M1"), ("0-62", later), ("47", "A14, M1"), ("63", later)]);
    }

    #[test]
    fn every_row_has_a_meaning_and_a_source_and_every_register_is_in_one() {
        let of_chips = chips().map(|chip| (register_table(&chip), Register::all(&chip).len()));
        let families = Family::ALL.map(|family| (family_table(family), 0));
        for (table, registers) in of_chips.into_iter().chain(families) {
            let listed: usize = table.iter().map(|row| row.registers.len()).sum();
            assert!(registers == 0 || registers == listed);
            for row in table {
                assert!(!row.source.is_empty(), "{}", row.name);
                for field in &row.fields {
                    let told = [field.meaning, field.source, &field.bits].iter().all(|text| !text.is_empty());
                    assert!(told, "{} {}", row.name, field.name);
                }
            }
        }
    }

    #[test]
    fn what_may_be_written_is_told_by_its_bits() {
        assert_eq!(access_text(None), "none");
        assert_eq!(access_text(Some(Access::Read)), "read");
        assert_eq!(access_text(Some(Access::ALL)), "read, write");
        assert_eq!(access_text(Some(Access::Write { bits: 1 << 12 })), "read, write bit 12");
        assert_eq!(access_text(Some(Access::Write { bits: 0x10f0 })), "read, write bits 4-7, 12");
    }
}
