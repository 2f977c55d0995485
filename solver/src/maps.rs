//! Maps and sets that keep the order of insertion, for determinism, and hash their small keys quickly.

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;

/// A map.
pub(crate) type FastMap<K, V> = IndexMap<K, V, FxBuildHasher>;
/// A set.
pub(crate) type FastSet<K> = IndexSet<K, FxBuildHasher>;
