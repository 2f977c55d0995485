//! Values as the elements of one shape see them: through broadcasts, reshapes that add or drop extents of 1, and
//! transposes.
//!
//! Example: for `x - broadcast(reshape(m))` with `x` of 5x7 and `m` of 5, the second operand is seen as `m`, whose only
//! dimension runs along dimension 0.

use optc_ir::op::Direction;
use optc_ir::{Attr, DType, Dim, Func, Op, Operation, Registry, TensorType, Value};
use optc_layout::Notation;
use optc_ops::{
    Add, Broadcast, Cast, Compare, Constant, Div, Mul, Pow, Reciprocal, Reduce, ReduceKind, Select,
    Sub, dense_tensor,
};

/// A value, and the dimension of it that runs along each dimension of the shape; `None` where it is constant, or has an
/// extent of 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) value: Value,
    pub(super) at: Vec<Option<usize>>,
}

/// The elements of the result of one operation.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    func: &'a Func,
    registry: &'a Registry,
    /// The type of the result.
    pub(super) ty: &'a TensorType,
}

/// The most operations that a value is looked through.
const MAX_LOOK: usize = 16;
/// The greatest depth of operations on constants.
const MAX_FOLD: usize = 3;

impl<'a> Sight<'a> {
    /// The elements of a value of floats without a layout.
    pub(super) fn of(func: &'a Func, registry: &'a Registry, value: Value) -> Option<Sight<'a>> {
        let ty = func.ty(value).as_tensor()?;
        let known = !ty.dims.contains(&Dim::Unknown);
        let plain = ty.notation == Notation::RowMajor && ty.dtype.is_float() && known;
        plain.then_some(Sight { func, registry, ty })
    }

    /// The type of a value without a layout.
    pub(super) fn type_of(&self, value: Value) -> Option<&'a TensorType> {
        let ty = self.func.ty(value).as_tensor()?;
        (ty.notation == Notation::RowMajor).then_some(ty)
    }

    /// A value whose dimensions are the last ones of the shape, as operands broadcast.
    pub(super) fn seen(&self, value: Value) -> Option<Seen> {
        let ty = self.type_of(value)?;
        let ahead = self.ty.rank().checked_sub(ty.rank())?;
        let at = |d: usize| {
            let k = d.checked_sub(ahead)?;
            (!ty.dims[k].is_one()).then_some(k)
        };
        let at = (0..self.ty.rank()).map(at).collect();
        Some(Seen { value, at })
    }

    /// The value, if it has the shape and the element type.
    pub(super) fn whole(&self, seen: &Seen) -> Option<Value> {
        let ty = self.type_of(seen.value)?;
        let same = ty.dims == self.ty.dims && ty.dtype == self.ty.dtype;
        (same && self.seen(seen.value).as_ref() == Some(seen)).then_some(seen.value)
    }

    /// The operation that makes a value, if it is a `T` with one result.
    fn made<T: Operation>(&self, value: Value) -> Option<(Op, T)> {
        let op = self.func.def_op(value)?;
        let data = &self.func.ops[op];
        if *data.name != *T::NAME || data.results.len() != 1 {
            return None;
        }
        Some((op, T::of(&self.func.op_ref(op)).ok()?))
    }

    /// The value behind what only moves elements. With `casts` also behind casts between floats as precise as the
    /// result.
    fn behind(&self, seen: &Seen, casts: bool) -> Seen {
        let mut seen = seen.clone();
        for _ in 0..MAX_LOOK {
            let next = self.moved(&seen);
            let next = next.or_else(|| casts.then(|| self.converted(&seen)).flatten());
            match next {
                Some(next) => seen = next,
                None => break,
            }
        }
        seen
    }

    /// The value behind broadcasts, rearrangements, and choices by constants.
    pub(super) fn base(&self, seen: &Seen) -> Seen {
        self.behind(seen, false)
    }

    /// The value behind broadcasts, rearrangements and exact enough casts.
    fn bare(&self, seen: &Seen) -> Seen {
        self.behind(seen, true)
    }

    fn moved(&self, seen: &Seen) -> Option<Seen> {
        let value = seen.value;
        let op = self.func.def_op(value)?;
        let operands = &self.func.ops[op].operands;
        let chosen = self.made::<Select>(value);
        let from = match chosen {
            Some(_) if self.truth(operands[0])? => operands[1],
            Some(_) => operands[2],
            None => *operands.first()?,
        };
        let (x, y) = (self.type_of(from)?, self.type_of(value)?);
        // The dimension of the operand for each dimension of the result.
        let source: Vec<Option<usize>> =
            if chosen.is_some() || self.made::<Broadcast>(value).is_some() {
                let ahead = y.rank().checked_sub(x.rank())?;
                (0..y.rank()).map(|k| k.checked_sub(ahead)).collect()
            } else {
                self.rearranged(op, &x.dims, &y.dims)?
            };
        let long = |k: &usize| x.dims.get(*k).is_some_and(|d| !d.is_one());
        let at = seen.at.iter();
        let at = at.map(|k| source.get((*k)?).copied().flatten().filter(long));
        Some(Seen {
            value: from,
            at: at.collect(),
        })
    }

    /// For each dimension of the result of a rearrangement, the dimension of the operand, or `None` for an extent of 1.
    /// `None` for another operation, or if dimensions are merged or split.
    fn rearranged(&self, op: Op, x: &[Dim], y: &[Dim]) -> Option<Vec<Option<usize>>> {
        let view = self.registry.rearrangement(&self.func.op_ref(op)).ok()?;
        let turned: Option<Vec<&Dim>> = view.perm.iter().map(|&p| view.shape.get(p)).collect();
        let (first, last) = (
            paired(x, view.shape.iter())?,
            paired(y, turned?.into_iter())?,
        );
        let of = |k: usize| {
            let (_, at) = last.iter().find(|(d, _)| *d == k)?;
            let at = view.perm[*at];
            Some(first.iter().find(|(_, to)| *to == at)?.0)
        };
        Some((0..y.len()).map(of).collect())
    }

    fn converted(&self, seen: &Seen) -> Option<Seen> {
        let (op, _) = self.made::<Cast>(seen.value)?;
        let value = self.func.ops[op].operands[0];
        let exact = |v| Some(holds(self.type_of(v)?.dtype, self.ty.dtype));
        (exact(value)? && exact(seen.value)?).then(|| Seen {
            value,
            at: seen.at.clone(),
        })
    }

    /// Returns whether two values have the same elements.
    pub(super) fn same(&self, a: &Seen, b: &Seen) -> bool {
        a == b || self.bare(a) == self.bare(b)
    }

    /// The operands of the element-wise operation `T` that makes a value.
    pub(super) fn operands<T: Operation>(&self, seen: &Seen) -> Option<(T, Vec<Seen>)> {
        let seen = self.bare(seen);
        let (op, made) = self.made::<T>(seen.value)?;
        let rank = self.type_of(seen.value)?.rank();
        let operand = |&value: &Value| {
            let ty = self.type_of(value)?;
            let ahead = rank.checked_sub(ty.rank())?;
            let along = |k: &Option<usize>| {
                let k = (*k)?.checked_sub(ahead)?;
                (!ty.dims[k].is_one()).then_some(k)
            };
            let at = seen.at.iter().map(along).collect();
            Some(Seen { value, at })
        };
        let operands: Option<Vec<Seen>> = self.func.ops[op].operands.iter().map(operand).collect();
        Some((made, operands?))
    }

    /// The operand of the operation `T`.
    pub(super) fn unary<T: Operation>(&self, seen: &Seen) -> Option<Seen> {
        self.operands::<T>(seen)?.1.into_iter().next()
    }

    /// The two operands of the operation `T`.
    pub(super) fn binary<T: Operation>(&self, seen: &Seen) -> Option<[Seen; 2]> {
        <[Seen; 2]>::try_from(self.operands::<T>(seen)?.1).ok()
    }

    /// The two operands of an operation whose operands may be exchanged, in both orders.
    pub(super) fn pairs<T: Operation>(&self, seen: &Seen) -> Vec<[Seen; 2]> {
        let Some([a, b]) = self.binary::<T>(seen) else {
            return Vec::new();
        };
        vec![[a.clone(), b.clone()], [b, a]]
    }

    /// The number that all elements of a constant are, also of sums, products and casts of such constants.
    pub(super) fn number(&self, seen: &Seen) -> Option<f64> {
        self.number_of(seen.value, MAX_FOLD)
    }

    fn number_of(&self, value: Value, depth: usize) -> Option<f64> {
        let value = self.base(&self.seen(value)?).value;
        if let Some((_, constant)) = self.made::<Constant>(value) {
            return element(&constant, self.type_of(value)?);
        }
        let depth = depth.checked_sub(1)?;
        let operand = |op: Op, i: usize| self.number_of(self.func.ops[op].operands[i], depth);
        let both = |op: Op| Some((operand(op, 0)?, operand(op, 1)?));
        // A cast of a constant rounds it, which `near` allows.
        if let Some((op, cast)) = self.made::<Cast>(value) {
            return cast.to.is_float().then(|| operand(op, 0))?;
        }
        if let Some((op, _)) = self.made::<Add>(value) {
            return both(op).map(|(a, b)| a + b);
        }
        if let Some((op, _)) = self.made::<Sub>(value) {
            return both(op).map(|(a, b)| a - b);
        }
        if let Some((op, _)) = self.made::<Mul>(value) {
            return both(op).map(|(a, b)| a * b);
        }
        let (op, _) = self.made::<Div>(value)?;
        let floats = self.type_of(value)?.dtype.is_float();
        floats.then(|| both(op).map(|(a, b)| a / b))?
    }

    /// The truth of a comparison of constants.
    fn truth(&self, value: Value) -> Option<bool> {
        let value = self.behind(&self.seen(value)?, false).value;
        let (op, compare) = self.made::<Compare>(value)?;
        let number = |i: usize| self.number_of(self.func.ops[op].operands[i], MAX_FOLD);
        let (a, b) = (number(0)?, number(1)?);
        Some(match compare.direction {
            Direction::Eq => a == b,
            Direction::Ne => a != b,
            Direction::Lt => a < b,
            Direction::Le => a <= b,
            Direction::Gt => a > b,
            Direction::Ge => a >= b,
        })
    }

    /// Returns whether a constant is a number, up to its rounding.
    pub(super) fn is_number(&self, seen: &Seen, wanted: f64) -> bool {
        self.number(seen)
            .is_some_and(|found| self.near(found, wanted))
    }

    /// Returns whether a number is another one, up to the rounding of constants of the element type.
    pub(super) fn near(&self, found: f64, wanted: f64) -> bool {
        let relative = match self.ty.dtype {
            DType::BF16 => 1.0 / 256.0,
            DType::F16 => 1.0 / 1024.0,
            _ => 1e-6,
        };
        (found - wanted).abs() <= relative * wanted.abs()
    }

    /// The dividend and the divisor of a quotient, also of a product with a reciprocal.
    pub(super) fn quotient(&self, seen: &Seen) -> Option<[Seen; 2]> {
        if let Some(quotient) = self.binary::<Div>(seen) {
            return Some(quotient);
        }
        let mut pairs = self.pairs::<Mul>(seen).into_iter();
        pairs.find_map(|[a, b]| Some([a, self.inverted(&b)?]))
    }

    /// The divisor of 1.
    pub(super) fn inverted(&self, seen: &Seen) -> Option<Seen> {
        if let Some(x) = self.unary::<Reciprocal>(seen) {
            return Some(x);
        }
        let [one, x] = self.binary::<Div>(seen)?;
        self.is_number(&one, 1.0).then_some(x)
    }

    /// The terms of a sum of a constant and something else.
    pub(super) fn plus_number(&self, seen: &Seen) -> Option<(Seen, f64)> {
        let mut pairs = self.pairs::<Add>(seen).into_iter();
        pairs.find_map(|[x, c]| Some((x, self.number(&c)?)))
    }

    /// The terms of a difference.
    pub(super) fn difference(&self, seen: &Seen) -> Option<[Seen; 2]> {
        self.binary::<Sub>(seen)
    }

    /// A value with its constant factors taken off, and their product.
    fn scaled(&self, seen: &Seen) -> (f64, Seen) {
        let (mut factor, mut seen) = (1.0, seen.clone());
        for _ in 0..MAX_LOOK {
            let times = self.pairs::<Mul>(&seen).into_iter();
            let mut times = times.filter_map(|[x, c]| Some((self.number(&c)?, x)));
            let over = || {
                let [x, c] = self.binary::<Div>(&seen)?;
                Some((1.0 / self.number(&c)?, x))
            };
            let Some((by, x)) = times.next().or_else(over) else {
                break;
            };
            (factor, seen) = (factor * by, x);
        }
        (factor, seen)
    }

    /// The operand and the axes of a reduction whose number is repeated along the axes. The axes are those of the
    /// shape.
    pub(super) fn reduced(&self, seen: &Seen) -> Option<(ReduceKind, Seen, Vec<usize>)> {
        let seen = self.bare(seen);
        let (op, reduce) = self.made::<Reduce>(seen.value)?;
        let operand = self.func.ops[op].operands[0];
        let ty = self.type_of(operand)?;
        let same = |(a, b): (&Dim, &Dim)| a.same(b);
        if ty.rank() != self.ty.rank() || !ty.dims.iter().zip(&self.ty.dims).all(same) {
            return None;
        }
        let axes = reduce.reduced(&self.func.op_ref(op)).ok()?;
        let kept = |d: &usize| reduce.keepdims || !axes.contains(d);
        let kept: Vec<usize> = (0..ty.rank()).filter(kept).collect();
        for (d, at) in seen.at.iter().enumerate() {
            let wanted = kept.iter().position(|&k| k == d);
            let wanted = wanted.filter(|_| !axes.contains(&d) && !ty.dims[d].is_one());
            if *at != wanted {
                return None;
            }
        }
        Some((reduce.kind, self.seen(operand)?, axes))
    }

    /// The number of elements along axes.
    fn count(&self, axes: &[usize]) -> Option<f64> {
        let extents = axes.iter().map(|&d| self.ty.dims[d].fixed());
        let extents: Option<Vec<u64>> = extents.collect();
        let count = extents?.into_iter().fold(1u64, u64::saturating_mul);
        #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
        let count = count as f64;
        (0.0 < count).then_some(count)
    }

    /// The operand and the axes of a mean, also of a sum divided by the number of its elements.
    pub(super) fn mean(&self, seen: &Seen) -> Option<(Seen, Vec<usize>)> {
        self.averaged(seen, ReduceKind::Sum)
    }

    /// The operand and the axes of a mean, or of another reduction divided by the number of elements.
    fn averaged(&self, seen: &Seen, kind: ReduceKind) -> Option<(Seen, Vec<usize>)> {
        let (factor, seen) = self.scaled(seen);
        let (found, x, axes) = self.reduced(&seen)?;
        let wanted = match found {
            ReduceKind::Mean if kind == ReduceKind::Sum => 1.0,
            found if found == kind => 1.0 / self.count(&axes)?,
            _ => return None,
        };
        self.near(factor, wanted).then_some((x, axes))
    }

    /// The operand of a square.
    fn squared(&self, seen: &Seen) -> Option<Seen> {
        if let Some([a, b]) = self.binary::<Mul>(seen) {
            return self.same(&a, &b).then_some(a);
        }
        let [x, power] = self.binary::<Pow>(seen)?;
        self.is_number(&power, 2.0).then_some(x)
    }

    /// The operand and the axes of a mean of squares.
    pub(super) fn mean_of_squares(&self, seen: &Seen) -> Option<(Seen, Vec<usize>)> {
        if let Some((x, axes)) = self.mean(seen) {
            return Some((self.squared(&x)?, axes));
        }
        self.averaged(seen, ReduceKind::SumSquare)
    }

    /// The operand and the axes of a difference from the mean.
    pub(super) fn centred(&self, seen: &Seen) -> Option<(Seen, Vec<usize>)> {
        let [x, mean] = self.difference(seen)?;
        let (of, axes) = self.mean(&mean)?;
        self.same(&of, &x).then_some((x, axes))
    }
}

