//! The XML form.
//!
//! # Source
//!
//! `http://www.apple.com/DTDs/PropertyList-1.0.dtd`; `plist(5)`.

use super::plist::{Plist, PlistBudget};
use crate::error::{ImportError, ImportResult};
use crate::json::shown;

/// The byte order mark of UTF-8.
const MARK: &str = "\u{feff}";

/// Whether bytes start like an XML property list.
pub(super) fn is_xml(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(MARK.as_bytes()).unwrap_or(bytes).trim_ascii_start();
    [b"<?xml".as_slice(), b"<!DOCTYPE plist", b"<plist", b"<!--"].iter().any(|start| bytes.starts_with(start))
}

/// Reads the one value of a file.
pub(super) fn parse(bytes: &[u8]) -> ImportResult<Plist> {
    let text = std::str::from_utf8(bytes).map_err(|error| ImportError::file(format!("no UTF-8: {error}")))?;
    let mut xml = Xml { text: text.trim_start_matches(MARK), at: 0, budget: PlistBudget::default() };
    let root = xml.tag()?;
    if root.name != "plist" || root.kind != TagKind::Open {
        return Err(xml.error(format!("'{}' where <plist> should be", shown(root.name))));
    }
    let first = xml.tag()?;
    let value = xml.value(first, 1)?;
    let last = xml.tag()?;
    if last.name != "plist" || last.kind != TagKind::Close {
        return Err(xml.error("more than one value"));
    }
    Ok(value)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TagKind {
    Open,
    Close,
    /// `<true/>`
    Empty,
}

#[derive(Clone, Copy, Debug)]
struct Tag<'a> {
    name: &'a str,
    kind: TagKind,
}

struct Xml<'a> {
    text: &'a str,
    at: usize,
    budget: PlistBudget,
}

impl<'a> Xml<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, message: impl Into<String>) -> ImportError {
        let line = self.text[..self.at].matches('\n').count() + 1;
        ImportError::at(format!("line {line}"), message)
    }

    /// Goes behind `end`.
    fn skip_past(&mut self, end: &str) -> ImportResult<()> {
        let found = self.rest().find(end).ok_or_else(|| self.error(format!("ends before '{end}'")))?;
        self.at += found + end.len();
        Ok(())
    }

    /// Goes past spaces, comments, processing instructions and the document type.
    fn skip_misc(&mut self) -> ImportResult<()> {
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            let rest = self.rest();
            if rest.starts_with("<!--") {
                self.skip_past("-->")?;
            } else if rest.starts_with("<?") {
                self.skip_past("?>")?;
            } else if rest.starts_with("<!DOCTYPE") {
                let end = rest.find('>').ok_or_else(|| self.error("ends in the document type"))?;
                if rest[..end].contains('[') {
                    return Err(self.error("entities of its own are not read"));
                }
                self.at += end + 1;
            } else {
                return Ok(());
            }
        }
    }

    /// The next tag; only spaces and comments may stand before it.
    fn tag(&mut self) -> ImportResult<Tag<'a>> {
        self.skip_misc()?;
        let rest = self.rest();
        let Some(inner) = rest.strip_prefix('<') else {
            let found =
                if rest.is_empty() { "the file ends".to_owned() } else { format!("'{}'", shown(rest)) };
            return Err(self.error(format!("{found} where a tag should be")));
        };
        let end = inner.find('>').ok_or_else(|| self.error("ends within a tag"))?;
        self.at += end + 2;
        let inner = &inner[..end];
        let (inner, kind) = match (inner.strip_prefix('/'), inner.strip_suffix('/')) {
            (Some(inner), _) => (inner, TagKind::Close),
            (_, Some(inner)) => (inner, TagKind::Empty),
            _ => (inner, TagKind::Open),
        };
        Ok(Tag { name: inner.split_whitespace().next().unwrap_or_default(), kind })
    }

    fn value(&mut self, tag: Tag<'a>, depth: usize) -> ImportResult<Plist> {
        self.budget.value(depth)?;
        match (tag.name, tag.kind) {
            ("dict", TagKind::Open) => self.dict(depth),
            ("array", TagKind::Open) => self.array(depth),
            ("dict", TagKind::Empty) => Ok(Plist::Dict(Vec::new())),
            ("array", TagKind::Empty) => Ok(Plist::Array(Vec::new())),
            ("string", TagKind::Empty) => Ok(Plist::Text(String::new())),
            ("true" | "false" | "data" | "date", TagKind::Empty) => Ok(Plist::Other),
            ("string", TagKind::Open) => Ok(Plist::Text(self.content("string")?)),
            ("integer", TagKind::Open) => self.integer(),
            (name @ ("real" | "data" | "date" | "true" | "false"), TagKind::Open) => {
                self.content(name)?;
                Ok(Plist::Other)
            }
            (name, _) => Err(self.error(format!("<{}> is no value", shown(name)))),
        }
    }

    fn array(&mut self, depth: usize) -> ImportResult<Plist> {
        let mut values = Vec::new();
        loop {
            let tag = self.tag()?;
            if (tag.name, tag.kind) == ("array", TagKind::Close) {
                return Ok(Plist::Array(values));
            }
            values.push(self.value(tag, depth + 1)?);
        }
    }

    fn dict(&mut self, depth: usize) -> ImportResult<Plist> {
        let mut entries = Vec::new();
        loop {
            let tag = self.tag()?;
            match (tag.name, tag.kind) {
                ("dict", TagKind::Close) => return Ok(Plist::Dict(entries)),
                ("key", TagKind::Open) => {
                    let key = self.content("key")?;
                    let tag = self.tag()?;
                    entries.push((key, self.value(tag, depth + 1)?));
                }
                (name, _) => return Err(self.error(format!("<{}> where a key should be", shown(name)))),
            }
        }
    }

    fn integer(&mut self) -> ImportResult<Plist> {
        let text = self.content("integer")?;
        let text = text.trim();
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
            None => text.parse::<i64>().map(i128::from).or_else(|_| text.parse::<u64>().map(i128::from)).ok(),
        };
        number.map(Plist::Integer).ok_or_else(|| self.error(format!("'{}' is no number", shown(text))))
    }

    /// The text up to the closing tag.
    fn content(&mut self, name: &str) -> ImportResult<String> {
        let mut content = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find('<').ok_or_else(|| self.error(format!("ends within <{name}>")))?;
            self.budget.text(end)?;
            self.unescape(&rest[..end], &mut content)?;
            self.at += end;
            if self.rest().starts_with("<![CDATA[") {
                self.character_data(&mut content)?;
            } else if self.rest().starts_with("<!--") {
                self.skip_past("-->")?;
            } else {
                let tag = self.tag()?;
                return match (tag.name == name, tag.kind) {
                    (true, TagKind::Close) => Ok(content),
                    _ => Err(self.error(format!("<{}> within <{name}>", shown(tag.name)))),
                };
            }
        }
    }

    fn character_data(&mut self, content: &mut String) -> ImportResult<()> {
        let inner = &self.rest()["<![CDATA[".len()..];
        let end = inner.find("]]>").ok_or_else(|| self.error("ends within character data"))?;
        self.budget.text(end)?;
        content.push_str(&inner[..end]);
        self.skip_past("]]>")
    }

    fn unescape(&self, text: &str, content: &mut String) -> ImportResult<()> {
        let mut parts = text.split('&');
        content.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (entity, rest) = part.split_once(';').unwrap_or((part, ""));
            let character = entity_of(entity)
                .ok_or_else(|| self.error(format!("'&{}' is no character", shown(entity))))?;
            content.push(character);
            content.push_str(rest);
        }
        Ok(())
    }
}

