//! Classes of layouts that are no candidates: on a machine of lines of lanes, or where rows list ends of orders.
//!
//! Example: a value of shape (4, 6) that no member cuts has two digits. Its other layouts fall into those with the
//! digit of 4 innermost and those with the digit of 6 innermost.

use super::MANY_GROUPS;
use super::relaxation::{Class, Lanes, Relaxation, Spread};
use crate::view_fold::groups::{Group, NodeData};
use crate::view_fold::label_order::label_order;
use crate::view_fold::layouts::{LayoutId, Layouts, MapId};
use crate::view_fold::physical::{Digit, Physical, Place};
use crate::view_fold::signature::{Signature, TileRule};
use crate::view_fold::tiled;

/// Above this number of digits a group has a single class.
pub(super) const MOST_ATOMS: usize = 8;

/// Returns whether an alternative takes layouts of a class at a port.
pub(super) fn may_be(
    sig: &Signature,
    layouts: &Layouts,
    rule: &TileRule,
    port: usize,
    class: Class,
) -> bool {
    let Some(label) = class.label else {
        return true;
    };
    if !tiled::may_end_in(sig, rule, port, label) {
        return class.lanes == Lanes::Within && tiled::may_lack_lanes(sig, rule, port);
    }
    // Each line of lanes holds elements of one role.
    let listed = tiled::lists_lanes(sig, rule, port);
    match class.lanes {
        _ if !listed => true,
        Lanes::Any | Lanes::Within => true,
        Lanes::Whole => {
            let n = tiled::along_role(sig, port, label);
            layouts.in_lanes(sig.bits[port], n) == n
        }
        Lanes::Along | Lanes::Across => {
            let n = tiled::along_role(sig, port, label);
            let several = Some(n) != sig.extent(port, label);
            class.extent < n && (several || class.spread != Spread::Several)
        }
    }
}

