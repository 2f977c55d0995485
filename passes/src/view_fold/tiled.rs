//! Operations whose ports take tiles by roles: which digits may stand in lanes and rows, and which ports agree.
//!
//! A *part* is the set of digits in the tile of one port, in terms of labels. Two ports agree if the digits of the
//! labels that both have are the same in their parts: the same run of M at the left operand and the result of a
//! contraction, the same run of K at both operands. Which of the two stands in the lanes, and in which order the
//! others number tiles, is each port's own.

use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::maps::FastSet;
use super::physical::{Digit, Physical, Place, joined};
use super::signature::{LabelDigit, LabelOrder, Signature, TileRule};
use optc_ir::{FreedomClass, Role};
use optc_target::PortRole;

/// What fills one place of a tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartRun {
    /// Major to minor; a whole label has the extent 0, since a window's differ from port to port.
    digits: Vec<LabelDigit>,
    /// Positions of the place: digits that fill whole tiles may be cut there.
    tile: u64,
}

/// What stands in the tile of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    /// The runs, the one with the lower label first.
    runs: Vec<PartRun>,
    /// The alternatives that take it there, as a set.
    pub(crate) rules: u64,
}

/// Alternatives of a row that are told apart.
pub(crate) const MOST_RULES: usize = 64;

/// Parts of one port that are joined with those of others.
const MOST_PARTS: usize = 24;
/// Layouts that pad least which are looked at for a port of which nothing is known.
const CHEAPEST: usize = 8;
/// Forms that the parts of all ports join to.
const MOST_FORMS: usize = 512;

fn size_of(sig: &Signature, port: usize, label: usize) -> u64 {
    let dim = sig.labels(port).iter().position(|l| *l == Some(label));
    dim.map_or(1, |dim| sig.shapes[port][dim])
}

