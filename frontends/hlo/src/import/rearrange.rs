//! Transposes, reshapes, bitcasts, slices and other parts.

use super::elementwise::retyped;
use super::func::{FuncCx, view_of};
use super::types::{in_space, space};
use crate::infer::{padding, slice_bounds};
use crate::module::Instruction;
use optc_ir::{Attr, AttrDict, TensorType, Value};
use optc_layout::{Layout, ViewMap, deduce};
use optc_ops::{Bounds, Concat, Identity, Slice, ints};

impl FuncCx<'_, '_> {
    pub(super) fn transpose(
        &mut self,
        made: &Instruction,
        x: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let perm = made.attrs.ints("dimensions")?;
        let perm: Vec<usize> = perm
            .into_iter()
            .map(|p| usize::try_from(p).ok())
            .collect::<Option<_>>()?;
        let Some(shape) = self.tensor_of(x)?.shape() else {
            let value = self.permuted(x, &perm)?;
            return self.cast(value, ty);
        };
        let map = ViewMap::transpose(&shape, &perm).ok()?;
        let value = self.rearranged(x, &map, &self.own(x, ty)?)?;
        self.cast(value, ty)
    }

    pub(super) fn reshape_to(&mut self, x: Value, ty: &TensorType) -> Option<Value> {
        if self.is_open(x) || ty.shape().is_none() {
            let value = self.reshaped_to(x, &ty.dims)?;
            return self.cast(value, ty);
        }
        let value = self.rearranged(x, &ViewMap::reshape(&ty.shape()?), &self.own(x, ty)?)?;
        self.cast(value, ty)
    }

    /// The result's type with the operand's element type.
    fn own(&self, x: Value, ty: &TensorType) -> Option<TensorType> {
        Some(retyped(ty, self.tensor_of(x)?.dtype))
    }

    /// The views that a bitcast stands for: it names no logical map, so one is deduced from the two
    /// layouts. A change of memory space says where a fusion's operand comes from, and moves nothing.
    pub(super) fn bitcast(&mut self, x: Value, ty: &TensorType) -> Option<Value> {
        let mut from = self.tensor_of(x)?;
        let mut x = x;
        if from.dtype != ty.dtype {
            from = TensorType {
                dtype: ty.dtype,
                ..from
            };
            x = self.reinterpreted(x, &from)?;
        }
        let near = in_space(ty, space(&from));
        let target = near.layout()?.ok()?;
        let maps = bitcast_maps(&from.layout()?.ok()?, &target)?;
        let (last, others) = maps.split_last()?;
        let mut at = x;
        for map in others {
            at = self.view(at, map)?;
        }
        at = self.emit(&view_of(last), &[at], near.clone())?;
        if near == *ty {
            return Some(at);
        }
        self.emit(&Identity {}, &[at], ty.clone())
    }

    pub(super) fn slice(&mut self, made: &Instruction, x: Value, ty: &TensorType) -> Option<Value> {
        let bounds = slice_bounds(made.attrs.get("slice")?)?;
        let list = |i: usize| bounds.iter().map(|b| b[i]).collect::<Vec<i64>>();
        let strided = bounds.iter().any(|b| b[2] != 1);
        let slice = Slice {
            starts: Bounds::of_ints(&list(0)),
            limits: Bounds::of_ints(&list(1)),
            strides: strided.then(|| list(2)),
        };
        let own = self.own(x, ty)?;
        let value = self.emit(&slice, &[x], own)?;
        self.cast(value, ty)
    }

    pub(super) fn reverse(
        &mut self,
        made: &Instruction,
        x: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let axes = made.attrs.ints("dimensions")?;
        let axes: Vec<usize> = axes
            .into_iter()
            .map(|a| usize::try_from(a).ok())
            .collect::<Option<_>>()?;
        self.reversed(x, &axes, ty)
    }

    /// The elements in backward order along `axes`.
    pub(super) fn reversed(&mut self, x: Value, axes: &[usize], ty: &TensorType) -> Option<Value> {
        let shape = self.tensor_of(x)?.shape()?;
        let mut bounds = Vec::with_capacity(shape.len());
        for (d, &n) in shape.iter().enumerate() {
            let n = i64::try_from(n).ok()?;
            let back = axes.contains(&d) && 0 < n;
            bounds.push(if back { [n - 1, -1, -1] } else { [0, n, 1] });
        }
        let list = |i: usize| bounds.iter().map(|b| b[i]).collect::<Vec<i64>>();
        let slice = Slice {
            starts: Bounds::of_ints(&list(0)),
            limits: Bounds::of_ints(&list(1)),
            strides: Some(list(2)),
        };
        self.emit(&slice, &[x], ty.clone())
    }

    pub(super) fn pad(
        &mut self,
        made: &Instruction,
        x: Value,
        value: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let amounts = padding(made.attrs.get("padding")?)?;
        let fill = self.known_scalar(value)?;
        let list = |i: usize| amounts.iter().map(|a| a[i]).collect::<Vec<i64>>();
        let x = self.spaced(x, &list(2), fill)?;
        let own = self.own(x, ty)?;
        let padded = self.padded(x, &list(0), &list(1), fill, own)?;
        self.cast(padded, ty)
    }

