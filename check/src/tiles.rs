//! Whether a target with tiles accepts the layouts of an operation, read off the tile of each port.
//!
//! Nothing here knows how a layout came about: the elements in the first tile of a buffer say which dimensions fill
//! its lanes and its rows, and the elements at the corners of the first tiles say how these are numbered.

use crate::digits::digits;
use optc_ir::{Freedom, FreedomClass, Func, Op, Operation, Role, TensorType, Value};
use optc_layout::{Layout, Mode, Notation, NotationKind, TileDim, XlaNotation};
use optc_ops::Subview;
use optc_target::{Alternative, PortRole, Price, Row, Target, When};

/// Ports of an operation up to which all readings of tiles that no text says are tried together.
const MOST_READ: usize = 8;

/// Tiles whose corners are compared.
const CORNERS: u64 = 256;

/// What one port has in its tile.
#[derive(Clone)]
struct Port {
    /// Where the machine has values without tiles too: the layout, which is read as it is.
    line: Option<Layout>,
    /// Dimensions that fill the lanes, and the rows, in the order in which they change.
    places: [Vec<usize>; 2],
    /// The elements of the lanes, and of the rows, of the first tile.
    elements: [Vec<Vec<u64>>; 2],
    /// Its rows if these are fewer, where no text says how many there are.
    fewer: Vec<Vec<Vec<u64>>>,
    /// The elements at the corners of the first tiles.
    corners: Vec<Option<Vec<u64>>>,
    /// Whether its rows number tiles as well: one tile is as wide as the value, and nothing is packed.
    loose: bool,
    /// Whether it lies in tiles at all: some element widths have none.
    tiled: bool,
    /// The sizes of that tile.
    sizes: Vec<u64>,
}

/// Whether all tensors of an operation have known sizes: where one is unknown, there are no tiles.
pub(crate) fn is_known(func: &Func) -> bool {
    let mut types = func.values.ids().filter_map(|v| func.ty(v).as_tensor());
    types.all(|ty| ty.shape().is_some())
}

/// Checks one operation; what it costs by itself, in bytes.
///
/// # Errors
/// What is wrong at which port, in words.
pub(crate) fn check(
    func: &Func,
    op: Op,
    freedom: &Freedom,
    row: Option<&Row>,
    target: &Target,
) -> Result<u64, String> {
    let data = &func.ops[op];
    let values: Vec<Value> = data.operands.iter().chain(&data.results).copied().collect();
    let mut ports = Vec::with_capacity(values.len());
    for (i, &value) in values.iter().enumerate() {
        let ty = func.ty(value).as_tensor();
        let port = match ty.map(|ty| port_of(ty, target)) {
            Some(None) => return Err(format!("port {i} lies in no tile of the target")),
            Some(Some(port)) => Some(port),
            None => None,
        };
        ports.push(port);
    }
    let row = row.filter(|_| freedom.class != FreedomClass::Barrier);
    let Some(row) = row else {
        return row_major(&ports).map(|()| 0);
    };
    let n_operands = freedom.operands.len();
    let mut reason = "no alternative of the row is for it".to_owned();
    let n_results = freedom.results.len();
    // A part that stays where it is needs an alternative that says so, where the row has one.
    let is_part = &*data.name == Subview::NAME && row.takes_subviews();
    let is_for = |a: &&Alternative| {
        let when = match a.when {
            None | Some(When::Pointwise) => true,
            Some(When::Untiled) => false,
            Some(When::Depthwise) => freedom.is_depthwise(),
            Some(When::Mixing) => !freedom.is_depthwise(),
        };
        let part = !is_part || a.subview;
        when && part && a.is_for(n_operands, n_results)
    };
    let takes = |alternative: &Alternative| {
        let mut ports = ports.clone();
        if alternative.writes.is_some() {
            ports[n_operands..].fill(None);
        }
        let run = alternative.run.unwrap_or(1);
        match alternative.shares_all() {
            _ if alternative.order.is_some() => row_major(&ports),
            true => common(func, &values, freedom, &ports, is_part)
                .and_then(|()| {
                    let mut all = ports.iter().enumerate();
                    all.try_for_each(|(i, port)| match port {
                        Some(port) => listed(freedom, (i, port), alternative, n_operands),
                        None => Ok(()),
                    })
                })
                .and_then(|()| same_lines(func, &values, freedom, &ports))
                .and_then(|()| same_digits(func, &values, freedom, &ports, target))
                .and_then(|()| has_runs(freedom, &ports, run)),
            false if ports.iter().flatten().any(|p| p.line.is_some()) => {
                lines_by_roles(func, &values, freedom, &ports, alternative, target)
            }
            false => by_roles(func, &values, freedom, &ports, alternative, n_operands),
        }
    };
    let mut least: Option<u64> = None;
    for alternative in row
        .take
        .iter()
        .filter(|a| a.refused.is_none())
        .filter(is_for)
    {
        match takes(alternative) {
            Ok(()) => {
                let of = |price: Price| {
                    let value = values.get(price.port.index(n_operands));
                    value.map_or(0, |&v| price.of(bytes_of(func, v)))
                };
                let price = alternative.price.map_or(0, of);
                least = Some(least.map_or(price, |known| known.min(price)));
            }
            Err(found) => reason = found,
        }
    }
    if let Some(price) = least {
        return Ok(price);
    }
    // An alternative that is listed to be refused says why.
    for alternative in row.take.iter().filter(is_for) {
        let Some(why) = &alternative.refused else {
            continue;
        };
        let mut all = ports.iter().enumerate();
        let found = all
            .find_map(|(i, port)| refused(freedom, (i, port.as_ref()?), alternative, n_operands));
        if let Some(found) = found {
            return Err(format!("{found}, which is refused: {why}"));
        }
    }
    Err(reason)
}

