//! Attention and rotary embedding, expressed as contractions so that no operand is transposed.

use super::shape::reshape_to;
use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::entries::Entry;
use crate::node::{Done, NodeCx, props};
use optc_ir::{Attr, DType, Dim, Size};
use optc_onnx_proto::dtype;
use optc_ops::{
    Add, And, Concat, Direction, Div, Exp, Matmul, Max, Mul, Pad, PadMode, PadValue, ReduceKind,
    Select, Softmax, Split, Squeeze, Sub, Tanh, Transpose,
};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    decomposed("Attention", attention),
    native("RotaryEmbedding", rotary_embedding),
];

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[
    decomposed("Attention", packed_attention),
    decomposed("MultiHeadAttention", multi_head_attention),
    native("RotaryEmbedding", microsoft_rotary_embedding),
];

/// The place of the heads in an operand of rank 4.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heads {
    /// `[batch, heads, length, size]`
    Outside,
    /// `[batch, length, heads, size]`
    Inside,
}

impl Heads {
    /// The axes of the heads and of the length.
    fn axes(self) -> (usize, usize) {
        match self {
            Heads::Outside => (1, 2),
            Heads::Inside => (2, 1),
        }
    }
}

/// An operand of rank 4 and the place of its heads.
#[derive(Clone, Copy)]
pub(super) struct Headed {
    pub(super) val: Val,
    pub(super) heads: Heads,
}

impl Headed {
    /// An operand of rank 4 unchanged, or one of rank 3 with its last dimension split into `heads`.
    pub(super) fn new(
        cx: &mut NodeCx<'_, '_>,
        val: Val,
        heads: Option<i64>,
    ) -> Result<Headed, Stop> {
        let dims = cx.dims(val)?;
        match (dims.len(), heads) {
            (4, _) => Ok(Headed {
                val,
                heads: Heads::Outside,
            }),
            (3, Some(heads)) if 0 < heads => {
                let hidden = cx.extent(val, 2)?;
                if hidden % heads != 0 {
                    return Err(Stop::opaque("its heads do not divide the hidden size"));
                }
                let sizes = [
                    Entry::from(&dims[0]),
                    Entry::from(&dims[1]),
                    Entry::Int(heads),
                    Entry::Int(hidden / heads),
                ];
                let val = reshape_to(cx, val, &sizes)?;
                Ok(Headed {
                    val,
                    heads: Heads::Inside,
                })
            }
            (3, _) => Err(Stop::opaque("it does not say how many heads it has")),
            (rank, _) => Err(Stop::opaque(format!("an operand has rank {rank}"))),
        }
    }

    /// The number of heads.
    fn count(self, cx: &NodeCx<'_, '_>) -> Result<i64, Stop> {
        cx.extent(self.val, self.heads.axes().0)
    }

    /// The extent of the sequence.
    pub(super) fn length(self, cx: &NodeCx<'_, '_>) -> Result<Dim, Stop> {
        let dims = cx.dims(self.val)?;
        Ok(dims[self.heads.axes().1].clone())
    }

    /// The operand with its heads split into groups of `per_group`: `h` becomes two dimensions.
    fn grouped(self, cx: &mut NodeCx<'_, '_>, per_group: i64) -> Result<Headed, Stop> {
        let axis = self.heads.axes().0;
        let heads = self.count(cx)?;
        let mut sizes: Vec<Entry> = cx.dims(self.val)?.iter().map(Entry::from).collect();
        sizes[axis] = Entry::Int(per_group);
        sizes.insert(axis, Entry::Int(heads / per_group));
        let val = reshape_to(cx, self.val, &sizes)?;
        Ok(Headed { val, ..self })
    }

    /// The letters of its dimensions in a contraction.
    fn letters(self, length: char, size: char, groups: bool) -> String {
        let heads = if groups { "hg" } else { "h" };
        match self.heads {
            Heads::Outside => format!("b{heads}{length}{size}"),
            Heads::Inside => format!("b{length}{heads}{size}"),
        }
    }
}

