//! Folded programs with one change, as in an attempt to certify another program.

use optc_ir::{Attr, AttrDict, Func, Module, Op, Type, Value};
use optc_layout::Layout;

/// Every program that differs from this one in one change, with a description: an attribute, an operand, the order of
/// operands or of results, a removed operation, the position of an effect, a constant, a layout.
#[must_use]
pub fn mutants(folded: &Module) -> Vec<(String, Module)> {
    let mut all = Vec::new();
    for at in 0..folded.funcs.len() {
        let mut tamper = Tamper { folded, at, all };
        tamper.func();
        all = tamper.all;
    }
    all
}

struct Tamper<'a> {
    folded: &'a Module,
    at: usize,
    all: Vec<(String, Module)>,
}

impl Tamper<'_> {
    fn old(&self) -> &Func {
        &self.folded.funcs[self.at]
    }

    fn push(&mut self, what: String, change: impl FnOnce(&mut Func)) {
        let mut mutant = self.folded.clone();
        change(&mut mutant.funcs[self.at]);
        self.all.push((what, mutant));
    }

    fn func(&mut self) {
        for op in self.old().body.clone() {
            self.attributes(op);
            self.operands(op);
            self.left_out(op);
            for result in self.old().ops[op].results.clone() {
                self.layout(op, result);
            }
        }
        let results = self.old().results.clone();
        for i in 1..results.len() {
            if self.old().ty(results[0]) == self.old().ty(results[i]) {
                self.push(format!("results 0 and {i} swapped"), |f| {
                    f.results.swap(0, i)
                });
            }
        }
        for i in 1..self.old().body.len() {
            self.push(format!("operations {} and {i} swapped", i - 1), |f| {
                f.body.swap(i - 1, i)
            });
        }
    }

    /// Changes attributes: swaps the ends of integer lists or changes their first entry, inverts flags, takes texts and
    /// numbers of other operations, changes elements of constants.
    fn attributes(&mut self, op: Op) {
        let data = self.old().ops[op].clone();
        let mut set = |key: &str, what: &str, attr: Attr| {
            let (key, name) = (key.to_owned(), data.name.clone());
            self.push(format!("{what} of {key} of {name}"), move |f| {
                f.ops[op].props.set(&key, attr)
            });
        };
        for (key, attr) in data.props.iter() {
            if let Some(list) = data.props.ints(key) {
                if let [.., _, last] = list.as_slice() {
                    let mut swapped: Vec<i64> = list.clone();
                    let end = swapped.len() - 1;
                    swapped[end] = list[0];
                    swapped[0] = *last;
                    set(key, "ends", Attr::ints(&swapped));
                }
                if let Some(first) = list.first() {
                    let mut more = list.clone();
                    more[0] = first.wrapping_add(1);
                    set(key, "start", Attr::ints(&more));
                }
            }
            match attr {
                Attr::Bool(b) => set(key, "sense", Attr::Bool(!b)),
                Attr::Int(n, ty) => set(key, "number", Attr::Int(n.wrapping_add(1), *ty)),
                _ => {}
            }
        }
        let text = optc_ir::text::print_attr(&Attr::Dict(data.props.clone()));
        for (from, to) in [
            ("dense<1.0", "dense<2.0"),
            ("dense<[1", "dense<[2"),
            ("\"sum\"", "\"max\""),
        ] {
            let changed = text.replacen(from, to, 1);
            if changed != text
                && let Some(props) = props(&changed)
            {
                self.push(format!("{from} of {}", data.name), move |f| {
                    f.ops[op].props = props
                });
            }
        }
    }

    fn operands(&mut self, op: Op) {
        let func = self.old();
        let data = func.ops[op].clone();
        let here = func.body.iter().position(|&o| o == op).unwrap_or(0);
        let earlier: Vec<Value> = (func.args.iter().copied())
            .chain(
                func.body[..here]
                    .iter()
                    .flat_map(|&o| func.ops[o].results.iter().copied()),
            )
            .collect();
        for (i, &operand) in data.operands.iter().enumerate() {
            let fits = |v: &&Value| {
                **v != operand && func_ty(self.old(), **v) == func_ty(self.old(), operand)
            };
            let others: Vec<Value> = earlier.iter().filter(fits).copied().take(2).collect();
            for other in others {
                self.push(format!("operand {i} of {}", data.name), |f| {
                    f.ops[op].operands[i] = other
                });
            }
            if 0 < i
                && func_ty(self.old(), data.operands[0]) == func_ty(self.old(), operand)
                && data.operands[0] != operand
            {
                self.push(format!("operands 0 and {i} of {}", data.name), |f| {
                    f.ops[op].operands.swap(0, i)
                });
            }
        }
    }

    /// Removes the operation; readers of its result read an operand of the same type instead.
    fn left_out(&mut self, op: Op) {
        let data = self.old().ops[op].clone();
        let ([operand], [result]) = (data.operands.as_slice(), data.results.as_slice()) else {
            if data.results.is_empty() {
                self.push(format!("{} left out", data.name), |f| {
                    f.body.retain(|o| *o != op)
                });
            }
            return;
        };
        if func_ty(self.old(), *operand) != func_ty(self.old(), *result) {
            return;
        }
        let (operand, result) = (*operand, *result);
        self.push(format!("{} left out", data.name), |f| {
            f.body.retain(|o| *o != op);
            for op in f.body.clone() {
                let reads = f.ops[op].operands.iter_mut().filter(|v| **v == result);
                reads.for_each(|v| *v = operand);
            }
            f.results
                .iter_mut()
                .filter(|v| **v == result)
                .for_each(|v| *v = operand);
        });
    }

    fn layout(&mut self, op: Op, result: Value) {
        let Some(ty) = self.old().ty(result).as_tensor().cloned() else {
            return;
        };
        let order: Vec<usize> = (0..ty.rank()).rev().collect();
        let Some(shape) = ty.shape() else { return };
        let Ok(layout) = Layout::from_order(&shape, ty.dtype.bits(), &order) else {
            return;
        };
        let changed = ty.with_notation(layout.notation().clone());
        let name = self.old().ops[op].name.clone();
        self.push(format!("layout of {result} of {name}"), |f| {
            f.values[result].ty = changed.into()
        });
    }
}

fn func_ty(func: &Func, value: Value) -> &Type {
    func.ty(value)
}

/// The attributes in a text.
fn props(text: &str) -> Option<AttrDict> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let module = optc_ir::text::parse(&format!("\"a.b\"() <{{{inner}}}> : () -> ()")).ok()?;
    let func = module.funcs.first()?;
    Some(func.ops[*func.body.first()?].props.clone())
}
