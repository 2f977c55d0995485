//! Splits of the loops of an operation, and the splits of its operands and results that follow.
//!
//! For example, a product over `i`, `j` and `k` whose `k` is split over an axis reads both operands in parts and leaves
//! partial sums; a reshape that merges `i` of 4 and `j` of 8 steps writes a split of `i` into 2 parts as the digit
//! `d0/16`.

use super::collective::combined;
use crate::estimate::outermost;
use crate::roofline::{Arithmetic, seconds};
use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain, LoopKind};
use optc_ir::op::iteration_domain_of;
use optc_ir::shard::{Held, Piece, Sharding, Split};
use optc_ir::{
    DType, FreedomClass, Func, Op, OpRef, Partial, Registry, Structure, TensorType, Type,
};
use optc_layout::{Layout, Notation};
use optc_target::Target;

/// An operation as splits see it: its loops, its indexing maps, and the extents of operands and results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// The loops and maps.
    pub domain: IterationDomain,
    /// The extents of each operand; `None` if it is no tensor of known size.
    pub operands: Vec<Option<Extents>>,
    /// Those of each result.
    pub results: Vec<Option<Extents>>,
    /// True if the sizes of all tensors are known; no loop is split otherwise.
    pub sized: bool,
    /// True if the operation has no operands and its result is known: each device makes its own part.
    pub source: bool,
}

/// The extents of a tensor, and how they lie in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extents {
    /// The extent of each dimension.
    pub sizes: Vec<u64>,
    /// For each dimension the elements that are beside one another in a block; 1 without blocks.
    blocks: Vec<u64>,
    /// The bits of an element.
    bits: u32,
    notation: Notation,
}

impl Extents {
    /// The extents of a type; `None` if it is no tensor of known size.
    #[must_use]
    pub fn of(ty: &Type) -> Option<Extents> {
        let tensor = ty.as_tensor()?;
        let sizes = tensor.shape()?;
        let mut blocks = vec![1; sizes.len()];
        if tensor.notation != Notation::RowMajor {
            let layout = tensor.layout().and_then(Result::ok);
            for mode in layout.and_then(|l| l.modes()).unwrap_or_default() {
                blocks[mode.dim] = blocks[mode.dim].max(mode.div);
            }
        }
        Some(Extents {
            sizes,
            blocks,
            bits: tensor.dtype.bits(),
            notation: tensor.notation.clone(),
        })
    }

    /// The bytes of all elements, without padding.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_of(&self.sizes)
    }

    fn bytes_of(&self, sizes: &[u64]) -> u64 {
        let elements = sizes.iter().copied().fold(1u64, u64::saturating_mul);
        elements.saturating_mul(u64::from(self.bits)).div_ceil(8)
    }

    /// The bytes of a part on one device. Its layout is that of the value, for fewer blocks: a digit that is split lies
    /// outside of all blocks, or saves no bytes.
    #[must_use]
    pub fn local_bytes(&self, sharding: &Sharding) -> u64 {
        let sizes = self.sizes.iter().enumerate();
        if self.notation == Notation::RowMajor {
            let local: Vec<u64> = sizes.map(|(d, &n)| sharding.local(d, n)).collect();
            return self.bytes_of(&local);
        }
        let blocks = |dim: usize, n: u64| {
            let here = sharding.pieces().filter(|(_, p)| p.dim == dim);
            let outside = here.map(|(_, p)| (p.high() / p.stride.max(self.blocks[dim])).max(1));
            n.div_ceil(outside.product::<u64>().max(1))
        };
        let local: Vec<u64> = sizes.map(|(d, &n)| blocks(d, n)).collect();
        // Strides and digits that are written for all of a value are none of a part, which then has no padding.
        match Layout::new(self.notation.clone(), &local, self.bits) {
            Ok(layout) => layout.bytes(),
            Err(_) => self.bytes_of(&local),
        }
    }
}

/// The shardings of an operation whose loops are split.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Divided {
    /// The sharding in which each operand is read.
    pub operands: Vec<Sharding>,
    /// The sharding in which each result is made.
    pub results: Vec<Sharding>,
    /// The number of parts of the work.
    pub parts: u64,
}

