//! Broken inputs through the library, from the bytes to the text after the default pipeline. Each is refused with a
//! diagnostic or accepted; nothing panics, hangs, or ends the process.

use optc_tests::door::{Passed, target_for, through};
use optc_tests::mutate::{Case, Wanted, cases};
use optc_tests::paths::{files, root};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The largest number of operations of a program that is folded; larger ones are only read and printed.
const MOST_OPS: usize = 40;

/// The time after which a case counts as hanging. No case takes a tenth of it in a debug build on one core.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a case; the error describes an unwanted outcome.
fn run(case: &Case) -> Result<(), String> {
    let target = target_for(&case.bytes);
    let passed = catch_unwind(AssertUnwindSafe(|| {
        through(&case.name, &case.bytes, target, MOST_OPS)
    }));
    let passed = match passed {
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            return Err(format!("panics: {}", text.unwrap_or_default()));
        }
        Ok(passed) => passed?,
    };
    let first = passed.codes().first().copied();
    match (&case.wanted, &passed) {
        (Wanted::Anything, _) | (Wanted::Read, Passed::Read | Passed::NotFolded(_)) => Ok(()),
        (Wanted::Refused(code), Passed::Refused(_)) if first == Some(code) => Ok(()),
        (wanted, found) => Err(format!("found {found:?}, wanted {wanted:?}")),
    }
}

/// Runs the cases on all cores, on threads with the default stack size.
fn run_all(all: Vec<Case>) -> Vec<String> {
    let count = all.len();
    let queue = Arc::new(Mutex::new(all));
    let (send, receive) = channel();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    for worker in 0..workers {
        let (queue, send) = (queue.clone(), send.clone());
        std::thread::spawn(move || {
            loop {
                let next = queue.lock().ok().and_then(|mut q| q.pop());
                let Some(case) = next else { return };
                let _ = send.send((worker, case.place.clone(), None));
                let outcome = run(&case);
                let _ = send.send((worker, case.place.clone(), Some(outcome)));
            }
        });
    }
    drop(send);
    let (mut wrong, mut done) = (Vec::new(), 0);
    let mut current = vec![String::new(); workers];
    while done < count {
        match receive.recv_timeout(PATIENCE) {
            Ok((worker, place, None)) => current[worker] = place,
            Ok((_, place, Some(outcome))) => {
                done += 1;
                wrong.extend(outcome.err().map(|e| format!("{place}: {e}")));
            }
            Err(RecvTimeoutError::Timeout) => panic!("one of {current:?} hangs"),
            Err(RecvTimeoutError::Disconnected) => panic!("a worker died at one of {current:?}"),
        }
    }
    wrong
}

#[test]
fn broken_inputs_are_refused_or_read() {
    let lists = files(&root().join("tests/door"), "txt");
    let all: Vec<Case> = lists.iter().flat_map(|f| cases(f)).collect();
    assert!(300 < all.len(), "{}", all.len());
    let wrong = run_all(all);
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}
