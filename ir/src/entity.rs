//! Ids, and the tables that own the entities that they identify.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// An id that indexes a [`Table`].
pub trait EntityId: Copy + Eq {
    /// The id with this number; only tables and side tables make ids.
    fn from_index(index: usize) -> Self;
    /// The number of this id.
    fn index(self) -> usize;
    /// The table that an empty table of these ids is.
    #[must_use]
    fn new_table() -> TableId {
        TableId::default()
    }
    /// The id with this number in a table.
    #[must_use]
    fn of_table(index: usize, _table: TableId) -> Self {
        Self::from_index(index)
    }
    /// The table that the id is of. Ids that do not know it are of the default one.
    #[must_use]
    fn table(self) -> TableId {
        TableId::default()
    }
}

/// The identity of a table within this process. A clone of a table is the same table. No output depends on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct TableId(u32);

impl TableId {
    /// An identity that no other table has, until 2^32 tables were made.
    #[must_use]
    pub fn fresh() -> TableId {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        TableId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
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
        $crate::spelled_id!($name, $prefix);
    };
}

/// Declares an id as [`entity_id!`] does that also knows its table. A table refuses the ids of another one. Order and
/// hash are those of the numbers.
#[macro_export]
macro_rules! owned_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(std::num::NonZeroU32, $crate::entity::TableId);

        impl std::hash::Hash for $name {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }
        impl $crate::entity::EntityId for $name {
            fn from_index(index: usize) -> Self {
                Self::of_table(index, $crate::entity::TableId::default())
            }
            fn index(self) -> usize {
                self.0.get() as usize - 1
            }
            fn new_table() -> $crate::entity::TableId {
                $crate::entity::TableId::fresh()
            }
            fn of_table(index: usize, table: $crate::entity::TableId) -> Self {
                let n = u32::try_from(index + 1).ok().and_then(std::num::NonZeroU32::new);
                Self(n.expect("a table holds fewer than 2^32 - 1 entries"), table)
            }
            fn table(self) -> $crate::entity::TableId {
                self.1
            }
        }
        $crate::spelled_id!($name, $prefix);
    };
}

/// Implements `Display` and `Debug` of an id.
#[doc(hidden)]
#[macro_export]
macro_rules! spelled_id {
    ($name:ident, $prefix:literal) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(
                    f,
                    concat!($prefix, "{}"),
                    $crate::entity::EntityId::index(*self)
                )
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
    id: TableId,
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
            id: K::new_table(),
            key: PhantomData,
        }
    }
    /// Adds a value and returns its id.
    pub fn push(&mut self, item: T) -> K {
        self.items.push(item);
        K::of_table(self.items.len() - 1, self.id)
    }
    /// The identity of the table.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.id
    }
    /// The entry of an id; `None` for an id of another table.
    pub fn get(&self, id: K) -> Option<&T> {
        let own = id.table() == self.id;
        own.then(|| self.items.get(id.index())).flatten()
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
        let table = self.id;
        (0..self.items.len()).map(move |i| K::of_table(i, table))
    }
    /// All ids with their values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &T)> {
        self.items
            .iter()
            .enumerate()
            .map(|(i, t)| (K::of_table(i, self.id), t))
    }
}

/// # Panics
/// The id is of another table: it is stale, or of another function. [`Table::get`] does not panic.
impl<K: EntityId, T> Index<K> for Table<K, T> {
    type Output = T;
    fn index(&self, id: K) -> &T {
        assert!(id.table() == self.id, "an id of another table");
        &self.items[id.index()]
    }
}

impl<K: EntityId, T> IndexMut<K> for Table<K, T> {
    fn index_mut(&mut self, id: K) -> &mut T {
        assert!(id.table() == self.id, "an id of another table");
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
