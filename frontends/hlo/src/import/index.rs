//! Reads by index: gathers along one dimension, and slices with computed starts.

use super::elementwise::{Reducer, retyped};
use super::func::FuncCx;
use super::types::dtype;
use crate::infer::size_list;
use crate::module::Instruction;
use optc_ir::op::Attributes;
use optc_ir::{Attr, AttrDict, DType, Dim, Size, TensorType, Value};
use optc_ops::{
    Add, Bound, Bounds, DynamicUpdateSlice, Gather, Identity, Iota, Max, Min, ScatterNd,
    ScatterReduction, Slice,
};

impl FuncCx<'_, '_> {
    /// A gather of slices along one dimension that are whole in the other dimensions. HLO moves indices that are out of
    /// bounds to the nearest slice; a clamp before the operation does the same.
    pub(super) fn gather(
        &mut self,
        made: &Instruction,
        x: Value,
        indices: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let list = |name: &str| -> Option<Vec<usize>> {
            let list = made.attrs.ints(name).unwrap_or_default();
            list.into_iter().map(|n| usize::try_from(n).ok()).collect()
        };
        let (offsets, collapsed) = (list("offset_dims")?, list("collapsed_slice_dims")?);
        if !list("operand_batching_dims")?.is_empty() {
            return None;
        }
        let mapped = list("start_index_map")?;
        let &[axis] = &mapped[..] else {
            return self.gather_places(made, [x, indices], &mapped, [&offsets, &collapsed], ty);
        };
        let dims = self.tensor_of(x)?.dims;
        let sizes = size_list(made.attrs.get("slice_sizes")?)?;
        if sizes.len() != dims.len() || dims.len() <= axis {
            return None;
        }
        let whole = |d: usize| dims[d].size().as_ref() == Some(&sizes[d]);
        let others = (0..dims.len()).filter(|&d| d != axis);
        let only_axis = collapsed.is_empty() || collapsed == [axis];
        let taken = sizes[axis].as_extent().filter(|&n| 0 < n)?;
        let fits = others.clone().all(whole) && only_axis;
        if !fits || (taken != 1 && !collapsed.is_empty()) {
            return None;
        }
        let vector = usize::try_from(made.attrs.int("index_vector_dim")?).ok()?;
        let mut places = self.tensor_of(indices)?.dims;
        if vector < places.len() {
            if !places.remove(vector).is_one() {
                return None;
            }
        } else if vector != places.len() {
            return None;
        }
        let indices = self.reshaped_to(indices, &places)?;
        let indices = self.bounded(indices, &dims[axis], taken)?;
        let indices = self.run(indices, taken)?;
        // The operation's result has the dimensions before the axis, those of the indices, and those after the axis.
        let batch: Vec<usize> = (0..ty.rank()).filter(|d| !offsets.contains(d)).collect();
        if batch.len() != places.len() {
            return None;
        }
        let mut kept = offsets.clone();
        let mut run = Vec::new();
        if collapsed.is_empty() {
            let place = *offsets.get(axis)?;
            kept.remove(axis);
            if taken != 1 {
                run.push(place);
            }
        }
        let before = kept.get(..axis)?;
        let order = [before, &batch, &run, &kept[axis..]].concat();
        let axis = i64::try_from(axis).ok()?;
        let own = retyped(ty, self.tensor_of(x)?.dtype);
        let value = if order.len() == ty.rank() {
            let props = Gather { axis }.write();
            self.seen_as("hbir.gather", &[x, indices], props, &order, &own)?
        } else {
            let value = self.emit_inferred(&Gather { axis }, &[x, indices])?;
            self.spread(value, &order, &own)?
        };
        self.cast(value, ty)
    }