/// The role of a port that an alternative refuses, in words.
fn refused(
    freedom: &Freedom,
    (i, port): (usize, &Port),
    alternative: &Alternative,
    n_operands: usize,
) -> Option<String> {
    let rule = alternative.port(i, n_operands);
    let names = [("lanes", &rule.lanes), ("rows", &rule.rows)];
    port.places
        .iter()
        .zip(names)
        .find_map(|(dims, (name, listed))| {
            let labels = labelled(freedom, i, dims).into_iter().flatten();
            let mut roles = labels.map(|l| role(freedom, l, n_operands));
            let role = roles.find(|role| listed.iter().flatten().any(|r| r.covers(*role)))?;
            Some(format!("port {i} has `{}` in the {name}", role.name()))
        })
}

/// Physical bytes of a value.
fn bytes_of(func: &Func, value: Value) -> u64 {
    let layout = func.ty(value).as_tensor().and_then(TensorType::layout);
    layout
        .and_then(Result::ok)
        .map_or(0, |layout| layout.bytes())
}

/// The tile of a value; nothing where it lies in none.
fn port_of(ty: &TensorType, target: &Target) -> Option<Port> {
    let layout = ty.layout()?.ok()?;
    if target.plain(layout.elem_bits()).is_some() {
        return Some(Port {
            line: (layout.elements() != 0).then_some(layout),
            places: [Vec::new(), Vec::new()],
            elements: [Vec::new(), Vec::new()],
            fewer: Vec::new(),
            corners: Vec::new(),
            loose: false,
            tiled: false,
            sizes: Vec::new(),
        });
    }
    if layout.elements() == 0 {
        return Some(Port {
            line: None,
            places: [Vec::new(), Vec::new()],
            elements: [Vec::new(), Vec::new()],
            fewer: Vec::new(),
            corners: Vec::new(),
            loose: false,
            tiled: false,
            sizes: Vec::new(),
        });
    }
    let (tiles, certain) = tiles_of(&layout, target);
    let first = tiles.first().cloned().unwrap_or_default();
    let (rows, lanes) = match first.split_last() {
        Some((&lanes, rows)) => (rows.iter().product::<u64>(), lanes),
        None => (1, 1),
    };
    // Elements that are packed together lie along the rows.
    let pack = match tiles.get(1).map(Vec::as_slice) {
        Some(&[pack, 1]) if 2 <= first.len() => pack,
        _ => 1,
    };
    let in_row = |i: u64| (i / pack) * lanes * pack + i % pack;
    let along = |positions: Vec<u64>| -> Vec<Vec<u64>> {
        positions
            .into_iter()
            .filter_map(|p| layout.element_at(p))
            .collect()
    };
    let of_lanes = (0..lanes).map(|j| if 2 <= first.len() { j * pack } else { j });
    let mut lane_elements = along(of_lanes.collect());
    if first.len() < 2 {
        lane_elements.sort();
    }
    let row_elements = along((0..rows).map(in_row).collect());
    // Of a tile that no text says the rows may end after fewer of them.
    let mut fewer = Vec::new();
    let mut n = rows;
    while !certain && pack < n {
        n /= 2;
        fewer.push(along((0..n).map(in_row).collect()));
    }
    let tile = rows.saturating_mul(lanes).max(1);
    let corners = (0..CORNERS.min(layout.positions() / tile)).map(|k| layout.element_at(k * tile));
    Some(Port {
        line: None,
        places: [changing(&lane_elements), changing(&row_elements)],
        corners: corners.collect(),
        loose: !certain || is_loose(&layout, &tiles),
        tiled: !first.is_empty(),
        sizes: first,
        elements: [lane_elements, row_elements],
        fewer,
    })
}

/// Whether tiles of one row are the same function.
fn is_loose(layout: &Layout, tiles: &[Vec<u64>]) -> bool {
    let written = match layout.notation() {
        Notation::Xla(_) => None,
        _ => layout.convert(NotationKind::Xla).ok(),
    };
    let Notation::Xla(xla) = written.as_ref().unwrap_or(layout).notation() else {
        return false;
    };
    let [tile] = tiles else { return false };
    let [_, lanes] = tile.as_slice() else {
        return false;
    };
    let mut minor = xla.minor_to_major().to_vec();
    if xla.tiles().is_empty() {
        // Dimensions of extent 1 lie wherever they do no harm.
        minor.sort_by_key(|&d| layout.shape()[d] == 1);
    }
    let minor: Vec<String> = minor.iter().map(usize::to_string).collect();
    let text = format!("{}:T(1,{lanes})", minor.join(","));
    let Ok(notation) = XlaNotation::parse(&text, layout.rank()) else {
        return false;
    };
    let notation = Notation::Xla(notation.packed(layout.elem_bits()));
    let one = Layout::new(notation, layout.shape(), layout.elem_bits());
    one.is_ok_and(|one| one.same_function(layout))
}

/// Dimensions along which elements differ, those that change fastest last.
fn changing(elements: &[Vec<u64>]) -> Vec<usize> {
    let rank = elements.first().map_or(0, Vec::len);
    let mut dims: Vec<(usize, usize)> = Vec::new();
    for dim in 0..rank {
        let changes = elements
            .windows(2)
            .filter(|w| w[0][dim] != w[1][dim])
            .count();
        if 0 < changes {
            dims.push((changes, dim));
        }
    }
    dims.sort_unstable();
    dims.into_iter().map(|(_, dim)| dim).collect()
}

