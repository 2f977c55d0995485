//! An operation over other axes: itself with the dimensions of its operands and results permuted.
//!
//! In a format without layouts, a value whose digits are in another order than its dimensions is a tensor with other
//! dimensions. Example: `softmax` of `tensor<2x3x5xf32, {order = [2, 0, 1]}>` along dimension 1 becomes there the
//! `softmax` of a `tensor<5x2x3xf32>` along dimension 2.
//!
//! An operation states its permuted form, with attributes, parameters and indices, in
//! [`Operation::over_axes`](crate::Operation::over_axes). Target rows, the search, the checker and the writers of
//! formats use no other source.

use crate::attr::AttrDict;
use crate::op::freedom::{Freedom, FreedomClass, Role};
use crate::op::op_ref::OpRef;
use crate::types::Dim;
use indexmap::IndexSet;
use optc_layout::{Cuts, Digit};

/// The layout of an operand or result, in terms of the labels of a [`Freedom`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaidPort {
    /// The label of each dimension; `None` for a dimension that is broadcast or dropped.
    pub labels: Vec<Option<usize>>,
    /// Extents, in elements, with numbers in place of unknown sizes.
    pub shape: Vec<u64>,
    /// The digits in memory, major to minor, by label. Digits of extent 1 are left out.
    pub digits: Vec<Digit>,
}

impl LaidPort {
    /// A port with the digits `dims`, major to minor, which refer to dimensions. `None` if a label has two dimensions,
    /// or if a digit belongs to an unlabelled dimension while others are labelled. A port without any labels gets no
    /// digits, and must be in the order of its own dimensions (else `None`).
    #[must_use]
    pub fn new(labels: &[Option<usize>], shape: Vec<u64>, dims: &[Digit]) -> Option<LaidPort> {
        let named: Vec<usize> = labels.iter().flatten().copied().collect();
        let twice = (1..named.len()).any(|i| named[..i].contains(&named[i]));
        if twice || labels.len() != shape.len() {
            return None;
        }
        let digit = |d: &Digit| {
            let of = labels[d.of]?;
            Some(Digit { of, ..*d })
        };
        let long = dims.iter().filter(|d| d.extent != 1);
        if named.is_empty() {
            let natural = long.is_sorted_by_key(|d| (d.of, std::cmp::Reverse(d.div)));
            return natural.then(|| LaidPort {
                digits: Vec::new(),
                labels: labels.to_vec(),
                shape,
            });
        }
        Some(LaidPort {
            digits: long.map(digit).collect::<Option<_>>()?,
            labels: labels.to_vec(),
            shape,
        })
    }

    /// The extent along a label, if the port has it.
    #[must_use]
    pub fn size(&self, label: usize) -> Option<u64> {
        let at = self.labels.iter().position(|l| *l == Some(label))?;
        self.shape.get(at).copied()
    }

    /// Returns whether the digits are in the order of the port's dimensions (row-major).
    #[must_use]
    pub fn is_natural(&self) -> bool {
        let place = |d: &Digit| self.labels.iter().position(|l| *l == Some(d.of));
        let key = |d: &Digit| (place(d), std::cmp::Reverse(d.div));
        self.is_empty() || self.digits.is_sorted_by_key(key)
    }

    /// Returns whether the port shares no dimension with other ports. It then keeps its own dimensions, whatever the
    /// axes are.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.labels.iter().all(Option::is_none)
    }

    /// Returns whether the port has no elements, so that any order of digits fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }
}

/// A run of digits of one label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// The label of the digits.
    pub label: usize,
    /// The divisor of the last (least significant) digit.
    pub low: u64,
    /// The divisor of the digit before this run; `None` if the run begins with the label's first digit.
    pub high: Option<u64>,
}

impl Axis {
    /// The extent of the axis at a port where the label has extent `size`.
    #[must_use]
    pub fn extent(&self, size: u64) -> u64 {
        self.high
            .map_or(size, |high| high.min(size))
            .div_ceil(self.low)
    }
}

/// A dimension in terms of axes: the axes that it merges, major to minor. A run of no axes has extent 1.
pub type Run = Vec<usize>;

/// A function from a number to the size that it stands for.
pub type SizeOf<'a> = &'a dyn Fn(u64) -> Dim;

/// The axes, major to minor, over which a permuted form of an operation is wanted, and the ports of the operation.
///
/// Ports are the operands, then the results.
#[derive(Clone)]
pub struct Axes<'a> {
    list: Vec<Axis>,
    ports: &'a [LaidPort],
    n_operands: usize,
    sizes: SizeOf<'a>,
}

