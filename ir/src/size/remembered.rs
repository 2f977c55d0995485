//! Results that a thread keeps.

use indexmap::{Equivalent, IndexMap};
use std::hash::Hash;

/// Results that are kept.
const MOST_KEPT: usize = 1 << 12;

/// The results of a computation by what they were computed of, the latest 4,096 or fewer: arithmetic of named sizes is asked for the
/// same few again and again.
#[derive(Debug)]
pub struct Remembered<K, V>(IndexMap<K, V>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Remembered<K, V> {
        Remembered(IndexMap::default())
    }
}

impl<K: Hash + Eq, V> Remembered<K, V> {
    /// The result for a key, if it is kept.
    #[must_use]
    pub fn get<Q: ?Sized + Hash + Equivalent<K>>(&self, key: &Q) -> Option<&V> {
        self.0.get(key)
    }

    /// Keeps a result.
    pub fn insert(&mut self, key: K, value: V) {
        if MOST_KEPT <= self.0.len() {
            self.0.clear();
        }
        self.0.insert(key, value);
    }
}
