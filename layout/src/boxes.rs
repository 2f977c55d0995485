//! Decides whether two position functions agree, on boxes of indices on which both are affine.
//!
//! For example, `floor(i / 4)` for `i` in 0..10 is not affine. The range is cut into `i = 4 a + b` with `a` in 0..2 and
//! `b` in 0..4, on which the floor is `a`, and `i` in 8..10, on which it is 2.
//!
//! A position is an affine expression of the indices and of floors of such expressions. On a box, a floor is affine
//! itself in two cases: if its argument stays inside one block, or if the argument is a multiple of the divisor plus a
//! rest that stays inside one block. Other boxes are cut. A range that is longer than the floor's period becomes a
//! quotient and a remainder; a shorter one is cut at the border of the block.
//!
//! The work therefore depends on the number of cuts that layouts have, not on their elements. It grows with the size of
//! a tile only if that tile cuts across the padding of a merge. Every answer is exact; [`MAX_BOXES`] bounds the work.

use crate::map::ViewMap;
use crate::placement::Placement;
use crate::program::AxisStep;

/// The number of boxes after which the comparison gives up.
const MAX_BOXES: usize = 1 << 16;

/// `constant + Σ coefficient * atom`. Atoms are the indices, then the floors.
#[derive(Clone, Debug)]
struct Affine {
    constant: i128,
    terms: Vec<(usize, i128)>,
}

impl Affine {
    fn constant(constant: i128) -> Self {
        Self {
            constant,
            terms: Vec::new(),
        }
    }

    fn atom(atom: usize) -> Self {
        Self {
            constant: 0,
            terms: vec![(atom, 1)],
        }
    }

    /// `self + factor * other`.
    fn add(mut self, factor: i128, other: &Affine) -> Option<Self> {
        let scaled = factor.checked_mul(other.constant)?;
        self.constant = self.constant.checked_add(scaled)?;
        for &(atom, coefficient) in &other.terms {
            let scaled = factor.checked_mul(coefficient)?;
            match self.terms.iter_mut().find(|(known, _)| *known == atom) {
                Some((_, sum)) => *sum = sum.checked_add(scaled)?,
                None => self.terms.push((atom, scaled)),
            }
        }
        self.terms.retain(|&(_, coefficient)| coefficient != 0);
        Some(self)
    }
}

/// Expressions over the indices of one shape.
struct Expressions {
    sizes: Vec<u64>,
    /// `floor(argument / divisor)`; an argument uses earlier floors only.
    floors: Vec<(Affine, u64)>,
}

impl Expressions {
    fn new(sizes: &[u64]) -> Self {
        Self {
            sizes: sizes.to_vec(),
            floors: Vec::new(),
        }
    }

    fn floor(&mut self, argument: &Affine, divisor: u64) -> Affine {
        if divisor <= 1 {
            return argument.clone();
        }
        self.floors.push((argument.clone(), divisor));
        Affine::atom(self.sizes.len() + self.floors.len() - 1)
    }

    /// The quotient and the remainder by `divisor`.
    fn divide(&mut self, value: &Affine, divisor: u64) -> Option<(Affine, Affine)> {
        let quotient = self.floor(value, divisor);
        let rest = value.clone().add(-i128::from(divisor), &quotient)?;
        Some((quotient, rest))
    }

    /// The indices of the element with row-major number `number`.
    fn unravel(&mut self, number: &Affine, shape: &[u64]) -> Option<Vec<Affine>> {
        let mut indices = vec![Affine::constant(0); shape.len()];
        let mut inner = shape
            .iter()
            .try_fold(1u64, |n, &size| n.checked_mul(size))?;
        let mut rest = number.clone();
        for (index, &size) in indices.iter_mut().zip(shape) {
            inner /= size.max(1);
            (*index, rest) = self.divide(&rest, inner)?;
        }
        Some(indices)
    }

