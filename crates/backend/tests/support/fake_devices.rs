//! A simulated machine behind sockets that stand for `/dev/cpu/N/msr`, for tests of whole programs.
//!
//! A program that was built with the feature `fake-devices` and has `CYCLOMETER_FAKE_DEVICES` set to
//! [`FakeDevices::folder`] finds there:
//!
//! - `msr.N`, a socket for each CPU: the registers of the simulated chip, by address;
//! - `machine`, a recording of the machine that it is to find itself on ([`recording`]);
//! - `run/`, made by the program: the journals of registers;
//! - `kernels`, if [`FakeDevices::serve_kernels`] was called: loops that the simulated chip executes in
//!   place of
//!   the program's kernels.
//!
//! Simulated time passes as real time does, from [`FakeDevices::start`] on. Interrupts and switches that
//! happen meanwhile are not handled. The test accesses the machine by [`FakeDevices::with`].
//!
//! Tests of other crates use this file by `#[path = "…/crates/backend/tests/support/fake_devices.rs"]`; it
//! needs `cyclometer-arch`, `cyclometer-core`, `cyclometer-sim` and `tempfile`.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its own part; a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use cyclometer_arch::{Fault, PmuReg, Register, RegisterAddress, Registers};
use cyclometer_core::concept::Concept;
use cyclometer_sim::{Activity, SimMachine, Workload};
use tempfile::TempDir;

/// The environment variable that names the folder.
pub const VARIABLE: &str = "CYCLOMETER_FAKE_DEVICES";

/// Error numbers of the `msr` driver.
pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const ENXIO: u32 = 6;

/// A served machine. Dropping it closes its sockets and removes the folder.
pub struct FakeDevices {
    folder: TempDir,
    served: Arc<Served>,
    cpus: u32,
}

struct Served {
    state: Mutex<State>,
    since: Instant,
    over: AtomicBool,
}

struct State {
    machine: SimMachine,
    written: Vec<Written>,
    /// The error number with which writes fail, if they are to fail.
    refuses_writes: Option<u32>,
    /// The CPU that executes kernels, and some instructions when counters are enabled: they are seen to move.
    kernel_cpu: Option<u32>,
}

/// A kernel's name, and what an iteration of it does.
pub type ServedKernel = (String, Activity);

/// A write that a program has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The CPU.
    pub cpu: u32,
    /// The register.
    pub register: PmuReg,
    /// The value.
    pub value: u64,
    /// The simulated time, in ns.
    pub at_ns: u64,
}

impl FakeDevices {
    /// Serves a machine.
    pub fn start(machine: SimMachine) -> FakeDevices {
        let folder = tempfile::tempdir().unwrap();
        let cpus = machine.cpus();
        let state = State { machine, written: Vec::new(), refuses_writes: None, kernel_cpu: None };
        let served = Served { state: Mutex::new(state), since: Instant::now(), over: AtomicBool::new(false) };
        let devices = FakeDevices { folder, served: Arc::new(served), cpus };
        for cpu in 0..cpus {
            let listener = UnixListener::bind(devices.socket(cpu)).unwrap();
            let served = Arc::clone(&devices.served);
            std::thread::spawn(move || accept(&listener, &served, cpu));
        }
        devices
    }

    /// Serves a machine to a program that detects the machine of a recording.
    pub fn start_on(machine: SimMachine, recording: &str) -> FakeDevices {
        let devices = FakeDevices::start(machine);
        fs::write(devices.folder().join("machine"), recording).unwrap();
        devices
    }

    /// The folder, for [`VARIABLE`].
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the journals, which the first journal creates.
    pub fn journals(&self) -> PathBuf {
        self.folder().join("run")
    }

    /// Accesses the machine at the present time.
    pub fn with<T>(&self, look: impl FnOnce(&mut SimMachine) -> T) -> T {
        look(&mut self.served.now().machine)
    }

    /// The value of a register, by name.
    pub fn register(&self, cpu: u32, name: &str) -> u64 {
        self.with(|machine| {
            let chip = machine.model().chip;
            let register = PmuReg::of(&chip, Register::parse(&chip, name).unwrap()).unwrap();
            machine.read(cpu, register).unwrap()
        })
    }

    /// Sets a register by name, as another user would.
    pub fn set_register(&self, cpu: u32, name: &str, value: u64) {
        self.with(|machine| {
            let chip = machine.model().chip;
            let register = PmuReg::of(&chip, Register::parse(&chip, name).unwrap()).unwrap();
            machine.write(cpu, register, value).unwrap();
        });
    }

    /// Successful writes of programs, in order.
    pub fn written(&self) -> Vec<Written> {
        self.served.state.lock().unwrap().written.clone()
    }

    /// Makes writes fail with this error number from now on; `None`: succeed.
    pub fn refuse_writes(&self, errno: Option<u32>) {
        self.served.state.lock().unwrap().refuses_writes = errno;
    }

    /// Executes kernels on a CPU when a program asks for them. After so many requests no more answer comes.
    pub fn serve_kernels(&self, cpu: u32, kernels: Vec<ServedKernel>, answers: usize) {
        self.served.state.lock().unwrap().kernel_cpu = Some(cpu);
        let names: String = kernels.iter().map(|(name, _)| format!("{name}\n")).collect();
        fs::write(self.folder().join("kernels.list"), names).unwrap();
        let listener = UnixListener::bind(self.folder().join("kernels")).unwrap();
        let (served, kernels) = (Arc::clone(&self.served), Arc::new(kernels));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (served, kernels) = (Arc::clone(&served), Arc::clone(&kernels));
                std::thread::spawn(move || run_kernels(&socket.unwrap(), &served, &kernels, answers));
            }
        });
    }

    fn socket(&self, cpu: u32) -> PathBuf {
        self.folder().join(format!("msr.{cpu}"))
    }
}

