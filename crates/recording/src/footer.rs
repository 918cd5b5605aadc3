//! The footer of a recording: the totals, once the recording has ended.

use cyclometer_core::Count;
use cyclometer_core::exec::ExitStatus;
use serde_json::{Value, json};

use crate::count;
use crate::json::{FieldProblem, JsonFields, parse};
use crate::{RecordingError, RecordingResult};

/// The last part of a recording, known at its end.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RecordingFooter {
    /// Totals of the events over the whole run, in the order of the header.
    pub totals: Vec<Count>,
    /// Rows that were lost, of all threads together.
    pub lost_rows: u64,
    /// How the command ended; `None` if there was none, or it still ran.
    pub status: Option<ExitStatus>,
    /// Length of the recording, in ns; `None` where the source has no clock.
    pub elapsed_ns: Option<u64>,
    /// Notes for the user, complete.
    pub notes: Vec<String>,
}

impl RecordingFooter {
    pub(crate) fn to_payload(&self, rows: u64) -> RecordingResult<Vec<u8>> {
        let totals: Option<Vec<Value>> = self.totals.iter().map(count::to_json).collect();
        let totals = totals.ok_or_else(|| RecordingError::unwritable("a total is of an unknown kind"))?;
        let status = self.status.map(|status| match status {
            ExitStatus::Code(code) => json!({ "code": code }),
            ExitStatus::Signal(signal) => json!({ "signal": signal }),
        });
        let value = json!({
            "rows": rows,
            "lost_rows": self.lost_rows,
            "totals": totals,
            "status": status,
            "elapsed_ns": self.elapsed_ns,
            "notes": self.notes,
        });
        Ok(value.to_string().into_bytes())
    }

    /// The footer, and the number of rows before it.
    pub(crate) fn from_payload(payload: &[u8]) -> Result<(RecordingFooter, u64), FieldProblem> {
        let value = parse(payload)?;
        let fields = JsonFields::of(&value, "the footer")?;
        let footer = RecordingFooter {
            totals: fields.list("totals", count::from_json)?,
            lost_rows: fields.number("lost_rows")?,
            status: fields.value("status").map(status).transpose()?,
            elapsed_ns: fields.number_or_none("elapsed_ns")?,
            notes: fields.texts("notes")?,
        };
        Ok((footer, fields.number("rows")?))
    }
}

fn status(value: &Value) -> Result<ExitStatus, FieldProblem> {
    let fields = JsonFields::of(value, "the exit status")?;
    match (fields.signed_or_none("code")?, fields.signed_or_none("signal")?) {
        (Some(code), None) => Ok(ExitStatus::Code(code)),
        (None, Some(signal)) => Ok(ExitStatus::Signal(signal)),
        _ => Err("the exit status has not one of 'code' and 'signal'".to_owned()),
    }
}
