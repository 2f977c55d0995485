//! Operations that become several instructions: activations, reductions, products.

use super::func::{Outcome, Writer, list};
use super::number::{limits, number_text};
use super::shape::{dtype_name, tensor_text};
use optc_ir::op::Operation;
use optc_ir::{DType, Dim, OpData, Sign, TensorType};
use optc_ops::{
    Approximate, Atan, Celu, Clamp, Elu, Erfc, Gelu, HardSigmoid, HardSwish, IsInf, IsNan,
    LeakyRelu, Linear, Matmul, Mish, Mod, Prelu, Reciprocal, Reduce, ReduceKind, Relu, Selu, Silu,
    Softplus, Softsign, ThresholdedRelu,
};

/// The name of the result; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    if let Some(name) = activation(w, data, ty)? {
        return Ok(Some(name));
    }
    Ok(match &*data.name {
        Reduce::NAME => reduce(w, data, ty)?,
        Matmul::NAME => matmul(w, data, ty)?,
        Linear::NAME => linear(w, data, ty)?,
        Mod::NAME => modulo(w, data, ty)?,
        _ => None,
    })
}

/// Element-wise work in a value's own type.
pub(super) struct Elementwise<'w, 'a, 't> {
    pub(super) w: &'w mut Writer<'a>,
    pub(super) ty: &'t TensorType,
}

impl Elementwise<'_, '_, '_> {
    pub(super) fn number(&mut self, x: f64) -> Outcome<String> {
        self.w.filled(&number_text(x, self.ty.dtype), self.ty)
    }

    pub(super) fn of(&mut self, opcode: &str, operands: &[&String]) -> Outcome<String> {
        let operands: Vec<String> = operands.iter().map(|s| (*s).clone()).collect();
        self.w.put(self.ty, opcode, &operands, "")
    }

    /// Whether `a` is below, equal, … to `b`.
    pub(super) fn test(&mut self, direction: &str, a: &str, b: &str) -> Outcome<String> {
        let ty = TensorType {
            dtype: DType::BOOL,
            ..self.ty.without_layout()
        };
        let attrs = format!(", direction={direction}");
        self.w
            .put(&ty, "compare", &[a.to_owned(), b.to_owned()], &attrs)
    }

    /// `yes` where `x` is below 0, `no` elsewhere.
    fn below_zero(&mut self, x: &str, yes: &String, no: &String) -> Outcome<String> {
        let zero = self.number(0.0)?;
        let cond = self.test("LT", x, &zero)?;
        self.of("select", &[&cond, yes, no])
    }
}

/// Element-wise operations of several instructions.
const ACTIVATIONS: &[&str] = &[
    Atan::NAME,
    Celu::NAME,
    Clamp::NAME,
    Elu::NAME,
    Erfc::NAME,
    Gelu::NAME,
    HardSigmoid::NAME,
    HardSwish::NAME,
    IsInf::NAME,
    IsNan::NAME,
    LeakyRelu::NAME,
    Mish::NAME,
    Prelu::NAME,
    Reciprocal::NAME,
    Relu::NAME,
    Selu::NAME,
    Silu::NAME,
    Softplus::NAME,
    Softsign::NAME,
    ThresholdedRelu::NAME,
];

fn activation(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    if !ACTIVATIONS.contains(&&*data.name) {
        return Ok(None);
    }
    let x = w.name(data.operands[0])?;
    let from = w.tensor(data.operands[0])?.clone();
    let own = if from.dtype == ty.dtype {
        ty.clone()
    } else {
        from.without_layout()
    };
    let slope = match data.operands.get(1) {
        Some(&v) => Some(w.spread(v, ty)?),
        None => None,
    };
    let mut e = Elementwise { w, ty: &own };
    Ok(Some(match &*data.name {
        Prelu::NAME => {
            let slope = slope.unwrap_or_else(|| x.clone());
            let low = e.of("multiply", &[&slope, &x])?;
            e.below_zero(&x, &low, &x)?
        }
        IsNan::NAME => {
            let attrs = ", direction=NE";
            e.w.put(ty, "compare", &[x.clone(), x], attrs)?
        }
        IsInf::NAME => {
            let (size, infinite) = (e.of("abs", &[&x])?, e.number(f64::INFINITY)?);
            e.w.put(ty, "compare", &[size, infinite], ", direction=EQ")?
        }
        _ => match plain(&mut e, &data.name, &x)? {
            Some(y) => y,
            None => return with_parameters(&mut e, data, x),
        },
    }))
}

