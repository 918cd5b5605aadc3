//! Tables of events: as values, as text, and as the embedded bytes.

pub mod blob;
pub mod model;
pub mod text;

pub use blob::{Blob, Cpu, Entry};
pub use model::{Also, CpuTable, Generic, Header, TableEvent};
