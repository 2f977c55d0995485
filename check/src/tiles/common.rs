//! Checks operations with one order at all ports: the ports must number their tiles alike.

use super::defect::{Defect, Part};
use super::port::{Port, changing};
use super::site::Site;

/// Checks that ports with the same labels number their tiles alike and have the same labels in lanes and rows.
pub(super) fn common(site: &Site<'_>, ports: &[Option<Port>]) -> Result<(), Defect> {
    let long = |port: usize| -> Vec<usize> {
        let mut all: Vec<usize> = site.labels(port).iter().flatten().copied().collect();
        all.retain(|&l| 1 < site.extent(port, l));
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
            .map(|l| (l, site.extent(i, l)))
            .collect();
        let Some((_, known)) = first.iter().find(|(other, _)| *other == sizes) else {
            // At a slice, a pad or a concat the extents of the dimension worked along differ.
            let same = |(_, other): &&(_, usize)| {
                site.labels(*other) == site.labels(i) && !long(*other).is_empty()
            };
            if let Some((_, known)) = first.iter().find(same)
                && let Some(other) = &ports[*known]
            {
                let both: Vec<usize> = long(i)
                    .into_iter()
                    .filter(|l| long(*known).contains(l))
                    .collect();
                alike(site, (i, port), (*known, other), &both)?;
            }
            first.push((sizes, i));
            continue;
        };
        let Some(other) = &ports[*known] else {
            continue;
        };
        same_tiles(site, (i, port), (*known, other))?;
    }
    Ok(())
}

/// Checks that two ports with the same extents have the same labels in lanes and rows, and number their tiles alike.
fn same_tiles(
    site: &Site<'_>,
    (i, port): (usize, &Port),
    (known, other): (usize, &Port),
) -> Result<(), Defect> {
    for (place, part) in Part::BOTH.into_iter().enumerate() {
        // Tiles of other element widths have other numbers of rows.
        let n = port.elements[place].len().min(other.elements[place].len());
        let first = |port: &Port| changing(&port.elements[place][..n]);
        let here = site.labelled(i, &first(port));
        let there = site.labelled(known, &first(other));
        if here != there {
            return Err(Defect::Dimensions(known, i, part));
        }
    }
    let corner = |port: usize, at: Option<&Vec<u64>>| Some(site.index(port, at?));
    let bits = |port: usize| {
        site.func
            .ty(site.values[port])
            .as_tensor()
            .map(|ty| ty.dtype.bits())
    };
    if bits(i) == bits(known) && port.sizes == other.sizes {
        let at = |port: usize, list: &Vec<Vec<u64>>| -> Vec<_> {
            let elements = list.iter().map(|e| corner(port, Some(e)));
            elements.collect()
        };
        if at(i, &port.elements[0]) != at(known, &other.elements[0]) {
            return Err(Defect::Elements(known, i, Part::Lanes));
        }
        let readings = |port: usize, p: &Port| -> Vec<Vec<_>> {
            let all = [&p.elements[1]].into_iter().chain(&p.fewer);
            all.map(|list| at(port, list)).collect()
        };
        let there = readings(known, other);
        if !readings(i, port).iter().any(|list| there.contains(list)) {
            return Err(Defect::Elements(known, i, Part::Rows));
        }
    }
    let sized = port.elements[0].len() == other.elements[0].len()
        && port.elements[1].len() == other.elements[1].len();
    let mut pairs = port.corners.iter().zip(&other.corners);
    if sized && !pairs.all(|(a, b)| corner(i, a.as_ref()) == corner(known, b.as_ref())) {
        return Err(Defect::Numbering(known, i));
    }
    Ok(())
}

/// Checks that two ports with different extents have their common labels in one order: in the lanes, in the rows and
/// behind them.
pub(super) fn alike(
    site: &Site<'_>,
    (i, port): (usize, &Port),
    (known, other): (usize, &Port),
    both: &[usize],
) -> Result<(), Defect> {
    let names = |port: usize, dims: &[usize]| -> Vec<usize> {
        site.labelled(port, dims).into_iter().flatten().collect()
    };
    let place = |at: usize, port: &Port, place: usize| names(at, &changing(&port.elements[place]));
    // The common labels by the position of the innermost digit of each, major to minor.
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
    // If a dimension of the tile has one element in the other port, the dimensions behind it move up.
    let moves_up = (0..2).any(|p| {
        let all = [place(i, port, p), place(known, other, p)];
        all.iter().flatten().any(|l| !both.contains(l))
    });
    if moves_up {
        let fewer = !port.fewer.is_empty() || !other.fewer.is_empty();
        let (here, there) = (order(i, port), order(known, other));
        return match fewer || here == there {
            true => Ok(()),
            false => Err(Defect::Orders(known, i)),
        };
    }
    for (at, of) in Part::BOTH.into_iter().enumerate() {
        let (here, there) = (place(i, port, at), place(known, other, at));
        // Rows that may end earlier, as no text fixes their number.
        let fewer = |port: &Port| at == 1 && !port.fewer.is_empty();
        let loose = fewer(port) || fewer(other);
        // For merged dimensions the extents decide how many are in the first tile; the innermost one always is.
        if here.last() != there.last() && !here.is_empty() && !there.is_empty() && !loose {
            return Err(Defect::Dimensions(known, i, of));
        }
    }
    Ok(())
}

/// Checks that the ports are row-major, on a machine that has values without tiles too. Barriers need that.
pub(super) fn row_major(ports: &[Option<Port>]) -> Result<(), Defect> {
    for (i, port) in ports.iter().enumerate() {
        let line = port.as_ref().and_then(|p| p.line.as_ref());
        if line.is_some_and(|layout| !layout.is_row_major_order()) {
            return Err(Defect::NotRowMajor(i));
        }
    }
    Ok(())
}
