//! `com.microsoft.GroupQueryAttention`: attention of new tokens that follow those of a cache.
//!
//! In each sequence of the batch `seqlens_k + 1` tokens are valid after the new ones are added to the cache, behind the
//! old ones. The first prompt of a conversation has length `total_sequence_length`: there are no tokens before it, even
//! if it is padded at its end.

use super::attention::{Headed, Heads, Offset, Operands, Plan, attend, joined, outside};
use super::{Rule, decomposed};
use crate::builder::{Stop, Val};
use crate::entries::Entry;
use crate::entries::size_attr;
use crate::node::{Done, NodeCx};
use optc_ir::{DType, Dim, Size, Type};
use optc_ops::{
    Add, Broadcast, Concat, Direction, GatherNd, Max, Min, RotaryEmbedding, Select, Split, Sub,
};

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[decomposed("GroupQueryAttention", group_query_attention)];

/// Inputs of the operator.
const KEY: usize = 1;
const VALUE: usize = 2;
const PAST_KEY: usize = 3;
const PAST_VALUE: usize = 4;
const LENGTHS: usize = 5;
const TOTAL: usize = 6;
const COSINES: usize = 7;
const SINES: usize = 8;
const POSITIONS: usize = 9;
const BIAS: usize = 10;
const SINK: usize = 11;

/// Outputs of the operator.
const PRESENT_KEY: usize = 1;
const PRODUCTS: usize = 3;

pub(super) fn group_query_attention(cx: &mut NodeCx<'_, '_>) -> Done {
    usual(cx)?;
    let [q, k, v] = heads(cx)?;
    let cache = Cache::of(cx, k)?;
    let [q, k] = match cx.flag("do_rotary", false) {
        true => rotated(cx, &cache, [q, k])?,
        false => [q, k],
    };
    let keys = cache.joined(cx, k, PAST_KEY)?;
    let values = cache.joined(cx, v, PAST_VALUE)?;
    for (i, x) in (PRESENT_KEY..).zip([keys, values]) {
        if cx.is_used(i) {
            let present = outside(cx, x)?;
            cx.set(i, present);
        }
    }
    let size = cx.extent(q.val, 3)?;
    let element = cx.dtype(q.val)?;
    let stated = cx.float("scale", 0.0);
    let causal = cx.flag("causal", true);
    let plan = Plan {
        scale: match stated == 0.0 {
            true => 1.0 / (size as f64).sqrt(),
            false => stated,
        },
        softcap: cx.float("softcap", 0.0),
        softmax: match element {
            DType::F64 => DType::F64,
            _ => DType::F32,
        },
        causal,
        left: cx.int("local_window_size").filter(|&n| 0 < n).unwrap_or(0) - 1,
        right: -1,
        guarded: false,
        sink: sink(cx, element)?,
    };
    let offset = match (&cache.before, causal) {
        (_, false) => Offset::Valid(cache.valid(cx)?),
        (Some(before), true) => Offset::Before(cx.unsqueeze(*before, &[1, 2, 3])?),
        (None, true) => Offset::Fixed(0),
    };
    let operands = Operands {
        q,
        k: keys,
        v: values,
        mask: cx.input(BIAS),
        offset,
    };
    let scores = attend(cx, &plan, &operands)?;
    let y = joined(cx, scores.y)?;
    cx.set(0, y);
    Ok(())
}

/// Refuses features that only some of the runtime's devices have.
fn usual(cx: &NodeCx<'_, '_>) -> Done {
    if (SINK + 1..cx.inputs.len()).any(|i| cx.input(i).is_some()) {
        return Err(Stop::opaque(
            "its cache is quantized, its heads are normalized, or its queries are padded",
        ));
    }
    if cx.flag("sliding_window_cache", false) {
        return Err(Stop::opaque("its cache drops what left the window"));
    }
    if cx.is_used(PRODUCTS) {
        return Err(Stop::opaque("it gives the products of queries and keys"));
    }
    Ok(())
}

/// Queries, keys and values as `[batch, length, heads, size]`.
fn heads(cx: &mut NodeCx<'_, '_>) -> Result<[Headed; 3], Stop> {
    let q = cx.need(0)?;
    let count = |name: &str| {
        let count = cx.int(name).filter(|&n| 0 < n);
        count.ok_or_else(|| Stop::opaque("it does not say how many heads it has"))
    };
    let (q_heads, kv_heads) = (count("num_heads")?, count("kv_num_heads")?);
    let parts = match (cx.input(KEY), cx.input(VALUE)) {
        (Some(k), Some(v)) => vec![q, k, v],
        _ => {
            let all = q_heads.saturating_add(kv_heads.saturating_mul(2));
            let hidden = cx.extent(q, 2)?;
            if hidden % all != 0 {
                return Err(Stop::opaque("its heads do not divide the hidden size"));
            }
            let sizes = [q_heads, kv_heads, kv_heads].map(|n| hidden / all * n);
            let sizes = sizes.to_vec();
            cx.emit_all(&Split { axis: 2, sizes }, &[q])?
        }
    };
    let &[q, k, v] = &parts[..] else {
        return Err(Stop::opaque("its operands are packed"));
    };
    Ok([
        Headed::new(cx, q, Some(q_heads))?,
        Headed::new(cx, k, Some(kv_heads))?,
        Headed::new(cx, v, Some(kv_heads))?,
    ])
}