/// What stands in the tile of a layout at a port, where the row takes it there.
pub(crate) fn parts(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Option<Part> {
    let order = role_order(sig, layouts, port, layout)?;
    let rules = rules_at(sig, port, &order);
    let mut tile = layouts.tile(layout);
    // Only whole tiles of the machine are numbered alike: of fewer rows the run is what it is.
    if tile[0] != layouts.most_rows(sig.bits[port]) {
        tile[0] = u64::MAX;
    }
    let runs = (rules != 0).then(|| runs_of(sig, port, &order, tile))?;
    Some(Part { runs, rules })
}

/// The order of labels of a layout, as rows that speak of roles read it: where none takes its rows and these number tiles
/// as well, in the grid.
fn role_order(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Option<LabelOrder> {
    let mut order = label_order(sig, layouts, port, layout)?;
    let in_rows = |digit: &LabelDigit| digit.place == Place::Row;
    if rules_at(sig, port, &order) == 0 && order.iter().any(in_rows) && layouts.is_loose(layout) {
        for digit in order.iter_mut().filter(|d| in_rows(d)) {
            digit.place = Place::Grid;
        }
    }
    Some(order)
}

/// The alternatives that take an order at a port, the other ports left aside, as a set.
fn rules_at(sig: &Signature, port: usize, order: &[LabelDigit]) -> u64 {
    let rules = sig.tiles.iter().take(MOST_RULES).enumerate();
    let taken = rules.filter(|(_, rule)| takes(sig, rule, port, order));
    taken.fold(0, |set, (i, _)| set | (1 << i))
}

fn runs_of(sig: &Signature, port: usize, order: &[LabelDigit], tile: [u64; 2]) -> Vec<PartRun> {
    let run = |place, tile| {
        let of_place = order.iter().filter(|d| d.place == place);
        let mut digits: Vec<LabelDigit> = of_place.copied().collect();
        extend(&mut digits, order, tile);
        for digit in &mut digits {
            digit.place = Place::Lane;
            if digit.div == 1 && digit.extent == size_of(sig, port, digit.label) {
                digit.extent = 0;
            }
        }
        PartRun { digits, tile }
    };
    let mut runs = vec![run(Place::Row, tile[0]), run(Place::Lane, tile[1])];
    runs.retain(|run| !run.digits.is_empty());
    runs.sort_by_key(|run| run.digits.first().map(|d| (d.label, d.div)));
    runs
}

/// A run of whole tiles goes on in the digits of its outermost label that number tiles, wherever these stand.
fn extend(run: &mut [LabelDigit], order: &[LabelDigit], tile: u64) {
    let product = run.iter().fold(1u64, |n, d| n.saturating_mul(d.extent));
    let Some(outer) = run.first_mut().filter(|_| product.is_multiple_of(tile)) else {
        return;
    };
    let next = |outer: &LabelDigit| {
        let end = outer.div.checked_mul(outer.extent)?;
        let goes_on =
            |d: &&LabelDigit| d.place == Place::Grid && d.label == outer.label && d.div == end;
        order.iter().find(goes_on)
    };
    while let Some(digit) = next(outer) {
        outer.extent = outer.extent.saturating_mul(digit.extent);
    }
}

/// Whether lanes and rows of a port hold what an alternative of one order at all ports lists for them.
pub(crate) fn lists(sig: &Signature, rule: &TileRule, port: usize, order: &[LabelDigit]) -> bool {
    let Some(places) = rule.ports.get(port) else {
        return true;
    };
    let listed = |digit: &LabelDigit| {
        let roles = match digit.place {
            Place::Lane => &places[0],
            Place::Row => &places[1],
            Place::Grid | Place::Short => &None,
        };
        let role = sig.port_role(digit.label);
        roles
            .as_ref()
            .is_none_or(|all| all.iter().any(|r| r.covers(role)))
    };
    // What numbers tiles beside empty rows may be read as rows.
    let stands = |place| order.iter().any(|digit| digit.place == place);
    let loose = rule.subview && stands(Place::Grid) && !stands(Place::Row);
    !loose && order.iter().all(listed)
}

/// Whether an alternative takes an order at a port, the other ports left aside.
fn takes(sig: &Signature, rule: &TileRule, port: usize, order: &[LabelDigit]) -> bool {
    if rule.shares_all || rule.logical {
        return false;
    }
    if !order.iter().all(|digit| may_be_cut(sig, port, digit)) {
        return false;
    }
    if sig.lines.is_some() && !fills_lanes(sig, rule, port, order) {
        return false;
    }
    let mut seen: Vec<PortRole> = Vec::new();
    for (place, roles) in [Place::Lane, Place::Row].into_iter().zip(&rule.ports[port]) {
        let mut own: Option<PortRole> = None;
        let slides = |d: &LabelDigit| sig.freedom.labels[d.label].granule == 1;
        let in_place = || order.iter().filter(|d| d.place == place);
        // Dimensions along which a window slides are no one run.
        if 1 < in_place().count() && in_place().any(slides) {
            return false;
        }
        for digit in order.iter().filter(|d| d.place == place) {
            let role = sig.port_role(digit.label);
            // A run is of one role.
            if own.is_some_and(|own| own != role) {
                return false;
            }
            own = Some(role);
            if roles
                .as_ref()
                .is_some_and(|all| !all.iter().any(|r| r.covers(role)))
            {
                return false;
            }
        }
        if let Some(own) = own {
            let kind = own.kind();
            if rule.distinct && seen.contains(&kind) {
                return false;
            }
            seen.push(kind);
        }
    }
    !is_underfilled(sig, rule, port, &seen)
}

/// Whether the lanes are filled, where a dimension of the port may fill them.
fn fills_lanes(sig: &Signature, rule: &TileRule, port: usize, order: &[LabelDigit]) -> bool {
    if order.iter().any(|d| d.place == Place::Lane) {
        return true;
    }
    let Some(roles) = &rule.ports[port][0] else {
        return true;
    };
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    let mut long = dims.filter(|(_, n)| 1 < **n).filter_map(|(l, _)| *l);
    let short = order.iter().any(|d| d.place == Place::Short);
    !short && !long.any(|label| roles.iter().any(|r| r.covers(sig.port_role(label))))
}

/// Whether the innermost run of an order has so many elements of one dimension, padding counted.
fn has_run(order: &[LabelDigit], run: u64) -> bool {
    let Some(last) = order.last() else {
        return true;
    };
    let padded =
        last.place != Place::Grid && order.iter().filter(|d| d.place == last.place).count() == 1;
    padded || run <= last.extent
}

/// Whether a place of the tile is left empty though the port has a dimension for it.
fn is_underfilled(sig: &Signature, rule: &TileRule, port: usize, seen: &[PortRole]) -> bool {
    let mut open: Vec<PortRole> = Vec::new();
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    for label in dims.filter(|(_, n)| 1 < **n).filter_map(|(l, _)| *l) {
        let role = sig.port_role(label);
        let listed = rule.ports[port].iter().any(|roles| {
            let roles = roles.as_ref();
            roles.is_none_or(|all| all.iter().any(|r| r.covers(role)))
        });
        if listed && !open.contains(&role.kind()) {
            open.push(role.kind());
        }
    }
    rule.distinct && seen.len() < open.len().min(2)
}

/// What every layout that the row takes at a port pads at least, in bytes.
pub(crate) fn least_padding(
    sig: &Signature,
    layouts: &Layouts,
    port: usize,
    innermost: Option<usize>,
) -> u64 {
    let shape = &sig.shapes[port];
    let product = |n: u64, &size: &u64| n.saturating_mul(size);
    let elements = shape.iter().fold(1, product);
    let bits = sig.bits[port];
    if elements == 0 {
        return 0;
    }
    if let Some(positions) = least_run(sig, port, innermost) {
        let all = |n: u64| n.saturating_mul(u64::from(bits)).div_ceil(8);
        return all(positions).saturating_sub(all(elements));
    }
    if !sig.takes_roles() {
        return 0;
    }
    let mut least = u64::MAX;
    let lines = sig.lines.is_some();
    for rule in &sig.tiles {
        let written = rule.writes_any && sig.n_operands <= port;
        if lines && !rule.shares_all && !rule.logical && !rule.is_any() && !written {
            if innermost.is_none_or(|label| may_end_in(sig, rule, port, label)) {
                least = least.min(least_line(sig, layouts, rule, port, innermost));
            }
            continue;
        }
        if rule.shares_all || rule.logical || rule.is_any() || !rule.distinct || written {
            return 0;
        }
        // Of each kind, how many elements there are along it.
        let mut kinds: Vec<(PortRole, u64)> = Vec::new();
        let dims = sig.labels(port).iter().zip(shape);
        for (label, &size) in dims.filter(|(_, n)| 1 < **n) {
            let Some(label) = *label else { return 0 };
            let role = sig.port_role(label).kind();
            match kinds.iter_mut().find(|(known, _)| *known == role) {
                Some((_, n)) => *n = n.saturating_mul(size),
                None => kinds.push((role, size)),
            }
        }
        let may = |roles: &Option<Vec<PortRole>>, kind: PortRole| {
            let of = |r: &PortRole| r.kind() == kind || r.covers(kind);
            roles.as_ref().is_none_or(|all| all.iter().any(of))
        };
        let [lanes, rows] = &rule.ports[port];
        for &(lane, along) in kinds.iter().filter(|(kind, _)| may(lanes, *kind)) {
            let others = kinds
                .iter()
                .filter(|(kind, _)| *kind != lane && may(rows, *kind));
            let mut runs: Vec<u64> = others.map(|&(_, n)| n).collect();
            if runs.is_empty() {
                runs.push(1);
            }
            for beside in runs {
                for l in divisors(along) {
                    for r in divisors(beside) {
                        let padded = layouts.padded(shape.len(), bits, r, l);
                        let rest = elements / (r * l).max(1);
                        least = least.min(padded.saturating_mul(rest));
                    }
                }
            }
        }
    }
    if least == u64::MAX {
        return 0;
    }
    let all = |n: u64| n.saturating_mul(u64::from(bits)).div_ceil(8);
    all(least).saturating_sub(all(elements))
}

/// Whether an alternative takes layouts at a port whose innermost digit is of this label.
pub(crate) fn may_end_in(sig: &Signature, rule: &TileRule, port: usize, label: usize) -> bool {
    if rule.shares_all || rule.logical || rule.is_any() {
        return true;
    }
    let Some(roles) = rule.ports.get(port).and_then(|p| p[0].as_ref()) else {
        return true;
    };
    let listed = |label: usize| roles.iter().any(|r| r.covers(sig.port_role(label)));
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    let mut long = dims.filter(|(_, n)| 1 < **n).filter_map(|(l, _)| *l);
    listed(label) || !long.any(listed)
}

/// Whether an alternative lists roles for the lanes of a port that has one of them.
pub(crate) fn lists_lanes(sig: &Signature, rule: &TileRule, port: usize) -> bool {
    if rule.shares_all || rule.logical || rule.is_any() {
        return false;
    }
    let Some(roles) = rule.ports.get(port).and_then(|p| p[0].as_ref()) else {
        return false;
    };
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    let mut long = dims.filter(|(_, n)| 1 < **n).filter_map(|(l, _)| *l);
    long.any(|label| roles.iter().any(|r| r.covers(sig.port_role(label))))
}

/// How many elements a port has along the role of a label.
pub(crate) fn along_role(sig: &Signature, port: usize, label: usize) -> u64 {
    let role = sig.port_role(label);
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    let own = dims.filter(|(l, _)| l.is_some_and(|l| sig.port_role(l) == role));
    own.fold(1u64, |n, (_, &size)| n.saturating_mul(size))
}

/// Of the runs that a digit of so many elements has, the one that is padded to whole lanes and least so: its elements
/// and its positions. Nothing where all of them are whole lanes.
pub(crate) fn least_padded_run(layouts: &Layouts, bits: u32, extent: u64) -> Option<(u64, u64)> {
    let runs = divisors(extent).into_iter();
    if runs.as_slice() == [1] {
        // Of very many elements nothing is known.
        return Some((1, 1));
    }
    least_padded(layouts, bits, runs)
}

/// The same of runs of a part of one digit and some of what a larger value has beside it.
pub(crate) fn least_crossing_run(
    layouts: &Layouts,
    bits: u32,
    extent: u64,
    beside: u64,
) -> Option<(u64, u64)> {
    let (inner, outer) = (divisors(extent), divisors(beside));
    let known = |n: u64, runs: &[u64]| n == 1 || runs != [1];
    if !known(extent, &inner) || !known(beside, &outer) {
        return Some((1, 1));
    }
    let outer = outer.into_iter().filter(|&n| n != 1);
    let runs = outer.flat_map(|m| inner.iter().map(move |n| m.saturating_mul(*n)));
    least_padded(layouts, bits, runs)
}

/// Of these runs the one that is padded and least so: its elements and its positions.
fn least_padded(
    layouts: &Layouts,
    bits: u32,
    runs: impl Iterator<Item = u64>,
) -> Option<(u64, u64)> {
    let padded = runs.map(|run| (run, layouts.padded(2, bits, 1, run)));
    let padded = padded.filter(|(run, lanes)| run != lanes);
    // The fewest positions for each element.
    padded.min_by(|(a, x), (b, y)| {
        let wide = |n: u64, m: u64| u128::from(n) * u128::from(m);
        wide(*x, *b).cmp(&wide(*y, *a))
    })
}

/// Whether one alternative takes a layout at a port.
pub(crate) fn is_taken_by(
    sig: &Signature,
    layouts: &mut Layouts,
    rule: &TileRule,
    port: usize,
    layout: LayoutId,
) -> bool {
    let order = role_order(sig, layouts, port, layout);
    order.is_some_and(|order| takes(sig, rule, port, &order))
}

/// What the lines of one alternative pad at least at a port, in bytes.
pub(crate) fn least_line_padding(
    sig: &Signature,
    layouts: &Layouts,
    rule: &TileRule,
    port: usize,
    innermost: Option<usize>,
) -> u64 {
    let elements = sig.shapes[port]
        .iter()
        .fold(1u64, |n, &size| n.saturating_mul(size));
    if elements == 0 {
        return 0;
    }
    let all = |n: u64| n.saturating_mul(u64::from(sig.bits[port])).div_ceil(8);
    all(least_line(sig, layouts, rule, port, innermost)).saturating_sub(all(elements))
}

/// The fewest positions of the port of a common order that has all its labels, where the innermost run is of one
/// dimension and padded up.
fn least_run(sig: &Signature, port: usize, innermost: Option<usize>) -> Option<u64> {
    let count = |port: usize| sig.labels(port).iter().flatten().count();
    if sig.lines.is_none() || count(port) < count(sig.fullest) {
        return None;
    }
    let runs = sig
        .tiles
        .iter()
        .map(|rule| rule.shares_all.then_some(rule.run));
    let run = runs.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
    let shape = &sig.shapes[port];
    let elements = shape.iter().fold(1u64, |n, &size| n.saturating_mul(size));
    let dims = sig.labels(port).iter().zip(shape);
    let ends = dims.filter(|(label, n)| 1 < **n && innermost.is_none_or(|l| **label == Some(l)));
    let padded = |&n: &u64| (elements / n).saturating_mul(n.max(run));
    ends.map(|(_, n)| padded(n)).min()
}

/// The fewest positions of a port whose lanes hold one of the roles that the rule lists there.
fn least_line(
    sig: &Signature,
    layouts: &Layouts,
    rule: &TileRule,
    port: usize,
    innermost: Option<usize>,
) -> u64 {
    let (shape, bits) = (&sig.shapes[port], sig.bits[port]);
    let elements = shape.iter().fold(1u64, |n, &size| n.saturating_mul(size));
    let Some(listed) = &rule.ports[port][0] else {
        return elements;
    };
    let mut along: Vec<(PortRole, u64)> = Vec::new();
    let dims = sig.labels(port).iter().zip(shape);
    for (label, &size) in dims.filter(|(_, n)| 1 < **n) {
        let Some(role) = label.map(|label| sig.port_role(label)) else {
            return elements;
        };
        match along.iter_mut().find(|(known, _)| *known == role) {
            Some((_, n)) => *n = n.saturating_mul(size),
            None => along.push((role, size)),
        }
    }
    let own = innermost.map(|label| sig.port_role(label));
    along.retain(|(role, _)| listed.iter().any(|r| r.covers(*role)));
    along.retain(|(role, _)| own.is_none_or(|own| own == *role));
    let lanes = along.iter().flat_map(|&(_, n)| divisors(n));
    let padded = |l: u64| layouts.padded(2, bits, 1, l).saturating_mul(elements / l);
    lanes.map(padded).min().unwrap_or(elements)
}

/// The divisors of a number, 1 left out unless there is no other; of one with very many elements 1 alone, which pads
/// nothing.
fn divisors(n: u64) -> Vec<u64> {
    const MOST: u64 = 1 << 24;
    if n <= 1 || MOST < n {
        return vec![1];
    }
    let small: Vec<u64> = (1..)
        .take_while(|d| d * d <= n)
        .filter(|d| n.is_multiple_of(*d))
        .collect();
    let mut all: Vec<u64> = small
        .iter()
        .flat_map(|&d| [d, n / d])
        .filter(|&d| 1 < d)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether the operation works along a digit as well as along its whole label: no window slides over it, and the
/// weights of a window operation are cut alike.
fn may_be_cut(sig: &Signature, port: usize, digit: &LabelDigit) -> bool {
    if digit.div == 1 && digit.extent == size_of(sig, port, digit.label) {
        return true;
    }
    let granule = sig.freedom.labels[digit.label].granule;
    let along = granule == 0 || granule.is_multiple_of(digit.div);
    let window = sig.freedom.class == FreedomClass::Window;
    let channel = sig.freedom.labels[digit.label].role == Role::Channel;
    along && (!window || !channel || sig.n_operands < 2 || sig.has_label(1, digit.label))
}

/// Whether some alternative takes a layout at a port, the other ports left aside.
pub(crate) fn accepts(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    let written = |rule: &TileRule| rule.writes_any && sig.n_operands <= port;
    if sig.tiles.iter().any(|rule| rule.is_any() || written(rule)) {
        return true;
    }
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return false;
    };
    let mut rules = sig.tiles.iter();
    rules.any(|rule| match rule.shares_all {
        true => lists(sig, rule, port, &order) && (rule.run <= 1 || has_run(&order, rule.run)),
        false => false,
    }) || rules_of(sig, layouts, port, layout) != 0
}

/// The alternatives that take a layout at a port, the other ports left aside, as a set: those that speak of roles.
pub(crate) fn rules_of(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> u64 {
    let order = role_order(sig, layouts, port, layout);
    order.map_or(0, |order| rules_at(sig, port, &order))
}

/// Whether a port is an operand after the second, as a bias is: what is in its tile concerns no other port.
fn is_aside(sig: &Signature, port: usize) -> bool {
    (2..sig.n_operands).contains(&port)
}

/// A digit of a run: label, divisor, extent, and whether it is the whole label.
type RunDigit = (usize, u64, u64, bool);

/// Whether two ports have the same runs of the labels that both have. A run of whole tiles is each of its inner
/// digits that are whole tiles too.
pub(crate) fn agree(sig: &Signature, (p, a): (usize, &Part), (q, b): (usize, &Part)) -> bool {
    if is_aside(sig, p) || is_aside(sig, q) {
        return true;
    }
    let both = |d: &&LabelDigit| 1 < size_of(sig, p, d.label) && 1 < size_of(sig, q, d.label);
    let shared = |part: &Part, port: usize| -> Vec<(Vec<RunDigit>, u64)> {
        let digit = |d: &LabelDigit| match d.extent {
            0 => (d.label, d.div, size_of(sig, port, d.label), true),
            n => (d.label, d.div, n, false),
        };
        let run = |run: &PartRun| {
            let digits: Vec<_> = run.digits.iter().filter(both).map(digit).collect();
            (!digits.is_empty()).then_some((digits, run.tile))
        };
        part.runs.iter().filter_map(run).collect()
    };
    let (x, y) = (shared(a, p), shared(b, q));
    // Of one place of the tile: what one port has there the other one has in its grid.
    if sig.lines.is_some() && (x.is_empty() || y.is_empty()) {
        return true;
    }
    let mut runs = x.iter();
    x.len() == y.len()
        && runs.all(|(digits, tile)| {
            let mut others = y.iter();
            others.any(|(other, there)| same_run((digits, *tile), (other, *there)))
        })
}

/// Whether two runs are one: from the minor end digit by digit, what is left of the longer one numbering whole tiles.
fn same_run((a, tile_a): (&[RunDigit], u64), (b, tile_b): (&[RunDigit], u64)) -> bool {
    let (mut i, mut j) = (a.len(), b.len());
    let mut product = 1u64;
    while 0 < i && 0 < j {
        let ((la, da, ea, wa), (lb, db, eb, wb)) = (a[i - 1], b[j - 1]);
        if (la, da) != (lb, db) {
            return false;
        }
        if ea == eb || (wa && wb) {
            product = product.saturating_mul(ea);
            (i, j) = (i - 1, j - 1);
            continue;
        }
        // One of them goes on in its label: the rest of it numbers tiles.
        let (long, short, tile, ends) = match ea < eb {
            true => (eb, ea, tile_b, i == 1),
            false => (ea, eb, tile_a, j == 1),
        };
        let inner = product.saturating_mul(short);
        return ends && long.is_multiple_of(short) && inner.is_multiple_of(tile);
    }
    match (i, j) {
        (0, 0) => true,
        (_, 0) => product.is_multiple_of(tile_a),
        (0, _) => product.is_multiple_of(tile_b),
        _ => false,
    }
}

/// The two runs of a port by default: of each role that the row takes the last label, the later dimension in the
/// lanes.
pub(crate) fn default(sig: &Signature, layouts: &mut Layouts, port: usize) -> Option<LayoutId> {
    let rule = sig
        .tiles
        .iter()
        .find(|r| !r.shares_all && !r.logical && !r.is_any())?;
    let chosen: Vec<usize> = representatives(sig, rule);
    let labels = sig.labels(port);
    let mut dims: Vec<usize> = (0..labels.len())
        .filter(|&d| labels[d].is_some_and(|l| chosen.contains(&l)) && 1 < sig.shapes[port][d])
        .collect();
    // Batch and taps fill a tile only where nothing else does.
    let rank = |d: &usize| match labels[*d].map(|l| sig.port_role(l)) {
        Some(PortRole::Batch | PortRole::Tap) => 1,
        _ => 0,
    };
    dims.sort_by_key(|d| (rank(d), std::cmp::Reverse(*d)));
    let kind = |d: usize| labels[d].map(|l| sig.port_role(l).kind());
    let mut pairs: Vec<(Option<usize>, Option<usize>)> = Vec::new();
    if let Some(&first) = dims.first() {
        let other = |d: &usize| *d != first && (!rule.distinct || kind(*d) != kind(first));
        let second = dims.iter().copied().find(other);
        let later = second.map_or(first, |second| second.max(first));
        let earlier = second.map(|second| second.min(first));
        pairs.push((Some(later), earlier));
    }
    // Where the row does not take these two so, the first two that it takes.
    let all = (0..labels.len()).filter(|&d| labels[d].is_some() && 1 < sig.shapes[port][d]);
    let others: Vec<usize> = all.filter(|d| !dims.contains(d)).collect();
    dims.extend(others);
    for &lane in &dims {
        let rows = dims.iter().filter(|&&d| d != lane).map(|&d| Some(d));
        pairs.extend(rows.chain([None]).map(|row| (Some(lane), row)));
    }
    // What has a single element along all roles of a place leaves it empty.
    pairs.extend(dims.iter().map(|&row| (None, Some(row))));
    pairs.push((None, None));
    let whole = |dim: usize| Run {
        digits: vec![(dim, 1, sig.shapes[port][dim])],
    };
    pairs.into_iter().find_map(|(lane, row)| {
        let form = build(sig, port, lane.map(whole), row.map(whole), &[])?;
        let id = layouts.formed(&sig.shapes[port], sig.bits[port], &form)?;
        let order = role_order(sig, layouts, port, id)?;
        takes(sig, rule, port, &order).then_some(id)
    })
}

/// Of each role one label, which fills a place of the tile at every port that has it.
fn representatives(sig: &Signature, rule: &TileRule) -> Vec<usize> {
    let mut roles: Vec<PortRole> = Vec::new();
    let mut chosen = Vec::new();
    let result = sig.n_operands.min(sig.n_ports().saturating_sub(1));
    for port in [result, 0, 1] {
        let Some(listed) = rule.ports.get(port) else {
            continue;
        };
        let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
        for (label, &size) in dims.rev() {
            let Some(label) = label.filter(|_| 1 < size) else {
                continue;
            };
            let role = sig.port_role(label);
            let may = listed.iter().any(|roles| {
                roles
                    .as_ref()
                    .is_none_or(|all| all.iter().any(|r| r.covers(role)))
            });
            if may && !roles.contains(&role) {
                roles.push(role);
                chosen.push(label);
            }
        }
    }
    chosen
}

/// Digits of dimensions that fill a place: dimension, divisor, extent.
#[derive(Clone, Debug, Default)]
struct Run {
    digits: Vec<(usize, u64, u64)>,
}

/// A form with these runs; the rest numbers tiles, in the order of `hint` and else in the logical one.
fn build(
    sig: &Signature,
    port: usize,
    lanes: Option<Run>,
    rows: Option<Run>,
    hint: &[LabelDigit],
) -> Option<Physical> {
    let shape = &sig.shapes[port];
    let (lanes, rows) = (lanes.unwrap_or_default(), rows.unwrap_or_default());
    let mut grid: Vec<Digit> = Vec::new();
    for (dim, &size) in shape.iter().enumerate() {
        let runs = lanes.digits.iter().chain(&rows.digits);
        let mut taken: Vec<(u64, u64)> = runs
            .filter(|(d, ..)| *d == dim)
            .map(|&(_, div, extent)| (div, extent))
            .collect();
        taken.sort_unstable();
        let mut rest = Vec::new();
        let mut at = 1u64;
        for (div, extent) in taken {
            if div < at || !div.is_multiple_of(at) {
                return None;
            }
            if at < div {
                rest.push((at, div / at));
            }
            at = div.checked_mul(extent)?;
        }
        if at < size {
            if !size.is_multiple_of(at) {
                return None;
            }
            rest.push((at, size / at));
        } else if size < at {
            return None;
        }
        let digit = |&(div, extent): &(u64, u64)| Digit {
            dim,
            div,
            extent,
            place: Place::Grid,
        };
        grid.extend(rest.iter().rev().map(digit));
    }
    reorder(sig, port, &mut grid, hint);
    let placed = |run: &Run, place| -> Vec<Digit> {
        let digit = |&(dim, div, extent): &(usize, u64, u64)| Digit {
            dim,
            div,
            extent,
            place,
        };
        run.digits.iter().map(digit).collect()
    };
    let mut digits = grid;
    digits.extend(placed(&rows, Place::Row));
    digits.extend(placed(&lanes, Place::Lane));
    digits.retain(|d| 1 < d.extent);
    Some(Physical {
        digits: joined(digits),
        stated: None,
    })
}

/// Gives the digits that stand in `hint` the order that they have there.
fn reorder(sig: &Signature, port: usize, grid: &mut [Digit], hint: &[LabelDigit]) {
    let labels = sig.labels(port);
    let place = |d: &Digit| {
        let label = labels.get(d.dim).copied().flatten()?;
        hint.iter().position(|h| h.label == label && h.div == d.div)
    };
    let at: Vec<usize> = (0..grid.len())
        .filter(|&i| place(&grid[i]).is_some())
        .collect();
    let mut known: Vec<Digit> = at.iter().map(|&i| grid[i]).collect();
    known.sort_by_key(|d| place(d));
    for (i, digit) in at.into_iter().zip(known) {
        grid[i] = digit;
    }
}

/// The run of digits of an order in one place, as far as a port has them.
fn run_at(
    sig: &Signature,
    port: usize,
    order: &[LabelDigit],
    place: Place,
    from: usize,
) -> Option<Run> {
    let mut digits = Vec::new();
    for d in order.iter().filter(|d| d.place == place) {
        let Some(dim) = sig.labels(port).iter().position(|l| *l == Some(d.label)) else {
            continue;
        };
        let size = sig.shapes[port][dim];
        if size == 1 {
            continue;
        }
        let whole = d.div == 1 && d.extent == size_of(sig, from, d.label);
        digits.push((dim, d.div, if whole { size } else { d.extent }));
    }
    (!digits.is_empty()).then_some(Run { digits })
}

/// Layouts at other ports that go well with this one at this port: the run that both have stays, the other place is
/// filled by what the row takes there; in both orientations.
pub(crate) fn transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return Vec::new();
    };
    let mut out = FastSet::default();
    for other in (0..sig.n_ports()).filter(|&o| o != port) {
        let lanes = run_at(sig, other, &order, Place::Lane, port);
        let rows = run_at(sig, other, &order, Place::Row, port);
        let missing: Vec<Option<Run>> = match (&lanes, &rows) {
            (Some(_), Some(_)) => vec![None],
            _ => fillers(sig, port, other),
        };
        for fill in missing {
            let pair = match (lanes.clone(), rows.clone()) {
                (Some(lanes), Some(rows)) => (Some(lanes), Some(rows)),
                (Some(lanes), None) => (Some(lanes), fill),
                (None, Some(rows)) => (fill, Some(rows)),
                (None, None) => (fill, None),
            };
            for (lanes, rows) in [pair.clone(), (pair.1, pair.0)] {
                if lanes.is_none() {
                    continue;
                }
                let Some(form) = build(sig, other, lanes, rows, &order) else {
                    continue;
                };
                let shape = &sig.shapes[other];
                if let Some(id) = layouts.formed(shape, sig.bits[other], &form)
                    && accepts(sig, layouts, other, id)
                {
                    out.insert((other, id));
                }
            }
        }
    }
    out.into_iter().collect()
}

/// Whole dimensions of a port that the other port lacks, the last of each role.
fn fillers(sig: &Signature, from: usize, port: usize) -> Vec<Option<Run>> {
    let mut roles: Vec<PortRole> = Vec::new();
    let mut all = Vec::new();
    let dims: Vec<usize> = (0..sig.shapes[port].len()).rev().collect();
    for dim in dims {
        let size = sig.shapes[port][dim];
        let Some(label) = sig.labels(port)[dim].filter(|_| 1 < size) else {
            continue;
        };
        let role = sig.port_role(label);
        if sig.has_label(from, label) || roles.contains(&role) {
            continue;
        }
        roles.push(role);
        let digits = vec![(dim, 1, size)];
        all.push(Some(Run { digits }));
    }
    if all.is_empty() {
        all.push(None);
    }
    all
}

/// The layouts of a port that the row takes and that waste least: whole dimensions in lanes and rows.
pub(crate) fn cheapest(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    n: usize,
) -> Vec<LayoutId> {
    let shape = &sig.shapes[port];
    let long: Vec<usize> = (0..shape.len()).filter(|&d| 1 < shape[d]).collect();
    let whole = |dim: usize| Run {
        digits: vec![(dim, 1, shape[dim])],
    };
    let mut found: Vec<(u64, LayoutId)> = Vec::new();
    for &lane in long.iter().filter(|_| sig.is_common_order()) {
        let Some(run) = sig.lines else { break };
        let mut order: Vec<usize> = (0..shape.len()).filter(|&d| d != lane).collect();
        order.push(lane);
        let form = Physical::plain(shape, &order, Some(run));
        let id = layouts.formed(shape, sig.bits[port], &form);
        if let Some(id) = id.filter(|&id| accepts(sig, layouts, port, id)) {
            found.push((layouts.bytes(id), id));
        }
    }
    for &lane in &long {
        let beside = long
            .iter()
            .filter(|&&row| row != lane && sig.lines.is_none());
        let alone = sig.lines.is_some().then_some(None);
        for row in beside.map(|&row| Some(row)).chain(alone) {
            let form = build(sig, port, Some(whole(lane)), row.map(whole), &[]);
            let id = form.and_then(|form| layouts.formed(shape, sig.bits[port], &form));
            if let Some(id) = id.filter(|&id| accepts(sig, layouts, port, id)) {
                found.push((layouts.bytes(id), id));
            }
        }
    }
    found.sort_by_key(|&(bytes, _)| bytes);
    found.dedup();
    found.into_iter().take(n).map(|(_, id)| id).collect()
}

/// The layouts of the operand of a slice that waste least of those with nothing that is cut in their tiles, which may
/// be read where they lie; at most `n`.
pub(crate) fn uncut(sig: &Signature, layouts: &mut Layouts, n: usize) -> Vec<LayoutId> {
    let shape = &sig.shapes[0];
    let kept = |dim: &usize| {
        let label = sig.labels(0).get(*dim).copied().flatten();
        1 < shape[*dim] && label.is_some_and(|l| sig.freedom.labels[l].role != Role::Axis)
    };
    let kept: Vec<usize> = (0..shape.len()).filter(kept).collect();
    let rank = shape.iter().filter(|&&n| 1 < n).count();
    let whole = |dim: usize| Run {
        digits: vec![(dim, 1, shape[dim])],
    };
    let mut found: Vec<(u64, LayoutId)> = Vec::new();
    for &lane in &kept {
        let beside = kept.iter().copied().filter(|&row| row != lane).map(Some);
        // A value of one dimension fills its rows with it.
        let alone = (rank == 1).then_some(None);
        for row in beside.chain(alone) {
            let form = build(sig, 0, Some(whole(lane)), row.map(whole), &[]);
            let id = form.and_then(|form| layouts.formed(shape, sig.bits[0], &form));
            if let Some(id) = id.filter(|&id| accepts(sig, layouts, 0, id)) {
                found.push((layouts.bytes(id), id));
            }
        }
    }
    found.sort_by_key(|&(bytes, _)| bytes);
    found.dedup();
    found.into_iter().take(n).map(|(_, id)| id).collect()
}

/// Parts of ports, and the layouts there that have them.
pub(crate) type PortParts = Vec<Vec<(Part, Vec<LayoutId>)>>;

/// The forms that parts of all ports join to: per port the layouts that it may have. A port of which no layout is
/// known to have the part that the others want gets one made.
pub(crate) fn join(
    sig: &Signature,
    layouts: &mut Layouts,
    parts: &PortParts,
    rule: usize,
) -> Vec<Vec<Vec<LayoutId>>> {
    let mut forms: Vec<Vec<Vec<LayoutId>>> = Vec::new();
    let of_rule = |parts: &Vec<(Part, Vec<LayoutId>)>| {
        let taken = parts
            .iter()
            .filter(|(part, _)| part.rules & (1 << rule) != 0);
        taken.cloned().collect()
    };
    let parts: &PortParts = &parts.iter().map(of_rule).collect();
    let n = sig.n_ports();
    // The result and the data are asked first: what is in their tiles says what is in all others.
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&p| (p < sig.n_operands && p != 0, p == 0));
    let mut chosen: Vec<Option<&Part>> = vec![None; n];
    let mut ids: Vec<Vec<LayoutId>> = vec![Vec::new(); n];
    descend(
        (sig, rule),
        layouts,
        parts,
        &order,
        &mut chosen,
        &mut ids,
        &mut forms,
    );
    forms
}