    /// `low` elements before and `high` after each dimension; negative amounts cut elements off.
    pub(super) fn padded(
        &mut self,
        x: Value,
        low: &[i64],
        high: &[i64],
        fill: f64,
        ty: TensorType,
    ) -> Option<Value> {
        let mut props = AttrDict::new()
            .with("low", Attr::ints(low))
            .with("high", Attr::ints(high));
        if fill != 0.0 || fill.is_sign_negative() {
            props.set("value", Attr::float(fill));
        }
        self.emit_named("hbir.pad", &[x], props, ty)
    }

    /// `gaps[d]` elements between each two neighbours of a dimension: every element gets a
    /// dimension of its own, which is padded and merged again, and what follows the last is cut off.
    pub(super) fn spaced(&mut self, x: Value, gaps: &[i64], fill: f64) -> Option<Value> {
        let from = self.tensor_of(x)?;
        if from.rank() != gaps.len() {
            return None;
        }
        if gaps.iter().all(|&gap| gap == 0) {
            return Some(x);
        }
        let shape = from.shape()?;
        let (mut cut, mut widened, mut merged, mut kept) = (vec![], vec![], vec![], vec![]);
        let mut high = vec![];
        for (&n, &gap) in shape.iter().zip(gaps) {
            let between = u64::try_from(gap).ok()?;
            let step = between.checked_add(1)?;
            let whole = n.checked_mul(step)?;
            cut.push(n);
            widened.push(n);
            high.push(0);
            if between != 0 {
                cut.push(1);
                widened.push(step);
                high.push(gap);
            }
            merged.push(whole);
            kept.push(whole.saturating_sub(between));
        }
        if kept == shape {
            return Some(x);
        }
        let alone = self.reshaped(x, &cut)?;
        let none = vec![0; high.len()];
        let wide = TensorType::fixed(&widened, from.dtype);
        let padded = self.padded(alone, &none, &high, fill, wide)?;
        let joined = self.reshaped(padded, &merged)?;
        let slice = Slice {
            starts: Bounds::of_ints(&vec![0; kept.len()]),
            limits: Bounds::of_ints(&ints(&kept)),
            strides: None,
        };
        self.emit(&slice, &[joined], TensorType::fixed(&kept, from.dtype))
    }

    pub(super) fn concatenate(
        &mut self,
        made: &Instruction,
        parts: &[Value],
        ty: &TensorType,
    ) -> Option<Value> {
        let &[axis] = &made.attrs.ints("dimensions")?[..] else {
            return None;
        };
        let own = self.own(*parts.first()?, ty)?;
        let value = self.emit(&Concat { axis }, parts, own)?;
        self.cast(value, ty)
    }

    /// Calls of kernels whose meaning their names say and their shapes confirm.
    pub(super) fn custom_call(
        &mut self,
        made: &Instruction,
        parts: &[Value],
        ty: &TensorType,
    ) -> Option<Value> {
        match (
            made.attrs.get("custom_call_target")?.trim_matches('"'),
            parts,
        ) {
            ("ConcatBitcast", parts) => self.side_by_side(parts, ty),
            ("AssumeGatherIndicesInBound", &[x]) if self.tensor_of(x)?.dims == ty.dims => {
                self.cast(x, ty)
            }
            _ => None,
        }
    }

    /// Parts whose buffers, one after the other, are the result: they differ from it in one dimension,
    /// in which they add up, and leave no padding between them.
    fn side_by_side(&mut self, parts: &[Value], ty: &TensorType) -> Option<Value> {
        let whole = ty.shape()?;
        let (mut sums, mut bytes) = (vec![0u64; whole.len()], 0u64);
        for &part in parts {
            let part = self.tensor_of(part)?;
            bytes = bytes.checked_add(part.layout()?.ok()?.bytes())?;
            if part.rank() != whole.len() || part.dtype != ty.dtype {
                return None;
            }
            for (sum, n) in sums.iter_mut().zip(part.shape()?) {
                *sum = sum.checked_add(n)?;
            }
        }
        let count = u64::try_from(parts.len()).ok()?;
        let adds_up = |d: &usize| sums[*d] == whole[*d];
        let axis = (0..whole.len()).find(adds_up)?;
        let alike = |d: usize| d == axis || Some(sums[d]) == whole[d].checked_mul(count);
        if !(0..whole.len()).all(alike) || bytes != ty.layout()?.ok()?.bytes() {
            return None;
        }
        let axis = i64::try_from(axis).ok()?;
        self.emit(&Concat { axis }, parts, ty.clone())
    }
}

/// The maps under which one layout is a view of the other; none where no map is.
pub(crate) fn bitcast_maps(from: &Layout, to: &Layout) -> Option<Vec<ViewMap>> {
    deduce(from, to).ok()
}