/// Activations without parameters.
fn plain(e: &mut Elementwise<'_, '_, '_>, name: &str, x: &String) -> Outcome<Option<String>> {
    Ok(Some(match name {
        Atan::NAME => {
            let one = e.number(1.0)?;
            e.of("atan2", &[x, &one])?
        }
        Reciprocal::NAME => {
            let one = e.number(1.0)?;
            e.of("divide", &[&one, x])?
        }
        Erfc::NAME if e.w.shared.mlir => e.of("chlo.erfc", &[x])?,
        Erfc::NAME => {
            let (one, erf) = (e.number(1.0)?, e.of("erf", &[x])?);
            e.of("subtract", &[&one, &erf])?
        }
        Relu::NAME => {
            let zero = e.number(0.0)?;
            e.of("maximum", &[x, &zero])?
        }
        Silu::NAME => {
            let gate = e.of("logistic", &[x])?;
            e.of("multiply", &[x, &gate])?
        }
        Softplus::NAME => softplus(e, x)?,
        Mish::NAME => {
            let soft = softplus(e, x)?;
            let gate = e.of("tanh", &[&soft])?;
            e.of("multiply", &[x, &gate])?
        }
        Softsign::NAME => {
            let (one, size) = (e.number(1.0)?, e.of("abs", &[x])?);
            let below = e.of("add", &[&one, &size])?;
            e.of("divide", &[x, &below])?
        }
        HardSwish::NAME => {
            let gate = gate(e, x, 1.0 / 6.0, 0.5)?;
            e.of("multiply", &[x, &gate])?
        }
        _ => return Ok(None),
    }))
}

/// Activations of numbers that their attributes have.
fn with_parameters(
    e: &mut Elementwise<'_, '_, '_>,
    data: &OpData,
    x: String,
) -> Outcome<Option<String>> {
    if let Some(bounds) = e.w.typed(data) {
        return clamp(e, &bounds, x).map(Some);
    }
    let y = if let Some(Gelu { approximate }) = e.w.typed(data) {
        gelu(e, &x, approximate == Approximate::Tanh)?
    } else if let Some(LeakyRelu { alpha }) = e.w.typed(data) {
        let alpha = e.number(alpha)?;
        let low = e.of("multiply", &[&alpha, &x])?;
        e.below_zero(&x, &low, &x)?
    } else if let Some(Elu { alpha }) = e.w.typed(data) {
        let low = exponential_below(e, &x, 1.0, alpha)?;
        e.below_zero(&x, &low, &x)?
    } else if let Some(Celu { alpha }) = e.w.typed(data) {
        let low = exponential_below(e, &x, alpha, alpha)?;
        e.below_zero(&x, &low, &x)?
    } else if let Some(Selu { alpha, gamma }) = e.w.typed(data) {
        let low = exponential_below(e, &x, 1.0, alpha)?;
        let y = e.below_zero(&x, &low, &x)?;
        let gamma = e.number(gamma)?;
        e.of("multiply", &[&gamma, &y])?
    } else if let Some(ThresholdedRelu { alpha }) = e.w.typed(data) {
        let (alpha, zero) = (e.number(alpha)?, e.number(0.0)?);
        let cond = e.test("LE", &x, &alpha)?;
        e.of("select", &[&cond, &zero, &x])?
    } else if let Some(HardSigmoid { alpha, beta }) = e.w.typed(data) {
        gate(e, &x, alpha, beta)?
    } else {
        return Ok(None);
    };
    Ok(Some(y))
}

fn clamp(e: &mut Elementwise<'_, '_, '_>, bounds: &Clamp, x: String) -> Outcome<String> {
    let mut y = x;
    if let Some(min) = bounds.min {
        let min = e.number(min)?;
        y = e.of("maximum", &[&y, &min])?;
    }
    if let Some(max) = bounds.max {
        let max = e.number(max)?;
        y = e.of("minimum", &[&y, &max])?;
    }
    if bounds.min.is_none() && bounds.max.is_none() {
        y = e.of("copy", &[&y])?;
    }
    Ok(y)
}

/// `scale * (e^(x / width) - 1)`.
fn exponential_below(
    e: &mut Elementwise<'_, '_, '_>,
    x: &String,
    width: f64,
    scale: f64,
) -> Outcome<String> {
    let width = e.number(width)?;
    let x = e.of("divide", &[x, &width])?;
    let y = e.of("exponential-minus-one", &[&x])?;
    let scale = e.number(scale)?;
    e.of("multiply", &[&scale, &y])
}

