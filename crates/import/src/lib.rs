//! Event files as vendors and kernels publish them, to the values of the catalogue.
//!
//! The same readers serve `cargo xtask catalog`, which makes our own tables, and the files that users give at
//! run time. Nothing here touches the host: bytes go in,
//! [`TableEvent`](cyclometer_catalog::table::TableEvent)s come out. The input is not trusted: every reader
//! has limits of size, depth and number, and every error names the event and the field.
#![forbid(unsafe_code)]

pub mod amd;
pub mod arm;
pub mod arm_table;
mod error;
pub mod file;
mod file_format;
pub mod file_linux;
mod file_table;
pub mod intel;
pub mod json;
pub mod kpep;
mod words;

pub use error::{ImportError, ImportResult};
pub use file::read_file;