/// The form of an operation over axes.
#[derive(Clone, Debug, PartialEq)]
pub struct OverAxes {
    /// The attributes of the form.
    pub props: AttrDict,
    /// For each operand of the form: the number of the original operand, and its dimensions.
    pub operands: Vec<(usize, Vec<Run>)>,
    /// The dimensions of each result.
    pub results: Vec<Vec<Run>>,
    /// True if operands broadcast, so that leading dimensions of extent 1 may be left out.
    pub broadcasts: bool,
}

impl OverAxes {
    /// A form with these attributes, whose operands are the original ones in their order.
    #[must_use]
    pub fn new(props: AttrDict, operands: Vec<Vec<Run>>, results: Vec<Vec<Run>>) -> OverAxes {
        OverAxes {
            props,
            operands: operands.into_iter().enumerate().collect(),
            results,
            broadcasts: false,
        }
    }
}

/// The relation of a label to the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisOf {
    /// The label is this axis, whole.
    Whole(usize),
    /// No axis has the label.
    Unit,
    /// The label is cut into several axes, or an axis has only a part of it.
    Cut,
}

impl<'a> Axes<'a> {
    /// The orders of axes that the ports suggest, each once. Each port suggests the order of its own digits, with the
    /// digits that only other ports have inserted after their predecessors at those ports. A label without digits
    /// becomes an axis of extent 1.
    ///
    /// Empty if the cuts of a label do not divide one another.
    #[must_use]
    pub fn suggested(freedom: &Freedom, ports: &'a [LaidPort], sizes: SizeOf<'a>) -> Vec<Axes<'a>> {
        let mut cuts = Cuts::default();
        ports.iter().for_each(|p| cuts.add(&p.digits));
        // The port with the most digits comes first; among equals the last port, since results come after operands.
        // Ports that differ only in extents suggest the same order.
        let mut fullest: Vec<Vec<Digit>> = Vec::new();
        let mut known = IndexSet::new();
        for port in ports.iter().rev() {
            let Some(refined) = cuts.refine(&port.digits) else {
                return Vec::new();
            };
            if known.insert(refined.iter().map(Digit::key).collect::<Vec<_>>()) {
                fullest.push(refined);
            }
        }
        fullest.sort_by_key(|digits| std::cmp::Reverse(digits.len()));
        let mut all: Vec<Axes<'a>> = Vec::new();
        for hub in 0..fullest.len() {
            let order = with_others(&fullest, hub);
            let axes = Axes {
                list: joined(&order),
                ports,
                n_operands: freedom.operands.len(),
                sizes,
            };
            let axes = axes.with_units();
            if !all.iter().any(|known| known.list == axes.list) {
                all.push(axes);
            }
        }
        all
    }

    /// Adds an axis of extent 1 for each label that has no digits, after the preceding label of some port that has it.
    fn with_units(mut self) -> Axes<'a> {
        for port in (0..self.ports.len()).rev() {
            let labels = &self.ports[port].labels;
            for (dim, label) in labels.iter().enumerate() {
                let Some(label) = *label else { continue };
                if self.list.iter().any(|a| a.label == label) {
                    continue;
                }
                let place = |l: usize| self.list.iter().rposition(|a| a.label == l);
                let before = labels[..dim].iter().rev().flatten().find_map(|&l| place(l));
                let (low, high) = (1, None);
                let at = before.map_or(0, |at| at + 1);
                self.list.insert(at, Axis { label, low, high });
            }
        }
        self
    }

    /// The axes, major to minor.
    #[must_use]
    pub fn list(&self) -> &[Axis] {
        &self.list
    }

    /// The ports: operands, then results.
    #[must_use]
    pub fn ports(&self) -> &[LaidPort] {
        self.ports
    }

    /// The number of operands.
    #[must_use]
    pub fn n_operands(&self) -> usize {
        self.n_operands
    }

    /// The label of a dimension of a port.
    #[must_use]
    pub fn label(&self, port: usize, dim: usize) -> Option<usize> {
        *self.ports.get(port)?.labels.get(dim)?
    }

    /// The relation of a label to the axes.
    #[must_use]
    pub fn of_label(&self, label: usize) -> AxisOf {
        let mut at = (0..self.list.len()).filter(|&i| self.list[i].label == label);
        match (at.next(), at.next()) {
            (None, _) => AxisOf::Unit,
            (Some(i), None) if self.list[i].low == 1 && self.list[i].high.is_none() => {
                AxisOf::Whole(i)
            }
            _ => AxisOf::Cut,
        }
    }

    /// A label as one dimension: the axis of the label, or no axis if the label has none. `None` if the label is cut.
    #[must_use]
    pub fn whole(&self, label: usize) -> Option<Run> {
        match self.of_label(label) {
            AxisOf::Whole(i) => Some(vec![i]),
            AxisOf::Unit => Some(Vec::new()),
            AxisOf::Cut => None,
        }
    }

    /// All axes of a label.
    #[must_use]
    pub fn all(&self, label: usize) -> Run {
        let own = |i: &usize| self.list[*i].label == label;
        (0..self.list.len()).filter(own).collect()
    }

    /// The axis with the first digits of a label.
    #[must_use]
    pub fn first(&self, label: usize) -> Option<usize> {
        let own = |a: &Axis| a.label == label && a.high.is_none();
        self.list.iter().position(own)
    }

    /// Returns whether a port has the label of an axis.
    #[must_use]
    pub fn has(&self, port: usize, axis: usize) -> bool {
        let label = Some(self.list[axis].label);
        self.ports
            .get(port)
            .is_some_and(|p| p.labels.contains(&label))
    }

    /// The axes that a port has, one dimension each.
    #[must_use]
    pub fn own(&self, port: usize) -> Vec<Run> {
        let own = (0..self.list.len()).filter(|&i| self.has(port, i));
        own.map(|i| vec![i]).collect()
    }

    /// All axes, one dimension each; a dimension has extent 1 if the port lacks the axis.
    #[must_use]
    pub fn each(&self) -> Vec<Run> {
        (0..self.list.len()).map(|i| vec![i]).collect()
    }

    /// The extent of an axis at a port; 1 if the port lacks it.
    #[must_use]
    pub fn extent(&self, port: usize, axis: usize) -> u64 {
        let axis = &self.list[axis];
        let size = self.ports.get(port).and_then(|p| p.size(axis.label));
        size.map_or(1, |n| axis.extent(n))
    }

    /// The extents, in elements, of a port with dimensions `runs`.
    #[must_use]
    pub fn extents(&self, port: usize, runs: &[Run]) -> Vec<u64> {
        let extent = |run: &Run| {
            let all = run.iter().map(|&axis| self.extent(port, axis));
            all.fold(1, u64::saturating_mul)
        };
        runs.iter().map(extent).collect()
    }

    /// The size that a number stands for.
    #[must_use]
    pub fn dim(&self, n: u64) -> Dim {
        (self.sizes)(n)
    }

    /// The dimensions of a port, as sizes, for the dimensions `runs`.
    #[must_use]
    pub fn dims(&self, port: usize, runs: &[Run]) -> Vec<Dim> {
        let extents = self.extents(port, runs).into_iter();
        extents.map(|n| self.dim(n)).collect()
    }

    /// The digits of a port with dimensions `runs`, major to minor.
    #[must_use]
    pub fn digits(&self, port: usize, runs: &[Run]) -> Vec<Digit> {
        let own = runs.iter().flatten().filter(|&&axis| self.has(port, axis));
        let digit = |&axis: &usize| {
            let extent = self.extent(port, axis);
            let Axis { label, low, .. } = self.list[axis];
            (extent != 1).then(|| Digit::new(label, low, extent))
        };
        own.filter_map(digit).collect()
    }

    /// Returns whether each cut label has the same extent at all ports that have it.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.list.iter().all(|axis| {
            let whole = axis.low == 1 && axis.high.is_none();
            let mut sizes = self.ports.iter().filter_map(|p| p.size(axis.label));
            let first = sizes.next();
            whole || sizes.all(|n| Some(n) == first)
        })
    }

    /// Returns whether the divisor of axis `at` divides the extent of its label at every port. The digits below the
    /// axis then have the same extents at all ports.
    #[must_use]
    pub fn has_equal_parts(&self, at: usize) -> bool {
        let Axis { label, low, .. } = self.list[at];
        let mut sizes = self.ports.iter().filter_map(|p| p.size(label));
        sizes.all(|n| n.is_multiple_of(low))
    }

    /// The form of an operation that works along dimension `dim` of its first operand, where every port has the axes of
    /// its own labels. `write` gets the index of the axis among those of the first operand and returns the attributes.
    /// `None` if the dimension is cut.
    pub fn along(&self, dim: usize, write: impl FnOnce(i64) -> AttrDict) -> Option<OverAxes> {
        let AxisOf::Whole(axis) = self.of_label(self.label(0, dim)?) else {
            return None;
        };
        let at = self.own(0).iter().position(|run| *run == [axis])?;
        Some(self.each_own(write(at as i64)))
    }

    /// The form in which every port has the axes of its own labels.
    #[must_use]
    pub fn each_own(&self, props: AttrDict) -> OverAxes {
        let ports: Vec<Vec<Run>> = (0..self.ports.len()).map(|p| self.own(p)).collect();
        let (operands, results) = ports.split_at(self.n_operands);
        OverAxes::new(props, operands.to_vec(), results.to_vec())
    }

    /// The form in which every operand broadcasts over all axes.
    #[must_use]
    pub fn broadcast(&self, props: AttrDict) -> OverAxes {
        let ports = vec![self.each(); self.ports.len()];
        let (operands, results) = ports.split_at(self.n_operands);
        OverAxes {
            broadcasts: true,
            ..OverAxes::new(props, operands.to_vec(), results.to_vec())
        }
    }

    /// Returns whether the digits of every port are in the order of the form, so that nothing is transposed.
    #[must_use]
    pub fn lie_so(&self, form: &OverAxes) -> bool {
        let operands = form.operands.iter().map(|(port, runs)| (*port, runs));
        let results = form.results.iter().enumerate();
        let results = results.map(|(i, runs)| (self.n_operands + i, runs));
        let mut all = operands.chain(results);
        all.all(|(port, runs)| self.lies_so(port, runs))
    }

    /// Returns whether the digits of a port are in the order of the dimensions `runs`.
    #[must_use]
    pub fn lies_so(&self, port: usize, runs: &[Run]) -> bool {
        let Some(found) = self.ports.get(port) else {
            return false;
        };
        found.is_empty() || together(&found.digits) == together(&self.digits(port, runs))
    }
}

