//! Configuration files.

use std::iter::Peekable;

use cyclometer_core::Result;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::keys::{ROOMS, SettingError, WrittenValue, set};
use super::{Config, invalid};

/// The only key of the outermost mapping.
const ROOT: &str = "performance_monitoring";

/// How deep values may be nested; no key has deeper ones.
const DEEPEST: usize = 16;

/// Reads a file's text.
pub(super) fn read(text: &str) -> Result<Config> {
    let mut reader = YamlReader { events: Parser::new_from_str(text).peekable() };
    reader.document().map_err(|Wrong { message, at }| {
        let at = at.map(|span| format!("line {}, column {}: ", span.start.line(), span.start.col() + 1));
        invalid(format!("{}{message}", at.unwrap_or_default()), "the keys are in docs/guides/sdk.md")
    })
}

/// A problem and its position.
struct Wrong {
    message: String,
    at: Option<Span>,
}

impl Wrong {
    fn at(span: Span, message: impl Into<String>) -> Wrong {
        Wrong { message: message.into(), at: Some(span) }
    }
}

impl From<ScanError> for Wrong {
    fn from(error: ScanError) -> Wrong {
        let start = *error.marker();
        Wrong::at(Span { start, end: start }, format!("this is no YAML: {}", error.info()))
    }
}

struct YamlReader<'a> {
    events: Peekable<Parser<'a, StrInput<'a>>>,
}

impl<'a> YamlReader<'a> {
    fn next(&mut self) -> std::result::Result<(Event<'a>, Span), Wrong> {
        match self.events.next() {
            Some(event) => Ok(event?),
            None => Err(Wrong { message: "the file ends in the middle of a value".to_owned(), at: None }),
        }
    }

