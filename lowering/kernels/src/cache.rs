//! The sizes of the machine's caches.

use std::sync::OnceLock;

/// Cache sizes of the first processor, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Caches {
    /// The L1 cache.
    pub first: u64,
    /// The largest private cache (L2).
    pub(crate) own: u64,
    /// The largest cache, shared by processors (L3).
    pub(crate) largest: u64,
}

impl Caches {
    /// The sizes that the system reports, or usual ones if it reports none.
    pub fn get() -> Caches {
        static CACHES: OnceLock<Caches> = OnceLock::new();
        // Miri has no files.
        let levels = if cfg!(miri) { 0 } else { 8 };
        *CACHES.get_or_init(|| {
            let sizes: Vec<(u64, u64)> = (0..levels).filter_map(cache).collect();
            let largest = sizes.iter().map(|c| c.1).max();
            let of = |level: u64| sizes.iter().filter(|c| c.0 == level).map(|c| c.1).max();
            let (first, own) = (of(1), of(2));
            Caches {
                first: first.unwrap_or(32 << 10),
                own: own.unwrap_or(1 << 20),
                largest: largest.unwrap_or(32 << 20),
            }
        })
    }
}

/// Level and size of cache number `index`.
fn cache(index: u32) -> Option<(u64, u64)> {
    let read = |what: &str| {
        let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
        std::fs::read_to_string(file).ok()
    };
    let text = read("size")?;
    let text = text.trim();
    let unit = match text.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        _ => 1,
    };
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let size = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    Some((read("level")?.trim().parse().ok()?, size))
}

/// The nearest memory that both buffers of a conversion fit in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A private cache.
    Own,
    /// The cache that processors share.
    Shared,
    /// Main memory.
    Memory,
}

impl Level {
    /// The level for `bytes` in all. `beyond` is the size that no cache holds, if it is given. Otherwise a quarter of the
    /// shared cache is left to others: copies lose a third of their speed beyond that (benchmark `conversion`, cases
    /// `nchw_nhwc` and `pixel_shuffle`).
    pub fn of(bytes: u64, beyond: Option<u64>) -> Level {
        let Caches { own, largest, .. } = Caches::get();
        if beyond.unwrap_or(largest - largest / 4) <= bytes {
            Level::Memory
        } else if own < bytes {
            Level::Shared
        } else {
            Level::Own
        }
    }
}
