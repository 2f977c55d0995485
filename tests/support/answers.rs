//! Checks of everything that an [`Answer`] says about the values and rearrangements that went in.

use optc::{Absence, Answer, Error, Fate, Holder, ViewDecision};
use optc_ir::{Attr, AttrDict, Func, Loc, Module, Op, Registry, TensorType, Type, Value};
use std::collections::BTreeSet;

/// The arguments of a function, then the results of its operations.
#[must_use]
pub fn values(func: &Func) -> Vec<Value> {
    let results = func
        .body
        .iter()
        .flat_map(|&op| func.ops[op].results.clone());
    func.args.iter().copied().chain(results).collect()
}

/// Appends operations that bring a holder, made row-major, to the indices of the value that went in.
fn unfolded(func: &mut Func, holder: &Holder) -> Value {
    let ty = func.ty(holder.value).as_tensor().expect("a tensor");
    let (own, dtype) = (ty.without_layout(), ty.dtype);
    let n_ops = func.body.len();
    let mut push = |name: &str, operand: Value, attr: Option<(&str, Attr)>, ty: TensorType| {
        let mut props = AttrDict::new();
        if let Some((name, attr)) = attr {
            props.set(name, attr);
        }
        let types = vec![Type::from(ty)];
        let op = func.push_op(name, vec![operand], props, types, Loc::Unknown);
        func.ops[op].results[0]
    };
    let mut at = push("hbir.layout_convert", holder.value, None, own);
    for map in holder.map.iter().flatten() {
        let shape = map.shape.clone().expect("a map states its shape");
        let perm = map.perm.clone().expect("a map states its permutation");
        let turned: Vec<u64> = perm.iter().map(|&p| shape[p]).collect();
        let ty = |dims: &[u64]| TensorType::fixed(dims, dtype);
        let ints = |of: &[u64]| Some(("shape", Attr::ints(of)));
        at = push("hbir.reshape", at, ints(&shape), ty(&shape));
        at = push(
            "hbir.transpose",
            at,
            Some(("perm", Attr::ints(&perm))),
            ty(&turned),
        );
        at = push("hbir.reshape", at, ints(&map.result), ty(&map.result));
    }
    // The value is read before other elements replace its own.
    if let Some(update) = holder.place.until {
        let read = func.body.split_off(n_ops);
        let before = func.body.iter().position(|&op| op == update.op);
        let before = before.expect("the update is in the function");
        func.body.splice(before..before, read);
    }
    at
}

/// The counts of the answers for one program or several.
#[derive(Default, Debug)]
pub struct Count {
    /// Values that went in.
    pub values: usize,
    /// Values that the result has.
    pub held: usize,
    /// Their holders.
    pub holders: usize,
    /// Holders behind rearrangements.
    pub mapped: usize,
    /// Values that nothing depended on.
    pub dead: usize,
    /// Values computed inside of operations.
    pub inside: usize,
    /// Rearrangements that are views.
    pub views: usize,
    /// Rearrangements that operations of the result run.
    pub moved: usize,
    /// Rearrangements whose operand and result are computed apart.
    pub computed: usize,
}

/// A value of the entry function that went in, and a holder of it in the entry function of the result.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The value.
    pub value: Value,
    /// The holder.
    pub holder: Holder,
}

/// Checks everything that an answer says of the values and operations that went in, but for the elements of the values.
/// They are those of the returned pairs, see [`with_values`] and [`with_holders`].
///
/// # Errors
/// The first statement that is not true.
pub fn check(
    before: &Module,
    answer: &Answer,
    registry: &Registry,
    count: &mut Count,
) -> Result<Vec<Pair>, String> {
    let found = &answer.program().module;
    let mut pairs = Vec::new();
    for (number, func) in before.funcs.iter().enumerate() {
        let live = needed(func);
        for value in values(func) {
            count.values += 1;
            let holders = match answer.fate(value).map_err(said)? {
                Fate::Held(holders) => holders,
                Fate::Absent(Absence::Dead) => {
                    count.dead += 1;
                    if live.contains(&value) {
                        return Err(format!("{value} is not dead"));
                    }
                    continue;
                }
                Fate::Absent(Absence::Inside(ops)) => {
                    count.inside += 1;
                    let there = |of: &optc::OpOf| found.funcs[of.func].body.contains(&of.op);
                    match !ops.is_empty() && ops.iter().all(there) {
                        true => continue,
                        false => return Err(format!("{value} is inside of no operation")),
                    }
                }
                other => return Err(format!("{value} is lost: {other:?}")),
            };
            count.held += 1;
            for holder in holders {
                count.holders += 1;
                count.mapped += usize::from(!has_its_indices(&holder));
                layout_fits(func, value, &holder)?;
                let entries = [before.entry(), found.entry()];
                if entries == [Some(number), Some(holder.func)] && can_be_read(func, value, &holder)
                {
                    pairs.push(Pair { value, holder });
                }
            }
        }
        for &op in &func.body {
            is_view(func, op, answer, registry, count)?;
        }
    }
    Ok(pairs)
}