/// The tiles of a layout, and whether they are certain: those that its text states, as far as the target has such
/// tiles; those of the target's format where an order without tiles is the same function; else whole tiles of the
/// target, which digits fill that no text of one order says.
fn tiles_of(layout: &Layout, target: &Target) -> (Vec<Vec<u64>>, bool) {
    let whole = target.tiles(layout.elem_bits(), &[1 << 20, 1 << 20]);
    let stated = match layout.notation() {
        Notation::Xla(xla) => sizes_of(xla),
        _ => Some(Vec::new()),
    };
    let lanes = |tiles: &[Vec<u64>]| tiles.first().and_then(|t| t.last().copied());
    match stated {
        Some(tiles) if tiles.is_empty() => {
            if let Some(tiles) = of_order(layout, target) {
                return (tiles, true);
            }
        }
        // A text may spell digits by tiles that the machine has not, one inside of the other.
        Some(tiles)
            if tiles[0].len() == 1 && tiles[0][0].is_multiple_of(lanes(&whole).unwrap_or(1)) =>
        {
            return (tiles, true);
        }
        Some(tiles)
            if tiles[0].len() == 2
                && lanes(&tiles) == lanes(&whole)
                && tiles.get(1..) == whole.get(1..) =>
        {
            return (tiles, true);
        }
        _ => {}
    }
    (whole, false)
}

/// The tiles of a text, where none merges dimensions.
fn sizes_of(xla: &XlaNotation) -> Option<Vec<Vec<u64>>> {
    let size = |dim: &TileDim| match dim {
        TileDim::Size(n) => Some(*n),
        TileDim::Combined => None,
    };
    let tiles = xla.tiles().iter();
    tiles.map(|tile| tile.iter().map(size).collect()).collect()
}

/// The tiles of the target's format, where an order of dimensions without tiles is the same function.
fn of_order(layout: &Layout, target: &Target) -> Option<Vec<Vec<u64>>> {
    let written = layout.convert(NotationKind::Xla).ok()?;
    let Notation::Xla(xla) = written.notation() else {
        return None;
    };
    if !xla.tiles().is_empty() {
        return None;
    }
    // Dimensions of extent 1 lie wherever they do no harm.
    let order = xla.minor_to_major().iter().rev().copied();
    let is_long = |d: &usize| 1 < layout.shape()[*d];
    let long: Vec<usize> = order.filter(is_long).collect();
    let unit = (0..layout.rank()).filter(|d| !is_long(d));
    let order: Vec<usize> = unit.chain(long).collect();
    let physical: Vec<u64> = order.iter().map(|&d| layout.shape()[d]).collect();
    let tiles = target.tiles(layout.elem_bits(), &physical);
    if tiles.is_empty() {
        return Some(tiles);
    }
    let minor: Vec<String> = order.iter().rev().map(usize::to_string).collect();
    let text = format!("{}:{}", minor.join(","), optc_target::tiles_text(&tiles));
    let notation = XlaNotation::parse(&text, layout.rank()).ok()?;
    let notation = Notation::Xla(notation.packed(layout.elem_bits()));
    let tiled = Layout::new(notation, layout.shape(), layout.elem_bits()).ok()?;
    tiled.same_function(layout).then_some(tiles)
}

fn labels_of(freedom: &Freedom, port: usize) -> &[Option<usize>] {
    let n = freedom.operands.len();
    let at = match port < n {
        true => freedom.operands.get(port),
        false => freedom.results.get(port - n),
    };
    at.map_or(&[], Vec::as_slice)
}

/// The extent of a label at a port; 1 where it has none.
fn extent(func: &Func, values: &[Value], freedom: &Freedom, port: usize, label: usize) -> u64 {
    let dim = labels_of(freedom, port)
        .iter()
        .position(|l| *l == Some(label));
    let shape = func
        .ty(values[port])
        .as_tensor()
        .and_then(TensorType::shape);
    match (dim, shape) {
        (Some(dim), Some(shape)) => shape.get(dim).copied().unwrap_or(1),
        _ => 1,
    }
}

/// Ports that have the same labels number their tiles alike, and have the same labels in lanes and rows.
fn common(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    ports: &[Option<Port>],
    part: bool,
) -> Result<(), String> {
    let long = |port: usize| -> Vec<usize> {
        let mut all: Vec<usize> = labels_of(freedom, port).iter().flatten().copied().collect();
        all.retain(|&l| 1 < extent(func, values, freedom, port, l));
        all.sort_unstable();
        all
    };
    let mut first: Vec<(Vec<(usize, u64)>, usize)> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let Some(port) = port.as_ref().filter(|p| p.tiled) else {
            continue;
        };
        let sizes: Vec<(usize, u64)> = long(i)
            .into_iter()
            .map(|l| (l, extent(func, values, freedom, i, l)))
            .collect();
        let Some((_, known)) = first.iter().find(|(other, _)| *other == sizes) else {
            // Of a slice, a pad or a concat the extents of what is worked along differ.
            let same = |(_, other): &&(_, usize)| {
                labels_of(freedom, *other) == labels_of(freedom, i) && !long(*other).is_empty()
            };
            if let Some((all, known)) = first.iter().find(same)
                && let Some(other) = &ports[*known]
            {
                let apart = |a: &[(usize, u64)], b: &[(usize, u64)]| -> Vec<usize> {
                    let cut = a.iter().filter(|size| !b.contains(size));
                    cut.map(|(label, _)| *label).collect()
                };
                let cut = [apart(all, &sizes), apart(&sizes, all)].concat();
                let cut = part.then_some(&cut[..]);
                let both: Vec<usize> = long(i)
                    .into_iter()
                    .filter(|l| long(*known).contains(l))
                    .collect();
                alike(freedom, (i, port), (*known, other), &both, cut)?;
            }
            first.push((sizes, i));
            continue;
        };
        let Some(other) = &ports[*known] else {
            continue;
        };
        for (place, name) in [(0, "lanes"), (1, "rows")] {
            // Tiles of other element widths have other numbers of rows.
            let n = port.elements[place].len().min(other.elements[place].len());
            let first = |port: &Port| changing(&port.elements[place][..n]);
            let here = labelled(freedom, i, &first(port));
            let there = labelled(freedom, *known, &first(other));
            if here != there {
                return Err(format!(
                    "ports {known} and {i} have other dimensions in the {name}"
                ));
            }
        }
        let corner = |port: usize, at: &Option<Vec<u64>>| -> Option<Vec<(usize, u64)>> {
            let labels = labels_of(freedom, port).iter();
            let index = at.as_ref()?.iter();
            let mut all: Vec<(usize, u64)> = labels
                .zip(index)
                .filter_map(|(l, &n)| Some(((*l)?, n)))
                .collect();
            all.retain(|(_, n)| *n != 0);
            all.sort_unstable();
            Some(all)
        };
        let bits = |port: usize| func.ty(values[port]).as_tensor().map(|ty| ty.dtype.bits());
        if bits(i) == bits(*known) && port.sizes == other.sizes {
            let at = |port: usize, list: &Vec<Vec<u64>>| -> Vec<_> {
                let elements = list.iter().map(|e| corner(port, &Some(e.clone())));
                elements.collect()
            };
            if at(i, &port.elements[0]) != at(*known, &other.elements[0]) {
                return Err(format!(
                    "ports {known} and {i} have other elements in the lanes"
                ));
            }
            let readings = |port: usize, p: &Port| -> Vec<Vec<_>> {
                let all = [&p.elements[1]].into_iter().chain(&p.fewer);
                all.map(|list| at(port, list)).collect()
            };
            let there = readings(*known, other);
            if !readings(i, port).iter().any(|list| there.contains(list)) {
                return Err(format!(
                    "ports {known} and {i} have other elements in the rows"
                ));
            }
        }
        let sized = port.elements[0].len() == other.elements[0].len()
            && port.elements[1].len() == other.elements[1].len();
        let mut pairs = port.corners.iter().zip(&other.corners);
        if sized && !pairs.all(|(a, b)| corner(i, a) == corner(*known, b)) {
            return Err(format!(
                "ports {known} and {i} number their tiles differently"
            ));
        }
    }
    Ok(())
}