impl Site {
    /// The site of an operation.
    #[must_use]
    pub fn of(func: &Func, op: Op, registry: &Registry) -> Site {
        let op_ref = func.op_ref(op);
        let decl = registry.get(&func.ops[op].name);
        let size = |ty: &&Type| Extents::of(ty);
        let structure = registry.structure(&func.ops[op].name);
        let mut all = op_ref.operands.iter().chain(&op_ref.results);
        Site {
            sized: all.all(|ty| ty.as_tensor().is_none() || size(ty).is_some()),
            domain: iteration_domain_of(decl, &op_ref),
            operands: op_ref.operands.iter().map(size).collect(),
            results: op_ref.results.iter().map(size).collect(),
            source: structure == Structure::Constant
                || op_ref.operands.is_empty() && decl.is_some_and(|d| d.family() == "source"),
        }
    }

    /// The extents of a loop that may be split.
    #[must_use]
    pub fn loop_extent(&self, id: usize) -> Option<u64> {
        let l = self.domain.loops.get(id)?;
        let splits = matches!(l.kind, LoopKind::Parallel | LoopKind::Reduce(_));
        (self.sized && splits && 1 < l.extent).then_some(l.extent)
    }

    /// Returns whether a digit of a loop may be a coordinate of devices.
    #[must_use]
    pub fn admits(&self, piece: &Piece) -> bool {
        let granule = self.domain.loops[piece.dim].granule;
        let extent = self.loop_extent(piece.dim);
        let whole = |n: u64| n.is_multiple_of(piece.high());
        extent.is_some_and(whole) && (granule == 0 || whole(granule))
    }

    /// The splits of operands and results for a digit of a loop for each axis; `None` if a part of an operand or result
    /// is no digit of it, or two digits overlap.
    #[must_use]
    pub fn divided(&self, pieces: &[Option<Piece>]) -> Option<Divided> {
        let mut out = Divided {
            operands: vec![Sharding::replicated(); self.operands.len()],
            results: vec![Sharding::replicated(); self.results.len()],
            parts: 1,
        };
        for (axis, piece) in pieces.iter().enumerate() {
            let Some(piece) = piece else { continue };
            let before = pieces[..axis].iter().flatten();
            if !self.admits(piece) || !before.clone().all(|p| p.is_beside(piece)) {
                return None;
            }
            out.parts = out.parts.saturating_mul(piece.extent);
            let sides = [
                (&self.domain.operands, &self.operands, &mut out.operands),
                (&self.domain.results, &self.results, &mut out.results),
            ];
            for (maps, sizes, shardings) in sides {
                for ((map, size), sharding) in maps.iter().zip(sizes).zip(shardings) {
                    let Some(size) = size else { continue };
                    let digits = carried(&self.domain, map, &size.sizes, piece)?;
                    if !digits.is_empty() {
                        let split = Split::over(axis, &digits);
                        *sharding = std::mem::take(sharding).with(split);
                    }
                }
            }
            if let LoopKind::Reduce(combine) = self.domain.loops[piece.dim].kind {
                let partial = combined(Partial::from(combine));
                for result in &mut out.results {
                    *result = std::mem::take(result).with(Split::partial(axis, partial));
                }
            }
        }
        Some(out)
    }

    /// The digits of loops of which this split of an operand (`Ok`) or a result (`Err`) is made; none if it is made of
    /// others too.
    #[must_use]
    pub fn loop_pieces(&self, port: Result<usize, usize>, split: &[Piece]) -> Vec<Piece> {
        let map = match port {
            Ok(i) => self.domain.operands.get(i),
            Err(i) => self.domain.results.get(i),
        };
        let Some(map) = map else { return Vec::new() };
        let mut found: Vec<Piece> = Vec::new();
        for piece in split {
            let Some(index) = map.get(piece.dim) else {
                return Vec::new();
            };
            match index {
                IndexExpr::Whole => return Vec::new(),
                IndexExpr::Digit { of, by, .. } => found.push(Piece {
                    dim: *of,
                    stride: piece.stride.saturating_mul(*by),
                    extent: piece.extent,
                }),
                IndexExpr::Sum { terms, .. } => {
                    let own = terms.iter().filter_map(|&(id, stride)| {
                        let stride = u64::try_from(stride).ok().filter(|&s| 0 < s)?;
                        let extent = self.domain.loops[id].extent;
                        let (low, high) = common(piece, stride, stride.checked_mul(extent)?)?;
                        Some(Piece {
                            dim: id,
                            stride: low / stride,
                            extent: high / low,
                        })
                    });
                    found.extend(own);
                }
            }
        }
        // A loop over a part of a dimension has only some of the digits of the dimension.
        let parts = |all: &[Piece]| all.iter().map(|p| p.extent).product::<u64>();
        match parts(&found) == parts(split) {
            true => joined(&found),
            false => Vec::new(),
        }
    }

