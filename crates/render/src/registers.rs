//! Registers with their fields, for people and as JSON.

use cyclometer_toolkit::arch::{
    Access, FieldKind, FieldRow, FieldSpec, PmuReg, Register, RegisterRow, access_text, layout, register_row,
    register_table,
};
use cyclometer_toolkit::catalogue::select::chip;
use cyclometer_toolkit::catalogue::table::Cpu;
use serde_json::{Value, json};

use crate::paint::{Paint, Style};
use crate::{columns, hanging};

/// Every register that the CPUs can have.
pub fn all<'a>(cpus: &[Cpu<'a>]) -> Vec<(Cpu<'a>, Register)> {
    let of = |cpu: &Cpu<'a>| {
        let cpu = *cpu;
        Register::all(&chip(&cpu)).into_iter().map(move |register| (cpu, register))
    };
    cpus.iter().flat_map(of).collect()
}

/// The registers of each CPU, those together that differ in their number only.
pub fn tables(cpus: &[Cpu<'_>], paint: Paint) -> String {
    let of = |cpu: &Cpu<'_>| -> String {
        register_table(&chip(cpu)).iter().map(|row| entry(cpu, row, paint)).collect()
    };
    cpus.iter().map(of).collect()
}

/// Single registers.
pub fn single(found: &[(Cpu<'_>, Register)], paint: Paint) -> String {
    found.iter().map(|(cpu, register)| entry(cpu, &register_row(&chip(cpu), *register), paint)).collect()
}

fn entry(cpu: &Cpu<'_>, row: &RegisterRow, paint: Paint) -> String {
    let mut out = format!("{}  on {}\n", paint.paint(Style::Heading, &row.name), cpu.id());
    let mut told = |what: &str, text: &str| {
        if !text.is_empty() {
            out += &hanging(&format!("  {what:<12}  "), text, |line| paint.paint(Style::Dim, line));
        }
    };
    told("where", &row.address);
    told("needs", &row.presence);
    told("a driver may", &access_text(row.access));
    told("source", row.source);
    let bits = widest(row.fields.iter().map(|field| field.bits.as_str()), "a driver may");
    let names = widest(row.fields.iter().map(|field| field.name.as_str()), "");
    row.fields.iter().for_each(|field| out += &line(field, bits, names));
    out + "\n"
}

/// The columns that the longest of some texts takes.
fn widest<'t>(texts: impl Iterator<Item = &'t str>, least: &'t str) -> usize {
    texts.chain([least]).map(columns).max().unwrap_or(0)
}

fn line(field: &FieldRow, bits: usize, names: usize) -> String {
    let head = format!("  {:<bits$}  {:<names$}  ", field.bits, field.name);
    let mut text = match field.kind {
        FieldKind::Ignored => format!("means nothing here: {}", field.meaning),
        _ => field.meaning.to_owned(),
    };
    if !field.presence.is_empty() {
        text += &format!(" ({})", field.presence);
    }
    for (value, meaning) in field.values {
        text += &format!("; {value:#x}: {meaning}");
    }
    hanging(&head, &text, str::to_owned)
}

/// An array with an object for each register.
pub fn json(found: &[(Cpu<'_>, Register)]) -> Value {
    Value::Array(found.iter().map(|(cpu, register)| object(cpu, *register)).collect())
}

fn object(cpu: &Cpu<'_>, register: Register) -> Value {
    let chip = chip(cpu);
    let access = PmuReg::of(&chip, register).ok().map(PmuReg::access);
    json!({
        "cpu": cpu.id(),
        "name": register.to_string(),
        "address": register.address().map(|address| address.to_string()),
        "access": match access {
            None => "none",
            Some(Access::Read) => "read",
            Some(Access::Write { .. }) => "write",
        },
        "writable": format!("{:#x}", access.map_or(0, Access::writable)),
        "needs": register.presence().needs.unwrap_or_default(),
        "source": register.source(),
        "fields": layout(&chip, register).iter().map(field_object).collect::<Vec<_>>(),
    })
}

fn field_object(field: &FieldSpec) -> Value {
    let value =
        |(value, meaning): &(u64, &str)| json!({ "value": format!("{value:#x}"), "meaning": meaning });
    json!({
        "high": field.high,
        "low": field.low,
        "name": field.full_name(),
        "counter": field.index,
        "meaning": field.meaning,
        "ignored": field.kind == FieldKind::Ignored,
        "values": field.values.iter().map(value).collect::<Vec<_>>(),
        "needs": field.presence.needs.unwrap_or_default(),
        "source": field.source,
    })
}