/// `max(0, min(1, alpha * x + beta))`.
fn gate(e: &mut Elementwise<'_, '_, '_>, x: &String, alpha: f64, beta: f64) -> Outcome<String> {
    let (alpha, beta) = (e.number(alpha)?, e.number(beta)?);
    let (zero, one) = (e.number(0.0)?, e.number(1.0)?);
    let y = e.of("multiply", &[&alpha, x])?;
    let y = e.of("add", &[&y, &beta])?;
    let y = e.of("minimum", &[&y, &one])?;
    e.of("maximum", &[&y, &zero])
}

/// `max(x, 0) + log(1 + e^-|x|)`.
fn softplus(e: &mut Elementwise<'_, '_, '_>, x: &String) -> Outcome<String> {
    let zero = e.number(0.0)?;
    let high = e.of("maximum", &[x, &zero])?;
    let size = e.of("abs", &[x])?;
    let size = e.of("negate", &[&size])?;
    let low = e.of("exponential", &[&size])?;
    let low = e.of("log-plus-one", &[&low])?;
    e.of("add", &[&high, &low])
}

fn gelu(e: &mut Elementwise<'_, '_, '_>, x: &String, tanh: bool) -> Outcome<String> {
    let inner = if tanh {
        let scale = e.number((2.0 / std::f64::consts::PI).sqrt())?;
        let cubic = e.number(0.044_715)?;
        let square = e.of("multiply", &[x, x])?;
        let cube = e.of("multiply", &[&square, x])?;
        let cube = e.of("multiply", &[&cubic, &cube])?;
        let sum = e.of("add", &[x, &cube])?;
        let sum = e.of("multiply", &[&scale, &sum])?;
        e.of("tanh", &[&sum])?
    } else {
        let root = e.number(std::f64::consts::SQRT_2)?;
        let ratio = e.of("divide", &[x, &root])?;
        e.of("erf", &[&ratio])?
    };
    let (one, half) = (e.number(1.0)?, e.number(0.5)?);
    let gate = e.of("add", &[&one, &inner])?;
    let scaled = e.of("multiply", &[&half, x])?;
    e.of("multiply", &[&scaled, &gate])
}

/// The remainder with the sign of the divisor, or with `fmod` of the dividend.
fn modulo(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let Some(Mod { fmod }) = w.typed(data) else {
        return Ok(None);
    };
    let (a, b) = (
        w.spread(data.operands[0], ty)?,
        w.spread(data.operands[1], ty)?,
    );
    let rest = w.put(ty, "remainder", &[a, b.clone()], "")?;
    let unsigned = matches!(
        ty.dtype,
        DType::Int {
            sign: Sign::Unsigned,
            ..
        }
    );
    if fmod || unsigned {
        return Ok(Some(rest));
    }
    let mut e = Elementwise { w, ty };
    let zero = e.number(0.0)?;
    let left = e.test("LT", &rest, &zero)?;
    let right = e.test("LT", &b, &zero)?;
    let some = e.test("NE", &rest, &zero)?;
    let test = TensorType {
        dtype: DType::BOOL,
        ..ty.without_layout()
    };
    let differ = e.w.put(&test, "xor", &[left, right], "")?;
    let differ = e.w.put(&test, "and", &[differ, some], "")?;
    let moved = e.of("add", &[&rest, &b])?;
    Ok(Some(e.of("select", &[&differ, &moved, &rest])?))
}

/// Elements along `axes` combined, from a first value.
pub(super) fn reduced(
    w: &mut Writer<'_>,
    x: &str,
    (opcode, init): (&str, &str),
    axes: &[usize],
    ty: &TensorType,
) -> Outcome<String> {
    let init = w.scalar(init, ty.dtype);
    let dtype = dtype_name(ty.dtype);
    let reducer = w.shared.reducer(opcode, &dtype);
    let attrs = format!(", dimensions={}, to_apply=%{reducer}", list(axes));
    w.put(ty, "reduce", &[x.to_owned(), init], &attrs)
}

/// No bit and every bit of an integer or truth type, as text.
fn bits(dtype: DType) -> (String, String) {
    match dtype {
        DType::Int {
            sign: Sign::Signed, ..
        } => ("0".into(), "-1".into()),
        DType::Int { bits: 1, .. } => ("false".into(), "true".into()),
        dtype => ("0".into(), limits(dtype).1),
    }
}

/// What is done to each element before a reduction adds it up.
fn before_reduction(
    w: &mut Writer<'_>,
    kind: ReduceKind,
    x: String,
    from: &TensorType,
) -> Outcome<String> {
    match kind {
        ReduceKind::L1 => w.put(from, "abs", &[x], ""),
        ReduceKind::L2 | ReduceKind::SumSquare => w.put(from, "multiply", &[x.clone(), x], ""),
        ReduceKind::LogSumExp => w.put(from, "exponential", &[x], ""),
        _ => Ok(x),
    }
}