/// The sink that is added to the sum of exponentials, as a logit for each head, `[heads, 1, 1]`, or one for all heads.
fn sink(cx: &mut NodeCx<'_, '_>, element: DType) -> Result<Option<Val>, Stop> {
    if let Some(sink) = cx.input(SINK) {
        return cx.unsqueeze(sink, &[1, 2]).map(Some);
    }
    let smooth = cx.flag("smooth_softmax", false);
    Ok(smooth.then(|| cx.b.scalar(element, 0.0, cx.loc.clone())))
}

/// The positions of a step's tokens in the cache.
struct Cache {
    /// The number of new tokens.
    new: Dim,
    /// The number of tokens for which the cache has room after the step.
    present: Dim,
    /// True for the first prompt, if the sizes determine it.
    first: Option<bool>,
    /// The number of tokens before the new ones, by sequence; `None` if there are none.
    before: Option<Val>,
}

impl Cache {
    fn of(cx: &mut NodeCx<'_, '_>, k: Headed) -> Result<Cache, Stop> {
        let new = k.length(cx)?;
        let past = match cx.input(PAST_KEY) {
            Some(past) if cx.rank(past)? == 4 => cx.dims(past)?.into_iter().nth(2),
            Some(_) => return Err(Stop::opaque("its past has another rank than 4")),
            None => None,
        };
        let total = cx.entries(TOTAL).and_then(|sizes| match &sizes[..] {
            [one] => one.size(),
            _ => None,
        });
        let present = present(cx, past.as_ref(), total.as_ref())?;
        let ahead = total.zip(new.size()).and_then(|(t, s)| t.minus(&s));
        let first = match ahead {
            Some(ahead) if ahead.as_constant() == Some(0) => Some(true),
            Some(ahead) if ahead.is_nonzero() => Some(false),
            _ => None,
        };
        let mut cache = Cache {
            new,
            present,
            first,
            before: None,
        };
        if first == Some(true) {
            return Ok(cache);
        }
        let valid = cache.valid(cx)?;
        let count = cx.extent_value(k.val, 1)?;
        let before = cx.emit(&Sub {}, &[valid, count])?;
        // A padded first prompt has fewer valid tokens than new ones.
        let zero = cx.scalar_like(0.0, before)?;
        let before = cx.emit(&Max {}, &[before, zero])?;
        cache.before = Some(before);
        Ok(cache)
    }

    /// The number of valid tokens after the step, by sequence.
    fn valid(&self, cx: &mut NodeCx<'_, '_>) -> Result<Val, Stop> {
        let lengths = cx.need(LENGTHS)?;
        let lengths = cx.cast(lengths, DType::SI64)?;
        let lengths = match cx.rank(lengths)? {
            1 => lengths,
            _ => cx.reshape(lengths, &[-1])?,
        };
        let one = cx.scalar_like(1.0, lengths)?;
        cx.emit(&Add {}, &[lengths, one])
    }

    /// The past in input `i` with the new tokens behind the valid ones, and zeros behind these.
    fn joined(&self, cx: &mut NodeCx<'_, '_>, x: Headed, i: usize) -> Result<Headed, Stop> {
        if self.before.is_none() && self.present == self.new {
            return Ok(x);
        }
        let new = outside(cx, x)?;
        let mut all = new;
        if let Some(past) = cx.input(i) {
            all = cx.emit(&Concat { axis: 2 }, &[past, new])?;
        }
        let place = cx.iota(&self.present, 2, 4, DType::SI64)?;
        let before = match self.before {
            Some(before) => cx.unsqueeze(before, &[1, 2, 3])?,
            None => cx.scalar_like(0.0, place)?,
        };
        let behind = cx.emit(&Sub {}, &[place, before])?;
        let count = cx.extent_value(new, 2)?;
        let valid = cx.compare(Direction::Lt, behind, count)?;
        let mut from = behind;
        if let Some(past) = cx.input(i) {
            let length = cx.extent_value(past, 2)?;
            let new = cx.emit(&Add {}, &[behind, length])?;
            let old = cx.compare(Direction::Lt, place, before)?;
            from = cx.emit(&Select {}, &[old, place, new])?;
        }
        // Places behind the valid tokens read an arbitrary one.
        let one = cx.scalar_like(1.0, from)?;
        let most = cx.extent_value(all, 2)?;
        let last = cx.emit(&Sub {}, &[most, one])?;
        let from = cx.emit(&Min {}, &[from, last])?;
        let zero = cx.scalar_like(0.0, from)?;
        let from = cx.emit(&Max {}, &[from, zero])?;
        let mut dims = cx.dims(new)?;
        (dims[2], dims[3]) = (self.present.clone(), Dim::Fixed(1));
        if dims.contains(&Dim::Unknown) {
            return Err(Stop::opaque("an extent it needs is unknown"));
        }
        let shape = dims.iter().map(|d| size_attr(&Entry::from(d))).collect();
        let shape = Some(shape);
        let from = cx.emit(&Broadcast { shape }, &[from])?;
        let picked = cx.emit(&GatherNd { batch_dims: 2 }, &[all, from])?;
        let zero = cx.scalar_like(0.0, picked)?;
        let val = cx.emit(&Select {}, &[valid, picked, zero])?;
        Ok(Headed {
            val,
            heads: Heads::Outside,
        })
    }

