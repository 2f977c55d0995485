//! Operations on positions of elements: gathers and scatters by coordinates, arg-min and arg-max, one-hot, triangular
//! masks, sorting.
//!
//! Example: `gather_elements` along axis 0 of a matrix is a `gather` by full coordinates. The first coordinate of an
//! element is its index, the second one an `iota` along dimension 1.

use super::compose::reduced;
use super::custom::custom_call;
use super::elementwise::Elementwise;
use super::func::{Outcome, Writer, list};
use super::index::is_bounded;
use super::number::{is_unsigned, limits};
use super::shape::{dtype_name, shaped, sizes, tensor_text};
use crate::unwritten::{Form, Unwritten, known};
use optc_ir::op::Operation;
use optc_ir::{DType, Op, OpData, TensorType, Value};
use optc_ops::{
    ArgMax, ArgMin, GatherElements, GatherNd, OneHot, ScatterElements, ScatterNd, ScatterReduction,
    TopK, Trilu,
};

/// Writes one of these operations and returns the name of the result. Any other operation has no form here.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    match &*data.name {
        ArgMax::NAME => {
            let typed = w.typed::<ArgMax>(data)?;
            let axis = typed.along(&w.op_ref(data))?;
            arg(w, data, ty, (axis, typed.select_last_index, true))
        }
        ArgMin::NAME => {
            let typed = w.typed::<ArgMin>(data)?;
            let axis = typed.along(&w.op_ref(data))?;
            arg(w, data, ty, (axis, typed.select_last_index, false))
        }
        GatherElements::NAME => gather_elements(w, data, ty),
        GatherNd::NAME => gather_nd(w, data, ty),
        OneHot::NAME => one_hot(w, data, ty),
        ScatterElements::NAME => scatter_elements(w, data, ty),
        ScatterNd::NAME => scatter_nd(w, data, ty),
        Trilu::NAME => trilu(w, data, ty),
        _ => Err(Unwritten::NoForm),
    }
}

/// The integer type for arithmetic on indices: their own type if it has at least 32 bits.
fn index_type(dtype: DType) -> DType {
    match dtype {
        DType::Int { bits, .. } if 32 <= bits => dtype,
        _ => DType::SI32,
    }
}

/// Indices in the type that they are computed in, those below 0 counted from the end of a dimension: the
/// extents are one for all, or one for each element of the last dimension.
fn from_the_start(
    w: &mut Writer<'_>,
    value: Value,
    extents: &[u64],
) -> Outcome<(String, TensorType)> {
    let given = w.tensor(value)?.clone();
    let ty = TensorType {
        dtype: index_type(given.dtype),
        ..given.without_layout()
    };
    let mut name = w.name(value)?;
    if ty.dtype != given.dtype {
        name = w.put(&ty, "convert", &[name], "")?;
    }
    if is_unsigned(given.dtype) || is_bounded(w, value) {
        return Ok((name, ty));
    }
    let sizes = match extents {
        [n] => w.filled(&n.to_string(), &ty)?,
        several => {
            let row = shaped(&ty, &[several.len() as u64]);
            let text = format!("{{{}}}", numbers(several));
            let row = w.payload(&tensor_text(&row)?, "constant", &text, "");
            let attrs = format!(", dimensions={{{}}}", ty.rank().saturating_sub(1));
            w.put(&ty, "broadcast", &[row], &attrs)?
        }
    };
    let mut e = Elementwise { w, ty: &ty };
    let zero = e.number(0.0)?;
    let below = e.test("LT", &name, &zero)?;
    let moved = e.of("add", &[&name, &sizes])?;
    let name = e.of("select", &[&below, &moved, &name])?;
    Ok((name, ty))
}

fn numbers(list: &[u64]) -> String {
    let texts: Vec<String> = list.iter().map(u64::to_string).collect();
    texts.join(", ")
}

/// Concatenates coordinates along a new last dimension.
fn coordinates(
    w: &mut Writer<'_>,
    parts: &[String],
    shape: &[u64],
    like: &TensorType,
) -> Outcome<String> {
    let [only] = parts else {
        let ty = shaped(like, &[shape, &[parts.len() as u64]].concat());
        let attrs = format!(", dimensions={{{}}}", shape.len());
        return w.put(&ty, "concatenate", parts, &attrs);
    };
    Ok(only.clone())
}

