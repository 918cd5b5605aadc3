//! The processes that the `/proc` of a fact source shows.

use cyclometer_sys::process_list::ProcessList;

use crate::facts::FactSource;

/// The processes that `/proc` shows to the process of these facts.
pub(crate) fn ask(facts: &dyn FactSource) -> ProcessList {
    let status = facts.read("/proc/self/status");
    ProcessList::of(status.as_deref(), || !facts.list("/proc").is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    #[test]
    fn it_is_read_off_the_own_entry() {
        let check = |body: &str, expected| {
            let facts = RecordedFacts::parse(&format!("note synthetic: a test\nos linux\n{body}")).unwrap();
            assert_eq!(ask(&facts), expected, "{body}");
        };
        check("file /proc/self/status\n| CapEff:\t0\n| NSpid:\t7\n", ProcessList::Own);
        // Recordings of earlier versions.
        check("file /proc/self/status\n| CapEff:\t0\n", ProcessList::Own);
        check("file /proc/self/status\n| NSpid:\t1234\t7\n", ProcessList::OtherNamespace);
        check("list /proc 1 2 meminfo\n", ProcessList::OtherNamespace);
        check("", ProcessList::Missing);
    }
}
