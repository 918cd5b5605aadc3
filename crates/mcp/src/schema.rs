//! The output schemas of the tools: the documents of `schemas/`, each in an envelope.

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

/// A document that the command-line tool prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Document {
    /// `stat --json`.
    Stat,
    /// `compare --export-json`.
    Compare,
    /// `plan --json`.
    Plan,
    /// `list --json`.
    List,
    /// `list --json`, with the encoding of the events.
    Explanation,
    /// `doctor --json`.
    Doctor,
    /// `advise --json`.
    Advice,
}

impl Document {
    /// The schema of the tool's results: the envelope with the document in `report`.
    pub fn envelope(self) -> JsonObject {
        let mut report = read(self.text());
        let definitions = report.as_object_mut().and_then(|report| report.remove("$defs"));
        let mut properties = json!({
            "report": report,
            "exit_status": {
                "type": "integer",
                "description": "Exit status of cyclometer: that of the program, or 124 to 127 for its own reasons."
            },
            "stderr": {
                "type": "object",
                "description": "Standard error of the program and of cyclometer.",
                "required": ["text", "omitted_bytes"],
                "properties": {
                    "text": {"type": "string", "description": "Beginning and end, with a note between them."},
                    "omitted_bytes": {"type": "integer", "minimum": 0}
                }
            },
            "omitted_entries": {
                "type": "integer",
                "minimum": 0,
                "description": "Rows or entries that were left out of the report; arguments of the tool ask for more."
            },
            "command_line": {"type": "string", "description": "The command that gives the report in a shell."}
        });
        if let (Document::Explanation, Some(properties)) = (self, properties.as_object_mut()) {
            properties.insert(
                "encoding".to_owned(),
                json!({
                    "type": ["array", "null"],
                    "description": "The output of `cyclometer encode --json`: codes, registers and their values; null where the event has none."
                }),
            );
        }
        let required = ["report", "exit_status", "stderr", "omitted_entries", "command_line"];
        let mut envelope = Map::new();
        envelope.insert("type".to_owned(), "object".into());
        envelope.insert("required".to_owned(), json!(required));
        envelope.insert("properties".to_owned(), properties);
        envelope.extend(definitions.map(|definitions| ("$defs".to_owned(), definitions)));
        envelope
    }

    fn text(self) -> &'static str {
        match self {
            Document::Stat => include_str!("../schemas/stat-1.json"),
            Document::Compare => include_str!("../schemas/compare-1.json"),
            Document::Plan => include_str!("../schemas/plan-1.json"),
            Document::List | Document::Explanation => include_str!("../schemas/list-1.json"),
            Document::Doctor => include_str!("../schemas/doctor-1.json"),
            Document::Advice => include_str!("../schemas/advise-1.json"),
        }
    }
}

/// A committed schema without the descriptions of plain fields: a client reads the schemas of all tools in
/// each session, and descriptions are half of them.
fn read(text: &str) -> Value {
    let mut schema: Value = serde_json::from_str(text).unwrap_or_default();
    shorten(&mut schema);
    schema
}

fn shorten(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_text =
                |fields: &Map<String, Value>, name: &str| fields.get(name).is_some_and(Value::is_string);
            if is_text(fields, "description") && !fields.contains_key("enum") {
                fields.remove("description");
            }
            for name in ["$schema", "$id", "title"] {
                if is_text(fields, name) {
                    fields.remove(name);
                }
            }
            fields.values_mut().for_each(shorten);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_verdicts_are_described_and_plain_fields_are_not() {
        let envelope = Document::Stat.envelope();
        let verdict = &envelope["$defs"]["verdict"];
        assert!(
            verdict["description"].as_str().is_some_and(|text| text.contains("exact: counted")),
            "{verdict}"
        );
        assert!(envelope["$defs"]["machine"]["properties"]["os"].get("description").is_none());
        assert!(envelope["properties"]["report"].get("$schema").is_none());
        assert!(envelope["properties"]["report"]["properties"]["commands"]["items"]["$ref"].is_string());
    }

    #[test]
    fn a_field_that_is_called_description_stays() {
        let envelope = Document::List.envelope();
        let event = &envelope["$defs"]["host_event"]["properties"];
        assert_eq!(event["description"]["type"], "string", "{event}");
    }
}
