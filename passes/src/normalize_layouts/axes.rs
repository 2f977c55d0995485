//! The axes over which an operation runs in memory: runs of digits, the same at all its ports.

use super::digits;
use super::memory::Memory;
use optc_ir::{Dim, OpError, OpRef, StandIns, TensorType, Value};
use optc_layout::{Cuts, Digit};

/// An operand or result of an operation.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) ty: TensorType,
    /// Extents, numbers in place of unknown sizes.
    pub(super) shape: Vec<u64>,
    /// The label of each dimension; none of one that is broadcast or dropped.
    pub(super) labels: Vec<Option<usize>>,
    /// Digits in memory, major to minor, by dimension.
    pub(super) dims: Vec<Digit>,
    /// The same by label.
    pub(super) digits: Vec<Digit>,
}

impl Port {
    /// What is known of a port; nothing where its memory is no order of digits of different labels.
    pub(super) fn of(
        ty: &TensorType,
        labels: &[Option<usize>],
        numbers: &mut StandIns,
    ) -> Option<Port> {
        let shape = digits::shape(ty, numbers)?;
        let dims = digits::of_type(ty, numbers)?;
        let named: Vec<usize> = labels.iter().flatten().copied().collect();
        let twice = (1..named.len()).any(|i| named[..i].contains(&named[i]));
        if twice || labels.len() != shape.len() {
            return None;
        }
        let digit = |d: &Digit| {
            let of = labels[d.of]?;
            Some(Digit { of, ..*d })
        };
        Some(Port {
            ty: ty.clone(),
            digits: dims.iter().map(digit).collect::<Option<_>>()?,
            labels: labels.to_vec(),
            shape,
            dims,
        })
    }

    /// The extent along a label, if the port has it.
    pub(super) fn size(&self, label: usize) -> Option<u64> {
        let at = self.labels.iter().position(|l| *l == Some(label))?;
        self.shape.get(at).copied()
    }
}

/// The ports of an operation: operands, then results.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    pub(super) all: Vec<Port>,
    pub(super) n_operands: usize,
}

impl Ports {
    /// The ports of an operation with these labels.
    pub(super) fn of(
        op: &OpRef<'_>,
        freedom: &optc_ir::Freedom,
        numbers: &mut StandIns,
    ) -> Option<Ports> {
        let types = op.operands.iter().chain(&op.results);
        let labels = freedom.operands.iter().chain(&freedom.results);
        let port = |(ty, labels): (&&optc_ir::Type, &Vec<Option<usize>>)| {
            Port::of(ty.as_tensor()?, labels, numbers)
        };
        Some(Ports {
            all: types.zip(labels).map(port).collect::<Option<_>>()?,
            n_operands: op.operands.len(),
        })
    }
}

/// A run of digits of one label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) label: usize,
    /// The divisor of its last digit.
    pub(super) low: u64,
    /// The divisor of the digit before it; none where it has the first.
    pub(super) high: Option<u64>,
}

impl Axis {
    /// How long it is at a port that has the label.
    fn extent(&self, size: u64) -> u64 {
        self.high
            .map_or(size, |high| high.min(size))
            .div_ceil(self.low)
    }
}

/// The axes of an operation, major to minor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axes(pub(super) Vec<Axis>);

