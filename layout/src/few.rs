//! Short lists without memory of their own: most chains have a handful of cuts.

use std::ops::{Deref, DerefMut};

/// A list whose first `N` items need no allocation.
///
/// Invariant: all items are in `more` if it has any, else the first `len` of `few` are the list.
#[derive(Clone)]
pub(crate) struct Few<T, const N: usize = 8> {
    len: usize,
    few: [T; N],
    more: Vec<T>,
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            few: [T::default(); N],
            more: Vec::new(),
        }
    }

    pub(crate) fn from_slice(items: &[T]) -> Self {
        let mut list = Self::new();
        list.extend_from_slice(items);
        list
    }

    pub(crate) fn push(&mut self, item: T) {
        if !self.more.is_empty() {
            self.more.push(item);
        } else if let Some(place) = self.few.get_mut(self.len) {
            *place = item;
            self.len += 1;
        } else {
            self.more.reserve(2 * N);
            self.more.extend_from_slice(&self.few);
            self.more.push(item);
        }
    }

    pub(crate) fn extend_from_slice(&mut self, items: &[T]) {
        if self.more.is_empty()
            && let Some(places) = self.few.get_mut(self.len..self.len + items.len())
        {
            places.copy_from_slice(items);
            self.len += items.len();
        } else {
            self.extend(items.iter().copied());
        }
    }

    /// Takes out the item at `place`, which there is.
    pub(crate) fn remove(&mut self, place: usize) {
        let last = self.len().saturating_sub(1);
        self.copy_within(place + 1.., place);
        self.truncate(last);
    }

    pub(crate) fn pop(&mut self) {
        let last = self.len().saturating_sub(1);
        self.truncate(last);
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        if self.more.is_empty() {
            self.len = self.len.min(len);
        } else if len <= N {
            self.few[..len].copy_from_slice(&self.more[..len]);
            self.more.clear();
            self.len = len;
        } else {
            self.more.truncate(len);
        }
    }
}

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self.more.is_empty() {
            true => &self.few[..self.len],
            false => &self.more,
        }
    }
}

impl<T, const N: usize> DerefMut for Few<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self.more.is_empty() {
            true => &mut self.few[..self.len],
            false => &mut self.more,
        }
    }
}

impl<T: Copy + Default, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy + Default, const N: usize> Extend<T> for Few<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.push(item);
        }
    }
}

impl<T: Copy + Default, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::new();
        list.extend(items);
        list
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a Few<T, N> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq, const N: usize> PartialEq for Few<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, const N: usize> Eq for Few<T, N> {}

impl<T: std::fmt::Debug, const N: usize> std::fmt::Debug for Few<T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn a_few_items_are_the_same_list_as_many() {
        let mut list = Few::<u64, 4>::new();
        let mut plain = Vec::new();
        for n in 0..9 {
            list.push(n);
            plain.push(n);
            assert_eq!(*list, *plain);
        }
        for place in [8, 0, 3, 5, 2, 0, 3, 1, 0] {
            list.remove(place.min(list.len() - 1));
            plain.remove(place.min(plain.len() - 1));
            assert_eq!(*list, *plain);
        }
        for run in [&[1, 2, 3][..], &[4], &[5, 6, 7], &[]] {
            list.extend_from_slice(run);
            plain.extend_from_slice(run);
            assert_eq!(*list, *plain);
        }
        list.pop();
        assert_eq!(*list, plain[..6]);
        assert_eq!(list, Few::from_slice(&plain[..6]));
    }
}
