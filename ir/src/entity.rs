//! Ids, and the tables that own the entities that they identify.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// An id that indexes a [`Table`].
pub trait EntityId: Copy + Eq {
    /// The id with this number; only tables and side tables make ids.
    fn from_index(index: usize) -> Self;
    /// The number of this id.
    fn index(self) -> usize;
}

/// Declares a `u32` newtype id. Its `Option` is no larger than the id, and its `Display` is its spelling in text.
#[macro_export]
macro_rules! entity_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::num::NonZeroU32);

        impl $crate::entity::EntityId for $name {
            fn from_index(index: usize) -> Self {
                let n = u32::try_from(index + 1).ok().and_then(std::num::NonZeroU32::new);
                Self(n.expect("a table holds fewer than 2^32 - 1 entries"))
            }
            fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), $crate::entity::EntityId::index(*self))
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// A table that owns values of type `T` and numbers them.
#[derive(Clone, Debug)]
pub struct Table<K, T> {
    items: Vec<T>,
    key: PhantomData<K>,
}

impl<K: EntityId, T> Default for Table<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: EntityId, T> Table<K, T> {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self {
            items: Vec::new(),
            key: PhantomData,
        }
    }
    /// Adds a value and returns its id.
    pub fn push(&mut self, item: T) -> K {
        self.items.push(item);
        K::from_index(self.items.len() - 1)
    }
    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Returns whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = K> + use<K, T> {
        (0..self.items.len()).map(K::from_index)
    }
    /// All ids with their values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &T)> {
        self.items
            .iter()
            .enumerate()
            .map(|(i, t)| (K::from_index(i), t))
    }
}

impl<K: EntityId, T> Index<K> for Table<K, T> {
    type Output = T;
    fn index(&self, id: K) -> &T {
        &self.items[id.index()]
    }
}

impl<K: EntityId, T> IndexMut<K> for Table<K, T> {
    fn index_mut(&mut self, id: K) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// Data beside a table: one `T` for each id, a default where none was set.
#[derive(Clone, Debug)]
pub struct SideTable<K, T> {
    items: Vec<T>,
    default: T,
    key: PhantomData<K>,
}

impl<K: EntityId, T: Clone> SideTable<K, T> {
    /// A side table that holds `default` for every id.
    pub fn new(default: T) -> Self {
        Self {
            items: Vec::new(),
            default,
            key: PhantomData,
        }
    }
}

impl<K: EntityId, T: Clone> Index<K> for SideTable<K, T> {
    type Output = T;
    fn index(&self, id: K) -> &T {
        self.items.get(id.index()).unwrap_or(&self.default)
    }
}

impl<K: EntityId, T: Clone> IndexMut<K> for SideTable<K, T> {
    fn index_mut(&mut self, id: K) -> &mut T {
        if self.items.len() <= id.index() {
            self.items.resize(id.index() + 1, self.default.clone());
        }
        &mut self.items[id.index()]
    }
}