/// The instruction that makes one of two, and what it begins with.
fn reduction_step(kind: ReduceKind, dtype: DType) -> (&'static str, String) {
    match kind {
        ReduceKind::Max => ("maximum", limits(dtype).0),
        ReduceKind::Min => ("minimum", limits(dtype).1),
        ReduceKind::Prod => ("multiply", "1".to_owned()),
        ReduceKind::And => ("and", bits(dtype).1),
        ReduceKind::Or => ("or", bits(dtype).0),
        ReduceKind::Sum
        | ReduceKind::Mean
        | ReduceKind::L1
        | ReduceKind::L2
        | ReduceKind::SumSquare
        | ReduceKind::LogSum
        | ReduceKind::LogSumExp => ("add", "0".to_owned()),
    }
}

fn reduce(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let from = w.tensor(data.operands[0])?.clone();
    let Some(about) = w.typed::<Reduce>(data) else {
        return Ok(None);
    };
    let Ok(mut axes) = about.reduced(&w.op_ref(data)) else {
        return Ok(None);
    };
    axes.sort_unstable();
    let kind = about.kind;
    let count: Option<u64> = axes.iter().map(|&a| from.dims[a].fixed()).product();
    if kind == ReduceKind::Mean && count.is_none() {
        return Ok(None);
    }
    let x = w.name(data.operands[0])?;
    let x = before_reduction(w, kind, x, &from.without_layout())?;
    let kept = (0..from.rank()).filter(|d| !axes.contains(d));
    let kept: Vec<Dim> = kept.map(|d| from.dims[d].clone()).collect();
    let flat = if about.keepdims {
        TensorType::new(kept, ty.dtype)
    } else {
        ty.clone()
    };
    let (opcode, init) = reduction_step(kind, ty.dtype);
    let mut y = reduced(w, &x, (opcode, &init), &axes, &flat)?;
    match kind {
        ReduceKind::Mean => {
            let mut e = Elementwise { w, ty: &flat };
            let count = e.number(count.unwrap_or(1) as f64)?;
            y = e.of("divide", &[&y, &count])?;
        }
        ReduceKind::L2 => y = w.put(&flat, "sqrt", &[y], "")?,
        ReduceKind::LogSum | ReduceKind::LogSumExp => y = w.put(&flat, "log", &[y], "")?,
        _ => {}
    }
    if about.keepdims {
        y = w.put(ty, "reshape", &[y], "")?;
    }
    Ok(Some(y))
}

/// numpy's product of operands of rank 2 or more, as a dot over broadcast batches.
fn matmul(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let (a, b) = (
        w.tensor(data.operands[0])?.clone(),
        w.tensor(data.operands[1])?.clone(),
    );
    if a.rank() < 2 || b.rank() < 2 {
        return Ok(None);
    }
    let rank = ty.rank();
    let mut names = Vec::with_capacity(2);
    // A right operand without batches needs none of its own.
    let shared = b.rank() == 2 && a.rank() == rank;
    for (i, x) in [&a, &b].into_iter().enumerate() {
        if shared {
            names.push(w.name(data.operands[i])?);
            continue;
        }
        let tail = &x.dims[x.rank() - 2..];
        let mut wanted = TensorType::new(ty.dims.clone(), x.dtype);
        wanted.dims[rank - 2..].clone_from_slice(tail);
        names.push(w.spread(data.operands[i], &wanted)?);
    }
    let batch: Vec<usize> = if shared {
        Vec::new()
    } else {
        (0..rank - 2).collect()
    };
    let mut attrs = String::new();
    for (side, contract) in [
        ("lhs", rank - 1),
        ("rhs", if shared { 0 } else { rank - 2 }),
    ] {
        if !batch.is_empty() {
            attrs.push_str(&format!(", {side}_batch_dims={}", list(&batch)));
        }
        attrs.push_str(&format!(", {side}_contracting_dims={{{contract}}}"));
    }
    w.put(ty, "dot", &names, &attrs).map(Some)
}

fn linear(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let names = [w.name(data.operands[0])?, w.name(data.operands[1])?];
    let last = w.tensor(data.operands[0])?.rank().saturating_sub(1);
    let attrs = format!(", lhs_contracting_dims={{{last}}}, rhs_contracting_dims={{1}}");
    let mut y = w.put(ty, "dot", &names, &attrs)?;
    if let Some(&bias) = data.operands.get(2) {
        let bias = w.spread(bias, ty)?;
        y = w.raw(&tensor_text(ty)?, "add", &[y, bias], "");
    }
    Ok(Some(y))
}