/// The pairs of dimensions longer than 1 of two shapes that have the same such dimensions, in order.
fn paired<'d>(a: &'d [Dim], b: impl Iterator<Item = &'d Dim>) -> Option<Vec<(usize, usize)>> {
    let long = |(_, dim): &(usize, &Dim)| !dim.is_one();
    let a: Vec<(usize, &Dim)> = a.iter().enumerate().filter(long).collect();
    let b: Vec<(usize, &Dim)> = b.enumerate().filter(long).collect();
    let same = a.len() == b.len() && a.iter().zip(&b).all(|((_, a), (_, b))| a.same(b));
    same.then(|| a.iter().zip(&b).map(|(a, b)| (a.0, b.0)).collect())
}

/// The number that all elements of a constant of this type are.
fn element(constant: &Constant, ty: &TensorType) -> Option<f64> {
    let Some(Attr::Dense(dense)) = &constant.value else {
        return None;
    };
    if !dense.splat && ty.elements() != Some(1) {
        return None;
    }
    let mut one = (**dense).clone();
    one.ty = TensorType::fixed(&[], ty.dtype).into();
    one.splat = false;
    Some(dense_tensor(&one).ok()?.f64_at(0))
}

/// Returns whether a float type holds the numbers of another one.
fn holds(wide: DType, narrow: DType) -> bool {
    let is = |dtypes: &[DType]| dtypes.contains(&wide);
    match narrow {
        DType::F64 => is(&[DType::F64]),
        DType::F32 => is(&[DType::F32, DType::F64]),
        DType::F16 => is(&[DType::F16, DType::F32, DType::F64]),
        DType::BF16 => is(&[DType::BF16, DType::F32, DType::F64]),
        _ => false,
    }
}

/// A value with one number for each element along the last axes.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) value: Value,
    /// True if the value needs a reshape to the extents of these axes.
    pub(super) reshaped: bool,
}
