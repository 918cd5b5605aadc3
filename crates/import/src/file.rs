//! Event files that users give: whatever it is, a table.

use cyclometer_catalog::cpus;
use cyclometer_catalog::table::text::FIRST_LINE;
use cyclometer_catalog::table::{Cpu, CpuTable};
use serde_json::Value;

use crate::error::{ImportError, ImportResult};
use crate::file_format::FileFormat;
use crate::file_table::{FileDescription, shown};
use crate::{arm, json, kpep};

/// The formats that are read, for messages.
pub const FORMATS: &str = "cyclometer's own tables, Intel's perfmon JSON, Linux's pmu-events JSON, Arm's JSON \
                           (ARM-software/data and telemetry), Apple's kpep property lists";

/// Reads an event file of any known format, found out from its first bytes and keys.
///
/// `name` is the file's, for messages and as the table's source. `cpu` is an id of the catalogue, whose
/// counters and widths the table then has, or a new one; without it the table is named after what the file
/// says, or after the file. The events keep the file's descriptions.
///
/// # Errors
///
/// A text that is no such file, or is truncated, too large or nested too deep; a field that is none or does
/// not fit: with the format, the event and the field. A Linux file that could be of several families needs
/// `cpu`.
pub fn read_file(bytes: &[u8], name: &str, cpu: Option<&str>) -> ImportResult<CpuTable> {
    let cpu = cpu.map(cpu_id).transpose()?;
    let about = FileDescription { name, cpu: cpu.as_deref() };
    let value = match start_of(bytes) {
        Some(Start::Format(format)) => return about.read(format, bytes, &Value::Null),
        Some(Start::Json) => json::parse(bytes).map_err(|error| about.error("JSON", error))?,
        None => return Err(ImportError::at(shown(name), unknown_file(bytes))),
    };
    match format_of(&value) {
        Some(format) => about.read(format, bytes, &value),
        None => Err(ImportError::at(shown(name), format!("JSON, but no list of events; read are {FORMATS}"))),
    }
}

/// The id that the user gave.
fn cpu_id(id: &str) -> ImportResult<String> {
    if json::event_name(id).is_err() {
        return Err(ImportError::file(format!("'{}' is no id of a CPU", json::shown(id))));
    }
    let cores: Vec<&str> = cpus::core_types(id).iter().map(Cpu::id).collect();
    match cores.as_slice() {
        [_, _, ..] => Err(ImportError::file(format!("{id} has several core types: {}", cores.join(", ")))),
        [core] => Ok((*core).to_owned()),
        [] => Ok(id.to_ascii_lowercase()),
    }
}

enum Start {
    Format(FileFormat),
    Json,
}

fn start_of(bytes: &[u8]) -> Option<Start> {
    let trimmed = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
    let ours = FIRST_LINE.split(' ').next().unwrap_or(FIRST_LINE).as_bytes();
    match trimmed.first() {
        _ if kpep::is_plist(bytes) => Some(Start::Format(FileFormat::Kpep)),
        _ if trimmed.starts_with(ours) => Some(Start::Format(FileFormat::Ours)),
        Some(b'{' | b'[') => Some(Start::Json),
        _ => None,
    }
}

fn unknown_file(bytes: &[u8]) -> String {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    match bytes.is_empty() {
        true => format!("the file is empty; read are {FORMATS}"),
        false => {
            format!("a file that starts with '{}' is no event file; read are {FORMATS}", json::shown(&start))
        }
    }
}

fn format_of(value: &Value) -> Option<FileFormat> {
    let file = match value {
        Value::Array(_) => return Some(FileFormat::Linux),
        Value::Object(file) => file,
        _ => return None,
    };
    if arm::is_data(file) {
        Some(FileFormat::ArmData)
    } else if arm::is_telemetry(file) {
        Some(FileFormat::ArmTelemetry)
    } else {
        file.contains_key("Events").then_some(FileFormat::Intel)
    }
}