    /// The positions of the new tokens: the stated ones, which for a first prompt are counted from the first of them.
    /// Without stated ones, the positions in the cache.
    fn positions(&self, cx: &mut NodeCx<'_, '_>) -> Result<Val, Stop> {
        let line = cx.iota(&self.new, 1, 2, DType::SI64)?;
        let Some(stated) = cx.input(POSITIONS) else {
            let Some(before) = self.before else {
                return Ok(line);
            };
            let before = cx.unsqueeze(before, &[1])?;
            return cx.emit(&Add {}, &[before, line]);
        };
        let stated = cx.cast(stated, DType::SI64)?;
        if self.first == Some(false) {
            return Ok(stated);
        }
        let start = cx.cut(stated, 0, 0, 1)?;
        let start = cx.cut(start, 1, 0, 1)?;
        let counted = cx.emit(&Add {}, &[start, line])?;
        if self.first == Some(true) {
            return Ok(counted);
        }
        let total = cx.need(TOTAL)?;
        let total = cx.cast(total, DType::SI64)?;
        let total = cx.reshape(total, &[1])?;
        let count = cx.extent_value(stated, 1)?;
        let is_first = cx.compare(Direction::Eq, total, count)?;
        cx.emit(&Select {}, &[is_first, counted, stated])
    }
}

/// The number of tokens for which the cache has room after the step: the declared number, else the cache's old one, or
/// the greatest number of tokens of any sequence.
fn present(cx: &NodeCx<'_, '_>, past: Option<&Dim>, total: Option<&Size>) -> Result<Dim, Stop> {
    let declared = [PRESENT_KEY, PRESENT_KEY + 1].map(|i| cx.declared_type(i));
    let declared = declared.iter().flatten().filter_map(Type::as_tensor);
    let mut declared = declared.filter_map(|ty| ty.dims.get(2).cloned());
    let declared = declared.find(|dim| *dim != Dim::Unknown);
    let past = match past {
        Some(past) => past.size(),
        None => Some(Size::default()),
    };
    let computed = past
        .zip(total)
        .and_then(|(past, total)| past.maximum(total));
    let of_total = total.map(Dim::of_size);
    match (declared, computed) {
        (Some(said), _) if said.fixed().is_some() || Some(&said) == of_total.as_ref() => Ok(said),
        (_, Some(size)) => Ok(Dim::of_size(&size)),
        (Some(said), None) => Ok(said),
        (None, None) => Err(Stop::opaque(
            "only running it tells how long its cache is afterwards",
        )),
    }
}

/// Queries and keys rotated by their positions.
fn rotated(cx: &mut NodeCx<'_, '_>, cache: &Cache, all: [Headed; 2]) -> Result<[Headed; 2], Stop> {
    let (cos, sin) = (cx.need(COSINES)?, cx.need(SINES)?);
    let positions = cache.positions(cx)?;
    // A position outside the tables reads an arbitrary row.
    let (zero, one) = (
        cx.scalar_like(0.0, positions)?,
        cx.scalar_like(1.0, positions)?,
    );
    let rows = cx.extent_value(cos, 0)?;
    let last = cx.emit(&Sub {}, &[rows, one])?;
    let positions = cx.emit(&Min {}, &[positions, last])?;
    let positions = cx.emit(&Max {}, &[positions, zero])?;
    let op = RotaryEmbedding {
        sequence_axis: 1,
        size: cx.extent(cos, 1)?.saturating_mul(2),
        interleaved: cx.flag("rotary_interleaved", false),
    };
    let [q, k] = all;
    let mut turned = |x: Headed| {
        let val = cx.emit(&op, &[x.val, cos, sin, positions])?;
        Ok::<Headed, Stop>(Headed { val, ..x })
    };
    Ok([turned(q)?, turned(k)?])
}
