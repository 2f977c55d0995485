//! Integers that grow evenly: JAX computes them from an `iota` to address the elements of a slice with steps.

use crate::known::{Grid, Growth};
use crate::translate::Body;
use optc_ir::Size;
use optc_layout::{XlaArray, XlaDim, XlaType};
use optc_mlir_syntax::{Op, Use};
use optc_mlir_syntax::{int, ints};

/// The most numbers at a place of an array.
const MOST_NUMBERS: usize = 16;

impl Growth {
    fn is_same(&self) -> bool {
        self.step == Size::default()
    }

    fn plus(&self, other: &Growth, minus: bool) -> Option<Growth> {
        let joined = |a: &Size, b: &Size| if minus { a.minus(b) } else { a.plus(b) };
        let axis = match (self.is_same(), other.is_same()) {
            (true, _) => other.axis,
            (false, true) => self.axis,
            (false, false) if self.axis == other.axis => self.axis,
            (false, false) => return None,
        };
        Some(Growth {
            start: joined(&self.start, &other.start)?,
            step: joined(&self.step, &other.step)?,
            axis,
        })
    }

    fn times(&self, other: &Growth) -> Option<Growth> {
        let (grows, number) = match other.is_same() {
            true => (self, &other.start),
            false => (other, &self.start),
        };
        let both = self.is_same() || other.is_same();
        Some(Growth {
            start: grows.start.times(number)?,
            step: grows.step.times(number)?,
            axis: grows.axis,
        })
        .filter(|_| both)
    }
}

fn is_wide(array: &XlaArray) -> bool {
    [XlaType::S32, XlaType::S64].contains(&array.element)
}

impl<'a> Body<'a> {
    fn array_of(&self, used: &Use<'a>) -> Option<&XlaArray> {
        self.array(self.value(used).ok()?)
    }

    /// The integers of a value, if they grow evenly.
    pub(crate) fn grid(&self, used: &Use<'a>) -> Option<Grid> {
        if let Some(grid) = self.known.grids.get(&(used.name, used.part)) {
            return Some(grid.clone());
        }
        let integers = self.known.get(used)?;
        let first = integers.first()?;
        let one = integers.iter().all(|n| n == first);
        one.then(|| vec![Growth::same(first.clone())])
    }

    /// Tracks evenly growing integers through an operation with named results.
    pub(crate) fn follow(&mut self, op: &Op<'a>) {
        if let [(name, 1)] = op.results[..]
            && let Some(grid) = self.grown(op, name)
        {
            self.known.grids.insert((name, 0), grid);
        }
    }

    fn grown(&self, op: &Op<'a>, name: &'a str) -> Option<Grid> {
        let &[at] = &self.names.get(name)?[..] else {
            return None;
        };
        let array = self.array(at).filter(|array| is_wide(array))?;
        let operand = |i: usize| op.operands.get(i);
        let one = |i: usize| match &self.grid(operand(i)?)?[..] {
            [one] => Some(one.clone()),
            _ => None,
        };
        let list = |names: [&str; 2]| ints(names.iter().find_map(|name| op.attr(name))?);
        let growth = match op.name {
            "stablehlo.iota" | "stablehlo.dynamic_iota" => {
                let axis = op.attr("dim").or_else(|| op.attr("iota_dimension"))?;
                Growth {
                    start: Size::default(),
                    step: Size::constant(1),
                    axis: usize::try_from(int(axis)?).ok()?,
                }
            }
            "stablehlo.broadcast_in_dim" | "stablehlo.dynamic_broadcast_in_dim" => {
                let one = one(0)?;
                if one.is_same() {
                    return Some(vec![one]);
                }
                let dims = list(["dims", "broadcast_dimensions"])?;
                let axis = usize::try_from(*dims.get(one.axis)?).ok()?;
                let from = self.array_of(operand(0)?)?;
                let stays = from.dims.get(one.axis)? == array.dims.get(axis)?;
                Some(Growth { axis, ..one }).filter(|_| stays)?
            }
            // Dimensions of one element that are appended.
            "stablehlo.reshape" | "stablehlo.dynamic_reshape" => {
                let from = &self.array_of(operand(0)?)?.dims;
                let longer = array.dims.get(..from.len())? == &from[..];
                one(0).filter(|_| longer)?
            }
            "stablehlo.convert" => one(0).filter(|_| {
                let from = operand(0).and_then(|used| self.array_of(used));
                from.is_some_and(is_wide)
            })?,
            "stablehlo.add" => one(0)?.plus(&one(1)?, false)?,
            "stablehlo.subtract" => one(0)?.plus(&one(1)?, true)?,
            "stablehlo.multiply" => one(0)?.times(&one(1)?)?,
            "stablehlo.concatenate" => {
                let dim = int(op.attr("dim").or_else(|| op.attr("dimension"))?)?;
                let last = array.dims.len().checked_sub(1)?;
                let mut all = Grid::new();
                for used in &op.operands {
                    let grid = self.grid(used)?;
                    let own = self.array_of(used)?.dims.get(last)?.clone();
                    let apart = grid.iter().all(|one| one.is_same() || one.axis != last);
                    if own != XlaDim::Size(grid.len() as u64) || !apart {
                        return None;
                    }
                    all.extend(grid);
                }
                let fits = usize::try_from(dim) == Ok(last) && all.len() <= MOST_NUMBERS;
                return fits.then_some(all);
            }
            _ => return None,
        };
        Some(vec![growth])
    }
}
