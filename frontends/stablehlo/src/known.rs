//! Known facts about the sizes of a program: integers that are polynomials of named sizes, and equalities between
//! sizes.

use crate::attrs::Attributes as _;
use crate::signs::{Division, Operands};
use indexmap::{IndexMap, IndexSet};
use optc_ir::Size;
use optc_layout::XlaShape;
use optc_mlir_syntax::{Func, Op, Region, Use};
use std::sync::Arc;

/// The most integers of a tracked value.
pub(crate) const MOST_INTEGERS: usize = 64;

/// The integers of a value, in order.
pub(crate) type Integers = Vec<Size>;

/// A number that starts at `start` and grows by `step` along a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) start: Size,
    pub(crate) step: Size,
    pub(crate) axis: usize,
}

/// The integers of an array: one number, or one for each element of the last dimension.
pub(crate) type Grid = Vec<Growth>;

impl Growth {
    /// A number that is the same everywhere.
    pub(crate) fn same(number: Size) -> Growth {
        Growth {
            start: number,
            step: Size::default(),
            axis: 0,
        }
    }
}

/// A value and the integers added to it.
pub(crate) type Sum<'a> = ((&'a str, usize), Integers);

/// Known integers of one function or region.
#[derive(Default)]
pub(crate) struct Known<'a> {
    pub(crate) values: IndexMap<(&'a str, usize), Integers>,
    /// Integers that grow evenly along a dimension.
    pub(crate) grids: IndexMap<(&'a str, usize), Grid>,
    /// Sums of an unknown value and known integers.
    pub(crate) sums: IndexMap<(&'a str, usize), Sum<'a>>,
    /// Numbers and truth values that are intermediate results of a division that rounds down.
    pub(crate) divisions: IndexMap<(&'a str, usize), Division>,
    /// Equalities that are undecided.
    pub(crate) equalities: IndexMap<(&'a str, usize), [Size; 2]>,
}

/// The caller's knowledge of an argument.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Given {
    pub(crate) shape: Option<Arc<XlaShape>>,
    pub(crate) integers: Option<Integers>,
}

/// Facts about the sizes of the entry's arguments.
#[derive(Default)]
pub(crate) struct Facts {
    /// Pairs of sizes that are equal.
    pub(crate) equal: Vec<[Size; 2]>,
    /// Each remainder with its dividend and divisor.
    pub(crate) remainders: Vec<(Size, [Size; 2])>,
    /// The names of sizes in callees.
    pub(crate) named: Vec<(Size, Arc<str>)>,
}

impl<'a> Known<'a> {
    pub(crate) fn get(&self, used: &Use<'a>) -> Option<&Integers> {
        self.values.get(&(used.name, used.part))
    }

    pub(crate) fn set(&mut self, name: &'a str, part: usize, integers: Integers) {
        self.values.insert((name, part), integers);
    }

    /// Records the integers in the results of an operation.
    pub(crate) fn note(&mut self, op: &'a Op<'a>, found: Vec<Option<Integers>>) {
        let mut found = found.into_iter();
        for &(name, count) in &op.results {
            for part in 0..count.min(MOST_INTEGERS) {
                if let Some(integers) = found.next().flatten() {
                    self.set(name, part, integers);
                    continue;
                }
                let made = self.operands(|known| known.divided(op));
                if let Some(made) = made.filter(|_| part == 0) {
                    self.divisions.insert((name, 0), made);
                }
                if op.name == "stablehlo.compare" {
                    self.undecided(op, name);
                } else if op.name == "stablehlo.add" {
                    self.summed(op, name);
                }
            }
        }
    }

    pub(crate) fn division(&self, used: &Use<'a>) -> Option<&Division> {
        self.divisions.get(&(used.name, used.part))
    }

    /// The number that an operation selects between two quotients or remainders.
    pub(crate) fn chosen(&self, op: &Op<'a>) -> Option<Integers> {
        self.operands(|known| known.chosen(op)).map(|one| vec![one])
    }

    fn operands<T>(&self, ask: impl FnOnce(&Operands<'_, 'a>) -> T) -> T {
        let number = |used: &Use<'a>| match &self.get(used)?[..] {
            [one] => Some(one),
            _ => None,
        };
        let division = |used: &Use<'a>| self.division(used);
        ask(&Operands {
            number: &number,
            division: &division,
        })
    }

    fn summed(&mut self, op: &'a Op<'a>, name: &'a str) {
        let [a, b] = op.operands[..] else { return };
        for (value, known) in [(a, b), (b, a)] {
            if let Some(integers) = self.get(&known) {
                let value = (value.name, value.part);
                self.sums.insert((name, 0), (value, integers.clone()));
            }
        }
    }

    fn undecided(&mut self, op: &Op<'a>, name: &'a str) {
        let side = |at: usize| match self.get(op.operands.get(at)?).map(Vec::as_slice) {
            Some([one]) => Some(one.clone()),
            _ => None,
        };
        if let (Some("EQ"), Some(a), Some(b)) = (op.direction(), side(0), side(1)) {
            self.equalities.insert((name, 0), [a, b]);
        }
    }
}

impl Facts {
    /// Returns whether a size is known not to be negative.
    pub(crate) fn is_positive(&self, size: &Size) -> bool {
        size.is_at_least(0) || self.remainders.iter().any(|(rest, _)| rest == size)
    }

    /// Returns whether a comparison holds; `None` if that depends on sizes.
    pub(crate) fn compare(&self, direction: &str, a: &Size, b: &Size) -> Option<bool> {
        let below = |a: &Size, b: &Size, by: i128| b.minus(a).is_some_and(|d| d.is_at_least(by));
        let less = |a: &Size, b: &Size| {
            let not = below(b, a, 0) || b.as_constant() == Some(0) && self.is_positive(a);
            if below(a, b, 1) {
                Some(true)
            } else if not {
                Some(false)
            } else {
                None
            }
        };
        let equal = |a: &Size, b: &Size| {
            if a == b {
                return Some(true);
            }
            let differ = a.minus(b).is_some_and(|d| d.is_nonzero());
            differ.then_some(false)
        };
        match direction {
            "EQ" => equal(a, b),
            "NE" => equal(a, b).map(|same| !same),
            "LT" => less(a, b),
            "GE" => less(a, b).map(|less| !less),
            "GT" => less(b, a),
            "LE" => less(b, a).map(|less| !less),
            _ => None,
        }
    }
}

/// Returns whether a region or one nested in it has values of unknown sizes.
pub(crate) fn is_open(region: &Region<'_>, resolve: &dyn Fn(&str) -> bool) -> bool {
    region.args.iter().any(|(_, ty)| resolve(ty))
        || region.ops.iter().any(|op| {
            op.result_types.iter().any(|ty| resolve(ty))
                || op.regions.iter().any(|inner| is_open(inner, resolve))
        })
}

/// The size variable of JAX that an argument holds.
pub(crate) fn global(attrs: &str) -> Option<&str> {
    let (_, rest) = attrs.split_once("jax.global_constant")?;
    let (_, rest) = rest.split_once('"')?;
    rest.split_once('"').map(|(name, _)| name)
}

/// The names of size variables.
pub(crate) fn globals<'a>(funcs: impl IntoIterator<Item = &'a Func<'a>>) -> IndexSet<&'a str> {
    let attrs = funcs.into_iter().flat_map(|func| &func.arg_attrs);
    attrs.filter_map(|text| global(text)).collect()
}

/// A truth value as a number.
pub(crate) fn truth(yes: bool) -> Size {
    Size::constant(i128::from(yes))
}
