//! Random chains of reshapes and transposes.

use crate::must::Must;
use optc_compare::SplitMix64;
use optc_ir::size::Size;
use optc_ir::{DType, Dim, FuncBuilder, Module, Registry, TensorType, Value};
use optc_ops::{Relu, Reshape, Transpose, Unsqueeze, ints};

/// The knowledge of the sizes of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// All are numbers.
    Fixed,
    /// Some have names.
    Named,
    /// Some are `?`.
    Open,
}

/// The largest number of steps of a chain.
const STEPS: u64 = 8;
/// The largest rank of a value.
const RANKS: u64 = 6;
/// The largest number of elements of a value, with 7 for a name and 128 for a `?`.
const ELEMENTS: u64 = 2500;
const OPEN_ELEMENTS: u64 = 20_000;

/// A factor of a dimension.
#[derive(Clone, PartialEq, Eq)]
enum Factor {
    Number(u64),
    Name(&'static str),
}

impl Factor {
    fn most(&self, sizes: Sizes) -> u64 {
        match self {
            Factor::Number(n) => *n,
            Factor::Name(_) if sizes == Sizes::Open => 128,
            Factor::Name(_) => 7,
        }
    }

    fn size(&self) -> Size {
        match self {
            Factor::Number(n) => Size::from(*n),
            Factor::Name(name) => Size::name(name),
        }
    }
}

/// A chain of up to eight reshapes and transposes of ranks 1 to 6. Its sizes have common factors or none, and some
/// dimensions have extent 1. Between some steps there is an operation, and some intermediate values are results too.
/// The same seed gives the same chain.
#[must_use]
pub fn chain(seed: u64, sizes: Sizes, registry: &Registry) -> Module {
    let mut maker = Maker {
        rng: SplitMix64::new(seed),
        sizes,
    };
    let mut b = FuncBuilder::new(registry);
    let mut dims = maker.dims();
    let types = maker.types(&dims);
    let mut at = b.arg("x", TensorType::new(types, DType::F32));
    let mut results = Vec::new();
    for _ in 0..=maker.rng.below(STEPS) {
        at = maker.step(&mut b, at, &mut dims);
        if maker.rng.below(12) == 0 {
            results.push(at);
        }
    }
    if results.last() != Some(&at) {
        results.push(at);
    }
    b.finish(&results)
}

struct Maker {
    rng: SplitMix64,
    sizes: Sizes,
}

impl Maker {
    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        let at = self.rng.below(all.len() as u64);
        all[usize::try_from(at).expect("an index")].clone()
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = self.rng.below(last as u64 + 1);
            all.swap(last, usize::try_from(other).expect("an index"));
        }
    }

    fn dims(&mut self) -> Vec<Vec<Factor>> {
        let mut factors = Vec::new();
        let mut elements = 1;
        let limit = match self.sizes {
            Sizes::Open => OPEN_ELEMENTS,
            Sizes::Fixed | Sizes::Named => ELEMENTS,
        };
        for _ in 0..=self.rng.below(6) {
            let factor = if self.sizes != Sizes::Fixed && self.rng.below(3) == 0 {
                Factor::Name(self.pick(&["B", "S"]))
            } else {
                Factor::Number(self.pick(&[2, 2, 3, 4, 5, 6, 7, 128]))
            };
            let most = factor.most(self.sizes);
            if elements * most <= limit {
                elements *= most;
                factors.push(factor);
            }
        }
        self.grouped(factors)
    }

    /// The factors in order, grouped into the dimensions of a shape of random rank.
    fn grouped(&mut self, factors: Vec<Factor>) -> Vec<Vec<Factor>> {
        let rank = 1 + self.rng.below(RANKS);
        let mut ends: Vec<u64> = (1..rank)
            .map(|_| self.rng.below(factors.len() as u64 + 1))
            .collect();
        ends.sort_unstable();
        let mut dims = vec![Vec::new(); usize::try_from(rank).expect("a rank")];
        for (at, factor) in factors.into_iter().enumerate() {
            let dim = ends.iter().filter(|&&end| end <= at as u64).count();
            dims[dim].push(factor);
        }
        dims
    }

    fn types(&self, dims: &[Vec<Factor>]) -> Vec<Dim> {
        let dim = |factors: &Vec<Factor>| {
            let sizes: Vec<Size> = factors.iter().map(Factor::size).collect();
            match Size::product(&sizes).expect("small sizes") {
                size if self.sizes == Sizes::Open && size.as_constant().is_none() => Dim::Unknown,
                size => Dim::of_size(&size),
            }
        };
        dims.iter().map(dim).collect()
    }

    fn step(&mut self, b: &mut FuncBuilder<'_>, x: Value, dims: &mut Vec<Vec<Factor>>) -> Value {
        match self.rng.below(9) {
            0 if self.sizes == Sizes::Fixed => b.must(&Relu {}, &[x]),
            1 if dims.len() < 6 => self.unsqueeze(b, x, dims),
            0..5 => self.reshape(b, x, dims),
            _ => self.transpose(b, x, dims),
        }
    }

    fn unsqueeze(
        &mut self,
        b: &mut FuncBuilder<'_>,
        x: Value,
        dims: &mut Vec<Vec<Factor>>,
    ) -> Value {
        let axis = usize::try_from(self.rng.below(dims.len() as u64 + 1)).expect("an axis");
        dims.insert(axis, Vec::new());
        let axes = ints(&[axis]);
        b.must(&Unsqueeze { axes }, &[x])
    }

    fn transpose(
        &mut self,
        b: &mut FuncBuilder<'_>,
        x: Value,
        dims: &mut Vec<Vec<Factor>>,
    ) -> Value {
        let mut perm: Vec<usize> = (0..dims.len()).collect();
        self.shuffle(&mut perm);
        *dims = perm.iter().map(|&p| dims[p].clone()).collect();
        let perm = ints(&perm);
        b.must(&Transpose { perm }, &[x])
    }

    fn reshape(&mut self, b: &mut FuncBuilder<'_>, x: Value, dims: &mut Vec<Vec<Factor>>) -> Value {
        let mut factors: Vec<Factor> = dims.concat();
        match self.rng.below(4) {
            // Cuts that the dimensions do not have.
            0 => self.shuffle(&mut factors),
            1 => factors = self.cut(factors),
            _ => {}
        }
        let new = self.grouped(factors);
        let types = self.types(&new);
        if 1 < types.iter().filter(|d| **d == Dim::Unknown).count() {
            return self.transpose(b, x, dims);
        }
        *dims = new;
        b.must(&Reshape::of_dims(&types), &[x])
    }

    /// Splits numbers into smaller ones, or merges adjacent ones.
    fn cut(&mut self, factors: Vec<Factor>) -> Vec<Factor> {
        let mut out: Vec<Factor> = Vec::new();
        for factor in factors {
            match (factor, out.last()) {
                (Factor::Number(n), _) if n % 2 == 0 && 2 < n => {
                    out.extend([Factor::Number(2), Factor::Number(n / 2)]);
                }
                (Factor::Number(n), Some(&Factor::Number(m))) if n * m < 16 => {
                    out.pop();
                    out.push(Factor::Number(n * m));
                }
                (factor, _) => out.push(factor),
            }
        }
        out
    }
}
