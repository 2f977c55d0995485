//! Shared code of poolings: windows that slide over N C spatial… operands.
//!
//! With `ceil_mode` the last window may reach beyond the padding; positions there never count.

use crate::prelude::*;
use crate::window::{self, Slide, Stated, sizes, spatial_dims, three};

/// Declares a pooling: the attributes that all of them have, then its own.
macro_rules! pool_attributes {
    ($(#[$doc:meta])* pub struct $name:ident { $($own:tt)* }) => {
        attributes! {
            $(#[$doc])*
            pub struct $name {
                /// The extent of the window along each spatial dimension.
                kernel: Vec<i64>,
                /// The distance in elements from one window to the next along each spatial dimension; 1 when absent.
                strides: Option<Vec<i64>>,
                /// The distance in elements between adjacent positions of a window along each spatial dimension; 1 when absent.
                dilations: Option<Vec<i64>>,
                /// The padding before each spatial dimension, then the padding after each; 0 when absent.
                pads: Option<Vec<i64>>,
                /// True if the last window may reach beyond the padding.
                ceil_mode: bool = false,
                $($own)*
            }
        }

        impl $name {
            /// The window as stated.
            #[must_use]
            pub fn stated(&self) -> $crate::Stated<'_> {
                $crate::Stated {
                    strides: self.strides.as_deref(),
                    dilations: self.dilations.as_deref(),
                    pads: self.pads.as_deref(),
                }
            }

            /// The window along each spatial dimension.
            ///
            /// # Errors
            /// The operand is not of rank 3 to 5 (`pool-c1`), or a list does not have one size for each spatial
            /// dimension (`pool-c2`).
            pub fn slides(&self, op: &OpRef<'_>) -> Result<Vec<$crate::Slide>, OpError> {
                pool::slides(op, &self.kernel, self.stated())
            }
        }
    };
}

pub(crate) use pool_attributes;

/// C1: rank 3 to 5. C2: `kernel`, `strides`, `dilations` and `pads` have one size for each spatial dimension (`pads`
/// two).
pub(crate) fn slides(
    op: &OpRef<'_>,
    kernel: &[i64],
    stated: Stated<'_>,
) -> Result<Vec<Slide>, OpError> {
    let x = op.operand(0)?;
    if !(3..=5).contains(&x.rank()) {
        let message = format!("{} of {}, wanted rank 3 to 5", op.name, show(&x.dims));
        return Err(OpError::new(POOL_C1, message));
    }
    let kernel = sizes(op, POOL_C2, ("kernel", Some(kernel)), x.rank() - 2, 1)?;
    let kernel: Vec<u64> = kernel.into_iter().map(|k| k as u64).collect();
    window::slides(op, POOL_C2, &kernel, stated)
}

/// C5: a maximum is of numbers, not of truth values.
pub(crate) fn numbers(op: &OpRef<'_>) -> Result<(), OpError> {
    if !op.operand(0)?.dtype.is_bool() {
        return Ok(());
    }
    let message = format!("{} of i1, wanted numbers", op.name);
    Err(OpError::new(POOL_C5, message))
}

/// C3: the windows fit.
pub(crate) fn infer(
    op: &OpRef<'_>,
    slides: &[Slide],
    ceil: bool,
) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let spatial = spatial_dims(op, POOL_C3, &x.dims[2..], slides, ceil)?;
    one([x.dims[..2].to_vec(), spatial].concat(), x.dtype)
}

/// Calls `window` for each window, in the order of the result. Its arguments are the element numbers of the window, and
/// the number of window positions that are elements or declared padding.
pub(crate) fn each_window(
    call: &Call<'_>,
    slides: &[Slide],
    mut window: impl FnMut(&[usize], usize),
) {
    let slides = three(slides, Slide::POINT);
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

/// The number of window positions, along one dimension, that are elements or declared padding.
fn declared(slide: &Slide, at: usize, n: usize) -> usize {
    let end = slide.low + n + slide.high;
    (0..slide.kernel)
        .filter(|k| at * slide.stride + k * slide.dilation < end)
        .count()
}

/// The role of a dimension of the operand of a window operation.
pub(crate) fn role(dim: usize) -> Role {
    match dim {
        0 => Role::Batch,
        1 => Role::Channel,
        _ => Role::Spatial,
    }
}

/// The loops of a window operation without weights.
pub(crate) fn iteration_domain(
    op: &OpRef<'_>,
    slides: &[Slide],
) -> Result<IterationDomain, OpError> {
    let y = op.result(0)?;
    let mut domain = IterationDomain::new(op, FreedomClass::Window);
    for (d, dim) in y.dims.iter().enumerate() {
        let (operand, result) = match d.checked_sub(2).and_then(|s| slides.get(s)) {
            None => {
                let extent = dim.fixed().unwrap_or(0);
                let id = domain.add_as(extent, LoopKind::Parallel, role(d));
                (IndexExpr::of(id), IndexExpr::of(id))
            }
            Some(slide) => {
                let (operand, _, result) = slide.index(&mut domain, dim);
                (operand, result)
            }
        };
        domain.operands[0][d] = operand;
        domain.results[0][d] = result;
    }
    Ok(domain)
}

codes! {
    pub(crate) const CODES;

    POOL_C1 = program(
        "the operand of a pooling is not of rank 3 to 5",
        r#"%0 = "hbir.max_pool"(%x) <{kernel = [2, 2]}> : (tensor<3x3xf32>) -> tensor<2x2xf32>"#,
        "give an operand [N, C, …] with one to three spatial dimensions",
    );
    POOL_C2 = program(
        "`kernel`, `strides`, `dilations` or `pads` of a pooling has another number of entries than wanted, or one that is too small",
        r#"%0 = "hbir.max_pool"(%x) <{kernel = [2]}> : (tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32>"#,
        "one entry a spatial dimension (`pads`: all begins, then all ends); all but pads from 1 on",
    );
    POOL_C3 = program(
        "the window of a pooling is larger than the padded operand",
        r#"%0 = "hbir.max_pool"(%x) <{kernel = [4, 4]}> : (tensor<1x1x3x3xf32>) -> tensor<1x1x0x0xf32>"#,
        "enlarge `pads`, or reduce `kernel` or `dilations`",
    );
    POOL_C4 = program(
        "`hbir.avg_pool` of something else than floats",
        r#"%0 = "hbir.avg_pool"(%x) <{kernel = [2, 2]}> : (tensor<1x1x3x3xsi8>) -> tensor<1x1x2x2xsi8>"#,
        "cast the operand to a float type",
    );
    POOL_C5 = program(
        "`hbir.max_pool` of booleans, wanted numbers",
        r#"%0 = "hbir.max_pool"(%x) <{kernel = [2, 2]}> : (tensor<1x1x3x3xi1>) -> tensor<1x1x2x2xi1>"#,
        "cast the operand to an integer type",
    );
    POOL_C6 = program(
        "`storage_order` of `hbir.max_pool_indices` is neither 0 nor 1",
        r#"%0 = "hbir.max_pool_indices"(%x) <{kernel = [2], storage_order = 2}> : (tensor<1x1x4xf32>) -> tensor<1x1x3xsi64>"#,
        "write 0 for numbers in row-major order, 1 for numbers that count the first spatial dimension fastest",
    );
}
