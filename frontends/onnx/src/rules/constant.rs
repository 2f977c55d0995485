//! Operators that create constants.

use super::{Rule, decomposed, native};
use crate::builder::Stop;
use crate::codes;
use crate::entries::size_attr;
use crate::entries::{self, Entry};
use crate::node::{Done, NodeCx};
use crate::tensor;
use optc_ir::{DType, Dim, Size, Tensor, TensorType};
use optc_ops::{Add, Broadcast, Cast, Direction, Iota, Mul};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    decomposed("AffineGrid", affine_grid),
    decomposed("BlackmanWindow", |cx| window(cx, &[0.42, -0.5, 0.08])),
    native("Constant", constant),
    native("ConstantOfShape", constant_of_shape),
    decomposed("EyeLike", eye_like),
    decomposed("HammingWindow", |cx| {
        window(cx, &[25.0 / 46.0, -21.0 / 46.0])
    }),
    decomposed("HannWindow", |cx| window(cx, &[0.5, -0.5])),
    decomposed("Range", range),
];

/// A sum of cosines: term `k` is its coefficient times `cos(2 pi k i / n)`.
fn window(cx: &mut NodeCx<'_, '_>, terms: &[f64]) -> Done {
    cx.need(0)?;
    let size = cx.const_ints(0).and_then(|n| n.first().copied());
    let size = size.ok_or_else(|| Stop::opaque("its size is computed at run time"))?;
    let count = u64::try_from(size).unwrap_or(0);
    if !cx.file.spend(count) {
        return Err(Stop::opaque("it is too long to be computed at import"));
    }
    let code = i32::try_from(cx.int("output_datatype").unwrap_or(1)).unwrap_or(-1);
    let to =
        optc_onnx_proto::dtype(code).map_err(|found| Stop::opaque(format!("it makes {found}")))?;
    if !to.is_float() {
        return Err(Stop::opaque(format!("it makes {to}")));
    }
    let period = if cx.flag("periodic", true) {
        size
    } else {
        size - 1
    };
    let period = period.max(1) as f64;
    let term = |i: u64, k: usize| (std::f64::consts::TAU * (k as f64) * (i as f64) / period).cos();
    let value = |i: u64| {
        terms
            .iter()
            .enumerate()
            .map(|(k, c)| c * term(i, k))
            .sum::<f64>()
    };
    let values = Tensor::from_f64(to, vec![count as usize], (0..count).map(value));
    let value = cx.b.literal(values, cx.loc.clone());
    cx.set(0, value);
    Ok(())
}

/// `AffineGrid`: the positions of a regular grid, each with a 1 appended to its coordinates, times `theta`.
fn affine_grid(cx: &mut NodeCx<'_, '_>) -> Done {
    let theta = cx.need(0)?;
    cx.need(1)?;
    let size = cx.const_ints(1);
    let size = size.ok_or_else(|| Stop::opaque("its size is computed at run time"))?;
    let extents: Option<Vec<u64>> = size
        .iter()
        .skip(2)
        .map(|&n| u64::try_from(n).ok())
        .collect();
    let extents = extents.filter(|e| !e.is_empty());
    let extents =
        extents.ok_or_else(|| Stop::error(codes::CONSTANT_SHAPE, "its size is no shape"))?;
    let (rank, dtype) = (extents.len(), cx.dtype(theta)?);
    let points = extents.iter().try_fold(1u64, |a, &n| a.checked_mul(n));
    let elements = points.and_then(|p| p.checked_mul(rank as u64 + 1));
    let Some(points) = points.filter(|_| elements.is_some_and(|n| cx.file.spend(n))) else {
        return Err(Stop::opaque("it is too large to be computed at import"));
    };
    let align = cx.flag("align_corners", false);
    let coordinate = |i: u64, n: u64| {
        let (i, n) = (i as f64, n as f64);
        match align {
            true if n <= 1.0 => -1.0,
            true => 2.0 * i / (n - 1.0) - 1.0,
            false => (2.0 * i + 1.0) / n - 1.0,
        }
    };
    let mut values = Vec::with_capacity(points as usize * (rank + 1));
    for point in 0..points {
        let mut rest = point;
        // The last dimension belongs to the first coordinate.
        for &n in extents.iter().rev() {
            values.push(coordinate(rest % n, n));
            rest /= n;
        }
        values.push(1.0);
    }
    let base = Tensor::from_f64(dtype, vec![points as usize, rank + 1], values);
    let base = cx.b.literal(base, cx.loc.clone());
    let grid = cx.einsum("pk,nik->npi", &[base, theta])?;
    let mut shape = vec![size[0]];
    shape.extend(size.iter().skip(2));
    shape.push(rank as i64);
    let result = cx.reshape(grid, &shape)?;
    cx.set(0, result);
    Ok(())
}