/// The parameters of an attention, beside its operands.
pub(super) struct Plan {
    pub(super) scale: f64,
    pub(super) softcap: f64,
    pub(super) softmax: DType,
    pub(super) causal: bool,
    pub(super) left: i64,
    pub(super) right: i64,
    /// True if masked logits are minus infinity, and rows with only masked logits give zeros.
    pub(super) guarded: bool,
    /// A further logit beside those of the keys, whose share belongs to no value; it broadcasts with the logits.
    pub(super) sink: Option<Val>,
}

/// The operands of an attention.
pub(super) struct Operands {
    pub(super) q: Headed,
    pub(super) k: Headed,
    pub(super) v: Headed,
    /// A mask of truth values, or an additive mask.
    pub(super) mask: Option<Val>,
    /// The number of keys before the queries, or the valid lengths of each batch.
    pub(super) offset: Offset,
}

/// The number of keys before the first query.
pub(super) enum Offset {
    /// The same number for every batch.
    Fixed(i64),
    /// The number of valid keys of each batch; the queries are the last of them.
    Valid(Val),
    /// A number as a value: one for all, or one for each batch as `[batch, 1, 1, 1]`.
    Before(Val),
}

/// The results of an attention.
pub(super) struct Scores {
    pub(super) y: Val,
    /// The logits, the logits after the soft cap, those after the mask, and the probabilities.
    pub(super) stages: [Val; 4],
}

/// `Attention` of the standard.
fn attention(cx: &mut NodeCx<'_, '_>) -> Done {
    let (q, k, v) = (cx.need(0)?, cx.need(1)?, cx.need(2)?);
    let (q_heads, kv_heads) = (cx.int("q_num_heads"), cx.int("kv_num_heads"));
    let flat = cx.rank(q)? == 3;
    let q = Headed::new(cx, q, q_heads)?;
    let mut k = Headed::new(cx, k, kv_heads)?;
    let mut v = Headed::new(cx, v, kv_heads)?;
    let dtype_of_q = cx.dtype(q.val)?;
    let mut offset = match cx.input(6) {
        Some(lengths) => Offset::Valid(lengths),
        None => Offset::Fixed(0),
    };
    if let Some(past) = cx.input(4) {
        offset = after(cx, past)?;
    }
    for (i, x) in [(4, &mut k), (5, &mut v)] {
        *x = with_past(cx, *x, cx.input(i))?;
        if cx.is_used(i - 3) {
            let present = outside(cx, *x)?;
            cx.set(i - 3, present);
        }
    }
    let size = cx.extent(q.val, 3)?;
    let softmax = match cx.int("softmax_precision") {
        None => dtype_of_q,
        Some(code) => dtype(i32::try_from(code).unwrap_or(-1))
            .map_err(|found| Stop::opaque(format!("its softmax is in {found}")))?,
    };
    let plan = Plan {
        scale: cx.float("scale", 1.0 / (size as f64).sqrt()),
        softcap: cx.float("softcap", 0.0),
        softmax,
        causal: cx.flag("is_causal", false),
        left: cx.int("left_window_size").unwrap_or(-1),
        right: cx.int("right_window_size").unwrap_or(-1),
        guarded: true,
        sink: None,
    };
    let mask = cx.input(3);
    let operands = Operands {
        q,
        k,
        v,
        mask,
        offset,
    };
    let scores = attend(cx, &plan, &operands)?;
    let y = if flat {
        joined(cx, scores.y)?
    } else {
        scores.y
    };
    cx.set(0, y);
    if cx.is_used(3) {
        let mode = cx.int("qk_matmul_output_mode").unwrap_or(0);
        let stage = usize::try_from(mode)
            .ok()
            .and_then(|m| scores.stages.get(m));
        let &stage = stage.ok_or_else(|| Stop::opaque(format!("its output mode is {mode}")))?;
        let stage = cx.cast(stage, dtype_of_q)?;
        cx.set(3, stage);
    }
    Ok(())
}

