//! One run of a program.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock, PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use cyclometer_soft::host::window_protocol::{self, WindowLine, WindowRequest};
use cyclometer_soft::host::{RetranslationPolicy, TracerSettings, follow, protocol};
use cyclometer_sys::affinity::Affinity;
use cyclometer_sys::daemon::{self, Daemon};
use cyclometer_sys::process::{Launcher, Pending, Reap, Request, SIGKILL, Status, Traced, reap, signal};
use protocol::ProcessCounts;

use super::{oracle, programs};

/// After this time a run hangs, unless it is stepped: ten times and more what any takes on an idle machine,
/// because a busy one takes as much.
pub const DEADLINE: Duration = Duration::from_secs(600);

/// The folder for the profiles and translations of all tests, if this variable is set. Running all tests
/// three times with it tests programs in stored translations.
pub const HINTS: &str = "CYCLOMETER_TEST_HINTS";

/// If this variable is set, every program gets another translation again and again.
pub const HINDSIGHT: &str = "CYCLOMETER_TEST_HINDSIGHT";

/// The command to run.
#[derive(Clone, Debug)]
pub struct TestJob {
    program: PathBuf,
    args: Vec<OsString>,
    stdin: PathBuf,
    /// Run by the program that makes the environment small.
    plain: bool,
    /// The folder for profiles.
    profiles: Option<PathBuf>,
    /// Windows to record.
    windows: Option<WindowRequest>,
}

impl TestJob {
    pub fn new(program: impl AsRef<Path>, args: &[&str]) -> TestJob {
        let args = args.iter().map(OsString::from).collect();
        TestJob {
            program: program.as_ref().to_owned(),
            args,
            stdin: "/dev/null".into(),
            plain: true,
            profiles: std::env::var_os(HINTS).map(PathBuf::from),
            windows: None,
        }
    }

    /// Its standard input.
    pub fn reading(self, stdin: impl AsRef<Path>) -> TestJob {
        TestJob { stdin: stdin.as_ref().to_owned(), ..self }
    }

    /// Translates with the profiles in a folder, and stores new ones there.
    #[allow(dead_code, reason = "not every test has hints")]
    pub fn hinted(self, folder: &Path) -> TestJob {
        TestJob { profiles: Some(folder.to_owned()), ..self }
    }

    /// Records windows, where the software PMU traces it.
    pub fn windowed(self, request: WindowRequest) -> TestJob {
        TestJob { windows: Some(request), ..self }
    }

    /// Runs it directly, with this environment.
    pub fn direct(self) -> TestJob {
        TestJob { plain: false, ..self }
    }
}

/// The way in which a program is traced.
#[derive(Clone, Copy)]
pub enum TraceMethod {
    /// Not traced.
    Nobody,
    /// The software PMU.
    Soft(TracerSettings),
    /// The stepper.
    Oracle,
    /// The stepper on the one CPU of what it steps: a step wakes up no other CPU, and is shorter by far where
    /// nothing else runs.
    NearOracle,
}

impl TraceMethod {
    /// The longest that a run takes.
    fn deadline(self) -> Duration {
        match self {
            TraceMethod::Oracle | TraceMethod::NearOracle => 3 * DEADLINE,
            _ => DEADLINE,
        }
    }
}

/// The settings of every day.
pub fn soft() -> TraceMethod {
    TraceMethod::Soft(settings())
}

