//! Checks by the tile of each port that a target with tiles accepts the layouts of an operation.
//!
//! The notation of a layout does not matter here. The elements in the first tile of a buffer show which dimensions fill
//! its lanes and its rows. The elements at the corners of the first tiles show how these tiles are numbered.

mod common;
mod defect;
mod lines;
mod port;
mod roles;
mod site;

use common::{common, row_major};
pub(crate) use defect::Defect;
use defect::Part;
use lines::{has_runs, lines_by_roles, same_digits, same_lines};
use optc_ir::{Freedom, FreedomClass, Func, Op, TensorType, Value};
use optc_target::{Alternative, Price, Row, Target, When};
pub(crate) use port::positions_of_tile;
use port::{Port, port_of};
use roles::{by_roles, listed};
use site::Site;

/// Returns whether all tensors of a function have known sizes. With an unknown size there are no tiles.
pub(crate) fn is_known(func: &Func) -> bool {
    let mut types = func.values.ids().filter_map(|v| func.ty(v).as_tensor());
    types.all(|ty| ty.shape().is_some())
}

/// Checks one operation and returns its cost in bytes.
///
/// # Errors
/// The defect of a port, or of two.
pub(crate) fn check(
    func: &Func,
    op: Op,
    freedom: &Freedom,
    row: Option<&Row>,
    target: &Target,
) -> Result<u64, Defect> {
    let data = &func.ops[op];
    let values: Vec<Value> = data.operands.iter().chain(&data.results).copied().collect();
    let mut ports = Vec::with_capacity(values.len());
    for (i, &value) in values.iter().enumerate() {
        let ty = func.ty(value).as_tensor();
        let port = match ty.map(|ty| port_of(ty, target)) {
            Some(None) => return Err(Defect::NoTile(i)),
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
    let mut reason = Defect::NoAlternative;
    let n_results = freedom.results.len();
    let is_for = |a: &&Alternative| {
        let when = match a.when {
            None | Some(When::Pointwise) => true,
            Some(
                When::Untiled | When::Patches | When::Floats | When::Unquantized | When::Matrices,
            ) => false,
            Some(When::Depthwise) => freedom.is_depthwise(),
            Some(When::Mixing) => !freedom.is_depthwise(),
        };
        when && a.is_for(n_operands, n_results)
    };
    let site = Site {
        func,
        values: &values,
        freedom,
        target,
    };
    let mut least: Option<u64> = None;
    for alternative in row.taken().filter(is_for) {
        match takes(&site, &ports, alternative) {
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
    // An alternative that is listed as refused says why.
    for alternative in row.take.iter().filter(is_for) {
        let Some(why) = &alternative.refused else {
            continue;
        };
        let mut all = ports.iter().enumerate();
        let found = all.find_map(|(i, port)| refused(&site, (i, port.as_ref()?), alternative));
        if let Some(found) = found {
            return Err(Defect::Refused {
                found: Box::new(found),
                why: why.clone(),
            });
        }
    }
    Err(reason)
}

/// Checks that an alternative takes the layouts of the ports.
fn takes(site: &Site<'_>, ports: &[Option<Port>], alternative: &Alternative) -> Result<(), Defect> {
    let mut ports = ports.to_vec();
    if alternative.writes.is_some() {
        ports[site.n_operands()..].fill(None);
    }
    if alternative.order.is_some() {
        return row_major(&ports);
    }
    if alternative.shares_all() {
        common(site, &ports)?;
        for (i, port) in ports.iter().enumerate() {
            if let Some(port) = port {
                listed(site, (i, port), alternative)?;
            }
        }
        same_lines(site, &ports)?;
        same_digits(site, &ports)?;
        return has_runs(site, &ports, alternative.run.unwrap_or(1));
    }
    match ports.iter().flatten().any(|p| p.line.is_some()) {
        true => lines_by_roles(site, &ports, alternative),
        false => by_roles(site, &ports, alternative),
    }
}

/// The role of a port that an alternative refuses.
fn refused(
    site: &Site<'_>,
    (i, port): (usize, &Port),
    alternative: &Alternative,
) -> Option<Defect> {
    let rule = site.rule(alternative, i);
    let lists = [&rule.lanes, &rule.rows].into_iter().zip(Part::BOTH);
    port.places
        .iter()
        .zip(lists)
        .find_map(|(dims, (listed, part))| {
            let labels = site.labelled(i, dims).into_iter().flatten();
            let mut roles = labels.map(|l| site.role(l));
            let role = roles.find(|role| listed.iter().flatten().any(|r| r.covers(*role)))?;
            Some(Defect::Role(i, role, part))
        })
}

/// Physical bytes of a value.
fn bytes_of(func: &Func, value: Value) -> u64 {
    let layout = func.ty(value).as_tensor().and_then(TensorType::layout);
    layout
        .and_then(Result::ok)
        .map_or(0, |layout| layout.bytes())
}
