//! Accounting of processes and threads without root.
