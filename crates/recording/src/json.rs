//! JsonFields of JSON objects, with errors that name them.

use serde_json::{Map, Value};

/// A contradiction to the format, with the name of the field.
pub(crate) type FieldProblem = String;

const KNOWN_WORD: &str = "word that this version knows";

/// A JSON object that is being read, and its name for errors.
#[derive(Clone, Copy)]
pub(crate) struct JsonFields<'a> {
    name: &'static str,
    map: &'a Map<String, Value>,
}

/// The most values of a JSON payload: each takes two bytes in a file, and some tens in memory. A command has
/// fewer arguments by far.
const MOST_JSON_VALUES: usize = 1 << 18;

/// Parses a payload, which is one JSON object.
pub(crate) fn parse(payload: &[u8]) -> Result<Value, FieldProblem> {
    check(payload)?;
    serde_json::from_slice(payload).map_err(|error| format!("it is not valid JSON ({error})"))
}

/// Refuses a payload with too many values, before memory is allocated for them.
pub(crate) fn check(payload: &[u8]) -> Result<(), FieldProblem> {
    let (mut values, mut is_text, mut is_escaped) = (0, false, false);
    for byte in payload {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => values += 1,
            _ => {}
        }
    }
    match values > MOST_JSON_VALUES {
        true => Err(format!("it has {values} JSON values; {MOST_JSON_VALUES} are possible")),
        false => Ok(()),
    }
}

impl<'a> JsonFields<'a> {
    pub(crate) fn of(value: &'a Value, name: &'static str) -> Result<JsonFields<'a>, FieldProblem> {
        let map = value.as_object().ok_or_else(|| format!("{name} is no object"))?;
        Ok(JsonFields { name, map })
    }

    fn wrong(&self, field: &str, wanted: &str) -> FieldProblem {
        format!("'{field}' of {} is no {wanted}", self.name)
    }

    /// A field; `None` if it is missing or null.
    pub(crate) fn value(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    fn optional<T>(
        &self,
        field: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, FieldProblem> {
        let value = self.value(field);
        value.map(|value| read(value).ok_or_else(|| self.wrong(field, wanted))).transpose()
    }

    pub(crate) fn text_or_none(&self, field: &str) -> Result<Option<String>, FieldProblem> {
        self.optional(field, "text", |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn text(&self, field: &str) -> Result<String, FieldProblem> {
        self.text_or_none(field)?.ok_or_else(|| self.wrong(field, "text"))
    }

    pub(crate) fn number_or_none(&self, field: &str) -> Result<Option<u64>, FieldProblem> {
        self.optional(field, "number", Value::as_u64)
    }

    pub(crate) fn number(&self, field: &str) -> Result<u64, FieldProblem> {
        self.number_or_none(field)?.ok_or_else(|| self.wrong(field, "number"))
    }

    pub(crate) fn number_u32(&self, field: &str) -> Result<u32, FieldProblem> {
        u32::try_from(self.number(field)?).map_err(|_| self.wrong(field, "number of 32 bits"))
    }

    pub(crate) fn signed_or_none(&self, field: &str) -> Result<Option<i32>, FieldProblem> {
        self.optional(field, "number of 32 bits", |value| i32::try_from(value.as_i64()?).ok())
    }

    /// One of several values, by its word.
    pub(crate) fn word<T: Copy>(
        &self,
        field: &str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<T, FieldProblem> {
        self.word_or_none(field, all, word)?.ok_or_else(|| self.wrong(field, KNOWN_WORD))
    }

    pub(crate) fn word_or_none<T: Copy>(
        &self,
        field: &str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, FieldProblem> {
        let find = |value: &Value| all.iter().copied().find(|one| Some(word(*one)) == value.as_str());
        self.optional(field, KNOWN_WORD, find)
    }

    /// The elements of an array; none if it is missing.
    pub(crate) fn list<T>(
        &self,
        field: &str,
        read: impl FnMut(&'a Value) -> Result<T, FieldProblem>,
    ) -> Result<Vec<T>, FieldProblem> {
        let Some(value) = self.value(field) else { return Ok(Vec::new()) };
        let all = value.as_array().ok_or_else(|| self.wrong(field, "list"))?;
        all.iter().map(read).collect()
    }

    pub(crate) fn texts(&self, field: &str) -> Result<Vec<String>, FieldProblem> {
        self.list(field, |value| {
            value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(field, "list of texts"))
        })
    }
}