    /// A gather whose indices name a place in the dimensions `mapped`, and whose slices are whole in the others.
    fn gather_places(
        &mut self,
        made: &Instruction,
        [x, indices]: [Value; 2],
        mapped: &[usize],
        [offsets, collapsed]: [&[usize]; 2],
        ty: &TensorType,
    ) -> Option<Value> {
        let shape = self.tensor_of(x)?.shape()?;
        let sizes = made.attrs.ints("slice_sizes")?;
        let fits = |(d, &size): (usize, &i64)| match mapped.contains(&d) {
            true => size == 1 && 0 < shape[d],
            false => u64::try_from(size) == Ok(shape[d]) && !collapsed.contains(&d),
        };
        let inside = mapped.iter().all(|&d| d < shape.len());
        if !inside || sizes.len() != shape.len() || !sizes.iter().enumerate().all(fits) {
            return None;
        }
        let others: Vec<usize> = (0..shape.len()).filter(|d| !mapped.contains(d)).collect();
        let given = self.tensor_of(indices)?;
        let vector = usize::try_from(made.attrs.int("index_vector_dim")?).ok()?;
        let DType::Int { bits, .. } = given.dtype else {
            return None;
        };
        if given.shape()?.get(vector) != u64::try_from(mapped.len()).ok().as_ref() || bits < 8 {
            return None;
        }
        let batches: Vec<usize> = (0..given.rank()).filter(|&d| d != vector).collect();
        let indices = self.permuted(indices, &[&batches[..], &[vector]].concat())?;
        // Indices are clamped, each coordinate to its own dimension.
        let width = usize::from(bits.div_ceil(8)).min(8);
        let mut last = Vec::new();
        for &d in mapped {
            if (shape[d] - 1).checked_shr(u32::from(bits) - 1) != Some(0) {
                return None;
            }
            last.extend_from_slice(&(shape[d] - 1).to_le_bytes()[..width]);
        }
        let limits = TensorType::fixed(&[u64::try_from(mapped.len()).ok()?], given.dtype);
        let zeros = self.numbers(vec![0; last.len()], limits.clone())?;
        let last = self.numbers(last, limits)?;
        let own = self.tensor_of(indices)?;
        let above = self.emit(&Max {}, &[indices, zeros], own.clone())?;
        let places = self.emit(&Min {}, &[above, last], own)?;
        let x = self.permuted(x, &[mapped, &others].concat())?;
        let value = self.emit_inferred_named("hbir.gather_nd", &[x, places])?;
        // The places in the result of the operand's dimensions that are not dropped.
        let stays = (0..shape.len()).filter(|d| !collapsed.contains(d));
        let mut order: Vec<usize> = (0..ty.rank()).filter(|d| !offsets.contains(d)).collect();
        if order.len() != batches.len() {
            return None;
        }
        for (d, place) in stays.zip(offsets) {
            if others.contains(&d) {
                order.push(*place);
            }
        }
        let own = retyped(ty, self.tensor_of(value)?.dtype);
        let value = self.spread(value, &order, &own)?;
        self.cast(value, ty)
    }

    /// A value whose dimension `i` is dimension `order[i]` of the result; the other dimensions have extent 1.
    fn spread(&mut self, value: Value, order: &[usize], ty: &TensorType) -> Option<Value> {
        let mut perm: Vec<usize> = (0..order.len()).collect();
        perm.sort_by_key(|&i| order[i]);
        let Some(result) = ty.shape() else {
            let value = self.permuted(value, &perm)?;
            return self.reshaped_to(value, &ty.dims);
        };
        let map = optc_layout::ViewMap {
            shape: None,
            perm: Some(perm),
            result,
        };
        self.rearranged(value, &map, ty)
    }

    /// Starts of slices of `taken` elements, clamped so that the slices lie within a dimension.
    fn bounded(&mut self, indices: Value, dim: &Dim, taken: u64) -> Option<Value> {
        let ty = self.tensor_of(indices)?;
        let known = self.known_scalar(indices);
        let Some(n) = dim.fixed() else {
            // The least possible size is 1.
            let fits = known == Some(0.0) && taken == 1;
            return match fits {
                true => Some(indices),
                false => self.bounded_by_size(indices, dim, taken, ty),
            };
        };
        let last = n.checked_sub(taken)?;
        if known.is_some_and(|known| (0.0..=last as f64).contains(&known)) {
            return Some(indices);
        }
        let props = AttrDict::new()
            .with("min", Attr::int(0))
            .with("max", Attr::int(i64::try_from(last).ok()?));
        self.emit_named("hbir.clamp", &[indices], props, ty)
    }