/// The number of keys before the first query: the length of a past, `[batch, heads, length, size]`.
fn after(cx: &mut NodeCx<'_, '_>, past: Val) -> Result<Offset, Stop> {
    if cx.rank(past)? != 4 {
        return Err(Stop::opaque("its past has another rank than 4"));
    }
    match cx.extent(past, 2) {
        Ok(length) => Ok(Offset::Fixed(length)),
        Err(_) => cx.extent_value(past, 2).map(Offset::Before),
    }
}

/// `x` after the past, if there is one.
fn with_past(cx: &mut NodeCx<'_, '_>, x: Headed, past: Option<Val>) -> Result<Headed, Stop> {
    let Some(past) = past else {
        return Ok(x);
    };
    let new = outside(cx, x)?;
    let val = cx.emit(&Concat { axis: 2 }, &[past, new])?;
    Ok(Headed {
        val,
        heads: Heads::Outside,
    })
}

/// `[batch, heads, length, size]`
pub(super) fn outside(cx: &mut NodeCx<'_, '_>, x: Headed) -> Result<Val, Stop> {
    match x.heads {
        Heads::Outside => Ok(x.val),
        Heads::Inside => {
            let perm = vec![0, 2, 1, 3];
            cx.emit(&Transpose { perm }, &[x.val])
        }
    }
}

/// `[batch, length, heads, size]` as `[batch, length, hidden]`.
pub(super) fn joined(cx: &mut NodeCx<'_, '_>, y: Val) -> Result<Val, Stop> {
    let dims = cx.dims(y)?;
    let hidden = cx.extent(y, 2)?.checked_mul(cx.extent(y, 3)?);
    let hidden = hidden.ok_or_else(|| Stop::opaque("its hidden size is too large"))?;
    let sizes = [
        Entry::from(&dims[0]),
        Entry::from(&dims[1]),
        Entry::Int(hidden),
    ];
    reshape_to(cx, y, &sizes)
}

/// `softmax(q k' * scale + mask) v`; the heads of the result are at the place of those of `q`.
pub(super) fn attend(
    cx: &mut NodeCx<'_, '_>,
    plan: &Plan,
    operands: &Operands,
) -> Result<Scores, Stop> {
    let Operands { q, k, v, .. } = *operands;
    let element = cx.dtype(q.val)?;
    let (q_count, k_count) = (q.count(cx)?, k.count(cx)?);
    if k_count < 1 || q_count < 1 || q_count % k_count != 0 || v.count(cx)? != k_count {
        return Err(Stop::opaque("its heads do not divide into groups"));
    }
    let groups = q_count != k_count;
    let q_split = if groups {
        q.grouped(cx, q_count / k_count)?
    } else {
        q
    };
    let out = if groups { "bhgqk" } else { "bhqk" };
    let (q_letters, k_letters) = (q.letters('q', 'd', groups), k.letters('k', 'd', false));
    // Both sides are scaled, so that no product overflows unless the result does.
    let root = plan.scale.abs().sqrt();
    let left = cx.scalar_like(root * plan.scale.signum(), q.val)?;
    let right = cx.scalar_like(root, q.val)?;
    let q_scaled = cx.emit(&Mul {}, &[q_split.val, left])?;
    let k_scaled = cx.emit(&Mul {}, &[k.val, right])?;
    let logits = cx.einsum(
        &format!("{q_letters},{k_letters}->{out}"),
        &[q_scaled, k_scaled],
    )?;
    let logits = ungrouped(cx, logits, groups)?;
    let capped = soft_cap(cx, logits, plan.softcap)?;
    let bias = bias(cx, plan, operands, element)?;
    let masked = match bias {
        Some(bias) => cx.emit(&Add {}, &[capped, bias])?,
        None => capped,
    };
    let wide = cx.cast(masked, plan.softmax)?;
    let mut shares = match plan.sink {
        Some(sink) => with_sink(cx, wide, sink)?,
        None => cx.emit(&Softmax { axis: 3 }, &[wide])?,
    };
    if let Some(bias) = bias.filter(|_| plan.guarded) {
        shares = without_empty_rows(cx, shares, bias)?;
    }
    let shares = cx.cast(shares, element)?;
    let split = if groups {
        Headed {
            val: shares,
            heads: Heads::Outside,
        }
        .grouped(cx, q_count / k_count)?
        .val
    } else {
        shares
    };
    let (v_letters, y_letters) = (v.letters('k', 'd', false), q.letters('q', 'd', groups));
    let y = cx.einsum(&format!("{out},{v_letters}->{y_letters}"), &[split, v.val])?;
    let y = regrouped(cx, y, q, groups)?;
    let stages = [logits, capped, masked, shares];
    Ok(Scores { y, stages })
}

