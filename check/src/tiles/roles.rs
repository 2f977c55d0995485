//! Checks alternatives that list roles for the lanes and the rows of a tile.

use super::defect::{Defect, Part};
use super::port::{Port, changing};
use super::site::Site;
use optc_target::{Alternative, PortRole};

/// The most ports of an operation for which all readings are tried together. A reading is one of the numbers of rows that
/// a tile may have if no text fixes the number.
pub(super) const MOST_READ: usize = 8;

/// Checks that lanes and rows of a port hold roles that the alternative lists for them, for an alternative with one order
/// at all ports.
pub(super) fn listed(
    site: &Site<'_>,
    (i, port): (usize, &Port),
    alternative: &Alternative,
) -> Result<(), Defect> {
    let rule = site.rule(alternative, i);
    let lists = [&rule.lanes, &rule.rows];
    for (place, (dims, all)) in port.places.iter().zip(lists).enumerate() {
        let Some(all) = all else { continue };
        let labels = site.labelled(i, dims).into_iter().flatten();
        let mut roles = labels.map(|label| site.role(label));
        if let Some(role) = roles.find(|&role| !all.iter().any(|r| r.covers(role))) {
            return Err(Defect::Role(i, role, Part::BOTH[place]));
        }
    }
    Ok(())
}

/// Checks that lanes and rows of a port hold the roles that the alternative lists, one role in each place.
pub(super) fn fits_roles(
    site: &Site<'_>,
    (i, port): (usize, &Port),
    alternative: &Alternative,
) -> Result<(), Defect> {
    let rule = site.rule(alternative, i);
    let mut seen: Vec<PortRole> = Vec::new();
    // The role in the rows, if its digits may number tiles instead and it does not fit; true if the lanes hold it too.
    let mut left: Option<(PortRole, bool)> = None;
    let lists = [&rule.lanes, &rule.rows];
    for (place, (dims, listed)) in port.places.iter().zip(lists).enumerate() {
        let labels = site.labelled(i, dims);
        // Dimensions along which a window slides do not form one run.
        let slides = |label: &usize| site.freedom.labels[*label].granule == 1;
        let alone = labels.iter().flatten().any(slides);
        let roles: Option<Vec<PortRole>> =
            labels.into_iter().map(|l| Some(site.role(l?))).collect();
        let Some(roles) = roles else {
            return Err(Defect::NoRole(i, Part::BOTH[place]));
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
            return Err(Defect::TwoRoles(i, Part::BOTH[place]));
        }
        if alone && 1 < roles.len() {
            return Err(Defect::TwoDimensions(i, Part::BOTH[place]));
        }
        if unlisted {
            return Err(Defect::Role(i, one, Part::BOTH[place]));
        }
        if again {
            return Err(Defect::RoleTwice(i, one));
        }
        seen.push(one.kind());
    }
    // With `distinct`, a port that has dimensions of two listed roles must have both roles in its tile.
    let dims = site.labels(i).iter().flatten();
    let mut open: Vec<PortRole> = Vec::new();
    for &label in dims.filter(|&&l| 1 < site.extent(i, l)) {
        let one = site.role(label);
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
            Some((role, true)) => Defect::RoleTwice(i, role),
            Some((role, false)) => Defect::Role(i, role, Part::Rows),
            None => Defect::OneRole(i),
        });
    }
    Ok(())
}

/// Checks that lanes and rows of each port hold the roles that the alternative lists, and that any two ports agree on the
/// labels that both have.
pub(super) fn by_roles(
    site: &Site<'_>,
    ports: &[Option<Port>],
    alternative: &Alternative,
) -> Result<(), Defect> {
    let mut readings: Vec<Vec<Port>> = Vec::with_capacity(ports.len());
    for (i, port) in ports.iter().enumerate() {
        let Some(port) = port else {
            readings.push(Vec::new());
            continue;
        };
        let fits = |port: &Port| fits_roles(site, (i, port), alternative);
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
        let aside = site.is_aside(i) || site.is_aside(j);
        aside || !a.tiled || !b.tiled || agree(site, (j, a), (i, b))
    };
    read_alike(&readings, &agreed).map_err(|[j, i]| Defect::TileDigits(j, i))
}

/// Searches for one reading of each port such that all ports agree, by backtracking from the first port on.
///
/// # Errors
/// Two ports that differ: of the pairs that were compared, one whose second port is the last.
pub(super) fn read_alike(
    readings: &[Vec<Port>],
    agreed: &impl Fn((usize, &Port), (usize, &Port)) -> bool,
) -> Result<(), [usize; 2]> {
    let mut read: Vec<usize> = Vec::with_capacity(readings.len());
    let mut apart = [0, 0];
    // The number of the reading of the current port that is tried next.
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
        // No reading of this port agrees with those chosen: try the next reading of the port before.
        match read.pop() {
            Some(at) => next = at + 1,
            None => return Err(apart),
        }
    }
    Ok(())
}

/// Returns whether two ports have the elements of the dimensions that both have in the same order in their tiles.
pub(super) fn agree(site: &Site<'_>, (i, a): (usize, &Port), (j, b): (usize, &Port)) -> bool {
    let long = |port: usize, label: usize| 1 < site.extent(port, label);
    let run = |port: usize, other: usize, dims: &[usize]| -> Vec<usize> {
        let labels = site.labelled(port, dims).into_iter().flatten();
        labels
            .filter(|&l| long(port, l) && long(other, l))
            .collect()
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
        // If the extents differ, as at a window, only the dimensions are compared.
        let same = |l: &usize| site.extent(i, *l) == site.extent(j, *l);
        if !all.iter().all(same) {
            if labels != places[q] {
                return false;
            }
            continue;
        }
        all.sort_unstable();
        let (x, y) = (
            site.along(i, &a.elements[p], &all),
            site.along(j, &b.elements[q], &all),
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