/// Whether two ports of other extents have the labels of both in one order: in the lanes, in the rows and behind them.
/// Of a part, with the labels that it cuts, also whether its tiles are tiles of the whole.
fn alike(
    freedom: &Freedom,
    (i, port): (usize, &Port),
    (known, other): (usize, &Port),
    both: &[usize],
    part: Option<&[usize]>,
) -> Result<(), String> {
    let names = |port: usize, dims: &[usize]| -> Vec<usize> {
        labelled(freedom, port, dims)
            .into_iter()
            .flatten()
            .collect()
    };
    let place = |at: usize, port: &Port, place: usize| names(at, &changing(&port.elements[place]));
    for (at, name) in [(0, "lanes"), (1, "rows")] {
        let all = [place(i, port, at), place(known, other, at)];
        let merged = |labels: &Vec<usize>| {
            1 < labels.len() && part.is_some_and(|cut| labels.iter().any(|l| cut.contains(l)))
        };
        if all.iter().any(merged) {
            return Err(format!(
                "what is cut is merged with others in the {name} of ports {known} and {i}"
            ));
        }
    }
    // The labels of both, by where the innermost digit of each stands, major to minor.
    let order = |at: usize, port: &Port| -> Vec<usize> {
        let corners: Vec<Vec<u64>> = port.corners.iter().flatten().cloned().collect();
        let mut all = names(at, &changing(&corners));
        all.extend(place(at, port, 1));
        all.extend(place(at, port, 0));
        let last = |(n, label): (usize, &usize)| !all[n + 1..].contains(label);
        let kept = all.iter().enumerate().filter(|&entry| last(entry));
        let mut kept: Vec<usize> = kept.map(|(_, &label)| label).collect();
        kept.retain(|label| both.contains(label));
        kept
    };
    // Where a dimension of the tile has one element in the other port, what is behind it moves up.
    let moves_up = (0..2).any(|p| {
        let all = [place(i, port, p), place(known, other, p)];
        all.iter().flatten().any(|l| !both.contains(l))
    });
    if moves_up {
        let fewer = !port.fewer.is_empty() || !other.fewer.is_empty();
        let (here, there) = (order(i, port), order(known, other));
        return match fewer || here == there {
            true => Ok(()),
            false => Err(format!("ports {known} and {i} have other orders")),
        };
    }
    for (at, name) in [(0, "lanes"), (1, "rows")] {
        let (here, there) = (place(i, port, at), place(known, other, at));
        // Rows that no text says may end earlier.
        let fewer = |port: &Port| at == 1 && !port.fewer.is_empty();
        let loose = fewer(port) || fewer(other);
        // Of merged dimensions the extents say how many are in the first tile; the innermost one always is.
        let same = match part.is_some() {
            true => here == there,
            false => here.last() == there.last(),
        };
        if !same && !here.is_empty() && !there.is_empty() && !loose {
            return Err(format!(
                "ports {known} and {i} have other dimensions in the {name}"
            ));
        }
    }
    let grid = |at: usize, port: &Port| -> Vec<usize> {
        let corners: Vec<Vec<u64>> = port.corners.iter().flatten().cloned().collect();
        let mut order = names(at, &changing(&corners));
        order.retain(|l| both.contains(l));
        order
    };
    let (here, there) = (grid(i, port), grid(known, other));
    let shared = |order: &[usize], than: &[usize]| -> Vec<usize> {
        let both = order.iter().filter(|l| than.contains(l));
        both.copied().collect()
    };
    // A dimension merged with what is cut numbers tiles otherwise; a copy takes that, a part that stays does not.
    if part.is_some() && shared(&here, &there) != shared(&there, &here) {
        return Err(format!(
            "ports {known} and {i} number their tiles differently"
        ));
    }
    Ok(())
}

/// Whether the ports of a machine that has values without tiles are row-major, as what nothing is known of is.
fn row_major(ports: &[Option<Port>]) -> Result<(), String> {
    for (i, port) in ports.iter().enumerate() {
        let line = port.as_ref().and_then(|p| p.line.as_ref());
        if line.is_some_and(|layout| !layout.is_row_major_order()) {
            return Err(format!("port {i} is not row-major"));
        }
    }
    Ok(())
}