    /// The position of the element of `layout` with these indices.
    fn position(&mut self, layout: &Placement, indices: &[Affine]) -> Option<Affine> {
        let function = layout.function();
        if let Some(program) = &function.program {
            let mut values = indices.to_vec();
            for step in program.steps() {
                match *step {
                    AxisStep::Unit => values.push(Affine::constant(0)),
                    AxisStep::Cut { axis, block } => {
                        let (outer, inner) = self.divide(&values[axis].clone(), block)?;
                        values.extend([outer, inner]);
                    }
                    AxisStep::Merge { major, minor } => {
                        let factor = i128::from(program.extent(minor));
                        let merged = values[minor].clone().add(factor, &values[major])?;
                        values.push(merged);
                    }
                }
            }
            let mut position = Affine::constant(0);
            let mut stride = 1i128;
            for &axis in program.axes().iter().rev() {
                position = position.add(stride, &values[axis])?;
                stride = stride.checked_mul(i128::from(program.extent(axis)))?;
            }
            return Some(position);
        }
        let order = function.dims(layout.shape());
        let sizes: Vec<u64> = order.iter().map(|&dim| layout.shape()[dim]).collect();
        let parts: Vec<Affine> = order.iter().map(|&dim| indices[dim].clone()).collect();
        let mut rest = number(&parts, &sizes)?;
        let mut position = Affine::constant(i128::from(function.offset));
        for cut in &function.chain {
            let (steps, below) = self.divide(&rest, cut.size)?;
            position = position.add(i128::from(cut.stride), &steps)?;
            rest = below;
        }
        Some(position)
    }

    /// The operand's indices of an element of a map's result.
    fn operand(&mut self, operand: &[u64], map: &ViewMap, e: &[Affine]) -> Option<Vec<Affine>> {
        let middle = map.shape.as_deref().unwrap_or(operand);
        let mut indices = e.to_vec();
        let mut shape = map.result.clone();
        if let Some(perm) = &map.perm {
            let permuted: Vec<u64> = perm.iter().map(|&axis| middle[axis]).collect();
            indices = self.reshape(indices, &shape, &permuted)?;
            let mut turned = vec![Affine::constant(0); middle.len()];
            for (&axis, index) in perm.iter().zip(indices) {
                turned[axis] = index;
            }
            (indices, shape) = (turned, middle.to_vec());
        }
        self.reshape(indices, &shape, operand)
    }

    fn reshape(&mut self, e: Vec<Affine>, from: &[u64], to: &[u64]) -> Option<Vec<Affine>> {
        if from == to {
            return Some(e);
        }
        let number = number(&e, from)?;
        self.unravel(&number, to)
    }
}

/// The row-major number of indices.
fn number(indices: &[Affine], sizes: &[u64]) -> Option<Affine> {
    let mut number = Affine::constant(0);
    let mut inner = 1i128;
    for (index, &size) in indices.iter().zip(sizes).rev() {
        number = number.add(inner, index)?;
        inner = inner.checked_mul(i128::from(size))?;
    }
    Some(number)
}

/// Returns whether `output` places every element at the position at which `input` has the element that the map reads;
/// `None` after [`MAX_BOXES`]. The map must fit, and there must be elements.
pub(crate) fn agree(input: &Placement, map: &ViewMap, output: &Placement) -> Option<bool> {
    let mut expressions = Expressions::new(output.shape());
    let indices: Vec<Affine> = (0..output.rank()).map(Affine::atom).collect();
    let source = expressions.operand(input.shape(), map, &indices)?;
    let found = expressions.position(input, &source)?;
    let wanted = expressions.position(output, &indices)?;
    let difference = found.add(-1, &wanted)?;
    expressions.is_zero(&difference)
}

/// Ranges `[0, size)` of variables, and each index as an affine expression of them.
#[derive(Clone)]
struct Region {
    sizes: Vec<u64>,
    indices: Vec<Row>,
}

/// A constant, and a coefficient for each variable.
#[derive(Clone, Debug)]
struct Row {
    constant: i128,
    coefficients: Vec<i128>,
}

impl Row {
    fn zero(len: usize) -> Self {
        Self {
            constant: 0,
            coefficients: vec![0; len],
        }
    }

    fn add(&mut self, factor: i128, other: &Row) -> Option<()> {
        self.constant = self
            .constant
            .checked_add(factor.checked_mul(other.constant)?)?;
        for (sum, term) in self.coefficients.iter_mut().zip(&other.coefficients) {
            *sum = sum.checked_add(factor.checked_mul(*term)?)?;
        }
        Some(())
    }
}

