//! The decision about a system call that changes the mappings of a process.
//!
//! ```text
//!                        process with one thread         with several threads
//! no code is concerned   made                            made
//! code is mapped         made on behalf of the process   made on behalf of the process
//! translated code changes, a new translation ─────────── which all threads enter behind the call
//! ```

/// Facts about the call, which are known at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MappingFacts {
    /// It changes code that is translated.
    pub(super) changes: bool,
    /// It maps executable memory, or makes memory executable.
    pub(super) maps_code: bool,
    /// It puts code at an address that is not known before the call, or moves code.
    pub(super) places_code: bool,
    /// Other programs can share the translation.
    pub(super) is_open: bool,
    /// No system call can be made on behalf of the task.
    pub(super) is_filtered: bool,
}

/// A question about a call whose answer takes longer than a decision without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MappingQuestion {
    /// Whether executable memory is concerned.
    ConcernsCode,
    /// Whether the translation has code that the task cannot execute.
    IsStale,
    /// Whether another process executes the translation, or a new child will.
    IsShared,
}

/// The decision about a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MappingDecision {
    /// The task makes it, and no code is concerned.
    Unconcerned,
    /// The task makes it.
    Make,
    /// It is made on behalf of the task, and the new code is compared before it is executed.
    MakeOnBehalf,
    /// The process moves to a new translation, where the task makes it.
    Replace,
    /// All other threads are suspended, and the process moves to a new translation behind it.
    ReplaceAround,
    /// It would have to be made on behalf of the task, and cannot.
    Refuse,
}

impl MappingFacts {
    /// The decision about a call of a process with one thread. `ask` answers questions where they decide.
    ///
    /// # Errors
    ///
    /// Those of `ask`.
    pub(super) fn decide_alone<E>(
        &self,
        mut ask: impl FnMut(MappingQuestion) -> Result<bool, E>,
    ) -> Result<MappingDecision, E> {
        Ok(match () {
            () if self.changes => MappingDecision::Replace,
            () if !ask(MappingQuestion::ConcernsCode)? => MappingDecision::Unconcerned,
            () if self.is_open => MappingDecision::MakeOnBehalf,
            () if !self.places_code => MappingDecision::Make,
            () if ask(MappingQuestion::IsStale)? || ask(MappingQuestion::IsShared)? => {
                MappingDecision::Replace
            }
            () => MappingDecision::Make,
        })
    }

    /// The decision about a call of a process with several threads. Nothing is translated during the call, so
    /// no thread can read the old code.
    ///
    /// # Errors
    ///
    /// Those of `ask`.
    pub(super) fn decide_among_threads<E>(
        &self,
        mut ask: impl FnMut(MappingQuestion) -> Result<bool, E>,
    ) -> Result<MappingDecision, E> {
        Ok(match () {
            () if self.changes => MappingDecision::ReplaceAround,
            () if self.maps_code && !self.is_open && ask(MappingQuestion::IsShared)? => {
                MappingDecision::ReplaceAround
            }
            () if !self.maps_code && !ask(MappingQuestion::ConcernsCode)? => MappingDecision::Unconcerned,
            () if self.is_filtered => MappingDecision::Refuse,
            () => MappingDecision::MakeOnBehalf,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: MappingFacts = MappingFacts {
        changes: false,
        maps_code: false,
        places_code: false,
        is_open: false,
        is_filtered: false,
    };

    /// Answers yes to these questions.
    fn yes(to: &[MappingQuestion]) -> impl FnMut(MappingQuestion) -> Result<bool, ()> {
        |question| Ok(to.contains(&question))
    }

    /// Fails the test if anything is asked.
    fn none(question: MappingQuestion) -> Result<bool, ()> {
        panic!("{question:?} does not decide")
    }

    #[test]
    fn changed_code_needs_a_new_translation_without_any_question() {
        let facts = MappingFacts { changes: true, is_open: true, is_filtered: true, ..NOTHING };
        assert_eq!(facts.decide_alone(none), Ok(MappingDecision::Replace));
        assert_eq!(facts.decide_among_threads(none), Ok(MappingDecision::ReplaceAround));
    }

    #[test]
    fn a_call_without_code_is_made_by_the_task() {
        let facts = MappingFacts { is_open: true, is_filtered: true, ..NOTHING };
        assert_eq!(facts.decide_alone(yes(&[])), Ok(MappingDecision::Unconcerned));
        assert_eq!(facts.decide_among_threads(yes(&[])), Ok(MappingDecision::Unconcerned));
    }

    #[test]
    fn new_code_of_a_shared_translation_is_compared_behind_the_call() {
        let facts = MappingFacts { maps_code: true, places_code: true, is_open: true, ..NOTHING };
        let concerned = [MappingQuestion::ConcernsCode];
        assert_eq!(facts.decide_alone(yes(&concerned)), Ok(MappingDecision::MakeOnBehalf));
        assert_eq!(facts.decide_among_threads(none), Ok(MappingDecision::MakeOnBehalf));
    }

    #[test]
    fn code_at_an_unknown_address_needs_a_translation_that_is_whole_and_the_processs_own() {
        let facts = MappingFacts { maps_code: true, places_code: true, ..NOTHING };
        let decide = |to: &[MappingQuestion]| {
            let concerned = [MappingQuestion::ConcernsCode];
            facts.decide_alone(yes(&[&concerned, to].concat())).unwrap()
        };
        assert_eq!(decide(&[]), MappingDecision::Make);
        assert_eq!(decide(&[MappingQuestion::IsStale]), MappingDecision::Replace);
        assert_eq!(decide(&[MappingQuestion::IsShared]), MappingDecision::Replace);
        let removes = yes(&[MappingQuestion::ConcernsCode, MappingQuestion::IsStale]);
        assert_eq!(NOTHING.decide_alone(removes), Ok(MappingDecision::Make));
    }

    #[test]
    fn threads_are_suspended_where_another_process_executes_the_translation() {
        let facts = MappingFacts { maps_code: true, ..NOTHING };
        let shared = [MappingQuestion::IsShared];
        assert_eq!(facts.decide_among_threads(yes(&shared)), Ok(MappingDecision::ReplaceAround));
        assert_eq!(facts.decide_among_threads(yes(&[])), Ok(MappingDecision::MakeOnBehalf));
    }

    #[test]
    fn no_call_is_made_on_behalf_of_a_task_that_filters_its_calls() {
        let facts = MappingFacts { maps_code: true, is_open: true, is_filtered: true, ..NOTHING };
        assert_eq!(facts.decide_among_threads(none), Ok(MappingDecision::Refuse));
    }
}
