//! Results of `perf stat -j`: an object for each event, and with some options for each interval or part of
//! the machine.

use std::collections::{BTreeMap, BTreeSet};

use cyclometer_toolkit::core::Provenance;
use cyclometer_toolkit::stats::compare::{RunOf, Series};
use serde_json::Value;

use super::{BaselineProblem, BaselineRead, Contents, RecordedCommand, SAVE_ANEW, not_below_zero, text};

/// The remedy for a file that does not count a whole command.
const MEASURE_THE_COMMAND: &str = "measure the command as a whole: perf stat -j -o FILE -- COMMAND";

/// Keys in rows of perf that cover only a part of the system, each with the option that makes perf write such
/// rows.
///
/// # Source
///
/// Linux `tools/perf/util/stat-display.c`, `print_aggr_id_json`, `print_cgroup`; the options of
/// `perf-stat(1)`.
const PARTS: [(&str, &str); 9] = [
    ("cpu", "-A"),
    ("core", "--per-core"),
    ("cluster", "--per-cluster"),
    ("cache", "--per-cache"),
    ("die", "--per-die"),
    ("socket", "--per-socket"),
    ("node", "--per-node"),
    ("thread", "--per-thread"),
    ("cgroup", "--for-each-cgroup"),
];

/// Reads an object in each line; `None` if the lines have another format.
pub(super) fn lines(text: &str) -> Option<BaselineRead<Contents>> {
    const VALUE: &str = "\"counter-value\"";
    if text.contains("Performance counter stats for") {
        let text = "it is perf's table for people";
        return Some(Err(BaselineProblem::new(
            text,
            "have perf write JSON: perf stat -j -o FILE -- COMMAND",
        )));
    }
    if let Some(line) = text.lines().find(|line| is_of_csv(line)) {
        let text = format!("it is perf's CSV: '{line}'");
        return Some(Err(BaselineProblem::new(
            text,
            "have perf write JSON: perf stat -j -o FILE -- COMMAND",
        )));
    }
    let mut runs = RunsRead::default();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        match json_of(line) {
            _ if line.starts_with(STARTED) => runs.begin(),
            _ if line.is_empty() || line.starts_with('#') => {}
            Ok(object) => runs.push(object),
            Err(_) if line.contains(VALUE) => return Some(Err(not_readable(number, line))),
            Err(_) => return None,
        }
    }
    runs.begin();
    (!runs.whole.is_empty()).then(|| runs.read())
}

/// The comment before each run in a file of perf's; newer versions write none above JSON.
///
/// # Source
///
/// Linux `tools/perf/builtin-stat.c`, `cmd_stat`.
const STARTED: &str = "# started on ";

/// The runs of perf in one file: `--append` adds one.
#[derive(Default)]
struct RunsRead {
    /// The objects of each run that is complete.
    whole: Vec<Vec<Value>>,
    /// The objects of the run that is being read.
    open: Vec<Value>,
    /// The end of the last interval, in s.
    last_end: Option<f64>,
}

impl RunsRead {
    /// Begins another run.
    fn begin(&mut self) {
        let run = std::mem::take(&mut self.open);
        self.last_end = None;
        if run.iter().any(|object| object.get("counter-value").is_some()) {
            self.whole.push(run);
        }
    }

    /// The time of intervals goes back only where another run begins.
    fn push(&mut self, object: Value) {
        if let Some(end) = object.get("interval").and_then(Value::as_f64) {
            if self.last_end.is_some_and(|last| end < last) {
                self.begin();
            }
            self.last_end = Some(end);
        }
        self.open.push(object);
    }

    fn read(&self) -> BaselineRead<Contents> {
        read(&self.whole)
    }
}

/// Whether a line is one of `perf stat -x`: value, unit, event, time, share.
fn is_of_csv(line: &str) -> bool {
    let is_value = |field: &str| field.starts_with('<') || field.replace(',', ".").parse::<f64>().is_ok();
    let is_event = |field: &str| field.starts_with(|c: char| c.is_ascii_alphabetic()) && !field.contains('"');
    [',', ';', '\t'].into_iter().any(|separator| {
        let fields: Vec<&str> = line.split(separator).collect();
        fields.len() >= 5 && is_value(fields[0]) && is_event(fields[2]) && is_value(fields[4])
    })
}

