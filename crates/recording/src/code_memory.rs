//! Changes of executable memory as JSON.

use cyclometer_core::code_memory::{CodeMapping, CodeMemoryChange};
use serde_json::{Value, json};

use crate::MOST_TEXT;
use crate::bytes::cut;
use crate::json::{FieldProblem, JsonFields, parse};

/// Changes in one frame: less than a frame can have, whatever the length of their paths.
pub(crate) const CHANGES_PER_FRAME: usize = 256;

pub(crate) fn to_payload(changes: &[CodeMemoryChange]) -> Vec<u8> {
    let changes: Vec<Value> = changes.iter().map(to_json).collect();
    json!({ "changes": changes }).to_string().into_bytes()
}

fn to_json(change: &CodeMemoryChange) -> Value {
    match change {
        CodeMemoryChange::Mapped(CodeMapping { pid, start, len, offset, file }) => json!({
            "pid": pid, "start": start, "length": len, "offset": offset, "file": cut(file, MOST_TEXT),
        }),
        CodeMemoryChange::Forked { pid, parent } => json!({ "pid": pid, "parent": parent }),
        CodeMemoryChange::Executed { pid } => json!({ "pid": pid }),
    }
}

pub(crate) fn from_payload(payload: &[u8]) -> Result<Vec<CodeMemoryChange>, FieldProblem> {
    let value = parse(payload)?;
    JsonFields::of(&value, "a list of mappings")?.list("changes", from_json)
}

fn from_json(value: &Value) -> Result<CodeMemoryChange, FieldProblem> {
    let fields = JsonFields::of(value, "a mapping")?;
    let pid = fields.number_u32("pid")?;
    if let Some(file) = fields.text_or_none("file")? {
        if file.len() > MOST_TEXT {
            return Err("the path of a mapping is too long".to_owned());
        }
        let (start, len) = (fields.number("start")?, fields.number("length")?);
        let offset = fields.number("offset")?;
        return Ok(CodeMemoryChange::Mapped(CodeMapping { pid, start, len, offset, file }));
    }
    Ok(match fields.value("parent") {
        Some(_) => CodeMemoryChange::Forked { pid, parent: fields.number_u32("parent")? },
        None => CodeMemoryChange::Executed { pid },
    })
}
