//! A layout as a program: pads, reshapes and transposes from the tensor to its buffer.
//!
//! XLA defines tiling in these terms, tile by tile. Every layout has this form here if its offsets are distinct, no
//! stride is negative and each stride divides the next larger one. The last reshape is the buffer.
//!
//! For example, `{1,0:T(2,2)}` of a 3x5 tensor is a pad to 4x6, a reshape to 2x2x3x2, a transpose by `[0, 2, 1, 3]` to
//! 2x3x2x2, and a reshape to 24 positions.

use crate::chain::steps;
use crate::function::independent_groups;
use crate::layout::Layout;
use crate::notation::Notation;
use crate::notation::xla::{TileDim, XlaNotation};

/// One step of an [`Explanation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rearrangement {
    /// Adds elements without a defined value before and behind each dimension.
    Pad {
        /// Elements before each dimension.
        low: Vec<u64>,
        /// Elements behind each dimension.
        high: Vec<u64>,
    },
    /// Cuts off the last positions of a line, which hold no element.
    Crop {
        /// The number of positions.
        high: u64,
    },
    /// Keeps the row-major numbers under another shape.
    Reshape {
        /// Elements along each dimension.
        shape: Vec<u64>,
    },
    /// Reorders the dimensions.
    Transpose {
        /// Input axis of each output axis.
        perm: Vec<usize>,
    },
}

/// A layout as pads, reshapes and transposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Elements along each dimension of the tensor.
    pub shape: Vec<u64>,
    /// The steps, each with its purpose.
    pub steps: Vec<(Rearrangement, String)>,
    /// Positions of the buffer.
    pub positions: u64,
}

/// The reason why a layout is not a program of pads, reshapes and transposes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// Elements share an offset, or dimensions run backwards.
    #[error("elements share offsets or run backwards, which no pad, reshape and transpose does")]
    Strides,
    /// A stride that does not divide the next larger one: elements interleave.
    #[error("a stride of {stride} does not divide {above}, the room above it: elements interleave")]
    Interleaved {
        /// The stride, in elements.
        stride: u64,
        /// The next larger stride, in elements.
        above: u64,
    },
}

/// Writes a layout as pads, reshapes and transposes.
///
/// # Errors
/// No such program has the strides of the layout.
pub fn explain(layout: &Layout) -> Result<Explanation, ExplainError> {
    let mut writer = Writer {
        current: layout.shape().to_vec(),
        steps: Vec::new(),
    };
    if layout.elements() != 0 {
        match layout.notation() {
            Notation::Xla(xla) => writer.tiles(xla),
            _ => writer.digits(layout)?,
        }
    }
    writer.buffer(layout);
    Ok(Explanation {
        shape: layout.shape().to_vec(),
        steps: writer.steps,
        positions: layout.positions(),
    })
}

impl Explanation {
    /// One sentence for each step, with the shape after it.
    #[must_use]
    pub fn words(&self) -> String {
        let mut text = format!("a tensor of shape {}\n", dims(&self.shape));
        let mut shape = self.shape.clone();
        for (i, (step, what)) in self.steps.iter().enumerate() {
            shape = after(step, &shape);
            text += &format!("{:2}. {what}: {}\n", i + 1, dims(&shape));
        }
        text
    }

    /// A function in optc's text that performs the steps; `element` is an MLIR element type.
    #[must_use]
    pub fn ir(&self, element: &str) -> String {
        let ty = |shape: &[u64]| {
            let dims: String = shape.iter().map(|size| format!("{size}x")).collect();
            format!("tensor<{dims}{element}>")
        };
        let (from, to) = (ty(&self.shape), ty(&[self.positions]));
        let mut text = format!("func.func @layout(%x: {from}) -> {to} {{\n");
        let mut shape = self.shape.clone();
        let mut value = "%x".to_owned();
        for (i, (step, _)) in self.steps.iter().enumerate() {
            let next = after(step, &shape);
            let (name, attributes) = match step {
                Rearrangement::Pad { low, high } => {
                    ("pad", format!("high = {high:?}, low = {low:?}"))
                }
                Rearrangement::Crop { high } => ("pad", format!("high = [-{high}]")),
                Rearrangement::Reshape { shape } => ("reshape", format!("shape = {shape:?}")),
                Rearrangement::Transpose { perm } => ("transpose", format!("perm = {perm:?}")),
            };
            let types = format!("({}) -> {}", ty(&shape), ty(&next));
            text += &format!("  %{i} = \"hbir.{name}\"({value}) <{{{attributes}}}> : {types}\n");
            (shape, value) = (next, format!("%{i}"));
        }
        text + &format!("  return {value} : {to}\n}}\n")
    }
}

