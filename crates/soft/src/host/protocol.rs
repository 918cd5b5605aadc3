//! The protocol of the tracer: lines of text on a socket.
//!
//! ```text
//! ready | refused ERRNO          once, when the command is traced or cannot be
//! process PID PARENT NAME        then, for each request and at the end, for each process:
//! lost REASON                    or, for each event:
//! count EVENT NUMBER | missing EVENT REASON
//! uncounted REASON               behind these lines, if the rest of its life is not counted
//! running NUMBER                 before the end of the last report, if any process was detached and runs
//! object NUMBER SUM PATH         for profiles, in the last report: a file of code
//! memory NUMBER PID SINCE        the memory of a process, with code of no file
//! run OBJECT OFFSET TIMES NOT-TAKEN TAKEN BYTES OFFSET:UNITS...    executions of instructions; - for no file
//! full                           more code was executed than is reported
//! path PARENT OBJECT OFFSET CALLS RECURSIONS OWN PARTIAL    for call paths: a path; - for no parent
//! model OBJECT OFFSET NUMBER...  for models of caches: the counts of an instruction, see [`ModelledRow`]
//! doubt REASON                   for models: why addresses may be wrong, in words that follow "a program"
//! so far | end                   the end of a requested report, or of the last one
//! ```

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::io::{self, BufRead, Read};

use crate::call_paths::CallPath;
use crate::code_profile::{CodeProfile, CodeRun, InstructionPlace, RunExecutions};
use crate::model::misses::MissCounts;
use crate::{EventSet, EventTotals, ExecutionEvent};

/// Asks for the counts so far.
pub const READ: u8 = b'r';
/// Asks to detach every process, and for the counts.
pub const FINISH: u8 = b'f';

/// The last line of a requested report.
pub const SO_FAR: &str = "so far";
/// The last line of the last report.
pub const LAST: &str = "end";

/// Most bytes of a line, and most lines of a report.
const MOST_BYTES: u64 = 1 << 20;
const MOST_LINES: usize = 10_000_000;

/// The counts of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessCounts {
    /// Its id.
    pub pid: u32,
    /// The process that made it.
    pub parent: u32,
    /// The name of the program that it executed last, as the kernel abbreviates it.
    pub name: String,
    /// The count of each event, or the reason why it is missing.
    pub counts: Result<EventResults, String>,
    /// The reason why the rest of its life is not counted, in words that follow "what the process did".
    pub uncounted: Option<String>,
}

/// The count of each event, or the reason why it is missing.
pub type EventResults = Vec<(ExecutionEvent, Result<u64, String>)>;

impl ProcessCounts {
    /// The count of an event.
    ///
    /// # Errors
    ///
    /// The reason why the count is missing.
    pub fn count(&self, event: ExecutionEvent) -> Result<u64, String> {
        let counts = self.counts.as_ref().map_err(Clone::clone)?;
        let found = counts.iter().find(|(known, _)| *known == event);
        found.map_or_else(|| Err(format!("{event} was not reported")), |(_, count)| count.clone())
    }
}

/// The lines for a process, with some events.
pub(crate) fn process(
    pid: u32,
    parent: u32,
    name: &str,
    totals: &Result<EventTotals, String>,
    events: EventSet,
) -> String {
    let mut text = format!("process {pid} {parent} {}\n", one_line(name));
    match totals {
        Err(reason) => {
            let _ = writeln!(text, "lost {}", one_line(reason));
        }
        Ok(totals) => {
            for event in events.iter() {
                let _ = match totals.total(event) {
                    Ok(count) => writeln!(text, "count {event} {count}"),
                    Err(reason) => writeln!(text, "missing {event} {}", one_line(&reason.to_string())),
                };
            }
        }
    }
    text
}

/// The line for a process that is counted up to a point.
pub(crate) fn uncounted(reason: &str) -> String {
    format!("uncounted {}\n", one_line(reason))
}

/// The origin of a code object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ObjectOrigin<'a> {
    /// A file: its path, and its sum if that is known.
    File(&'a str, Option<&'a str>),
    /// The memory of a process.
    Memory(RunTimeCodeOwner),
}

/// A process that has executed code of no file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunTimeCodeOwner {
    /// Its id.
    pub pid: u32,
    /// A time before it began, in nanoseconds since 1970.
    pub since_ns: u64,
}

/// The digits of bytes.
const HEX: [u8; 16] = *b"0123456789abcdef";

