//! The shardings that a user wishes.

use crate::codes;
use indexmap::IndexMap;
use optc_ir::op::Operation;
use optc_ir::shard::{self, Mesh, ShardError, Sharding, Split};
use optc_ir::{Diagnostic, Func, Module, Op, Type, Value};
use optc_ops::{AxisPart, ShardingConstraint};

/// The mesh and the wishes of a user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    /// `--mesh`: the mesh; `None` is the one that the module states.
    pub mesh: Option<Mesh>,
    /// `--shard`: names of arguments, results and locations with the texts of their shardings.
    pub pins: Vec<(String, String)>,
}

/// The shardings that a value may have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pin {
    /// The name that was wished, for messages.
    pub(super) name: String,
    /// The stated splits.
    pub(super) fixed: Sharding,
    /// The dimensions that axes which are not named may split.
    pub(super) free: Vec<usize>,
}

impl Pin {
    /// A pin to one sharding.
    pub(super) fn exact(name: String, fixed: Sharding) -> Pin {
        Pin {
            name,
            fixed,
            free: Vec::new(),
        }
    }

    /// Returns whether a sharding is allowed.
    pub(super) fn allows(&self, sharding: &Sharding) -> bool {
        let stated = self
            .fixed
            .splits()
            .iter()
            .all(|s| sharding.on(s.axis) == Some(s));
        let others = sharding
            .splits()
            .iter()
            .filter(|s| self.fixed.on(s.axis).is_none());
        stated
            && others
                .flat_map(Split::pieces)
                .all(|p| self.free.contains(&p.dim))
    }

    /// Both pins; `None` if no sharding is allowed by both.
    pub(super) fn and(&self, other: &Pin) -> Option<Pin> {
        let mut fixed = self.fixed.clone();
        for split in other.fixed.splits() {
            fixed = fixed.with(split.clone());
        }
        let both = Pin {
            name: self.name.clone(),
            free: self
                .free
                .iter()
                .copied()
                .filter(|d| other.free.contains(d))
                .collect(),
            fixed,
        };
        (self.allows(&both.fixed) && other.allows(&both.fixed)).then_some(both)
    }
}

/// Reads `[data, _, model]`: for each dimension the axes that split it, several in parentheses, outermost first; `_` is
/// split over none, and `?` over any axes that the text does not name. A text with an `@`, `[data@d0/2]`, lists splits.
///
/// # Errors
/// The text is malformed, names an unknown axis, or states splits that the value cannot have.
fn read(name: &str, text: &str, ty: &Type, mesh: &Mesh) -> Result<Pin, Diagnostic> {
    let Some(tensor) = ty.as_tensor() else {
        return Err(malformed(name, text, "a tensor to be split"));
    };
    let inner = text
        .trim()
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'));
    let inner = inner.ok_or_else(|| malformed(name, text, "a list, such as [data, _, model]"))?;
    let entries = entries(inner);
    let pin = if inner.contains('@') {
        let texts = entries.iter().map(|e| e.trim_matches('"'));
        Sharding::parse(texts, mesh).map(|fixed| Pin::exact(name.to_owned(), fixed))
    } else {
        if entries.len() != tensor.rank() {
            let wanted = format!("{} entries, one a dimension", tensor.rank());
            return Err(malformed(name, text, &wanted));
        }
        let sizes = tensor.dims.iter().map(|d| d.fixed().unwrap_or(0));
        by_dimension(name, &entries, &sizes.collect::<Vec<_>>(), mesh)
    };
    let fits = |pin: Pin| pin.fixed.fits(tensor, mesh).map(|()| pin);
    pin.and_then(fits).map_err(|error| refused(name, &error))
}

fn malformed(name: &str, text: &str, wanted: &str) -> Diagnostic {
    let message = format!("found `--shard {name}={text}`, wanted {wanted}");
    Diagnostic::error(codes::SHARD_PIN, message).hint(
        "an entry is the name of an axis, several in parentheses, `_` for no split, `?` for any",
    )
}

/// The diagnostic of a refused wish.
pub(super) fn refused(name: &str, error: &ShardError) -> Diagnostic {
    let mut error = error.clone();
    error.message = format!("the sharding of `{name}`: {error}");
    error.into()
}

/// The entries between commas that are outside of parentheses.
fn entries(text: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0i32, 0);
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        found.push(text[start..].trim());
    }
    found
}

fn by_dimension(
    name: &str,
    entries: &[&str],
    sizes: &[u64],
    mesh: &Mesh,
) -> Result<Pin, ShardError> {
    let mut pin = Pin::exact(name.to_owned(), Sharding::replicated());
    for (dim, (entry, &size)) in entries.iter().zip(sizes).enumerate() {
        match *entry {
            "_" => continue,
            "?" => {
                pin.free.push(dim);
                continue;
            }
            _ => {}
        }
        let names = entry.trim_start_matches('(').trim_end_matches(')');
        let number = |name: &str| mesh.axis(name).ok_or_else(|| mesh.unknown_axis(name));
        let axes: Vec<usize> = names
            .split(',')
            .map(str::trim)
            .map(number)
            .collect::<Result<_, _>>()?;
        // An extent that does not divide is refused by the check of the sharding, which says what is possible.
        pin.fixed = pin.fixed.with_axes(dim, size, &axes, mesh)?;
    }
    Ok(pin)
}