/// The full coordinates for a tensor of indices along `axis`: the position of the index itself, with the coordinate
/// along `axis` replaced by the index.
fn element_places(w: &mut Writer<'_>, indices: Value, axis: usize, extent: u64) -> Form<String> {
    let shape = known(sizes(w.tensor(indices)?))?;
    let (name, ty) = from_the_start(w, indices, &[extent])?;
    let column = shaped(&ty, &[&shape[..], &[1]].concat());
    let mut parts = Vec::with_capacity(shape.len());
    for d in 0..shape.len() {
        parts.push(if d == axis {
            w.put(&column, "reshape", std::slice::from_ref(&name), "")?
        } else {
            let attrs = format!(", iota_dimension={d}");
            w.payload(&tensor_text(&column)?, "iota", "", &attrs)
        });
    }
    Ok(coordinates(w, &parts, &shape, &ty)?)
}

fn gather_elements(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let from = known(sizes(w.tensor(data.operands[0])?))?;
    let axis = w.typed::<GatherElements>(data)?.along(&w.op_ref(data))?;
    let places = element_places(w, data.operands[1], axis, from[axis])?;
    let all: Vec<usize> = (0..from.len()).collect();
    let attrs = format!(
        ", offset_dims={{}}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim={1}, \
         slice_sizes={2}",
        list(&all),
        from.len(),
        list(&vec![1; from.len()])
    );
    let x = w.name(data.operands[0])?;
    Ok(w.put(ty, "gather", &[x, places], &attrs)?)
}

fn gather_nd(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let (x, indices) = (data.operands[0], data.operands[1]);
    let mut slices = known(sizes(w.tensor(x)?))?;
    let given = known(sizes(w.tensor(indices)?))?;
    let (batch, depth) = w.typed::<GatherNd>(data)?.extents(&w.op_ref(data))?;
    let lead = given.len() - 1;
    let all = batch + depth;
    let name = w.name(x)?;
    if all == 0 {
        let dims: Vec<usize> = (lead..ty.rank()).collect();
        let attrs = format!(", dimensions={}", list(&dims));
        return Ok(w.put(ty, "broadcast", &[name], &attrs)?);
    }
    let column = [&given[..lead], &[1]].concat();
    let mut parts = Vec::with_capacity(batch + 1);
    let mut own = TensorType {
        dtype: index_type(w.tensor(indices)?.dtype),
        ..w.tensor(indices)?.without_layout()
    };
    for d in 0..batch {
        let ty = tensor_text(&shaped(&own, &column))?;
        parts.push(w.payload(&ty, "iota", "", &format!(", iota_dimension={d}")));
    }
    if depth != 0 {
        let (name, ty) = from_the_start(w, indices, &slices[batch..all])?;
        parts.push(name);
        own = ty;
    }
    let places = if let [only] = &parts[..] {
        only.clone()
    } else {
        let whole = shaped(&own, &[&given[..lead], &[all as u64]].concat());
        w.put(
            &whole,
            "concatenate",
            &parts,
            &format!(", dimensions={{{lead}}}"),
        )?
    };
    slices[..all].fill(1);
    let offsets: Vec<usize> = (lead..ty.rank()).collect();
    let mapped: Vec<usize> = (0..all).collect();
    let attrs = format!(
        ", offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim={lead}, \
         slice_sizes={2}",
        list(&offsets),
        list(&mapped),
        list(&slices)
    );
    Ok(w.put(ty, "gather", &[name, places], &attrs)?)
}

/// The computation of a scatter, which combines an element with an update.
fn update(w: &mut Writer<'_>, reduction: ScatterReduction, dtype: DType) -> String {
    let dtype = dtype_name(dtype);
    match reduction {
        ScatterReduction::None => w.shared.second(&dtype),
        ScatterReduction::Add => w.shared.reducer("add", &dtype),
        ScatterReduction::Mul => w.shared.reducer("multiply", &dtype),
        ScatterReduction::Max => w.shared.reducer("maximum", &dtype),
        ScatterReduction::Min => w.shared.reducer("minimum", &dtype),
    }
}

