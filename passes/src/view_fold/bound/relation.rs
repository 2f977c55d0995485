//! Compatibility of the states of two ports.

use super::classes::class_of;
use super::order::{carried, ends_alike, keeps_innermost, leaves_open, shares_all};
use super::relaxation::{Class, Relation, Relaxation, State, View};
use crate::view_fold::groups::{Node, NodeKind};
use crate::view_fold::label_order::label_order;
use crate::view_fold::layouts::{LayoutId, Layouts, MapId};
use crate::view_fold::maps::FastMap;
use crate::view_fold::physical::Place;
use crate::view_fold::rows::{Side, shared, side};
use crate::view_fold::signature::{LabelDigit, Signature, TileRule};
use crate::view_fold::tiled;
use std::rc::Rc;

pub(super) fn table(
    x: &View,
    y: &View,
    mut related: impl FnMut(State, State) -> bool,
) -> Vec<Vec<bool>> {
    let mut rows = Vec::with_capacity(x.domain.len());
    for i in 0..x.domain.len() {
        let row = (0..y.domain.len()).map(|j| match (x.state(i), y.state(j)) {
            (Some(p), Some(q)) if x.domain[i] && y.domain[j] => related(p, q),
            _ => x.domain[i] && y.domain[j],
        });
        rows.push(row.collect());
    }
    rows
}

/// Returns whether layouts of two ports are compatible, on a machine with tiles.
pub(super) fn agree_tiled(
    sig: &Signature,
    layouts: &mut Layouts,
    (a, x): (usize, LayoutId),
    (b, y): (usize, LayoutId),
) -> bool {
    if sig.is_common_order() {
        if !shares_all(sig, a, b) {
            return true;
        }
        let (Some(p), Some(q)) = (
            label_order(sig, layouts, a, x),
            label_order(sig, layouts, b, y),
        ) else {
            return true;
        };
        if moves_up(sig, &p, b) || moves_up(sig, &q, a) {
            return true;
        }
        for ((port, here, order), (other, there)) in [((a, x, &p), (b, y)), ((b, y, &q), (a, x))] {
            if let Some(alone) = carried(sig, layouts, (port, here, order), other)
                && alone != there
            {
                return false;
            }
        }
        return shared(sig, &p, b) == shared(sig, &q, a);
    }
    let written = [a, b].iter().any(|&p| sig.n_operands <= p);
    let leaves = |rule: &TileRule| {
        rule.is_any() || rule.logical || rule.shares_all || (rule.writes_any && written)
    };
    if sig.tiles.iter().any(leaves) {
        return true;
    }
    let (p, q) = (
        tiled::parts(sig, layouts, a, x),
        tiled::parts(sig, layouts, b, y),
    );
    match (p, q) {
        (Some(p), Some(q)) => p.rules & q.rules != 0 && tiled::agree(sig, (a, &p), (b, &q)),
        _ => true,
    }
}

/// Returns whether a dimension in the rows or lanes of an order has one element at another port, in tiles of rows. The
/// places of the other digits there are then left open: they may move up, or leave the place empty.
fn moves_up(sig: &Signature, order: &[LabelDigit], other: usize) -> bool {
    let gone = |d: &LabelDigit| sig.extent(other, d.label).is_none_or(|n| n <= 1);
    let mut tile = order.iter().filter(|d| d.place != Place::Grid);
    sig.lines.is_none() && tile.any(gone)
}

/// Consequences of a layout at one port for the layouts of another port that are no candidates, whatever their class.
struct Beside {
    /// True if there may be any such layout.
    open: bool,
    /// The innermost digit.
    last: Option<LabelDigit>,
    class: Class,
}

impl Beside {
    fn of(
        sig: &Signature,
        layouts: &mut Layouts,
        (port, layout): (usize, LayoutId),
        (other, there): (usize, &[Option<LayoutId>]),
    ) -> Beside {
        let order = label_order(sig, layouts, port, layout);
        let order = order.as_deref();
        Beside {
            open: leaves_open(sig, layouts, (port, layout, order), (other, there)),
            last: order.and_then(|order| order.last().copied()),
            class: class_of(sig, layouts, port, layout),
        }
    }
}

impl Relaxation<'_> {
    pub(super) fn relation(&mut self, node: Node, a: usize, b: usize) -> Relation {
        let [x, y] = [a, b].map(|port| self.ports[&(node, port)].clone());
        let data = &self.graph.nodes[node];
        if let NodeKind::Alias(_, map) = data.kind {
            return Rc::new(table(&x, &y, |p, q| {
                self.joined_by(map, p, q, &x.at, &y.at)
            }));
        }
        let Some(id) = data.signature else {
            return Rc::new(table(&x, &y, |_, _| true));
        };
        let key = (id, [a, b], [x.seen, y.seen]);
        if let Some(known) = self.related.get(&key) {
            return known.clone();
        }
        let sig = self.signatures.get(id);
        let layouts = &mut *self.layouts;
        let mut sides: [FastMap<LayoutId, Side>; 2] = Default::default();
        let mut beside: [FastMap<LayoutId, Beside>; 2] = Default::default();
        let made = table(&x, &y, |p, q| match (p, q) {
            (State::Known(p), State::Known(q)) if sig.is_tiled() => {
                agree_tiled(sig, layouts, (a, p), (b, q))
            }
            (State::Known(p), State::Known(q)) => {
                let [of_a, of_b] = &mut sides;
                let p = of_a
                    .entry(p)
                    .or_insert_with(|| side(sig, layouts, (a, p), b));
                let q = of_b
                    .entry(q)
                    .or_insert_with(|| side(sig, layouts, (b, q), a));
                p.fits(q)
            }
            (State::Known(p), State::Other(c)) => {
                let known = beside[0].entry(p);
                let p = known.or_insert_with(|| Beside::of(sig, layouts, (a, p), (b, &y.at)));
                p.open
                    && keeps_innermost(sig, (a, p.last), (b, y.classes[c]))
                    && ends_alike(sig, layouts, (a, p.class), (b, y.classes[c]))
            }
            (State::Other(c), State::Known(q)) => {
                let known = beside[1].entry(q);
                let q = known.or_insert_with(|| Beside::of(sig, layouts, (b, q), (a, &x.at)));
                q.open
                    && keeps_innermost(sig, (b, q.last), (a, x.classes[c]))
                    && ends_alike(sig, layouts, (a, x.classes[c]), (b, q.class))
            }
            (State::Other(c), State::Other(d)) => {
                ends_alike(sig, layouts, (a, x.classes[c]), (b, y.classes[d]))
            }
            _ => true,
        });
        let made = Rc::new(made);
        self.related.insert(key, made.clone());
        made
    }

    /// Returns whether the operand and the result of a kept rearrangement may be in these states.
    pub(super) fn joined_by(
        &mut self,
        map: MapId,
        from: State,
        to: State,
        at_from: &[Option<LayoutId>],
        at_to: &[Option<LayoutId>],
    ) -> bool {
        match (from, to) {
            (State::Known(x), State::Known(y)) => self.layouts.forward(x, map) == Some(y),
            (State::Known(x), State::Other(_)) => {
                let there = self.layouts.forward(x, map);
                there.is_some() && !at_to.contains(&there)
            }
            (State::Other(_), State::Known(y)) => {
                let here = self.layouts.backward(y, map);
                here.is_some() && !at_from.contains(&here)
            }
            _ => true,
        }
    }
}
