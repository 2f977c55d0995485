//! `hbir.pad`: `low[d]` elements are added before dimension `d`, and `high[d]` after it (ONNX `Pad`, StableHLO `pad`
//! without interior padding).
//!
//! `mode` gives the values of the padding. `constant` is the number `value`; only in this mode an amount may be
//! negative, and then elements are cut off. `reflect` mirrors the elements at the first and the last one, `edge`
//! repeats the first and the last one, and `wrap` starts again at the other end.
//!
//! For example, `low = [1], high = [2]` turns `[a, b, c]` into `[0, a, b, c, 0, 0]` (constant), `[b, a, b, c, b, a]`
//! (reflect), `[a, a, b, c, c, c]` (edge) or `[c, a, b, c, a, b]` (wrap).

use crate::lists::per_axis;
use crate::prelude::*;
use crate::shape::{operand_bytes, result_bytes};
use optc_ir::field_values;
use optc_ir::op::AttrValue;
use optc_ir::tensor::Data;

words! {
    /// Values of the padding.
    pub enum PadMode {
        /// One number.
        Constant = "constant",
        /// The elements, mirrored at the first and the last one.
        Reflect = "reflect",
        /// The first and the last element.
        Edge = "edge",
        /// The elements from the other end, periodically.
        Wrap = "wrap",
    }
}

/// The number in constant padding; integers are kept exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadValue {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

impl PadValue {
    /// A tensor of one element that holds the number.
    #[must_use]
    pub fn element(self, dtype: DType) -> Tensor {
        match self {
            PadValue::Int(n) => Tensor::from_i64(dtype, vec![], [n]),
            PadValue::Float(x) => Tensor::from_f64(dtype, vec![], [x]),
        }
    }
}

impl AttrValue for PadValue {
    const KIND: &'static str = "a number";
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Int(n, _) => Some(PadValue::Int(*n)),
            Attr::Float(x, _) => Some(PadValue::Float(*x)),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        match *self {
            PadValue::Int(n) => Attr::int(n),
            PadValue::Float(x) => Attr::float(x),
        }
    }
}

field_values!(PadValue);

attributes! {
    /// Elements added around a tensor.
    pub struct Pad {
        /// The elements before each dimension; 0 when absent.
        low: Option<Vec<i64>>,
        /// The elements after each dimension; 0 when absent.
        high: Option<Vec<i64>>,
        /// Values of the padding.
        mode: PadMode [PAD_C2] = PadMode::Constant,
        /// The value of the padding in the mode `constant`.
        value: PadValue = PadValue::Int(0),
    }
}

/// The greatest amount of padding that is accepted.
const MAX_PAD: u64 = 1 << 40;

/// The elements added to each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PadAmounts {
    /// The elements added before each dimension.
    pub low: Vec<i64>,
    /// The elements added after each dimension.
    pub high: Vec<i64>,
}

impl Pad {
    /// The elements added to each dimension of the operand.
    ///
    /// # Errors
    /// C1: one amount for each dimension. C3: negative amounts only in the mode `constant`.
    pub fn amounts(&self, op: &OpRef<'_>) -> Result<PadAmounts, OpError> {
        let (rank, mode) = (op.operand(0)?.rank(), self.mode);
        let low = per_axis(op, PAD_C1, "low", self.low.as_deref(), rank, 0)?;
        let high = per_axis(op, PAD_C1, "high", self.high.as_deref(), rank, 0)?;
        if let Some(n) = low
            .iter()
            .chain(&high)
            .find(|n| mode != PadMode::Constant && **n < 0)
        {
            let message = format!("hbir.pad of mode {} by {n}, wanted 0 or more", mode.word());
            return Err(OpError::new(PAD_C3, message));
        }
        if let Some(n) = low.iter().chain(&high).find(|n| MAX_PAD < n.unsigned_abs()) {
            return Err(OpError::new(
                PAD_C1,
                format!("hbir.pad by {n}, wanted less than 2^40"),
            ));
        }
        Ok(PadAmounts { low, high })
    }
}