fn scatter_elements(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let (typed, shape) = (w.typed::<ScatterElements>(data)?, known(sizes(ty))?);
    let axis = typed.along(&w.op_ref(data))?;
    let places = element_places(w, data.operands[1], axis, shape[axis])?;
    let all: Vec<usize> = (0..shape.len()).collect();
    let reducer = update(w, typed.reduction, ty.dtype);
    let attrs = format!(
        ", update_window_dims={{}}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, \
         index_vector_dim={1}, to_apply=%{reducer}",
        list(&all),
        shape.len()
    );
    let operands = [w.name(data.operands[0])?, places, w.name(data.operands[2])?];
    Ok(w.put(ty, "scatter", &operands, &attrs)?)
}

fn scatter_nd(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let given = known(sizes(w.tensor(data.operands[1])?))?;
    let updates = w.tensor(data.operands[2])?.rank();
    let (shape, typed) = (known(sizes(ty))?, w.typed::<ScatterNd>(data)?);
    let lead = given.len() - 1;
    let depth = usize::try_from(given[lead]).unwrap_or(0);
    if depth == 0 || shape.len() < depth {
        return Err(Unwritten::NoForm);
    }
    let places = match typed.drop_outside {
        true => w.name(data.operands[1])?,
        false => from_the_start(w, data.operands[1], &shape[..depth])?.0,
    };
    let window: Vec<usize> = (lead..updates).collect();
    let mapped: Vec<usize> = (0..depth).collect();
    let reducer = update(w, typed.reduction, ty.dtype);
    let attrs = format!(
        ", update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, \
         index_vector_dim={lead}, to_apply=%{reducer}",
        list(&window),
        list(&mapped)
    );
    let operands = [w.name(data.operands[0])?, places, w.name(data.operands[2])?];
    Ok(w.put(ty, "scatter", &operands, &attrs)?)
}

/// The smallest or the largest position of the extreme element along an axis; NaN counts as extreme.
fn arg(
    w: &mut Writer<'_>,
    data: &OpData,
    ty: &TensorType,
    (axis, last, greatest): (usize, bool, bool),
) -> Form<String> {
    let from = w.tensor(data.operands[0])?.without_layout();
    let shape = known(sizes(&from))?;
    let x = w.name(data.operands[0])?;
    let others: Vec<usize> = (0..shape.len()).filter(|&d| d != axis).collect();
    let kept: Vec<u64> = others.iter().map(|&d| shape[d]).collect();
    let back = format!(", dimensions={}", list(&others));
    let (low, high) = limits(from.dtype);
    let step = if greatest {
        ("maximum", low)
    } else {
        ("minimum", high)
    };
    let flat = shaped(&from, &kept);
    let most = reduced(w, &x, (step.0, &step.1), &[axis], &flat)?;
    let most = w.put(&from, "broadcast", &[most], &back)?;
    let mut e = Elementwise { w, ty: &from };
    let mut hit = e.test("EQ", &x, &most)?;
    if from.dtype.is_float() {
        let odd = e.test("NE", &x, &x)?;
        let test = TensorType {
            dtype: DType::BOOL,
            ..from.clone()
        };
        hit = w.put(&test, "or", &[hit, odd], "")?;
    }
    let own = TensorType {
        dtype: ty.dtype,
        ..from.clone()
    };
    let places = format!(", iota_dimension={axis}");
    let places = w.payload(&tensor_text(&own)?, "iota", "", &places);
    let (low, high) = limits(ty.dtype);
    let (opcode, none) = if last {
        ("maximum", low)
    } else {
        ("minimum", high)
    };
    let other = w.filled(&none, &own)?;
    let places = w.put(&own, "select", &[hit, places, other], "")?;
    if ty.rank() < shape.len() {
        return Ok(reduced(w, &places, (opcode, &none), &[axis], ty)?);
    }
    let flat = shaped(ty, &kept);
    let found = reduced(w, &places, (opcode, &none), &[axis], &flat)?;
    Ok(w.put(ty, "reshape", &[found], "")?)
}