/// A floor on a region.
enum Floor {
    Affine(Row),
    /// It is not affine; the regions to look at instead.
    Cut(Vec<Region>),
}

impl Expressions {
    /// Returns whether an expression is zero for all indices.
    fn is_zero(&self, difference: &Affine) -> Option<bool> {
        let mut regions = vec![self.everything()];
        for _ in 0..MAX_BOXES {
            let Some(region) = regions.pop() else {
                return Some(true);
            };
            if !self.look(&region, difference, &mut regions)? {
                return Some(false);
            }
        }
        None
    }

    /// Returns whether the expression is zero on the region. Regions that remain to be looked at are added to `todo`.
    fn look(&self, region: &Region, difference: &Affine, todo: &mut Vec<Region>) -> Option<bool> {
        let Some(atoms) = self.atoms(region, todo)? else {
            return Some(true);
        };
        let row = substitute(difference, &atoms, region.sizes.len())?;
        let moves = |(coefficient, &size): (&i128, &u64)| *coefficient != 0 && 1 < size;
        let varies = row.coefficients.iter().zip(&region.sizes).any(moves);
        Some(row.constant == 0 && !varies)
    }

    /// The indices and floors as affine expressions of the region's variables. The inner value is `None` if the
    /// region was cut into others, which are added to `todo`.
    fn atoms(&self, region: &Region, todo: &mut Vec<Region>) -> Option<Option<Vec<Row>>> {
        let mut atoms = region.indices.clone();
        for (argument, divisor) in &self.floors {
            let argument = substitute(argument, &atoms, region.sizes.len())?;
            match region.floor(&argument, *divisor)? {
                Floor::Affine(row) => atoms.push(row),
                Floor::Cut(regions) => {
                    todo.extend(regions);
                    return Some(None);
                }
            }
        }
        Some(Some(atoms))
    }

    /// The region of all indices.
    fn everything(&self) -> Region {
        let rank = self.sizes.len();
        let index = |dim: usize| {
            let mut row = Row::zero(rank);
            row.coefficients[dim] = 1;
            row
        };
        Region {
            sizes: self.sizes.clone(),
            indices: (0..rank).map(index).collect(),
        }
    }
}

/// Elements of a tensor whose offsets in two buffers are affine in the same variables.
///
/// A variable `i` goes from 0 to `sizes[i] - 1`, and a step of it is `strides[i]` elements of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffineBox {
    /// The number of values of each variable.
    pub sizes: Vec<u64>,
    /// Offsets in the first buffer.
    pub from: AffineOffsets,
    /// Offsets in the second buffer.
    pub to: AffineOffsets,
}

/// Offsets in elements that are affine in the variables of a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffineOffsets {
    /// The offset if all variables are 0.
    pub base: i64,
    /// The increment for one step of each variable.
    pub strides: Vec<i64>,
}

impl AffineOffsets {
    fn new(row: &Row) -> Option<Self> {
        let strides = row.coefficients.iter().map(|&c| i64::try_from(c).ok());
        Some(Self {
            base: i64::try_from(row.constant).ok()?,
            strides: strides.collect::<Option<_>>()?,
        })
    }
}

/// Boxes that cover each element of a tensor once, such that in each box the offsets in both layouts are affine.
///
/// Variables are indices, and the quotients and remainders at which the layouts cut them. The number of boxes therefore
/// depends on the cuts that do not divide evenly, not on the elements. `None` if the shapes differ, if there are more
/// than `most` boxes, or if an offset exceeds 64 bits.
#[must_use]
pub fn affine_boxes(from: &Placement, to: &Placement, most: usize) -> Option<Vec<AffineBox>> {
    if from.shape() != to.shape() {
        return None;
    }
    if from.elements() == 0 {
        return Some(Vec::new());
    }
    let mut expressions = Expressions::new(from.shape());
    let indices: Vec<Affine> = (0..from.rank()).map(Affine::atom).collect();
    let source = expressions.position(from, &indices)?;
    let target = expressions.position(to, &indices)?;
    let mut todo = vec![expressions.everything()];
    let mut boxes = Vec::new();
    while let Some(region) = todo.pop() {
        if most < todo.len() + boxes.len() + 1 {
            return None;
        }
        if let Some(atoms) = expressions.atoms(&region, &mut todo)? {
            let offsets = |affine: &Affine| {
                let row = substitute(affine, &atoms, region.sizes.len())?;
                AffineOffsets::new(&row)
            };
            boxes.push(AffineBox {
                from: offsets(&source)?,
                to: offsets(&target)?,
                sizes: region.sizes,
            });
        }
    }
    Some(boxes)
}

