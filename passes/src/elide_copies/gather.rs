//! Results without bytes of their own: their readers read the operands in place.
//!
//! Example: `%2 = concat(%0, %1); %3 = relu(%2)`. If the relu reads pieces, `%2` has no bytes and the relu reads `%0`
//! and `%1`.

use super::access::takes_pieces;
use indexmap::IndexMap;
use optc_check::parts::Site;
use optc_check::pieces::{Pieces, Whole};
use optc_ir::op::part::Port;
use optc_ir::{Op, Part, Value};
use optc_layout::Spread;
use optc_target::Target;
use std::collections::{BTreeMap, BTreeSet};

/// The values that are read in pieces, and their positions.
#[derive(Clone, Default)]
pub(super) struct Gathered {
    /// Operations whose result is read from its operands.
    pub(super) ops: BTreeSet<Op>,
    /// The positions of roots in pieces: results of these operations, and parts of such results.
    values: IndexMap<Value, Pieces>,
    /// For each of these roots, the operation that joins the pieces.
    origin: IndexMap<Value, Op>,
    /// The values whose buffers contain pieces.
    bases: BTreeSet<Value>,
}

impl Gathered {
    /// Returns whether a root is in pieces.
    pub(super) fn is_in_pieces(&self, root: Value) -> bool {
        self.values.contains_key(&root)
    }

    /// Returns whether the buffer of a root contains pieces. Such a buffer is not moved.
    pub(super) fn holds(&self, root: Value) -> bool {
        self.bases.contains(&root)
    }

    /// The operations in families with a copy. A family is a set of its operations that share buffers of pieces,
    /// directly or through others. It has a copy if one of its operations is in `copying`, joins a part that an
    /// operation in `copying` cuts, or has a result that an operation in `copying` cuts.
    pub(super) fn families(&self, site: &Site<'_>, copying: &BTreeSet<Op>) -> BTreeSet<Op> {
        let mut family: BTreeMap<Op, Op> = self.ops.iter().map(|&op| (op, op)).collect();
        let first = |family: &BTreeMap<Op, Op>, op: Op| {
            let mut at = op;
            while let Some(&up) = family.get(&at).filter(|&&up| up != at) {
                at = up;
            }
            at
        };
        let mut wanted = BTreeSet::new();
        let mut readers: BTreeMap<Value, Op> = BTreeMap::new();
        for &op in &self.ops {
            let data = &site.func.ops[op];
            let pieces = data.results.first().and_then(|r| self.values.get(r));
            for &base in pieces.iter().flat_map(|pieces| &pieces.bases) {
                let other = *readers.entry(base).or_insert(op);
                let (a, b) = (first(&family, op), first(&family, other));
                family.insert(a.max(b), a.min(b));
            }
            for &operand in &data.operands {
                let root = site.root(operand);
                let cut = site
                    .func
                    .def_op(root)
                    .filter(|_| site.parent(root).is_some());
                if cut.is_some_and(|cut| copying.contains(&cut)) {
                    wanted.insert(op);
                }
            }
            let cutters = data.results.iter().flat_map(|&result| site.uses(result));
            if copying.contains(&op) || cutters.into_iter().any(|(by, ..)| copying.contains(by)) {
                wanted.insert(op);
            }
        }
        let wanted: BTreeSet<Op> = wanted.into_iter().map(|op| first(&family, op)).collect();
        let all = self.ops.iter().copied();
        all.filter(|&op| wanted.contains(&first(&family, op)))
            .collect()
    }
}

/// The results that all readers take in pieces, of all operations or of those in `of`. It is the largest such set: a
/// result can be in pieces only if the results of its readers are, or the readers read pieces.
pub(super) fn gather(site: &mut Site<'_>, target: &Target, of: Option<&BTreeSet<Op>>) -> Gathered {
    let func = site.func;
    let may = |op: &Op| {
        let may = of.is_none_or(|of| of.contains(op));
        let result = func.ops[*op].results.first();
        let free = result.is_some_and(|&r| !site.is_known(r) && !site.is_wanted_whole(r));
        may && free && site.has_parts(target, *op) && site.joins(*op).is_some()
    };
    let mut ops: BTreeSet<Op> = func.body.iter().copied().filter(may).collect();
    for _ in 0..MOST_ROUNDS {
        let mut found = Gathered {
            ops: ops.clone(),
            ..Gathered::default()
        };
        let refused = attempt(site, target, &mut found);
        if refused.is_empty() {
            return found;
        }
        ops.retain(|op| !refused.contains(op));
    }
    Gathered::default()
}

/// The most rounds of leaving out operations that cannot be in pieces. Each round leaves out all that are found,
/// because their absence may exclude others.
const MOST_ROUNDS: usize = 64;

/// Finds the positions of the results of these operations. Returns the operations whose results cannot be in pieces.
fn attempt(site: &mut Site<'_>, target: &Target, found: &mut Gathered) -> BTreeSet<Op> {
    let func = site.func;
    let mut refused = BTreeSet::new();
    for &op in &func.body {
        let data = &func.ops[op];
        if found.ops.contains(&op) {
            let values = &found.values;
            let known = |root: Value| values.get(&root).cloned();
            match site.gathered(op, &known, &mut whole) {
                Ok(pieces) => {
                    found.bases.extend(&pieces.bases);
                    found.values.insert(data.results[0], pieces);
                    found.origin.insert(data.results[0], op);
                }
                Err(_) => {
                    refused.insert(op);
                }
            }
            continue;
        }
        if !site.has_parts(target, op) {
            continue;
        }
        for part in site.parts(op).iter() {
            let ends = (part.part, part.part.value(data), part.whole.value(data));
            let (Port::Result(_), Some(result), Some(large)) = ends else {
                continue;
            };
            let root = site.root(large);
            if let Some(pieces) = found.values.get(&root)
                && let Some(cut) = site.cut(op, part, pieces)
                && let Some(&origin) = found.origin.get(&root)
            {
                found.values.insert(result, cut);
                found.origin.insert(result, origin);
            }
        }
    }
    for (&root, pieces) in &found.values {
        let mut taken = !site.is_wanted_whole(root) && !site.is_known(root);
        for (reader, port, view) in site.uses(root).to_vec() {
            let results = &func.ops[reader].results;
            let in_pieces =
                !results.is_empty() && results.iter().all(|r| found.values.contains_key(r));
            taken &= in_pieces
                || site
                    .viewed(view, pieces)
                    .is_some_and(|seen| takes_pieces(site, target, reader, port, &seen));
        }
        if let Some(&origin) = found.origin.get(&root).filter(|_| !taken) {
            refused.insert(origin);
        }
    }
    refused
}

/// The position of a piece: in a buffer of its own, or in a part of one.
fn whole(site: &mut Site<'_>, root: Value) -> Result<Whole, String> {
    let mut parts: Vec<(Op, Part)> = Vec::new();
    let mut base = root;
    while let (Some(parent), Some((op, number))) = (site.parent(base), site.writer(base)) {
        let all = site.parts(op);
        let part = all.iter().find(|p| p.part == Port::Result(number));
        parts.push((op, part.ok_or("is cut as no part")?.clone()));
        base = parent;
    }
    if site.writer(base).is_none() || site.is_known(base) || site.is_wanted_whole(base) {
        return Err("has a buffer that is not the function's own".to_owned());
    }
    let mut spread: Option<Spread> = site.own(base);
    for (op, part) in parts.into_iter().rev() {
        spread = spread.and_then(|spread| site.spread(op, &part, &spread));
    }
    let spread = spread.ok_or("does not lie evenly")?;
    Ok(Whole { spread, base })
}
