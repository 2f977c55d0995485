//! An operation over other axes: itself with the dimensions of its operands and results permuted.
//!
//! A value whose digits lie in another order than its dimensions is, in a format without layouts, a tensor of other
//! dimensions. `softmax` of `tensor<2x3x5xf32, {order = [2, 0, 1]}>` along dimension 1 is there the `softmax` of a
//! `tensor<5x2x3xf32>` along dimension 2. [`Operation::over_axes`](crate::Operation::over_axes) is where an operation says so, attributes, parameters
//! and indices included. Target rows, the search, the checker and the writer of formats ask it alone.

use crate::attr::AttrDict;
use crate::op::freedom::{Freedom, FreedomClass, Role};
use crate::op::op_ref::OpRef;
use crate::types::Dim;
use indexmap::IndexSet;
use optc_layout::{Cuts, Digit};

/// How an operand or result lies, in terms of the labels of a [`Freedom`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaidPort {
    /// The label of each dimension; none of one that is broadcast or dropped.
    pub labels: Vec<Option<usize>>,
    /// Extents, in elements, numbers in place of unknown sizes.
    pub shape: Vec<u64>,
    /// The digits of more than one element in memory, major to minor, by label.
    pub digits: Vec<Digit>,
}

impl LaidPort {
    /// A port with these digits, major to minor, by dimension; nothing where a label has two dimensions, or a digit has none though others
    /// have one. A port without labels is read as it is, in its own dimensions.
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

    /// Whether it lies in its own dimensions, in their order.
    #[must_use]
    pub fn is_natural(&self) -> bool {
        let place = |d: &Digit| self.labels.iter().position(|l| *l == Some(d.of));
        let key = |d: &Digit| (place(d), std::cmp::Reverse(d.div));
        self.is_empty() || self.digits.is_sorted_by_key(key)
    }

    /// True if it shares no dimension with other ports, and has its own dimensions over whatever axes.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.labels.iter().all(Option::is_none)
    }

    /// Whether it has no elements, so that it lies in any order.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }
}

/// A run of digits of one label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// The label.
    pub label: usize,
    /// The divisor of its last digit.
    pub low: u64,
    /// The divisor of the digit before it; none where it has the first.
    pub high: Option<u64>,
}

impl Axis {
    /// How long it is at a port where the label has this extent.
    #[must_use]
    pub fn extent(&self, size: u64) -> u64 {
        self.high
            .map_or(size, |high| high.min(size))
            .div_ceil(self.low)
    }
}

/// A dimension over axes: those that it runs over, major to minor. One over none has one element.
pub type Run = Vec<usize>;

/// The size that a number stands for.
pub type SizeOf<'a> = &'a dyn Fn(u64) -> Dim;

/// The axes over which an operation is asked for, major to minor, and what its ports have of them.
///
/// Ports are the operands, then the results.
#[derive(Clone)]
pub struct Axes<'a> {
    list: Vec<Axis>,
    ports: &'a [LaidPort],
    n_operands: usize,
    sizes: SizeOf<'a>,
}

/// An operation as it is over axes.
#[derive(Clone, Debug, PartialEq)]
pub struct OverAxes {
    /// Its attributes.
    pub props: AttrDict,
    /// Its operands: which of the original's each is, and its dimensions.
    pub operands: Vec<(usize, Vec<Run>)>,
    /// The dimensions of its results.
    pub results: Vec<Vec<Run>>,
    /// Whether operands broadcast, so that leading dimensions of one element may be left out.
    pub broadcasts: bool,
}

impl OverAxes {
    /// With these attributes, the operands in their order.
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

/// Where a label is among axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisOf {
    /// It is this axis, whole.
    Whole(usize),
    /// No port has it.
    Unit,
    /// It is cut into several axes, or an axis has a part of it.
    Cut,
}

impl<'a> Axes<'a> {
    /// The orders of axes that ports suggest, each once: that of each port with what the others have besides, put after what stands before
    /// it there. A label that has no digits is an axis of one element.
    ///
    /// Nothing where cuts do not divide one another.
    #[must_use]
    pub fn suggested(freedom: &Freedom, ports: &'a [LaidPort], sizes: SizeOf<'a>) -> Vec<Axes<'a>> {
        let mut cuts = Cuts::default();
        ports.iter().for_each(|p| cuts.add(&p.digits));
        // The fullest port is asked first; of several the last, as results come after operands.  Ports that differ in extents alone suggest
        // the same.
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

    /// With an axis of one element for each label that has no digits, after the label that stands before it at some port.
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

    /// Operands, then results.
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

    /// Where a label is.
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

    /// A label as a dimension of its own: the axis that it is, or none where no port has it. Nothing where it is cut.
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