/// `[b, h, g, q, k]` as `[b, h*g, q, k]`.
fn ungrouped(cx: &mut NodeCx<'_, '_>, x: Val, groups: bool) -> Result<Val, Stop> {
    if groups { merged(cx, x, 1) } else { Ok(x) }
}

/// The result with groups and heads merged into one dimension.
fn regrouped(cx: &mut NodeCx<'_, '_>, y: Val, q: Headed, groups: bool) -> Result<Val, Stop> {
    if groups {
        merged(cx, y, q.heads.axes().0)
    } else {
        Ok(y)
    }
}

/// Merges dimensions `axis` and `axis + 1`, of known extents.
fn merged(cx: &mut NodeCx<'_, '_>, x: Val, axis: usize) -> Result<Val, Stop> {
    let product = cx.extent(x, axis)?.checked_mul(cx.extent(x, axis + 1)?);
    let product = product.ok_or_else(|| Stop::opaque("its hidden size is too large"))?;
    let mut sizes: Vec<Entry> = cx.dims(x)?.iter().map(Entry::from).collect();
    sizes.remove(axis + 1);
    sizes[axis] = Entry::Int(product);
    reshape_to(cx, x, &sizes)
}

/// `cap * tanh(x / cap)`, or `x` for a cap of 0.
fn soft_cap(cx: &mut NodeCx<'_, '_>, x: Val, cap: f64) -> Result<Val, Stop> {
    if cap <= 0.0 {
        return Ok(x);
    }
    let cap = cx.scalar_like(cap, x)?;
    let ratio = cx.emit(&Div {}, &[x, cap])?;
    let bent = cx.emit(&Tanh {}, &[ratio])?;
    cx.emit(&Mul {}, &[bent, cap])
}

/// Softmax along the keys with one further logit, which only enters the sum.
fn with_sink(cx: &mut NodeCx<'_, '_>, logits: Val, sink: Val) -> Result<Val, Stop> {
    let sink = cx.cast(sink, cx.dtype(logits)?)?;
    let greatest = cx.reduce(ReduceKind::Max, logits, &[3], true)?;
    let greatest = cx.emit(&Max {}, &[greatest, sink])?;
    let below = cx.emit(&Sub {}, &[logits, greatest])?;
    let shares = cx.emit(&Exp {}, &[below])?;
    let sum = cx.reduce(ReduceKind::Sum, shares, &[3], true)?;
    let below = cx.emit(&Sub {}, &[sink, greatest])?;
    let more = cx.emit(&Exp {}, &[below])?;
    let sum = cx.emit(&Add {}, &[sum, more])?;
    cx.emit(&Div {}, &[shares, sum])
}

/// Sets rows to zero whose biases are all minus infinity.
fn without_empty_rows(cx: &mut NodeCx<'_, '_>, shares: Val, bias: Val) -> Result<Val, Stop> {
    let last = cx.rank(bias)? - 1;
    let greatest = cx.reduce(ReduceKind::Max, bias, &[last], true)?;
    let nothing = cx.scalar_like(f64::NEG_INFINITY, bias)?;
    let empty = cx.compare(Direction::Eq, greatest, nothing)?;
    let zero = cx.scalar_like(0.0, shares)?;
    cx.emit(&Select {}, &[empty, zero, shares])
}

