//! Memory for a translation that grows: whether the tracer may map more of it into the tracee.

use super::code_cache::CodeCacheMapping;
use super::trace_error::TraceError;
use super::tracees::Tracees;
use crate::translate::TranslationNeed;

/// Whether memory can be mapped for a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MappingPermission {
    /// It can.
    Allowed,
    /// No system call can be made on behalf of the tracee.
    Filtered,
    /// It would be missing in another memory in which the same translation is executed.
    Elsewhere,
}

impl MappingPermission {
    /// The reason why a need of the translation is not satisfied, if it is not.
    fn refusal(self, need: &TranslationNeed) -> Option<TraceError> {
        match (self, need) {
            (MappingPermission::Filtered, _) => {
                Some(TraceError::Detach("filters its system calls".to_owned()))
            }
            (MappingPermission::Elsewhere, TranslationNeed::Region(_))
            | (_, TranslationNeed::NewTranslation) => Some(TraceError::OwnTranslation),
            _ => None,
        }
    }
}

impl Tracees {
    /// Whether the translation that a task executes may be given more memory.
    pub(super) fn mapping_permission(&mut self, tid: u32) -> Result<MappingPermission, TraceError> {
        let task = self.task(tid)?;
        let Some(context) = task.context() else { return Ok(MappingPermission::Allowed) };
        let (filtered, home) = (task.filtered, context.cache.clone());
        Ok(match () {
            () if filtered => MappingPermission::Filtered,
            () if self.is_mapped_elsewhere(tid, &home) => MappingPermission::Elsewhere,
            () => MappingPermission::Allowed,
        })
    }
}

/// Runs a step of the translation, and maps more memory when it asks for some.
pub(super) fn with_memory<T>(
    cache: &mut CodeCacheMapping,
    tid: u32,
    permission: MappingPermission,
    mut work: impl FnMut(&mut CodeCacheMapping) -> Result<T, TranslationNeed>,
) -> Result<T, TraceError> {
    loop {
        let need = match work(cache) {
            Ok(done) => return Ok(done),
            Err(need) => need,
        };
        if let Some(refusal) = permission.refusal(&need) {
            return Err(refusal);
        }
        cache.satisfy(tid, need)?;
    }
}
