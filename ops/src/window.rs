//! Shared code of convolutions and poolings: windows that slide over up to three spatial dimensions.

use crate::prelude::*;
use optc_ir::size::Remembered;
use std::cell::RefCell;

thread_local! {
    /// Cached counts of windows over unknown sizes.
    static COUNTS: RefCell<Remembered<(Dim, Slide, bool), Dim>> = RefCell::default();
}

/// One spatial dimension of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slide {
    /// The number of positions of the window.
    pub kernel: usize,
    /// The distance in elements from one window to the next, at least 1.
    pub stride: usize,
    /// The distance in elements between adjacent positions of the window, at least 1.
    pub dilation: usize,
    /// The padding before the elements.
    pub low: usize,
    /// The padding after the elements.
    pub high: usize,
}

impl Slide {
    /// A window of one element that visits every element.
    pub const POINT: Slide = Slide {
        kernel: 1,
        stride: 1,
        dilation: 1,
        low: 0,
        high: 0,
    };

    /// The extent that a window covers, including the gaps of a dilation.
    #[must_use]
    pub fn span(&self) -> usize {
        if self.kernel == 0 {
            0
        } else {
            (self.kernel - 1).saturating_mul(self.dilation) + 1
        }
    }

    /// The number of windows over `n` elements; with `ceil` the last one may reach beyond the padding. `None` if no
    /// window fits.
    #[must_use]
    pub fn count(&self, n: u64, ceil: bool) -> Option<u64> {
        let padded = n
            .checked_add(self.low as u64)?
            .checked_add(self.high as u64)?;
        let (span, stride) = (self.span() as u64, self.stride as u64);
        if padded < span {
            // One window, which reaches beyond the end by less than a stride.
            let started = 0 < n + self.low as u64;
            return (ceil && started && span - padded < stride).then_some(1);
        }
        let free = padded - span;
        if !ceil {
            return Some(free / stride + 1);
        }
        let count = free.div_ceil(stride) + 1;
        // A window must start at an element or at the padding before the elements.
        let started = (count - 1) * stride < n + self.low as u64;
        Some(if started { count } else { count - 1 })
    }

    /// As [`Slide::count`], for an unknown size. `None` if the count is not a rounded quotient.
    #[must_use]
    pub fn symbolic_count(&self, n: &Size, ceil: bool) -> Option<Size> {
        let number = |n: usize| Size::from(n as u64);
        let padded = n.plus(&number(self.low))?.plus(&number(self.high))?;
        let free = padded.minus(&number(self.span()))?;
        let stride = number(self.stride);
        let steps = if !ceil {
            free.quotient(&stride)?
        } else if self.high.saturating_add(self.stride) <= self.span() {
            // In this case no window starts beyond the elements.
            free.quotient_up(&stride)?
        } else {
            return None;
        };
        steps.plus(&number(1))
    }

    /// As [`Slide::symbolic_count`], for the extent of a dimension.
    fn symbolic_dim(&self, dim: &Dim, ceil: bool) -> Dim {
        let key = (dim.clone(), *self, ceil);
        let known = COUNTS.with_borrow(|counts| counts.get(&key).cloned());
        known.unwrap_or_else(|| {
            let count = computed(dim, |n| self.symbolic_count(n, ceil));
            COUNTS.with_borrow_mut(|counts| counts.insert(key, count.clone()));
            count
        })
    }

    /// The index expressions of the operand, the kernel and the result: `at * stride + k * dilation - low`, `k` and
    /// `at`. `extent` is that of the result.
    pub(crate) fn index(
        &self,
        domain: &mut IterationDomain,
        extent: &Dim,
    ) -> (IndexExpr, IndexExpr, IndexExpr) {
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let [at, k] = self.loops(domain, extent, [LoopKind::Parallel, LoopKind::Inner]);
        let terms = vec![(at, number(self.stride)), (k, number(self.dilation))];
        let offset = -number(self.low);
        (
            IndexExpr::Sum { terms, offset },
            IndexExpr::of(k),
            IndexExpr::of(at),
        )
    }

    /// As [`Slide::index`], for an operation that needs operand, kernel and result whole.
    pub(crate) fn whole(
        &self,
        domain: &mut IterationDomain,
        extent: &Dim,
    ) -> (IndexExpr, IndexExpr, IndexExpr) {
        let [at, k] = self.loops(domain, extent, [LoopKind::Whole, LoopKind::Whole]);
        (IndexExpr::of(at), IndexExpr::of(k), IndexExpr::of(at))
    }