/// The bias of the logits: the mask, and minus infinity for keys outside a query's reach.
fn bias(
    cx: &mut NodeCx<'_, '_>,
    plan: &Plan,
    operands: &Operands,
    element: DType,
) -> Result<Option<Val>, Stop> {
    let (q_dim, k_dim) = (operands.q.length(cx)?, operands.k.length(cx)?);
    let mut bias = match operands.mask {
        Some(mask) => Some(additive(cx, mask, &k_dim, element)?),
        None => None,
    };
    if plan.causal || 0 <= plan.left || 0 <= plan.right {
        let reach = reach(cx, plan, operands, (&q_dim, &k_dim))?;
        bias = Some(plus_outside(cx, bias, reach, element)?);
    }
    if let Offset::Valid(lengths) = operands.offset {
        let key = cx.iota(&k_dim, 3, 4, DType::SI64)?;
        let lengths = by_batch(cx, lengths)?;
        let valid = cx.compare(Direction::Lt, key, lengths)?;
        bias = Some(plus_outside(cx, bias, valid, element)?);
    }
    Ok(bias)
}

/// `bias` plus minus infinity at the elements for which `inside` is false.
fn plus_outside(
    cx: &mut NodeCx<'_, '_>,
    bias: Option<Val>,
    inside: Val,
    element: DType,
) -> Result<Val, Stop> {
    let loc = cx.loc.clone();
    let zero = cx.b.scalar(element, 0.0, loc.clone());
    let nothing = cx.b.scalar(element, f64::NEG_INFINITY, loc);
    match bias {
        Some(bias) => {
            let more = cx.emit(&Select {}, &[inside, zero, nothing])?;
            cx.emit(&Add {}, &[bias, more])
        }
        None => cx.emit(&Select {}, &[inside, zero, nothing]),
    }
}

/// A mask in additive form with the length of the keys; the end that it lacks is masked.
fn additive(cx: &mut NodeCx<'_, '_>, mask: Val, keys: &Dim, element: DType) -> Result<Val, Stop> {
    let dims = cx.dims(mask)?;
    let Some(last) = dims.last() else {
        return Err(Stop::opaque("its mask has no dimension"));
    };
    let loc = cx.loc.clone();
    let mut mask = mask;
    if cx.dtype(mask)?.is_bool() {
        let zero = cx.b.scalar(element, 0.0, loc.clone());
        let nothing = cx.b.scalar(element, f64::NEG_INFINITY, loc);
        mask = cx.emit(&Select {}, &[mask, zero, nothing])?;
    }
    let (Some(have), Some(want)) = (last.fixed(), keys.fixed()) else {
        return Ok(mask);
    };
    if want <= have || have == 1 {
        return Ok(mask);
    }
    let mut high = vec![0i64; dims.len()];
    high[dims.len() - 1] = i64::try_from(want - have).unwrap_or(i64::MAX);
    let pad = Pad {
        low: Some(vec![0; dims.len()]),
        high: Some(high),
        mode: PadMode::Constant,
        value: PadValue::Float(f64::NEG_INFINITY),
    };
    cx.emit(&pad, &[mask])
}

/// The truth value for each query and key: the key is neither after the query nor outside the window.
fn reach(
    cx: &mut NodeCx<'_, '_>,
    plan: &Plan,
    operands: &Operands,
    (q_dim, k_dim): (&Dim, &Dim),
) -> Result<Val, Stop> {
    let (query, key) = match operands.offset {
        Offset::Fixed(offset) => {
            let query = cx.iota(q_dim, 0, 2, DType::SI64)?;
            let offset = cx.scalar_like(offset as f64, query)?;
            (
                cx.emit(&Add {}, &[query, offset])?,
                cx.iota(k_dim, 1, 2, DType::SI64)?,
            )
        }
        Offset::Before(before) => {
            let query = cx.iota(q_dim, 2, 4, DType::SI64)?;
            (
                cx.emit(&Add {}, &[query, before])?,
                cx.iota(k_dim, 3, 4, DType::SI64)?,
            )
        }
        Offset::Valid(lengths) => {
            let query = cx.iota(q_dim, 2, 4, DType::SI64)?;
            let lengths = by_batch(cx, lengths)?;
            let queries = cx.extent_value(operands.q.val, operands.q.heads.axes().1)?;
            let before = cx.emit(&Sub {}, &[lengths, queries])?;
            (
                cx.emit(&Add {}, &[query, before])?,
                cx.iota(k_dim, 3, 4, DType::SI64)?,
            )
        }
    };
    let ahead = cx.emit(&Sub {}, &[key, query])?;
    let mut reach = None;
    let right = if plan.causal { 0 } else { i64::MAX };
    let right = if 0 <= plan.right {
        right.min(plan.right)
    } else {
        right
    };
    if right != i64::MAX {
        let bound = cx.scalar_like(right as f64, ahead)?;
        reach = Some(cx.compare(Direction::Le, ahead, bound)?);
    }
    if 0 <= plan.left {
        let bound = cx.scalar_like(-(plan.left as f64), ahead)?;
        let near = cx.compare(Direction::Ge, ahead, bound)?;
        reach = Some(match reach {
            Some(reach) => cx.emit(&And {}, &[reach, near])?,
            None => near,
        });
    }
    reach.ok_or_else(|| Stop::opaque("it has no reach"))
}