/// How many positions of a buffer are looked at: some from its start, and some from each of its lines.
fn samples(positions: u64) -> Vec<u64> {
    let step = (positions / CORNERS).max(1);
    let spread = (0..CORNERS).map(|k| k.saturating_mul(step));
    let mut all: Vec<u64> = (0..CORNERS)
        .chain(spread)
        .filter(|&p| p < positions)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Ports that have the same labels have the same elements, and the same padding, in the same positions.
fn same_lines(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    ports: &[Option<Port>],
) -> Result<(), String> {
    type Sizes = Vec<(usize, u64)>;
    let mut first: Vec<(Sizes, usize)> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let Some(layout) = port.as_ref().and_then(|p| p.line.as_ref()) else {
            continue;
        };
        let labels = labels_of(freedom, i).iter().flatten();
        let mut sizes: Sizes = labels
            .map(|&l| (l, extent(func, values, freedom, i, l)))
            .collect();
        sizes.retain(|(_, n)| 1 < *n);
        sizes.sort_unstable();
        if sizes.is_empty() {
            continue;
        }
        let Some((_, known)) = first.iter().find(|(other, _)| *other == sizes) else {
            first.push((sizes, i));
            continue;
        };
        let Some(other) = ports[*known].as_ref().and_then(|p| p.line.as_ref()) else {
            continue;
        };
        let labelled = |port: usize, layout: &Layout, p: u64| -> Option<Vec<(usize, u64)>> {
            let index = layout.element_at(p)?;
            let labels = labels_of(freedom, port).iter();
            let mut all: Vec<(usize, u64)> = labels
                .zip(index)
                .filter_map(|(l, n)| Some(((*l)?, n)))
                .collect();
            all.retain(|(_, n)| *n != 0);
            all.sort_unstable();
            Some(all)
        };
        let mut all = samples(layout.positions().min(other.positions())).into_iter();
        let same = layout.positions() == other.positions();
        if !same || all.any(|p| labelled(i, layout, p) != labelled(*known, other, p)) {
            return Err(format!(
                "ports {known} and {i} order their dimensions differently"
            ));
        }
    }
    Ok(())
}

/// On a machine of lines, ports of other sizes have the digits of both in one order; where they have the same labels, as
/// a slice and what it is cut from have, those of the innermost padded run in the same places.
fn same_digits(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    ports: &[Option<Port>],
    target: &Target,
) -> Result<(), String> {
    let mut known: Vec<(usize, Vec<(usize, Mode)>)> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let layout = port.as_ref().and_then(|p| p.line.as_ref());
        // What cuts across merged dimensions has no digits.
        let Some(Ok(modes)) = layout.map(digits) else {
            continue;
        };
        let labels = labels_of(freedom, i);
        let of = |mode: Mode| Some((labels.get(mode.dim).copied().flatten()?, mode));
        let Some(order) = modes.into_iter().map(of).collect::<Option<Vec<_>>>() else {
            continue;
        };
        if known.iter().any(|(j, other)| {
            labels_of(freedom, *j) == labels
                && func.ty(values[*j]) == func.ty(values[i])
                && *other == order
        }) {
            continue;
        }
        // Of those with the same labels, the first one stands for all.
        let mut seen = false;
        let others = known.iter().filter(|(j, _)| {
            let alike = labels_of(freedom, *j) == labels;
            let again = alike && seen;
            seen |= alike;
            !again
        });
        for (j, other) in others {
            let size = |port: usize, label: usize| extent(func, values, freedom, port, label);
            let order_of = |order: &[(usize, Mode)], than: usize| -> Vec<(usize, u64)> {
                let mut out: Vec<(usize, u64, u64)> = Vec::new();
                for (label, mode) in order {
                    if mode.count <= 1 || size(than, *label) <= mode.div {
                        continue;
                    }
                    match out.last_mut() {
                        Some((last, div, _))
                            if last == label && mode.div.checked_mul(mode.count) == Some(*div) =>
                        {
                            *div = mode.div;
                        }
                        _ => out.push((*label, mode.div, mode.count)),
                    }
                }
                out.into_iter()
                    .map(|(label, div, _)| (label, div))
                    .collect()
            };
            if order_of(&order, *j) != order_of(other, i) {
                return Err(format!(
                    "ports {j} and {i} order their dimensions differently"
                ));
            }
            if labels_of(freedom, *j) != labels {
                continue;
            }
            let lanes = lanes_of(func, values[i], target);
            let whole = |order: &[(usize, Mode)]| {
                let last = order.last();
                last.is_none_or(|(label, _)| size(i, *label) == size(*j, *label))
            };
            let within = |small: usize, big: usize| {
                let mut labels = labels.iter().flatten();
                labels.all(|l| size(small, *l) <= size(big, *l))
            };
            let same = match whole(&order) && whole(other) {
                true if within(i, *j) => same_run_of_part(other, &order, lanes, |l| size(i, l)),
                true if within(*j, i) => same_run_of_part(&order, other, lanes, |l| size(*j, l)),
                _ => true,
            };
            if !same {
                return Err(format!("ports {j} and {i} are padded differently"));
            }
        }
        known.push((i, order));
    }
    Ok(())
}

/// Lanes of the target's lines for a value.
fn lanes_of(func: &Func, value: Value, target: &Target) -> u64 {
    let bits = func.ty(value).as_tensor().map(|ty| ty.dtype.bits());
    let tiles = target.tiles(bits.unwrap_or(32), &[1 << 20, 1 << 20]);
    tiles.first().and_then(|t| t.last().copied()).unwrap_or(1)
}