fn after(step: &Rearrangement, shape: &[u64]) -> Vec<u64> {
    match step {
        Rearrangement::Pad { low, high } => {
            let padded = |((n, low), high): ((&u64, &u64), &u64)| n + low + high;
            shape.iter().zip(low).zip(high).map(padded).collect()
        }
        Rearrangement::Crop { high } => shape.iter().map(|n| n.saturating_sub(*high)).collect(),
        Rearrangement::Reshape { shape } => shape.clone(),
        Rearrangement::Transpose { perm } => perm.iter().map(|&axis| shape[axis]).collect(),
    }
}

/// `4x6`; `one element` for rank 0.
fn dims(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "one element".to_owned();
    }
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    sizes.join("x")
}

struct Writer {
    current: Vec<u64>,
    steps: Vec<(Rearrangement, String)>,
}

impl Writer {
    fn push(&mut self, step: Rearrangement, what: String) {
        self.current = after(&step, &self.current);
        self.steps.push((step, what));
    }

    fn reshape(&mut self, shape: Vec<u64>, what: String) {
        if shape != self.current {
            self.push(Rearrangement::Reshape { shape }, what);
        }
    }

    fn transpose(&mut self, perm: Vec<usize>, what: String) {
        if !perm.is_sorted() {
            self.push(Rearrangement::Transpose { perm }, what);
        }
    }

    /// Pads each dimension to the given size.
    fn pad_to(&mut self, sizes: &[u64], what: &str) {
        let high: Vec<u64> = sizes
            .iter()
            .zip(&self.current)
            .map(|(n, old)| n - old)
            .collect();
        if high.iter().any(|&n| 0 < n) {
            let low = vec![0; high.len()];
            let what = format!("pad {} to {} {what}", dims(&self.current), dims(sizes));
            self.push(Rearrangement::Pad { low, high }, what);
        }
    }

    /// The steps of XLA's tiles.
    fn tiles(&mut self, xla: &XlaNotation) {
        let order: Vec<usize> = xla.minor_to_major().iter().rev().copied().collect();
        let names: Vec<String> = order.iter().map(|dim| format!("d{dim}")).collect();
        let what = format!("take the dimensions major to minor, {}", names.join(", "));
        self.transpose(order, what);
        for tile in xla.tiles() {
            self.tile(tile);
        }
    }

    fn tile(&mut self, tile: &[TileDim]) {
        let entry = |dim: &TileDim| match dim {
            TileDim::Size(size) => size.to_string(),
            TileDim::Combined => "*".to_owned(),
        };
        let name = tile.iter().map(entry).collect::<Vec<_>>().join(",");
        let missing = tile.len().saturating_sub(self.current.len());
        let mut shape = vec![1; missing];
        shape.extend(&self.current);
        let covered = shape.split_off(shape.len() - tile.len());
        let untouched = shape.len();
        let (mut carried, mut sizes) = (1u64, Vec::new());
        for (dim, extent) in tile.iter().zip(covered) {
            carried = carried.saturating_mul(extent);
            if let TileDim::Size(size) = *dim {
                shape.push(carried);
                sizes.push(size);
                carried = 1;
            }
        }
        self.reshape(shape.clone(), format!("give tile ({name}) its dimensions"));
        let blocks: Vec<u64> = shape[untouched..]
            .iter()
            .zip(&sizes)
            .map(|(n, size)| n.div_ceil(*size))
            .collect();
        let mut padded = shape[..untouched].to_vec();
        padded.extend(blocks.iter().zip(&sizes).map(|(n, size)| n * size));
        self.pad_to(&padded, &format!("for tile ({name})"));
        let mut cut = shape[..untouched].to_vec();
        cut.extend(blocks.iter().zip(&sizes).flat_map(|(&n, &size)| [n, size]));
        let what = format!("cut into {} blocks of {}", dims(&blocks), dims(&sizes));
        self.reshape(cut, what);
        let mut perm: Vec<usize> = (0..untouched).collect();
        perm.extend((0..sizes.len()).map(|i| untouched + 2 * i));
        perm.extend((0..sizes.len()).map(|i| untouched + 2 * i + 1));
        self.transpose(perm, "move the insides of the blocks to the end".to_owned());
    }

