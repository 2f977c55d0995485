//! Pooling over N C spatial… operands (ONNX `MaxPool`, `AveragePool`).
//!
//! `hbir.max_pool`: the greatest element of each window, padding left out. `hbir.avg_pool`: the mean
//! of each window; padding counts as zeros with `count_include_pad`, otherwise not at all. With
//! `ceil_mode` a last window may reach beyond the padding; what lies there never counts.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{flag_or, one, show, wants_float};
use crate::ops::window::{Slide, sizes, slides, spatial_dims, three};
use crate::tensor::{EvalError, Tensor};
use crate::tile::{Access, Index, LoopKind};

const MAX_POOL: Decl = Decl::new(
    "hbir.max_pool",
    "pool",
    "the greatest element of each window",
    (1, 1),
    infer,
    eval_max,
)
.freedom(freedom)
.access(access);

const AVG_POOL: Decl = Decl::new(
    "hbir.avg_pool",
    "pool",
    "the mean of each window",
    (1, 1),
    infer,
    eval_avg,
)
.freedom(freedom)
.access(access);

/// C1: rank 3 to 5. C2: `kernel`, `strides`, `dilations` and `pads` are sizes, one a spatial
/// dimension.
fn windows(op: &OpRef<'_>) -> Result<Vec<Slide>, OpError> {
    let x = op.operand(0)?;
    if !(3..=5).contains(&x.rank()) {
        let message = format!("{} of {}, wanted rank 3 to 5", op.name, show(&x.dims));
        return Err(OpError::new("pool-c1", message));
    }
    op.attr("kernel")?;
    let kernel = sizes(op, "pool-c2", "kernel", x.rank() - 2, 1)?;
    let kernel: Vec<u64> = kernel.into_iter().map(|k| k as u64).collect();
    slides(op, "pool-c2", &kernel)
}

/// C3: the windows fit. C4: avg_pool is of floats. C5: max_pool is of numbers.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    if op.name == "hbir.avg_pool" {
        wants_float(op, "pool-c4", 0)?;
    } else if x.dtype.is_bool() {
        return Err(OpError::new(
            "pool-c5",
            "hbir.max_pool of i1, wanted numbers",
        ));
    }
    let slides = windows(op)?;
    let ceil = flag_or(op, "ceil_mode", false)?;
    flag_or(op, "count_include_pad", false)?;
    let spatial = spatial_dims(op, "pool-c3", &x.dims[2..], &slides, ceil)?;
    one([x.dims[..2].to_vec(), spatial].concat(), x.dtype)
}

/// Calls `window` with the elements of each window and with how many positions of it lie on
/// elements or on declared padding, in the result's order.
fn each_window(call: &Call<'_>, mut window: impl FnMut(&[usize], usize)) -> Result<(), EvalError> {
    let slides = three(
        &windows(call.op).map_err(|e| EvalError::new(e.message))?,
        Slide::POINT,
    );
    let (x_shape, y_shape) = (&call.input(0).shape, call.shape());
    let (x, y) = (three(&x_shape[2..], 1), three(&y_shape[2..], 1));
    let plane: usize = x.iter().product();
    let mut found = Vec::new();
    for channel in 0..x_shape[0] * x_shape[1] {
        for at in 0..y.iter().product() {
            let index = [at / (y[1] * y[2]), at / y[2] % y[1], at % y[2]];
            found.clear();
            gather_window(&slides, x, index, channel * plane, &mut found);
            let declared = (0..3)
                .map(|d| declared(&slides[d], index[d], x[d]))
                .product();
            window(&found, declared);
        }
    }
    Ok(())
}

fn gather_window(
    slides: &[Slide; 3],
    x: [usize; 3],
    at: [usize; 3],
    base: usize,
    found: &mut Vec<usize>,
) {
    let place = |d: usize, k: usize| slides[d].element(at[d], k, x[d]);
    for j0 in (0..slides[0].kernel).filter_map(|k| place(0, k)) {
        for j1 in (0..slides[1].kernel).filter_map(|k| place(1, k)) {
            for j2 in (0..slides[2].kernel).filter_map(|k| place(2, k)) {
                found.push(base + (j0 * x[1] + j1) * x[2] + j2);
            }
        }
    }
}

/// Positions of one dimension of a window that lie on elements or on declared padding.
fn declared(slide: &Slide, at: usize, n: usize) -> usize {
    let end = slide.low + n + slide.high;
    (0..slide.kernel)
        .filter(|k| at * slide.stride + k * slide.dilation < end)
        .count()
}

fn eval_max(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    if x.dtype.is_float() {
        let mut out = Vec::new();
        each_window(call, |window, _| {
            let greatest = |a: f64, b: f64| if a.is_nan() || b < a { a } else { b };
            out.push(
                window
                    .iter()
                    .map(|&i| x.f64_at(i))
                    .fold(f64::NEG_INFINITY, greatest),
            );
        })?;
        return Ok(call.floats(out));
    }
    let (low, _) = crate::ops::cast::int_range(x.dtype);
    let mut out = Vec::new();
    each_window(call, |window, _| {
        out.push(window.iter().map(|&i| x.i128_at(i)).fold(low, i128::max));
    })?;
    Ok(call.integers(out))
}

#[expect(clippy::cast_precision_loss, reason = "a window has few elements")]
fn eval_avg(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let with_pads = flag_or(call.op, "count_include_pad", false) == Ok(true);
    let mut out = Vec::new();
    each_window(call, |window, declared| {
        let sum: f64 = window.iter().map(|&i| x.f64_at(i)).sum();
        let count = if with_pads { declared } else { window.len() };
        out.push(sum / count as f64);
    })?;
    Ok(call.floats(out))
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Window, |f| {
        let mut labels = vec![f.fresh(Role::Batch), f.fresh(Role::Channel)];
        for slide in windows(op)? {
            let spatial = f.fresh(Role::Spatial);
            if slide != Slide::POINT {
                f.uncut(spatial);
            }
            labels.push(spatial);
        }
        f.operand(marks(&labels));
        f.result(marks(&labels));
        Ok(())
    })
}

/// Windows slide over the spatial dimensions.
fn access(op: &OpRef<'_>) -> Result<Access, OpError> {
    let y = op.result(0)?;
    let slides = windows(op)?;
    let mut access = Access::whole(op);
    for (d, dim) in y.dims.iter().enumerate() {
        let id = access.add(dim.fixed().unwrap_or(0), LoopKind::Parallel);
        access.results[0][d] = Index::of(id);
        access.operands[0][d] = match d.checked_sub(2).and_then(|s| slides.get(s)) {
            None => Index::of(id),
            Some(slide) => slide.index(&mut access, id).0,
        };
    }
    Ok(access)
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(MAX_POOL);
    registry.add(AVG_POOL);
}
