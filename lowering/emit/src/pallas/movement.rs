//! Operations in `jnp` that move elements or create values without operands.

use super::form::{Form, pairs};
use super::words::{dtype, element, float, tuple};
use optc_ir::{DType, Dim, Operation};
use optc_ops::{
    Concat, Gather, GatherElements, GatherNd, Iota, OneHot, Pad, PadAmounts, PadMode, PadValue,
    ScatterElements, ScatterNd, ScatterReduction, Slice, SlicePart, Split, Subview, Tile, TopK,
    Transpose, Trilu,
};

/// Some elements of a dimension of this size: how many from which on, so many apart.
struct Range {
    start: i64,
    count: i64,
    stride: i64,
    size: i64,
}

/// The value that a pad writes, in Python.
pub(super) fn pad_value(pad: &Pad, to: DType) -> Option<String> {
    match pad.value {
        PadValue::Float(value) if to.is_float() => Some(float(value)),
        value => element(&value.element(to), 0),
    }
}

impl Range {
    fn whole(size: i64) -> Range {
        Range {
            start: 0,
            count: size,
            stride: 1,
            size,
        }
    }

    /// The range between brackets.
    fn text(&self) -> String {
        let Range {
            start,
            count,
            stride,
            size,
        } = *self;
        let end = (start + count * stride).clamp(-1, size);
        match (start, end, stride) {
            (0, n, 1) if n == size => ":".to_owned(),
            (0, n, s) if n == size => format!("::{s}"),
            (a, b, 1) => format!("{a}:{b}"),
            (a, -1, s) => format!("{a}::{s}"),
            (a, b, s) => format!("{a}:{b}:{s}"),
        }
    }
}

/// The parts of a value of these sizes, behind one another along an axis.
pub(super) fn slices(x: &str, sizes: &[i64], axis: usize) -> Vec<String> {
    let mut start = 0;
    let part = |size: &i64| {
        let stop = start + size;
        let text = format!("lax.slice_in_dim({x}, {start}, {stop}, axis={axis})");
        start = stop;
        text
    };
    sizes.iter().map(part).collect()
}

/// Eight equal rows of a tile of these sizes in place of a single one, if a part of it begins at another lane than the
/// first. Mosaic does not repeat such a part of a single row; eight rows are its tile.
pub(super) fn eight_rows(x: &str, sizes: &[i64], start: i64) -> Option<String> {
    let [lead @ .., 1, lanes] = sizes else {
        return None;
    };
    let eight = tuple(lead.iter().chain([&8, lanes]));
    (start != 0).then(|| format!("jnp.broadcast_to({x}, {eight})"))
}

