//! Transposes, reshapes, bitcasts, slices and other rearrangements.

use super::elementwise::retyped;
use super::func::{FuncCx, view_of};
use super::types::{in_space, space};
use crate::infer::{padding, slice_ranges};
use crate::module::Instruction;
use optc_ir::{Attr, AttrDict, Dim, Size, TensorType, Value};
use optc_layout::{Layout, ViewMap, deduce};
use optc_ops::{Bound, Bounds, Concat, Identity, Slice};

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

    /// Imports a bitcast as views. HLO text states no logical map, so the map is deduced from the two layouts. A bitcast to
    /// another memory space only states where a fusion's operand comes from; it moves nothing and becomes an identity.
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
        let ranges = slice_ranges(made.attrs.get("slice")?)?;
        let bounds = |i: usize| Bounds(ranges.iter().map(|r| Bound::At(r.0[i].clone())).collect());
        let strided = ranges.iter().any(|(_, stride)| *stride != 1);
        let slice = Slice {
            starts: bounds(0),
            limits: bounds(1),
            strides: strided.then(|| ranges.iter().map(|(_, stride)| *stride).collect()),
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

    /// Reverses the order of elements along `axes`, by a slice with stride -1.
    pub(super) fn reversed(&mut self, x: Value, axes: &[usize], ty: &TensorType) -> Option<Value> {
        let dims = self.tensor_of(x)?.dims;
        let mut bounds = Vec::with_capacity(dims.len());
        for (d, dim) in dims.iter().enumerate() {
            // For a dimension of unknown size, the greatest integer stands for its end.
            let n = match dim.fixed() {
                Some(n) => i64::try_from(n).ok()?,
                None => i64::MAX,
            };
            let last = if n == i64::MAX { n } else { n - 1 };
            let back = axes.contains(&d) && 0 < n;
            bounds.push(if back { [last, -1, -1] } else { [0, n, 1] });
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

    /// Pads each dimension by `low` elements before and `high` after it; negative amounts cut elements off.
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

    /// Inserts `gaps[d]` elements between adjacent elements of dimension `d`. A reshape adds a dimension of extent 1 behind
    /// dimension `d`, the new dimension is padded to `gaps[d] + 1` and merged, and a slice cuts off the gap after the last
    /// element. For 3 elements and a gap of 1: `[3]`, `[3, 1]`, `[3, 2]`, `[6]`, `[5]`.
    pub(super) fn spaced(&mut self, x: Value, gaps: &[i64], fill: f64) -> Option<Value> {
        let from = self.tensor_of(x)?;
        if from.rank() != gaps.len() {
            return None;
        }
        if gaps.iter().all(|&gap| gap == 0) {
            return Some(x);
        }
        let (mut cut, mut widened, mut merged, mut kept) = (vec![], vec![], vec![], vec![]);
        let mut high = vec![];
        for (dim, &gap) in from.dims.iter().zip(gaps) {
            let between = u64::try_from(gap).ok()?;
            let step = between.checked_add(1)?;
            let whole = dim.size()?.times(&Size::from(step))?;
            cut.push(dim.clone());
            widened.push(dim.clone());
            high.push(0);
            if between != 0 {
                cut.push(Dim::Fixed(1));
                widened.push(Dim::Fixed(step));
                high.push(gap);
            }
            let none = whole.as_constant() == Some(0);
            let last = whole.minus(&Size::from(if none { 0 } else { between }))?;
            merged.push(Dim::of_size(&whole));
            kept.push(Dim::of_size(&last));
        }
        if kept == from.dims {
            return Some(x);
        }
        let alone = self.reshaped_to(x, &cut)?;
        let none = vec![0; high.len()];
        let wide = TensorType::new(widened, from.dtype);
        let padded = self.padded(alone, &none, &high, fill, wide)?;
        let joined = self.reshaped_to(padded, &merged)?;
        let limits = kept.iter().map(|dim| Some(Bound::At(dim.size()?)));
        let slice = Slice {
            starts: Bounds::of_ints(&vec![0; kept.len()]),
            limits: Bounds(limits.collect::<Option<_>>()?),
            strides: None,
        };
        self.emit(&slice, &[joined], TensorType::new(kept, from.dtype))
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

    /// Imports calls of kernels whose meaning is known by their names. The shapes must agree with that meaning.
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

    /// Imports a concatenation without movement: the buffers of the parts, one after another, are the buffer of the result.
    /// The extents of the parts add up to that of the result in one dimension and equal it in the others, and the bytes add
    /// up too, so there is no padding between parts.
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

/// The maps that make the layout `to` a view of `from`; `None` if there are none.
pub(crate) fn bitcast_maps(from: &Layout, to: &Layout) -> Option<Vec<ViewMap>> {
    deduce(from, to).ok()
}
