//! Grids and blocks in Pallas's vocabulary: the slice of an array that one program of a grid sees.
//!
//! A grid is a list of extents; its programs are all index tuples, run in lexicographic order, the last axis fastest. A
//! [`BlockSpec`] gives for each dimension of an array the size of a block, and the position in the array for a value of
//! the index map.
//!
//! Source: Pallas, "Grids and BlockSpecs" (`slices_for_invocation`), and the block-shape check of
//! its TPU lowering.

use crate::plan::Order;
use std::fmt;
use thiserror::Error;

/// The way in which one dimension of an array is cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BlockDim {
    /// Blocks of this size; the index map gives the number of the block.
    Blocked(i64),
    /// Blocks of this size anywhere; the index map gives a position in the array as if `lo`
    /// elements were put before it and `hi` behind it.
    Element {
        /// The size of a block.
        size: i64,
        /// The number of elements by which the array is extended before its first.
        lo: i64,
        /// The number of elements by which the array is extended behind its last.
        hi: i64,
    },
    /// One element at the position that the index map gives; the kernel does not see the dimension.
    Squeezed,
    /// A slice of at most this size, whose start and size the index map gives.
    BoundedSlice(i64),
    /// This many positions, listed by an index array.
    Indirect(i64),
}

impl BlockDim {
    /// The elements of a block along the dimension.
    #[must_use]
    pub fn size(self) -> i64 {
        match self {
            BlockDim::Blocked(n)
            | BlockDim::Element { size: n, .. }
            | BlockDim::BoundedSlice(n)
            | BlockDim::Indirect(n) => n,
            BlockDim::Squeezed => 1,
        }
    }
}

impl fmt::Display for BlockDim {
    /// Prints as Pallas does, `Blocked` as its number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockDim::Blocked(n) => write!(f, "{n}"),
            BlockDim::Element { size, lo: 0, hi: 0 } => write!(f, "Element({size})"),
            BlockDim::Element { size, lo, hi } => write!(f, "Element({size}, ({lo}, {hi}))"),
            BlockDim::Squeezed => f.write_str("None"),
            BlockDim::BoundedSlice(n) => write!(f, "BoundedSlice({n})"),
            BlockDim::Indirect(n) => write!(f, "Indirect({n})"),
        }
    }
}

/// The value of an index map for one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockIndex {
    /// A number, for every kind of dimension but a [`BlockDim::BoundedSlice`].
    At(i64),
    /// A slice, for a [`BlockDim::BoundedSlice`].
    Slice {
        /// The first element.
        start: i64,
        /// The number of elements.
        size: i64,
    },
}

/// The slice of one dimension that one program sees, in positions of the array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slice {
    /// The first element; negative if the block starts before the array.
    pub start: i64,
    /// One past the last element; beyond the array in a partial last block.
    pub stop: i64,
    /// The first element that the array has.
    pub first: i64,
    /// One past the last element that the array has; `first < last`.
    pub last: i64,
}

/// The reason why a block holds no element of the array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outside {
    /// It lies beyond the array and its padding.
    Bounds,
    /// It lies in the padding of an [`BlockDim::Element`] dimension, which has no data.
    Padding,
}

impl Outside {
    /// The word in messages: `out-of-bounds` or `only-virtual-padding`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outside::Bounds => "out-of-bounds",
            Outside::Padding => "only-virtual-padding",
        }
    }
}

