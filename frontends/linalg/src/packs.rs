//! Packs and unpacks: a pack is a pad, a reshape that splits tiles off, and a transpose; an unpack is a transpose, a
//! reshape that joins them, and a slice.
//!
//! Example: a pack of `32x12` by tiles of 8 and 4 on the dimensions 0 and 1 is a reshape to `4x8x3x4` and a transpose to
//! `4x3x8x4`.

use crate::func::{FuncCx, Val};
use optc_mlir_syntax::{Op, Parsed};
use optc_ops::{Bounds, Slice};

/// The tiles of a pack or an unpack.
struct Tiles {
    /// The extents with padding, each tiled dimension as two.
    split: Vec<u64>,
    /// The dimension of `split` at each dimension of the packed tensor.
    order: Vec<usize>,
    /// The extents with padding.
    padded: Vec<u64>,
}

impl<'a, 'm> FuncCx<'a, 'm>
where
    'm: 'a,
{
    pub(crate) fn pack(&mut self, op: &Op<'a>) -> Parsed<Option<Val<'a>>> {
        let Some(x) = op.operands.first() else {
            return Ok(None);
        };
        let Some(value) = self.tensor(x)? else {
            return Ok(None);
        };
        let shape = self.shape(value);
        let Some(tiles) = self.tiles(op, &shape) else {
            return Ok(None);
        };
        let sizes = self.ints(op, "operandSegmentSizes").unwrap_or_default();
        let filler = op.operands.get(2).filter(|_| sizes.get(2) == Some(&1));
        let Some(filler) = self.filler(filler, self.dtype(value))? else {
            return Ok(None);
        };
        Ok((|| {
            let more: Vec<u64> = tiles
                .padded
                .iter()
                .zip(&shape)
                .map(|(padded, n)| padded - n)
                .collect();
            let value = self.padded(
                value,
                &vec![0; shape.len()],
                &optc_ops::ints(&more),
                &filler,
            )?;
            let value = self.reshaped(value, &tiles.split)?;
            self.transposed(value, &tiles.order).map(Val::Tensor)
        })())
    }

    pub(crate) fn unpack(&mut self, op: &Op<'a>) -> Parsed<Option<Val<'a>>> {
        let (Some(x), Some(result)) = (op.operands.first(), op.result_types.first()) else {
            return Ok(None);
        };
        let (Some(value), crate::types::Ty::Tensor(shape, _)) = (self.tensor(x)?, self.ty(result))
        else {
            return Ok(None);
        };
        let Some(tiles) = self.tiles(op, &shape) else {
            return Ok(None);
        };
        let own: Vec<u64> = tiles.order.iter().map(|&d| tiles.split[d]).collect();
        if self.shape(value) != own {
            return Ok(None);
        }
        Ok((|| {
            let mut back = vec![0; tiles.order.len()];
            for (i, &d) in tiles.order.iter().enumerate() {
                back[d] = i;
            }
            let value = self.transposed(value, &back)?;
            let value = self.reshaped(value, &tiles.padded)?;
            if tiles.padded == shape {
                return Some(Val::Tensor(value));
            }
            let slice = Slice {
                starts: Bounds::of_ints(&vec![0; shape.len()]),
                limits: Bounds::of_ints(&optc_ops::ints(&shape)),
                strides: None,
            };
            self.one(&slice, &[value]).map(Val::Tensor)
        })())
    }

    /// The tiles by the attributes of an operation; `shape` is that of the unpacked tensor.
    fn tiles(&self, op: &Op<'a>, shape: &[u64]) -> Option<Tiles> {
        let dims = self.indices(op, "inner_dims_pos")?;
        let sizes = self.indices(op, "static_inner_tiles")?;
        let outer = self.indices(op, "outer_dims_perm").unwrap_or_default();
        let outer = match outer.is_empty() {
            true => (0..shape.len()).collect(),
            false => outer,
        };
        if dims.len() != sizes.len() || outer.len() != shape.len() {
            return None;
        }
        let mut tiles = Tiles {
            split: Vec::new(),
            order: Vec::new(),
            padded: Vec::new(),
        };
        // The dimension of `split` of the tiles of each dimension, and of the elements in a tile.
        let mut places = Vec::with_capacity(shape.len());
        for (d, &n) in shape.iter().enumerate() {
            let size = match dims.iter().position(|&own| own == d) {
                Some(i) => Some(u64::try_from(sizes[i]).ok().filter(|&size| size != 0)?),
                None => None,
            };
            let place = tiles.split.len();
            places.push((place, place + 1));
            match size {
                None => {
                    tiles.split.push(n);
                    tiles.padded.push(n);
                }
                Some(size) => {
                    let count = n.div_ceil(size);
                    tiles.split.extend([count, size]);
                    tiles.padded.push(count.checked_mul(size)?);
                }
            }
        }
        for d in outer {
            tiles.order.push(places.get(d)?.0);
        }
        for d in dims {
            tiles.order.push(places.get(d)?.1);
        }
        Some(tiles)
    }
}
