//! Elements of SVG: text that cannot be taken for markup, and swatches of a legend.

use crate::text::clean;

/// The fonts of pictures, the first that the reader has.
pub const FONTS: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";

/// A swatch of a legend.
pub fn swatch(x: f64, y: f64, colour: &str) -> String {
    format!("<rect x=\"{x}\" y=\"{y}\" width=\"11\" height=\"11\" rx=\"2\" fill=\"{colour}\"/>\n")
}

/// A line of text.
pub fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escaped(words))
}

/// The same of a class of the style sheet.
pub fn text_of(class: &str, x: f64, y: f64, anchor: &str, words: &str) -> String {
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
        escaped(words)
    )
}

/// Text that cannot be taken for markup, without control characters.
pub fn escaped(text: &str) -> String {
    let replaced = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        // These are no characters of XML, whatever their escape.
        '\u{fffe}' | '\u{ffff}' => "\u{fffd}".to_owned(),
        other => other.to_string(),
    };
    clean(text).chars().map(replaced).collect()
}

/// A name that has room in so many characters; a longer one ends in an ellipsis.
pub fn cut(name: &str, most: usize) -> String {
    match name.chars().count() {
        n if n > most => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escaped("<a b='&\">\u{1b}\u{ffff}"), "&lt;a b=&#39;&amp;&quot;&gt;\\x1b\u{fffd}");
    }

    #[test]
    fn a_name_that_is_cut_keeps_its_room() {
        assert_eq!([cut("größe", 5), cut("größer", 5)], ["größe", "größ…"]);
    }
}