/// Merges adjacent digits of one label into one digit.
fn together(digits: &[Digit]) -> Vec<Digit> {
    let mut out: Vec<Digit> = Vec::with_capacity(digits.len());
    for digit in digits {
        match out.last_mut() {
            Some(last)
                if last.of == digit.of && digit.div.checked_mul(digit.extent) == Some(last.div) =>
            {
                *last = Digit::new(
                    digit.of,
                    digit.div,
                    last.extent.saturating_mul(digit.extent),
                );
            }
            _ => out.push(*digit),
        }
    }
    out
}

/// The digits of port `hub`, with the digits that only other ports have inserted: each after its predecessor at the
/// other port, or before its successor if the predecessor is missing.
fn with_others(fullest: &[Vec<Digit>], hub: usize) -> Vec<Digit> {
    let mut order = fullest[hub].clone();
    for (_, own) in fullest.iter().enumerate().filter(|(port, _)| *port != hub) {
        for (i, digit) in own.iter().enumerate() {
            let place = |d: &Digit| order.iter().position(|o| o.key() == d.key());
            if place(digit).is_some() {
                continue;
            }
            let before = own[..i].last().and_then(place).map(|at| at + 1);
            let after = || own[i + 1..].iter().find_map(place);
            let at = before.or_else(after).unwrap_or(order.len());
            order.insert(at, *digit);
        }
    }
    order
}

