//! Reductions over windows.

use super::contract::{WindowDim, window};
use super::elementwise::{Reducer, retyped};
use super::func::FuncCx;
use crate::infer::outside;
use crate::module::Instruction;
use optc_ir::{Attr, AttrDict, DType, Dense, Dim, Size, TensorType, Value};
use optc_ops::{Bounds, Broadcast, Constant, Mul, Slice, Sub};

/// A reduction over windows.
#[derive(Clone, Copy)]
struct Windows<'t> {
    kind: Reducer,
    /// The window of each dimension.
    window: &'t [WindowDim],
    x: Value,
    /// The start value.
    init: Value,
    /// The type of the result.
    ty: &'t TensorType,
}

impl FuncCx<'_, '_> {
    pub(super) fn reduce_window(
        &mut self,
        made: &Instruction,
        x: Value,
        init: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let kind = self.reducer(made)?;
        let text = made.attrs.get("window");
        if self.is_open(x)
            && let Some(value) = self.running_by_size(kind, text?, x, init, ty)
        {
            return Some(value);
        }
        let window = window(text)?;
        let rank = self.tensor_of(x)?.rank();
        if window.len() != rank || ty.rank() != rank {
            return None;
        }
        let windows = Windows {
            kind,
            window: &window,
            x,
            init,
            ty,
        };
        if self.is_open(x) || ty.shape().is_none() {
            return self.first(&[Self::running, Self::pool], &windows);
        }
        let ways = [Self::blocks, Self::whole, Self::running, Self::pool];
        if let Some(value) = self.first(&ways, &windows) {
            return Some(value);
        }
        // Elements outside the operand must not count: the start value must be the neutral element.
        let start = self.known_scalar(init)?;
        let dtype = self.tensor_of(x)?.dtype;
        if !kind.starts_from(start, dtype) {
            return None;
        }
        let places: Vec<usize> = (0..window.len()).collect();
        let (x, window) = self.filled(x, &places, &window, start, |_| true)?;
        let windows = Windows {
            window: &window,
            x,
            ..windows
        };
        let ways = [Self::blocks, Self::pool, Self::differences, Self::shifted];
        self.first(&ways, &windows)
    }

