//! The time of each step.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::root;

/// The time of a step.
pub(super) struct StepTime {
    pub name: &'static str,
    pub wall: Duration,
    /// Unknown for a step that was killed, and where there is no `/proc`.
    pub cpu: Option<Duration>,
    /// Whether it ran beside the test programs.
    pub beside: bool,
    pub failure: Option<String>,
}

/// The folder with the output and the CPU time of steps.
pub(super) fn folder() -> PathBuf {
    root().join("target").join("ci")
}

fn file(name: &str) -> PathBuf {
    folder().join(format!("{name}.cpu"))
}

/// Keeps the CPU time that the children of this process took.
pub(super) fn write_cpu_time(name: &str) -> Result<()> {
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return Ok(()) };
    let Some(ticks) = ticks_of_children(&stat) else { return Ok(()) };
    fs::create_dir_all(folder())?;
    fs::write(file(name), (ticks * 10).to_string())
        .with_context(|| format!("writing {}", file(name).display()))
}

/// CPU time of the processes that this one has waited for, in ticks of 10 ms.
///
/// # Source
///
/// `proc_pid_stat(5)`: `cutime` and `cstime` are the fields 16 and 17; `sysconf(_SC_CLK_TCK)` is 100 on every
/// Linux.
fn ticks_of_children(stat: &str) -> Option<u64> {
    let fields = stat.rsplit_once(") ")?.1;
    let mut times = fields.split(' ').skip(13).take(2).map(|field| field.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

/// The CPU time that a step has kept.
pub(super) fn cpu_time(name: &str) -> Option<Duration> {
    Some(Duration::from_millis(fs::read_to_string(file(name)).ok()?.parse().ok()?))
}

/// Removes the CPU time of an earlier run.
pub(super) fn forget(name: &str) {
    let _ = fs::remove_file(file(name));
}

/// A table of all steps.
pub(super) fn table(steps: &[StepTime], all: Duration) -> String {
    let mut text = format!("\n{:<14} {:>7} {:>7}\n", "step", "s", "CPU s");
    let seconds = |time: Duration| format!("{:.0}", time.as_secs_f64());
    for step in steps {
        let cpu = step.cpu.map_or("unknown".to_owned(), seconds);
        let _ = write!(text, "{:<14} {:>7} {cpu:>7}", step.name, seconds(step.wall));
        text += match (&step.failure, step.beside) {
            (Some(_), _) => "  failed\n",
            (None, true) => "  beside the tests\n",
            (None, false) => "\n",
        };
    }
    let cpu: Duration = steps.iter().filter_map(|step| step.cpu).sum();
    let _ = writeln!(text, "{:<14} {:>7} {:>7}", "all", seconds(all), seconds(cpu));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_children_is_read_also_where_a_name_has_parentheses() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 70 8 20 0 1 0 100 1 1";
        assert_eq!(ticks_of_children(stat), Some(78));
        assert_eq!(ticks_of_children("7 (a) S 1"), None);
        assert_eq!(ticks_of_children(""), None);
    }

    #[test]
    fn the_table_has_a_line_for_each_step_and_no_zero_for_an_unknown_time() {
        let time = |name, cpu, failure| StepTime {
            name,
            wall: Duration::from_secs(61),
            cpu,
            beside: name == "guests",
            failure,
        };
        let steps = [
            time("tests", Some(Duration::from_secs(100)), None),
            time("guests", None, None),
            time("release", None, Some("exit status: 1".to_owned())),
        ];
        let table = table(&steps, Duration::from_secs(90));
        let expected = "
step                 s   CPU s
tests               61     100
guests              61 unknown  beside the tests
release             61 unknown  failed
all                 90     100
";
        assert_eq!(table, expected);
    }
}
