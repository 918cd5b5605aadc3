//! Counts in the JSON of a footer.

use cyclometer_core::{Count, Interval, NoInterval};
use serde_json::{Value, json};

use crate::json::{FieldProblem, JsonFields};

/// A count as JSON; `None` if it is of a kind that the format does not have.
pub(crate) fn to_json(count: &Count) -> Option<Value> {
    let mut value = json!({ "count": count.verdict().word() });
    let mut set = |field: &str, content: Value| value[field] = content;
    match count {
        Count::Exact(number) => set("value", (*number).into()),
        Count::Scaled { raw, estimate, time_enabled_ns, time_running_ns, interval } => {
            set("raw", (*raw).into());
            set("estimate", (*estimate).into());
            set("enabled_ns", (*time_enabled_ns).into());
            set("running_ns", (*time_running_ns).into());
            match interval {
                Interval::Known { half_width, concentrated } => {
                    set("half_width", (*half_width).into());
                    set("concentrated", (*concentrated).into());
                }
                Interval::Unknown { reason } => set("no_interval", reason.to_string().into()),
                _ => return None,
            }
        }
        Count::Partial { raw, part } => {
            set("raw", (*raw).into());
            set("part", part.to_string().into());
        }
        Count::NotCounted { reason } | Count::NotSupported { reason } | Count::Lost { reason } => {
            set("reason", reason.to_string().into());
        }
        _ => return None,
    }
    Some(value)
}

/// The count of such JSON.
pub(crate) fn from_json(value: &Value) -> Result<Count, FieldProblem> {
    let fields = JsonFields::of(value, "a count")?;
    Ok(match fields.text("count")?.as_str() {
        "exact" => Count::Exact(fields.number("value")?),
        "scaled" => Count::Scaled {
            raw: fields.number("raw")?,
            estimate: fields.number("estimate")?,
            time_enabled_ns: fields.number("enabled_ns")?,
            time_running_ns: fields.number("running_ns")?,
            interval: interval(fields)?,
        },
        "partial" => Count::Partial { raw: fields.number("raw")?, part: fields.text("part")?.into() },
        "not_counted" => Count::NotCounted { reason: fields.text("reason")?.into() },
        "not_supported" => Count::NotSupported { reason: fields.text("reason")?.into() },
        "lost" => Count::Lost { reason: fields.text("reason")?.into() },
        _ => return Err("a count is of an unknown kind".to_owned()),
    })
}

fn interval(fields: JsonFields<'_>) -> Result<Interval, FieldProblem> {
    let concentrated = fields.value("concentrated").and_then(Value::as_bool).unwrap_or_default();
    Ok(match fields.number_or_none("half_width")? {
        Some(half_width) => Interval::Known { half_width, concentrated },
        None => Interval::Unknown { reason: NoInterval::Reported(fields.text("no_interval")?) },
    })
}