    /// The split of the loops that follows from the shardings of operands, and of results where no operand says anything.
    #[must_use]
    pub fn following(&self, takes: &[Sharding], results: &[Sharding], axes: usize) -> Divided {
        let mut pieces: Vec<Option<Piece>> = vec![None; axes];
        let mut best = self.divided(&pieces);
        let operands = takes.iter().enumerate().map(|(i, s)| (Ok(i), s));
        let made = results.iter().enumerate().map(|(i, s)| (Err(i), s));
        for (port, sharding) in operands.chain(made) {
            for split in sharding.splits() {
                let Held::Digits(digits) = &split.held else {
                    continue;
                };
                if pieces[split.axis].is_some() {
                    continue;
                }
                let &[piece] = self.loop_pieces(port, digits).as_slice() else {
                    continue;
                };
                pieces[split.axis] = Some(piece);
                let tried = self.divided(&pieces);
                // A result says how work is split only if the operands are read in whole there.
                let reads = |d: &Divided| match port {
                    Ok(_) => true,
                    Err(_) => d.operands.iter().all(|s| s.on(split.axis).is_none()),
                };
                match tried.filter(reads) {
                    Some(tried) => best = Some(tried),
                    None => pieces[split.axis] = None,
                }
            }
        }
        best.unwrap_or_else(|| Divided {
            operands: vec![Sharding::replicated(); takes.len()],
            results: vec![Sharding::replicated(); results.len()],
            parts: 1,
        })
    }
}

/// Neighbouring digits of one loop as one digit.
fn joined(pieces: &[Piece]) -> Vec<Piece> {
    Split::over(0, pieces).pieces().to_vec()
}

/// The range of strides that a digit and the digits from `low` to `high` share, if it is one.
fn common(piece: &Piece, low: u64, high: u64) -> Option<(u64, u64)> {
    let from = piece.stride.max(low);
    let to = piece.high().min(high);
    let nested = |a: u64, b: u64| b.is_multiple_of(a) || a.is_multiple_of(b);
    let cuts = [
        (from, piece.stride),
        (from, low),
        (to, piece.high()),
        (to, high),
    ];
    let clean = from < to && to.is_multiple_of(from) && cuts.iter().all(|&(a, b)| nested(a, b));
    clean.then_some((from, to))
}

/// The digits of an operand or result that a digit of a loop addresses, most significant first; empty if it addresses
/// none. `None` if it addresses elements that are no digit.
fn carried(
    domain: &IterationDomain,
    map: &[IndexExpr],
    sizes: &[u64],
    piece: &Piece,
) -> Option<Vec<Piece>> {
    let mut found: Vec<(u64, Piece)> = Vec::new();
    let mut addressed = false;
    for (dim, (index, &size)) in map.iter().zip(sizes).enumerate() {
        match index {
            IndexExpr::Whole => {}
            IndexExpr::Digit { of, by, extent } if *of == piece.dim => {
                addressed = true;
                let Some((low, high)) = common(piece, *by, by.saturating_mul(*extent)) else {
                    if piece.stride < by.saturating_mul(*extent) && *by < piece.high() {
                        return None;
                    }
                    continue;
                };
                let digit = Piece {
                    dim,
                    stride: low / by,
                    extent: high / low,
                };
                found.push((low, digit));
            }
            IndexExpr::Digit { .. } => {}
            IndexExpr::Sum { terms, offset } => {
                if !terms.iter().any(|(id, _)| *id == piece.dim) {
                    continue;
                }
                addressed = true;
                let digit = summed(domain, terms, *offset, piece)?;
                found.push((piece.stride, Piece { dim, ..digit }));
            }
        }
        let high = found.last().filter(|(_, p)| p.dim == dim);
        if high.is_some_and(|(_, p)| !size.is_multiple_of(p.high())) {
            return None;
        }
    }
    found.sort_by_key(|&(low, _)| std::cmp::Reverse(low));
    let parts: u64 = found.iter().map(|(_, p)| p.extent).product();
    match addressed {
        false => Some(Vec::new()),
        true if parts == piece.extent => Some(found.into_iter().map(|(_, p)| p).collect()),
        true => None,
    }
}