fn one_hot(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let shape = known(sizes(ty))?;
    let axis = w.typed::<OneHot>(data)?.along(&w.op_ref(data))?;
    let (places, own) = from_the_start(w, data.operands[0], &[shape[axis]])?;
    let whole = TensorType {
        dtype: own.dtype,
        ..ty.without_layout()
    };
    let dims: Vec<usize> = (0..shape.len()).filter(|&d| d != axis).collect();
    let attrs = format!(", dimensions={}", list(&dims));
    let places = w.put(&whole, "broadcast", &[places], &attrs)?;
    let attrs = format!(", iota_dimension={axis}");
    let count = w.payload(&tensor_text(&whole)?, "iota", "", &attrs);
    let marked = Elementwise { w, ty: &whole }.test("EQ", &places, &count)?;
    let Some(&values) = data.operands.get(1) else {
        return Ok(w.put(ty, "convert", &[marked], "")?);
    };
    let mut end = |i: usize| {
        let (one, scalar) = (shaped(ty, &[1]), shaped(ty, &[]));
        let attrs = format!(", slice={{[{i}:{}]}}", i + 1);
        let end = w.one("slice", values, &one, &attrs)?;
        let end = w.put(&scalar, "reshape", &[end], "")?;
        w.put(ty, "broadcast", &[end], ", dimensions={}")
    };
    let (off, on) = (end(0)?, end(1)?);
    Ok(w.put(ty, "select", &[marked, on, off], "")?)
}

fn trilu(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let (Trilu { k, upper }, shape) = (w.typed(data)?, known(sizes(ty))?);
    let &[.., rows, columns] = &shape[..] else {
        return Err(Unwritten::NoForm);
    };
    // Clamped: for offsets beyond these bounds all elements are on one side of the diagonal.
    let rows = known(i64::try_from(rows).ok())?;
    let columns = known(i64::try_from(columns).ok())?;
    let k = k.clamp(-rows, columns);
    let fits = i32::try_from(rows.saturating_add(columns)).is_ok();
    let own = TensorType {
        dtype: if fits { DType::SI32 } else { DType::SI64 },
        ..ty.without_layout()
    };
    let mut places = Vec::with_capacity(2);
    for d in [shape.len() - 2, shape.len() - 1] {
        let attrs = format!(", iota_dimension={d}");
        places.push(w.payload(&tensor_text(&own)?, "iota", "", &attrs));
    }
    let x = w.name(data.operands[0])?;
    let moved = w.filled(&k.to_string(), &own)?;
    let mut e = Elementwise { w, ty: &own };
    let diagonal = e.of("add", &[&places[0], &moved])?;
    let stays = e.test(if upper { "LE" } else { "GE" }, &diagonal, &places[1])?;
    let zero = Elementwise { w, ty }.number(0.0)?;
    Ok(w.put(ty, "select", &[stays, x, zero], "")?)
}

/// The first elements of a sorted line, and their positions; the sort is stable.
pub(super) fn top_k(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    let typed = w.typed::<TopK>(data).ok();
    let about = typed.and_then(|top| Some((top.along(&w.op_ref(data)).ok()?, top.largest)));
    let from = w.tensor(data.operands[0])?.without_layout();
    let (Some((axis, largest)), Some(shape)) = (about, sizes(&from)) else {
        return custom_call(w, op);
    };
    let numbers = TensorType {
        dtype: w.tensor(data.results[1])?.dtype,
        ..from.clone()
    };
    let x = w.name(data.operands[0])?;
    let texts = [tensor_text(&from)?, tensor_text(&numbers)?];
    let places = format!(", iota_dimension={axis}");
    let places = w.payload(&texts[1], "iota", "", &places);
    let before = w.shared.before(from.dtype, numbers.dtype, largest);
    let attrs = format!(", dimensions={{{axis}}}, is_stable=true, to_apply=%{before}");
    let whole = format!("({})", texts.join(", "));
    let sorted = w.raw(&whole, "sort", &[x, places], &attrs);
    for (i, &result) in data.results.iter().enumerate() {
        let ty = w.tensor(result)?.clone();
        let attrs = format!(", index={i}");
        let part = w.raw(
            &texts[i],
            "get-tuple-element",
            std::slice::from_ref(&sorted),
            &attrs,
        );
        let part = match sizes(&ty) {
            Some(taken) if taken != shape => {
                let ranges: Vec<String> = taken.iter().map(|n| format!("[0:{n}]")).collect();
                let attrs = format!(", slice={{{}}}", ranges.join(", "));
                w.put(&ty, "slice", &[part], &attrs)?
            }
            _ => w.put(&ty, "copy", &[part], "")?,
        };
        w.called(result, part);
    }
    Ok(())
}