fn substitute(affine: &Affine, atoms: &[Row], len: usize) -> Option<Row> {
    let mut row = Row::zero(len);
    row.constant = affine.constant;
    for &(atom, coefficient) in &affine.terms {
        row.add(coefficient, atoms.get(atom)?)?;
    }
    Some(row)
}

impl Region {
    /// `floor(argument / divisor)` on this region.
    fn floor(&self, argument: &Row, divisor: u64) -> Option<Floor> {
        let divisor = i128::from(divisor);
        let mut quotient = Row::zero(self.sizes.len());
        let mut rest = Row::zero(self.sizes.len());
        let mut spread = 0i128;
        for (i, (&coefficient, &size)) in argument.coefficients.iter().zip(&self.sizes).enumerate()
        {
            quotient.coefficients[i] = coefficient.div_euclid(divisor);
            if 1 < size {
                rest.coefficients[i] = coefficient.rem_euclid(divisor);
            }
            let reach = rest.coefficients[i].checked_mul(i128::from(size) - 1)?;
            spread = spread.checked_add(reach)?;
        }
        quotient.constant = argument.constant.div_euclid(divisor);
        rest.constant = argument.constant.rem_euclid(divisor);
        if rest.constant.checked_add(spread)? < divisor {
            return Some(Floor::Affine(quotient));
        }
        self.cut(&rest, spread, divisor).map(Floor::Cut)
    }

    /// Smaller regions for a rest that leaves its block.
    fn cut(&self, rest: &Row, spread: i128, divisor: i128) -> Option<Vec<Region>> {
        let reach = |i: usize| rest.coefficients[i] * (i128::from(self.sizes[i]) - 1);
        for (i, &coefficient) in rest.coefficients.iter().enumerate() {
            if coefficient == 0 {
                continue;
            }
            let period = u64::try_from(divisor / gcd(divisor, coefficient)).ok()?;
            if period < self.sizes[i] {
                return self.in_blocks(i, period);
            }
        }
        let widest = (0..self.sizes.len()).max_by_key(|&i| (reach(i), std::cmp::Reverse(i)))?;
        let others = spread - reach(widest);
        let room = divisor - 1 - rest.constant - others;
        let inside = room.div_euclid(rest.coefficients[widest].max(1)) + 1;
        let at = u64::try_from(inside.max(1))
            .ok()?
            .min(self.sizes[widest] - 1);
        Some(vec![
            self.part(widest, 0, at)?,
            self.part(widest, at, self.sizes[widest])?,
        ])
    }

    /// Splits the variable into a quotient and a remainder by `period`; its last values, which do not fill a period,
    /// are a region of their own.
    fn in_blocks(&self, variable: usize, period: u64) -> Option<Vec<Region>> {
        let size = self.sizes[variable];
        let blocks = size / period;
        let mut whole = self.part(variable, 0, blocks * period)?;
        whole.sizes[variable] = period;
        whole.sizes.push(blocks);
        for row in &mut whole.indices {
            let coefficient = row.coefficients[variable];
            row.coefficients
                .push(coefficient.checked_mul(i128::from(period))?);
        }
        let mut regions = vec![whole];
        if blocks * period < size {
            regions.push(self.part(variable, blocks * period, size)?);
        }
        Some(regions)
    }

    /// The region with the variable restricted to `from..to`.
    fn part(&self, variable: usize, from: u64, to: u64) -> Option<Region> {
        let mut part = self.clone();
        part.sizes[variable] = to - from;
        for row in &mut part.indices {
            let shift = row.coefficients[variable].checked_mul(i128::from(from))?;
            row.constant = row.constant.checked_add(shift)?;
        }
        Some(part)
    }
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::notation::parse_tensor;
    use crate::view::propagate;

    struct Rng(u64);

    impl Rng {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % n
        }