/// The reason why a grid or a block is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BlockError {
    /// A negative extent.
    #[error("axis {axis} of the grid has the extent {extent}, wanted 0 or more")]
    GridExtent {
        /// The axis of the grid.
        axis: usize,
        /// Its extent.
        extent: i64,
    },
    /// `program_id` or `num_programs` of an axis that the grid does not have.
    #[error("the grid has {rank} axes, found axis {axis}")]
    GridAxis {
        /// The axis asked for.
        axis: usize,
        /// The number of axes.
        rank: usize,
    },
    /// The number of block dimensions differs from that of the array.
    #[error("the block has {found} dimensions, wanted {wanted}, those of the array")]
    Rank {
        /// Dimensions of the block.
        found: usize,
        /// Dimensions of the array.
        wanted: usize,
    },
    /// The index map gives a wrong number of values.
    #[error("the index map gives {found} values, wanted {wanted}, one a dimension of the array")]
    Arity {
        /// Values of the index map.
        found: usize,
        /// Dimensions of the array.
        wanted: usize,
    },
    /// A block without elements.
    #[error("dimension {dim} of the block has the size {size}, wanted 1 or more")]
    Size {
        /// The dimension.
        dim: usize,
        /// Its size.
        size: i64,
    },
    /// Negative padding.
    #[error(
        "dimension {dim} of the block is padded by ({lo}, {hi}), wanted 0 or more on each side"
    )]
    NegativePadding {
        /// The dimension.
        dim: usize,
        /// Padding before the array.
        lo: i64,
        /// Padding behind the array.
        hi: i64,
    },
    /// A number for a slice, or a slice for a number.
    #[error("dimension {dim} of the block is {mode}, and its index is {found}")]
    IndexKind {
        /// The dimension.
        dim: usize,
        /// The mode in which it is cut.
        mode: BlockDim,
        /// The value of the index map, in words.
        found: &'static str,
    },
    /// A slice that is larger than its bound, or empty.
    #[error("dimension {dim} gets a slice of {found} elements, wanted 1 to {bound}")]
    SliceSize {
        /// The dimension.
        dim: usize,
        /// The size of the slice.
        found: i64,
        /// The size of the block.
        bound: i64,
    },
    /// A block without an element of the array.
    #[error(
        "dimension {dim}: the block [{start}, {stop}) holds no element of an array of {extent} ({})",
        .why.word()
    )]
    Outside {
        /// The dimension.
        dim: usize,
        /// The first position of the block.
        start: i64,
        /// One past its end.
        stop: i64,
        /// The extent of the array.
        extent: i64,
        /// The place where it lies instead.
        why: Outside,
    },
    /// An output block that is left and written again.
    #[error(
        "the output block {block:?} is written by program {first:?}, left, and written again by {again:?}"
    )]
    Revisited {
        /// The number of the block.
        block: Vec<i64>,
        /// The last program before it was left.
        first: Vec<i64>,
        /// The program that returns to it.
        again: Vec<i64>,
    },
    /// An output block that several programs of a parallel axis write.
    #[error(
        "the output block {block:?} is written by several programs of axis {axis}, which is parallel"
    )]
    ParallelRevisit {
        /// The number of the block.
        block: Vec<i64>,
        /// The axis.
        axis: usize,
    },
    /// A mode of cutting a dimension that a backend does not have.
    #[error("dimension {dim} of the block is {mode}, which {backend} does not take")]
    Mode {
        /// The dimension.
        dim: usize,
        /// The mode in which it is cut.
        mode: BlockDim,
        /// The backend.
        backend: Backend,
    },
    /// A block size that a backend does not take.
    #[error(
        "dimension {dim} of the block has {found} elements of {extent}, and {backend} wants {wanted}"
    )]
    Shape {
        /// The dimension.
        dim: usize,
        /// The size of the block.
        found: i64,
        /// The extent of the array.
        extent: i64,
        /// The backend.
        backend: Backend,
        /// The sizes that it takes, in words.
        wanted: String,
    },
    /// An array without dimensions, although the backend wants at least one.
    #[error("the block has no dimension, and {backend} wants at least one")]
    Scalar {
        /// The backend.
        backend: Backend,
    },
    /// The number of elements is not a power of two.
    #[error("the block has {found} elements, and {backend} wants a power of two")]
    Count {
        /// Elements of the block.
        found: i64,
        /// The backend.
        backend: Backend,
    },
}

/// The extents of a grid, outermost axis first. A grid without axes is one program.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Grid(Vec<i64>);

