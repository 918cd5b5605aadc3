//! Whether a tool is attached to this process, and what its threads share.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};

use crate::board::{AttachedBoard, VARIABLE};
use crate::meter;
use crate::rows::{ATTEMPTS, Rows};

/// The environment has not been checked yet.
const UNKNOWN: u8 = 0;
/// No tool is attached.
const DETACHED: u8 = 1;
/// A tool is attached.
const ATTACHED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

static SESSION: OnceLock<Session> = OnceLock::new();

/// Data shared by the threads of this process.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) board: AttachedBoard,
    pub(crate) rows: Rows,
}

/// Whether no tool is attached, as far as the environment has been checked.
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
    // A user who sets the environment must not choose the memory that a program with more rights writes to.
    let place = std::env::var(VARIABLE).ok().filter(|_| !meter::has_more_rights_than_its_user())?;
    let board = AttachedBoard::open(&place)?;
    keep(board)
}

/// Held by the thread that creates the session. In a child that was forked meanwhile it is never released, so
/// no thread waits for it indefinitely.
static MAKING: Mutex<()> = Mutex::new(());

fn keep(board: AttachedBoard) -> Option<&'static Session> {
    for _ in 0..ATTEMPTS {
        match MAKING.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            _held => return Some(SESSION.get_or_init(|| Session { board, rows: Rows::default() })),
        }
    }
    board.drop_one();
    None
}

impl Session {
    /// The session of this process; `None` where no tool is attached.
    pub(crate) fn find() -> Option<&'static Session> {
        if STATE.load(Ordering::Relaxed) == UNKNOWN {
            look();
        }
        SESSION.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_process_has_open_in_place_of_the_board_is_left_alone() {
        let board = crate::board::Board::make().unwrap();
        let variable = board.variable();
        let place = variable.split_once('=').unwrap().1;
        let (path, identity) = place.rsplit_once('#').unwrap();
        let stranger = crate::board::Board::make().unwrap();
        let other = stranger.variable();
        let other = other.split_once('=').unwrap().1.rsplit_once('#').unwrap().0;
        for wrong in [&format!("{other}#{identity}"), path, &format!("{path}#"), &format!("{path}#0:0"), ""] {
            assert!(AttachedBoard::open(wrong).is_none(), "{wrong}");
        }
        assert_eq!((board.attached(), stranger.attached()), (0, 0));
        assert!(AttachedBoard::open(place).is_some());
        assert_eq!(board.attached(), 1);
    }

    #[test]
    fn nobody_waits_for_a_session_that_a_lost_thread_was_making() {
        let made = crate::board::Board::make().unwrap();
        let variable = made.variable();
        let open = || AttachedBoard::open(variable.split_once('=').unwrap().1).unwrap();
        let held = MAKING.lock().unwrap();
        assert!(keep(open()).is_none());
        assert_eq!(made.dropped(), 1);
        drop(held);
        assert!(keep(open()).is_some());
    }
}