/// The lines of a profile; `origin` gives that of an object by its number.
pub(crate) fn code<'a>(profile: &CodeProfile, origin: impl Fn(u32) -> Option<ObjectOrigin<'a>>) -> String {
    let mut text = String::new();
    let mut objects: Vec<u32> = profile.runs().filter_map(|(run, _)| run.place.object).collect();
    objects.sort_unstable();
    objects.dedup();
    for object in objects {
        text += &object_line(object, origin(object));
    }
    for (run, executions) in profile.runs() {
        let RunExecutions { times, directions: [not_taken, taken], units } = executions;
        for (word, number) in [("run", run.place.owner), ("", run.place.object)] {
            let _ = match number {
                Some(number) => write!(text, "{word} {number}"),
                None => write!(text, "{word} {NO_FILE}"),
            };
        }
        let _ = write!(text, " {:x} {times} {not_taken} {taken} ", run.place.offset);
        let digit = |half: u8| char::from(HEX[usize::from(half)]);
        text.extend(run.bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]));
        units.iter().for_each(|(offset, units)| {
            let _ = write!(text, " {offset}:{units}");
        });
        text.push('\n');
    }
    if profile.is_full() {
        text.push_str("full\n");
    }
    text
}

/// The lines of the processes or threads with executions of their own.
pub(crate) fn owners(owners: &[(u32, ReportedOwner)]) -> String {
    let line = |(number, owner): &(u32, ReportedOwner)| {
        let tid = owner.tid.map_or(NO_FILE.to_owned(), |tid| tid.to_string());
        format!("owner {number} {} {tid} {}\n", owner.pid, one_line(&owner.name))
    };
    owners.iter().map(line).collect()
}

/// The lines of call paths, with the files of their code that the profile does not have.
pub(crate) fn paths<'a>(
    paths: &[CallPath],
    profile: &CodeProfile,
    origin: impl Fn(u32) -> Option<ObjectOrigin<'a>>,
) -> String {
    let mut text = String::new();
    let known: HashSet<u32> = profile.runs().filter_map(|(run, _)| run.place.object).collect();
    let entered: BTreeSet<u32> = paths.iter().filter_map(|path| path.place.object).collect();
    for object in entered.into_iter().filter(|object| !known.contains(object)) {
        text += &object_line(object, origin(object));
    }
    for CallPath { parent, place, calls, recursions, own, is_partial } in paths {
        let parent = parent.map_or(NO_FILE.to_owned(), |parent| parent.to_string());
        let object = place.object.map_or(NO_FILE.to_owned(), |object| object.to_string());
        let partial = u8::from(*is_partial);
        let _ =
            writeln!(text, "path {parent} {object} {:x} {calls} {recursions} {own} {partial}", place.offset);
    }
    text
}

/// The counts of an instruction in a model of caches: instructions, data references, misses of the caches of
/// instructions, of data and the last level, branches, and mispredictions; then misses of the TLBs of
/// instructions, of data and the second level, which are 0 where no TLB is modelled.
pub type ModelledRow = (InstructionPlace, [u64; 10]);

/// The lines of a model of caches, with the files of its code.
pub(crate) fn modelled<'a>(
    rows: &[(InstructionPlace, MissCounts)],
    doubt: Option<&str>,
    origin: impl Fn(u32) -> Option<ObjectOrigin<'a>>,
) -> String {
    let mut text = String::new();
    let objects: BTreeSet<u32> = rows.iter().filter_map(|(place, _)| place.object).collect();
    objects.into_iter().for_each(|object| text += &object_line(object, origin(object)));
    for (place, counts) in rows {
        let object = place.object.map_or(NO_FILE.to_owned(), |object| object.to_string());
        let MissCounts { l1i, l1d, ll, mispredictions, itlb, dtlb, stlb, .. } = counts;
        let [l1i, l1d, ll, mispredictions, itlb, dtlb, stlb] =
            [l1i, l1d, ll, mispredictions, itlb, dtlb, stlb].map(|misses| misses.known);
        let MissCounts { instructions, data_references, branches, .. } = counts;
        let _ = writeln!(
            text,
            "model {object} {:x} {instructions} {data_references} {l1i} {l1d} {ll} {branches} \
             {mispredictions} {itlb} {dtlb} {stlb}",
            place.offset
        );
    }
    if let Some(doubt) = doubt {
        let _ = writeln!(text, "doubt {}", one_line(doubt));
    }
    text
}

