//! What the benchmarks share: clocks, memory and tables.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The least time of a few runs, and what the last of them gave.
pub fn best<T>(runs: usize, mut work: impl FnMut() -> T) -> (Duration, T) {
    let (mut least, mut result) = once(&mut work);
    for _ in 1..runs {
        let (time, next) = once(&mut work);
        least = least.min(time);
        result = next;
    }
    (least, result)
}

/// The time of one run, and what it gave.
pub fn once<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = black_box(work());
    (start.elapsed(), result)
}

/// Nanoseconds of one call, from as many calls as take about a fifth of a second.
#[must_use]
pub fn nanoseconds<T>(mut call: impl FnMut() -> T) -> f64 {
    let mut calls = 1u32;
    loop {
        let (time, ()) = once(|| {
            for _ in 0..calls {
                black_box(call());
            }
        });
        if Duration::from_millis(200) <= time || (1 << 30) <= calls {
            return time.as_secs_f64() * 1e9 / f64::from(calls);
        }
        calls = calls.saturating_mul(2);
    }
}

/// The most memory this process has had resident, in bytes; nothing where `/proc` is not there.
#[must_use]
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The time that the processor has spent on this thread; that of the clock where `/proc` is not
/// there.
#[must_use]
pub fn processor_time() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.and_then(|text| text.split_whitespace().next()?.parse().ok());
    spent.map_or_else(
        || START.get_or_init(Instant::now).elapsed(),
        Duration::from_nanos,
    )
}
