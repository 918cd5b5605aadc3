//! The options for files of results.

use std::path::{Path, PathBuf};

use clap::Args;

/// Their heading.
pub const RESULTS: &str = "Results";

/// The options for files of results that `stat` and `compare` share.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Write the results as JSON to a file; - is standard output.
    #[arg(help_heading = RESULTS, long = "export-json", value_name = "FILE", id = "export_json")]
    pub json: Option<PathBuf>,
    /// Write the results as CSV to a file, a row for each metric; - is standard output.
    #[arg(help_heading = RESULTS, long = "export-csv", value_name = "FILE", id = "export_csv")]
    pub csv: Option<PathBuf>,
    /// Write the results as Markdown tables to a file; - is standard output.
    #[arg(help_heading = RESULTS, long = "export-markdown", value_name = "FILE", id = "export_markdown")]
    pub markdown: Option<PathBuf>,
}

impl ExportArgs {
    /// Each option with its file, in the order JSON, CSV, Markdown.
    pub fn named(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--export-json", self.json.as_deref()),
            ("--export-csv", self.csv.as_deref()),
            ("--export-markdown", self.markdown.as_deref()),
        ]
    }
}
