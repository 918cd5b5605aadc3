//! YAML as a tree of values that know their position.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::ConfigError;

/// How deep values may be nested; no key has deeper ones.
const DEEPEST: usize = 16;

/// A value and its position.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PlacedValue {
    /// Line, from 1.
    pub(super) line: usize,
    /// Column, from 1.
    pub(super) column: usize,
    pub(super) content: YamlContent,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum YamlContent {
    Word { text: String, quoted: bool },
    List(Vec<PlacedValue>),
    Mapping(Vec<YamlEntry>),
}

/// A key with its value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct YamlEntry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) value: PlacedValue,
}

impl PlacedValue {
    /// Whether nothing stands there.
    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.content, YamlContent::Word { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }
}

/// Reads one document; `None` for an empty one.
pub(super) fn parse(text: &str) -> Result<Option<PlacedValue>, ConfigError> {
    let mut reader = TreeReader { events: Parser::new_from_str(text) };
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(None),
            (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
            (event, span) => {
                let value = reader.value(event, span, 0)?;
                return match reader.rest()? {
                    None => Ok(Some(value).filter(|value| !value.is_empty())),
                    Some(span) => Err(at(span, "the file has a second document; one is read")),
                };
            }
        }
    }
}

fn at(span: Span, message: impl Into<String>) -> ConfigError {
    ConfigError { line: span.start.line(), column: span.start.col() + 1, message: message.into() }
}

struct TreeReader<'a> {
    events: Parser<'a, StrInput<'a>>,
}

impl<'a> TreeReader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), ConfigError> {
        let no_yaml = |error: ScanError| ConfigError {
            line: error.marker().line(),
            column: error.marker().col() + 1,
            message: format!("this is no YAML: {}", error.info()),
        };
        match self.events.next() {
            Some(event) => event.map_err(no_yaml),
            None => {
                let message = "the file ends in the middle of a value".to_owned();
                Err(ConfigError { line: 0, column: 0, message })
            }
        }
    }

    /// The start of a second document, if there is one.
    fn rest(&mut self) -> Result<Option<Span>, ConfigError> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(None),
                (Event::DocumentEnd, _) => {}
                (_, span) => return Ok(Some(span)),
            }
        }
    }

    fn value(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<PlacedValue, ConfigError> {
        let content = match event {
            Event::Scalar(text, style, ..) => {
                YamlContent::Word { text: text.into_owned(), quoted: style != ScalarStyle::Plain }
            }
            Event::SequenceStart(..) if depth < DEEPEST => YamlContent::List(self.list(depth)?),
            Event::MappingStart(..) if depth < DEEPEST => YamlContent::Mapping(self.mapping(depth)?),
            Event::Alias(_) => return Err(at(span, "aliases are not read here: write the value out")),
            _ => return Err(at(span, "this is nested too deeply")),
        };
        Ok(PlacedValue { line: span.start.line(), column: span.start.col() + 1, content })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<PlacedValue>, ConfigError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.value(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Vec<YamlEntry>, ConfigError> {
        let mut entries: Vec<YamlEntry> = Vec::new();
        loop {
            let (key, span) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(entries),
                (Event::Scalar(key, ..), span) => (key.into_owned(), span),
                (_, span) => return Err(at(span, "a key must be a word")),
            };
            if entries.iter().any(|entry| entry.key == key) {
                return Err(at(span, format!("the key '{}' is there twice", key.escape_debug())));
            }
            let (event, value_span) = self.next()?;
            let value = self.value(event, value_span, depth + 1)?;
            let (line, column) = (span.start.line(), span.start.col() + 1);
            entries.push(YamlEntry { key, line, column, value });
        }
    }
}
