//! The byte stream of a tracer, assembled to lines and reports.

use std::io;

use cyclometer_soft::host::protocol::{LAST, SO_FAR, TracerReport};
use cyclometer_soft::host::window_protocol::WindowLine;

/// Bytes that were received and not parsed yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// Bytes before this position were searched already; they hold no end of a report.
    searched: usize,
    /// Lines about windows that came before a report.
    windows: Vec<WindowLine>,
}

impl Inbox {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next line, without its end, if it is complete.
    pub(super) fn line(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// Lines about windows, up to the next report.
    pub(super) fn windows(&mut self) -> Vec<WindowLine> {
        self.take_windows();
        std::mem::take(&mut self.windows)
    }

    /// Takes lines about windows out, which are between reports. A damaged one is left for the report.
    fn take_windows(&mut self) {
        if self.searched > 0 {
            return;
        }
        let mut taken = 0;
        while let Some(len) = self.bytes[taken..].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&self.bytes[taken..taken + len]).ok().and_then(WindowLine::read);
            let Some(line) = line else { break };
            self.windows.push(line);
            taken += len + 1;
        }
        self.bytes.drain(..taken);
    }

    /// The next report, if it is complete.
    ///
    /// # Errors
    ///
    /// When the text is no report.
    pub(super) fn report(&mut self) -> Option<io::Result<TracerReport>> {
        self.take_windows();
        let mut start = self.searched;
        while let Some(len) = self.bytes[start..].iter().position(|byte| *byte == b'\n') {
            let line = &self.bytes[start..start + len];
            start += len + 1;
            if line == LAST.as_bytes() || line == SO_FAR.as_bytes() {
                let report: Vec<u8> = self.bytes.drain(..start).collect();
                self.searched = 0;
                return Some(TracerReport::read(&mut report.as_slice()));
            }
        }
        self.searched = start;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &[u8] = b"process 7 1 a\ncount loads 5\nend\n";

    #[test]
    fn a_report_is_there_when_its_last_byte_is() {
        let mut inbox = Inbox::default();
        inbox.add(b"ready\n");
        assert_eq!(inbox.line().as_deref(), Some("ready"));
        for byte in &REPORT[..REPORT.len() - 1] {
            inbox.add(&[*byte]);
            assert!(inbox.report().is_none());
        }
        inbox.add(b"\n");
        inbox.add(REPORT);
        for _ in 0..2 {
            assert_eq!(inbox.report().unwrap().unwrap().processes[0].pid, 7);
        }
        assert!(inbox.report().is_none());
        assert!(inbox.line().is_none());
    }

    #[test]
    fn lines_about_windows_are_taken_from_between_reports() {
        let mut inbox = Inbox::default();
        inbox.add(b"lost-windows 3\nwindow 7 8 end - 1 0 5\nprocess 7 1 window 7\ncou");
        assert_eq!(inbox.windows()[0], WindowLine::Lost(3));
        assert!(inbox.report().is_none());
        inbox.add(b"nt loads 5\nend\nlost-windows 4\n");
        assert!(inbox.windows().is_empty(), "the report comes first");
        assert_eq!(inbox.report().unwrap().unwrap().processes[0].name, "window 7");
        assert_eq!(inbox.windows(), [WindowLine::Lost(4)]);
    }

    #[test]
    fn a_process_may_be_called_end() {
        let mut inbox = Inbox::default();
        inbox.add(b"process 7 1 end\nlost x end\nend\n");
        assert_eq!(inbox.report().unwrap().unwrap().processes[0].name, "end");
    }

    #[test]
    fn nonsense_is_an_error() {
        let mut inbox = Inbox::default();
        inbox.add(b"nonsense\nend\n");
        assert!(inbox.report().unwrap().is_err());
    }
}
