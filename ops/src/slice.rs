//! `hbir.slice`: `y[i] = x[start + i * stride]` in every dimension (StableHLO `slice`, ONNX `Slice` with its bounds
//! resolved).
//!
//! `starts`, `limits` and `strides` (1 when absent) have one entry for each dimension. A limit is exclusive. With a
//! negative stride the indices go down from the start, and the limit below element 0 is -1. The greatest `i64` stands
//! for the end of a dimension, whose size need not be known: as a limit, or, with a negative stride, as a start at the
//! last element. A bound may be a size as text, `"S"`, `"P+S"`.
//!
//! For example, `starts = [3], limits = [-1], strides = [-2]` takes the elements 3 and 1.

use crate::lists::per_axis;
use crate::over_axes::divided;
use crate::prelude::*;
use crate::shape::{operand_bytes, result_bytes};
use optc_ir::field_values;
use optc_ir::op::AttrValue;
use optc_ir::tensor::row_major_strides;

attributes! {
    /// A part of the operand, by starts, limits and strides.
    pub struct Slice {
        /// The first element of each dimension.
        starts: Bounds,
        /// The exclusive limit along each dimension, in the direction of the stride.
        limits: Bounds,
        /// The stride along each dimension; 1 when absent.
        strides: Option<Vec<i64>>,
    }
}

impl Operation for Slice {
    const NAME: &'static str = "hbir.slice";
    const SUMMARY: &'static str = "a part by starts, limits and strides";
    const FAMILY: &'static str = "slice";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        self.cut().infer(op)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        self.cut().eval(call)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let parts = self.parts(op).ok()?;
        let rank = axes.list().len();
        let mut starts = vec![Bound::At(Size::default()); rank];
        let mut limits = vec![Bound::End; rank];
        let mut strides = vec![1; rank];
        let (x, y) = (op.operand(0).ok()?, op.result(0).ok()?);
        for (dim, part) in parts.iter().enumerate() {
            let label = axes.label(0, dim);
            let all = label.map_or_else(Vec::new, |l| axes.all(l));
            let one = all.is_empty() && x.dims[dim] == y.dims[dim];
            if part.is_whole(&x.dims[dim]) || one {
                continue;
            }
            let at = label.and_then(|l| axes.first(l))?;
            let low = axes.list()[at].low;
            if low == 1 {
                starts[at] = self.starts.0[dim].clone();
                limits[at] = self.limits.0[dim].clone();
                strides[at] = part.stride;
                continue;
            }
            let size = part.size.size().and_then(|size| divided(&size, low));
            let (Some(start), Some(size), 1) = (divided(&part.start, low), size, part.stride)
            else {
                return None;
            };
            limits[at] = Bound::At(start.plus(&size)?);
            starts[at] = Bound::At(start);
        }
        let strided = strides.iter().any(|&s| s != 1);
        let over = Slice {
            starts: Bounds(starts),
            limits: Bounds(limits),
            strides: strided.then_some(strides),
        };
        Some(axes.each_own(over.write()))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        self.cut().iteration_domain(op)
    }

    fn parts(&self, op: &OpRef<'_>, _: &Known<'_>) -> Vec<Part> {
        self.cut().as_part(op)
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        let w = result_bytes(op);
        let down = self.strides.iter().flatten().any(|&s| s < 0);
        if w == operand_bytes(op, 0) && !down {
            Traffic::None
        } else {
            Traffic::Copy(w.clone(), w)
        }
    }
}

impl Slice {
    /// The parts of all dimensions.
    ///
    /// # Errors
    /// C1: one entry for each dimension in each list. C2: no stride is 0. C3: the bounds lie within the dimension.
    pub fn parts(&self, op: &OpRef<'_>) -> Result<Vec<SlicePart>, OpError> {
        self.cut().parts(op)
    }

    fn cut(&self) -> Cut<'_> {
        Cut {
            starts: &self.starts,
            limits: &self.limits,
            strides: self.strides.as_deref(),
        }
    }
}