pub fn settings() -> TracerSettings {
    let always = std::env::var_os(HINDSIGHT).map(|_| RetranslationPolicy::Always);
    TracerSettings {
        fixed_layout: true,
        retranslation: always.unwrap_or_default(),
        ..TracerSettings::default()
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct TestRun {
    pub stdout: String,
    pub status: Status,
    /// The counts of each process; none of a native run.
    pub counts: Vec<ProcessCounts>,
    /// Why nothing was executed.
    pub refused: Option<i32>,
    /// Rows of windows, and numbers of lost ones.
    pub windows: Vec<WindowLine>,
}

impl TestRun {
    /// Why counts are lost.
    pub fn lost(&self) -> Vec<&String> {
        self.counts.iter().filter_map(|process| process.counts.as_ref().err()).collect()
    }
}

/// A program that runs. It is killed if it is dropped before it has ended.
pub struct RunningJob {
    pending: Pending,
    tracer: Option<Daemon>,
    stdout: PathBuf,
    ended: Option<Status>,
    deadline: Instant,
}

/// Locks jobs that run beside others out of jobs that run alone.
static MACHINE: RwLock<()> = RwLock::new(());

/// No other test of this program is in [`TestJob::run`] meanwhile.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

impl TestJob {
    /// Runs it to its end.
    pub fn run(&self, method: TraceMethod) -> TestRun {
        let _beside_others = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        self.run_now(method)
    }

    /// The lock of a job that runs [`alone`].
    pub fn run_now(&self, method: TraceMethod) -> TestRun {
        self.start(method).finish()
    }

    /// Starts it.
    pub fn start(&self, method: TraceMethod) -> RunningJob {
        let launcher = Launcher::start().unwrap();
        let stdout = programs::unique("stdout");
        let (program, args) = self.command();
        let output = File::create(&stdout).unwrap();
        let input = File::open(&self.stdin).unwrap();
        let silence = File::options().write(true).open("/dev/null").unwrap();
        let request = Request {
            program: program.as_os_str(),
            args: &args,
            stdin: Some(input.as_fd()),
            stdout: Some(output.as_fd()),
            stderr: Some(silence.as_fd()),
            traced: Some(Traced { fixed_layout: true }),
        };
        let mut pending = launcher.spawn(&request).unwrap();
        let pid = pending.pid();
        let tracer = match method {
            TraceMethod::Nobody => None,
            TraceMethod::Soft(settings) => {
                Some(kept(|socket| follow(pid, socket, settings, self.profiles.as_deref())))
            }
            TraceMethod::Oracle => Some(kept(|socket| oracle::count(pid, socket))),
            TraceMethod::NearOracle => Some(kept(|socket| {
                let allowed = Affinity::of(0).unwrap();
                let cpu = Affinity::only((0..).find(|cpu| allowed.contains(*cpu)).unwrap());
                [0, pid].iter().for_each(|who| cpu.give(*who).unwrap());
                oracle::count(pid, socket);
            })),
        };
        if let Some(tracer) = &tracer {
            tracer.socket().set_read_timeout(Some(method.deadline())).unwrap();
            assert_eq!(first_line(tracer.socket()), "ready");
            if let (Some(request), TraceMethod::Soft(_)) = (&self.windows, method) {
                tracer.socket().write_all(request.line().as_bytes()).unwrap();
                assert_eq!(window_protocol::read_answer(&first_line(tracer.socket())), Some(Ok(())));
            }
        }
        pending.release();
        RunningJob { pending, tracer, stdout, ended: None, deadline: Instant::now() + method.deadline() }
    }

    fn command(&self) -> (PathBuf, Vec<OsString>) {
        if !self.plain {
            return (self.program.clone(), self.args.clone());
        }
        let starter = programs::starter().unwrap();
        let args = std::iter::once(self.program.clone().into_os_string()).chain(self.args.iter().cloned());
        (starter, args.collect())
    }
}

/// Reads byte by byte, so that nothing of what follows is lost.
fn first_line(mut socket: &UnixStream) -> String {
    use std::io::Read;
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        socket.read_exact(&mut byte).unwrap();
        match byte[0] {
            b'\n' => return String::from_utf8(line).unwrap(),
            other => line.push(other),
        }
    }
}

/// A tracer that reports its panics.
fn kept(work: impl FnOnce(UnixStream)) -> Daemon {
    static HOOK: Once = Once::new();
    HOOK.call_once(tell_panics_of_tracers);
    let work = |socket: UnixStream| {
        let _ = TRACERS_SOCKET.set(socket.try_clone().unwrap());
        work(socket);
    };
    daemon::fork(work).unwrap()
}

/// In a tracer its socket; never set in the process of the tests.
static TRACERS_SOCKET: OnceLock<UnixStream> = OnceLock::new();

/// A tracer's panics go to its socket, because the terminal output of its process is not shown. The process
/// of the tests does this before it forks: a tracer that replaced the hook would wait for ever for a lock
/// that another test holds while it prints a panic of its own.
fn tell_panics_of_tracers() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let Some(mut socket) = TRACERS_SOCKET.get() else { return shown(panic) };
        let words = panic.to_string().replace('\n', " ");
        let line = format!("process 0 0 tracer\nlost {words}\nend\n");
        let _ = socket.write_all(line.as_bytes());
    }));
}

impl RunningJob {
    pub fn pid(&self) -> u32 {
        self.pending.pid()
    }