/// A line as JSON; metrics that perf could not compute are written as `nan` and `inf`, and are not read here.
fn json_of(line: &str) -> serde_json::Result<Value> {
    const NO_NUMBERS: [&str; 4] = [": nan", ": -nan", ": inf", ": -inf"];
    let known = NO_NUMBERS.iter().fold(line.to_owned(), |line, word| line.replace(word, ": null"));
    serde_json::from_str(&known)
}

fn not_readable(number: usize, line: &str) -> BaselineProblem {
    match foreign_number(line) {
        Some(found) => of_another_locale(&format!("line {number}"), &found),
        None => BaselineProblem::new(format!("line {number} of perf's is no JSON"), MEASURE_THE_COMMAND),
    }
}

fn of_another_locale(place: &str, number: &str) -> BaselineProblem {
    let text = format!("{place} has the number {number}: perf wrote it in another locale");
    BaselineProblem::new(
        text,
        "have perf write it anew with LC_ALL=C: LC_ALL=C perf stat -j -o FILE -- COMMAND",
    )
}

/// A number with a decimal sign that is no point, if there is one: `100,00`.
fn foreign_number(text: &str) -> Option<String> {
    let is_sign = |c: char| matches!(c, ',' | '٫');
    let is_part = |c: char| c.is_ascii_digit() || is_sign(c);
    let mut words = text.split(|c| !is_part(c)).map(|word| word.trim_matches(is_sign));
    let found = words.find(|word| {
        let mut halves = word.split(is_sign);
        let is_number = |half: Option<&str>| half.is_some_and(|half| !half.is_empty());
        is_number(halves.next()) && is_number(halves.next())
    });
    found.map(str::to_owned)
}

/// # Source
///
/// Linux `tools/perf/util/stat-display.c`, `print_counter_value_json` and the functions after it: values are
/// texts, with several runs the mean.
pub(super) fn read(runs: &[Vec<Value>]) -> BaselineRead<Contents> {
    let mut notes = vec![match runs.len() {
        0 | 1 => "the baseline is perf's: one number for all runs, so that nothing is known of their spread"
            .to_owned(),
        runs => format!("the baseline is perf's: {runs} runs that --append put into one file"),
    }];
    let mut whole = Vec::new();
    let mut are_added_up = false;
    for objects in runs {
        let rows = objects.iter().filter(|object| object.get("counter-value").is_some());
        let rows = rows.map(PerfRow::read).collect::<BaselineRead<Vec<PerfRow>>>()?;
        // With --summary the sums follow the intervals.
        let (intervals, sums): (Vec<PerfRow>, Vec<PerfRow>) =
            rows.into_iter().partition(|row| row.interval.is_some());
        are_added_up |= sums.is_empty();
        whole.push(if sums.is_empty() { added_up(intervals) } else { sums });
    }
    if are_added_up {
        notes.push("the intervals of perf were added up".to_owned());
    }
    let series = over_runs(whole);
    notes.extend(repeated(&series).filter(|_| runs.len() == 1).map(|name| {
        format!("perf has {name} more than once: as an event that was named twice, not as runs of --append")
    }));
    let commands =
        vec![RecordedCommand { command: "perf stat".to_owned(), series, ..RecordedCommand::default() }];
    Ok(Contents { commands, notes, ..Contents::default() })
}

/// The name of a metric that is there twice.
fn repeated(series: &[Series]) -> Option<&str> {
    let names = || series.iter().map(|series| series.name.as_str());
    names().enumerate().find(|(i, name)| names().take(*i).any(|before| before == *name)).map(|(_, name)| name)
}

/// An event over runs.
struct EventOverRuns {
    /// Which of those of one name in a run it is.
    number: usize,
    series: Series,
    /// Why a run has no value.
    gap: Option<String>,
    /// The remark on a value: that it is scaled.
    remark: Option<String>,
}

impl EventOverRuns {
    fn put(&mut self, run: usize, value: Option<f64>, reason: Option<String>) {
        self.series.values[run].value = value;
        let place = if value.is_some() { &mut self.remark } else { &mut self.gap };
        *place = place.take().or(reason);
    }

    fn series(self) -> Series {
        let (counted, runs) = (self.series.present().len(), self.series.values.len());
        let gap = match counted {
            0 => self.gap,
            _ => (counted < runs).then(|| format!("perf counted it in {counted} of {runs} runs")),
        };
        let reasons: Vec<String> = gap.into_iter().chain(self.remark).collect();
        Series { reason: (!reasons.is_empty()).then(|| reasons.join("; ")), ..self.series }
    }
}

