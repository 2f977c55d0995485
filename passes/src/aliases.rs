//! Arguments that share their memory with a result on request, so that the result is written in place.
//!
//! For `present = concat(past, new)` and the request `past` → `present`, `past` is the first bytes of the memory of
//! `present`, and only `new` is written. That takes a layout in which the dimension that grows is outermost. A request
//! that cannot be met is refused, since the caller has one memory for both.

use crate::boundary::Boundary;
use crate::codes;
use crate::pass::PassContext;
use indexmap::IndexMap;
use optc_check::parts::{Site, homes};
use optc_ir::effects::Effects;
use optc_ir::op::in_place::{ALIAS, aliased_results};
use optc_ir::op::part::Port;
use optc_ir::text::print_type;
use optc_ir::{Attr, Diagnostic, Func, Module, Op, TensorType, Value, ValueDef};
use optc_layout::Notation;

/// A requested pair: an argument and a result of a function, by number.
struct Pair {
    func: usize,
    argument: usize,
    result: usize,
}

impl Pair {
    fn values(&self, func: &Func) -> (Value, Value) {
        (func.args[self.argument], func.results[self.result])
    }

    fn refused(&self, func: &Func, why: impl Into<String>) -> Box<Diagnostic> {
        let (argument, result) = (func.arg_key(self.argument), func.result_key(self.result));
        let message = format!("`{result}` cannot be written in the memory of `{argument}`");
        let diag = Diagnostic::error(codes::ALIAS_REFUSED, message);
        Box::new(diag.at(func.span, "this function").note(why))
    }
}

/// The requested pairs, in the order of the requests.
///
/// # Errors
/// No function has both names.
fn pairs(module: &Module, boundary: &Boundary) -> Result<Vec<Pair>, Box<Diagnostic>> {
    let find = |(from, to): &(String, String)| {
        let of = |(index, func): (usize, &Func)| {
            let argument = (0..func.args.len()).find(|&i| func.arg_key(i) == *from)?;
            let result = (0..func.results.len()).find(|&i| func.result_key(i) == *to)?;
            Some(Pair {
                func: index,
                argument,
                result,
            })
        };
        module.funcs.iter().enumerate().find_map(of).ok_or_else(|| {
            let message =
                format!("found no function with an argument `{from}` and a result `{to}`");
            let diag = Diagnostic::error(codes::UNKNOWN_PORT, message);
            Box::new(diag.note("wanted `argument=result`, as in `past=present`"))
        })
    };
    boundary.aliases.iter().map(find).collect()
}

/// Writes the requests into the ports of the arguments. A pair whose result is longer along one dimension is pinned to
/// the layout with that dimension outermost, unless the program or the boundary states layouts of its own.
///
/// # Errors
/// No function has both names, or the types differ by more than the extent of one dimension.
pub(crate) fn request(module: &mut Module, cx: &mut PassContext) -> Result<(), Box<Diagnostic>> {
    for pair in pairs(module, &cx.boundary)? {
        let func = &mut module.funcs[pair.func];
        let grows = growing(func, &pair)?;
        let mut numbers = aliased_results(func, func.args[pair.argument]);
        if !numbers.contains(&pair.result) {
            numbers.push(pair.result);
            let port = func.arg_ports.get_mut(pair.argument);
            if let Some(port) = port {
                port.attrs.set(ALIAS, Attr::ints(&numbers));
            }
        }
        let (argument, result) = pair.values(func);
        let keys = [func.arg_key(pair.argument), func.result_key(pair.result)];
        let plain = |value: Value| {
            let ty = func.ty(value).as_tensor();
            ty.is_some_and(|ty| ty.notation == Notation::RowMajor)
        };
        let stated = keys.iter().any(|key| cx.boundary.pins.contains_key(key));
        if let Some(order) = grows.filter(|_| plain(argument) && plain(result) && !stated) {
            for key in keys {
                cx.boundary
                    .pins
                    .insert(key, Notation::of_order(order.clone()));
            }
        }
    }
    Ok(())
}