/// The class that a layout at a port would be in if it were no candidate.
pub(super) fn class_of(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Class {
    let order = label_order(sig, layouts, port, layout);
    let Some(last) = order.as_ref().and_then(|order| order.last()) else {
        return Class::UNKNOWN;
    };
    let size = sig.extent(port, last.label);
    let in_lanes = || order.iter().flatten().filter(|d| d.place == Place::Lane);
    let run = in_lanes().fold(1u64, |n, d| n.saturating_mul(d.extent));
    let is_padded = layouts.in_lanes(sig.bits[port], run) != run;
    let padded = match sig.is_tiled() && sig.lines.is_none() {
        true => is_padded,
        false => last.place == Place::Lane && is_padded,
    };
    Class {
        label: Some(last.label),
        lanes: match padded {
            true if Some(run) == size && run == last.extent => Lanes::Within,
            true => Lanes::Any,
            false => Lanes::Whole,
        },
        spread: match padded {
            true => match in_lanes().all(|d| d.label == last.label) {
                true => Spread::One,
                false => Spread::Several,
            },
            false => Spread::Any,
        },
        extent: last.extent,
    }
}

/// The number of labels of the digits of a run, if it begins in `label` and goes on in some digits with the labels
/// `beside`.
pub(super) fn spread_of(
    label: Option<usize>,
    beside: impl Iterator<Item = Option<usize>>,
) -> Spread {
    let Some(label) = label else {
        return Spread::Any;
    };
    let (mut same, mut other) = (false, false);
    for beside in beside {
        match beside {
            Some(l) if l == label => same = true,
            Some(_) => other = true,
            None => (same, other) = (true, true),
        }
    }
    match (same, other) {
        (true, false) => Spread::One,
        (false, true) => Spread::Several,
        _ => Spread::Any,
    }
}

impl Relaxation<'_> {
    /// The ways in which an innermost digit may lie in lanes, as classes distinguish them. Without lanes there is one.
    fn ways(&self) -> &'static [Lanes] {
        match self.layouts.is_tiled() {
            true => &Lanes::ALL,
            false => &[Lanes::Any],
        }
    }

    /// The number of classes of layouts that are no candidates.
    pub(super) fn classes(&self, group: Group) -> usize {
        (self.atoms[group].len() * self.ways().len()).max(1)
    }

    /// The description of a class: its innermost digit, and the way in which the digit lies in lanes.
    pub(super) fn atom(&self, group: Group, class: usize) -> Option<(Digit, Lanes)> {
        let ways = self.ways();
        let atom = self.atoms[group].get(class / ways.len())?;
        Some((*atom, ways[class % ways.len()]))
    }

    /// The digits of a group that no member cuts: one of them is innermost in every layout. Empty where the cuts of
    /// members do not nest, where there are too many digits, in tiles of rows where there are many groups, and without lanes
    /// where no row lists ends of orders.
    pub(super) fn find_atoms(&mut self, group: Group) -> Vec<Digit> {
        let graph = self.graph;
        let data = &graph.groups[group];
        let in_tiles = self.layouts.is_tiled() && !self.layouts.is_plain(data.bits);
        let many = in_tiles && MANY_GROUPS < graph.groups.len();
        if many || !self.layouts.is_tiled() && !self.lists_ends {
            return Vec::new();
        }
        let ports = data.producer.iter().chain(&data.uses);
        let mut members: Vec<&[MapId]> = Vec::new();
        for &(node, port) in ports {
            let member = graph.member(graph.nodes[node].ports[port].value);
            let maps = member.map_or(&[][..], |m| &m.maps[..]);
            if !members.contains(&maps) {
                members.push(maps);
            }
        }
        let mut cuts: Vec<Vec<u64>> = data.shape.iter().map(|&n| vec![1, n]).collect();
        for maps in members {
            let Some(found) = self.cuts_of(&data.shape, maps) else {
                return Vec::new();
            };
            for (dim, at) in found {
                cuts[dim].push(at);
            }
        }
        let mut atoms = Vec::new();
        for (dim, mut cuts) in cuts.into_iter().enumerate() {
            cuts.sort_unstable();
            cuts.dedup();
            for pair in cuts.windows(2) {
                if !pair[1].is_multiple_of(pair[0]) {
                    return Vec::new();
                }
                atoms.push(Digit {
                    dim,
                    div: pair[0],
                    extent: pair[1] / pair[0],
                    place: Place::Grid,
                });
            }
        }
        if MOST_ATOMS < atoms.len() {
            Vec::new()
        } else {
            atoms
        }
    }

    /// The positions within the root's dimensions at which the dimensions of a member begin and end.
    pub(super) fn cuts_of(&self, shape: &[u64], maps: &[MapId]) -> Option<Vec<(usize, u64)>> {
        let Some(last) = maps.last() else {
            return Some(Vec::new());
        };
        let result = self.layouts.view_map(*last).result.clone();
        let mut cuts = Vec::new();
        for wanted in (0..result.len()).filter(|&d| 1 < result[d]) {
            let order: Vec<usize> = (0..result.len()).collect();
            let mut form = Physical::of_order(&result, &order);
            for digit in &mut form.digits {
                digit.place = if digit.dim == wanted {
                    Place::Lane
                } else {
                    Place::Grid
                };
            }
            let mut at = result.clone();
            for &map in maps.iter().rev() {
                let back = self.layouts.inverse(map);
                form = form.through(&at, self.layouts.view_map(back))?;
                at.clone_from(&self.layouts.view_map(back).result);
            }
            if at != shape {
                return None;
            }
            for digit in form.at(Place::Lane) {
                cuts.push((digit.dim, digit.div));
                cuts.push((digit.dim, digit.div.checked_mul(digit.extent)?));
            }
        }
        Some(cuts)
    }

    /// The classes of a group's other layouts, as a port sees them.
    pub(super) fn classes_at(&self, node: &NodeData, port: usize, group: Group) -> Vec<Class> {
        let value = node.ports[port].value;
        let sig = node.signature.map(|id| self.signatures.get(id));
        let labels = sig.map_or(&[][..], |sig| sig.labels(port));
        let label_of = |atom: &Digit| {
            let maps = &self.graph.member(value)?.maps;
            let shape = &self.graph.groups[group].shape;
            let marked = |d: &Digit| Digit {
                place: if d == atom { Place::Lane } else { Place::Grid },
                ..*d
            };
            let mut form = Physical::new(self.atoms[group].iter().map(marked).collect());
            let mut at = shape.clone();
            for &map in maps.iter() {
                form = form.through(&at, self.layouts.view_map(map))?;
                at.clone_from(&self.layouts.view_map(map).result);
            }
            let mut dims: Vec<usize> = form.at(Place::Lane).map(|d| d.dim).collect();
            dims.dedup();
            match dims.as_slice() {
                [dim] => labels.get(*dim).copied().flatten(),
                _ => None,
            }
        };
        let (atoms, ways) = (&self.atoms[group], self.ways());
        let known: Vec<Option<usize>> = atoms.iter().map(label_of).collect();
        let of = |(atom, &label): (&Digit, &Option<usize>)| {
            let spread = |lanes: Lanes| match lanes {
                Lanes::Within if label.is_some() => Spread::One,
                Lanes::Along | Lanes::Across => {
                    let beside = atoms.iter().zip(&known);
                    let beside = beside.filter(|(a, _)| *a != atom);
                    let beside =
                        beside.filter(|(a, _)| (a.dim == atom.dim) == (lanes == Lanes::Along));
                    spread_of(label, beside.map(|(_, label)| *label))
                }
                Lanes::Any | Lanes::Whole | Lanes::Within => Spread::Any,
            };
            let class = |lanes: &Lanes| Class {
                label,
                lanes: *lanes,
                spread: spread(*lanes),
                extent: atom.extent,
            };
            ways.iter().map(class).collect::<Vec<Class>>()
        };
        let all: Vec<Class> = atoms.iter().zip(&known).flat_map(of).collect();
        if all.is_empty() {
            vec![Class::UNKNOWN]
        } else {
            all
        }
    }
}