/// One number for each batch, as `[batch, 1, 1, 1]`.
fn by_batch(cx: &mut NodeCx<'_, '_>, lengths: Val) -> Result<Val, Stop> {
    if cx.rank(lengths)? != 1 {
        return Err(Stop::opaque("its lengths are no vector"));
    }
    let lengths = cx.cast(lengths, DType::SI64)?;
    cx.unsqueeze(lengths, &[1, 2, 3])
}

/// The rotation of pairs of elements by angles that depend on the position.
fn rotary_embedding(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, cos, sin) = (cx.need(0)?, cx.need(1)?, cx.need(2)?);
    let positions = cx.input(3);
    rotated(cx, x, cos, sin, positions)
}

/// The contrib operator: positions are the second input, and a single number is the first position of every batch.
fn microsoft_rotary_embedding(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, mut positions) = (cx.need(0)?, cx.need(1)?);
    let (cos, sin) = (cx.need(2)?, cx.need(3)?);
    if cx.rank(positions)? != 2 {
        let length = cx.dims(x)?[if cx.rank(x)? == 4 { 2 } else { 1 }].clone();
        let line = cx.iota(&length, 1, 2, DType::SI64)?;
        let first = cx.cast(positions, DType::SI64)?;
        let first = cx.reshape(first, &[1, 1])?;
        positions = cx.emit(&Add {}, &[first, line])?;
    }
    if cx.float("scale", 1.0) != 1.0 || cx.flag("is_packed_batching", false) {
        return Err(Stop::opaque("it scales or packs its batches"));
    }
    rotated(cx, x, cos, sin, Some(positions))
}

fn rotated(cx: &mut NodeCx<'_, '_>, x: Val, cos: Val, sin: Val, positions: Option<Val>) -> Done {
    let flat = cx.rank(x)? == 3;
    let dims = cx.dims(x)?;
    let heads = cx.int("num_heads").filter(|&n| n != 0).or_else(|| {
        let size = 2 * cx.extent(cos, cx.rank(cos).ok()?.checked_sub(1)?).ok()?;
        (size != 0).then(|| cx.extent(x, 2).ok().map(|hidden| hidden / size))?
    });
    let headed = Headed::new(cx, x, heads)?;
    let axis = headed.heads.axes().1;
    let mut dict = props([
        ("interleaved", Attr::Bool(cx.flag("interleaved", false))),
        ("sequence_axis", Attr::int(axis as i64)),
    ]);
    if let Some(size) = cx.int("rotary_embedding_dim").filter(|&n| n != 0) {
        dict.set("size", Attr::int(size));
    }
    let operands: Vec<Val> = [headed.val, cos, sin]
        .into_iter()
        .chain(positions)
        .collect();
    let mut y = cx.emit_named("hbir.rotary_embedding", &operands, dict)?;
    if flat {
        let sizes: Vec<Entry> = dims.iter().map(Entry::from).collect();
        y = reshape_to(cx, y, &sizes)?;
    }
    cx.set(0, y);
    Ok(())
}

