//! Order: the place of each operation in the body, so that "before" is a comparison of numbers.

use crate::entity::SideTable;
use crate::module::{Func, Op, Value, ValueDef};

/// The places of the operations of a function.
#[derive(Clone, Debug)]
pub struct Order {
    places: SideTable<Op, Option<usize>>,
    numbers: SideTable<Op, Option<usize>>,
}

impl Order {
    /// The order of the body.
    #[must_use]
    pub fn of(func: &Func) -> Order {
        let mut places = SideTable::new(None);
        let mut numbers = SideTable::new(None);
        let mut number = 0;
        for (place, &op) in func.body.iter().enumerate() {
            places[op] = Some(place);
            if !func.ops[op].results.is_empty() {
                numbers[op] = Some(number);
                number += 1;
            }
        }
        Order { places, numbers }
    }

    /// The place of an operation in the body; `None` for one that is not in it.
    #[must_use]
    pub fn place(&self, op: Op) -> Option<usize> {
        self.places[op]
    }

    /// The number that the printed text gives to the results of an operation; `None` for an operation without results.
    #[must_use]
    pub fn number(&self, op: Op) -> Option<usize> {
        self.numbers[op]
    }

    /// The place of the operation that defines a value, and the number of the value among its results; `None` for an
    /// argument.
    #[must_use]
    pub fn definition(&self, func: &Func, value: Value) -> Option<(usize, usize)> {
        match func.values[value].def {
            ValueDef::Arg(_) => None,
            ValueDef::Result(op, result) => Some((self.place(op)?, result)),
        }
    }
}
