//! Kernels in builds with fake devices: the machine that serves those executes them, if there is one.
//!
//! The socket `kernels` in the folder of the devices takes a line `NAME ITERATIONS`, and answers with a line
//! when the chip has executed that. The file `kernels.list` names the kernels that it knows.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use cyclometer_core::{Error, ErrorKind, Result};
use cyclometer_kernels::{Geometry, KernelRecipe};

#[path = "host_kernels.rs"]
mod host;

/// Kernels on the machine behind a socket, or on this CPU.
#[derive(Debug)]
pub(super) struct KernelRunner(Place);

#[derive(Debug)]
enum Place {
    Here(host::KernelRunner),
    Served { names: Vec<&'static str>, socket: BufReader<UnixStream> },
}

/// The socket, if a machine is served.
fn socket() -> Option<UnixStream> {
    let folder = std::env::var_os("CYCLOMETER_FAKE_DEVICES")?;
    UnixStream::connect(Path::new(&folder).join("kernels")).ok()
}

impl KernelRunner {
    pub(super) fn new(recipes: Vec<KernelRecipe>) -> Result<KernelRunner> {
        match socket() {
            Some(socket) => Ok(KernelRunner(Place::Served {
                names: recipes.iter().map(|recipe| recipe.name).collect(),
                socket: BufReader::new(socket),
            })),
            None => Ok(KernelRunner(Place::Here(host::KernelRunner::new(recipes)?))),
        }
    }

    pub(super) fn run(&mut self, kernel: usize, iterations: u64) -> Result<()> {
        match &mut self.0 {
            Place::Here(runner) => runner.run(kernel, iterations),
            Place::Served { names, socket } => {
                let ask = format!("{} {iterations}\n", names[kernel]);
                let mut answer = String::new();
                let asked = socket.get_mut().write_all(ask.as_bytes());
                let answered = asked.and_then(|()| socket.read_line(&mut answer));
                let failed = |error: std::io::Error| Error::new(ErrorKind::Os, format!("kernels: {error}"));
                match answered.map_err(failed)? {
                    0 => Err(Error::new(ErrorKind::Os, "the served machine has ended")),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Has a served machine that knows a file of assembly by its name execute what stands for it.
pub(super) fn executed_elsewhere(name: &str, iterations: u64) -> Result<()> {
    let Some(socket) = socket() else { return Ok(()) };
    let names = vec!["control.s", "real.s"];
    let Some(kernel) = names.iter().position(|known| name.ends_with(known)) else { return Ok(()) };
    KernelRunner(Place::Served { names, socket: BufReader::new(socket) }).run(kernel, iterations)
}

/// The recipes that a served machine lists in the file `kernels.list`, for the default geometry.
pub(super) fn recipes(cpu: u32) -> Vec<KernelRecipe> {
    let folder = std::env::var_os("CYCLOMETER_FAKE_DEVICES").unwrap_or_default();
    match std::fs::read_to_string(Path::new(&folder).join("kernels.list")) {
        Ok(list) => {
            let is_listed = |recipe: &KernelRecipe| list.lines().any(|line| line == recipe.name);
            KernelRecipe::all_for(&Geometry::default()).into_iter().filter(is_listed).collect()
        }
        Err(_) => host::recipes(cpu),
    }
}