fn descend<'p>(
    (sig, rule): (&Signature, usize),
    layouts: &mut Layouts,
    parts: &'p PortParts,
    order: &[usize],
    chosen: &mut Vec<Option<&'p Part>>,
    ids: &mut Vec<Vec<LayoutId>>,
    forms: &mut Vec<Vec<Vec<LayoutId>>>,
) {
    if MOST_FORMS <= forms.len() {
        return;
    }
    let Some((&port, rest)) = order.split_first() else {
        forms.push(ids.clone());
        return;
    };
    let mut seen: Vec<LayoutId> = Vec::new();
    for (part, known) in parts[port].iter().take(MOST_PARTS) {
        let fits = (0..chosen.len()).all(|other| {
            chosen[other].is_none_or(|there| agree(sig, (other, there), (port, part)))
        });
        if !fits {
            continue;
        }
        seen.extend(known);
        chosen[port] = Some(part);
        ids[port].clone_from(known);
        descend((sig, rule), layouts, parts, rest, chosen, ids, forms);
        chosen[port] = None;
    }
    // With more candidates there are the forms of fewer too.
    let made = made((sig, rule), layouts, port, chosen);
    if let Some(made) = made.filter(|id| !seen.contains(id)) {
        ids[port] = vec![made];
        descend((sig, rule), layouts, parts, rest, chosen, ids, forms);
    }
}