/// Whether what is left in a part of the innermost run of a whole is the innermost run of the part: `size` gives the
/// extents of the part. The run ends with the digit that is padded; without one, where whole lines are filled.
fn same_run_of_part(
    whole: &[(usize, Mode)],
    part: &[(usize, Mode)],
    lanes: u64,
    size: impl Fn(usize) -> u64,
) -> bool {
    let padded = |order: &[(usize, Mode)]| {
        let is_padded = |(_, mode): &(usize, Mode)| mode.count != mode.extent;
        order.iter().rposition(is_padded)
    };
    let count = |order: &[(usize, Mode)]| -> u64 {
        let digits = order.iter().map(|(_, mode)| mode.count);
        digits.fold(1, u64::saturating_mul)
    };
    let left = |order: &[(usize, Mode)]| -> u64 {
        let digits = order.iter().map(|(label, mode)| {
            let there = size(*label).div_ceil(mode.div.max(1));
            mode.count.min(there).max(1)
        });
        digits.fold(1, u64::saturating_mul)
    };
    let of_part = padded(part).map(|at| (count(&part[at..]), part[at..].len() == 1));
    match padded(whole) {
        Some(at) => {
            let run = left(&whole[at..]);
            let first =
                |order: &[(usize, Mode)], at: usize| (order[at].1.count, order[at].1.extent);
            match of_part {
                // One digit alone may be padded to less than a line.
                Some((_, true)) if at + 1 == whole.len() => {
                    first(whole, at) == first(part, part.len() - 1)
                }
                Some((there, _)) => there == run,
                None => run.is_multiple_of(lanes),
            }
        }
        None => {
            let Some((there, _)) = of_part else {
                return true;
            };
            let mut ends = (0..whole.len()).rev();
            let end = ends.find(|&at| count(&whole[at..]).is_multiple_of(lanes));
            end.is_some_and(|at| {
                let run = left(&whole[at..]);
                run == there && !run.is_multiple_of(lanes)
            })
        }
    }
}

/// The first positions of the ports that have most labels are a run of one dimension, padding counted.
fn has_runs(freedom: &Freedom, ports: &[Option<Port>], run: u64) -> Result<(), String> {
    let n = |port: usize| labels_of(freedom, port).iter().flatten().count();
    let most = (0..ports.len()).map(n).max().unwrap_or(0);
    for (i, port) in ports.iter().enumerate().filter(|(i, _)| n(*i) == most) {
        let Some(layout) = port.as_ref().and_then(|p| p.line.as_ref()) else {
            continue;
        };
        let elements: Vec<Vec<u64>> = (0..run).filter_map(|p| layout.element_at(p)).collect();
        let short = layout.positions() < run && 1 < layout.elements();
        if short || 1 < changing(&elements).len() {
            return Err(format!(
                "port {i} has no innermost run of {run} elements of one dimension"
            ));
        }
    }
    Ok(())
}

/// Each line of lanes of a port holds elements along one of the roles that the alternative lists there, in the
/// first line and in others; ports have the same run of a label that both have in their lanes.
fn lines_by_roles(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    ports: &[Option<Port>],
    alternative: &Alternative,
    target: &Target,
) -> Result<(), String> {
    let n_operands = freedom.operands.len();
    let mut lanes_of: Vec<Option<Vec<Vec<u64>>>> = Vec::with_capacity(ports.len());
    for (i, port) in ports.iter().enumerate() {
        let layout = port.as_ref().and_then(|p| p.line.as_ref());
        let rule = alternative.port(i, n_operands);
        let (Some(layout), Some(listed)) = (layout, rule.lanes) else {
            lanes_of.push(None);
            continue;
        };
        let labels = labels_of(freedom, i).iter().flatten();
        let mut long = labels.filter(|&&l| 1 < extent(func, values, freedom, i, l));
        let covered = |l: &usize| {
            listed
                .iter()
                .any(|r| r.covers(role(freedom, *l, n_operands)))
        };
        if !long.any(covered) {
            lanes_of.push(None);
            continue;
        }
        let tiles = target.tiles(layout.elem_bits(), &[1 << 20, 1 << 20]);
        let lanes = tiles.first().and_then(|t| t.last().copied()).unwrap_or(1);
        if !layout.positions().is_multiple_of(lanes) {
            return Err(format!("port {i} lies in no lines of {lanes}"));
        }
        let line = |k: u64| -> Vec<Vec<u64>> {
            let positions = (0..lanes).filter_map(|p| layout.element_at(k * lanes + p));
            positions.collect()
        };
        let count = layout.positions() / lanes;
        // An odd step meets every remainder of a number of lines that a row may have.
        let step = (count / CORNERS) | 1;
        let near = 0..CORNERS.min(count);
        let spread = (0..CORNERS).map(|k| k.saturating_mul(step));
        for k in near.chain(spread.filter(|&k| k < count)).chain([count - 1]) {
            let dims = changing(&line(k));
            let mut roles = labelled(freedom, i, &dims).into_iter();
            let one = roles
                .clone()
                .next()
                .flatten()
                .map(|l| role(freedom, l, n_operands));
            let Some(one) = one else {
                if dims.is_empty() {
                    continue;
                }
                return Err(format!(
                    "port {i} has a dimension without a role in the lanes"
                ));
            };
            if roles.any(|l| l.map(|l| role(freedom, l, n_operands)) != Some(one)) {
                return Err(format!("port {i} has dimensions of two roles in the lanes"));
            }
            if !listed.iter().any(|r| r.covers(one)) {
                return Err(format!("port {i} has `{}` in the lanes", one.name()));
            }
        }
        lanes_of.push(Some(line(0)));
    }
    for i in 0..ports.len() {
        for j in 0..i {
            let aside = [i, j].iter().any(|p| (2..n_operands).contains(p));
            if let (false, Some(a), Some(b)) = (aside, &lanes_of[j], &lanes_of[i])
                && !same_run(func, values, freedom, (j, a), (i, b))
            {
                return Err(format!(
                    "ports {j} and {i} have other digits in their lanes"
                ));
            }
        }
    }
    Ok(())
}