fn said(error: Error) -> String {
    error.to_string()
}

/// True for a tensor whose holder [`with_holders`] can bring to its indices: the maps of a holder are in numbers.
fn can_be_read(func: &Func, value: Value, holder: &Holder) -> bool {
    let ty = func.ty(value).as_tensor();
    ty.is_some_and(|ty| ty.shape().is_some() || has_its_indices(holder))
}

/// True if a holder has the value that went in at the same indices.
fn has_its_indices(holder: &Holder) -> bool {
    holder.map.as_ref().is_some_and(Vec::is_empty)
}

/// The program that went in, whose entry function returns the values of these pairs, too.
#[must_use]
pub fn with_values(before: &Module, pairs: &[&Pair]) -> Module {
    let mut module = before.clone();
    if let Some(entry) = module.entry() {
        for pair in pairs {
            module.funcs[entry].add_result(pair.value, None);
        }
    }
    module
}

/// The result, whose entry function returns the holders of these pairs, too, each row-major and at the indices of the
/// value that went in.
#[must_use]
pub fn with_holders(answer: &Answer, pairs: &[&Pair]) -> Module {
    let mut module = answer.program().module.clone();
    if let Some(entry) = module.entry() {
        for pair in pairs {
            let func = &mut module.funcs[entry];
            let new = unfolded(func, &pair.holder);
            func.add_result(new, None);
        }
    }
    module
}

/// The values that a result of the function depends on; operations of random programs have no effects.
fn needed(func: &Func) -> BTreeSet<Value> {
    let mut needed: BTreeSet<Value> = func.results.iter().copied().collect();
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        if data.results.iter().any(|v| needed.contains(v)) {
            needed.extend(data.operands.iter().copied());
            needed.extend(data.results.iter().copied());
        }
    }
    needed.extend(func.args.iter().copied());
    needed
}

/// Checks the layout of a value that went in, element by element, against that of its holder.
fn layout_fits(func: &Func, value: Value, holder: &Holder) -> Result<(), String> {
    let (Some(seen), Some(ty)) = (&holder.layout, func.ty(value).as_tensor()) else {
        let tensor = func
            .ty(value)
            .as_tensor()
            .is_some_and(|ty| ty.shape().is_some());
        return match tensor && holder.map.as_ref().is_none_or(Vec::is_empty) {
            true => Err(format!("{value} has no layout where it is")),
            false => Ok(()),
        };
    };
    let own = holder.place.layout.as_ref().expect("it has a layout");
    let shape = ty.shape().unwrap_or_default();
    let total: u64 = shape.iter().product();
    let mut shapes = vec![own.layout().shape().to_vec()];
    let maps = holder.map.as_ref().ok_or("a layout has a map")?;
    shapes.extend(maps.iter().map(|map| map.result.clone()));
    for k in 0..total.min(512) {
        let number = k * total / total.min(512);
        let index = at(&shape, number);
        let mut there = Some(index.clone());
        for (map, shape) in maps.iter().zip(&shapes).rev() {
            there = there.and_then(|index| map.operand_index(shape, &index));
        }
        let wanted = there.and_then(|index| own.offset(&index));
        if seen.offset(&index) != wanted {
            return Err(format!(
                "{value}{index:?}: {:?}, wanted {wanted:?}",
                seen.offset(&index)
            ));
        }
    }
    Ok(())
}

fn at(shape: &[u64], mut number: u64) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = number % size;
        number /= size;
    }
    index
}

/// Checks what an answer says of a rearrangement: a view has one buffer, anything else moves bytes.
fn is_view(
    func: &Func,
    op: Op,
    answer: &Answer,
    registry: &Registry,
    count: &mut Count,
) -> Result<(), String> {
    if registry.rearrangement(&func.op_ref(op)).is_err() {
        return Ok(());
    }
    match answer.is_view(op).map_err(said)? {
        ViewDecision::View {
            operand, result, ..
        } => {
            count.views += 1;
            match operand.place.buffer == result.place.buffer {
                true => Ok(()),
                false => Err(format!("{op} is a view of another buffer")),
            }
        }
        ViewDecision::Moved(ops) => {
            count.moved += 1;
            let body = |of: &optc::OpOf| &answer.program().module.funcs[of.func];
            let there = |of: &optc::OpOf| body(of).body.contains(&of.op);
            match !ops.is_empty() && ops.iter().all(there) {
                true => Ok(()),
                false => Err(format!("{op} is moved by no operation")),
            }
        }
        ViewDecision::Computed => {
            count.computed += 1;
            Ok(())
        }
        ViewDecision::Absent(_) => Ok(()),
        other => Err(format!("{other:?} is not known here")),
    }
}