    /// Adds the loop over window positions and the loop over the kernel.
    fn loops(
        &self,
        domain: &mut IterationDomain,
        extent: &Dim,
        kinds: [LoopKind; 2],
    ) -> [usize; 2] {
        let at = domain.add_as(extent.fixed().unwrap_or(0), kinds[0], Role::Spatial);
        if *self != Slide::POINT {
            domain.uncut(at);
        }
        [at, domain.add(self.kernel as u64, kinds[1])]
    }

    /// The index of element `offset` of window `at`; `None` for padding. `n` is the extent.
    pub(crate) fn element(&self, at: usize, offset: usize, n: usize) -> Option<usize> {
        let position = at * self.stride + offset * self.dilation;
        position.checked_sub(self.low).filter(|&p| p < n)
    }

    /// The number of the window whose element `offset` is at index `at`; `None` if there is none among `n` windows.
    pub(crate) fn window(&self, at: usize, offset: usize, n: usize) -> Option<usize> {
        let start = (at + self.low).checked_sub(offset * self.dilation)?;
        let window = start / self.stride;
        (start % self.stride == 0 && window < n).then_some(window)
    }
}

/// The greatest value of a window attribute that is accepted.
const MAX_WINDOW: i64 = 1 << 31;

/// The attributes of a window as stated.
#[derive(Clone, Copy, Debug)]
pub struct Stated<'a> {
    /// One stride for each spatial dimension; 1 when absent.
    pub strides: Option<&'a [i64]>,
    /// One dilation for each spatial dimension; 1 when absent.
    pub dilations: Option<&'a [i64]>,
    /// The padding before each spatial dimension, then the padding after each; 0 when absent.
    pub pads: Option<&'a [i64]>,
}

/// The windows of an operation with these kernel extents, one for each spatial dimension.
pub(crate) fn slides(
    op: &OpRef<'_>,
    code: Code,
    kernel: &[u64],
    stated: Stated<'_>,
) -> Result<Vec<Slide>, OpError> {
    let rank = kernel.len();
    let strides = sizes(op, code, ("strides", stated.strides), rank, 1)?;
    let dilations = sizes(op, code, ("dilations", stated.dilations), rank, 1)?;
    let pads = sizes(op, code, ("pads", stated.pads), 2 * rank, 0)?;
    let mut out = Vec::with_capacity(rank);
    for d in 0..rank {
        let kernel = usize::try_from(kernel[d]).unwrap_or(usize::MAX);
        let (low, high) = (pads[d], pads[rank + d]);
        out.push(Slide {
            kernel,
            stride: strides[d],
            dilation: dilations[d],
            low,
            high,
        });
    }
    Ok(out)
}

/// The entries of a list of `len` sizes of at least `least`; if the list is absent, `least` for each.
pub(crate) fn sizes(
    op: &OpRef<'_>,
    code: Code,
    (name, list): (&str, Option<&[i64]>),
    len: usize,
    least: i64,
) -> Result<Vec<usize>, OpError> {
    let list = list.map_or_else(|| vec![least; len], <[i64]>::to_vec);
    if list.len() != len {
        let message = format!(
            "{} has {} entries in `{name}`, wanted {len}",
            op.name,
            list.len()
        );
        return Err(OpError::new(code, message));
    }
    let size = |&n: &i64| {
        usize::try_from(n)
            .ok()
            .filter(|_| least <= n && n < MAX_WINDOW)
    };
    list.iter()
        .map(size)
        .collect::<Option<Vec<usize>>>()
        .ok_or_else(|| {
            let message = format!(
                "{} has {name} = {list:?}, wanted {least} or more each",
                op.name
            );
            OpError::new(code, message)
        })
}

/// The spatial extents of the result.
pub(crate) fn spatial_dims(
    op: &OpRef<'_>,
    code: Code,
    spatial: &[Dim],
    slides: &[Slide],
    ceil: bool,
) -> Result<Vec<Dim>, OpError> {
    let mut out = Vec::with_capacity(spatial.len());
    for (dim, slide) in spatial.iter().zip(slides) {
        let Some(n) = dim.fixed() else {
            out.push(slide.symbolic_dim(dim, ceil));
            continue;
        };
        let count = slide.count(n, ceil).ok_or_else(|| {
            let message = format!(
                "{} has a window of {} over {n} elements padded by {} and {}, wanted one that fits",
                op.name,
                slide.span(),
                slide.low,
                slide.high
            );
            OpError::new(code, message)
        })?;
        out.push(Dim::Fixed(count));
    }
    Ok(out)
}

/// The values for three spatial dimensions: missing leading ones are `fill`.
pub(crate) fn three<T: Copy>(values: &[T], fill: T) -> [T; 3] {
    let mut out = [fill; 3];
    let lead = 3usize.saturating_sub(values.len());
    for (slot, &value) in out[lead..].iter_mut().zip(values) {
        *slot = value;
    }
    out
}
