//! The texts of answers that are being sent.
//!
//! All scrapes of a snapshot share its text. A client that takes its answer slowly keeps that text, while
//! others get newer ones. With many targets a text has megabytes, so that a thousand such clients would take
//! gigabytes. Each text has a place here until the last connection has sent it, and there are few places.

use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many texts are kept at the same time. The latest snapshot has two at most, and clients that take no
/// more than a second share the next ones.
pub const MOST_TEXTS: usize = 16;

/// The places of texts.
#[derive(Clone, Debug)]
pub struct TextPlaces(Arc<Semaphore>);

impl TextPlaces {
    /// Places for so many texts.
    pub fn new(most: usize) -> TextPlaces {
        TextPlaces(Arc::new(Semaphore::new(most)))
    }

    /// Gives a text a place, which is free again when the last copy of these bytes is dropped. `None` if no
    /// place is free; the text is not made then.
    pub fn keep(&self, text: impl FnOnce() -> String) -> Option<Bytes> {
        let place = Arc::clone(&self.0).try_acquire_owned().ok()?;
        Some(Bytes::from_owner(KeptText { text: text(), _place: place }))
    }
}

/// A text with its place.
struct KeptText {
    text: String,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for KeptText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::exposition::TextFormat;
    use crate::snapshot::Snapshot;

    #[test]
    fn a_place_is_free_again_when_the_last_copy_of_a_text_is_gone() {
        let places = TextPlaces::new(1);
        let first = places.keep(|| "a".to_owned()).unwrap();
        let part = first.slice(..1);
        drop(first);
        assert!(places.keep(|| unreachable!("there is no place")).is_none());
        assert_eq!(part, "a");
        drop(part);
        assert_eq!(places.keep(|| "b".to_owned()).unwrap(), "b");
    }

    #[test]
    fn scrapes_of_a_snapshot_share_a_place_and_slow_ones_do_not_stop_it() {
        let places = TextPlaces::new(2);
        let snapshot = || Snapshot::new(Instant::now(), Vec::new());
        let old = snapshot();
        let slow = old.text(TextFormat::Prometheus, &places).unwrap();
        assert!(old.text(TextFormat::Prometheus, &places).is_some(), "the text is there already");
        drop(old);
        let latest = snapshot();
        assert!(latest.text(TextFormat::Prometheus, &places).is_some());
        assert!(latest.text(TextFormat::OpenMetrics, &places).is_none(), "both places are taken");
        drop(slow);
        assert!(latest.text(TextFormat::OpenMetrics, &places).is_some());
    }
}