impl Drop for FakeDevices {
    fn drop(&mut self) {
        self.served.over.store(true, Ordering::Relaxed);
        for cpu in 0..self.cpus {
            // Wakes the thread that waits for a connection.
            let _ = UnixStream::connect(self.socket(cpu));
        }
    }
}

fn run_kernels(socket: &UnixStream, served: &Served, kernels: &[ServedKernel], answers: usize) {
    let mut lines = BufReader::new(socket).lines();
    for _ in 0..answers {
        let Some(Ok(line)) = lines.next() else { return };
        let (name, iterations) = line.split_once(' ').unwrap();
        let activity = kernels.iter().find(|(known, _)| known == name).unwrap().1;
        served.now().execute(Workload::iterations(activity, iterations.parse().unwrap()));
        let mut socket = socket;
        if socket.write_all(b"done\n").is_err() {
            return;
        }
    }
    // The program waits for the next answer as long as it likes.
    lines.for_each(drop);
}

fn accept(listener: &UnixListener, served: &Arc<Served>, cpu: u32) {
    for socket in listener.incoming() {
        if served.over.load(Ordering::Relaxed) {
            return;
        }
        let (socket, served) = (socket.unwrap(), Arc::clone(served));
        std::thread::spawn(move || serve(socket, &served, cpu));
    }
}

/// Answers until the other end closes.
fn serve(mut socket: UnixStream, served: &Served, cpu: u32) {
    let mut request = [0; 13];
    while socket.read_exact(&mut request).is_ok() {
        let address = u32::from_le_bytes(request[1..5].try_into().unwrap());
        let value = u64::from_le_bytes(request[5..].try_into().unwrap());
        let (errno, value) = match served.now().answer(cpu, request[0] == 1, address, value) {
            Ok(value) => (0, value),
            Err(errno) => (errno, 0),
        };
        let mut answer = Vec::from(errno.to_le_bytes());
        answer.extend(value.to_le_bytes());
        if socket.write_all(&answer).is_err() {
            return;
        }
    }
}

impl Served {
    /// The machine, advanced to the present time.
    fn now(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        let due = u64::try_from(self.since.elapsed().as_nanos()).unwrap();
        let missing = due.saturating_sub(state.machine.now_ns());
        if missing > 0 {
            state.machine.run(missing, |_, _| {});
        }
        state
    }
}

impl State {
    fn answer(&mut self, cpu: u32, writes: bool, address: u32, value: u64) -> Result<u64, u32> {
        let chip = self.machine.model().chip;
        let at = RegisterAddress::Msr(address);
        let register = PmuReg::all(&chip).into_iter().find(|register| register.address() == at).ok_or(EIO)?;
        if !writes {
            return self.machine.read(cpu, register).map_err(errno);
        }
        if let Some(errno) = self.refuses_writes {
            return Err(errno);
        }
        self.machine.write(cpu, register, value).map_err(errno)?;
        let at_ns = self.machine.now_ns();
        self.written.push(Written { cpu, register, value, at_ns });
        if self.kernel_cpu == Some(cpu) && register.to_string().contains("GLOBAL_C") {
            let amounts = [(Concept::Instructions, 8.0), (Concept::Cycles, 4.0)];
            self.execute(Workload::iterations(Activity::of_iteration(4, &amounts), 100));
        }
        Ok(0)
    }

    /// Executes a workload to its end, if kernels are served.
    fn execute(&mut self, work: Workload) {
        let Some(cpu) = self.kernel_cpu else { return };
        let thread = self.machine.spawn(work, &[cpu]).unwrap();
        while !self.machine.is_done(thread) {
            self.machine.run(1_000_000, |_, _| {});
        }
    }
}

/// The error number that the driver would return.
fn errno(fault: Fault) -> u32 {
    match fault {
        Fault::NoCpu { .. } => ENXIO,
        Fault::Privilege { .. } => EPERM,
        _ => EIO,
    }
}

/// A recorded machine of `fixtures/machines` on which registers may be written: by root, with so many CPUs,
/// without a watchdog, with the driver.
pub fn recording(name: &str, cpus: u32) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines");
    let text = fs::read_to_string(fixtures.join(format!("{name}.txt"))).unwrap();
    let changed = |line: &str| {
        let last = cpus - 1;
        let changes = [
            ("euid ", "euid 0".to_owned()),
            ("cpus ", format!("cpus {cpus}")),
            ("file /sys/devices/system/cpu/online ", format!("file /sys/devices/system/cpu/online 0-{last}")),
            ("file /proc/sys/kernel/nmi_watchdog ", "file /proc/sys/kernel/nmi_watchdog 0".to_owned()),
            ("| CapEff:", "| CapEff:\t000001ffffffffff".to_owned()),
        ];
        let change = changes.into_iter().find(|(start, _)| line.starts_with(start));
        change.map_or_else(|| line.to_owned(), |(_, new)| new)
    };
    let lines: Vec<String> = text.lines().map(changed).collect();
    lines.join("\n") + "\nlist /dev/cpu/0 msr\n"
}
