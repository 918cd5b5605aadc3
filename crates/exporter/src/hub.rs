//! One reader for any number of scrapes.
//!
//! The thread that owns the counters publishes snapshots. A scrape takes the latest one if it is young
//! enough; else it wakes the reader and waits for the next, together with all other scrapes that wait.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::cgroup_news::CgroupNews;
use crate::collector::{Collector, Rescan};
use crate::counters::OpenTarget;
use crate::snapshot::Snapshot;

/// How often control groups are searched although all of them are watched.
const SEARCH_INTERVAL: Duration = Duration::from_secs(300);

/// Why a scrape has no snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoSnapshot {
    /// The read was not finished before the deadline.
    Late(Duration),
    /// The reader has ended.
    Ended,
}

impl fmt::Display for NoSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSnapshot::Late(deadline) => {
                write!(f, "the counters were not read within {} ms", deadline.as_millis())
            }
            NoSnapshot::Ended => f.write_str("the exporter is ending"),
        }
    }
}

/// The scrapes' end.
#[derive(Clone, Debug)]
pub struct Hub {
    latest: watch::Receiver<Option<Arc<Snapshot>>>,
    wake: Arc<SyncSender<()>>,
    is_asked: Arc<AtomicBool>,
    max_age: Duration,
    deadline: Duration,
}

/// The reader's end.
#[derive(Debug)]
pub struct ReaderEnd {
    publish: watch::Sender<Option<Arc<Snapshot>>>,
    woken: Receiver<()>,
    /// Whether a scrape waits for a read. The reader is woken for changes of the groups, too.
    is_asked: Arc<AtomicBool>,
}

/// Wakes the reader, for other reasons than a scrape. It does not keep the reader from ending.
#[derive(Clone, Debug)]
pub struct ReaderWake(Weak<SyncSender<()>>);

impl ReaderWake {
    /// Wakes the reader.
    ///
    /// # Errors
    ///
    /// [`NoSnapshot::Ended`] when it has ended, or is to end.
    pub fn wake(&self) -> Result<(), NoSnapshot> {
        match self.0.upgrade().ok_or(NoSnapshot::Ended)?.try_send(()) {
            Err(TrySendError::Disconnected(())) => Err(NoSnapshot::Ended),
            Ok(()) | Err(TrySendError::Full(())) => Ok(()),
        }
    }
}

/// Both ends. A snapshot may be `max_age` old for another scrape, and a scrape waits until the deadline.
pub fn channel(max_age: Duration, deadline: Duration) -> (Hub, ReaderEnd) {
    let (publish, latest) = watch::channel(None);
    // One place is enough: whoever wakes a reader that is to wake already gets the same snapshot.
    let (wake, woken) = sync_channel(1);
    let (wake, is_asked) = (Arc::new(wake), Arc::new(AtomicBool::new(false)));
    let end = ReaderEnd { publish, woken, is_asked: Arc::clone(&is_asked) };
    (Hub { latest, wake, is_asked, max_age, deadline }, end)
}

impl Hub {
    /// A way to wake the reader.
    pub fn reader_wake(&self) -> ReaderWake {
        ReaderWake(Arc::downgrade(&self.wake))
    }

    /// A snapshot that is young enough.
    ///
    /// # Errors
    ///
    /// [`NoSnapshot`] when none comes before the deadline.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>, NoSnapshot> {
        let asked = Instant::now();
        let mut latest = self.latest.clone();
        loop {
            // A read that takes long is not older for that: its age is that at the request.
            let young = |snapshot: &Arc<Snapshot>| snapshot.at + self.max_age >= asked;
            if let Some(snapshot) = latest.borrow_and_update().clone().filter(young) {
                return Ok(snapshot);
            }
            self.is_asked.store(true, Ordering::Release);
            if let Err(TrySendError::Disconnected(())) = self.wake.try_send(()) {
                return Err(NoSnapshot::Ended);
            }
            let until = (asked + self.deadline).into();
            match tokio::time::timeout_at(until, latest.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(NoSnapshot::Ended),
                Err(_) => return Err(NoSnapshot::Late(self.deadline)),
            }
        }
    }
}

impl ReaderEnd {
    /// Reads whenever a scrape asks for it, until no scrape can come any more. Looks for targets at the
    /// rescan's period; for control groups when there are news of them, or at that period without a watch.
    pub fn run<O: OpenTarget>(
        self,
        collector: &mut Collector<O>,
        rescan: Duration,
        news: Option<&CgroupNews>,
    ) {
        let after = |rescanned| match rescanned {
            Rescan::Complete => Instant::now() + rescan,
            Rescan::MoreToOpen => Instant::now(),
        };
        let mut next_rescan = after(collector.rescan());
        let mut next_search = Instant::now() + SEARCH_INTERVAL;
        loop {
            let woken = self.woken.recv_timeout(next_rescan.saturating_duration_since(Instant::now()));
            if woken == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            if news.is_some_and(CgroupNews::take) {
                next_rescan = after(collector.rescan());
            }
            if self.is_asked.swap(false, Ordering::AcqRel) {
                self.publish.send_replace(Some(Arc::new(collector.read())));
            }
            let now = Instant::now();
            if now < next_rescan {
                continue;
            }
            next_rescan = match news.is_some_and(CgroupNews::is_complete) && now < next_search {
                true => after(collector.rescan_known_groups()),
                false => {
                    next_search = now + SEARCH_INTERVAL;
                    after(collector.rescan())
                }
            };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    }

    /// A reader that answers as often as it is woken; gives the number of reads.
    fn reader(end: ReaderEnd) -> std::thread::JoinHandle<u64> {
        std::thread::spawn(move || {
            let mut reads = 0;
            while end.woken.recv().is_ok() {
                reads += 1;
                end.publish.send_replace(Some(Arc::new(Snapshot::new(Instant::now(), Vec::new()))));
            }
            reads
        })
    }

    #[test]
    fn scrapes_at_once_share_a_read() {
        let (hub, end) = channel(Duration::from_secs(60), Duration::from_secs(60));
        let reader = reader(end);
        runtime().block_on(async {
            let scrapes: Vec<_> = (0..1000)
                .map(|_| {
                    let hub = hub.clone();
                    tokio::spawn(async move { hub.snapshot().await.is_ok() })
                })
                .collect();
            for scrape in scrapes {
                assert!(scrape.await.unwrap());
            }
        });
        drop(hub);
        // The second is that of a scrape that came while the first snapshot was published.
        assert!(reader.join().unwrap() <= 2);
    }

    #[test]
    fn a_scrape_never_gets_a_snapshot_that_is_too_old() {
        let (hub, end) = channel(Duration::ZERO, Duration::from_secs(60));
        let reader = reader(end);
        runtime().block_on(async {
            for _ in 0..3 {
                let asked = Instant::now();
                assert!(hub.snapshot().await.unwrap().at >= asked);
            }
        });
        drop(hub);
        assert_eq!(reader.join().unwrap(), 3);
    }

    #[test]
    fn without_a_read_before_the_deadline_there_is_none_and_the_scrape_ends() {
        let (hub, end) = channel(Duration::ZERO, Duration::from_millis(20));
        let late = NoSnapshot::Late(Duration::from_millis(20));
        assert_eq!(runtime().block_on(hub.snapshot()).unwrap_err(), late);
        assert_eq!(late.to_string(), "the counters were not read within 20 ms");
        drop(end);
        assert_eq!(runtime().block_on(hub.snapshot()).unwrap_err(), NoSnapshot::Ended);
    }
}