/// The bound that stands for the end of a dimension.
const END: i64 = i64::MAX;

/// The part of one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePart {
    /// The first element. Also 0 if the indices go down from the last element of a dimension of unknown size.
    pub start: Size,
    /// The step from one element to the next.
    pub stride: i64,
    /// The number of elements.
    pub size: Dim,
}

impl SlicePart {
    /// Returns whether the part is the whole dimension, in its order.
    #[must_use]
    pub fn is_whole(&self, dim: &Dim) -> bool {
        self.start == Size::default() && self.stride == 1 && self.size.same(dim)
    }
}

/// One entry of `starts` or `limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The end of the dimension.
    End,
    /// An element.
    At(Size),
}

/// The entries of `starts` or `limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds(pub Vec<Bound>);

impl Bounds {
    /// Bounds that are numbers; the greatest `i64` stands for the end.
    #[must_use]
    pub fn of_ints(bounds: &[i64]) -> Bounds {
        Bounds(bounds.iter().copied().map(Bound::of_int).collect())
    }
}

impl Bound {
    fn of_int(n: i64) -> Bound {
        match n {
            END => Bound::End,
            n => Bound::At(Size::constant(i128::from(n))),
        }
    }
}

impl AttrValue for Bounds {
    const KIND: &'static str = "a list of integers and sizes";
    fn from_attr(attr: &Attr) -> Option<Self> {
        let bound = |entry: &Attr| match entry {
            Attr::Str(text) => Some(Bound::At(Size::of_text(text))),
            other => other.as_int().map(Bound::of_int),
        };
        let bounds: Option<Vec<Bound>> = attr.as_array()?.iter().map(bound).collect();
        bounds.map(Bounds)
    }
    fn to_attr(&self) -> Attr {
        let entry = |bound: &Bound| match bound {
            Bound::End => Attr::int(END),
            Bound::At(size) => match size.as_constant() {
                Some(n) => Attr::int(i64::try_from(n).unwrap_or(END)),
                None => Attr::str(&size.to_text()),
            },
        };
        Attr::Array(self.0.iter().map(entry).collect())
    }
}

field_values!(Bounds);

/// A part by starts, limits and strides; shared by all operations that take one.
pub(crate) struct Cut<'a> {
    pub(crate) starts: &'a Bounds,
    pub(crate) limits: &'a Bounds,
    pub(crate) strides: Option<&'a [i64]>,
}

