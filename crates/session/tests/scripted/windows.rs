//! Windows that fail, and the order in which windows and counters end.

use std::num::NonZeroU64;
use std::time::Instant;

use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowFlags, WindowRow, WindowSpec, Windowing, WindowingState,
};
use cyclometer_core::{Count, Error, ErrorKind, Result, SlotId};
use cyclometer_session::SessionSettings;

use super::script::*;
use super::{Play, play};

/// The script by which the windows of a scripted source go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WindowFate {
    Count,
    FailWhileRunning,
    FailAtTheEnd,
}

pub struct ScriptedWindows {
    pub log: Log,
    pub fate: WindowFate,
    pub stopped: bool,
}

impl Windowing for ScriptedWindows {
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.log.borrow_mut().push("stop windows".to_owned());
        self.stopped = true;
        Ok(())
    }

    fn next(&mut self, _: Instant, batch: &mut RowBatch) -> Result<WindowingState> {
        let fails = match self.fate {
            WindowFate::Count => false,
            WindowFate::FailWhileRunning => !self.stopped,
            WindowFate::FailAtTheEnd => self.stopped,
        };
        if fails {
            return Err(Error::new(ErrorKind::StateLost, "the group lost its counter"));
        }
        batch.rows.push(WindowRow {
            thread: None,
            cpu: None,
            time_ns: None,
            address: None,
            cause: WindowCause::End,
            counts: vec![Count::Exact(7)],
            enabled_ns: None,
            running_ns: None,
            flags: WindowFlags::default(),
        });
        Ok(if self.stopped { WindowingState::Ended } else { WindowingState::Open })
    }

    fn notes(&self) -> Vec<String> {
        vec!["a note".to_owned()]
    }
}

fn recorded(fate: WindowFate) -> super::Played {
    let boundary = WindowBoundary::Events { slot: SlotId(0), period: NonZeroU64::MIN };
    let settings = SessionSettings { windows: Some(WindowSpec::new(boundary)), ..SessionSettings::default() };
    play(Play { settings, windows: Some(fate), acts: vec![Act::Deadlines(3)], ..Play::default() })
}

#[test]
fn windows_end_before_the_counters_that_have_the_totals() {
    let played = recorded(WindowFate::Count);
    let place = |what: &str| played.log.iter().position(|line| line == what).unwrap();
    assert!(place("stop windows") < place("stop perf"), "{:?}", played.log);
    assert_eq!(played.heard.window_notes, ["a note"]);
    assert!(played.heard.window_rows >= 1);
}

#[test]
fn windows_that_fail_cost_neither_the_command_nor_its_totals() {
    for fate in [WindowFate::FailWhileRunning, WindowFate::FailAtTheEnd] {
        let played = recorded(fate);
        let run = &played.report().runs[0];
        assert!(run.reading.cells.iter().any(|cell| cell.slot == SlotId(0) && cell.lost.is_none()));
        assert_eq!(played.report().failure, None);
        let notes = &played.heard.window_notes;
        assert_eq!(
            notes.last().unwrap(),
            "the rows end before the run: the group lost its counter",
            "{notes:?}"
        );
    }
}