impl Operation for Pad {
    const NAME: &'static str = "hbir.pad";
    const SUMMARY: &'static str = "elements added around a tensor";
    const FAMILY: &'static str = "concat";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1, C3: see [`Pad::amounts`]. C2: a known mode. C4: no extent falls below 0. C5: a dimension that is padded has
    /// an element to repeat or wrap; to be mirrored it has more elements than the amount.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let pads = self.amounts(op)?;
        let mut dims = Vec::with_capacity(x.rank());
        for (d, dim) in x.dims.iter().enumerate() {
            let (low, high) = (pads.low[d], pads.high[d]);
            let Some(n) = dim.fixed() else {
                dims.push(computed(dim, |n| {
                    n.plus(&Size::constant(i128::from(low) + i128::from(high)))
                }));
                continue;
            };
            let grown = n
                .checked_add_signed(low)
                .and_then(|n| n.checked_add_signed(high));
            let grown = grown.ok_or_else(|| {
                let message = format!("hbir.pad by {low} and {high} of dimension {d} of size {n}");
                OpError::new(PAD_C4, message)
            })?;
            let least = match self.mode {
                PadMode::Constant => 0,
                PadMode::Reflect => low.max(high).unsigned_abs() + 1,
                PadMode::Edge | PadMode::Wrap => 1,
            };
            if n < least && (low, high) != (0, 0) {
                let message = format!(
                    "hbir.pad of mode {} by {low} and {high} of dimension {d} of size {n}, wanted \
                     {least} elements or more",
                    self.mode.word()
                );
                return Err(OpError::new(PAD_C5, message));
            }
            dims.push(Dim::Fixed(grown));
        }
        one(dims, x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, shape) = (call.input(0), call.shape());
        let pads = self.amounts(call.op)?;
        let strides = x.strides();
        let mut walk = Offsets::new(&shape, vec![0; shape.len()], 0);
        let n: usize = shape.iter().product();
        let mut places: Vec<Option<usize>> = Vec::with_capacity(n);
        for _ in 0..n {
            let place = walk
                .index()
                .iter()
                .enumerate()
                .try_fold(0, |sum, (d, &at)| {
                    Some(sum + source(at, pads.low[d], x.shape[d], self.mode)? * strides[d])
                });
            places.push(place);
            walk.next();
        }
        let fill = self.value.element(x.dtype);
        let data = match (&x.data, fill.data) {
            (Data::F32(v), Data::F32(f)) => Data::F32(pick(v, f[0], &places)),
            (Data::F64(v), Data::F64(f)) => Data::F64(pick(v, f[0], &places)),
            (Data::I64(v), Data::I64(f)) => Data::I64(pick(v, f[0], &places)),
            (Data::Bits(v), Data::Bits(f)) => Data::Bits(pick(v, f[0], &places)),
            (Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bits(_), _) => {
                return Err(EvalError::new(
                    "the operand holds another kind of data than its type",
                ));
            }
        };
        Ok(vec![Tensor {
            dtype: x.dtype,
            shape,
            data,
        }])
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let amounts = self.amounts(op).ok()?;
        let rank = axes.list().len();
        let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
        for dim in 0..amounts.low.len() {
            let wanted = (amounts.low[dim], amounts.high[dim]);
            if wanted == (0, 0) {
                continue;
            }
            let at = axes.label(0, dim).and_then(|l| axes.first(l))?;
            let by = i64::try_from(axes.list()[at].low).ok()?;
            // The first axis of a cut label is padded by blocks of `by` elements. This is right only for constant
            // padding: the other modes choose single elements.
            let whole = by == 1 || self.mode == PadMode::Constant;
            if !whole || wanted.0 % by != 0 || wanted.1 % by != 0 || !axes.has_equal_parts(at) {
                return None;
            }
            (low[at], high[at]) = (wanted.0 / by, wanted.1 / by);
        }
        let over = Pad {
            low: Some(low),
            high: Some(high),
            ..self.clone()
        };
        Some(axes.each_own(over.write()))
    }

    /// Element p of the result is element p - low of the operand. In the other modes than `constant`, padding may come
    /// from any element, so the dimension is needed whole.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let y = op.result(0)?;
        let pads = self.amounts(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        for (d, id) in domain.over(&y.dims).into_iter().enumerate() {
            let (low, high) = (pads.low[d], pads.high[d]);
            match self.mode {
                _ if (low, high) == (0, 0) => {}
                PadMode::Constant => domain.loops[id].role = Role::Axis,
                PadMode::Reflect | PadMode::Edge => domain.along_uncut(id),
                PadMode::Wrap => domain.along(id),
            }
            domain.results[0][d] = IndexExpr::of(id);
            domain.operands[0][d] = IndexExpr::shifted(id, 1, low.saturating_neg());
        }
        Ok(domain)
    }

    /// The operand is a part of the result, unless elements are cut off.
    fn parts(&self, op: &OpRef<'_>, _: &Known<'_>) -> Vec<Part> {
        let Ok(pads) = self.amounts(op) else {
            return Vec::new();
        };
        if pads.low.iter().chain(&pads.high).any(|&n| n < 0) {
            return Vec::new();
        }
        let start = |n: &i64| Size::constant(i128::from(*n));
        let along = |(d, low): (usize, &i64)| Along::from(d, start(low));
        vec![Part {
            part: Port::Operand(0),
            whole: Port::Result(0),
            dims: pads.low.iter().enumerate().map(along).collect(),
        }]
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        let w = result_bytes(op);
        let amounts = self.amounts(op).ok();
        let nothing = |a: &PadAmounts| a.low.iter().chain(&a.high).all(|&n| n == 0);
        match self.mode {
            _ if amounts.is_some_and(|a| nothing(&a)) => Traffic::None,
            PadMode::Constant => Traffic::Copy(operand_bytes(op, 0), w),
            // Elements in the padding are read again.
            PadMode::Reflect | PadMode::Edge | PadMode::Wrap => Traffic::Copy(w.clone(), w),
        }
    }
}