        fn permutation(&mut self, n: usize) -> Vec<usize> {
            let mut list: Vec<usize> = (0..n).collect();
            for i in (1..n).rev() {
                list.swap(i, self.below(i as u64 + 1) as usize);
            }
            list
        }
    }

    fn tile(rng: &mut Rng) -> String {
        let len = 1 + rng.below(3) as usize;
        let entries: Vec<String> = (0..len)
            .map(|i| match rng.below(3) {
                0 if i + 1 < len => "*".to_owned(),
                _ => (1 + rng.below(5)).to_string(),
            })
            .collect();
        format!("({})", entries.join(","))
    }

    fn layout(rng: &mut Rng, shape: &[u64]) -> Layout {
        let order: Vec<String> = rng
            .permutation(shape.len())
            .iter()
            .map(usize::to_string)
            .collect();
        let tiles: String = (0..rng.below(4)).map(|_| tile(rng)).collect();
        let tiles = match tiles.as_str() {
            "" => String::new(),
            tiles => format!(":T{tiles}"),
        };
        let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
        let text = format!("s8[{}]{{{}{tiles}}}", dims.join(","), order.join(","));
        parse_tensor(&text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .layout
    }

    fn map(rng: &mut Rng, shape: &[u64]) -> ViewMap {
        let perm = rng.permutation(shape.len());
        let mut result: Vec<u64> = perm.iter().map(|&axis| shape[axis]).collect();
        if rng.below(2) == 0 && 2 <= result.len() {
            let merged = result.remove(0);
            result[0] *= merged;
        }
        ViewMap {
            shape: None,
            perm: Some(perm),
            result,
        }
    }

    fn enumerated(input: &Layout, map: &ViewMap, output: &Layout) -> bool {
        (0..output.elements()).all(|k| {
            let e = crate::dims::unravel(k, output.shape());
            let from = map.operand_index(input.shape(), &e);
            from.and_then(|from| input.index(&from)) == output.index(&e)
        })
    }

    #[test]
    fn agree_is_equality_of_all_positions() {
        let mut rng = Rng(5);
        let (mut equal, mut programs) = (0, 0);
        for _ in 0..6000 {
            let shape: Vec<u64> = (0..1 + rng.below(3)).map(|_| 1 + rng.below(9)).collect();
            let (input, map) = (layout(&mut rng, &shape), map(&mut rng, &shape));
            let propagated = propagate(&input, &map).ok();
            for output in propagated
                .into_iter()
                .chain([layout(&mut rng, &map.result)])
            {
                let expected = enumerated(&input, &map, &output);
                let what = || format!("{} {map:?} {}", input.notation(), output.notation());
                assert_eq!(agree(&input, &map, &output), Some(expected), "{}", what());
                equal += u32::from(expected);
                let program = |layout: &Layout| layout.function().program.is_some();
                programs += u32::from(program(&input) || program(&output));
            }
        }
        assert!(1000 < equal && 200 < programs, "{equal} {programs}");
    }

    #[test]
    fn large_pairs_take_few_boxes() {
        let big = |text: &str| parse_tensor(text).expect("the text reads").layout;
        // Only the last element differs, and the two layouts count the dimensions in opposite orders.
        let n = 1_000_000u64;
        let last = 2 * n - 1;
        let a = big(&format!(
            "tensor<{n}x2xsi8, {{digits = \"2:(d0*d1)/{last} {n}:(d0*d1)%{last}/2 2:(d0*d1)%{last}%2\"}}>"
        ));
        let b = big(&format!(
            "tensor<{n}x2xsi8, {{digits = \"2:(d1*d0)/{last} {n}:(d1*d0)%{last}%{n} 2:(d1*d0)%{last}/{n}\"}}>"
        ));
        assert!(a.same_function(&b) && b.same_function(&a));
        let turned = ViewMap::transpose(a.shape(), &[1, 0]).expect("a permutation");
        assert!(
            crate::view::is_view(&a, &turned, &propagate(&b, &turned).expect("a view")).is_ok()
        );
        let c = big(&format!(
            "tensor<{n}x2xsi8, {{digits = \"2:(d1*d0)/{} {n}:(d1*d0)%{}%{n} 2:(d1*d0)%{}/{n}\"}}>",
            last - 1,
            last - 1,
            last - 1
        ));
        assert!(!a.same_function(&c) && !c.same_function(&a));
    }
}