impl Cut<'_> {
    /// The parts of all dimensions.
    ///
    /// C1: one entry for each dimension in each list. C2: no stride is 0. C3: the bounds lie within the dimension.
    pub(crate) fn parts(&self, op: &OpRef<'_>) -> Result<Vec<SlicePart>, OpError> {
        let x = op.operand(0)?;
        let starts = bounds(op, "starts", self.starts, x.rank())?;
        let limits = bounds(op, "limits", self.limits, x.rank())?;
        let strides = per_axis(op, SLICE_C1, "strides", self.strides, x.rank(), 1)?;
        (0..x.rank())
            .map(|d| part(op, d, &x.dims[d], [&starts[d], &limits[d]], strides[d]))
            .collect()
    }

    pub(crate) fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let parts = self.parts(op)?;
        one(parts.into_iter().map(|p| p.size).collect(), x.dtype)
    }

    pub(crate) fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let parts = self.parts(call.op)?;
        let strides = row_major_strides(&x.shape);
        let step =
            |(p, &s): (&SlicePart, &usize)| (p.stride as isize).wrapping_mul(s.cast_signed());
        let steps = parts.iter().zip(&strides).map(step).collect();
        let mut start = 0isize;
        for (d, (part, &stride)) in parts.iter().zip(&strides).enumerate() {
            let first = call.number(&part.start)?;
            let count = call.shape()[d] as i64;
            let last = part
                .stride
                .checked_mul(count - 1)
                .and_then(|n| n.checked_add(first));
            let inside = |at: i64| 0 <= at && at < x.shape[d] as i64;
            if 0 < count && !(inside(first) && last.is_some_and(inside)) {
                return Err(EvalError::new(format!(
                    "the part of dimension {d} lies outside its {} elements",
                    x.shape[d]
                )));
            }
            start = start.wrapping_add((first as isize).wrapping_mul(stride.cast_signed()));
        }
        let offsets = Offsets::new(&call.shape(), steps, start);
        Ok(vec![x.picked(call.shape(), offsets)])
    }

    /// The result as a part of the operand; empty if the indices go down from the end of a dimension of unknown size.
    pub(crate) fn as_part(&self, op: &OpRef<'_>) -> Vec<Part> {
        let (Ok(parts), Ok(x)) = (self.parts(op), op.operand(0)) else {
            return Vec::new();
        };
        let along = |((d, part), dim): ((usize, &SlicePart), &Dim)| {
            if part.is_whole(dim) {
                return Some(Along::whole(d));
            }
            let from_the_end = part.stride < 0 && dim.fixed().is_none();
            (!from_the_end).then(|| Along {
                step: part.stride,
                ..Along::from(d, part.start.clone())
            })
        };
        let dims: Option<Vec<Along>> = parts.iter().enumerate().zip(&x.dims).map(along).collect();
        let part = |dims| Part {
            part: Port::Result(0),
            whole: Port::Operand(0),
            dims,
        };
        dims.into_iter().map(part).collect()
    }

    /// Element p of the result is element start + p * stride of the operand. A dimension whose start is no known number
    /// is needed whole.
    pub(crate) fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let x = op.operand(0)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&op.result(0)?.dims);
        domain.results[0] = IndexExpr::each(&ids);
        for ((part, dim), &id) in self.parts(op)?.iter().zip(&x.dims).zip(&ids) {
            if part.is_whole(dim) {
                domain.operands[0][id] = IndexExpr::of(id);
                continue;
            }
            domain.loops[id].role = Role::Axis;
            // True if the start is the last element of a dimension of unknown size.
            let down = part.stride < 0 && part.start == Size::default();
            let number = part.start.as_constant().filter(|_| !down);
            let start = number.and_then(|n| i64::try_from(n).ok());
            if start.is_none() {
                domain.along_uncut(id);
            }
            domain.operands[0][id] = IndexExpr::shifted(id, part.stride, start.unwrap_or(0));
        }
        Ok(domain)
    }
}

/// The bounds in the attribute `name`, one for each dimension.
fn bounds<'a>(
    op: &OpRef<'_>,
    name: &str,
    list: &'a Bounds,
    rank: usize,
) -> Result<&'a [Bound], OpError> {
    if list.0.len() == rank {
        return Ok(&list.0);
    }
    let found = list.0.len();
    let message = format!("{} has {found} entries in `{name}`, wanted {rank}", op.name);
    Err(OpError::new(SLICE_C1, message))
}