impl Grid {
    /// A grid of these extents.
    ///
    /// # Errors
    /// An extent is negative.
    pub fn new(extents: Vec<i64>) -> Result<Grid, BlockError> {
        match extents.iter().position(|&n| n < 0) {
            Some(axis) => Err(BlockError::GridExtent {
                axis,
                extent: extents[axis],
            }),
            None => Ok(Grid(extents)),
        }
    }
    /// The extents.
    #[must_use]
    pub fn extents(&self) -> &[i64] {
        &self.0
    }
    /// The number of programs, at most `i64::MAX`.
    #[must_use]
    pub fn count(&self) -> i64 {
        if self.0.contains(&0) {
            return 0;
        }
        self.0.iter().fold(1, |a, &n| a.saturating_mul(n))
    }
    /// `num_programs(axis)`.
    ///
    /// # Errors
    /// The grid has no such axis.
    pub fn num_programs(&self, axis: usize) -> Result<i64, BlockError> {
        let rank = self.0.len();
        self.0
            .get(axis)
            .copied()
            .ok_or(BlockError::GridAxis { axis, rank })
    }
    /// `program_id(axis)` of a program of this grid.
    ///
    /// # Errors
    /// The grid has no such axis.
    pub fn program_id(&self, program: &[i64], axis: usize) -> Result<i64, BlockError> {
        self.num_programs(axis)?;
        let rank = program.len();
        program
            .get(axis)
            .copied()
            .ok_or(BlockError::GridAxis { axis, rank })
    }
    /// The programs, in lexicographic order: the last axis runs fastest.
    #[must_use]
    pub fn programs(&self) -> Programs<'_> {
        let next = (!self.0.contains(&0)).then(|| vec![0; self.0.len()]);
        Programs {
            extents: &self.0,
            next,
        }
    }
}

/// The programs of a grid, in order.
#[derive(Clone, Debug)]
pub struct Programs<'a> {
    extents: &'a [i64],
    next: Option<Vec<i64>>,
}

impl Iterator for Programs<'_> {
    type Item = Vec<i64>;

    fn next(&mut self) -> Option<Vec<i64>> {
        let program = self.next.take()?;
        let mut following = program.clone();
        for (id, &extent) in following.iter_mut().zip(self.extents).rev() {
            *id += 1;
            if *id < extent {
                self.next = Some(following);
                return Some(program);
            }
            *id = 0;
        }
        Some(program)
    }
}

/// The blocks into which an array is cut.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct BlockSpec {
    /// One entry a dimension; every size is at least 1.
    dims: Vec<BlockDim>,
}