/// The value of this name: an argument, a result, or the first result of an operation at this location. The second
/// number is that of the result.
fn named(func: &Func, name: &str) -> Option<(Value, Option<usize>)> {
    let arg = (0..func.args.len()).find(|&i| func.arg_key(i) == name);
    if let Some(i) = arg {
        return Some((func.args[i], None));
    }
    let result = (0..func.results.len()).find(|&i| func.result_key(i) == name);
    if let Some(i) = result {
        return Some((func.results[i], Some(i)));
    }
    let at = |op: &&optc_ir::Op| func.ops[**op].loc.names().iter().any(|n| &***n == name);
    let op = func.body.iter().find(at)?;
    func.ops[*op].results.first().map(|&v| (v, None))
}

/// The pins of one function.
#[derive(Default)]
pub(super) struct Wished {
    pub(super) values: IndexMap<Value, Pin>,
    pub(super) returned: IndexMap<usize, Pin>,
}

impl Wished {
    /// The pins of each function: those that the program states, and those of the wishes, in the entry.
    pub(super) fn of(
        module: &Module,
        wishes: &Wishes,
        mesh: &Mesh,
    ) -> Result<Vec<Wished>, Box<Diagnostic>> {
        let mut all = Vec::new();
        for func in &module.funcs {
            let mut wished = Wished::default();
            let defined = func.body.iter().flat_map(|&op| func.ops[op].results.iter());
            for &value in func.args.iter().chain(defined) {
                let name = crate::names::name_of(func, value);
                let stated = shard::stored(func, value, mesh);
                let stated = stated.map_err(|e| Box::new(refused(&name, &e)))?;
                if let Some(sharding) = stated {
                    wished.values.insert(value, Pin::exact(name, sharding));
                }
            }
            for &op in &func.body {
                let Some((value, pin)) = constrained(func, op, mesh) else {
                    continue;
                };
                wished.values.entry(value).or_insert(pin);
            }
            for i in 0..func.results.len() {
                let name = func.result_key(i);
                let stated = shard::result(func, i, mesh);
                let stated = stated.map_err(|e| Box::new(refused(&name, &e)))?;
                if let Some(sharding) = stated {
                    wished.returned.insert(i, Pin::exact(name, sharding));
                }
            }
            all.push(wished);
        }
        let Some(entry) = module.entry() else {
            return Ok(all);
        };
        let func = &module.funcs[entry];
        for (name, text) in &wishes.pins {
            let name = name.trim_start_matches('%');
            let Some((value, result)) = named(func, name) else {
                let message = format!(
                    "found no value `{name}` in @{}, wanted an argument, a result or a location",
                    func.name
                );
                let known: Vec<String> = (0..func.args.len()).map(|i| func.arg_key(i)).collect();
                let diag = Diagnostic::error(codes::SHARD_PIN, message);
                return Err(Box::new(diag.suggest(
                    "",
                    name,
                    known.iter().map(String::as_str),
                )));
            };
            let pin = read(name, text, func.ty(value), mesh).map_err(Box::new)?;
            let known = match result {
                Some(i) => all[entry].returned.insert(i, pin.clone()),
                None => all[entry].values.insert(value, pin.clone()),
            };
            if let Some(known) = known {
                let both = known
                    .and(&pin)
                    .ok_or_else(|| contradiction(&known, &pin, mesh))?;
                match result {
                    Some(i) => all[entry].returned.insert(i, both),
                    None => all[entry].values.insert(value, both),
                };
            }
        }
        Ok(all)
    }
}

/// The pin of the result of an `hbir.sharding_constraint`; `None` for another operation, and for a constraint by parts of axes.
fn constrained(func: &Func, op: Op, mesh: &Mesh) -> Option<(Value, Pin)> {
    let stated = ShardingConstraint::of(&func.op_ref(op)).ok()?;
    let &value = func.ops[op].results.first()?;
    let tensor = func.ty(value).as_tensor()?;
    let name = crate::names::name_of(func, value);
    let mut pin = Pin::exact(name, Sharding::replicated());
    for (dim, split) in stated.split.0.iter().enumerate() {
        let size = tensor.dims.get(dim)?.fixed()?;
        let whole = |part: &AxisPart| {
            let axis = mesh.axis(&part.name)?;
            let whole = part.extent == mesh.axes[axis].extent;
            (whole && part.after.is_none_or(|after| after == 1)).then_some(axis)
        };
        let axes: Vec<usize> = split.axes.iter().map(whole).collect::<Option<_>>()?;
        pin.fixed = pin.fixed.with_axes(dim, size, &axes, mesh).ok()?;
        if split.open {
            pin.free.push(dim);
        }
    }
    pin.fixed.fits(tensor, mesh).ok()?;
    Some((value, pin))
}

fn contradiction(a: &Pin, b: &Pin, mesh: &Mesh) -> Box<Diagnostic> {
    let text = |pin: &Pin| format!("[{}]", pin.fixed.texts(mesh).join(", "));
    let message = format!(
        "found two shardings of `{}`, {} and {}, wanted one",
        b.name,
        text(a),
        text(b)
    );
    let diag = Diagnostic::error(codes::SHARD_PIN, message);
    Box::new(diag.hint(
        "remove one of the two; a value that is read in two shardings is stored in one of them",
    ))
}
