//! Writes down every fact that detection asks of this machine, for `fixtures/machines/`.
//!
//! `cargo run -p cyclometer-detect --example record_machine -- FILE 'a server with …'`

use cyclometer_detect::{FactRecorder, HostFacts, detect};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(what)) = (arguments.next(), arguments.next()) else {
        return Err(std::io::Error::other(
            "two arguments are needed: the file to write, and what machine it is",
        ));
    };
    let recorder = FactRecorder::new(&HostFacts);
    detect(&recorder);
    std::fs::write(file, recorder.to_text(&format!("recorded: {what}")))
}
