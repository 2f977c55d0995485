//! The positions of a tensor's elements as a chain over its dimensions, or as steps.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::chain::{self, Chain, Cut, split_off};
use crate::dims::product;
use crate::program::Program;

/// The positions of a tensor's elements, without the tensor's shape.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// The dimensions longer than 1 in the counting order of the chain, major to minor; `None` is the logical order. It
    /// is only present if no chain over the logical order exists.
    pub(crate) order: Option<Vec<usize>>,
    /// Positions, without the offset, over the row-major number in that order.
    pub(crate) chain: Chain,
    /// Position of element 0.
    pub(crate) offset: u64,
    /// The steps of a layout that is not a chain. The chain and the order are then empty.
    pub(crate) program: Option<Arc<Program>>,
}

impl Function {
    /// The function of a tensor without elements.
    pub(crate) fn empty() -> Self {
        Self::logical(Chain::new(), 0)
    }

    /// A chain over the logical order.
    pub(crate) fn logical(chain: Chain, offset: u64) -> Self {
        Self {
            order: None,
            chain,
            offset,
            program: None,
        }
    }

    /// The function of a layout that is not a chain, by its steps.
    pub(crate) fn program(program: Program) -> Self {
        Self {
            program: Some(Arc::new(program)),
            ..Self::empty()
        }
    }

    /// Normalizes a chain that counts `order`: over the logical order if possible.
    pub(crate) fn new(order: &[usize], chain: Chain, shape: &[u64], offset: u64) -> Self {
        let order: Vec<usize> = order
            .iter()
            .copied()
            .filter(|&dim| 1 < shape[dim])
            .collect();
        if order.is_sorted() {
            return Self::logical(chain, offset);
        }
        let sizes: Vec<u64> = order.iter().map(|&dim| shape[dim]).collect();
        let mut groups: Vec<(Vec<usize>, u64, Chain)> = Vec::new();
        for (range, size, part) in independent_groups(&chain, &sizes) {
            groups.push((order[range].to_vec(), size, part));
        }
        groups.sort_by_key(|(dims, ..)| dims.iter().min().copied());
        let chain = concat(groups.iter().map(|(_, size, part)| (*size, &**part)));
        let order: Vec<usize> = groups.into_iter().flat_map(|(dims, ..)| dims).collect();
        Self {
            order: (!order.is_sorted()).then_some(order),
            ..Self::logical(chain, offset)
        }
    }

    /// The dimensions longer than 1 in the chain's order.
    pub(crate) fn dims(&self, shape: &[u64]) -> Vec<usize> {
        let long = || (0..shape.len()).filter(|&dim| 1 < shape[dim]).collect();
        self.order.clone().unwrap_or_else(long)
    }
}

/// Adjacent dimensions such that the chain is a sum of a function over them and one over the others.
#[derive(Clone, Copy, Default)]
pub(crate) struct Group {
    start: usize,
    end: usize,
    /// The number of their indices.
    pub(crate) size: u64,
    /// The range of its chain in the cuts of all groups.
    cuts: (usize, usize),
}

/// The finest groups of adjacent dimensions over which a chain is a sum.
pub(crate) struct Groups {
    /// Minor to major.
    list: SmallVec<[Group; 8]>,
    cuts: SmallVec<[Cut; 12]>,
}

impl Groups {
    /// The groups of a chain that counts dimensions of these sizes, none of them zero.
    pub(crate) fn of(chain: &[Cut], sizes: &[u64]) -> Groups {
        let mut groups = Groups {
            list: SmallVec::new(),
            cuts: SmallVec::new(),
        };
        let mut rest = Chain::from_slice(chain);
        let mut n = product(sizes);
        let (mut end, mut size) = (sizes.len(), 1u64);
        for start in (1..sizes.len()).rev() {
            size = size.saturating_mul(sizes[start]);
            let from = groups.cuts.len();
            if split_off(&mut rest, n, size, &mut groups.cuts) {
                let cuts = (from, groups.cuts.len());
                groups.list.push(Group {
                    start,
                    end,
                    size,
                    cuts,
                });
                n /= size;
                (end, size) = (start, 1);
            }
        }
        let from = groups.cuts.len();
        groups.cuts.extend_from_slice(&rest);
        groups.list.push(Group {
            start: 0,
            end,
            size: n,
            cuts: (from, groups.cuts.len()),
        });
        groups
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The groups major to minor: dimensions, number of indices, chain.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (std::ops::Range<usize>, u64, &[Cut])> {
        let whole = |group: &Group| {
            let (from, to) = group.cuts;
            (group.start..group.end, group.size, &self.cuts[from..to])
        };
        self.list.iter().rev().map(whole)
    }

    /// The chain that counts the groups in another order, given as numbers of groups, major to minor.
    pub(crate) fn in_order(&self, order: &[usize]) -> Chain {
        concat(order.iter().map(|&place| {
            let Group { size, cuts, .. } = self.list[self.list.len() - 1 - place];
            (size, &self.cuts[cuts.0..cuts.1])
        }))
    }
}

/// The groups as a list of dimensions, number of indices and chain, major to minor.
pub(crate) fn independent_groups(
    chain: &[Cut],
    sizes: &[u64],
) -> Vec<(std::ops::Range<usize>, u64, Chain)> {
    let groups = Groups::of(chain, sizes);
    let owned = groups
        .iter()
        .map(|(dims, size, chain)| (dims, size, Chain::from_slice(chain)));
    owned.collect()
}

/// The chain that counts independent parts major to minor, each with its number of indices.
pub(crate) fn concat<'a>(
    parts: impl DoubleEndedIterator<Item = (u64, &'a [Cut])> + Clone,
) -> Chain {
    let mut whole = 1u64;
    let below = parts.clone().rev().map(|(size, _)| {
        let below = whole;
        whole = whole.saturating_mul(size);
        below
    });
    let below: SmallVec<[u64; 8]> = below.collect();
    let mut chain = Chain::new();
    if whole != 0 {
        let parts = parts.zip(below.iter().rev());
        let long = parts.filter(|((size, _), _)| 1 < *size);
        long.for_each(|((_, part), &below)| chain::append(&mut chain, part, below));
    }
    chain
}
