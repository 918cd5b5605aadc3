//! JSON of strangers: limits first, then values, then fields with the record's name in every error.

use serde_json::{Map, Value};

use crate::error::{ImportError, ImportResult};

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// The deepest nesting of arrays and objects. Real event files have four levels.
pub const MAX_DEPTH: usize = 32;

/// The most values in a file. The largest real file has some 100,000; each can take some 100 bytes of memory.
pub const MAX_VALUES: usize = 1_000_000;

/// The longest text of one field that is looked at, in bytes.
pub const MAX_TEXT: usize = 64 << 10;

/// Reads a file as JSON.
///
/// # Errors
///
/// A file above the limits, one that is no JSON (with line and column), one that ends too early.
pub fn parse(bytes: &[u8]) -> ImportResult<Value> {
    if bytes.len() > MAX_BYTES {
        return Err(ImportError::file(format!("{} bytes; at most {MAX_BYTES} are read", bytes.len())));
    }
    limits(bytes)?;
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|error| ImportError::file(format!("no JSON: {error}")))
}

/// Counts before anything is built: nesting, and commas and brackets as a measure of values.
fn limits(bytes: &[u8]) -> ImportResult<()> {
    let (mut depth, mut values, mut quoted, mut escaped) = (0usize, 0usize, false, false);
    for &byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => (depth, values) = (depth + 1, values + 1),
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(ImportError::file(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        if values > MAX_VALUES {
            return Err(ImportError::file(format!("more than {MAX_VALUES} values")));
        }
    }
    Ok(())
}

/// One object of a list of events, with the name that its errors carry.
#[derive(Clone, Copy)]
pub struct JsonRecord<'a> {
    name: &'a str,
    fields: &'a Map<String, Value>,
}

impl<'a> JsonRecord<'a> {
    /// The `position`th object (from 0) of a list; its name is the text of the field `key`.
    ///
    /// # Errors
    ///
    /// A value that is no object, has no such field, or has a name that is empty, long or not printable.
    pub fn new(value: &'a Value, key: &str, position: usize) -> ImportResult<JsonRecord<'a>> {
        let place = || format!("entry {}", position + 1);
        let fields = value.as_object().ok_or_else(|| ImportError::at(place(), "is no object"))?;
        let name = fields.get(key).and_then(Value::as_str).map(str::trim);
        let name = name.ok_or_else(|| ImportError::at(place(), format!("has no {key}")))?;
        let name = event_name(name).map_err(|error| ImportError::at(place(), error.message))?;
        Ok(JsonRecord { name, fields })
    }

    /// An object that has its name elsewhere: the key under which it stands, or its place.
    ///
    /// # Errors
    ///
    /// A value that is no object.
    pub fn named(name: &'a str, value: &'a Value) -> ImportResult<JsonRecord<'a>> {
        let fields = value.as_object().ok_or_else(|| ImportError::at(shown(name), "is no object"))?;
        Ok(JsonRecord { name, fields })
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Whether it has the field at all.
    pub fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// The field as it stands.
    pub fn value(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field)
    }

    /// The field's text without outer spaces; empty where there is none, or null.
    ///
    /// # Errors
    ///
    /// A value that is no text, or a text that is too long.
    pub fn text(&self, field: &str) -> ImportResult<&'a str> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) if text.len() <= MAX_TEXT => Ok(text.trim()),
            Some(Value::String(text)) => {
                Err(self.error(field, format!("{} bytes; at most {MAX_TEXT}", text.len())))
            }
            Some(_) => Err(self.error(field, "is no text")),
        }
    }

    /// The field as a number, written as one or as text, decimal or with `0x`; 0 where there is none.
    ///
    /// # Errors
    ///
    /// A value that is no number, or more than `most`.
    pub fn number(&self, field: &str, most: u64) -> ImportResult<u64> {
        let number = match self.fields.get(field) {
            Some(Value::Number(number)) => number
                .as_u64()
                .ok_or_else(|| self.error(field, format!("{number} is no whole number from 0")))?,
            _ => self.parse(field, self.text(field)?)?,
        };
        self.at_most(field, number, most)
    }

    /// The field as a number that must be there.
    ///
    /// # Errors
    ///
    /// No such field, null or an empty text; else as [`JsonRecord::number`].
    pub fn required(&self, field: &str, most: u64) -> ImportResult<u64> {
        let is_number = matches!(self.fields.get(field), Some(Value::Number(_)));
        if !is_number && self.text(field)?.is_empty() {
            return Err(self.error(field, "is missing"));
        }
        self.number(field, most)
    }

    /// The field's numbers, separated by commas; empty where there is none.
    ///
    /// # Errors
    ///
    /// A value that is no list of numbers, has an empty place between two commas, or a number of more than
    /// `most`.
    pub fn numbers(&self, field: &str, most: u64) -> ImportResult<Vec<u64>> {
        if matches!(self.fields.get(field), Some(Value::Number(_))) {
            return Ok(vec![self.number(field, most)?]);
        }
        let list = self.text(field)?.trim_end_matches(',');
        let items = list.split(',').map(str::trim).filter(|_| !list.is_empty());
        items
            .map(|item| match item {
                "" => Err(self.error(field, format!("'{}' has a place without a number", shown(list)))),
                item => self.at_most(field, self.parse(field, item)?, most),
            })
            .collect()
    }

    /// Whether the field says yes, which is 1; absent, empty and 0 are no.
    ///
    /// # Errors
    ///
    /// A value that is no number, or another one.
    pub fn flag(&self, field: &str) -> ImportResult<bool> {
        match self.number(field, u64::MAX)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.error(field, format!("{other:#x} is neither 0 nor 1"))),
        }
    }

    /// An error in one of its fields.
    pub fn error(&self, field: &str, message: impl Into<String>) -> ImportError {
        ImportError::at(format!("{}, {field}", self.name), message)
    }

    fn parse(&self, field: &str, text: &str) -> ImportResult<u64> {
        if text.is_empty() {
            return Ok(0);
        }
        let number = cyclometer_core::syntax::parse_number(text);
        number.ok_or_else(|| self.error(field, format!("'{}' is no number", shown(text))))
    }

    fn at_most(&self, field: &str, number: u64, most: u64) -> ImportResult<u64> {
        let fits = number <= most;
        if fits { Ok(number) } else { Err(self.error(field, format!("{number:#x} is more than {most:#x}"))) }
    }
}

