//! A command under translation, whose instructions go to a model of caches.

use std::collections::HashMap;

use cyclometer_core::exec::{CommandSpec, ExitStatus};
use cyclometer_core::{Child, Error, ErrorKind, Result};
use cyclometer_soft::host::TracerSettings;
use cyclometer_soft::host::protocol::{CodeReport, ProcessCounts, TracerReport};
use cyclometer_soft::model::misses::ModelSizes;

use super::file;
use super::launch::child_with_tracer;
use super::link::Link;
use crate::launch::{Launcher, NativeChild};

/// A command under translation, with a model of its caches.
pub(crate) struct ModelledCommand {
    // Dropped first, while the tracer still waits for it.
    child: NativeChild,
    link: Link,
}

/// The counts of an instruction by a model: the path of its file, its offset there or its address, and the
/// numbers of [`cyclometer_soft::host::protocol::ModelledRow`].
pub(crate) type ModelledPlace = (Option<String>, u64, [u64; 10]);

impl ModelledCommand {
    /// A command at its gate, for caches and TLBs. `None` where it cannot be translated.
    ///
    /// # Errors
    ///
    /// The launcher's, and `ErrorKind::PermissionDenied` where tracing is not permitted.
    pub(crate) fn prepare(
        launcher: &Launcher,
        command: &CommandSpec,
        sizes: ModelSizes,
    ) -> Result<Option<ModelledCommand>> {
        if file::refuses(&command.program).is_some() {
            return Ok(None);
        }
        let settings = TracerSettings::default().with_caches(sizes);
        let (child, link) = child_with_tracer(launcher, command, settings, None)?;
        Ok(Some(ModelledCommand { child, link }))
    }

    /// The command.
    pub(crate) fn child(&mut self) -> &mut dyn Child {
        &mut self.child
    }

    /// Lets processes that outlive the command go on natively.
    pub(crate) fn finish(&mut self) {
        self.link.finish();
    }

    /// The counts of each instruction, and why they are those of a part, if so.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os` where the tracer has died or sends no report.
    pub(crate) fn counts(
        mut self,
        status: Option<ExitStatus>,
    ) -> Result<(Vec<ModelledPlace>, Option<String>)> {
        let no_report =
            |reason: String| Error::new(ErrorKind::Os, format!("cannot model the command: {reason}"));
        let report = self.link.last_report(status).map_err(no_report)?;
        let code = self.link.take_code().unwrap_or_default();
        let part = part(&report, code.doubt.as_deref());
        Ok((places(code), part))
    }
}

fn places(code: CodeReport) -> Vec<ModelledPlace> {
    let files: HashMap<u32, String> = code.objects.into_iter().map(|file| (file.number, file.path)).collect();
    let path = |object: Option<u32>| object.and_then(|object| files.get(&object).cloned());
    code.modelled.into_iter().map(|(place, counts)| (path(place.object), place.offset, counts)).collect()
}

/// Why the counts are those of a part.
fn part(report: &TracerReport, doubt: Option<&str>) -> Option<String> {
    let of_process = |process: &ProcessCounts| {
        let name = format!("process {} ({})", process.pid, process.name);
        match (&process.counts, &process.uncounted) {
            (Err(reason), _) => Some(format!("{name}: {reason}")),
            (Ok(_), Some(reason)) => Some(format!("{name} is not modelled {reason}")),
            (Ok(_), None) => None,
        }
    };
    let running = (report.running > 0)
        .then(|| format!("{} processes were still running when the command ended", report.running));
    let doubt = doubt.map(|doubt| format!("a program {doubt}"));
    report.processes.iter().find_map(of_process).or(running).or(doubt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_modelled_is_named() {
        let process = |counts, uncounted: Option<&str>| ProcessCounts {
            pid: 7,
            parent: 1,
            name: "a".to_owned(),
            counts,
            uncounted: uncounted.map(str::to_owned),
        };
        let report = |processes, running| TracerReport { processes, running, ..TracerReport::default() };
        let whole = report(vec![process(Ok(Vec::new()), None)], 0);
        assert_eq!(part(&whole, None), None);
        assert_eq!(part(&whole, Some("jumps")).as_deref(), Some("a program jumps"));
        let lost = report(vec![process(Ok(Vec::new()), None), process(Err("gone".to_owned()), None)], 2);
        assert_eq!(part(&lost, None).as_deref(), Some("process 7 (a): gone"));
        let traced = report(vec![process(Ok(Vec::new()), Some("after a call"))], 2);
        assert_eq!(part(&traced, None).as_deref(), Some("process 7 (a) is not modelled after a call"));
        assert!(part(&report(Vec::new(), 2), None).is_some_and(|part| part.starts_with("2 processes")));
    }
}