impl Axes {
    /// The axes in the order of the port that has most of them; nothing where cuts do not divide one another, or
    /// another port has digits that this one lacks. A label of `worked` that has no digits is an axis of one element.
    pub(super) fn of(ports: &[&Port], worked: &[usize]) -> Option<Axes> {
        let mut cuts = Cuts::default();
        ports.iter().for_each(|p| cuts.add(&p.digits));
        let refined = |p: &&Port| cuts.refine(&p.digits);
        let refined: Vec<Vec<Digit>> = ports.iter().map(refined).collect::<Option<_>>()?;
        // Of several as long the last: results come after operands.
        let hub = (0..refined.len()).max_by_key(|&i| refined[i].len())?;
        let order = &refined[hub];
        let known = |d: &Digit| order.iter().any(|o| o.key() == d.key());
        if !refined.iter().flatten().all(known) {
            return None;
        }
        let mut axes: Vec<Axis> = Vec::new();
        for digit in order {
            let end = digit.div.checked_mul(digit.extent)?;
            match axes.last_mut() {
                Some(last) if last.label == digit.of && last.low == end => last.low = digit.div,
                _ => axes.push(Axis {
                    label: digit.of,
                    low: digit.div,
                    high: (ports[hub].size(digit.of) != Some(end)).then_some(end),
                }),
            }
        }
        for &label in worked {
            let has = axes.iter().any(|a| a.label == label);
            if !has && ports.iter().any(|p| p.labels.contains(&Some(label))) {
                let (low, high) = (1, None);
                axes.insert(0, Axis { label, low, high });
            }
        }
        Some(Axes(axes))
    }

    /// The one axis that is all of a label.
    pub(super) fn whole(&self, label: usize) -> Option<usize> {
        let at = self.0.iter().position(|a| a.label == label)?;
        (self.0[at].low == 1 && self.0[at].high.is_none()).then_some(at)
    }

    /// The axis with the first digits of a label.
    pub(super) fn first(&self, label: usize) -> Option<usize> {
        self.0
            .iter()
            .position(|a| a.label == label && a.high.is_none())
    }

    /// All axes of a label.
    pub(super) fn all(&self, label: usize) -> Vec<usize> {
        (0..self.0.len())
            .filter(|&i| self.0[i].label == label)
            .collect()
    }

    /// The extents of the axes at a port; 1 where it lacks the label.
    pub(super) fn extents(&self, port: &Port) -> Vec<u64> {
        let extent = |a: &Axis| port.size(a.label).map_or(1, |n| a.extent(n));
        self.0.iter().map(extent).collect()
    }

    /// The extents of the axes whose label the port has.
    pub(super) fn own_extents(&self, port: &Port) -> Vec<u64> {
        let extent = |a: &Axis| port.size(a.label).map(|n| a.extent(n));
        self.0.iter().filter_map(extent).collect()
    }

    /// The digits of a port in the order of the axes.
    pub(super) fn digits(&self, port: &Port) -> Vec<Digit> {
        let digit = |a: &Axis| {
            let extent = a.extent(port.size(a.label)?);
            let (of, div) = (a.label, a.low);
            (extent != 1).then_some(Digit { of, div, extent })
        };
        self.0.iter().filter_map(digit).collect()
    }

    /// The memory of a port in the order of the axes.
    pub(super) fn arranged(
        &self,
        memory: &mut Memory<'_>,
        port: &Port,
        value: Value,
    ) -> Result<Option<Value>, OpError> {
        memory.arrange(value, &port.digits, &self.digits(port))
    }

    /// The memory of a port that is broadcast: over all axes, but for those of extent 1 before the first that is not.
    pub(super) fn broadcast(
        &self,
        memory: &mut Memory<'_>,
        port: &Port,
        value: Value,
    ) -> Result<Option<Value>, OpError> {
        let Some(value) = self.arranged(memory, port, value)? else {
            return Ok(None);
        };
        let wanted = digits::dims(self.extents(port), &memory.numbers);
        let ones = |dims: &[Dim]| dims.iter().take_while(|d| d.is_one()).count();
        let has = memory.dims(value);
        if has.len() <= wanted.len() && has[ones(&has)..] == wanted[ones(&wanted)..] {
            return Ok(Some(value));
        }
        let short = match wanted.iter().all(Dim::is_one) {
            true => &wanted[..0],
            false => &wanted[ones(&wanted)..],
        };
        memory.reshape(value, short).map(Some)
    }

    /// The memory of a result, made over the axes of its labels.
    pub(super) fn stored(
        &self,
        memory: &mut Memory<'_>,
        port: &Port,
        value: Value,
    ) -> Result<Option<Value>, OpError> {
        memory.arrange(value, &self.digits(port), &port.digits)
    }
}