impl BlockSpec {
    /// A spec of these dimensions.
    ///
    /// # Errors
    /// A size is 0 or less, or a padding negative.
    pub fn new(dims: Vec<BlockDim>) -> Result<BlockSpec, BlockError> {
        for (dim, mode) in dims.iter().enumerate() {
            if mode.size() < 1 {
                let size = mode.size();
                return Err(BlockError::Size { dim, size });
            }
            if let &BlockDim::Element { lo, hi, .. } = mode
                && (lo < 0 || hi < 0)
            {
                return Err(BlockError::NegativePadding { dim, lo, hi });
            }
        }
        Ok(BlockSpec { dims })
    }
    /// A spec of these dimensions for arrays of this rank, whose index map gives this many values.
    ///
    /// # Errors
    /// The ranks differ, which is reported first, or [`BlockSpec::new`] refuses the dimensions.
    pub fn for_array(
        dims: Vec<BlockDim>,
        rank: usize,
        index_values: usize,
    ) -> Result<BlockSpec, BlockError> {
        BlockSpec { dims: dims.clone() }.check(rank, index_values)?;
        BlockSpec::new(dims)
    }
    /// The spec of a call without one: one block, the whole array.
    ///
    /// # Errors
    /// The array has no element.
    pub fn whole(array: &[i64]) -> Result<BlockSpec, BlockError> {
        BlockSpec::new(array.iter().map(|&n| BlockDim::Blocked(n)).collect())
    }
    /// The mode in which each dimension is cut.
    #[must_use]
    pub fn dims(&self) -> &[BlockDim] {
        &self.dims
    }
    /// The shape that a kernel sees: squeezed dimensions are left out.
    #[must_use]
    pub fn ref_shape(&self) -> Vec<i64> {
        let seen = |d: &&BlockDim| !matches!(d, BlockDim::Squeezed);
        self.dims.iter().filter(seen).map(|d| d.size()).collect()
    }
    /// Compares the spec with an array of this rank and an index map of this many values.
    ///
    /// # Errors
    /// One of the two has another number of dimensions.
    pub fn check(&self, rank: usize, index_values: usize) -> Result<(), BlockError> {
        if self.dims.len() != rank {
            let (found, wanted) = (self.dims.len(), rank);
            return Err(BlockError::Rank { found, wanted });
        }
        if index_values != rank {
            let (found, wanted) = (index_values, rank);
            return Err(BlockError::Arity { found, wanted });
        }
        Ok(())
    }
    /// The slices of an array of this shape that a program sees if its index map gives `index`.
    ///
    /// # Errors
    /// The ranks differ, an index is of the wrong kind, or the block holds no element of the array
    /// along some dimension; the first such dimension is named.
    pub fn slices(&self, array: &[i64], index: &[BlockIndex]) -> Result<Vec<Slice>, BlockError> {
        self.check(array.len(), index.len())?;
        let mut slices = Vec::with_capacity(array.len());
        for (dim, (&mode, &extent)) in self.dims.iter().zip(array).enumerate() {
            let (start, size) = start_of(dim, mode, index[dim])?;
            slices.push(inside(dim, mode, start, size, extent)?);
        }
        Ok(slices)
    }
    /// The slices for an index map that gives plain numbers, see [`BlockSpec::slices`].
    ///
    /// # Errors
    /// As [`BlockSpec::slices`].
    pub fn slices_at(&self, array: &[i64], index: &[i64]) -> Result<Vec<Slice>, BlockError> {
        let index: Vec<BlockIndex> = index.iter().map(|&i| BlockIndex::At(i)).collect();
        self.slices(array, &index)
    }
}

/// The start of a block, in positions of the array, and its size.
fn start_of(dim: usize, mode: BlockDim, index: BlockIndex) -> Result<(i64, i64), BlockError> {
    let kind = |found| BlockError::IndexKind { dim, mode, found };
    match (mode, index) {
        (BlockDim::Blocked(n), BlockIndex::At(i)) => Ok((i.saturating_mul(n), n)),
        (BlockDim::Squeezed, BlockIndex::At(i)) => Ok((i, 1)),
        (BlockDim::Element { size, lo, .. }, BlockIndex::At(i)) => Ok((i.saturating_sub(lo), size)),
        (BlockDim::BoundedSlice(bound), BlockIndex::Slice { start, size }) => {
            if size < 1 || bound < size {
                let found = size;
                return Err(BlockError::SliceSize { dim, found, bound });
            }
            Ok((start, size))
        }
        (BlockDim::BoundedSlice(_) | BlockDim::Indirect(_), BlockIndex::At(_)) => {
            Err(kind("a number"))
        }
        (_, BlockIndex::Slice { .. }) => Err(kind("a slice")),
    }
}

/// The slice together with the part of it that lies in the array.
fn inside(
    dim: usize,
    mode: BlockDim,
    start: i64,
    size: i64,
    extent: i64,
) -> Result<Slice, BlockError> {
    let stop = start.saturating_add(size);
    let (first, last) = (start.max(0), stop.min(extent));
    if first < last {
        return Ok(Slice {
            start,
            stop,
            first,
            last,
        });
    }
    let padded = |lo: i64, hi: i64| -lo < stop && start < extent.saturating_add(hi);
    let why = match mode {
        BlockDim::Element { lo, hi, .. } if padded(lo, hi) => Outside::Padding,
        _ => Outside::Bounds,
    };
    Err(BlockError::Outside {
        dim,
        start,
        stop,
        extent,
        why,
    })
}