fn constant(cx: &mut NodeCx<'_, '_>) -> Done {
    let sparse = cx.attr("sparse_value");
    let blob = match sparse.and_then(|a| a.sparse_tensor.as_ref()) {
        Some(wire) => Some(tensor::load_sparse(cx.file, wire, &cx.label())?),
        None => cx.tensor_attr("value")?,
    };
    if let Some(blob) = blob {
        let value = cx.b.constant(blob, cx.loc.clone());
        cx.set(0, value);
        return Ok(());
    }
    let literal = listed_constant(cx).ok_or_else(|| {
        let strings = cx
            .attr("value_string")
            .or(cx.attr("value_strings"))
            .is_some();
        if strings {
            return Stop::opaque("it holds strings");
        }
        Stop::error(codes::ATTRIBUTE_MISSING, "the constant has no value")
    })?;
    let value = cx.b.literal(literal, cx.loc.clone());
    cx.set(0, value);
    Ok(())
}

/// The constant of `value_int`, `value_ints`, `value_float` or `value_floats`.
fn listed_constant(cx: &NodeCx<'_, '_>) -> Option<Tensor> {
    if let Some(n) = cx.int("value_int") {
        return Some(Tensor::from_i64(DType::SI64, Vec::new(), [n]));
    }
    if let Some(list) = cx.ints("value_ints") {
        return Some(Tensor::from_i64(DType::SI64, vec![list.len()], list));
    }
    if let Some(x) = cx.attr("value_float").and_then(|a| a.f) {
        return Some(Tensor::from_f64(DType::F32, Vec::new(), [f64::from(x)]));
    }
    let list = &cx.attr("value_floats")?.floats;
    Some(Tensor::from_f64(
        DType::F32,
        vec![list.len()],
        list.iter().map(|&x| f64::from(x)),
    ))
}

fn constant_of_shape(cx: &mut NodeCx<'_, '_>) -> Done {
    cx.need(0)?;
    let zero = Tensor::from_f64(DType::F32, Vec::new(), [0.0]);
    let one = match cx.tensor_attr("value")? {
        None => zero,
        Some(blob) => {
            let t = blob.tensor(cx.file).filter(|t| t.len() == 1);
            t.ok_or_else(|| Stop::error(codes::TENSOR_SIZE_MISMATCH, "`value` wants one element"))?
        }
    };
    let one = one.reshaped(Vec::new());
    let sizes = cx
        .entries(0)
        .ok_or_else(|| Stop::opaque("its shape is computed at run time"))?;
    if entries::ints(&sizes).is_some_and(|n| n.iter().any(|&n| n < 0)) {
        return Err(Stop::error(
            codes::CONSTANT_SHAPE,
            format!("the shape {sizes:?} has a negative extent"),
        ));
    }
    if sizes.iter().any(Entry::is_unknown) {
        return Err(Stop::opaque("its shape is computed at run time"));
    }
    let ty = TensorType::new(sizes.iter().map(Entry::dim).collect(), one.dtype);
    let value = if ty.shape().is_some() {
        cx.b.splat(ty, one, cx.loc.clone())
    } else {
        let scalar = cx.b.literal(one, cx.loc.clone());
        let shape = Some(sizes.iter().map(size_attr).collect());
        cx.emit(&Broadcast { shape }, &[scalar])?
    };
    cx.set(0, value);
    Ok(())
}

/// `Range` of constants: `start + delta * iota`.
fn range(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dtype = cx.dtype(x)?;
    if let Some(sizes) = symbolic_range(cx) {
        return range_of_sizes(cx, dtype, &sizes);
    }
    let computed = || Stop::opaque("its bounds are computed at run time");
    let bound = |i| cx.tensor(i).filter(|t| t.len() == 1).ok_or_else(computed);
    let (start, limit, delta) = (bound(0)?, bound(1)?, bound(2)?);
    let count = if dtype.is_float() {
        let count = ((limit.f64_at(0) - start.f64_at(0)) / delta.f64_at(0)).ceil();
        (count.is_finite() && count < 4e18).then_some(count as i64)
    } else {
        int_count(start.i64_at(0), limit.i64_at(0), delta.i64_at(0))
    };
    let count =
        count.ok_or_else(|| Stop::error(codes::RANGE_BOUNDS, "the range has no finite length"))?;
    let count = u64::try_from(count).unwrap_or(0);
    if cx.file.spend(count) {
        let values = range_values(dtype, count as usize, &start, &delta);
        let value = cx.b.literal(values, cx.loc.clone());
        cx.set(0, value);
        return Ok(());
    }
    let ty = TensorType::fixed(&[count], dtype);
    let iota = cx.emit_typed(&Iota { axis: 0 }, &[], ty)?;
    let (start, delta) = (cx.need(0)?, cx.need(2)?);
    let scaled = cx.emit(&Mul {}, &[iota, delta])?;
    cx.finish(&Add {}, &[scaled, start])
}