    /// Clamps as [`FuncCx::bounded`] does, in a dimension of unknown size. The last index is computed from that size.
    fn bounded_by_size(
        &mut self,
        indices: Value,
        dim: &Dim,
        taken: u64,
        ty: TensorType,
    ) -> Option<Value> {
        let wide = matches!(ty.dtype, DType::Int { bits, .. } if 32 <= bits);
        let n = dim.size().filter(|_| wide)?;
        let start = n.minus(&Size::from(taken))?;
        let places = TensorType::new(vec![dim.clone()], ty.dtype);
        let places = self.emit(&Iota { axis: 0 }, &[], places)?;
        let slice = Slice {
            limits: Bounds(vec![Bound::At(start.plus(&Size::constant(1))?)]),
            starts: Bounds(vec![Bound::At(start)]),
            strides: None,
        };
        let last = self.emit(&slice, &[places], TensorType::fixed(&[1], ty.dtype))?;
        let last = self.reshaped(last, &[])?;
        let width = usize::try_from(ty.dtype.bits() / 8).ok()?;
        let zero = self.numbers(vec![0; width], TensorType::fixed(&[], ty.dtype))?;
        let below = self.emit(&Min {}, &[indices, last], ty.clone())?;
        self.emit(&Max {}, &[below, zero], ty)
    }

    /// A slice of given sizes. Each dimension that is not whole is a gather of adjacent elements. The start is clamped
    /// so that the slice lies inside.
    pub(super) fn dynamic_slice(
        &mut self,
        made: &Instruction,
        x: Value,
        starts: &[Value],
        ty: &TensorType,
    ) -> Option<Value> {
        let sizes = size_list(made.attrs.get("dynamic_slice_sizes")?)?;
        let dims = self.tensor_of(x)?.dims;
        if starts.len() != dims.len() || sizes.len() != dims.len() {
            return None;
        }
        let mut at = x;
        for (axis, (dim, size)) in dims.iter().zip(&sizes).enumerate() {
            if dim.size().as_ref() == Some(size) {
                continue;
            }
            let size = size.as_extent()?;
            let start = self.bounded(starts[axis], dim, size)?;
            let start = self.reshaped(start, &[])?;
            let index = match size {
                1 => self.reshaped(start, &[1])?,
                _ => self.run(start, size)?,
            };
            let mut own = self.tensor_of(at)?;
            own.dims[axis] = Dim::Fixed(size);
            let axis = i64::try_from(axis).ok()?;
            at = self.emit(&Gather { axis }, &[at, index], retyped(&own, own.dtype))?;
        }
        if self.tensor_of(at)?.dims != ty.dims {
            return None;
        }
        let own = retyped(ty, self.tensor_of(at)?.dtype);
        let placed = if self.tensor_of(at)? == own {
            at
        } else {
            self.emit(&Identity {}, &[at], own)?
        };
        self.cast(placed, ty)
    }

    /// A copy of the operand with a box overwritten, computed in the first operand's element type.
    pub(super) fn update_slice(&mut self, args: &[Value], ty: &TensorType) -> Option<Value> {
        let [x, update, starts @ ..] = args else {
            return None;
        };
        let (from, part) = (self.tensor_of(*x)?, self.tensor_of(*update)?);
        let update = self.cast(*update, &retyped(&part, from.dtype))?;
        let operands = [&[*x, update], starts].concat();
        let own = retyped(ty, from.dtype);
        let value = self.emit(&DynamicUpdateSlice {}, &operands, own)?;
        self.cast(value, ty)
    }

