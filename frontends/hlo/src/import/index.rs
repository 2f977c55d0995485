//! Reading by index: gathers along one dimension and slices that start where a value says.

use super::elementwise::retyped;
use super::func::FuncCx;
use crate::module::Instruction;
use optc_ir::{Attr, AttrDict, DType, TensorType, Value};

impl FuncCx<'_, '_> {
    /// A gather that takes whole slices along one dimension. HLO moves indices that are out of
    /// bounds to the nearest slice; so does the clamp before the operation.
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
        let &[axis] = &list("start_index_map")?[..] else {
            return None;
        };
        if !list("operand_batching_dims")?.is_empty() {
            return None;
        }
        let shape = self.tensor_of(x)?.shape()?;
        let sizes = list("slice_sizes")?;
        if sizes.len() != shape.len() || shape.len() <= axis {
            return None;
        }
        let whole = |d: usize| u64::try_from(sizes[d]) == Ok(shape[d]);
        let others = (0..shape.len()).filter(|&d| d != axis);
        let only_axis = collapsed.is_empty() || collapsed == [axis];
        if !others.clone().all(whole) || sizes[axis] != 1 || !only_axis || shape[axis] == 0 {
            return None;
        }
        let vector = usize::try_from(made.attrs.int("index_vector_dim")?).ok()?;
        let mut places = self.tensor_of(indices)?.shape()?;
        if vector < places.len() {
            if places.remove(vector) != 1 {
                return None;
            }
        } else if vector != places.len() {
            return None;
        }
        let indices = self.reshaped(indices, &places)?;
        let indices = self.bounded(indices, shape[axis] - 1)?;
        // The operation gives the dimensions before the axis, those of the indices, those after.
        let batch: Vec<usize> = (0..ty.rank()).filter(|d| !offsets.contains(d)).collect();
        if batch.len() != places.len() {
            return None;
        }
        let mut kept = offsets.clone();
        let mut unit = None;
        if collapsed.is_empty() {
            unit = Some(*offsets.get(axis)?);
            kept.remove(axis);
        }
        let before = kept.get(..axis)?;
        let order = [before, &batch, &kept[axis..]].concat();
        let props = AttrDict::new().with("axis", Attr::int(i64::try_from(axis).ok()?));
        let own = retyped(ty, self.tensor_of(x)?.dtype);
        let value = match unit {
            None => self.seen_as("hbir.gather", &[x, indices], props, &order, &own)?,
            Some(_) => {
                let value = self.emit_inferred("hbir.gather", &[x, indices], props)?;
                self.spread(value, &order, &own)?
            }
        };
        self.cast(value, ty)
    }

    /// A value whose dimension `i` is dimension `order[i]` of the result; the others have one element.
    fn spread(&mut self, value: Value, order: &[usize], ty: &TensorType) -> Option<Value> {
        let mut perm: Vec<usize> = (0..order.len()).collect();
        perm.sort_by_key(|&i| order[i]);
        let map = optc_layout::ViewMap {
            shape: None,
            perm: Some(perm),
            result: ty.shape()?,
        };
        self.rearranged(value, &map, ty)
    }

    /// Indices from 0 to `last`.
    fn bounded(&mut self, indices: Value, last: u64) -> Option<Value> {
        let ty = self.tensor_of(indices)?;
        if let Some(known) = self.known_scalar(indices)
            && (0.0..=last as f64).contains(&known)
        {
            return Some(indices);
        }
        let props = AttrDict::new()
            .with("min", Attr::int(0))
            .with("max", Attr::int(i64::try_from(last).ok()?));
        self.emit("hbir.clamp", &[indices], props, ty)
    }

    /// A slice of given sizes: along each dimension that is not taken whole, a gather of as many
    /// neighbours. The start is moved so that the slice lies inside.
    pub(super) fn dynamic_slice(
        &mut self,
        made: &Instruction,
        x: Value,
        starts: &[Value],
        ty: &TensorType,
    ) -> Option<Value> {
        let sizes = made.attrs.ints("dynamic_slice_sizes")?;
        let shape = self.tensor_of(x)?.shape()?;
        if starts.len() != shape.len() || sizes.len() != shape.len() {
            return None;
        }
        let mut at = x;
        let mut done = false;
        for (axis, (&n, &size)) in shape.iter().zip(&sizes).enumerate() {
            let size = u64::try_from(size).ok()?;
            let last = n.checked_sub(size)?;
            if last == 0 {
                continue;
            }
            let start = self.bounded(starts[axis], last)?;
            let index = self.run(start, size)?;
            let props = AttrDict::new().with("axis", Attr::int(i64::try_from(axis).ok()?));
            let mut own = self.tensor_of(at)?;
            own.dims[axis] = optc_ir::Dim::Fixed(size);
            at = self.emit("hbir.gather", &[at, index], props, retyped(&own, own.dtype))?;
            done = true;
        }
        if !done || self.tensor_of(at)?.dims != ty.dims {
            return None;
        }
        let own = retyped(ty, self.tensor_of(at)?.dtype);
        let placed = if self.tensor_of(at)? == own {
            at
        } else {
            self.emit("hbir.identity", &[at], AttrDict::new(), own)?
        };
        self.cast(placed, ty)
    }

    /// `start`, `start + 1`, … as many as `size`.
    fn run(&mut self, start: Value, size: u64) -> Option<Value> {
        let dtype = self.tensor_of(start)?.dtype;
        let start = self.reshaped(start, &[1])?;
        if size == 1 {
            return Some(start);
        }
        let ty = TensorType::fixed(&[size], dtype);
        if dtype == DType::BOOL {
            return None;
        }
        let steps = self.emit(
            "hbir.iota",
            &[],
            AttrDict::new().with("axis", Attr::int(0)),
            ty.clone(),
        )?;
        self.emit("hbir.add", &[start, steps], AttrDict::new(), ty)
    }
}
