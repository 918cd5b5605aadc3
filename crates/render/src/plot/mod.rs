//! Pictures: what those of `compare` and of recordings have in common, and the pictures of recordings
//! and sweeps.

pub mod chart;
pub mod envelope;
pub mod flame_graph;
pub mod markup;
pub mod page;
pub mod recording;
pub mod scale;
pub mod terminal;
pub mod tree_map;
pub mod verdicts;

use std::path::Path;

use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};

use crate::text::clean_os;

/// File formats of pictures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlotFormat {
    /// A picture.
    Svg,
    /// A page with the picture in it.
    Html,
}

impl PlotFormat {
    /// By the end of the name of the file that an option names.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for any other end.
    pub fn named(option: &str, path: &Path) -> Result<PlotFormat> {
        PlotFormat::of(path).ok_or_else(|| {
            let name = clean_os(path.as_os_str());
            let message = format!("{option} {name}: the name ends neither in .svg nor in .html");
            Error::new(ErrorKind::InvalidInput, message)
                .with_recovery(Recovery::fix("name the file F.svg or F.html"))
        })
    }

    fn of(path: &Path) -> Option<PlotFormat> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "svg" => Some(PlotFormat::Svg),
            "html" | "htm" => Some(PlotFormat::Html),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_of_the_name() {
        let of = |name: &str| PlotFormat::named("-o", Path::new(name)).ok();
        assert_eq!(
            [of("a.svg"), of("b.HTML"), of("c.png"), of("svg")],
            [Some(PlotFormat::Svg), Some(PlotFormat::Html), None, None]
        );
    }
}
