//! Conversions between memory with padding and dense tensors: slices, packs and unpacks.

use super::digits::{extents, row_major};
use super::mem::Mem;
use super::stored::{StoreStep, Stored, Tiles};
use super::types::{dtype_name, number_text};
use super::writer::Writer;
use optc_ir::DType;
use optc_layout::{Cuts, Digit};

impl Writer<'_> {
    /// The part of the memory that holds digits, as a slice: nothing moves.
    pub(super) fn held(&mut self, mem: &Mem, stored: &Stored) -> Mem {
        let mem = self.reshape(mem, &stored.extents());
        let kept = extents(&stored.digits());
        self.part(&mem, None, &stored.counts(), &kept)
    }

    /// The memory as `read` describes it: a slice if all positions exist, else a copy with room for more.
    pub(super) fn roomy(&mut self, mem: &Mem, own: &Stored, read: &Stored) -> Mem {
        let (counts, wanted) = (own.counts(), read.counts());
        let held = self.held(mem, own);
        if counts == wanted {
            return held;
        }
        let made = self.within(&held, None, &counts, &wanted);
        self.reshape(&made, &extents(&read.digits()))
    }

    /// A slice with these offsets (0 if `None`) and sizes, as a tensor with extents `kept`. Equal slices of a tensor
    /// are written once.
    fn part(&mut self, mem: &Mem, low: Option<&[u64]>, sizes: &[u64], kept: &[u64]) -> Mem {
        if mem.shape == sizes {
            return self.reshape(mem, kept);
        }
        let low = low.map_or(vec![0; sizes.len()], <[u64]>::to_vec);
        let key = (mem.name.clone(), [&low, sizes, kept].concat());
        if let Some(known) = self.opened.get(&key) {
            return known.clone();
        }
        let text = format!(
            "tensor.extract_slice {}{low:?} {} {:?} : {} to {}",
            mem.name,
            self.sizes.list(sizes),
            vec![1; sizes.len()],
            self.sizes.ty(mem),
            self.sizes.tensor(kept, mem.dtype)
        );
        let made = self.put(&text, kept, mem.dtype);
        self.gaps.insert(made.name.clone());
        self.opened.insert(key, made.clone());
        made
    }

    /// Inserts a tensor into memory of extents `shape` at these offsets (0 if `None`). All other positions are
    /// unspecified.
    fn within(&mut self, mem: &Mem, low: Option<&[u64]>, sizes: &[u64], shape: &[u64]) -> Mem {
        if sizes == shape {
            return self.reshape(mem, shape);
        }
        let low = low.map_or(vec![0; sizes.len()], <[u64]>::to_vec);
        let kept: Vec<u64> = sizes.iter().copied().filter(|n| *n != 1).collect();
        let mem = self.reshape(mem, &kept);
        let into = self.empty(shape, mem.dtype);
        let text = format!(
            "tensor.insert_slice {} into {}{low:?} {} {:?} : {} into {}",
            mem.name,
            into.name,
            self.sizes.list(sizes),
            vec![1; sizes.len()],
            self.sizes.ty(&mem),
            self.sizes.ty(&into)
        );
        self.put(&text, shape, mem.dtype)
    }

    /// The elements of memory with padding, without it, in the order of [`Stored::dense`].
    pub(super) fn dense(&mut self, mem: &Mem, stored: &Stored) -> Mem {
        match stored.is_ragged() {
            true => self.unpacked(mem, stored, &row_major(&stored.shape)),
            false => self.held(mem, stored),
        }
    }

    /// Puts elements in the order `digits` into memory. The digits are of the value's own shape, or of the shape that
    /// the memory fills.
    pub(super) fn placed(&mut self, mem: &Mem, digits: &[Digit], stored: &Stored) -> Mem {
        if !stored.is_ragged() || stored.holds(digits) {
            let mem = self.arrange(mem, digits, &stored.digits());
            return self.within(&mem, None, &stored.counts(), &stored.extents());
        }
        self.packed(mem, digits, stored)
    }

    /// Puts elements whose digits are of the value's own shape into memory: one pack if the memory is in tiles of that
    /// order, else padding and one transpose.
    fn packed(&mut self, mem: &Mem, digits: &[Digit], stored: &Stored) -> Mem {
        if let Some(tiles) = stored.tiles(digits) {
            return self.pack(mem, digits, stored, &tiles);
        }
        let whole = row_major(&stored.shape);
        let mem = self.arrange(mem, digits, &whole);
        if !stored.is_digital() {
            return self.stepped(&mem, stored);
        }
        let (sizes, filled) = (stored.shape.clone(), stored.filled.clone());
        let mem = self.within(&mem, None, &sizes, &filled);
        let mem = self.arrange(&mem, &row_major(&filled), &stored.digits());
        self.within(&mem, None, &stored.counts(), &stored.extents())
    }

    /// The elements of memory with padding, in the order `to`, whose digits are of the value's own shape: one unpack if
    /// the memory is in tiles of that order, else one transpose and a slice.
    fn unpacked(&mut self, mem: &Mem, stored: &Stored, to: &[Digit]) -> Mem {
        let key = (mem.name.clone(), stored.clone());
        let plain = to == row_major(&stored.shape);
        if let Some(known) = self.unpacked.get(&key).filter(|_| plain) {
            return known.clone();
        }
        let made = match stored.tiles(to) {
            Some(tiles) => self.unpack(mem, to, &tiles),
            None if !stored.is_digital() => {
                let own = self.stepped_back(mem, stored);
                self.arrange(&own, &row_major(&stored.shape), to)
            }
            None => {
                let held = self.held(mem, stored);
                let whole = row_major(&stored.filled);
                let rows = self.arrange(&held, &stored.digits(), &whole);
                let rows = self.reshape(&rows, &stored.filled);
                let own = row_major(&stored.shape);
                let rows = self.part(&rows, None, &stored.shape, &extents(&own));
                self.arrange(&rows, &own, to)
            }
        };
        if plain {
            self.unpacked.insert(key, made.clone());
        }
        made
    }

    /// Applies the steps from a row-major tensor to memory.
    fn stepped(&mut self, mem: &Mem, stored: &Stored) -> Mem {
        let mut from = stored.shape.clone();
        let mut mem = mem.clone();
        for step in &stored.steps {
            mem = self.reshape(&mem, &from);
            from = step.shape().to_vec();
            mem = match step {
                StoreStep::Pad { low, shape } => {
                    let sizes = mem.shape.clone();
                    self.within(&mem, Some(low), &sizes, shape)
                }
                StoreStep::Crop { shape } => self.part(&mem, None, shape, shape),
                StoreStep::Reshape { shape } => self.reshape(&mem, shape),
                StoreStep::Transpose { perm, .. } => self.transposed(&mem, perm),
            };
        }
        mem
    }

    /// Applies the inverse steps, from memory to a row-major tensor.
    fn stepped_back(&mut self, mem: &Mem, stored: &Stored) -> Mem {
        let mut mem = mem.clone();
        for (i, step) in stored.steps.iter().enumerate().rev() {
            let before = i
                .checked_sub(1)
                .map_or(&*stored.shape, |i| stored.steps[i].shape());
            mem = self.reshape(&mem, step.shape());
            mem = match step {
                StoreStep::Pad { low, .. } => self.part(&mem, Some(low), before, before),
                StoreStep::Crop { shape } => self.within(&mem, None, shape, before),
                StoreStep::Reshape { .. } => self.reshape(&mem, before),
                StoreStep::Transpose { perm, .. } => {
                    let mut back: Vec<usize> = (0..perm.len()).collect();
                    back.sort_by_key(|&i| perm[i]);
                    self.transposed(&mem, &back)
                }
            };
        }
        mem
    }

    fn pack(&mut self, mem: &Mem, digits: &[Digit], stored: &Stored, tiles: &Tiles) -> Mem {
        let mem = self.reshape(mem, &extents(digits));
        let element = dtype_name(mem.dtype).unwrap_or_default();
        let uneven = tiles
            .inner
            .iter()
            .any(|&(at, n)| !mem.shape[at].is_multiple_of(n));
        let padding = match uneven {
            true => {
                let zero = self.zero(mem.dtype);
                format!(" padding_value({zero} : {element})")
            }
            false => String::new(),
        };
        let into = self.empty(&tiles.shape, mem.dtype);
        let text = format!(
            "tensor.pack {}{padding} {} into {} : {} -> {}",
            mem.name,
            written(tiles),
            into.name,
            self.sizes.ty(&mem),
            self.sizes.ty(&into)
        );
        let made = self.put(&text, &tiles.shape, mem.dtype);
        let made = self.reshape(&made, &stored.extents());
        // Remembers the source of the pack, so that it need not be unpacked.
        if digits == row_major(&stored.shape) {
            self.unpacked
                .insert((made.name.clone(), stored.clone()), mem);
        }
        made
    }

    fn unpack(&mut self, mem: &Mem, to: &[Digit], tiles: &Tiles) -> Mem {
        let mem = self.reshape(mem, &tiles.shape);
        let into = self.empty(&extents(to), mem.dtype);
        let text = format!(
            "tensor.unpack {} {} into {} : {} -> {}",
            mem.name,
            written(tiles),
            into.name,
            self.sizes.ty(&mem),
            self.sizes.ty(&into)
        );
        self.put(&text, &into.shape, mem.dtype)
    }

    /// Writes a zero and returns its name.
    fn zero(&mut self, dtype: DType) -> String {
        let name = self.fresh();
        let number = number_text(0.0, dtype);
        let typed = match dtype.is_bool() {
            true => String::new(),
            false => format!(" : {}", dtype_name(dtype).unwrap_or_default()),
        };
        self.line(&format!("{name} = arith.constant {number}{typed}"));
        name
    }

    /// Converts memory to another layout: nothing if both have the same bytes, else one operation that moves elements,
    /// if there is one.
    pub(super) fn converted(&mut self, mem: &Mem, from: &Stored, to: &Stored) -> Mem {
        if from.is_exact() && to.is_exact() {
            return self.arrange(mem, &from.digits(), &to.digits());
        }
        if (&from.places, &from.steps) == (&to.places, &to.steps) {
            return mem.clone();
        }
        // Both have the same positions, including padding.
        if from.filled == to.filled && from.is_digital() && to.is_digital() {
            let turned = !follows(&from.digits(), &to.digits());
            if let (true, true, Some(tiles)) = (turned, from.is_exact(), to.tiles(&from.digits())) {
                return self.pack(mem, &from.digits(), to, &tiles);
            }
            if let (true, true, Some(tiles)) = (turned, to.is_exact(), from.tiles(&to.digits())) {
                return self.unpack(mem, &to.digits(), &tiles);
            }
            let held = self.held(mem, from);
            return self.placed(&held, &from.digits(), to);
        }
        if !to.is_ragged() && from.tiles(&to.digits()).is_some() {
            let made = self.unpacked(mem, from, &to.digits());
            return self.within(&made, None, &to.counts(), &to.extents());
        }
        let dense = self.dense(mem, from);
        self.placed(&dense, &from.dense(), to)
    }
}

/// Returns whether the digits of one shape are in the same order.
fn follows(a: &[Digit], b: &[Digit]) -> bool {
    let cuts = Cuts::of(&[a, b]);
    cuts.refine(a)
        .is_some_and(|own| Some(own) == cuts.refine(b))
}

/// The attributes of a pack or unpack.
fn written(tiles: &Tiles) -> String {
    let (at, sizes): (Vec<usize>, Vec<u64>) = tiles.inner.iter().copied().unzip();
    format!(
        "outer_dims_perm = {:?} inner_dims_pos = {at:?} inner_tiles = {sizes:?}",
        tiles.outer
    )
}