/// The name, if it can be one of an event: neither empty nor long, and printable.
///
/// # Errors
///
/// A value that is no name.
pub fn event_name(name: &str) -> ImportResult<&str> {
    let fits = !name.is_empty() && name.len() <= cyclometer_catalog::table::text::MAX_NAME;
    if fits && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(name)
    } else {
        Err(ImportError::file(format!("'{}' is no name", shown(name))))
    }
}

/// The start of a text that may be long or not printable.
pub fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8], expected: &str) {
        let error = parse(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_is_truncated_or_no_json_is_refused_with_its_place() {
        refused(b"", "no JSON: EOF");
        refused(b"{\"Events\": [{\"EventName\": \"A", "EOF while parsing a string");
        refused(b"{\"Events\": [\n  {},\n  x]}", "line 3 column 3");
        refused(b"\xff\xfe", "no JSON");
    }

    #[test]
    fn nesting_has_a_limit_and_brackets_in_texts_do_not_count() {
        refused(&b"[".repeat(MAX_DEPTH + 1), "nested deeper");
        refused(&b"[".repeat(10_000_000), "nested deeper");
        let text = format!("[\"{}\\\"[[[\"]", "[".repeat(1000));
        assert!(parse(text.as_bytes()).is_ok());
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert!(parse(deep.as_bytes()).is_ok());
    }

    #[test]
    fn the_number_of_values_and_of_bytes_has_a_limit() {
        refused(&b"0,".repeat(MAX_VALUES + 1), "more than 1000000 values");
        refused(&vec![b' '; MAX_BYTES + 1], "bytes; at most");
    }

    #[test]
    fn numbers_come_in_every_form_and_errors_name_event_and_field() {
        let value = parse(br#"{"EventName": "A.B", "a": "0X1f", "b": 7, "c": " 12 ", "d": "x", "e": [], "f": -1, "g": "0xB7, 0xbb", "h": null}"#)
            .unwrap();
        let record = JsonRecord::new(&value, "EventName", 0).unwrap();
        assert_eq!(record.number("a", 255), Ok(31));
        assert_eq!(record.number("b", 255), Ok(7));
        assert_eq!(record.number("c", 255), Ok(12));
        assert_eq!(record.number("h", 255), Ok(0));
        assert_eq!(record.number("none", 255), Ok(0));
        assert_eq!(record.numbers("g", 255), Ok(vec![0xb7, 0xbb]));
        assert_eq!(record.numbers("none", 255), Ok(vec![]));
        assert_eq!(record.number("a", 30).unwrap_err().to_string(), "A.B, a: 0x1f is more than 0x1e");
        assert_eq!(record.number("d", 30).unwrap_err().to_string(), "A.B, d: 'x' is no number");
        assert_eq!(record.number("e", 30).unwrap_err().to_string(), "A.B, e: is no text");
        assert!(record.number("f", 30).unwrap_err().to_string().contains("-1 is no whole number"));
    }

    #[test]
    fn what_must_be_there_is_missing_in_four_ways() {
        let value = parse(br#"{"a": 0, "b": "0x0", "c": null, "d": "", "e": " "}"#).unwrap();
        let record = JsonRecord::named("A", &value).unwrap();
        assert_eq!((record.required("a", 1), record.required("b", 1)), (Ok(0), Ok(0)));
        for field in ["c", "d", "e", "f"] {
            let error = record.required(field, 1).unwrap_err().to_string();
            assert_eq!(error, format!("A, {field}: is missing"));
        }
    }

    #[test]
    fn a_flag_is_0_or_1_and_a_list_has_no_holes() {
        let value = parse(br#"{"a": "1", "b": "0", "c": 1, "d": "7", "e": "1,,2", "f": "1, 2,"}"#).unwrap();
        let record = JsonRecord::named("A", &value).unwrap();
        let flags = ["a", "b", "c", "none"].map(|field| record.flag(field).unwrap());
        assert_eq!(flags, [true, false, true, false]);
        assert_eq!(record.flag("d").unwrap_err().to_string(), "A, d: 0x7 is neither 0 nor 1");
        assert_eq!(
            record.numbers("e", 9).unwrap_err().to_string(),
            "A, e: '1,,2' has a place without a number"
        );
        assert_eq!(record.numbers("f", 9), Ok(vec![1, 2]));
    }

    #[test]
    fn a_record_needs_a_printable_name() {
        let check = |text: &str, expected: &str| {
            let value = parse(text.as_bytes()).unwrap();
            let error = JsonRecord::new(&value, "EventName", 4).err().unwrap().to_string();
            assert_eq!(error, expected);
        };
        check("7", "entry 5: is no object");
        check("{}", "entry 5: has no EventName");
        check(r#"{"EventName": ""}"#, "entry 5: '' is no name");
        check(r#"{"EventName": "a b"}"#, "entry 5: 'a b' is no name");
        check(r#"{"EventName": "a\u001bb"}"#, "entry 5: 'a\\u{1b}b' is no name");
    }
}