/// Joins adjacent digits of one label into axes. The first axis of a label takes the rest of the extent at each port.
fn joined(order: &[Digit]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for digit in order {
        let end = digit.div.saturating_mul(digit.extent);
        match axes.last_mut() {
            Some(last) if last.label == digit.of && last.low == end => last.low = digit.div,
            _ => axes.push(Axis {
                label: digit.of,
                low: digit.div,
                high: Some(end),
            }),
        }
    }
    for at in 0..axes.len() {
        let Axis { label, low, .. } = axes[at];
        if axes.iter().all(|a| a.label != label || a.low <= low) {
            axes[at].high = None;
        }
    }
    axes
}

/// The form of an element-wise operation: every operand broadcasts to the result, aligned at the last dimension.
pub(crate) fn elementwise(op: &OpRef<'_>, freedom: &Freedom, axes: &Axes<'_>) -> Option<OverAxes> {
    let [result] = &freedom.results[..] else {
        return None;
    };
    let parallel = freedom.labels.iter().all(|l| l.role == Role::Parallel);
    let aligned = |operand: &Vec<Option<usize>>| {
        let pairs = operand.iter().rev().zip(result.iter().rev());
        operand.len() <= result.len() && pairs.into_iter().all(|(a, b)| a.is_none() || a == b)
    };
    let ok =
        freedom.class == FreedomClass::Ordered && parallel && freedom.operands.iter().all(aligned);
    ok.then(|| axes.broadcast(op.props.clone()))
}