/// Checks that every output block is written by consecutive programs only, and by one program of each parallel axis.
///
/// `block_of` gives the number of the output block of a program; `orders` has one entry per axis. A block is sent to
/// memory when the index changes, and is not fetched back. A block that is written, left and written again therefore
/// loses its first contents. The cost is linear in the number of programs, apart from the search for a block seen
/// before.
///
/// # Errors
/// The first block that is returned to, or that several programs of a parallel axis write.
pub fn check_revisits(
    grid: &Grid,
    orders: &[Order],
    mut block_of: impl FnMut(&[i64]) -> Vec<i64>,
) -> Result<(), BlockError> {
    let mut left = std::collections::BTreeMap::new();
    let mut current: Option<(Vec<i64>, Vec<i64>)> = None;
    for program in grid.programs() {
        let block = block_of(&program);
        if let Some((open, before)) = current.take() {
            if open == block {
                let crossed = |axis: &usize| {
                    orders.get(*axis) == Some(&Order::Parallel) && before[*axis] != program[*axis]
                };
                if let Some(axis) = (0..program.len()).find(crossed) {
                    return Err(BlockError::ParallelRevisit { block, axis });
                }
            } else {
                left.insert(open, before);
                if let Some(first) = left.remove(&block) {
                    let again = program;
                    return Err(BlockError::Revisited {
                        block,
                        first,
                        again,
                    });
                }
            }
        }
        current = Some((block, program));
    }
    Ok(())
}

/// The implementations that run a kernel. They differ in the blocks that they take.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Backend {
    /// The interpret mode of Pallas.
    Interpret,
    /// `pallas_call` on a TPU.
    Tpu(RankOne),
    /// `emit_pipeline` on a TPU.
    TpuPipeline,
    /// Mosaic GPU.
    MosaicGpu,
    /// Triton.
    Triton,
}

/// The rule of a TPU for arrays of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RankOne {
    /// A multiple of 1024, or a power of two of at least 128 · 32 / bits elements.
    #[default]
    Current,
    /// A multiple of 128 · 32 / bits elements, as the public page states.
    Documented,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Interpret => "interpret mode",
            Backend::Tpu(_) => "the TPU",
            Backend::TpuPipeline => "the TPU's emit_pipeline",
            Backend::MosaicGpu => "Mosaic GPU",
            Backend::Triton => "Triton",
        })
    }
}

/// The last dimension of an array on Mosaic GPU is a multiple of this many bytes.
const GPU_ROW_BYTES: i64 = 16;

/// The lanes of a TPU's vector register, and the sublanes.
const TPU_TILE: (i64, i64) = (128, 8);

impl Backend {
    /// Checks that the backend takes these blocks of an array of this shape.
    ///
    /// `bits` is the width of one element, 32 for truth values, which are stored as words. Squeezed
    /// dimensions count as size 1 and keep their place.
    ///
    /// # Errors
    /// The first dimension that breaks a rule, with the rule.
    pub fn check(self, array: &[i64], spec: &BlockSpec, bits: u32) -> Result<(), BlockError> {
        spec.check(array.len(), array.len())?;
        self.check_modes(spec)?;
        match self {
            Backend::Interpret | Backend::TpuPipeline => Ok(()),
            Backend::Tpu(rank_one) => self.check_tpu(array, spec, bits, rank_one),
            Backend::MosaicGpu => self.check_row_bytes(array, spec, bits),
            Backend::Triton => {
                let sizes = spec.dims().iter().map(|d| d.size());
                let found = sizes.fold(1i64, i64::saturating_mul);
                if found.count_ones() == 1 {
                    return Ok(());
                }
                Err(BlockError::Count {
                    found,
                    backend: self,
                })
            }
        }
    }

