//! Results that are computed before it is known whether they are needed.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A flag that says whether a result is needed, shared by the thread that computes it and the thread that decides. A computation whose
/// result is not needed ends early with a useless result. A computation that cannot be ended is not begun before the
/// answer is known.
#[derive(Clone, Debug)]
pub struct Asked(Arc<State>);

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
    /// A result of which it is not known yet whether it is needed.
    #[must_use]
    pub fn perhaps() -> Asked {
        Asked(Arc::default())
    }

    /// A result that is needed.
    #[must_use]
    pub fn surely() -> Asked {
        let asked = Asked::perhaps();
        asked.confirm();
        asked
    }

    /// Says that the result is needed, unless the opposite was said before.
    pub fn confirm(&self) {
        self.decide(SURELY);
    }

    /// Returns a guard that says, when it is dropped, that the result is not needed, unless the opposite was said
    /// before.
    #[must_use]
    pub fn ending(&self) -> Ending {
        Ending(self.clone())
    }

    fn decide(&self, what: u8) {
        let State { now, lock, decided } = &*self.0;
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let order = Ordering::Relaxed;
        // The first answer holds.
        let _ = now.compare_exchange(PERHAPS, what, order, order);
        drop(held);
        decided.notify_all();
    }

    /// Returns whether the result is known not to be needed.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.now.load(Ordering::Relaxed) == ENDED
    }

    /// Waits for the answer, and returns whether the result is needed.
    pub(crate) fn is_sure(&self) -> bool {
        let State { now, lock, decided } = &*self.0;
        let mut held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while now.load(Ordering::Relaxed) == PERHAPS {
            held = decided.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        !self.has_ended()
    }
}

/// The guard that [`Asked::ending`] returns.
#[derive(Debug)]
pub struct Ending(Asked);

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