/// A layout of a port that agrees with the parts of the others.
fn made(
    (sig, rule): (&Signature, usize),
    layouts: &mut Layouts,
    port: usize,
    chosen: &[Option<&Part>],
) -> Option<LayoutId> {
    let shape = &sig.shapes[port];
    let mut by_role: Vec<(PortRole, Run)> = Vec::new();
    for part in chosen.iter().flatten() {
        for digit in part.runs.iter().flat_map(|run| &run.digits) {
            let Some(dim) = sig
                .labels(port)
                .iter()
                .position(|l| *l == Some(digit.label))
            else {
                continue;
            };
            if shape[dim] == 1 {
                continue;
            }
            let extent = if digit.extent == 0 {
                shape[dim]
            } else {
                digit.extent
            };
            let role = sig.port_role(digit.label);
            let entry = (dim, digit.div, extent);
            match by_role.iter_mut().find(|(r, _)| *r == role) {
                Some((_, run)) if run.digits.contains(&entry) => {}
                Some((_, run)) => run.digits.push(entry),
                None => by_role.push((
                    role,
                    Run {
                        digits: vec![entry],
                    },
                )),
            }
        }
    }
    let mut best: Option<(u64, LayoutId)> = None;
    let empty = || (by_role.len() < 2 || sig.lines.is_some()).then_some(None);
    let runs: Vec<Run> = by_role.iter().map(|(_, run)| run.clone()).collect();
    let options: Vec<Option<Run>> = runs.iter().cloned().map(Some).chain(empty()).collect();
    for lanes in &options {
        for rows in &options {
            let same = lanes.as_ref().map(|l| &l.digits) == rows.as_ref().map(|r| &r.digits);
            let empty = lanes.is_none() || rows.is_none();
            let lines = sig.lines.is_some() && rows.is_none();
            if (same && lanes.is_some()) || (empty && 1 < runs.len() && !lines) {
                continue;
            }
            let Some(form) = build(sig, port, lanes.clone(), rows.clone(), &[]) else {
                continue;
            };
            let Some(id) = layouts.formed(shape, sig.bits[port], &form) else {
                continue;
            };
            let bytes = layouts.bytes(id);
            let taken = rules_of(sig, layouts, port, id) & (1 << rule) != 0;
            if taken && best.is_none_or(|(least, _)| bytes < least) {
                best = Some((bytes, id));
            }
        }
    }
    if runs.is_empty() {
        // Nothing says what is in its tile: row-major if that is taken, else what pads least.
        let natural = layouts.row_major(shape, sig.bits[port]);
        let all = [natural]
            .into_iter()
            .chain(cheapest(sig, layouts, port, CHEAPEST));
        let all: Vec<LayoutId> = all.collect();
        let mut taken = all.into_iter();
        let taken = taken.find(|&id| rules_of(sig, layouts, port, id) & (1 << rule) != 0);
        best = taken.map(|id| (0, id));
    }
    let made = best.map(|(_, id)| id)?;
    let part = parts(sig, layouts, port, made)?;
    let mut others = chosen.iter().enumerate();
    let fits = others
        .all(|(other, there)| there.is_none_or(|there| agree(sig, (other, there), (port, &part))));
    fits.then_some(made)
}