/// The rows of each run as series over the runs. An event that was named twice in a run stays two.
fn over_runs(runs: Vec<Vec<PerfRow>>) -> Vec<Series> {
    let count = runs.len();
    let mut all: Vec<EventOverRuns> = Vec::new();
    for (run, rows) in runs.into_iter().enumerate() {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for of_run in rows.into_iter().map(PerfRow::series) {
            let seen_in_run = seen.entry(of_run.name.clone()).or_default();
            let number = std::mem::replace(seen_in_run, *seen_in_run + 1);
            let (value, reason) = (of_run.present().first().copied(), of_run.reason.clone());
            let known = all.iter().position(|own| own.number == number && own.series.name == of_run.name);
            let place = known.unwrap_or_else(|| {
                let values = (0..).take(count).map(|run| RunOf { run, value: None }).collect();
                let series = Series { values, ..of_run };
                all.push(EventOverRuns { number, series, gap: None, remark: None });
                all.len() - 1
            });
            all[place].put(run, value, reason);
        }
    }
    all.into_iter().map(EventOverRuns::series).collect()
}

/// A row of perf's.
#[derive(Clone, PartialEq, Debug)]
struct PerfRow {
    /// The end of the interval that it is of, as it is written.
    interval: Option<String>,
    event: String,
    unit: String,
    value: Option<f64>,
    /// The share of the time that it was on a counter, in percent; `None` if perf does not say.
    share: Option<f64>,
    /// How long that was, in ns; `None` if perf does not say.
    running_ns: Option<f64>,
    /// Why there is no value, or not all of it.
    reason: Option<String>,
}

impl PerfRow {
    fn read(object: &Value) -> BaselineRead<PerfRow> {
        if let Some((part, option)) = PARTS.iter().find(|(part, _)| object.get(part).is_some()) {
            let text = format!("it has a row for each {part}, as perf writes them with {option}");
            return Err(BaselineProblem::new(text, MEASURE_THE_COMMAND));
        }
        let number = |key: &str| object.get(key).and_then(Value::as_f64);
        let value = object.get("counter-value").unwrap_or(&Value::Null);
        let event = text(object, "event")?;
        let read = value_of(value, &event)?;
        Ok(PerfRow {
            interval: object.get("interval").map(Value::to_string),
            event,
            unit: object.get("unit").and_then(Value::as_str).unwrap_or_default().to_owned(),
            value: read,
            share: number("pcnt-running"),
            running_ns: number("event-runtime"),
            reason: read.is_none().then(|| format!("perf says {value}")),
        })
    }

    fn series(self) -> Series {
        let PerfRow { event, unit, value, share, reason, .. } = self;
        let scaled = || match share {
            None => Some("perf does not say for which share of the time it was counted".to_owned()),
            Some(share) => (share < 99.995).then(|| format!("scaled: observed {share:.0} % of the time")),
        };
        let (name, unit, scale) = match (event.as_str(), unit.as_str()) {
            ("duration_time", _) => ("wall_time", "ns", 1.0),
            ("user_time", _) => ("user_time", "ns", 1.0),
            ("system_time", _) => ("system_time", "ns", 1.0),
            (event, "msec") => (without_modes(event), "ns", 1e6),
            (event, unit) => (event, unit, 1.0),
        };
        Series {
            name: name.to_owned(),
            event: name.split(':').next().unwrap_or(name).to_owned(),
            unit: unit.to_owned(),
            provenances: provenance(name).map(|who| vec![who]),
            launch: Some("native".to_owned()),
            reason: reason.or_else(scaled),
            values: vec![RunOf { run: 0, value: value.map(|value| value * scale) }],
            ..Series::default()
        }
    }

    /// The time for which it was to be counted, in ns.
    fn enabled_ns(&self) -> Option<f64> {
        Some(self.running_ns? * 100.0 / self.share.filter(|share| *share > 0.0)?)
    }

