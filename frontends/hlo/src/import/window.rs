//! Reductions over windows.

use super::contract::{WindowDim, window};
use super::elementwise::{Reducer, retyped};
use super::func::FuncCx;
use crate::module::Instruction;
use optc_ir::{Attr, AttrDict, TensorType, Value};

impl FuncCx<'_, '_> {
    pub(super) fn reduce_window(
        &mut self,
        made: &Instruction,
        x: Value,
        init: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let window = window(made.attrs.get("window"))?;
        let kind = self.reducer(made)?;
        let shape = self.tensor_of(x)?.shape()?;
        if window.len() != shape.len() || ty.rank() != shape.len() {
            return None;
        }
        let before = self.func.body.len();
        if let Some(value) = self.blocks(kind, &window, x, init, ty) {
            return Some(value);
        }
        self.func.body.truncate(before);
        if let Some(value) = self.whole(kind, &window, x, init, ty) {
            return Some(value);
        }
        self.func.body.truncate(before);
        self.pool(kind, &window, x, init, ty)
    }

    /// Windows side by side: the dimension is split into blocks and each is reduced.
    fn blocks(
        &mut self,
        kind: Reducer,
        window: &[WindowDim],
        x: Value,
        init: Value,
        ty: &TensorType,
    ) -> Option<Value> {
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

    /// Every window covers its whole dimension: one reduction, repeated.
    fn whole(
        &mut self,
        kind: Reducer,
        window: &[WindowDim],
        x: Value,
        init: Value,
        ty: &TensorType,
    ) -> Option<Value> {
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
            // The first window must reach the last element and the last one the first.
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
        let props = AttrDict::new().with("shape", Attr::ints(&out));
        let value = self.emit("hbir.broadcast", &[spread], props, retyped(ty, own.dtype))?;
        self.cast(value, ty)
    }

    /// The greatest element of windows over up to three dimensions.
    fn pool(
        &mut self,
        kind: Reducer,
        window: &[WindowDim],
        x: Value,
        init: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let from = self.tensor_of(x)?;
        let start = self.known_scalar(init)?;
        if kind != Reducer::Max || !kind.starts_from(start, from.dtype) || from.dtype != ty.dtype {
            return None;
        }
        let trivial = |d: &&usize| {
            let dim = &window[**d];
            dim.size == 1 && dim.stride == 1 && plain(dim)
        };
        let all: Vec<usize> = (0..window.len()).collect();
        let mut spatial: Vec<usize> = all.iter().filter(|d| !trivial(d)).copied().collect();
        let mut outer: Vec<usize> = all.iter().filter(trivial).copied().collect();
        while 2 < outer.len() {
            spatial.insert(0, outer.pop()?);
        }
        if outer.len() != 2 || spatial.is_empty() || 3 < spatial.len() {
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
        let props = AttrDict::new()
            .with("kernel", Attr::ints(&list(|d| d.size)))
            .with("strides", Attr::ints(&list(|d| d.stride)))
            .with("dilations", Attr::ints(&list(|d| d.dilation)))
            .with("pads", Attr::ints(&pads));
        let x = self.permuted(x, &places)?;
        self.seen_as("hbir.max_pool", &[x], props, &places, ty)
    }
}

/// No padding and no holes between the operand's elements or the window's.
fn plain(dim: &WindowDim) -> bool {
    dim.low == 0 && dim.high == 0 && dim.base_dilation == 1 && dim.dilation == 1
}
