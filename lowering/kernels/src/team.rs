//! Threads that share the work of a step.
//!
//! Work is cut into units that do not depend on the number of threads. A thread gets consecutive units, and the part of the
//! result that these alone write. No sum is shared, so every bit is the same for any number of threads.
//!
//! A result of 6 rows, whose row `i` writes places `10 * i` to `10 * i + 7`, is shared by two threads as rows `0..3` with
//! places `0..28` and rows `3..6` with places `30..58`.

use crate::error::KernelError;
use crate::isa::Isa;
use crate::loops::{Loop, Steps};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Elements that are moved or computed element-wise for each thread to be worth starting: some 40 microseconds of work,
/// several times the latency of starting a thread.
pub const ELEMENTS: u64 = 1 << 17;
/// Elements of rows for each thread to be worth starting; each is read several times.
pub const OF_ROWS: u64 = 1 << 15;
/// Multiply-adds for each thread to be worth starting.
pub const PRODUCTS: u64 = 1 << 21;

/// The calling thread and a pool of others.
#[derive(Debug)]
pub struct Team {
    others: Option<ThreadPool>,
    threads: usize,
    /// True if small work is shared too.
    always: bool,
    /// Most threads that shared some work since [`most`](Team::most) was called.
    most: AtomicUsize,
}

/// The work of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Units of work.
    pub units: Range<usize>,
    /// Range of places of the result that contains all that these units write and nothing that others write.
    pub places: Range<usize>,
}