    /// Writes the steps of a layout whose positions are digits.
    fn digits(&mut self, layout: &Layout) -> Result<(), ExplainError> {
        let shape = layout.shape();
        let function = layout.function();
        let order = function.dims(shape);
        let mut perm: Vec<usize> = (0..shape.len())
            .filter(|dim| !order.contains(dim))
            .collect();
        perm.extend(&order);
        if !order.is_sorted() {
            self.transpose(perm, "bring merged dimensions together".to_owned());
        }
        let sizes: Vec<u64> = order.iter().map(|&dim| shape[dim]).collect();
        let groups = match sizes.is_empty() {
            true => Vec::new(),
            false => independent_groups(&function.chain, &sizes),
        };
        let merged = groups.iter().map(|(_, size, _)| *size).collect();
        self.reshape(merged, "drop dimensions of size 1 and merge".to_owned());
        let mut strides = Vec::new();
        for (_, size, chain) in &groups {
            let cuts = steps(chain, *size);
            self.cut_axis(
                strides.len(),
                &cuts.iter().map(|step| step.cut.size).collect::<Vec<_>>(),
            );
            for step in cuts {
                let stride = u64::try_from(step.cut.stride).ok().filter(|&n| 0 < n);
                strides.push(stride.ok_or(ExplainError::Strides)?);
            }
        }
        self.place(&strides, layout)
    }

    /// Cuts one axis at falling sizes; the last one is 1.
    fn cut_axis(&mut self, mut axis: usize, sizes: &[u64]) {
        for &size in sizes.iter().filter(|&&size| 1 < size) {
            let blocks = self.current[axis].div_ceil(size);
            let mut padded = self.current.clone();
            padded[axis] = blocks * size;
            self.pad_to(&padded, &format!("for blocks of {size}"));
            let mut cut = self.current.clone();
            cut.splice(axis..=axis, [blocks, size]);
            self.reshape(
                cut,
                format!("cut axis {axis} into {blocks} blocks of {size}"),
            );
            axis += 1;
        }
    }

    /// Orders the axes by their strides, the largest first, and pads each one to the next larger stride.
    fn place(&mut self, strides: &[u64], layout: &Layout) -> Result<(), ExplainError> {
        let mut perm: Vec<usize> = (0..strides.len()).collect();
        perm.sort_by_key(|&axis| (std::cmp::Reverse(strides[axis]), axis));
        let strides: Vec<u64> = perm.iter().map(|&axis| strides[axis]).collect();
        self.transpose(
            perm,
            "order the axes as they lie, major to minor".to_owned(),
        );
        let (mut merged, mut room) = (Vec::new(), Vec::new());
        let mut above: Option<u64> = None;
        let counts = self.current.clone();
        let mut axis = 0;
        while axis < strides.len() {
            let (mut count, mut stride) = (counts[axis], strides[axis]);
            // Adjacent axes that form one linear run may be padded together.
            while above.is_some_and(|above| !above.is_multiple_of(stride)) {
                axis += 1;
                let runs = axis < strides.len() && strides[axis] * counts[axis] == stride;
                if !runs {
                    let above = above.unwrap_or(0);
                    return Err(ExplainError::Interleaved { stride, above });
                }
                (count, stride) = (count * counts[axis], strides[axis]);
            }
            let extent = above.map_or(count, |above| above / stride);
            if extent < count {
                let above = above.unwrap_or(0);
                return Err(ExplainError::Interleaved { stride, above });
            }
            merged.push(count);
            room.push(extent);
            above = Some(stride);
            axis += 1;
        }
        if let Some(stride) = above.filter(|&stride| 1 < stride) {
            merged.push(1);
            room.push(stride);
        }
        self.reshape(merged, "make room for padding".to_owned());
        self.pad_to(&room, "where no element lies");
        self.flatten();
        if 0 < layout.function().offset {
            let (low, high) = (vec![layout.function().offset], vec![0]);
            let what = "pad before element 0".to_owned();
            self.push(Rearrangement::Pad { low, high }, what);
        }
        Ok(())
    }

    fn flatten(&mut self) {
        let flat = self
            .current
            .iter()
            .fold(1u64, |n, size| n.saturating_mul(*size));
        self.reshape(vec![flat], "lay it out in one line".to_owned());
    }

    /// Flattens to the line of all positions.
    fn buffer(&mut self, layout: &Layout) {
        self.flatten();
        match self.current[0].checked_sub(layout.positions()) {
            Some(0) => {}
            Some(high) => {
                let what = "end the buffer behind the last element".to_owned();
                self.push(Rearrangement::Crop { high }, what);
            }
            None => self.pad_to(&[layout.positions()], "at the end of the buffer"),
        }
    }
}