fn object_line(object: u32, origin: Option<ObjectOrigin<'_>>) -> String {
    match origin.unwrap_or(ObjectOrigin::File("", None)) {
        ObjectOrigin::File(path, sum) => {
            format!("object {object} {} {}\n", sum.unwrap_or(NO_FILE), one_line(path))
        }
        ObjectOrigin::Memory(RunTimeCodeOwner { pid, since_ns }) => {
            format!("memory {object} {pid} {since_ns}\n")
        }
    }
}

/// A text for code of no file.
const NO_FILE: &str = "-";

/// The line for processes that still run when counting ends.
pub(crate) fn running(processes: usize) -> String {
    format!("running {processes}\n")
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Reads one line without its end; `None` at the end of the stream.
///
/// # Errors
///
/// The operating system's; `InvalidData` when a line is too long or no text.
pub fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    from.by_ref().take(MOST_BYTES).read_line(&mut line)?;
    match line.pop() {
        None => Ok(None),
        Some('\n') => Ok(Some(line)),
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A report of the tracer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TracerReport {
    /// Every process that was followed, in the order of their forks.
    pub processes: Vec<ProcessCounts>,
    /// Whether it is the last report.
    pub last: bool,
    /// The number of processes that still run after the last report. Their later executions are in no count.
    pub running: usize,
    /// The executions by address, of the processes that have counts; empty where they were not requested.
    pub code: CodeReport,
}

/// Executions by address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeReport {
    /// The files of code.
    pub objects: Vec<ReportedFile>,
    /// The processes or threads with executions of their own, by number; none where all are added up.
    pub owners: Vec<(u32, ReportedOwner)>,
    /// The memory of processes with code of no file, by the number of its object.
    pub memory: Vec<(u32, RunTimeCodeOwner)>,
    /// The executions.
    pub profile: CodeProfile,
    /// The instructions by call path, where they were requested: a path comes after that of its caller.
    pub paths: Vec<CallPath>,
    /// The counts of a model of caches by instruction, where they were requested.
    pub modelled: Vec<ModelledRow>,
    /// Why addresses in the model may be wrong, in words that follow "a program".
    pub doubt: Option<String>,
}

/// A process or thread with executions of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportedOwner {
    /// The id of the process.
    pub pid: u32,
    /// The id of the thread; `None`: all threads of the process.
    pub tid: Option<u32>,
    /// Its name when it ended, or was read last; empty where it could not be read.
    pub name: String,
}

/// A file of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportedFile {
    /// Its number.
    pub number: u32,
    /// The sum of [`crate::host::file_sum`]; `-` for a file that its path did not lead to.
    pub sum: String,
    /// Its path, as a program that maps it sees it, as text of [`crate::host::escaped_path`]; empty if it is
    /// unknown.
    pub path: String,
}