    /// Whether a port has the label of an axis.
    #[must_use]
    pub fn has(&self, port: usize, axis: usize) -> bool {
        let label = Some(self.list[axis].label);
        self.ports
            .get(port)
            .is_some_and(|p| p.labels.contains(&label))
    }

    /// Each axis that a port has, a dimension each.
    #[must_use]
    pub fn own(&self, port: usize) -> Vec<Run> {
        let own = (0..self.list.len()).filter(|&i| self.has(port, i));
        own.map(|i| vec![i]).collect()
    }

    /// Each axis, a dimension each: of one element where a port lacks it.
    #[must_use]
    pub fn each(&self) -> Vec<Run> {
        (0..self.list.len()).map(|i| vec![i]).collect()
    }

    /// How long an axis is at a port; 1 where the port lacks it.
    #[must_use]
    pub fn extent(&self, port: usize, axis: usize) -> u64 {
        let axis = &self.list[axis];
        let size = self.ports.get(port).and_then(|p| p.size(axis.label));
        size.map_or(1, |n| axis.extent(n))
    }

    /// The extents of a port with these dimensions, in elements.
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

    /// The dimensions of a port that has these.
    #[must_use]
    pub fn dims(&self, port: usize, runs: &[Run]) -> Vec<Dim> {
        let extents = self.extents(port, runs).into_iter();
        extents.map(|n| self.dim(n)).collect()
    }

    /// The digits of a port that has these dimensions, major to minor.
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

    /// Whether the labels that are cut have one extent at all ports that have them.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.list.iter().all(|axis| {
            let whole = axis.low == 1 && axis.high.is_none();
            let mut sizes = self.ports.iter().filter_map(|p| p.size(axis.label));
            let first = sizes.next();
            whole || sizes.all(|n| Some(n) == first)
        })
    }

    /// Whether what stands in an axis below `at`, of the same label, is as long at all ports.
    #[must_use]
    pub fn has_equal_parts(&self, at: usize) -> bool {
        let Axis { label, low, .. } = self.list[at];
        let mut sizes = self.ports.iter().filter_map(|p| p.size(label));
        sizes.all(|n| n.is_multiple_of(low))
    }

    /// The operation works along a dimension of its first operand, and every port has the axes whose labels it has: `write` gives the
    /// attributes with the axis among those of the first operand. Nothing where the dimension is cut.
    pub fn along(&self, dim: usize, write: impl FnOnce(i64) -> AttrDict) -> Option<OverAxes> {
        let AxisOf::Whole(axis) = self.of_label(self.label(0, dim)?) else {
            return None;
        };
        let at = self.own(0).iter().position(|run| *run == [axis])?;
        Some(self.each_own(write(at as i64)))
    }

    /// Every port over the axes whose labels it has.
    #[must_use]
    pub fn each_own(&self, props: AttrDict) -> OverAxes {
        let ports: Vec<Vec<Run>> = (0..self.ports.len()).map(|p| self.own(p)).collect();
        let (operands, results) = ports.split_at(self.n_operands);
        OverAxes::new(props, operands.to_vec(), results.to_vec())
    }

    /// Every operand broadcasts over all axes.
    #[must_use]
    pub fn broadcast(&self, props: AttrDict) -> OverAxes {
        let ports = vec![self.each(); self.ports.len()];
        let (operands, results) = ports.split_at(self.n_operands);
        OverAxes {
            broadcasts: true,
            ..OverAxes::new(props, operands.to_vec(), results.to_vec())
        }
    }

    /// Whether every port lies as the operation has it over these axes: nothing is to be transposed.
    #[must_use]
    pub fn lie_so(&self, form: &OverAxes) -> bool {
        let operands = form.operands.iter().map(|(port, runs)| (*port, runs));
        let results = form.results.iter().enumerate();
        let results = results.map(|(i, runs)| (self.n_operands + i, runs));
        let mut all = operands.chain(results);
        all.all(|(port, runs)| self.lies_so(port, runs))
    }

    /// Whether a port lies so.
    #[must_use]
    pub fn lies_so(&self, port: usize, runs: &[Run]) -> bool {
        let Some(found) = self.ports.get(port) else {
            return false;
        };
        found.is_empty() || together(&found.digits) == together(&self.digits(port, runs))
    }
}

/// Digits of one label that follow one another as one.
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

/// The digits of one port and those that only others have, each after what stands before it there, else before what
/// stands after it.
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

/// Digits that follow one another in one label as one axis; the first digits of a label have what is left of the extent at each port.
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

/// An element-wise operation over axes: every operand broadcasts to the result, aligned at the last dimension.
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
