//! Whether a tool listens to this process, and what its threads share.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::board::{Attached, VARIABLE};
use crate::meter;
use crate::rows::Rows;

/// Nobody has looked yet.
const UNKNOWN: u8 = 0;
/// No tool listens.
const DETACHED: u8 = 1;
/// A tool listens.
const ATTACHED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

static SESSION: OnceLock<Session> = OnceLock::new();

/// What the threads of this process share.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) board: Attached,
    pub(crate) rows: Rows,
}

/// Whether no tool listens, as far as anybody has looked.
#[inline]
pub(crate) fn is_detached() -> bool {
    STATE.load(Ordering::Relaxed) == DETACHED
}

/// Looks for a tool, once.
#[cold]
#[inline(never)]
fn look() {
    let attached = attach().is_some();
    STATE.store(if attached { ATTACHED } else { DETACHED }, Ordering::Relaxed);
}

fn attach() -> Option<&'static Session> {
    if let Some(session) = SESSION.get() {
        return Some(session);
    }
    // Who decides the environment must not decide what a program with more rights writes to.
    let path = std::env::var_os(VARIABLE).filter(|_| !meter::has_more_rights_than_its_user())?;
    let board = Attached::open(Path::new(&path))?;
    Some(SESSION.get_or_init(|| Session { board, rows: Rows::default() }))
}

impl Session {
    /// That of this process; `None` where no tool listens.
    pub(crate) fn find() -> Option<&'static Session> {
        if STATE.load(Ordering::Relaxed) == UNKNOWN {
            look();
        }
        SESSION.get()
    }
}