impl TracerReport {
    /// Reads a report up to its end.
    ///
    /// # Errors
    ///
    /// The operating system's; `UnexpectedEof` when it ends early, `InvalidData` when it is not a report.
    pub fn read(from: &mut impl BufRead) -> io::Result<TracerReport> {
        let (mut processes, mut running, mut code) = (Vec::new(), 0, CodeReport::default());
        for _ in 0..MOST_LINES {
            let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if line == LAST || line == SO_FAR {
                return Ok(TracerReport { processes, last: line == LAST, running, code });
            }
            let known = match line.split_once(' ') {
                Some(("running", number)) => number.parse().ok().map(|number| running = number),
                Some(("run", rest)) => code.add_run(rest),
                Some(("path", rest)) => code.add_path(rest),
                Some(("model", rest)) => code.add_modelled(rest),
                Some(("doubt", rest)) => {
                    code.doubt = Some(rest.to_owned());
                    Some(())
                }
                Some(("object", rest)) => code.add_object(rest),
                Some(("memory", rest)) => code.add_memory(rest),
                Some(("owner", rest)) => code.add_owner(rest),
                None if line == "full" => {
                    code.profile.set_full();
                    Some(())
                }
                _ => add_line(&mut processes, &line),
            };
            known.ok_or(io::ErrorKind::InvalidData)?;
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

impl CodeReport {
    fn add_object(&mut self, rest: &str) -> Option<()> {
        let mut fields = rest.splitn(3, ' ');
        let number = fields.next()?.parse().ok()?;
        let (sum, path) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        self.objects.push(ReportedFile { number, sum, path });
        Some(())
    }

    fn add_memory(&mut self, rest: &str) -> Option<()> {
        let fields: Vec<&str> = rest.split(' ').collect();
        let [number, pid, since_ns] = fields.try_into().ok()?;
        let owner = RunTimeCodeOwner { pid: pid.parse().ok()?, since_ns: since_ns.parse().ok()? };
        self.memory.push((number.parse().ok()?, owner));
        Some(())
    }

    fn add_owner(&mut self, rest: &str) -> Option<()> {
        let mut fields = rest.splitn(4, ' ');
        let (owner, pid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (tid, name) = (number(fields.next()?)?, fields.next()?.to_owned());
        self.owners.push((owner, ReportedOwner { pid, tid, name }));
        Some(())
    }

    fn add_path(&mut self, rest: &str) -> Option<()> {
        let fields: Vec<&str> = rest.split(' ').collect();
        let [parent, object, offset, calls, recursions, own, partial] = fields.try_into().ok()?;
        let is_known =
            |parent: &Option<u32>| parent.is_none_or(|parent| (parent as usize) < self.paths.len());
        let parent = number(parent).filter(is_known)?;
        let place = InstructionPlace {
            object: number(object)?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            owner: None,
        };
        let (calls, recursions) = (calls.parse().ok()?, recursions.parse().ok()?);
        let (own, is_partial) = (own.parse().ok()?, partial == "1");
        self.paths.push(CallPath { parent, place, calls, recursions, own, is_partial });
        Some(())
    }

    fn add_modelled(&mut self, rest: &str) -> Option<()> {
        let mut fields = rest.split(' ');
        let object = match fields.next()? {
            NO_FILE => None,
            number => Some(number.parse().ok()?),
        };
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let counts: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        self.modelled.push((InstructionPlace { object, offset, owner: None }, counts.try_into().ok()?));
        Some(())
    }

    fn add_run(&mut self, rest: &str) -> Option<()> {
        let mut fields = rest.split(' ');
        let (owner, object) = (number(fields.next()?)?, number(fields.next()?)?);
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let mut number = || fields.next()?.parse().ok();
        let (times, directions) = (number()?, [number()?, number()?]);
        let bytes = from_hex(fields.next()?)?;
        let unit = |field: &str| {
            let (offset, units) = field.split_once(':')?;
            Some((offset.parse().ok()?, units.parse().ok()?))
        };
        let units = fields.map(unit).collect::<Option<Vec<_>>>()?;
        let run = CodeRun { place: InstructionPlace { object, offset, owner }, bytes };
        self.profile.add(run, RunExecutions { times, directions, units });
        Some(())
    }
}

/// The number of an object or owner; `None` inside where there is none.
fn number(text: &str) -> Option<Option<u32>> {
    match text {
        NO_FILE => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// The bytes of hexadecimal digits, two for each.
fn from_hex(digits: &str) -> Option<Box<[u8]>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}

fn add_line(processes: &mut Vec<ProcessCounts>, line: &str) -> Option<()> {
    let (word, rest) = line.split_once(' ')?;
    match (word, processes.last_mut()) {
        ("process", _) => processes.push(head(rest)?),
        ("lost", Some(process)) => process.counts = Err(rest.to_owned()),
        ("uncounted", Some(process)) => process.uncounted = Some(rest.to_owned()),
        ("count" | "missing", Some(process)) => process.counts.as_mut().ok()?.push(entry(word, rest)?),
        _ => return None,
    }
    Some(())
}

/// Reads the processes of the next report.
///
/// # Errors
///
/// As [`TracerReport::read`].
pub fn read_report(from: &mut impl BufRead) -> io::Result<Vec<ProcessCounts>> {
    TracerReport::read(from).map(|report| report.processes)
}

fn head(text: &str) -> Option<ProcessCounts> {
    let mut fields = text.splitn(3, ' ');
    let mut number = || fields.next()?.parse().ok();
    let (pid, parent) = (number()?, number()?);
    let name = fields.next()?.to_owned();
    Some(ProcessCounts { pid, parent, name, counts: Ok(Vec::new()), uncounted: None })
}

fn entry(word: &str, text: &str) -> Option<(ExecutionEvent, Result<u64, String>)> {
    let (name, value) = text.split_once(' ')?;
    let event = ExecutionEvent::from_name(name)?;
    let count = if word == "count" { Ok(value.parse().ok()?) } else { Err(value.to_owned()) };
    Some((event, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut text = process(7, 1, "a b\nc", &Ok(EventTotals::new()), EventSet::default());
        text += &uncounted("after a\ncall");
        text += &process(8, 7, "", &Err("started\ra thread".to_owned()), EventSet::default());
        text += &running(2);
        text += "end\n";
        let report = TracerReport::read(&mut text.as_bytes()).unwrap();
        assert!(report.last && report.running == 2);
        let read = report.processes;
        assert_eq!((read[0].pid, read[0].parent, read[0].name.as_str()), (7, 1, "a b?c"));
        assert_eq!(read[0].uncounted.as_deref(), Some("after a?call"));
        assert_eq!(read[1].uncounted, None);
        assert_eq!(read[0].count(ExecutionEvent::Instructions), Ok(0));
        assert!(read[0].count(ExecutionEvent::DistinctCodeBytes).is_err());
        assert_eq!(read[1].count(ExecutionEvent::Loads), Err("started?a thread".to_owned()));
    }

    #[test]
    fn executions_by_address_are_read_as_they_were_written() {
        let mut profile = CodeProfile::default();
        let place = |object: Option<u32>, offset| InstructionPlace { object, offset, owner: object };
        let executions = RunExecutions { times: u64::MAX, directions: [1, 2], units: vec![(3, 4), (7, 9)] };
        profile.add(CodeRun { place: place(Some(7), 0x1f0), bytes: [0x90, 0x0f].into() }, executions.clone());
        profile.add(CodeRun { place: place(None, 1), bytes: [0xc3].into() }, RunExecutions::default());
        profile.add(CodeRun { place: place(Some(8), 0x7f00), bytes: [0x90].into() }, executions);
        let owner = RunTimeCodeOwner { pid: 77, since_ns: u64::MAX };
        let origin = |number| match number {
            7 => ObjectOrigin::File("/a b\n/c", Some("y")),
            _ => ObjectOrigin::Memory(owner),
        };
        let owner_7 = ReportedOwner { pid: 12, tid: Some(13), name: "a b\n".to_owned() };
        let owner_8 = ReportedOwner { pid: 14, tid: None, name: String::new() };
        let owned = [(7, owner_7), (8, owner_8.clone())];
        let text = owners(&owned) + &code(&profile, |number| Some(origin(number))) + "end\n";
        let report = TracerReport::read(&mut text.as_bytes()).unwrap();
        assert_eq!(report.code.profile, profile);
        let object = ReportedFile { number: 7, sum: "y".to_owned(), path: "/a b?/c".to_owned() };
        assert_eq!(report.code.objects, [object]);
        assert_eq!(report.code.memory, [(8, owner)]);
        let read_7 = ReportedOwner { pid: 12, tid: Some(13), name: "a b?".to_owned() };
        assert_eq!(report.code.owners, [(7, read_7), (8, owner_8)]);
        profile.set_full();
        let text = code(&profile, |_| None) + "end\n";
        assert!(TracerReport::read(&mut text.as_bytes()).unwrap().code.profile.is_full());
    }

    #[test]
    fn call_paths_are_read_as_they_were_written() {
        let path = |parent, object, offset, is_partial| {
            let place = InstructionPlace { object, offset, owner: None };
            CallPath { parent, place, calls: 3, recursions: 1, own: u64::MAX, is_partial }
        };
        let all = [path(None, Some(2), 0x10, false), path(Some(0), None, 0xffff_0000, true)];
        let text = paths(&all, &CodeProfile::default(), |_| Some(ObjectOrigin::File("/p", None))) + "end\n";
        let report = TracerReport::read(&mut text.as_bytes()).unwrap();
        assert_eq!(report.code.paths, all);
        assert_eq!(report.code.objects[0].number, 2);
    }

    #[test]
    fn text_that_is_not_a_report_is_an_error() {
        let texts = [
            "",
            "process 1 2 x\n",
            "count loads 1\nend\n",
            "process 1 x\nend\n",
            "nonsense\nend\n",
            "running x\nend\n",
            "process 1 2 x\ncount cycles 1\nend\n",
            "run - 0 1 2\nend\n",
            "run - 0 1 2 3 9\nend\n",
            "run - 0 1 2 3 zz\nend\n",
            "run - 0 1 2 3 90 1\nend\n",
            "object x y z\nend\n",
            "path 0 - 1 1 0 1 0\nend\n",
            "path - - 1 1 0 1\nend\n",
        ];
        for text in texts {
            assert!(read_report(&mut text.as_bytes()).is_err(), "{text:?}");
        }
        let long = "x".repeat(2 << 20);
        assert!(read_line(&mut long.as_bytes()).is_err());
    }
}