/// Start, limit and a positive step, if some of them are unknown sizes.
fn symbolic_range(cx: &NodeCx<'_, '_>) -> Option<[Size; 3]> {
    let bound = |i| match &cx.entries(i)?[..] {
        [only] => only.size(),
        _ => None,
    };
    let sizes = [bound(0)?, bound(1)?, bound(2)?];
    let open = sizes.iter().any(|size| size.as_constant().is_none());
    (open && sizes[2].is_at_least(1)).then_some(sizes)
}

/// `Range` over unknown sizes: `start + delta * iota`. The number of elements is taken to be at least 0 if nothing else
/// is known.
fn range_of_sizes(cx: &mut NodeCx<'_, '_>, dtype: DType, sizes: &[Size; 3]) -> Done {
    let [start, limit, delta] = sizes;
    let span = limit.minus(start);
    let count = span.and_then(|span| span.quotient_up(delta));
    let count = count.and_then(|count| count.maximum(&Size::default()));
    let dim = count.map_or(Dim::Unknown, |count| Dim::of_size(&count));
    if dim == Dim::Unknown {
        return Err(Stop::opaque("its bounds are computed at run time"));
    }
    let ty = TensorType::new(vec![dim], dtype);
    let mut values = cx.emit_typed(&Iota { axis: 0 }, &[], ty)?;
    if delta.as_constant() != Some(1) {
        let delta = cx.need(2)?;
        values = cx.emit(&Mul {}, &[values, delta])?;
    }
    if start.as_constant() != Some(0) {
        let start = cx.need(0)?;
        values = cx.emit(&Add {}, &[values, start])?;
    }
    cx.set(0, values);
    Ok(())
}

fn int_count(start: i64, limit: i64, delta: i64) -> Option<i64> {
    let (span, delta) = (i128::from(limit) - i128::from(start), i128::from(delta));
    let (span, step) = if delta < 0 {
        (-span, -delta)
    } else {
        (span, delta)
    };
    let count = (span + step - 1).checked_div_euclid(step)?;
    i64::try_from(count.max(0)).ok()
}

fn range_values(dtype: DType, count: usize, start: &Tensor, delta: &Tensor) -> Tensor {
    if dtype.is_float() {
        let (start, delta) = (start.f64_at(0), delta.f64_at(0));
        return Tensor::from_f64(
            dtype,
            vec![count],
            (0..count).map(|i| start + delta * i as f64),
        );
    }
    let (start, delta) = (start.i64_at(0), delta.i64_at(0));
    let at = |i: usize| start.wrapping_add(delta.wrapping_mul(i as i64));
    Tensor::from_i64(dtype, vec![count], (0..count).map(at))
}

/// `EyeLike`: ones at the elements whose column is the row plus `k`.
fn eye_like(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let like = cx.ty(x)?;
    let code = cx
        .int("dtype")
        .map(|code| i32::try_from(code).unwrap_or(-1));
    let to = code.map_or(Ok(like.dtype), optc_onnx_proto::dtype);
    let to = to.map_err(|found| Stop::opaque(format!("it makes {found}")))?;
    if like.rank() != 2 || like.dims.contains(&Dim::Unknown) {
        return Err(Stop::opaque("its shape is computed at run time"));
    }
    let ty = TensorType::new(like.dims, DType::SI64);
    let row = cx.emit_typed(&Iota { axis: 0 }, &[], ty.clone())?;
    let column = cx.emit_typed(&Iota { axis: 1 }, &[], ty)?;
    let k = cx.scalar_like(cx.int("k").unwrap_or(0) as f64, row)?;
    let diagonal = cx.emit(&Add {}, &[row, k])?;
    let ones = cx.compare(Direction::Eq, column, diagonal)?;
    cx.finish(&Cast { to }, &[ones])
}

#[cfg(test)]
mod tests {
    use super::int_count;

    #[test]
    fn ranges_count_as_numpy_arange() {
        assert_eq!(int_count(0, 10, 3), Some(4));
        assert_eq!(int_count(0, 9, 3), Some(3));
        assert_eq!(int_count(10, 0, -3), Some(4));
        assert_eq!(int_count(9, 0, -3), Some(3));
        assert_eq!(int_count(5, 0, 1), Some(0));
        assert_eq!(int_count(0, 5, 0), None);
        assert_eq!(int_count(i64::MIN, i64::MAX, 1), None);
    }
}