    /// A copy of the operand in which updates replace or change slices that are whole but for the dimensions `mapped`,
    /// where they have one element. HLO leaves out updates outside of the operand.
    pub(super) fn scatter(
        &mut self,
        made: &Instruction,
        [x, indices, updates]: [Value; 3],
        ty: &TensorType,
    ) -> Option<Value> {
        let list = |name: &str| -> Option<Vec<usize>> {
            let list = made.attrs.ints(name).unwrap_or_default();
            list.into_iter().map(|n| usize::try_from(n).ok()).collect()
        };
        let reduction = self.scatter_reduction(made)?;
        let (window, inserted) = (list("update_window_dims")?, list("inserted_window_dims")?);
        let mapped = list("scatter_dims_to_operand_dims")?;
        let (data, given, new) = (
            self.tensor_of(x)?,
            self.tensor_of(indices)?,
            self.tensor_of(updates)?,
        );
        if !list("input_batching_dims")?.is_empty() || mapped.iter().any(|&d| data.rank() <= d) {
            return None;
        }
        // The dimension of the updates for each dimension of the operand that is not inserted.
        let stays: Vec<usize> = (0..data.rank()).filter(|d| !inserted.contains(d)).collect();
        if stays.len() != window.len() || window.iter().any(|&d| new.rank() <= d) {
            return None;
        }
        let fits = |(d, at): (&usize, &usize)| match mapped.contains(d) {
            true => new.dims[*at].is_one(),
            false => new.dims[*at] == data.dims[*d],
        };
        if !stays.iter().zip(&window).all(fits) || inserted.iter().any(|d| !mapped.contains(d)) {
            return None;
        }
        let others: Vec<usize> = (0..data.rank()).filter(|d| !mapped.contains(d)).collect();
        let of_other = |d: &usize| Some(window[stays.iter().position(|s| s == d)?]);
        let over: Vec<usize> = others.iter().map(of_other).collect::<Option<_>>()?;
        let batch: Vec<usize> = (0..new.rank()).filter(|d| !window.contains(d)).collect();
        let vector = usize::try_from(made.attrs.int("index_vector_dim")?).ok()?;
        let tuples: Vec<usize> = (0..given.rank()).filter(|&d| d != vector).collect();
        let mut places: Vec<Dim> = tuples.iter().map(|&d| given.dims[d].clone()).collect();
        let depth = given.dims.get(vector).map_or(Some(1), Dim::fixed)?;
        if usize::try_from(depth) != Ok(mapped.len()) || batch.len() != tuples.len() {
            return None;
        }
        let order = match vector < given.rank() {
            true => [&tuples[..], &[vector]].concat(),
            false => tuples,
        };
        places.push(Dim::Fixed(depth));
        let indices = self.permuted(indices, &order)?;
        let indices = self.reshaped_to(indices, &places)?;
        // Dimensions of one element, for those of the operand that are mapped and not inserted, come last and go.
        let ones: Vec<usize> = window
            .iter()
            .copied()
            .filter(|d| !over.contains(d))
            .collect();
        let updates = self.permuted(updates, &[&batch[..], &over, &ones].concat())?;
        let kept = batch.iter().chain(&over).map(|&d| new.dims[d].clone());
        let updates = self.reshaped_to(updates, &kept.collect::<Vec<Dim>>())?;
        let turned = [&mapped[..], &others].concat();
        let x = self.permuted(x, &turned)?;
        let updates = {
            let part = self.tensor_of(updates)?;
            self.cast(updates, &retyped(&part, data.dtype))?
        };
        let op = ScatterNd {
            reduction,
            drop_outside: true,
        };
        let value = self.emit_inferred(&op, &[x, indices, updates])?;
        let own = retyped(ty, self.tensor_of(value)?.dtype);
        let value = self.spread(value, &turned, &own)?;
        self.cast(value, ty)
    }

    /// The combination of an element and its update.
    fn scatter_reduction(&self, made: &Instruction) -> Option<ScatterReduction> {
        if self.is_second(made)? {
            return Some(ScatterReduction::None);
        }
        let element = made.shape.as_array().and_then(|s| dtype(s.element))?;
        match self.reducer(made)? {
            _ if element.is_bool() => None,
            Reducer::Sum => Some(ScatterReduction::Add),
            Reducer::Product => Some(ScatterReduction::Mul),
            Reducer::Max => Some(ScatterReduction::Max),
            Reducer::Min => Some(ScatterReduction::Min),
            Reducer::And | Reducer::Or => None,
        }
    }

    /// A run `start`, `start + 1`, … of `size` indices for each start, in a last dimension; the starts themselves if
    /// `size` is 1.
    fn run(&mut self, starts: Value, size: u64) -> Option<Value> {
        if size == 1 {
            return Some(starts);
        }
        let from = self.tensor_of(starts)?;
        if from.dtype == DType::BOOL {
            return None;
        }
        let mut dims = from.dims;
        dims.push(Dim::Fixed(1));
        let starts = self.reshaped_to(starts, &dims)?;
        let steps = TensorType::fixed(&[size], from.dtype);
        let steps = self.emit(&Iota { axis: 0 }, &[], steps)?;
        if let Some(last) = dims.last_mut() {
            *last = Dim::Fixed(size);
        }
        let ty = TensorType::new(dims, from.dtype);
        self.emit(&Add {}, &[starts, steps], ty)
    }
}