    /// Checks that the backend has the modes in which the dimensions are cut.
    fn check_modes(self, spec: &BlockSpec) -> Result<(), BlockError> {
        let element = |d: &BlockDim| matches!(d, BlockDim::Element { .. });
        let has_element = spec.dims().iter().any(element);
        for (dim, &mode) in spec.dims().iter().enumerate() {
            let padded = matches!(mode, BlockDim::Element { lo, hi, .. } if lo != 0 || hi != 0);
            let known = match mode {
                BlockDim::Squeezed => true,
                BlockDim::Blocked(_) => !(has_element && matches!(self, Backend::Tpu(_))),
                BlockDim::Element { .. } => match self {
                    Backend::Interpret | Backend::Tpu(_) => true,
                    Backend::TpuPipeline | Backend::Triton => !padded,
                    Backend::MosaicGpu => false,
                },
                BlockDim::BoundedSlice(_) | BlockDim::Indirect(_) => self == Backend::TpuPipeline,
            };
            if !known {
                return Err(BlockError::Mode {
                    dim,
                    mode,
                    backend: self,
                });
            }
        }
        Ok(())
    }

    fn check_tpu(
        self,
        array: &[i64],
        spec: &BlockSpec,
        bits: u32,
        rank_one: RankOne,
    ) -> Result<(), BlockError> {
        let refuse = |dim: usize, wanted: String| BlockError::Shape {
            dim,
            found: spec.dims()[dim].size(),
            extent: array[dim],
            backend: self,
            wanted,
        };
        let rank = array.len();
        let (lanes, sublanes) = TPU_TILE;
        if rank == 0 {
            return Err(BlockError::Scalar { backend: self });
        }
        if rank == 1 {
            let (found, unit) = (
                spec.dims()[0].size(),
                lanes * 32 / i64::from(bits.clamp(1, 32)),
            );
            let (fits, wanted) = match rank_one {
                RankOne::Current => (
                    found % 1024 == 0 || found.count_ones() == 1 && unit <= found,
                    format!("all, a multiple of 1024, or a power of two from {unit}"),
                ),
                RankOne::Documented => (found % unit == 0, format!("all or a multiple of {unit}")),
            };
            if found == array[0] || fits {
                return Ok(());
            }
            return Err(refuse(0, wanted));
        }
        for (dim, unit) in [(rank - 1, lanes), (rank - 2, sublanes)] {
            let found = spec.dims()[dim].size();
            if found != array[dim] && found % unit != 0 {
                return Err(refuse(dim, format!("all or a multiple of {unit}")));
            }
        }
        Ok(())
    }

    /// Checks that rows are multiples of 16 bytes, as copies of Mosaic GPU need.
    fn check_row_bytes(self, array: &[i64], spec: &BlockSpec, bits: u32) -> Result<(), BlockError> {
        let Some((dim, &extent)) = array.iter().enumerate().next_back() else {
            return Ok(());
        };
        if extent.saturating_mul(i64::from(bits)) % (8 * GPU_ROW_BYTES) == 0 {
            return Ok(());
        }
        let wanted = format!("rows of a multiple of {GPU_ROW_BYTES} bytes");
        Err(BlockError::Shape {
            dim,
            found: spec.dims()[dim].size(),
            extent,
            backend: self,
            wanted,
        })
    }
}

/// Checks that a value in main memory (memory space `ANY` or `HBM`) is passed whole: as one block of the array's shape,
/// at the origin for every program.
///
/// # Errors
/// The first dimension that is cut or moved.
pub fn check_whole(array: &[i64], spec: &BlockSpec, index: &[i64]) -> Result<(), BlockError> {
    spec.check(array.len(), index.len())?;
    for (dim, (&mode, &extent)) in spec.dims().iter().zip(array).enumerate() {
        if mode.size() != extent || index[dim] != 0 {
            return Err(BlockError::Shape {
                dim,
                found: mode.size(),
                extent,
                backend: Backend::Tpu(RankOne::Current),
                wanted: "a value in main memory whole, at index 0".to_owned(),
            });
        }
    }
    Ok(())
}
