//! Every source of this system.

use cyclometer_core::Source;
use cyclometer_sys::user_read::Serialisation;

use crate::gpu::GpuSource;
use crate::os::OsSource;
use crate::perf::PerfSource;
use crate::selfcounts;

/// The sources of this build, best first. Detection finds out whether they work here.
pub fn sources() -> Vec<Box<dyn Source>> {
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(PerfSource::new())];
    sources.extend(selfcounts::source());
    sources.push(Box::new(OsSource::new()));
    sources.push(Box::new(GpuSource::new()));
    sources
}

/// The sources for regions of the calling thread: those of [`sources`], with counters that are read in user
/// space, serialised in this way. With an `Err` they are not, for this reason.
pub fn region_sources(user_reads: Result<Serialisation, String>) -> Vec<Box<dyn Source>> {
    let perf = PerfSource::new().with_user_reads(user_reads).read_together();
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(perf)];
    sources.extend(selfcounts::source());
    sources.extend(crate::own_counts::source());
    sources.push(Box::new(OsSource::new()));
    sources.push(Box::new(GpuSource::new()));
    sources
}