/// Whether lanes and rows of a port hold roles that an alternative of one order at all ports lists for them.
fn listed(
    freedom: &Freedom,
    (i, port): (usize, &Port),
    alternative: &Alternative,
    n_operands: usize,
) -> Result<(), String> {
    let rule = alternative.port(i, n_operands);
    let names = [("lanes", &rule.lanes), ("rows", &rule.rows)];
    for (dims, (name, all)) in port.places.iter().zip(names) {
        let Some(all) = all else { continue };
        let labels = labelled(freedom, i, dims);
        let mut roles = labels
            .into_iter()
            .flatten()
            .map(|l| role(freedom, l, n_operands));
        let other = roles.find(|role| !all.iter().any(|r| r.covers(*role)));
        if let Some(role) = other {
            return Err(format!("port {i} has `{}` in the {name}", role.name()));
        }
    }
    Ok(())
}

/// Whether the lines of two ports run along the labels that both have there alike.
fn same_run(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    (i, a): (usize, &[Vec<u64>]),
    (j, b): (usize, &[Vec<u64>]),
) -> bool {
    let shared = |port: usize, other: usize, elements: &[Vec<u64>]| -> Vec<usize> {
        let labels = labelled(freedom, port, &changing(elements))
            .into_iter()
            .flatten();
        let same = |l: &usize| {
            let n = extent(func, values, freedom, other, *l);
            n == extent(func, values, freedom, port, *l)
        };
        labels.filter(same).collect()
    };
    let (mut x, mut y) = (shared(i, j, a), shared(j, i, b));
    x.sort_unstable();
    y.sort_unstable();
    if x.is_empty() || y.is_empty() {
        return true;
    }
    let sequence = |port: usize, elements: &[Vec<u64>]| -> Vec<Vec<u64>> {
        let own = labels_of(freedom, port);
        let place = |l: &usize| own.iter().position(|o| *o == Some(*l)).unwrap_or(0);
        let dims: Vec<usize> = x.iter().map(place).collect();
        elements
            .iter()
            .map(|e| dims.iter().map(|&d| e[d]).collect())
            .collect()
    };
    x == y && sequence(i, a) == sequence(j, b)
}

fn labelled(freedom: &Freedom, port: usize, dims: &[usize]) -> Vec<Option<usize>> {
    let labels = labels_of(freedom, port);
    dims.iter()
        .map(|&d| labels.get(d).copied().flatten())
        .collect()
}

/// Whether lanes and rows of a port are of the roles that the alternative lists.
fn fits_roles(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    (i, port): (usize, &Port),
    alternative: &Alternative,
    n_operands: usize,
) -> Result<(), String> {
    let rule = alternative.port(i, n_operands);
    let mut seen: Vec<PortRole> = Vec::new();
    // What is in rows that may number tiles, and may not be there.
    let mut left: Option<(PortRole, bool)> = None;
    let names = [("lanes", &rule.lanes), ("rows", &rule.rows)];
    for (place, (dims, (name, listed))) in port.places.iter().zip(names).enumerate() {
        let roles = labelled(freedom, i, dims);
        let roles: Option<Vec<PortRole>> = roles
            .into_iter()
            .map(|l| Some(role(freedom, l?, n_operands)))
            .collect();
        let Some(roles) = roles else {
            return Err(format!(
                "port {i} has a dimension without a role in the {name}"
            ));
        };
        let Some(&one) = roles.first() else { continue };
        let again = alternative.distinct && seen.contains(&one.kind());
        let listed = listed.as_ref();
        let unlisted = listed.is_some_and(|all| !all.iter().any(|r| r.covers(one)));
        if place == 1 && port.loose && (again || unlisted) {
            left = Some((one, again));
            continue;
        }
        if roles.iter().any(|r| *r != one) {
            return Err(format!(
                "port {i} has dimensions of two roles in the {name}"
            ));
        }
        if unlisted {
            return Err(format!("port {i} has `{}` in the {name}", one.name()));
        }
        if again {
            return Err(format!("port {i} has `{}` in lanes and rows", one.name()));
        }
        seen.push(one.kind());
    }
    // With `distinct` a port of two roles has both of them in its tile.
    let dims = labels_of(freedom, i).iter().flatten();
    let mut open: Vec<PortRole> = Vec::new();
    for &label in dims.filter(|&&l| 1 < extent(func, values, freedom, i, l)) {
        let one = role(freedom, label, n_operands);
        let of = |roles: &Option<Vec<PortRole>>| {
            let all = roles.as_ref();
            all.is_none_or(|all| all.iter().any(|r| r.covers(one)))
        };
        if (of(&rule.lanes) || of(&rule.rows)) && !open.contains(&one.kind()) {
            open.push(one.kind());
        }
    }
    if port.tiled && alternative.distinct && seen.len() < open.len().min(2) {
        return Err(match left {
            Some((role, true)) => format!("port {i} has `{}` in lanes and rows", role.name()),
            Some((role, false)) => format!("port {i} has `{}` in the rows", role.name()),
            None => format!("port {i} has one role in its tile and could have two"),
        });
    }
    Ok(())
}

/// Lanes and rows of each port are of the roles that the alternative lists, and ports agree on the labels that both
/// have.
fn by_roles(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    ports: &[Option<Port>],
    alternative: &Alternative,
    n_operands: usize,
) -> Result<(), String> {
    let mut readings: Vec<Vec<Port>> = Vec::with_capacity(ports.len());
    for (i, port) in ports.iter().enumerate() {
        let Some(port) = port else {
            readings.push(Vec::new());
            continue;
        };
        let fits =
            |port: &Port| fits_roles(func, values, freedom, (i, port), alternative, n_operands);
        let with_rows = |rows: &Vec<Vec<u64>>| Port {
            places: [port.places[0].clone(), changing(rows)],
            elements: [port.elements[0].clone(), rows.clone()],
            ..port.clone()
        };
        let found = fits(port);
        let fewer = port.fewer.iter().map(with_rows);
        let all = [port.clone()].into_iter().chain(fewer);
        let all: Vec<Port> = all.filter(|port| fits(port).is_ok()).collect();
        if all.is_empty() {
            return found;
        }
        let most = if ports.len() <= MOST_READ {
            all.len()
        } else {
            1
        };
        readings.push(all.into_iter().take(most).collect());
    }
    if alternative.independent || alternative.is_free() {
        return Ok(());
    }
    let agreed = |(j, a): (usize, &Port), (i, b): (usize, &Port)| {
        // An operand after the second is a bias.
        let aside = [i, j].iter().any(|p| (2..n_operands).contains(p));
        aside || !a.tiled || !b.tiled || agree(func, values, freedom, (j, a), (i, b))
    };
    read_alike(&readings, &agreed)
        .map_err(|[j, i]| format!("ports {j} and {i} have other digits in their tiles"))
}