fn part(
    op: &OpRef<'_>,
    d: usize,
    dim: &Dim,
    bounds: [&Bound; 2],
    stride: i64,
) -> Result<SlicePart, OpError> {
    if stride == 0 {
        let message = format!(
            "{} has stride 0 in dimension {d}, wanted 1 or more or below 0",
            op.name
        );
        return Err(OpError::new(SLICE_C2, message));
    }
    let one = Size::constant(1);
    let n = dim.size();
    let at = |bound: &Bound, end: Option<Size>| match bound {
        Bound::End => end,
        Bound::At(size) => Some(size.clone()),
    };
    // The end as a start (with a negative stride) is the last element; as a limit it is one past the last element.
    let last = n.as_ref().and_then(|n| n.minus(&one));
    let [start, limit] = match (stride < 0, bounds[0], bounds[1]) {
        (true, Bound::End, Bound::End) | (false, Bound::End, _) | (true, _, Bound::End) => {
            return Err(outside(op, d, dim, bounds, stride));
        }
        (true, start, limit) => [at(start, last), at(limit, None)],
        (false, start, limit) => [at(start, None), at(limit, n.clone())],
    };
    if !may_fit(n.as_ref(), start.as_ref(), limit.as_ref(), stride) {
        return Err(outside(op, d, dim, bounds, stride));
    }
    let steps = || {
        let (start, limit) = (start.as_ref()?, limit.as_ref()?);
        let (from, to) = if stride < 0 {
            (limit, start)
        } else {
            (start, limit)
        };
        to.minus(from)?
            .quotient_up(&Size::from(stride.unsigned_abs()))
    };
    let size = steps().map_or(Dim::Unknown, |size| Dim::of_size(&size));
    let whole = stride < 0 && start.is_none() && limit == Some(Size::constant(-1)) && stride == -1
        || stride == 1 && limit.is_none() && start == Some(Size::default());
    let size = if whole { dim.clone() } else { size };
    let start = start.unwrap_or_default();
    Ok(SlicePart {
        start,
        stride,
        size,
    })
}

/// Returns whether the bounds may be valid as far as the sizes are known: `0 <= start <= limit <= n`, or
/// `-1 <= limit <= start < n` for a negative stride.
fn may_fit(n: Option<&Size>, start: Option<&Size>, limit: Option<&Size>, stride: i64) -> bool {
    // `a <= b + gap`, unless it is provably false.
    let at_most = |a: Option<&Size>, b: Option<&Size>, gap: i128| {
        let over = || a?.minus(b?)?.minus(&Size::constant(gap));
        over().is_none_or(|over| !over.is_at_least(1))
    };
    let (zero, below) = (Size::default(), Size::constant(-1));
    if stride < 0 {
        let empty = n.is_some_and(|n| n.as_constant() == Some(0))
            && start == Some(&below)
            && limit == Some(&below);
        let fits = at_most(Some(&below), limit, 0) && at_most(limit, start, 0);
        return empty || (fits && at_most(start, n, -1) && at_most(Some(&zero), start, 0));
    }
    at_most(Some(&zero), start, 0) && at_most(start, limit, 0) && at_most(limit, n, 0)
}

/// The error that C3 does not hold.
fn outside(op: &OpRef<'_>, d: usize, dim: &Dim, bounds: [&Bound; 2], stride: i64) -> OpError {
    let show = |bound: &Bound| match bound {
        Bound::End => "the end".to_owned(),
        Bound::At(size) => size.to_string(),
    };
    let wanted = if stride < 0 {
        "-1 <= limit <= start < size"
    } else {
        "0 <= start <= limit <= size"
    };
    let message = format!(
        "{} takes {} to {} by {stride} of dimension {d} of size {dim}, wanted {wanted}",
        op.name,
        show(bounds[0]),
        show(bounds[1])
    );
    OpError::new(SLICE_C3, message)
}

codes! {
    pub(crate) const CODES;

    SLICE_C1 = program(
        "`starts`, `limits` or `strides` does not have one entry a dimension",
        r#"%0 = "hbir.slice"(%x) <{starts = [0, 0], limits = [1, 1]}> : (tensor<4xf32>) -> tensor<1xf32>"#,
        "give each list one entry a dimension; 0 and the size take all of it",
    );
    SLICE_C2 = program(
        "a stride of `hbir.slice` is 0",
        r#"%0 = "hbir.slice"(%x) <{starts = [0], limits = [1], strides = [0]}> : (tensor<4xf32>) -> tensor<1xf32>"#,
        "step by 1 or more, or backwards by a negative number",
    );
    SLICE_C3 = program(
        "the bounds of a slice lie outside its operand, or run against the direction of the stride",
        r#"%0 = "hbir.slice"(%x) <{starts = [0], limits = [5]}> : (tensor<4xf32>) -> tensor<5xf32>"#,
        "keep starts and limits within 0 to the size; the limit itself is not taken",
    );
}