    /// The rows of one event in a run of so many intervals as a row of the whole. Without the value of an
    /// interval the whole has none.
    fn added_up(rows: &[PerfRow], intervals: usize) -> Option<PerfRow> {
        let first = rows.first()?.clone();
        let counted = rows.iter().filter(|row| row.value.is_some()).count();
        let running_ns: Option<f64> = rows.iter().map(|row| row.running_ns).sum();
        let enabled_ns: Option<f64> = rows.iter().map(PerfRow::enabled_ns).sum();
        let share = || Some(100.0 * running_ns? / enabled_ns.filter(|enabled| *enabled > 0.0)?);
        let is_whole = counted == intervals;
        let gaps = || format!("perf did not count it in {} of {intervals} intervals", intervals - counted);
        Some(PerfRow {
            value: rows.iter().map(|row| row.value).sum::<Option<f64>>().filter(|_| is_whole),
            share: share(),
            running_ns,
            reason: match counted {
                // Each interval has the same reason.
                0 => first.reason,
                _ => (!is_whole).then(gaps),
            },
            ..first
        })
    }
}

/// The clocks of the kernel, which have no modes: perf adds `:u` to their names for ordinary users.
fn without_modes(event: &str) -> &str {
    match event.split_once(':') {
        Some((clock @ ("task-clock" | "cpu-clock"), _)) => clock,
        _ => event,
    }
}

fn value_of(value: &Value, event: &str) -> BaselineRead<Option<f64>> {
    let Value::String(text) = value else { return not_below_zero(value, event) };
    // `<not counted>`, `<not supported>`.
    if text.starts_with('<') {
        return Ok(None);
    }
    match text.trim().parse::<f64>().ok().filter(|number| number.is_finite()) {
        Some(number) => Ok(Some(number)),
        None if foreign_number(text).is_some() => Err(of_another_locale(event, text)),
        None => Err(BaselineProblem::new(format!("{event} is '{text}', which is no number"), SAVE_ANEW)),
    }
}

/// Rows of intervals as rows of the whole, in the order in which events come first.
fn added_up(rows: Vec<PerfRow>) -> Vec<PerfRow> {
    let mut whole: Vec<(usize, Vec<PerfRow>)> = Vec::new();
    let mut seen: BTreeMap<(Option<String>, String), usize> = BTreeMap::new();
    // A file that was cut off lacks events in its last interval.
    let intervals = rows.iter().map(|row| &row.interval).collect::<BTreeSet<_>>().len();
    for row in rows {
        // An event that was named twice has two rows in each interval, which are not to be added to each
        // other.
        let seen_in_interval = seen.entry((row.interval.clone(), row.event.clone())).or_default();
        let number = std::mem::replace(seen_in_interval, *seen_in_interval + 1);
        match whole.iter_mut().find(|(own, rows)| *own == number && rows[0].event == row.event) {
            Some((_, rows)) => rows.push(row),
            None => whole.push((number, vec![row])),
        }
    }
    whole.iter().filter_map(|(_, rows)| PerfRow::added_up(rows, intervals)).collect()
}

/// Events that the kernel counts itself, by perf's names.
///
/// # Source
///
/// `perf-list(1)`, software events and tool events.
const OF_THE_KERNEL: [&str; 14] = [
    "wall_time",
    "user_time",
    "system_time",
    "task-clock",
    "cpu-clock",
    "page-faults",
    "faults",
    "minor-faults",
    "major-faults",
    "context-switches",
    "cs",
    "cpu-migrations",
    "migrations",
    "alignment-faults",
];