/// Looks whether tiles that no text says end in rows such that all ports agree: one reading of each port, from the first
/// on.
///
/// # Errors
/// Two ports that differ, of those that were compared the ones that stand furthest behind.
fn read_alike(
    readings: &[Vec<Port>],
    agreed: &impl Fn((usize, &Port), (usize, &Port)) -> bool,
) -> Result<(), [usize; 2]> {
    let mut read: Vec<usize> = Vec::with_capacity(readings.len());
    let mut apart = [0, 0];
    // The reading of the next port that is tried.
    let mut next = 0;
    while let Some(all) = readings.get(read.len()) {
        let i = read.len();
        let differs = |port: &Port| {
            let known = read.iter().enumerate();
            let mut known = known.filter_map(|(j, &at)| Some((j, readings[j].get(at)?)));
            known.find(|&(j, a)| !agreed((j, a), (i, port)))
        };
        let mut found = all.is_empty() && next == 0;
        while let Some(port) = all.get(next) {
            let Some((j, _)) = differs(port) else {
                found = true;
                break;
            };
            if apart[1] <= i {
                apart = [j, i];
            }
            next += 1;
        }
        if found {
            read.push(next);
            next = 0;
            continue;
        }
        // No reading of this port fits: another one of the port before.
        match read.pop() {
            Some(at) => next = at + 1,
            None => return Err(apart),
        }
    }
    Ok(())
}

/// Whether the dimensions that two ports share stand in their tiles alike: one after the other in the same order.
fn agree(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    (i, a): (usize, &Port),
    (j, b): (usize, &Port),
) -> bool {
    let long = |port: usize, label: usize| 1 < extent(func, values, freedom, port, label);
    let run = |port: usize, other: usize, dims: &[usize]| -> Vec<usize> {
        let labels = labelled(freedom, port, dims).into_iter().flatten();
        labels
            .filter(|&l| long(port, l) && long(other, l))
            .collect()
    };
    let sequence = |port: usize, elements: &[Vec<u64>], labels: &[usize]| -> Vec<Vec<u64>> {
        let own = labels_of(freedom, port);
        let place = |l: &usize| own.iter().position(|x| *x == Some(*l)).unwrap_or(0);
        let dims: Vec<usize> = labels.iter().map(place).collect();
        let pick = |e: &Vec<u64>| dims.iter().map(|&d| e[d]).collect();
        elements.iter().map(pick).collect()
    };
    for p in 0..2 {
        let labels = run(i, j, &a.places[p]);
        if labels.is_empty() {
            continue;
        }
        let places = [run(j, i, &b.places[0]), run(j, i, &b.places[1])];
        let optional = p == 1 && a.loose;
        let Some(q) = places
            .iter()
            .position(|l| l.iter().any(|x| labels.contains(x)))
        else {
            if optional {
                continue;
            }
            return false;
        };
        let mut all = labels.clone();
        all.extend(places[q].iter().filter(|l| !labels.contains(l)));
        // Of a window the extents differ: there the dimensions are compared alone.
        let same = |l: &usize| {
            extent(func, values, freedom, i, *l) == extent(func, values, freedom, j, *l)
        };
        if !all.iter().all(same) {
            if labels != places[q] {
                return false;
            }
            continue;
        }
        all.sort_unstable();
        let (x, y) = (
            sequence(i, &a.elements[p], &all),
            sequence(j, &b.elements[q], &all),
        );
        if x.iter().zip(&y).any(|(x, y)| x != y) {
            return false;
        }
    }
    (0..2).all(|q| {
        let labels = run(j, i, &b.places[q]);
        let there = [run(i, j, &a.places[0]), run(i, j, &a.places[1])].concat();
        (q == 1 && b.loose) || labels.is_empty() || labels.iter().any(|l| there.contains(l))
    })
}

/// What a label is, as rows speak of it.
fn role(freedom: &Freedom, label: usize, n_operands: usize) -> PortRole {
    let has = |port: usize| labels_of(freedom, port).contains(&Some(label));
    let (left, right, result) = (has(0), 1 < n_operands && has(1), has(n_operands));
    match freedom.class {
        FreedomClass::Contract => match (left, right, result) {
            (true, true, true) => PortRole::Batch,
            (true, true, false) => PortRole::K,
            (true, false, _) => PortRole::M,
            (false, true, _) => PortRole::N,
            (false, false, _) => PortRole::Parallel,
        },
        FreedomClass::Window => match (freedom.labels[label].role, left, result) {
            (Role::Batch, ..) => PortRole::Batch,
            (Role::Spatial, ..) => PortRole::Spatial,
            (Role::Channel, true, true) => PortRole::Channel,
            (Role::Channel, false, true) => PortRole::Output,
            (Role::Channel, _, false) => PortRole::Input,
            (Role::Axis | Role::Parallel, ..) => PortRole::Tap,
        },
        _ => match freedom.labels[label].role {
            Role::Axis => PortRole::Axis,
            Role::Batch => PortRole::Batch,
            Role::Channel => PortRole::Channel,
            Role::Spatial => PortRole::Spatial,
            Role::Parallel => PortRole::Parallel,
        },
    }
}