/// The digit of a sum of loops, one of which is split: the other loops are digits above or below it.
fn summed(
    domain: &IterationDomain,
    terms: &[(usize, i64)],
    offset: i64,
    piece: &Piece,
) -> Option<Piece> {
    let stride = |s: i64| u64::try_from(s).ok().filter(|&s| 0 < s);
    let own = terms.iter().filter(|(id, _)| *id == piece.dim);
    let &[(id, own)] = own.collect::<Vec<_>>().as_slice() else {
        return None;
    };
    let own = stride(*own)?;
    let whole = own.checked_mul(domain.loops[*id].extent)?;
    let mut below = 0u64;
    for &(other, s) in terms.iter().filter(|(id, _)| *id != piece.dim) {
        let (s, extent) = (stride(s)?, domain.loops[other].extent);
        if s.is_multiple_of(whole) {
            continue;
        }
        below = below.checked_add(s.checked_mul(extent.checked_sub(1)?)?)?;
    }
    let digit = Piece {
        dim: 0,
        stride: piece.stride.checked_mul(own)?,
        extent: piece.extent,
    };
    let aligned = offset.unsigned_abs().is_multiple_of(digit.high());
    (below < own && aligned).then_some(digit)
}

/// The effort of an operation, from which its time on one device follows.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The seconds of its arithmetic on a single device; `None` if it only renames elements.
    work: Option<f64>,
    /// The bytes that a device reads and writes in a second.
    bandwidth: Option<f64>,
}

impl Effort {
    /// The effort of an operation.
    #[must_use]
    pub fn of(func: &Func, op: Op, registry: &Registry, target: &Target) -> Effort {
        let op_ref: OpRef<'_> = func.op_ref(op);
        let decl = registry.get(&func.ops[op].name);
        let element = |ty: Option<&&Type>| -> Option<DType> {
            ty.and_then(|ty| ty.as_tensor())
                .map(|t: &TensorType| t.dtype)
        };
        let of = [
            element(op_ref.operands.first()),
            element(op_ref.results.first()),
        ];
        let arithmetic =
            decl.map(|decl| Arithmetic::of(decl, (&op_ref, &func.ops[op].attrs), of, target));
        let work = arithmetic.map_or(0.0, |a| {
            a.rate.map_or(0.0, |rate| seconds(a.operations(), rate))
        });
        let renames = decl.is_some_and(|d| {
            d.freedom(&op_ref).class == FreedomClass::Rearrange
                && d.traffic(&op_ref) == optc_ir::Traffic::None
        });
        Effort {
            work: (!renames).then_some(work),
            bandwidth: outermost(target).map(|level| level.bandwidth),
        }
    }

    /// The same for operations that take the same time on one target, if their sites are equal and divided alike.
    #[must_use]
    pub fn key(&self) -> Option<u64> {
        self.work.map(f64::to_bits)
    }

    /// The modelled seconds on one device, with the work in `parts` parts: the larger of the arithmetic and the bytes. An
    /// operation that only renames elements takes none.
    #[must_use]
    pub fn seconds(&self, site: &Site, divided: &Divided) -> f64 {
        let Some(work) = self.work.filter(|_| !site.source) else {
            return 0.0;
        };
        let operands = site.operands.iter().zip(&divided.operands);
        let results = site.results.iter().zip(&divided.results);
        let bytes = operands
            .chain(results)
            .map(|(size, s)| size.as_ref().map_or(0, |size| size.local_bytes(s)));
        let bytes = bytes.fold(0u64, u64::saturating_add);
        let memory = self.bandwidth.map_or(0.0, |rate| seconds(bytes, rate));
        (work / seconds(divided.parts, 1.0)).max(memory)
    }
}
