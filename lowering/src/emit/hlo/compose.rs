//! Operations that become several instructions: activations, reductions, softmax, norms, products.

use super::constant::number_text;
use super::func::{Outcome, Writer, list};
use super::ops::{one, shaped, sizes};
use super::shape::{dtype_name, tensor_text};
use optc_ir::{DType, Dim, OpData, Sign, TensorType};

/// The name of the result; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    if let Some(name) = activation(w, data, ty)? {
        return Ok(Some(name));
    }
    Ok(match &*data.name {
        "hbir.reduce" => reduce(w, data, ty)?,
        "hbir.softmax" => softmax(w, data, ty, false)?,
        "hbir.log_softmax" => softmax(w, data, ty, true)?,
        "hbir.layer_norm" | "hbir.rms_norm" => norm(w, data, ty)?,
        "hbir.matmul" => matmul(w, data, ty)?,
        "hbir.linear" => linear(w, data, ty)?,
        "hbir.mod" => modulo(w, data, ty)?,
        _ => None,
    })
}

/// Element-wise work in a value's own type.
struct Elementwise<'w, 'a, 't> {
    w: &'w mut Writer<'a>,
    ty: &'t TensorType,
}

impl Elementwise<'_, '_, '_> {
    fn number(&mut self, x: f64) -> Outcome<String> {
        self.w.filled(&number_text(x, self.ty.dtype), self.ty)
    }

    fn of(&mut self, opcode: &str, operands: &[&String]) -> Outcome<String> {
        let operands: Vec<String> = operands.iter().map(|s| (*s).clone()).collect();
        self.w.put(self.ty, opcode, &operands, "")
    }

    /// Whether `a` is below, equal, … to `b`.
    fn test(&mut self, direction: &str, a: &str, b: &str) -> Outcome<String> {
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

fn activation(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let known = [
        "hbir.atan",
        "hbir.reciprocal",
        "hbir.relu",
        "hbir.silu",
        "hbir.gelu",
        "hbir.clamp",
        "hbir.leaky_relu",
        "hbir.elu",
        "hbir.softplus",
        "hbir.softsign",
        "hbir.hard_swish",
        "hbir.hard_sigmoid",
        "hbir.is_nan",
        "hbir.is_inf",
        "hbir.prelu",
        "hbir.mish",
        "hbir.selu",
        "hbir.celu",
        "hbir.thresholded_relu",
    ];
    if !known.contains(&&*data.name) {
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
    let float = |name: &str, default: f64| data.props.float(name).unwrap_or(default);
    let mut e = Elementwise { w, ty: &own };
    Ok(Some(match &*data.name {
        "hbir.atan" => {
            let one = e.number(1.0)?;
            e.of("atan2", &[&x, &one])?
        }
        "hbir.reciprocal" => {
            let one = e.number(1.0)?;
            e.of("divide", &[&one, &x])?
        }
        "hbir.relu" => {
            let zero = e.number(0.0)?;
            e.of("maximum", &[&x, &zero])?
        }
        "hbir.silu" => {
            let gate = e.of("logistic", &[&x])?;
            e.of("multiply", &[&x, &gate])?
        }
        "hbir.gelu" => gelu(&mut e, &x, data.props.str("approximate") == Some("tanh"))?,
        "hbir.clamp" => {
            let mut y = x;
            for (bound, opcode) in [("min", "maximum"), ("max", "minimum")] {
                if let Some(limit) = data.props.float(bound) {
                    let limit = e.number(limit)?;
                    y = e.of(opcode, &[&y, &limit])?;
                }
            }
            if data.props.float("min").is_none() && data.props.float("max").is_none() {
                y = e.of("copy", &[&y])?;
            }
            y
        }
        "hbir.leaky_relu" => {
            let alpha = e.number(float("alpha", 0.01))?;
            let low = e.of("multiply", &[&alpha, &x])?;
            e.below_zero(&x, &low, &x)?
        }
        "hbir.elu" => {
            let low = exponential_below(&mut e, &x, 1.0, float("alpha", 1.0))?;
            e.below_zero(&x, &low, &x)?
        }
        "hbir.celu" => {
            let alpha = float("alpha", 1.0);
            let low = exponential_below(&mut e, &x, alpha, alpha)?;
            e.below_zero(&x, &low, &x)?
        }
        "hbir.selu" => {
            let low = exponential_below(&mut e, &x, 1.0, float("alpha", 1.673_263_192_176_818_8))?;
            let y = e.below_zero(&x, &low, &x)?;
            let gamma = e.number(float("gamma", 1.050_700_902_938_842_8))?;
            e.of("multiply", &[&gamma, &y])?
        }
        "hbir.thresholded_relu" => {
            let (alpha, zero) = (e.number(float("alpha", 1.0))?, e.number(0.0)?);
            let cond = e.test("LE", &x, &alpha)?;
            e.of("select", &[&cond, &zero, &x])?
        }
        "hbir.prelu" => {
            let slope = slope.unwrap_or_else(|| x.clone());
            let low = e.of("multiply", &[&slope, &x])?;
            e.below_zero(&x, &low, &x)?
        }
        "hbir.softplus" => softplus(&mut e, &x)?,
        "hbir.mish" => {
            let soft = softplus(&mut e, &x)?;
            let gate = e.of("tanh", &[&soft])?;
            e.of("multiply", &[&x, &gate])?
        }
        "hbir.softsign" => {
            let (one, size) = (e.number(1.0)?, e.of("abs", &[&x])?);
            let below = e.of("add", &[&one, &size])?;
            e.of("divide", &[&x, &below])?
        }
        "hbir.hard_swish" => {
            let gate = gate(&mut e, &x, 1.0 / 6.0, 0.5)?;
            e.of("multiply", &[&x, &gate])?
        }
        "hbir.hard_sigmoid" => gate(&mut e, &x, float("alpha", 0.2), float("beta", 0.5))?,
        "hbir.is_nan" => {
            let attrs = ", direction=NE";
            e.w.put(ty, "compare", &[x.clone(), x], attrs)?
        }
        _ => {
            let (size, infinite) = (e.of("abs", &[&x])?, e.number(f64::INFINITY)?);
            e.w.put(ty, "compare", &[size, infinite], ", direction=EQ")?
        }
    }))
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
    if data.props.flag("fmod") || unsigned {
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

/// The least and the greatest number of an element type, as text.
pub(super) fn limits(dtype: DType) -> (String, String) {
    match dtype {
        DType::Int {
            bits: 1,
            sign: Sign::Signless,
        } => ("false".into(), "true".into()),
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => ("0".into(), ((1u128 << bits) - 1).to_string()),
        DType::Int { bits, .. } => {
            let half = 1i128 << (bits - 1);
            ((-half).to_string(), (half - 1).to_string())
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => ("-inf".into(), "inf".into()),
        // Nothing computes with them, so that nothing asks.
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => ("-inf".into(), "inf".into()),
    }
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

fn reduce(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let from = w.tensor(data.operands[0])?.clone();
    let rank = from.rank();
    let axes = data
        .props
        .ints("axes")
        .unwrap_or_else(|| (0..rank as i64).collect());
    let mut axes: Vec<usize> = axes
        .into_iter()
        .filter_map(|a| usize::try_from(if a < 0 { a + rank as i64 } else { a }).ok())
        .collect();
    axes.sort_unstable();
    let (least, greatest) = limits(ty.dtype);
    let (none, all) = bits(ty.dtype);
    let kind = data.props.str("kind").unwrap_or("sum");
    let mut x = w.name(data.operands[0])?;
    let flat_input = from.without_layout();
    let mut on = |opcode: &str, operands: &[String]| w.put(&flat_input, opcode, operands, "");
    match kind {
        "l1" => x = on("abs", &[x])?,
        "l2" | "sum_square" => x = on("multiply", &[x.clone(), x])?,
        "log_sum_exp" => x = on("exponential", &[x])?,
        _ => {}
    }
    let step = match kind {
        "max" => ("maximum", least.as_str()),
        "min" => ("minimum", greatest.as_str()),
        "prod" => ("multiply", "1"),
        "and" => ("and", all.as_str()),
        "or" => ("or", none.as_str()),
        _ => ("add", "0"),
    };
    let kept: Vec<Dim> = (0..rank)
        .filter(|d| !axes.contains(d))
        .map(|d| from.dims[d].clone())
        .collect();
    let keeps = data.props.flag("keepdims");
    let flat = if keeps {
        TensorType::new(kept, ty.dtype)
    } else {
        ty.clone()
    };
    let mut y = reduced(w, &x, step, &axes, &flat)?;
    match kind {
        "mean" => {
            let count: Option<u64> = axes.iter().map(|&a| from.dims[a].fixed()).product();
            let Some(count) = count else { return Ok(None) };
            let mut e = Elementwise { w, ty: &flat };
            let count = e.number(count as f64)?;
            y = e.of("divide", &[&y, &count])?;
        }
        "l2" => y = w.put(&flat, "sqrt", &[y], "")?,
        "log_sum" | "log_sum_exp" => y = w.put(&flat, "log", &[y], "")?,
        _ => {}
    }
    if keeps {
        y = w.put(ty, "reshape", &[y], "")?;
    }
    Ok(Some(y))
}

fn softmax(
    w: &mut Writer<'_>,
    data: &OpData,
    ty: &TensorType,
    log: bool,
) -> Outcome<Option<String>> {
    let rank = ty.rank() as i64;
    let axis = data.props.int("axis").unwrap_or(-1);
    let Ok(axis) = usize::try_from(if axis < 0 { axis + rank } else { axis }) else {
        return Ok(None);
    };
    let x = w.name(data.operands[0])?;
    let others: Vec<usize> = (0..ty.rank()).filter(|&d| d != axis).collect();
    let flat = TensorType::new(
        others.iter().map(|&d| ty.dims[d].clone()).collect(),
        ty.dtype,
    );
    let back = format!(", dimensions={}", list(&others));
    let most = reduced(w, &x, ("maximum", "-inf"), &[axis], &flat)?;
    let most = w.put(ty, "broadcast", &[most], &back)?;
    let shifted = w.put(ty, "subtract", &[x, most], "")?;
    let powers = w.put(ty, "exponential", std::slice::from_ref(&shifted), "")?;
    let sum = reduced(w, &powers, ("add", "0"), &[axis], &flat)?;
    if log {
        let sum = w.put(&flat, "log", &[sum], "")?;
        let sum = w.put(ty, "broadcast", &[sum], &back)?;
        return w.put(ty, "subtract", &[shifted, sum], "").map(Some);
    }
    let sum = w.put(ty, "broadcast", &[sum], &back)?;
    w.put(ty, "divide", &[powers, sum], "").map(Some)
}

fn norm(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let (Some(shape), rank) = (sizes(ty), ty.rank() as i64) else {
        return Ok(None);
    };
    let axis = data.props.int("axis").unwrap_or(-1);
    let Ok(axis) = usize::try_from(if axis < 0 { axis + rank } else { axis }) else {
        return Ok(None);
    };
    let axes: Vec<usize> = (axis..shape.len()).collect();
    let others: Vec<usize> = (0..axis.min(shape.len())).collect();
    let count: u64 = axes.iter().map(|&a| shape[a]).product();
    // Sums of narrow floats are kept in singles.
    let wide = TensorType {
        dtype: if ty.dtype == DType::F64 {
            DType::F64
        } else {
            DType::F32
        },
        ..ty.without_layout()
    };
    let flat = shaped(&wide, &shape[..axis.min(shape.len())]);
    let back = format!(", dimensions={}", list(&others));
    let mut x = one(w, "convert", data.operands[0], &wide, "")?;
    let mean = |w: &mut Writer<'_>, x: &str| -> Outcome<String> {
        let sum = reduced(w, x, ("add", "0"), &axes, &flat)?;
        let mut e = Elementwise { w, ty: &flat };
        let count = e.number(count as f64)?;
        e.of("divide", &[&sum, &count])
    };
    if &*data.name == "hbir.layer_norm" {
        let average = mean(w, &x)?;
        let average = w.put(&wide, "broadcast", &[average], &back)?;
        x = w.put(&wide, "subtract", &[x, average], "")?;
    }
    let square = w.put(&wide, "multiply", &[x.clone(), x.clone()], "")?;
    let variance = mean(w, &square)?;
    let epsilon = data.props.float("epsilon").unwrap_or(1e-5);
    let mut e = Elementwise { w, ty: &flat };
    let epsilon = e.number(epsilon)?;
    let sum = e.of("add", &[&variance, &epsilon])?;
    let scale = e.of("rsqrt", &[&sum])?;
    let scale = w.put(&wide, "broadcast", &[scale], &back)?;
    let mut y = w.put(&wide, "multiply", &[x, scale], "")?;
    y = w.put(ty, "convert", &[y], "")?;
    for (&value, opcode) in data.operands[1..].iter().zip(["multiply", "add"]) {
        let operand = w.spread(value, ty)?;
        y = w.put(ty, opcode, &[y, operand], "")?;
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