    /// The tracer's id.
    pub fn tracer(&self) -> Option<u32> {
        self.tracer.as_ref().map(Daemon::pid)
    }

    /// Closes this end of the socket, as the death of this process would.
    pub fn abandon(&mut self) {
        self.tracer = None;
    }

    /// Sends a signal to the first process.
    pub fn signal(&self, number: i32) {
        signal(self.pid(), number).unwrap();
    }

    /// The output so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stdout).unwrap()).into_owned()
    }

    /// Where it writes.
    pub fn output_file(&self) -> &Path {
        &self.stdout
    }

    /// Waits until it has written something.
    pub fn until_it_says(&self, text: &str) {
        while !self.output().contains(text) {
            assert!(Instant::now() < self.deadline, "it never said {text:?}, but {:?}", self.output());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> Vec<ProcessCounts> {
        let socket = self.tracer.as_ref().unwrap().socket();
        let mut writer = socket;
        writer.write_all(&[protocol::READ]).unwrap();
        protocol::read_report(&mut BufReader::new(socket)).unwrap()
    }

    /// The counts so far, and whether they are those of the end, because it has come meanwhile.
    pub fn ask(&self) -> (Vec<ProcessCounts>, bool) {
        let mut socket = self.tracer.as_ref().unwrap().socket();
        let _ = socket.write_all(&[protocol::READ]);
        // One that reads ahead would lose the next report.
        let mut reader = BufReader::with_capacity(1, socket);
        let mut text = String::new();
        loop {
            assert!(reader.read_line(&mut text).unwrap() > 0, "no report: {text}");
            let last = text.ends_with(&format!("{}\n", protocol::LAST));
            if last || text.ends_with(&format!("{}\n", protocol::SO_FAR)) {
                return (protocol::read_report(&mut text.as_bytes()).unwrap(), last);
            }
        }
    }

    /// Waits for the end of the first process.
    pub fn wait(&mut self) -> Status {
        while self.ended.is_none() {
            self.ended = reap(self.pid(), Reap::Poll).unwrap().map(|ended| ended.status);
            assert!(self.ended.is_some() || Instant::now() < self.deadline, "it hangs: {:?}", self.output());
            if self.ended.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.ended.unwrap()
    }

    /// The counts at the end, which is now.
    pub fn report(&self) -> Vec<ProcessCounts> {
        self.report_with_windows().0
    }

    /// The whole report of the end, which is now.
    #[allow(dead_code, reason = "not every test program needs it")]
    pub fn whole_report(&self) -> protocol::TracerReport {
        let mut socket = self.tracer.as_ref().unwrap().socket();
        let _ = socket.write_all(&[protocol::FINISH]);
        loop {
            let report = protocol::TracerReport::read(&mut BufReader::new(socket)).expect("a report");
            if report.last {
                return report;
            }
        }
    }

    /// The counts at the end, which is now, and all windows.
    pub fn report_with_windows(&self) -> (Vec<ProcessCounts>, Vec<WindowLine>) {
        let mut socket = self.tracer.as_ref().unwrap().socket();
        let _ = socket.write_all(&[protocol::FINISH]);
        let (mut report, mut windows) = (String::new(), Vec::new());
        for line in BufReader::new(socket).lines().map_while(Result::ok) {
            if WindowLine::is_one(&line) {
                windows.push(WindowLine::read(&line).expect("a window"));
            } else {
                report += &(line + "\n");
            }
        }
        (protocol::read_report(&mut report.as_bytes()).expect("a report"), windows)
    }

    /// Waits until a process that is not a child has ended.
    fn until_gone(&self, pid: u32) {
        let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        while !stat().is_empty() && !stat().contains(") Z ") {
            assert!(Instant::now() < self.deadline, "the tracer lives on");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub fn finish(mut self) -> TestRun {
        let status = self.wait();
        let (counts, windows) =
            if self.tracer.is_some() { self.report_with_windows() } else { Default::default() };
        self.tracer().into_iter().for_each(|tracer| self.until_gone(tracer));
        let refused = self.pending.used_before_exec().err().and_then(|error| error.raw_os_error());
        TestRun { stdout: self.output(), status, counts, refused, windows }
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = signal(self.pid(), SIGKILL);
            let _ = reap(self.pid(), Reap::Block);
        }
        let _ = fs::remove_file(&self.stdout);
    }
}