fn entity_of(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plist(inner: &str) -> ImportResult<Plist> {
        parse(format!("<?xml version=\"1.0\"?>\n<!DOCTYPE plist PUBLIC \"x\" \"y\">\n<plist version=\"1.0\">{inner}</plist>").as_bytes())
    }

    fn refused(inner: &str, expected: &str) {
        let error = plist(inner).unwrap_err().to_string();
        assert!(error.contains(expected), "{inner}: {error}");
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let value = plist(
            "<dict><key>a&amp;&#x41;</key><integer>-5</integer><!-- no --><key>b</key><array><true/><string>x<![CDATA[<&]]>y</string>
             <integer>0x1F</integer><real>1.5</real><data>AA==</data><dict/><string/></array></dict>",
        );
        let list = vec![
            Plist::Other,
            Plist::Text("x<&y".to_owned()),
            Plist::Integer(31),
            Plist::Other,
            Plist::Other,
            Plist::Dict(Vec::new()),
            Plist::Text(String::new()),
        ];
        let entries = vec![("a&A".to_owned(), Plist::Integer(-5)), ("b".to_owned(), Plist::Array(list))];
        assert_eq!(value, Ok(Plist::Dict(entries)));
    }

    #[test]
    fn what_is_no_property_list_is_refused_with_the_line() {
        refused("<dict><key>a</key></dict>", "line 3: <dict> is no value");
        refused("<dict><string>a</string></dict>", "<string> where a key should be");
        refused("<integer>1e3</integer>", "'1e3' is no number");
        refused("<string>&boom;</string>", "'&boom' is no character");
        refused("<string>a<b></string>", "<b> within <string>");
        refused("<string>a", "within <string>");
        refused("<true/><true/>", "more than one value");
        refused("text", "where a tag should be");
        let entities = "<!DOCTYPE plist [<!ENTITY a \"b\">]><plist><true/></plist>";
        assert!(parse(entities.as_bytes()).unwrap_err().to_string().contains("entities of its own"));
        assert!(parse(b"<plist><dict>").unwrap_err().to_string().contains("the file ends"));
        assert!(parse(b"<plist>\xff").unwrap_err().to_string().contains("no UTF-8"));
    }

    #[test]
    fn nesting_has_a_limit() {
        refused(&"<array>".repeat(100_000), "nested deeper than 64");
    }
}