impl Team {
    /// A team of `threads`, the calling thread included, whose instruction set all of them use. With `always`, small work is
    /// shared too.
    ///
    /// # Errors
    /// No more threads can be started.
    pub fn new(threads: usize, always: bool) -> Result<Team, KernelError> {
        let threads = threads.max(1);
        let others = match threads {
            1 => None,
            _ => {
                let isa = Isa::current();
                let pool = ThreadPoolBuilder::new()
                    .num_threads(threads - 1)
                    .start_handler(move |_| isa.set());
                Some(
                    pool.build()
                        .map_err(|e| KernelError::Threads(e.to_string()))?,
                )
            }
        };
        Ok(Team {
            others,
            threads,
            always,
            most: AtomicUsize::new(1),
        })
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Most threads that shared some work since the previous call.
    pub fn most(&self) -> usize {
        self.most.swap(1, Ordering::Relaxed)
    }

    fn used(&self, count: usize) {
        let count = count.min(self.threads);
        self.most.fetch_max(count, Ordering::Relaxed);
    }

    /// Number of threads for `work`, such that each has at least `least`.
    pub fn worth(&self, work: u64, least: u64) -> usize {
        match self.always {
            true => self.threads,
            false => (work / least).clamp(1, self.threads as u64) as usize,
        }
    }

    /// Runs `work` for each number below `count`, each on a thread of its own.
    pub fn each(&self, count: usize, work: impl Fn(usize) + Sync) {
        self.used(count);
        match &self.others {
            Some(pool) if 1 < count => pool.in_place_scope(|scope| {
                for number in 1..count {
                    let work = &work;
                    scope.spawn(move |_| work(number));
                }
                work(0);
            }),
            _ => (0..count).for_each(work),
        }
    }

    /// As [`share`](Team::share), for bytes of elements of `size` bytes; places are in elements.
    ///
    /// # Errors
    /// As [`share`](Team::share).
    pub fn share_bytes<E: From<KernelError> + Send>(
        &self,
        out: &mut [u8],
        size: usize,
        shares: &[Share],
        work: impl Fn(&Share, &mut [u8]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let in_bytes = |share: &Share| Share {
            units: share.units.clone(),
            places: share.places.start * size..share.places.end * size,
        };
        let in_bytes: Vec<Share> = shares.iter().map(in_bytes).collect();
        self.share(out, &in_bytes, |share, out| {
            let places = share.places.start / size..share.places.end / size;
            let units = share.units.clone();
            work(&Share { units, places }, out)
        })
    }

    /// Runs `work` for each share with its part of the result.
    ///
    /// # Errors
    /// The error of the first share that fails.
    pub fn share<T: Send, E: From<KernelError> + Send>(
        &self,
        out: &mut [T],
        shares: &[Share],
        work: impl Fn(&Share, &mut [T]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        self.used(shares.len());
        let (mut rest, mut behind) = (out, 0);
        let mut parts = Vec::with_capacity(shares.len());
        for share in shares {
            let (own, after) = rest
                .split_at_mut_checked(share.places.end - behind)
                .ok_or(KernelError::OutOfBounds)?;
            parts.push((share, &mut own[share.places.start - behind..], Ok(())));
            (rest, behind) = (after, share.places.end);
        }
        match &self.others {
            Some(pool) => pool.in_place_scope(|scope| {
                let mut parts = parts.iter_mut();
                let first = parts.next();
                for (share, out, done) in parts {
                    let work = &work;
                    scope.spawn(move |_| *done = work(share, out));
                }
                if let Some((share, out, done)) = first {
                    *done = work(share, out);
                }
            }),
            None => {
                let all = parts.iter_mut();
                all.for_each(|(share, out, done)| *done = work(share, out));
            }
        }
        parts.into_iter().try_for_each(|(_, _, done)| done)
    }
}

/// Shares of consecutive units. `spans` has the least and the greatest place that each unit writes. Empty if the units
/// cannot be cut into several shares whose places are disjoint.
pub fn shares(spans: &[(i64, i64)], threads: usize) -> Vec<Share> {
    let n = spans.len();
    if threads < 2 || n < 2 {
        return Vec::new();
    }
    // Least place of this unit and all later ones.
    let mut least = vec![i64::MAX; n + 1];
    for (at, (low, _)) in spans.iter().enumerate().rev() {
        least[at] = least[at + 1].min(*low);
    }
    let mut shares: Vec<Share> = Vec::with_capacity(threads);
    let (mut from, mut most) = (0, i64::MIN);
    for at in 1..=n {
        most = most.max(spans[at - 1].1);
        let wanted = (shares.len() + 1) * n / threads;
        if at == n || wanted <= at && most < least[at] {
            let (Ok(start), Ok(end)) = (usize::try_from(least[from]), usize::try_from(most + 1))
            else {
                return Vec::new();
            };
            shares.push(Share {
                units: from..at,
                places: start..end,
            });
            from = at;
        }
    }
    match shares.len() {
        1 => Vec::new(),
        _ => shares,
    }
}

/// The largest share's fraction of all units; 1 if there are no shares.
pub(crate) fn longest(shares: &[Share]) -> f64 {
    let all = shares.last().map_or(0, |share| share.units.end);
    let most = shares.iter().map(|share| share.units.len()).max();
    most.map_or(1.0, |most| most as f64 / all as f64)
}

/// The loop along which the first value of a nest is shared most evenly, and the shares of its steps. Each loop has the
/// number of steps that stay together.
pub fn along<const K: usize>(
    base: i64,
    loops: &[(Loop<K>, usize)],
    threads: usize,
) -> Option<(usize, Vec<Share>)> {
    if loops.iter().any(|(l, _)| l.extent == 0) {
        return None;
    }
    let whole: Vec<(i64, i64)> = loops.iter().map(|(l, _)| ends(l, 0..l.extent)).collect();
    let mut best: Option<(usize, Vec<Share>)> = None;
    for (number, (one, together)) in loops.iter().enumerate() {
        let others = whole
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != number);
        let rest = others.fold((base, base), |sum, (_, end)| (sum.0 + end.0, sum.1 + end.1));
        let together = (*together).max(1);
        let units = (0..one.extent).step_by(together).map(|from| {
            let own = ends(one, from..(from + together).min(one.extent));
            (rest.0 + own.0, rest.1 + own.1)
        });
        let mut found = shares(&units.collect::<Vec<_>>(), threads);
        let longest_yet = best.as_ref().map_or(1.0, |(_, shares)| longest(shares));
        if longest(&found) < longest_yet {
            for share in &mut found {
                let units = &mut share.units;
                *units = units.start * together..(units.end * together).min(one.extent);
            }
            best = Some((number, found));
        }
    }
    best
}

/// The least and the greatest offset that some steps of a loop add to the first value.
fn ends<const K: usize>(of: &Loop<K>, steps: Range<usize>) -> (i64, i64) {
    let (first, last) = (of.at(steps.start)[0], of.at(steps.end - 1)[0]);
    match &of.steps {
        Steps::Strides(_) => (first.min(last), first.max(last)),
        Steps::Listed(_) => steps.fold((first, first), |sum, step| {
            let at = of.at(step)[0];
            (sum.0.min(at), sum.1.max(at))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(units: Range<usize>, places: Range<usize>) -> Share {
        Share { units, places }
    }

    #[test]
    fn shares_are_cut_where_no_place_is_written_twice() {
        let rows: Vec<(i64, i64)> = (0..6).map(|i| (10 * i, 10 * i + 7)).collect();
        let halves = [share(0..3, 0..28), share(3..6, 30..58)];
        assert_eq!(shares(&rows, 2), halves);
        assert_eq!(shares(&rows, 7).len(), 6);
        assert!(shares(&rows, 1).is_empty());
        // The second and the third overlap.
        let woven = [(0, 3), (4, 9), (5, 8), (10, 11)];
        let found = shares(&woven, 4);
        let units: Vec<_> = found.iter().map(|s| s.units.clone()).collect();
        assert_eq!(units, [0..1, 1..3, 3..4]);
        let columns = [(0, 9), (1, 10), (2, 11)];
        assert!(shares(&columns, 3).is_empty());
    }

    #[test]
    fn the_loop_is_shared_that_lies_outside() {
        let strides = |extent: usize, stride: i64| Loop {
            extent,
            steps: Steps::Strides([stride]),
        };
        let loops = [(strides(3, 1), 1), (strides(8, 3), 2)];
        let (number, found) = along(5, &loops, 2).expect("it can be shared");
        assert_eq!(number, 1);
        assert_eq!(found, [share(0..4, 5..17), share(4..8, 17..29)]);
    }

    #[test]
    fn every_share_has_its_part_and_the_first_failure_is_told() {
        for threads in [1, 2, 3] {
            let team = Team::new(threads, true).expect("there are threads");
            let shares = [share(0..1, 1..3), share(1..2, 4..6)];
            let mut out = [0; 6];
            let done = team.share(&mut out, &shares, |share, out| {
                out.fill(share.units.start + 1);
                Ok::<(), KernelError>(())
            });
            assert_eq!((done, out), (Ok(()), [0, 1, 1, 0, 2, 2]));
            let failed = |share: &Share, _: &mut [usize]| match share.units.start {
                0 => Err(KernelError::NoKernel),
                _ => Err(KernelError::OutOfBounds),
            };
            assert_eq!(
                team.share(&mut out, &shares, failed),
                Err(KernelError::NoKernel)
            );
            assert!(team.share(&mut out[..3], &shares, failed).is_err());
        }
    }
}
