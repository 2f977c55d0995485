//! Operations that run functions of the module.

use std::sync::Arc;

/// Which functions an operation runs, and when: what an interpreter needs to run an operation that computes nothing by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// While `condition` of the values gives true, `body` of the values gives the next ones. The operands are the first values, the
    /// results the last ones.
    Loop {
        /// The function that tells whether the loop goes on.
        condition: Arc<str>,
        /// The function that is run again and again.
        body: Arc<str>,
    },
    /// One of several functions gives the results. The operands are a scalar that tells which one, then those of each function in
    /// turn. A truth value takes the first function where it is true, else the second; a number counts from 0, and one that is no
    /// function's takes the last.
    Branch(Vec<Arc<str>>),
    /// A function that is run for the rounds 0, 1, … while a truth value holds. The operands are how many rounds there are at most and
    /// the truth value of the first one, where the operation has these, then the first carried values and what every round is given
    /// alike. The arguments are the number of the round, its truth value, the carried values and what is given; the results are the
    /// truth value of the next round, the next carried values and parts. The operation's results are the last carried values and,
    /// stacked along a new dimension 0, the parts.
    Rounds {
        /// The function that is run.
        body: Arc<str>,
        /// Whether the first operand is the most rounds.
        limit: bool,
        /// Whether the next operand is the truth value of the first round, which is true otherwise.
        condition: bool,
        /// How many values are carried.
        carried: usize,
    },
    /// A function that is run for every part of some operands. The operands are the first carried values, those that are taken apart,
    /// and what every round is given alike. The arguments are the carried values, one part of each, and what is given; the results
    /// are the next carried values and parts. The operation's results are the last carried values and the parts, stacked.
    Scan {
        /// The function that is run.
        body: Arc<str>,
        /// How many values are carried.
        carried: usize,
        /// Along which dimension each operand is taken apart.
        apart: Vec<Slices>,
        /// Along which dimension the parts are stacked.
        stacked: Vec<Slices>,
    },
}

/// The dimension along which parts of a value follow one another; the parts do not have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slices {
    /// The dimension of the value.
    pub axis: usize,
    /// Whether the first round has the last part.
    pub reverse: bool,
}

impl Control {
    /// The functions, in order.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<str>> {
        let (two, any) = match self {
            Control::Loop { condition, body } => ([Some(condition), Some(body)], &[][..]),
            Control::Branch(functions) => ([None, None], functions.as_slice()),
            Control::Rounds { body, .. } | Control::Scan { body, .. } => {
                ([Some(body), None], &[][..])
            }
        };
        two.into_iter().flatten().chain(any)
    }
}