/// The source of an event by its name in perf; unknown for `msr/tsc/` and similar names.
fn provenance(name: &str) -> Option<Provenance> {
    let stem = name.split(':').next().unwrap_or(name);
    match name.contains('/') {
        true => None,
        false if OF_THE_KERNEL.contains(&stem) => Some(Provenance::Kernel),
        false => Some(Provenance::Hardware),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use cyclometer_toolkit::stats::Failures;
    use cyclometer_toolkit::stats::compare::{Design, FailedRuns, Gate, GateSide, Question, Ruling};

    fn series<'a>(contents: &'a Contents, name: &str) -> &'a Series {
        let all = &contents.commands[0].series;
        all.iter().find(|series| series.name == name).unwrap_or_else(|| panic!("no {name} in {all:?}"))
    }

    /// A row as perf writes it, with more in front.
    fn row(front: &str, value: &str, event: &str, share: &str) -> String {
        format!(
            "{{{front}\"counter-value\" : \"{value}\", \"unit\" : \"\", \"event\" : \"{event}\", \
             \"event-runtime\" : 1000, \"pcnt-running\" : {share}, \"metric-value\" : 0.5}}\n"
        )
    }

    #[test]
    fn perf_gives_one_number_and_what_it_did_not_count() {
        let text = "# started on Sun\n\n\
            {\"counter-value\" : \"1234.000000\", \"unit\" : \"\", \"event\" : \"instructions:u\", \"event-runtime\" : 5, \"pcnt-running\" : 100.00}\n\
            {\"counter-value\" : \"<not supported>\", \"unit\" : \"\", \"event\" : \"cycles:u\", \"pcnt-running\" : 100.00}\n\
            {\"counter-value\" : \"0.500000\", \"unit\" : \"msec\", \"event\" : \"task-clock:u\", \"pcnt-running\" : 100.00}\n\
            {\"counter-value\" : \"900.000000\", \"unit\" : \"\", \"event\" : \"branches:u\", \"pcnt-running\" : 41.00}\n\
            {\"metric-value\" : \"1.2\"}\n";
        let contents = parse(text).unwrap();
        assert_eq!(series(&contents, "instructions:u").present(), [1234.0]);
        assert_eq!(series(&contents, "cycles:u").present(), [0.0; 0]);
        assert_eq!(series(&contents, "task-clock").present(), [5e5]);
        assert_eq!(
            series(&contents, "branches:u").reason.as_deref(),
            Some("scaled: observed 41 % of the time")
        );
        let of = |name| series(&contents, name).provenances.clone().unwrap();
        assert_eq!(of("branches:u"), [Provenance::Hardware]);
        assert_eq!(of("task-clock"), [Provenance::Kernel]);
        assert_eq!(provenance("msr/tsc/"), None);
        let bad = parse("{\"counter-value\" : \"nan\", \"unit\" : \"\", \"event\" : \"cycles:u\"}");
        assert_eq!(bad.unwrap_err().text, "cycles:u is 'nan', which is no number");
    }

    #[test]
    fn intervals_are_added_up() {
        let at = |end: &str| format!("\"interval\" : {end}, ");
        let mut text = row(&at("0.1"), "10", "cycles:u", "100.00");
        // The same event named twice, as two groups may have it.
        text += &row(&at("0.1"), "11", "cycles:u", "100.00");
        text += &row(&at("0.1"), "5", "page-faults", "100.00");
        text += &row(&at("0.2"), "20", "cycles:u", "50.00");
        text += &row(&at("0.2"), "21", "cycles:u", "50.00");
        text += &row(&at("0.2"), "<not counted>", "page-faults", "100.00");
        let contents = parse(&text).unwrap();
        let all = &contents.commands[0].series;
        let values: Vec<Vec<f64>> = all.iter().map(Series::present).collect();
        assert_eq!(values, [vec![30.0], vec![32.0], vec![]]);
        // 1000 ns of 1000, then 1000 of 2000.
        assert_eq!(all[0].reason.as_deref(), Some("scaled: observed 67 % of the time"));
        assert_eq!(all[2].reason.as_deref(), Some("perf did not count it in 1 of 2 intervals"));
        assert!(contents.notes.contains(&"the intervals of perf were added up".to_owned()));
        let with_summary = text + &row("", "77", "cycles:u", "100.00");
        let contents = parse(&with_summary).unwrap();
        assert_eq!(contents.commands[0].series.len(), 1);
        assert_eq!(series(&contents, "cycles:u").present(), [77.0]);
    }

    #[test]
    fn runs_that_were_appended_are_runs_and_an_event_named_twice_stays_two() {
        let started = "# started on Thu Nov 26 07:07:16 2026\n\n";
        let run = |a: &str, b: &str| {
            started.to_owned() + &row("", a, "task-clock", "100.00") + &row("", b, "task-clock", "100.00")
        };
        let text = run("1", "10") + &run("2", "<not counted>") + started + &run("3", "30");
        let contents = parse(&text).unwrap();
        let all = &contents.commands[0].series;
        let values: Vec<Vec<f64>> = all.iter().map(Series::present).collect();
        assert_eq!(values, [vec![1.0, 2.0, 3.0], vec![10.0, 30.0]]);
        assert_eq!(all[1].values[2], RunOf { run: 2, value: Some(30.0) });
        assert_eq!(all[1].reason.as_deref(), Some("perf counted it in 2 of 3 runs"));
        assert_eq!(contents.notes, ["the baseline is perf's: 3 runs that --append put into one file"]);
        let scaled = text.replacen("100.00", "40.00", 3);
        let reason = parse(&scaled).unwrap().commands[0].series[1].reason.clone();
        assert_eq!(reason.unwrap(), "perf counted it in 2 of 3 runs; scaled: observed 40 % of the time");
    }

    #[test]
    fn an_event_that_a_file_without_comments_repeats_is_told() {
        let text = row("", "1", "task-clock", "100.00").repeat(2);
        let contents = parse(&text).unwrap();
        assert_eq!(contents.commands[0].series.len(), 2);
        let told = contents.notes.iter().any(|note| note.starts_with("perf has task-clock more than once"));
        assert!(told, "{:?}", contents.notes);
    }

    #[test]
    fn appended_runs_with_intervals_are_added_up_each_by_itself() {
        let at =
            |end: &str, value: &str| row(&format!("\"interval\" : {end}, "), value, "page-faults", "100.00");
        let run = |n: &str| at("0.1", n) + &at("0.2", n);
        for started in ["", "# started on Sun\n"] {
            let text = [started, &run("5"), started, &run("7")].concat();
            let contents = parse(&text).unwrap();
            assert_eq!(series(&contents, "page-faults").present(), [10.0, 14.0], "{started}");
        }
    }

    #[test]
    fn an_event_that_no_interval_has_is_not_counted() {
        let text: String = ["0.1", "0.2"]
            .map(|end| row(&format!("\"interval\" : {end}, "), "<not supported>", "cycles:u", "100.00"))
            .concat();
        let contents = parse(&text).unwrap();
        assert_eq!(series(&contents, "cycles:u").present(), [0.0; 0]);
        assert_eq!(series(&contents, "cycles:u").reason.as_deref(), Some("perf says \"<not supported>\""));
    }

    /// The only series of intervals with values, running times in ms and shares.
    fn over_intervals(intervals: &[(&str, u32, &str)]) -> Series {
        let rows = (1..).zip(intervals).map(|(end, (value, ms, share))| {
            let row = row(&format!("\"interval\" : {end}.0, "), value, "cycles:u", share);
            row.replace("\"event-runtime\" : 1000", &format!("\"event-runtime\" : {}", ms * 1_000_000))
        });
        parse(&rows.collect::<String>()).unwrap().commands.remove(0).series.remove(0)
    }

    #[test]
    fn the_share_of_intervals_is_all_running_time_in_all_enabled_time() {
        for (intervals, share) in [
            (vec![("100", 100, "100.00"), ("100", 10, "10.00")], Some("55")),
            (vec![("100", 10, "10.00"), ("7", 30, "30.00"), ("1", 0, "50.00")], Some("20")),
            (vec![("100", 10, "100.00"), ("100", 90, "100.00")], None),
        ] {
            let expected = share.map(|share| format!("scaled: observed {share} % of the time"));
            assert_eq!(over_intervals(&intervals).reason, expected, "{intervals:?}");
        }
        let silent = row("", "12", "cycles:u", "1").replace("pcnt-running", "other");
        let contents = parse(&silent).unwrap();
        let told = series(&contents, "cycles:u").reason.as_deref();
        assert_eq!(told, Some("perf does not say for which share of the time it was counted"));
    }

    #[test]
    fn a_gate_decides_neither_over_a_gap_nor_hides_that_a_value_is_scaled() {
        let ours =
            Series { provenances: Some(vec![Provenance::Hardware]), ..Series::of("cycles:u", &[900.0; 9]) };
        let gate = Gate::parse("cycles > +1%").unwrap();
        let question = Question { design: Design::Apart, threshold: 0.005 };
        let outcome = |intervals: &[_]| {
            let failures = Failures::default();
            let of = |series| GateSide { series, failures: &failures };
            let (a, b) = ([over_intervals(intervals)], std::slice::from_ref(&ours));
            gate.apply(of(&a), of(b), question, FailedRuns::Refuse)
        };
        let (whole, scaled) = (("100", 100, "100.00"), ("100", 10, "10.00"));
        let missing = ("<not counted>", 0, "0.00");
        for intervals in [[whole, missing, scaled], [missing, whole, whole], [whole, whole, missing]] {
            let reason = "A has no value: perf did not count it in 1 of 3 intervals";
            assert_eq!(outcome(&intervals).ruling, Ruling::Impossible(reason.to_owned()));
        }
        let outcome = outcome(&[whole, scaled]);
        assert_eq!(outcome.ruling, Ruling::Inconclusive);
        let reason = outcome.compared.reason.unwrap();
        assert!(reason.ends_with("; A: scaled: observed 55 % of the time"), "{reason}");
    }

    #[test]
    fn an_event_that_lacks_the_row_of_an_interval_has_no_sum() {
        let at = |end: &str, event: &str| row(&format!("\"interval\" : {end}, "), "5", event, "100.00");
        let whole = ["0.1", "0.2", "0.3"].map(|end| at(end, "cycles:u") + &at(end, "page-faults")).concat();
        let cut_off = whole.trim_end().rsplit_once('\n').unwrap().0;
        let contents = parse(cut_off).unwrap();
        assert_eq!(series(&contents, "cycles:u").present(), [15.0]);
        let faults = series(&contents, "page-faults");
        assert_eq!(faults.present(), [0.0; 0]);
        assert_eq!(faults.reason.as_deref(), Some("perf did not count it in 1 of 3 intervals"));
    }

    #[test]
    fn rows_of_parts_are_refused_with_the_option_that_made_them() {
        for (front, part, option) in [
            ("\"cpu\" : \"0\", ", "cpu", "-A"),
            ("\"socket\" : \"S0\", \"aggregate-number\" : 2, ", "socket", "--per-socket"),
            ("\"interval\" : 0.1, \"core\" : \"S0-D0-C0\", \"aggregate-number\" : 1, ", "core", "--per-core"),
            ("\"die\" : \"S0-D0\", \"counters\" : 4, ", "die", "--per-die"),
            ("\"node\" : \"N0\", ", "node", "--per-node"),
            ("\"thread\" : \"gzip-13390\", ", "thread", "--per-thread"),
            ("\"cgroup\" : \"/\", ", "cgroup", "--for-each-cgroup"),
        ] {
            let problem = parse(&row(front, "1", "cycles:u", "100.00").repeat(2)).unwrap_err();
            assert_eq!(
                problem.text,
                format!("it has a row for each {part}, as perf writes them with {option}")
            );
            assert_eq!(problem.help, MEASURE_THE_COMMAND);
            let single = parse(row(front, "1", "cycles:u", "100.00").trim()).unwrap_err();
            assert_eq!(single.text, problem.text, "one row is a whole JSON text");
        }
    }

    #[test]
    fn numbers_of_another_locale_are_named_as_that() {
        for (text, place, number) in [
            (row("", "1234,000000", "cycles:u", "100,00"), "line 1", "1234,000000"),
            (format!("# started\n{}", row("", "12", "cycles:u", "100,00")), "line 2", "100,00"),
            (row("", "12", "cycles:u", "100,00"), "line 1", "100,00"),
            (row("", "0,5", "task-clock", "100.00").repeat(2), "task-clock", "0,5"),
        ] {
            let problem = parse(&text).unwrap_err();
            let expected = format!("{place} has the number {number}: perf wrote it in another locale");
            assert_eq!(problem.text, expected, "{text}");
            assert!(problem.help.contains("LC_ALL=C perf stat -j"));
        }
    }

    #[test]
    fn metrics_that_perf_could_not_compute_change_nothing() {
        let text = row("", "12", "cycles:u", "100.00").replace("0.5", "nan");
        assert_eq!(series(&parse(&text).unwrap(), "cycles:u").present(), [12.0]);
    }

    #[test]
    fn what_else_perf_writes_is_named() {
        let problem =
            parse(" Performance counter stats for 'true':\n\n  0,55 msec task-clock\n").unwrap_err();
        assert_eq!(problem.text, "it is perf's table for people");
        for line in ["1.04,msec,task-clock,1042561,100.00,0.004,CPUs utilized", "12;;cycles:u;1000;100,00;;"]
        {
            let problem = parse(&format!("# started\n\n{line}\n")).unwrap_err();
            assert_eq!(problem.text, format!("it is perf's CSV: '{line}'"));
        }
        let cut = row("", "1", "cycles:u", "100.00") + "{\"counter-value\" : \"12";
        assert_eq!(parse(&cut).unwrap_err().text, "line 2 of perf's is no JSON");
        assert!(parse("a\n{\"x\": 1}").unwrap_err().text.starts_with("it is not JSON"));
    }
}
