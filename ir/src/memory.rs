//! Places of values in memory, as attributes of functions and operations.
//!
//! ```mlir
//! module attributes {hbir.memory = "planned"} {
//!   func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> attributes {hbir.arena = 256 : i64} {
//!     %0 = "hbir.exp"(%x) {memory = ["arena 0"]} : (tensor<64xf32>) -> tensor<64xf32>
//!     %1 = "hbir.neg"(%0) {memory = ["over 0"]} : (tensor<64xf32>) -> tensor<64xf32>
//!     %2 = "hbir.add"(%1, %x) {memory = ["result 0"]} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
//! ```
//!
//! `memory` has a [`Place`] for each result. A module whose operations have places is bufferized. If `hbir.memory` is
//! `planned`, the values that need memory of their own have offsets in an arena. Each function has one arena, of
//! `hbir.arena` bytes.

use crate::attr::Attr;
use crate::module::{Func, Module, OpData};
use std::fmt;
use std::str::FromStr;

/// The attribute of an operation with the places of its results.
pub const MEMORY: &str = "memory";
/// The attribute of a module with the [`State`] of its memory.
pub const STATE: &str = "hbir.memory";
/// The attribute of a function with the bytes of its arena.
pub const ARENA: &str = "hbir.arena";
/// The alignment of offsets in an arena, in bytes: a cache line.
pub const ALIGNMENT: u64 = 64;

/// The place of a result of an operation in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// `own`: in memory of its own, without an offset yet.
    Own,
    /// `arena N`: in the function's arena, from byte N on.
    Arena(u64),
    /// `result N`: in the memory that the caller provides for result N of the function.
    Result(usize),
    /// `constant`: a value known before the program runs, kept for all runs.
    Constant,
    /// `alias N`: in the bytes of operand N, which nothing overwrites: a view or a part of it.
    Alias(usize),
    /// `over N`: in the bytes of operand N, which is dead afterwards.
    Over(usize),
    /// `inside`: in the result of a later operation, whose attribute `in_place` lists this value or all parts of it.
    Inside,
    /// `pieces`: in the bytes of all operands, which nothing overwrites: the result of an operation that is
    /// `in_pieces`.
    Pieces,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Own => f.write_str("own"),
            Place::Arena(offset) => write!(f, "arena {offset}"),
            Place::Result(number) => write!(f, "result {number}"),
            Place::Constant => f.write_str("constant"),
            Place::Alias(operand) => write!(f, "alias {operand}"),
            Place::Over(operand) => write!(f, "over {operand}"),
            Place::Inside => f.write_str("inside"),
            Place::Pieces => f.write_str("pieces"),
        }
    }
}

/// A text that is no [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found the place `{0}`, wanted own, constant, inside, pieces, or arena, result, alias or over and a number"
)]
pub struct PlaceError(String);

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Place, PlaceError> {
        let error = || PlaceError(text.to_owned());
        match text {
            "own" => return Ok(Place::Own),
            "constant" => return Ok(Place::Constant),
            "inside" => return Ok(Place::Inside),
            "pieces" => return Ok(Place::Pieces),
            _ => {}
        }
        let (word, number) = text.split_once(' ').ok_or_else(error)?;
        if !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        let number: u64 = number.parse().map_err(|_| error())?;
        let small = usize::try_from(number).map_err(|_| error());
        match word {
            "arena" => Ok(Place::Arena(number)),
            "result" => small.map(Place::Result),
            "alias" => small.map(Place::Alias),
            "over" => small.map(Place::Over),
            _ => Err(error()),
        }
    }
}

/// The degree to which the memory of a module is decided.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Sharing of memory is decided: aliases, values written over others, values inside others.
    Bufferized,
    /// The offsets of all other values in the arena are decided too.
    Planned,
}

impl State {
    /// The word in the text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Bufferized => "bufferized",
            State::Planned => "planned",
        }
    }

    /// The state of a module; `None` if nothing is decided.
    #[must_use]
    pub fn of(module: &Module) -> Option<State> {
        match module.attrs.str(STATE)? {
            "planned" => Some(State::Planned),
            _ => Some(State::Bufferized),
        }
    }

    /// Marks a module as being in this state.
    pub fn set(self, module: &mut Module) {
        module.attrs.set(STATE, Attr::str(self.word()));
    }
}

/// Why an attribute is no list of places, one a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacesError {
    /// The attribute is no list.
    #[error("found no list of places")]
    NoList,
    /// An item of the list is no text.
    #[error("found a place that is no text")]
    NoText,
    /// A text is no place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Not every result has a place.
    #[error("found {found} places, wanted {wanted}, one a result")]
    Number {
        /// The number of places.
        found: usize,
        /// The number of results.
        wanted: usize,
    },
}

/// The places of the results of an operation; `None` if it has no such attribute.
///
/// # Errors
/// The attribute is no list of places, one a result.
pub fn places(data: &OpData) -> Result<Option<Vec<Place>>, PlacesError> {
    let Some(attr) = data.attrs.get(MEMORY) else {
        return Ok(None);
    };
    let list = attr.as_array().ok_or(PlacesError::NoList)?;
    let place = |item: &Attr| {
        let text = item.as_str().ok_or(PlacesError::NoText)?;
        Ok(text.parse::<Place>()?)
    };
    let places: Vec<Place> = list.iter().map(place).collect::<Result<_, PlacesError>>()?;
    let (found, wanted) = (places.len(), data.results.len());
    match found == wanted {
        true => Ok(Some(places)),
        false => Err(PlacesError::Number { found, wanted }),
    }
}

/// Writes the places of the results of an operation.
pub fn set_places(data: &mut OpData, places: &[Place]) {
    let list = places.iter().map(|p| Attr::str(&p.to_string())).collect();
    data.attrs.set(MEMORY, Attr::Array(list));
}

/// The bytes of a function's arena; 0 where it has none.
#[must_use]
pub fn arena(func: &Func) -> u64 {
    let size = func.attrs.get(ARENA).and_then(Attr::as_int);
    size.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

/// Removes all decisions about the memory of a module.
pub fn clear(module: &mut Module) {
    module.attrs.remove(STATE);
    for func in &mut module.funcs {
        func.attrs.remove(ARENA);
        for &op in &func.body {
            func.ops[op].attrs.remove(MEMORY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let all = [
            Place::Own,
            Place::Arena(4096),
            Place::Result(1),
            Place::Constant,
            Place::Alias(0),
            Place::Over(2),
            Place::Inside,
            Place::Pieces,
        ];
        for place in all {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        for text in [
            "", "arena", "arena -1", "arena +1", "own 1", "over x", "alias  1",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
