//! Names of code within some columns.

use std::borrow::Cow;
use std::path::Path;

use cyclometer_toolkit::symbols::{CodeName, Grouping};

use crate::text::clean;

/// Columns of a name and of its file that there are at least.
pub const LEAST_NAME: usize = 24;
const LEAST_FILE: usize = 10;

/// A name within some columns: the beginning of the name, and the file behind it.
pub fn displayed(name: &CodeName, grouping: Grouping, room: usize) -> String {
    let file = match &name.object {
        Some(path) if path.is_empty() => "[unknown file]".to_owned(),
        _ => file_label(name, base),
    };
    let line = name.line.as_ref().map(|line| {
        let number = line.line.map(|number| format!(":{number}")).unwrap_or_default();
        base(&line.file) + &number
    });
    let first = match grouping {
        Grouping::Object => return shortened(&clean(&file), room),
        Grouping::Function => {
            let within = room.saturating_sub(LEAST_FILE + 1);
            function_label(name).map(|label| match &name.inlined_into {
                Some(into) if label.chars().count() > within => inlined_label(name, into, within),
                _ => label.into_owned(),
            })
        }
        Grouping::Line => match (line, &name.function) {
            (Some(line), Some(function)) => Some(format!("{line} {function}")),
            (None, Some(function)) => Some(format!("[no line] {function}")),
            (line, None) => line,
        },
    };
    let (first, file) = (clean(&first.unwrap_or_else(|| "[unknown]".to_owned())), clean(&file));
    let for_file = room.saturating_sub(first.chars().count() + 1).max(LEAST_FILE);
    let file = shortened(&file, for_file);
    let for_name = room.saturating_sub(file.chars().count() + 1).max(LEAST_NAME / 2);
    format!("{} {file}", shortened(&first, for_name))
}

/// The function, with the one that it is inlined into: `f (in g)`.
pub fn function_label(name: &CodeName) -> Option<Cow<'_, str>> {
    let function = name.function.as_deref()?;
    Some(match &name.inlined_into {
        Some(into) => format!("{function} (in {into})").into(),
        None => function.into(),
    })
}

/// The label of an inlined function within some columns: both functions have half of them, and what the other
/// one leaves.
fn inlined_label(name: &CodeName, into: &str, room: usize) -> String {
    let function = name.function.as_deref().unwrap_or_default();
    let room = room.saturating_sub(" (in )".len());
    let [left, right] = [function, into].map(|name| name.chars().count());
    let left = left.min((room / 2).max(room.saturating_sub(right)));
    let function = shortened(function, left);
    format!("{function} (in {})", shortened(into, room.saturating_sub(left)))
}

/// The file of code, by `shown`. Code of no file is `[JIT]` where its program has named it.
pub fn file_label(name: &CodeName, shown: impl Fn(&str) -> String) -> String {
    match (file_of(name), &name.function) {
        (Some(path), _) => shown(path),
        (None, Some(_)) if name.object.is_none() => JIT.to_owned(),
        (None, _) => NO_FILE.to_owned(),
    }
}

/// The label of code of no file that has no name.
pub const NO_FILE: &str = "[no file]";
/// The label of code of no file that its program has named.
pub const JIT: &str = "[JIT]";

/// The path of the file of code, if it is known.
pub fn file_of(name: &CodeName) -> Option<&str> {
    name.object.as_deref().filter(|path| !path.is_empty())
}

/// The last part of a path.
pub fn base(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The beginning of a text that is too long.
pub fn shortened(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inlined(function: &str, into: &str) -> CodeName {
        let [function, inlined_into] = [function, into].map(|name| Some(name.to_owned()));
        CodeName { object: Some("/bin/program".to_owned()), function, inlined_into, ..CodeName::default() }
    }

    #[test]
    fn an_inlined_function_is_shown_with_the_one_around_it_in_any_room() {
        let name = inlined("square", "main");
        assert_eq!(displayed(&name, Grouping::Function, 40), "square (in main) program");
        assert_eq!(function_label(&name).as_deref(), Some("square (in main)"));
        let long = "core::iter::adapters::map::map_fold";
        for (function, into) in [(long, "main"), ("square", long), (long, long)] {
            for room in 30..90 {
                let text = displayed(&inlined(function, into), Grouping::Function, room);
                assert!(text.chars().count() <= room && text.contains(" (in "), "{room}: {text}");
                assert!(text.contains(") p"), "{room}: {text}");
            }
        }
    }
}
