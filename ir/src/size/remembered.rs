//! A cache of results.

use indexmap::{Equivalent, IndexMap};
use std::hash::Hash;

/// The largest number of results kept.
const MOST_KEPT: usize = 1 << 12;

/// A cache from the input of a computation to its result. Arithmetic on named sizes repeats the same few computations
/// many times. The cache is cleared when it holds 4,096 results.
#[derive(Debug)]
pub struct Remembered<K, V>(IndexMap<K, V>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Remembered<K, V> {
        Remembered(IndexMap::default())
    }
}

impl<K: Hash + Eq, V> Remembered<K, V> {
    /// The result for a key, if it is in the cache.
    #[must_use]
    pub fn get<Q: ?Sized + Hash + Equivalent<K>>(&self, key: &Q) -> Option<&V> {
        self.0.get(key)
    }

    /// Adds a result.
    pub fn insert(&mut self, key: K, value: V) {
        if MOST_KEPT <= self.0.len() {
            self.0.clear();
        }
        self.0.insert(key, value);
    }
}