/// The order with the dimension outermost along which the result is longer than the argument; `None` if both have one
/// shape, or if that dimension is outermost in row-major order.
///
/// # Errors
/// The types differ otherwise.
fn growing(func: &Func, pair: &Pair) -> Result<Option<Vec<usize>>, Box<Diagnostic>> {
    let (argument, result) = pair.values(func);
    let types = (func.ty(argument).as_tensor(), func.ty(result).as_tensor());
    let (Some(from), Some(to)) = types else {
        return Err(pair.refused(func, "found a value that is no tensor"));
    };
    let differs = |(a, b): (&TensorType, &TensorType)| {
        let both = a.dims.iter().zip(&b.dims).enumerate();
        both.filter(|(_, (a, b))| a != b)
            .map(|(d, _)| d)
            .collect::<Vec<usize>>()
    };
    let dims = differs((from, to));
    if from.dtype != to.dtype || from.rank() != to.rank() || 1 < dims.len() {
        let [from, to] = [from, to].map(|ty| print_type(&ty.without_layout().into()));
        let why = format!(
            "found {from} and {to}, wanted one element type and shapes that are equal in all but one dimension"
        );
        return Err(pair.refused(func, why));
    }
    let Some(&grows) = dims.first() else {
        return Ok(None);
    };
    if from.dims[..grows].iter().all(|dim| dim.is_one()) {
        return Ok(None);
    }
    let rest = (0..from.rank()).filter(|&d| d != grows);
    Ok(Some(std::iter::once(grows).chain(rest).collect()))
}

/// Checks that each requested argument lies in the memory of its result. `why_copied` has the reason why an operation of
/// a function copies.
///
/// # Errors
/// One does not; the diagnostic has the reason.
pub(crate) fn check(
    module: &Module,
    why_copied: &dyn Fn(usize, Op) -> Option<String>,
    cx: &PassContext,
) -> Result<(), Box<Diagnostic>> {
    let pairs = pairs(module, &cx.boundary)?;
    if pairs.is_empty() {
        return Ok(());
    }
    let effects = Effects::of_module(module, &cx.registry);
    let mut seen: IndexMap<usize, (Site<'_>, IndexMap<Value, Op>)> = IndexMap::new();
    for pair in pairs {
        let func = &module.funcs[pair.func];
        let (argument, result) = pair.values(func);
        let (site, homes) = seen.entry(pair.func).or_insert_with(|| {
            let site = Site::new(func, &cx.registry, &effects);
            (site, homes(func, &cx.registry, &effects))
        });
        let is_itself = site.root(result) == argument;
        if is_itself || homes.contains_key(&argument) {
            continue;
        }
        let reads = |&&op: &&Op| {
            let parts = site.parts(op);
            let mut operands = parts.iter().filter(|p| matches!(p.part, Port::Operand(_)));
            operands.any(|p| {
                let value = p.part.value(&func.ops[op]);
                value.is_some_and(|v| site.root(v) == argument)
            })
        };
        let copies: Vec<&Op> = func.body.iter().filter(reads).collect();
        let why = copies.first().map(|&&op| {
            let name = &func.ops[op].name;
            match why_copied(pair.func, op) {
                Some(why) => format!("`{name}` copies it: {why}"),
                None => format!(
                    "target `{}` gives the result of `{name}` a buffer of its own",
                    cx.target.name
                ),
            }
        });
        let named = match func.values[site.root(result)].def {
            ValueDef::Result(op, _) => format!("`{}`", func.ops[op].name),
            ValueDef::Arg(_) => "another argument".to_owned(),
        };
        let why = why.unwrap_or_else(|| {
            format!(
                "the result is made by {named}, wanted a concatenation that begins with the argument, or an update of it"
            )
        });
        return Err(pair.refused(func, why));
    }
    Ok(())
}
