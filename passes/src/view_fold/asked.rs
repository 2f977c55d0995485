//! Results that are found before it is known whether they are needed.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Whether anyone asks for a result. What is found for nobody ends early, with a result of no use; what cannot be ended is not
/// begun before it is known.
#[derive(Clone, Debug)]
pub(crate) struct Asked(Arc<State>);

#[derive(Debug, Default)]
struct State {
    now: AtomicU8,
    lock: Mutex<()>,
    decided: Condvar,
}

const PERHAPS: u8 = 0;
const SURELY: u8 = 1;
const ENDED: u8 = 2;

impl Asked {
    /// It is not known yet whether someone will ask.
    pub(crate) fn perhaps() -> Asked {
        Asked(Arc::default())
    }

    /// Someone asks.
    pub(crate) fn surely() -> Asked {
        let asked = Asked::perhaps();
        asked.confirm();
        asked
    }

    /// Someone asks, unless it has been said that nobody does.
    pub(crate) fn confirm(&self) {
        self.decide(SURELY);
    }

    /// Says, once it is dropped, that nobody asks, unless it has been said that someone does.
    pub(crate) fn ending(&self) -> Ending {
        Ending(self.clone())
    }

    fn decide(&self, what: u8) {
        let State { now, lock, decided } = &*self.0;
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let order = Ordering::Relaxed;
        // What was said first holds.
        let _ = now.compare_exchange(PERHAPS, what, order, order);
        drop(held);
        decided.notify_all();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.now.load(Ordering::Relaxed) == ENDED
    }

    /// Waits until it is known, and says whether someone asks.
    pub(crate) fn is_sure(&self) -> bool {
        let State { now, lock, decided } = &*self.0;
        let mut held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while now.load(Ordering::Relaxed) == PERHAPS {
            held = decided.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        !self.has_ended()
    }
}

/// What [`Asked::ending`] gives.
pub(crate) struct Ending(Asked);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.decide(ENDED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_first_holds_and_what_waits_hears_of_it() {
        let sure = Asked::surely();
        drop(sure.ending());
        assert!(!sure.has_ended() && sure.is_sure());
        let asked = Asked::perhaps();
        let heard = std::thread::scope(|scope| {
            let waits = scope.spawn(|| asked.is_sure());
            drop(asked.ending());
            waits.join().expect("it waits and hears")
        });
        asked.confirm();
        assert!(!heard && asked.has_ended());
    }
}