impl Form<'_> {
    pub(super) fn reshape(&self) -> Option<String> {
        Some(format!("{}.reshape{}", self.arg(0)?, self.extents()?))
    }

    pub(super) fn transpose(&self) -> Option<String> {
        let perm = self.typed::<Transpose>()?.permutation(self.op()).ok()?;
        Some(format!("jnp.transpose({}, {})", self.arg(0)?, tuple(perm)))
    }

    pub(super) fn broadcast(&self) -> Option<String> {
        let (x, extents) = (self.arg(0)?, self.extents()?);
        Some(format!("jnp.broadcast_to({x}, {extents})"))
    }

    pub(super) fn tile(&mut self) -> Option<String> {
        let repeats = tuple(self.typed::<Tile>()?.repeats);
        let function = match self.site.tile {
            true => self.helper("_repeated"),
            false => "jnp.tile",
        };
        Some(format!("{function}({}, {repeats})", self.arg(0)?))
    }

    pub(super) fn concat(&self) -> Option<String> {
        let axis = self.typed::<Concat>()?.along(self.op()).ok()?;
        let all = self.args.join(", ");
        Some(format!("jnp.concatenate([{all}], axis={axis})"))
    }

    pub(super) fn slice(&mut self) -> Option<String> {
        self.part(&self.typed::<Slice>()?.parts(self.op()).ok()?)
    }

    pub(super) fn subview(&mut self) -> Option<String> {
        let subview = self.typed::<Subview>()?;
        match subview.broadcast {
            true => self.broadcast(),
            false => self.part(&subview.parts(self.op()).ok()?),
        }
    }

    fn part(&mut self, parts: &[SlicePart]) -> Option<String> {
        let ranges = parts.iter().enumerate();
        let ranges = ranges.map(|(d, part)| self.range(d, part));
        let mut ranges: Vec<Range> = ranges.collect::<Option<_>>()?;
        let mut x = self.arg(0)?.to_owned();
        if self.site.tile {
            // A compiler of kernels takes slices without strides.
            for (d, range) in ranges.iter_mut().enumerate().filter(|(_, r)| r.stride != 1) {
                self.helper("_widened");
                let strided = self.helper("_strided");
                let Range {
                    start,
                    count,
                    stride,
                    ..
                } = *range;
                x = format!("{strided}({x}, {d}, {start}, {count}, {stride})");
                *range = Range::whole(count);
            }
        }
        let sizes: Vec<i64> = ranges.iter().map(|range| range.size).collect();
        if let (true, [.., row, lanes]) = (self.site.tile, &mut ranges[..])
            && let Some(rows) = eight_rows(&x, &sizes, lanes.start)
        {
            (x, row.size) = (rows, 8);
        }
        let texts: Vec<String> = ranges.iter().map(Range::text).collect();
        if texts.iter().all(|text| text == ":") {
            return Some(x);
        }
        Some(format!("{x}[{}]", texts.join(", ")))
    }

    /// The slice of one dimension; `None` if its start is unknown.
    fn range(&self, d: usize, part: &SlicePart) -> Option<Range> {
        let extent = |shape: &[u64]| shape.get(d).map(|n| n.cast_signed());
        let size = extent(self.site.operands.first()?)?;
        let count = extent(self.site.results.first()?)?;
        let full = extent(&self.operand(0)?.shape()?)?;
        let all = extent(&self.ty()?.shape()?)?;
        let stride = part.stride;
        let start = if self.site.tile && (size != full || count != all) {
            // The operand's tile is exactly the range that the slice reads, from its first to its last element.
            if (count - 1) * stride.abs() + 1 != size {
                return None;
            }
            if stride < 0 { size - 1 } else { 0 }
        } else {
            i64::try_from(part.start.as_constant()?).ok()?
        };
        Some(Range {
            start,
            count,
            stride,
            size,
        })
    }

    pub(super) fn split(&self) -> Option<Vec<String>> {
        let axis = self.typed::<Split>()?.along(self.op()).ok()?;
        let sizes = self.site.results.iter().map(|result| result.get(axis));
        let sizes: Option<Vec<i64>> = sizes.map(|size| i64::try_from(*size?).ok()).collect();
        Some(slices(self.arg(0)?, &sizes?, axis))
    }

    /// The greatest elements along the last axis, the only form that `lax` has.
    pub(super) fn top_k(&self) -> Option<Vec<String>> {
        let top_k = self.typed::<TopK>()?;
        let axis = top_k.along(self.op()).ok()?;
        let from = self.operand(0)?;
        if axis + 1 != from.rank() || !top_k.largest {
            return None;
        }
        let k = match top_k.k {
            TopK::ALL => from.dims[axis].fixed()?,
            k => u64::try_from(k).ok()?,
        };
        let x = self.arg(0)?;
        let to = dtype(self.op().result(1).ok()?.dtype);
        Some(vec![
            format!("lax.top_k({x}, {k})[0]"),
            format!("lax.top_k({x}, {k})[1].astype({to})"),
        ])
    }

    pub(super) fn pad(&mut self) -> Option<String> {
        let pad = self.typed::<Pad>()?;
        let PadAmounts { low, high } = pad.amounts(self.op()).ok()?;
        let (x, to) = (self.arg(0)?.to_owned(), self.ty()?.dtype);
        if pad.mode != PadMode::Constant {
            let amounts: Vec<(i64, i64)> = low.into_iter().zip(high).collect();
            let (amounts, mode) = (pairs(&amounts), pad.mode.word());
            if self.site.tile {
                let edges = self.helper("_edges");
                return Some(format!("{edges}({x}, {amounts}, \"{mode}\")"));
            }
            return Some(format!("jnp.pad({x}, {amounts}, mode=\"{mode}\")"));
        }
        let value = pad_value(&pad, to)?;
        let config = low.iter().zip(&high).map(|(a, b)| tuple([*a, *b, 0]));
        let (config, to) = (tuple(config), dtype(to));
        Some(format!(
            "lax.pad({x}, jnp.asarray({value}, {to}), {config})"
        ))
    }

    pub(super) fn gather(&self) -> Option<String> {
        let axis = self.typed::<Gather>()?.along(self.op()).ok()?;
        let (x, i) = (self.arg(0)?, self.arg(1)?);
        Some(format!("jnp.take({x}, {i}, axis={axis})"))
    }

    pub(super) fn gather_elements(&self) -> Option<String> {
        let axis = self.typed::<GatherElements>()?.along(self.op()).ok()?;
        let (x, i) = (self.arg(0)?, self.arg(1)?);
        Some(format!("jnp.take_along_axis({x}, {i}, axis={axis})"))
    }

    pub(super) fn gather_nd(&mut self) -> Option<String> {
        let (batch, _) = self.typed::<GatherNd>()?.extents(self.op()).ok()?;
        let gather = self.helper("_gather_nd");
        let (x, i) = (self.arg(0)?, self.arg(1)?);
        Some(format!("{gather}({x}, {i}, {batch})"))
    }

    pub(super) fn dynamic_update_slice(&self) -> Option<String> {
        let (x, update, starts) = (self.arg(0)?, self.arg(1)?, self.args.get(2..)?);
        let starts = starts
            .iter()
            .map(|start| format!("jnp.maximum({start}, 0)"));
        let starts = starts.collect::<Vec<String>>().join(", ");
        Some(format!(
            "lax.dynamic_update_slice({x}, {update}, [{starts}])"
        ))
    }

    pub(super) fn scatter_nd(&self) -> Option<String> {
        let places = format!("tuple(jnp.moveaxis({}, -1, 0))", self.arg(1)?);
        // JAX counts negative places from the end.
        let scatter = self.typed::<ScatterNd>().filter(|op| !op.drop_outside)?;
        self.scatter(&places, scatter.reduction)
    }

    pub(super) fn scatter_elements(&mut self) -> Option<String> {
        let scatter = self.typed::<ScatterElements>()?;
        let axis = scatter.along(self.op()).ok()?;
        let places = self.helper("_element_places");
        let places = format!("{places}({}, {axis})", self.arg(1)?);
        self.scatter(&places, scatter.reduction)
    }

    /// A copy of the first operand with updates at these positions.
    pub(super) fn scatter(&self, places: &str, reduction: ScatterReduction) -> Option<String> {
        let method = match reduction {
            ScatterReduction::None => "set",
            ScatterReduction::Add => "add",
            ScatterReduction::Mul => "multiply",
            ScatterReduction::Max => "max",
            ScatterReduction::Min => "min",
        };
        let (x, updates) = (self.arg(0)?, self.arg(2)?);
        Some(format!("{x}.at[{places}].{method}({updates})"))
    }

    /// A permutation of blocks, as a reshape, a transpose and a reshape.
    pub(super) fn blocks(&self, typed: &impl Operation) -> Option<String> {
        let map = typed.rearrangement(self.op()).ok()?;
        let shape: Option<Vec<u64>> = map.shape.iter().map(Dim::fixed).collect();
        let (x, inner, perm) = (self.arg(0)?, tuple(shape?), tuple(map.perm));
        let extents = self.extents()?;
        Some(format!(
            "jnp.transpose({x}.reshape{inner}, {perm}).reshape{extents}"
        ))
    }

    pub(super) fn one_hot(&self) -> Option<String> {
        let one_hot = self.typed::<OneHot>()?;
        let (axis, depth) = (one_hot.along(self.op()).ok()?, one_hot.depth);
        let (x, extents) = (self.arg(0)?, self.extents()?);
        let marked = format!(
            "jnp.expand_dims({x} % {depth}, {axis}) == lax.broadcasted_iota({x}.dtype, {extents}, {axis})"
        );
        let inside = format!("jnp.expand_dims((-{depth} <= {x}) & ({x} < {depth}), {axis})");
        let (off, on) = match self.arg(1) {
            Some(values) => (format!("{values}[0]"), format!("{values}[1]")),
            None => ("0".to_owned(), "1".to_owned()),
        };
        let to = dtype(self.ty()?.dtype);
        Some(format!(
            "jnp.where(({marked}) & {inside}, {on}, {off}).astype({to})"
        ))
    }

    pub(super) fn iota(&self) -> Option<String> {
        let axis = self.typed::<Iota>()?.along(self.op()).ok()?;
        let (to, extents) = (dtype(self.ty()?.dtype), self.extents()?);
        Some(format!("lax.broadcasted_iota({to}, {extents}, {axis})"))
    }

    pub(super) fn trilu(&self) -> Option<String> {
        let (x, Trilu { k, upper }) = (self.arg(0)?, self.typed()?);
        let triangle = if upper { "jnp.triu" } else { "jnp.tril" };
        Some(format!("{triangle}({x}, {k})"))
    }
}