/// `com.microsoft.MultiHeadAttention` with three operands of rank 3, or with heads outside.
fn multi_head_attention(cx: &mut NodeCx<'_, '_>) -> Done {
    let q = cx.need(0)?;
    let heads = cx.int("num_heads");
    let (Some(k), Some(v)) = (cx.input(1), cx.input(2)) else {
        return Err(Stop::opaque("its operands are packed"));
    };
    if (8..10).any(|i| cx.input(i).is_some()) {
        return Err(Stop::opaque("its cache is longer than what is valid"));
    }
    if cx.is_used(3) {
        return Err(Stop::opaque("it gives the products of queries and keys"));
    }
    if cx.rank(q)? != 3 {
        return Err(Stop::opaque("its queries are packed"));
    }
    let mut parts = [q, k, v];
    if let Some(bias) = cx.input(3) {
        let mut start = 0;
        for part in &mut parts {
            if cx.rank(*part)? != 3 {
                return Err(Stop::opaque("it adds a bias to heads"));
            }
            let size = cx.extent(*part, 2)?;
            let piece = cx.cut(bias, 0, start, start.saturating_add(size))?;
            *part = cx.emit(&Add {}, &[*part, piece])?;
            start = start.saturating_add(size);
        }
    }
    let [q, k, v] = parts;
    let q = Headed::new(cx, q, heads)?;
    let mut k = Headed::new(cx, k, heads)?;
    let mut v = Headed::new(cx, v, heads)?;
    let mut offset = Offset::Fixed(0);
    if let Some(past) = cx.input(6) {
        offset = after(cx, past)?;
    }
    for (i, x) in [(6, &mut k), (7, &mut v)] {
        *x = with_past(cx, *x, cx.input(i))?;
        if cx.is_used(i - 5) {
            let present = outside(cx, *x)?;
            cx.set(i - 5, present);
        }
    }
    contrib(cx, [q, k, v], [4, 5], offset)
}

/// `com.microsoft.Attention`: one product computes queries, keys and values.
fn packed_attention(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, w) = (cx.need(0)?, cx.need(1)?);
    if cx.input(6).is_some() || cx.flag("past_present_share_buffer", false) {
        return Err(Stop::opaque("its cache is longer than what is valid"));
    }
    if cx.flag("do_rotary", false) {
        return Err(Stop::opaque("it rotates"));
    }
    let heads = cx.int("num_heads").filter(|&n| 0 < n);
    let total = cx.extent(w, 1)?;
    let sizes = match cx.ints("qkv_hidden_sizes") {
        Some(sizes) if sizes.len() == 3 => sizes,
        Some(_) => return Err(Stop::opaque("its hidden sizes are not three")),
        None => vec![total / 3; 3],
    };
    let mut product = cx.emit(&Matmul { to: None }, &[x, w])?;
    if let Some(bias) = cx.input(2) {
        product = cx.emit(&Add {}, &[product, bias])?;
    }
    let parts = cx.emit_all(&Split { axis: 2, sizes }, &[product])?;
    let &[q, k, v] = &parts[..] else {
        return Err(Stop::opaque("its hidden sizes are not three"));
    };
    let q = Headed::new(cx, q, heads)?;
    let mut k = Headed::new(cx, k, heads)?;
    let mut v = Headed::new(cx, v, heads)?;
    let mut offset = Offset::Fixed(0);
    let mut before = [None, None];
    if let Some(past) = cx.input(4) {
        if cx.rank(past)? != 5 {
            return Err(Stop::opaque("its past has another rank than 5"));
        }
        for (at, half) in (0..).zip(&mut before) {
            let of_one = cx.cut(past, 0, at, at + 1)?;
            let axes = Some(vec![0]);
            *half = Some(cx.emit(&Squeeze { axes }, &[of_one])?);
        }
    }
    if let [Some(past), _] = before {
        offset = after(cx, past)?;
    }
    k = with_past(cx, k, before[0])?;
    v = with_past(cx, v, before[1])?;
    if cx.is_used(1) {
        let mut halves = Vec::with_capacity(2);
        for x in [k, v] {
            let x = outside(cx, x)?;
            halves.push(cx.unsqueeze(x, &[0])?);
        }
        let present = cx.emit(&Concat { axis: 0 }, &halves)?;
        cx.set(1, present);
    }
    contrib(cx, [q, k, v], [3, 5], offset)
}