    /// The first of the ways that fits. Operations of ways that do not fit are removed.
    fn first(
        &mut self,
        ways: &[fn(&mut Self, &Windows<'_>) -> Option<Value>],
        windows: &Windows<'_>,
    ) -> Option<Value> {
        let before = self.b.func.body.len();
        ways.iter().find_map(|way| {
            let value = way(self, windows);
            if value.is_none() {
                self.b.func.body.truncate(before);
            }
            value
        })
    }

    /// Non-overlapping windows: the dimension is split into blocks, and each block is reduced.
    fn blocks(&mut self, windows: &Windows<'_>) -> Option<Value> {
        let (kind, window) = (windows.kind, windows.window);
        let (x, init, ty) = (windows.x, windows.init, windows.ty);
        let shape = self.tensor_of(x)?.shape()?;
        let mut split = Vec::new();
        let mut axes = Vec::new();
        for (dim, &n) in window.iter().zip(&shape) {
            let size = u64::try_from(dim.size).ok()?;
            let side = dim.stride == dim.size || n == size;
            if !plain(dim) || !side || size == 0 || n % size != 0 {
                return None;
            }
            split.push(n / size);
            if 1 < size {
                axes.push(i64::try_from(split.len()).ok()?);
                split.push(size);
            }
        }
        let x = self.reshaped(x, &split)?;
        self.reduced(kind, x, init, &axes, ty)
    }

    /// Windows that each cover their whole dimension: one reduction, broadcast.
    fn whole(&mut self, windows: &Windows<'_>) -> Option<Value> {
        let (kind, window) = (windows.kind, windows.window);
        let (x, init, ty) = (windows.x, windows.init, windows.ty);
        let shape = self.tensor_of(x)?.shape()?;
        let out = ty.shape()?;
        let mut axes = Vec::new();
        let mut sums = Vec::new();
        for ((d, dim), &n) in window.iter().enumerate().zip(&shape) {
            let n = i64::try_from(n).ok()?;
            sums.push(if dim.size == 1 { out[d] } else { 1 });
            if dim.size == 1 && plain(dim) && dim.stride == 1 {
                continue;
            }
            // The first window must reach the last element, and the last window the first.
            let last = i64::try_from(out[d])
                .ok()?
                .checked_sub(1)?
                .checked_mul(dim.stride)?;
            let covers = dim.size.checked_sub(dim.low)? >= n && last <= dim.low;
            if !covers || dim.dilation != 1 || dim.base_dilation != 1 {
                return None;
            }
            axes.push(i64::try_from(d).ok()?);
        }
        if !self
            .known_scalar(init)
            .is_some_and(|s| kind.starts_from(s, ty.dtype))
        {
            return None;
        }
        let own = TensorType::fixed(&sums, self.tensor_of(x)?.dtype);
        let dropped: Vec<u64> = sums
            .iter()
            .enumerate()
            .filter(|(d, _)| !axes.iter().any(|&a| usize::try_from(a) == Ok(*d)))
            .map(|(_, &n)| n)
            .collect();
        let flat = TensorType::fixed(&dropped, own.dtype);
        let reduced = self.reduced(kind, x, init, &axes, &flat)?;
        let spread = self.reshaped(reduced, &sums)?;
        let value = self.emit(&Broadcast::to(&out), &[spread], retyped(ty, own.dtype))?;
        self.cast(value, ty)
    }

    /// Running reductions: each window ends, or begins, at its own index and covers all elements before, or after, it.
    fn running(&mut self, windows: &Windows<'_>) -> Option<Value> {
        let (kind, window) = (windows.kind, windows.window);
        let (x, init, ty) = (windows.x, windows.init, windows.ty);
        let from = self.tensor_of(x)?;
        let mut long = (0..window.len()).filter(|&d| window[d] != WindowDim::ONE);
        let (Some(axis), None) = (long.next(), long.next()) else {
            return None;
        };
        let (n, dim) = (i64::try_from(from.dims[axis].fixed()?).ok()?, window[axis]);
        let reverse = dim.low == 0 && n != 1;
        let pads = if reverse { (0, n - 1) } else { (n - 1, 0) };
        let whole = WindowDim {
            size: n,
            low: pads.0,
            high: pads.1,
            ..WindowDim::ONE
        };
        if dim != whole {
            return None;
        }
        self.accumulated(kind, x, init, (axis, reverse), ty)
    }

    /// Running reductions as in [`FuncCx::running`], with a window as long as a dimension of unknown size.
    fn running_by_size(
        &mut self,
        kind: Reducer,
        window: &str,
        x: Value,
        init: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let inner = window.trim().strip_prefix('{')?.strip_suffix('}')?;
        let (zero, one) = (Size::default(), Size::constant(1));
        let (mut sizes, mut pads) = (Vec::new(), Vec::new());
        for field in inner.split_whitespace() {
            let (name, list) = field.split_once('=')?;
            let list = outside(list, 'x').into_iter();
            match name {
                "size" => sizes = list.map(Size::parse).collect::<Option<Vec<Size>>>()?,
                "pad" => {
                    for both in list {
                        let both = outside(both, '_').into_iter().map(Size::parse);
                        pads.push(both.collect::<Option<Vec<Size>>>()?);
                    }
                }
                _ if list.clone().all(|n| n == "1") => {}
                _ => return None,
            }
        }
        let dims = self.tensor_of(x)?.dims;
        if sizes.len() != dims.len() || pads.len() != dims.len() {
            return None;
        }
        let mut found = None;
        for (d, ((size, pad), dim)) in sizes.iter().zip(&pads).zip(&dims).enumerate() {
            let [low, high] = &pad[..] else { return None };
            if *size == one && *low == zero && *high == zero {
                continue;
            }
            let before = size.minus(&one)?;
            let reverse = *low == zero && *high == before;
            let forward = *low == before && *high == zero;
            let whole = dim.size().as_ref() == Some(size) && (forward || reverse);
            if !whole || found.is_some() {
                return None;
            }
            found = Some((d, reverse));
        }
        self.accumulated(kind, x, init, found?, ty)
    }

    /// The reduction of all elements up to each index along a dimension, or in reverse from each index on.
    fn accumulated(
        &mut self,
        kind: Reducer,
        x: Value,
        init: Value,
        (axis, reverse): (usize, bool),
        ty: &TensorType,
    ) -> Option<Value> {
        let from = self.tensor_of(x)?;
        let start = self.known_scalar(init)?;
        let name = match kind {
            Reducer::Sum => "hbir.cumsum",
            Reducer::Product => "hbir.cumprod",
            Reducer::Max | Reducer::Min | Reducer::And | Reducer::Or => return None,
        };
        if from.dtype.is_bool() || !kind.starts_from(start, from.dtype) || from.dims != ty.dims {
            return None;
        }
        let mut props = AttrDict::new().with("axis", Attr::int(i64::try_from(axis).ok()?));
        if reverse {
            props.set("reverse", Attr::Bool(true));
        }
        let value = self.emit_named(name, &[x], props, retyped(ty, from.dtype))?;
        self.cast(value, ty)
    }

    /// Sums of integers over windows, dimension by dimension: the running sum at the end of a window less the one at
    /// its start. This is exact, as integers wrap.
    fn differences(&mut self, windows: &Windows<'_>) -> Option<Value> {
        let (kind, window) = (windows.kind, windows.window);
        let (x, ty) = (windows.x, windows.ty);
        let dtype = self.tensor_of(x)?.dtype;
        let integers = dtype.is_int() && !dtype.is_bool();
        if kind != Reducer::Sum || !integers {
            return None;
        }
        self.by_dimension(window, x, ty, |cx, x, run| {
            // A 0 in front represents the empty sum.
            let mut more = cx.tensor_of(x)?.without_layout();
            more.dims[run.axis] = Dim::Fixed(more.shape()?[run.axis].checked_add(1)?);
            let (mut low, high) = (vec![0; more.rank()], vec![0; more.rank()]);
            low[run.axis] = 1;
            let x = cx.padded(x, &low, &high, 0.0, more.clone())?;
            let props = AttrDict::new().with("axis", Attr::int(i64::try_from(run.axis).ok()?));
            let sums = cx.emit_named("hbir.cumsum", &[x], props, more)?;
            let ends = cx.every(sums, run, run.dim.size)?;
            let starts = cx.every(sums, run, 0)?;
            let ty = cx.tensor_of(ends)?;
            cx.emit(&Sub {}, &[ends, starts], ty)
        })
    }

    /// Windows of few elements: the elements at each offset of the window are combined one by one.
    fn shifted(&mut self, windows: &Windows<'_>) -> Option<Value> {
        let (kind, window) = (windows.kind, windows.window);
        let (x, ty) = (windows.x, windows.ty);
        if window.iter().any(|dim| MOST_SHIFTS < dim.size) {
            return None;
        }
        self.by_dimension(window, x, ty, |cx, x, run| {
            let mut all = cx.every(x, run, 0)?;
            for i in 1..run.dim.size {
                let next = cx.every(x, run, i)?;
                let ty = cx.tensor_of(all)?;
                all = cx.emit_named(kind.binary(), &[all, next], AttrDict::new(), ty)?;
            }
            Some(all)
        })
    }

    /// Processes windows without padding and holes, one dimension after the other.
    fn by_dimension(
        &mut self,
        window: &[WindowDim],
        x: Value,
        ty: &TensorType,
        mut along: impl FnMut(&mut Self, Value, Run) -> Option<Value>,
    ) -> Option<Value> {
        let mut at = x;
        for (axis, &dim) in window.iter().enumerate() {
            if !plain(&dim) || dim.size < 1 || dim.stride < 1 {
                return None;
            }
            if dim == WindowDim::ONE {
                continue;
            }
            let n = i64::try_from(self.tensor_of(at)?.shape()?[axis]).ok()?;
            let room = n.checked_sub(dim.size).filter(|&room| 0 <= room)?;
            let count = room / dim.stride + 1;
            at = along(self, at, Run { axis, dim, count })?;
        }
        if self.tensor_of(at)?.dims != ty.dims {
            return None;
        }
        self.cast(at, ty)
    }

    /// Element `offset` of every window of a run.
    fn every(&mut self, x: Value, run: Run, offset: i64) -> Option<Value> {
        let mut ty = self.tensor_of(x)?.without_layout();
        let mut limits = Vec::with_capacity(ty.rank());
        for n in ty.shape()? {
            limits.push(i64::try_from(n).ok()?);
        }
        let mut starts = vec![0i64; ty.rank()];
        let mut strides = vec![1i64; ty.rank()];
        let last = (run.count - 1).checked_mul(run.dim.stride)?;
        starts[run.axis] = offset;
        limits[run.axis] = offset.checked_add(last)?.checked_add(1)?;
        strides[run.axis] = run.dim.stride;
        ty.dims[run.axis] = Dim::Fixed(u64::try_from(run.count).ok()?);
        let slice = Slice {
            starts: Bounds::of_ints(&starts),
            limits: Bounds::of_ints(&limits),
            strides: Some(strides),
        };
        self.emit(&slice, &[x], ty)
    }

    /// The greatest or least element, or the sum, of windows over up to three dimensions.
    fn pool(&mut self, windows: &Windows<'_>) -> Option<Value> {
        let (kind, window) = (windows.kind, windows.window);
        let (x, init, ty) = (windows.x, windows.init, windows.ty);
        let from = self.tensor_of(x)?;
        let start = self.known_scalar(init)?;
        let float = from.dtype.is_float();
        let known = matches!(kind, Reducer::Max | Reducer::Min) || (float && kind == Reducer::Sum);
        if !known || !kind.starts_from(start, from.dtype) || from.dtype != ty.dtype {
            return None;
        }
        let trivial = |d: &&usize| {
            let dim = &window[**d];
            dim.size == 1 && dim.stride == 1 && plain(dim)
        };
        let all: Vec<usize> = (0..window.len()).collect();
        let mut spatial: Vec<usize> = all.iter().filter(|d| !trivial(d)).copied().collect();
        let mut outer: Vec<usize> = all.iter().filter(trivial).copied().collect();
        if let Some(missing) = 2usize.checked_sub(outer.len()).filter(|&n| 0 < n) {
            return self.pool_with_units(missing, windows);
        }
        while 2 < outer.len() {
            spatial.insert(0, outer.pop()?);
        }
        if spatial.is_empty() || 3 < spatial.len() {
            return None;
        }
        if spatial.iter().any(|&d| window[d].base_dilation != 1) {
            return None;
        }
        let places = [outer, spatial.clone()].concat();
        let list = |f: fn(&WindowDim) -> i64| -> Vec<i64> {
            spatial.iter().map(|&d| f(&window[d])).collect()
        };
        let pads = [list(|d| d.low), list(|d| d.high)].concat();
        let mut props = AttrDict::new()
            .with("kernel", Attr::ints(&list(|d| d.size)))
            .with("strides", Attr::ints(&list(|d| d.stride)))
            .with("dilations", Attr::ints(&list(|d| d.dilation)))
            .with("pads", Attr::ints(&pads));
        let none = AttrDict::new;
        match kind {
            Reducer::Max => {
                let x = self.permuted(x, &places)?;
                self.seen_as("hbir.max_pool", &[x], props, &places, ty)
            }
            Reducer::Min => {
                // The operation that reverses the order, also of every integer.
                let turn = if float { "hbir.neg" } else { "hbir.not" };
                let x = self.emit_named(turn, &[x], none(), from)?;
                let x = self.permuted(x, &places)?;
                let greatest = self.seen_as("hbir.max_pool", &[x], props, &places, ty)?;
                self.emit_named(turn, &[greatest], none(), ty.clone())
            }
            _ => {
                let sizes = list(|d| d.size);
                let count = sizes.iter().try_fold(1i64, |n, &m| n.checked_mul(m))?;
                // Larger counts are not exact in single precision.
                let count = u16::try_from(count).ok()?;
                props.set("count_include_pad", Attr::Bool(true));
                let x = self.permuted(x, &places)?;
                let mean = self.seen_as("hbir.avg_pool", &[x], props, &places, ty)?;
                let count = self.scalar(f32::from(count), ty.dtype)?;
                self.emit(&Mul {}, &[mean, count], ty.clone())
            }
        }
    }

    /// A pooling with dimensions of one element added in front, as the operation requires.
    fn pool_with_units(&mut self, units: usize, windows: &Windows<'_>) -> Option<Value> {
        let (x, ty) = (windows.x, windows.ty);
        let more = |shape: Vec<u64>| [vec![1; units], shape].concat();
        let x = self.reshaped(x, &more(self.tensor_of(x)?.shape()?))?;
        let wide = TensorType::fixed(&more(ty.shape()?), ty.dtype);
        let window = [vec![WindowDim::ONE; units], windows.window.to_vec()].concat();
        let windows = Windows {
            window: &window,
            x,
            ty: &wide,
            ..*windows
        };
        let value = self.pool(&windows)?;
        self.reshape_to(value, ty)
    }

    /// A constant of one number.
    fn scalar(&mut self, value: f32, dtype: DType) -> Option<Value> {
        let ty = TensorType::fixed(&[], DType::F32);
        let value = self.numbers(value.to_le_bytes().to_vec(), ty)?;
        self.cast(value, &TensorType::fixed(&[], dtype))
    }

    /// A constant of these bytes.
    pub(super) fn numbers(&mut self, bytes: Vec<u8>, ty: TensorType) -> Option<Value> {
        let dense = Dense {
            ty: ty.clone().into(),
            bytes,
            splat: false,
        };
        self.emit(&Constant::dense(dense), &[], ty)
    }
}

/// The windows along one dimension.
#[derive(Clone, Copy)]
struct Run {
    axis: usize,
    dim: WindowDim,
    count: i64,
}

/// The greatest extent of windows that are combined element by element.
const MOST_SHIFTS: i64 = 32;

/// Returns whether the dimension has no padding and no holes between the operand's or the window's elements.
fn plain(dim: &WindowDim) -> bool {
    dim.low == 0 && dim.high == 0 && dim.base_dilation == 1 && dim.dilation == 1
}
