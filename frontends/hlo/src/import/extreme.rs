//! Reductions that find the position of the greatest or least element (`jnp.argmax`).
//!
//! Such a reduction is over elements and their positions, an `iota` along the reduced dimension. Its computation takes the
//! first element if it is greater than the second one or NaN, and of equal elements the lower position. Any order of
//! combinations gives the first NaN, else the first of the greatest elements: `hbir.arg_max`.

use super::elementwise::Reducer;
use super::func::{FuncCx, Operands};
use super::types::{dtype, tensor};
use crate::module::{Computation, Instruction};
use optc_ir::{DType, Value};
use optc_ops::{ArgMax, ArgMin};

impl FuncCx<'_, '_> {
    /// The extreme elements of a reduction, and their positions; `None` if it is another one.
    pub(super) fn extreme(
        &mut self,
        made: &Instruction,
        operands: &Operands,
    ) -> Option<Vec<Option<Value>>> {
        if made.opcode != "reduce" || operands.len() != 4 {
            return None;
        }
        let single = |leaves: &Vec<Option<Value>>| match leaves[..] {
            [Some(value)] => Some(value),
            _ => None,
        };
        let values: Vec<Value> = operands.iter().map(single).collect::<Option<_>>()?;
        let &[x, positions, start, first] = &values[..] else {
            return None;
        };
        let axes = made.attrs.ints("dimensions")?;
        let &[axis] = &axes[..] else { return None };
        let counted = &self.computation.instructions[made.operands[1]];
        let along = counted.attrs.int("iota_dimension");
        // Narrow positions wrap around.
        let dtype = self.tensor_of(positions)?.dtype;
        let wide = dtype.is_int() && 32 <= dtype.bits();
        if counted.opcode != "iota" || along != Some(axis) || !wide {
            return None;
        }
        let &[index] = made.called("to_apply")? else {
            return None;
        };
        let kind = better(&self.cx.hlo.computations[index])?;
        let element = self.tensor_of(x)?.dtype;
        let begins = kind.starts_from(self.known_scalar(start)?, element);
        if !begins || self.known_scalar(first)? != 0.0 {
            return None;
        }
        let parts = made.shape.parts();
        let [value, place] = &parts[..] else {
            return None;
        };
        let (value, place) = (tensor(value.as_array()?)?, tensor(place.as_array()?)?);
        let greatest = self.reduced(kind, x, start, &axes, &value)?;
        let mut own = place.clone();
        own.dtype = DType::SI64;
        let (keepdims, select_last_index) = (false, false);
        let greatest_at = ArgMax {
            axis,
            keepdims,
            select_last_index,
        };
        let least_at = ArgMin {
            axis,
            keepdims,
            select_last_index,
        };
        let found = match kind {
            Reducer::Max => self.emit(&greatest_at, &[x], own)?,
            _ => self.emit(&least_at, &[x], own)?,
        };
        let found = self.cast(found, &place)?;
        Some(vec![Some(greatest), Some(found)])
    }
}

/// Maximum or minimum, if a computation of two elements with their positions takes the better element, NaN before all
/// others, and the lower position of equal ones.
fn better(computation: &Computation) -> Option<Reducer> {
    let &[a, i, b, k] = &computation.parameters()[..] else {
        return None;
    };
    let at = |index: usize| &computation.instructions[index];
    let read = |index: usize, opcode: &str| {
        let found = at(index);
        (found.opcode == opcode).then_some(&found.operands[..])
    };
    let compared = |index: usize, of: [usize; 2]| {
        let total = at(index).attrs.get("type") == Some("TOTALORDER");
        let is_so = read(index, "compare")? == of && !total;
        is_so.then(|| at(index).attrs.get("direction")).flatten()
    };
    let &[element, place] = read(computation.root, "tuple")? else {
        return None;
    };
    let (&[first, x, y], &[lower, m, n]) = (read(element, "select")?, read(place, "select")?)
    else {
        return None;
    };
    if [x, y, m, n] != [a, b, i, k] {
        return None;
    }
    // Of integers, only the comparison is needed.
    let wins = match (read(first, "or"), is_float(computation, a)?) {
        (Some(&[wins, nan]), _) if compared(nan, [a, a]) == Some("NE") => wins,
        (None, false) => first,
        _ => return None,
    };
    let &[before, tied] = read(lower, "or")? else {
        return None;
    };
    let &[equal, less] = read(tied, "and")? else {
        return None;
    };
    let breaks = before == first
        && compared(equal, [a, b]) == Some("EQ")
        && compared(less, [i, k]) == Some("LT");
    match compared(wins, [a, b]).filter(|_| breaks)? {
        "GT" => Some(Reducer::Max),
        "LT" => Some(Reducer::Min),
        _ => None,
    }
}

fn is_float(computation: &Computation, index: usize) -> Option<bool> {
    let array = computation.instructions[index].shape.as_array()?;
    Some(dtype(array.element)?.is_float())
}