/// The default value that contrib operators add to the logits of padding.
const FILTER: f64 = -10000.0;

/// The bias of logits for padding, from a mask of the contrib operators. The mask gives the end, and possibly the
/// start, of the valid keys of each sequence, or a number for each key that is 0 for padding.
fn padding(
    cx: &mut NodeCx<'_, '_>,
    mask: Val,
    batch: &Dim,
    keys: &Dim,
    element: DType,
) -> Result<Val, Stop> {
    let dims = cx.dims(mask)?;
    let valid = match &dims[..] {
        [count] => {
            let twice = batch.size().and_then(|n| n.times(&Size::from(2)));
            let key = cx.iota(keys, 3, 4, DType::SI64)?;
            match count.size() {
                n if n.is_some() && n == batch.size() => {
                    let end = by_batch(cx, mask)?;
                    cx.compare(Direction::Lt, key, end)?
                }
                n if n.is_some() && n == twice => {
                    let both = [Entry::Int(2), Entry::from(batch)];
                    let both = reshape_to(cx, mask, &both)?;
                    let mut bounds = Vec::with_capacity(2);
                    for at in 0..2 {
                        let one = cx.cut(both, 0, at, at + 1)?;
                        let one = reshape_to(cx, one, &[Entry::from(batch)])?;
                        bounds.push(by_batch(cx, one)?);
                    }
                    let before = cx.compare(Direction::Lt, key, bounds[0])?;
                    let behind = cx.compare(Direction::Ge, key, bounds[1])?;
                    cx.emit(&And {}, &[before, behind])?
                }
                _ => return Err(Stop::opaque("its mask is cumulated lengths")),
            }
        }
        [.., last] if dims.len() < 4 => {
            if last.fixed().is_some() && keys.fixed().is_some() && last != keys {
                return Err(Stop::opaque("its mask is shorter than the keys"));
            }
            let zero = cx.scalar_like(0.0, mask)?;
            let valid = cx.compare(Direction::Gt, mask, zero)?;
            match dims.len() {
                2 => cx.unsqueeze(valid, &[1, 2])?,
                _ => cx.unsqueeze(valid, &[1])?,
            }
        }
        _ => return Err(Stop::opaque("its mask has four dimensions")),
    };
    let filter = cx.float("mask_filter_value", FILTER);
    let loc = cx.loc.clone();
    let zero = cx.b.scalar(element, 0.0, loc.clone());
    let filter = cx.b.scalar(element, filter, loc);
    cx.emit(&Select {}, &[valid, zero, filter])
}

/// The attention of a contrib operator, with padding and a bias in these inputs; the result is `[batch, length,
/// hidden]`.
fn contrib(
    cx: &mut NodeCx<'_, '_>,
    [q, k, v]: [Headed; 3],
    [mask, bias]: [usize; 2],
    offset: Offset,
) -> Done {
    let size = cx.extent(q.val, 3)?;
    let scale = cx.float("scale", 0.0);
    let element = cx.dtype(q.val)?;
    let mut added = cx.input(bias);
    if let Some(mask) = cx.input(mask) {
        let (batch, keys) = (cx.dims(q.val)?[0].clone(), k.length(cx)?);
        let padding = padding(cx, mask, &batch, &keys, element)?;
        added = match added {
            Some(bias) => Some(cx.emit(&Add {}, &[bias, padding])?),
            None => Some(padding),
        };
    }
    let plan = Plan {
        scale: if scale == 0.0 {
            1.0 / (size as f64).sqrt()
        } else {
            scale
        },
        softcap: 0.0,
        softmax: element,
        causal: cx.flag("unidirectional", false),
        left: -1,
        right: -1,
        guarded: false,
        sink: None,
    };
    let operands = Operands {
        q,
        k,
        v,
        mask: added,
        offset,
    };
    let scores = attend(cx, &plan, &operands)?;
    let y = joined(cx, scores.y)?;
    cx.set(0, y);
    Ok(())
}