/// The index in the operand, along one dimension, of the element at position `at` of the result; `None` for constant
/// padding.
fn source(at: usize, low: i64, n: usize, mode: PadMode) -> Option<usize> {
    let (i, n) = (at as i64 - low, n as i64);
    let inside = (0..n).contains(&i);
    let j = match mode {
        _ if inside => i,
        PadMode::Reflect if i < 0 => -i,
        PadMode::Reflect => 2 * (n - 1) - i,
        PadMode::Edge => i.clamp(0, n - 1),
        PadMode::Wrap => i.rem_euclid(n),
        PadMode::Constant => return None,
    };
    usize::try_from(j).ok()
}

fn pick<T: Copy>(from: &[T], fill: T, places: &[Option<usize>]) -> Vec<T> {
    places.iter().map(|p| p.map_or(fill, |p| from[p])).collect()
}

codes! {
    const CODES;

    PAD_C1 = program(
        "`low` or `high` of `hbir.pad` does not have one amount a dimension",
        r#"%0 = "hbir.pad"(%x) <{low = [1, 1], high = [0]}> : (tensor<3xf32>) -> tensor<4xf32>"#,
        "give each list one entry a dimension of the operand",
    );
    PAD_C2 = program(
        "`mode` of `hbir.pad` is no known mode",
        r#"%0 = "hbir.pad"(%x) <{low = [1], high = [0], mode = "mirror"}> : (tensor<3xf32>) -> tensor<4xf32>"#,
        "use one of the modes that the message lists",
    );
    PAD_C3 = program(
        r#"an amount of `hbir.pad` is negative in a mode other than "constant""#,
        r#"%0 = "hbir.pad"(%x) <{low = [-1], high = [0], mode = "edge"}> : (tensor<3xf32>) -> tensor<2xf32>"#,
        "cut with `hbir.slice` first, then pad",
    );
    PAD_C4 = program(
        "negative amounts of `hbir.pad` cut off more than there is",
        r#"%0 = "hbir.pad"(%x) <{low = [-2], high = [-2]}> : (tensor<3xf32>) -> tensor<0xf32>"#,
        "cut at most the size of the dimension",
    );
    PAD_C5 = program(
        "`hbir.pad` mirrors, repeats or wraps more elements than the operand has",
        r#"%0 = "hbir.pad"(%x) <{low = [3], high = [0], mode = "reflect"}> : (tensor<3xf32>) -> tensor<6xf32>"#,
        r#""reflect" adds at most the size less 1; pad in several steps for more"#,
    );
}