    fn document(&mut self) -> std::result::Result<Config, Wrong> {
        let mut config = Config::default();
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(config),
                (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
                (Event::MappingStart(..), _) => self.root(&mut config)?,
                (Event::Scalar(text, ..), _) if matches!(&*text, "" | "~" | "null") => {}
                (_, span) => {
                    return Err(Wrong::at(span, format!("here must be a mapping with the key {ROOT}")));
                }
            }
        }
    }

    fn root(&mut self, config: &mut Config) -> std::result::Result<(), Wrong> {
        let mut seen = Vec::new();
        while let Some((key, span)) = self.key(&mut seen)? {
            if key != ROOT {
                let message = format!("there is no key '{}'; there is {ROOT}", key.escape_debug());
                return Err(Wrong::at(span, message));
            }
            match self.next()? {
                (Event::MappingStart(..), _) => self.room("", config)?,
                (Event::Scalar(text, ..), _) if text.is_empty() => {}
                (_, span) => return Err(Wrong::at(span, format!("{ROOT} takes a mapping"))),
            }
        }
        Ok(())
    }

    /// The keys of a mapping whose own path is `room`.
    fn room(&mut self, room: &str, config: &mut Config) -> std::result::Result<(), Wrong> {
        let mut seen = Vec::new();
        while let Some((key, key_span)) = self.key(&mut seen)? {
            let path = if room.is_empty() { key.clone() } else { format!("{room}.{key}") };
            if room.is_empty() && ROOMS.contains(&key.as_str()) {
                match self.next()? {
                    (Event::MappingStart(..), _) => self.room(&path, config)?,
                    (Event::Scalar(text, ..), _) if text.is_empty() => {}
                    (_, span) => return Err(Wrong::at(span, format!("{path} takes a mapping"))),
                }
                continue;
            }
            let (given, span) = self.value(0)?;
            set(config, &path, &given).map_err(|error| {
                let is_of_key = matches!(error, SettingError::UnknownKey(_));
                Wrong::at(if is_of_key { key_span } else { span }, error.to_string())
            })?;
        }
        Ok(())
    }

    /// The next key of a mapping; `None` at its end.
    fn key(&mut self, seen: &mut Vec<String>) -> std::result::Result<Option<(String, Span)>, Wrong> {
        match self.next()? {
            (Event::MappingEnd, _) => Ok(None),
            (Event::Scalar(key, ..), span) if seen.iter().any(|known| *known == *key) => {
                Err(Wrong::at(span, format!("the key '{}' is there twice", key.escape_debug())))
            }
            (Event::Scalar(key, ..), span) => {
                seen.push(key.to_string());
                Ok(Some((key.into_owned(), span)))
            }
            (_, span) => Err(Wrong::at(span, "a key must be a word")),
        }
    }

    fn value(&mut self, depth: usize) -> std::result::Result<(WrittenValue, Span), Wrong> {
        let (event, span) = self.next()?;
        let given = match event {
            Event::Scalar(text, style, ..) => {
                let text = text.into_owned();
                WrittenValue::Word { text, quoted: style != ScalarStyle::Plain }
            }
            Event::Alias(_) => return Err(Wrong::at(span, "aliases are not read here: write the value out")),
            Event::SequenceStart(..) if depth < DEEPEST => self.list(depth)?,
            Event::MappingStart(..) if depth < DEEPEST => self.skipped_mapping(depth)?,
            _ => return Err(Wrong::at(span, "this is nested too deeply")),
        };
        Ok((given, span))
    }

    fn list(&mut self, depth: usize) -> std::result::Result<WrittenValue, Wrong> {
        let mut items = Vec::new();
        loop {
            if let Some(Ok((Event::SequenceEnd, _))) = self.events.peek() {
                self.next()?;
                return Ok(WrittenValue::List(items));
            }
            match self.value(depth + 1)? {
                (WrittenValue::Word { text, .. }, _) => items.push(text),
                (_, span) => return Err(Wrong::at(span, "an item of a list must be a word")),
            }
        }
    }

    /// Reads over a mapping where there must be none, so that the error names the key.
    fn skipped_mapping(&mut self, depth: usize) -> std::result::Result<WrittenValue, Wrong> {
        loop {
            if let Some(Ok((Event::MappingEnd, _))) = self.events.peek() {
                self.next()?;
                return Ok(WrittenValue::Mapping);
            }
            self.value(depth + 1)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document that asks for these keys.
    const WHOLE: &str = "
performance_monitoring:
  sampling_interval_ms: 10        # how often
  buffer_size: 1024
  max_counters: 8

  apple_silicon:
    kernel_patch_required: true
    max_monitor_duration_us: 100
    supported_chips:
      - M1
      - M1 Pro/Max/Ultra
      - M4

  x86:
    require_root: false
    pce_flag_check: true
    supported_vendors: [Intel, AMD]
";

    #[test]
    fn the_whole_configuration_is_read() {
        let config = read(WHOLE).unwrap();
        assert_eq!(
            (config.sampling_interval_ms, config.buffer_size, config.max_counters),
            (Some(10), Some(1024), Some(8))
        );
        let (apple, x86) = (config.apple_silicon, config.x86);
        assert_eq!((apple.kernel_patch_required, apple.max_monitor_duration_us), (Some(true), Some(100)));
        assert_eq!(apple.supported_chips.unwrap(), ["M1", "M1 Pro/Max/Ultra", "M4"]);
        assert_eq!((x86.require_root, x86.pce_flag_check), (Some(false), Some(true)));
        assert_eq!(x86.supported_vendors.unwrap(), ["Intel", "AMD"]);
    }

    #[test]
    fn a_serialisation_is_named_by_its_word_or_by_the_instruction() {
        use cyclometer_backend::Serialisation::{Full, Light, Memory, None};
        for (word, expected) in [
            ("none", None),
            ("light", Light),
            ("lfence", Light),
            ("mfence", Memory),
            ("memory", Memory),
            ("cpuid", Full),
            ("\"full\"", Full),
        ] {
            let config = read(&format!("performance_monitoring:\n  serialisation: {word}\n")).unwrap();
            assert_eq!(config.serialisation, Some(expected), "{word}");
        }
    }

    #[test]
    fn nothing_is_a_configuration_too() {
        for text in
            ["", "# nothing\n", "---\n", "performance_monitoring:\n", "performance_monitoring: {}\n", "~"]
        {
            assert_eq!(read(text).unwrap(), Config::default(), "{text:?}");
        }
        assert_eq!(read("performance_monitoring:\n  x86:\n").unwrap(), Config::default());
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_column() {
        let below = |line: &str| format!("performance_monitoring:\n  {line}\n");
        for (text, expected) in [
            (
                "other: 1\n".to_owned(),
                "line 1, column 1: there is no key 'other'; there is performance_monitoring",
            ),
            (
                "- a\n".to_owned(),
                "line 1, column 1: here must be a mapping with the key performance_monitoring",
            ),
            (
                below("bufer_size: 3"),
                "line 2, column 3: there is no key 'bufer_size'; there are sampling_interval_ms, buffer_size, \
                 max_counters, serialisation, apple_silicon, x86",
            ),
            (
                below("x86: {root: true}"),
                "line 2, column 9: there is no key 'root'; there are require_root, pce_flag_check, supported_vendors",
            ),
            (
                below("buffer_size: lots"),
                "line 2, column 16: buffer_size takes an integer from 1 to 1048576, and not lots",
            ),
            (
                below("buffer_size: \"10\""),
                "line 2, column 16: buffer_size takes an integer from 1 to 1048576, and not the text \"10\"",
            ),
            (
                below("buffer_size: 0"),
                "line 2, column 16: buffer_size takes an integer from 1 to 1048576, and not 0",
            ),
            (
                below("max_counters: -1"),
                "line 2, column 17: max_counters takes an integer from 1 to 1024, and not -1",
            ),
            (
                below("serialisation: fence"),
                "line 2, column 18: serialisation takes none, light, memory or full, or x86's instruction for it: lfence, \
                 mfence or cpuid, and not fence",
            ),
            (below("serialisation: [cpuid]"), "mfence or cpuid, and not a list"),
            (
                below("max_counters: 1.5"),
                "line 2, column 17: max_counters takes an integer from 1 to 1024, and not 1.5",
            ),
            (
                below("sampling_interval_ms: [1]"),
                "line 2, column 25: sampling_interval_ms takes an integer from 1 to 3600000, and not a list",
            ),
            (
                below("sampling_interval_ms: {a: {c: [d, e]}}"),
                "line 2, column 25: sampling_interval_ms takes an integer from 1 to 3600000, and not a mapping",
            ),
            (below("sampling_interval_ms:"), "takes an integer from 1 to 3600000, and not nothing"),
            (below("x86: 7"), "line 2, column 8: x86 takes a mapping"),
            (
                below("x86: {require_root: yes}"),
                "line 2, column 23: x86.require_root takes true or false, and not yes",
            ),
            (
                below("x86: {supported_vendors: Intel}"),
                "line 2, column 28: x86.supported_vendors takes a list of names such as Intel or AMD, and not Intel",
            ),
            (
                below("x86: {supported_vendors: [[Intel]]}"),
                "line 2, column 29: an item of a list must be a word",
            ),
            (
                below("max_counters: 8\n  max_counters: 9"),
                "line 3, column 3: the key 'max_counters' is there twice",
            ),
            (below("max_counters: [8"), "this is no YAML"),
            (below("max_counters: *a"), "this is no YAML"),
            (
                "performance_monitoring: 5".to_owned(),
                "line 1, column 25: performance_monitoring takes a mapping",
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep =
            format!("performance_monitoring: {{max_counters: {}1{}}}", "[".repeat(200), "]".repeat(200));
        assert!(read(&deep).unwrap_err().to_string().contains("nested too deeply"));
    }

    #[test]
    fn no_prefix_of_a_file_panics() {
        for end in (0..WHOLE.len()).filter(|end| WHOLE.is_char_boundary(*end)) {
            let _ = read(&WHOLE[..end]);
        }
    }
}
