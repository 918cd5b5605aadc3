//! The kernel's generic events.
