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

    /// The ports that hold one value, or the same value of successive rounds: they have one type, and what lays one out lays out
    /// all. `operands` and `results` are how many the operation has, `arguments` how many each of [`Control::functions`] has.
    /// Ports that share their value with no other one are left out. `None` where these numbers do not fit.
    #[must_use]
    pub fn joined(
        &self,
        operands: usize,
        results: usize,
        arguments: &[usize],
    ) -> Option<Vec<Vec<Joint>>> {
        let whole = |place: Place| Joint { place, axis: None };
        let part = |place: Place, axis: usize| Joint {
            place,
            axis: Some(axis),
        };
        let mut all = Vec::new();
        match self {
            Control::Loop { .. } => {
                let fits = operands == results && *arguments == [operands, operands];
                let carried = |i| {
                    vec![
                        whole(Place::Operand(i)),
                        whole(Place::Argument(0, i)),
                        whole(Place::Argument(1, i)),
                        whole(Place::Given(1, i)),
                        whole(Place::Result(i)),
                    ]
                };
                fits.then(|| (0..operands).map(carried).collect())
            }
            Control::Branch(functions) => {
                let mut next = 1;
                for (number, &count) in arguments.iter().enumerate() {
                    let argument = |i| {
                        vec![
                            whole(Place::Operand(next + i)),
                            whole(Place::Argument(number, i)),
                        ]
                    };
                    all.extend((0..count).map(argument));
                    next += count;
                }
                let result = |i| {
                    let given = (0..functions.len()).map(|f| whole(Place::Given(f, i)));
                    given.chain([whole(Place::Result(i))]).collect()
                };
                all.extend((0..results).map(result));
                (next == operands && arguments.len() == functions.len()).then_some(all)
            }
            Control::Rounds {
                limit,
                condition,
                carried,
                ..
            } => {
                let first = usize::from(*limit) + usize::from(*condition);
                let rest = operands.checked_sub(first + carried)?;
                results.checked_sub(*carried)?;
                for i in 0..*carried {
                    all.push(vec![
                        whole(Place::Operand(first + i)),
                        whole(Place::Argument(0, 2 + i)),
                        whole(Place::Given(0, 1 + i)),
                        whole(Place::Result(i)),
                    ]);
                }
                let given = *carried..carried + rest;
                all.extend(given.map(|i| {
                    vec![
                        whole(Place::Operand(first + i)),
                        whole(Place::Argument(0, 2 + i)),
                    ]
                }));
                all.extend(
                    (*carried..results)
                        .map(|i| vec![part(Place::Result(i), 0), whole(Place::Given(0, 1 + i))]),
                );
                (*arguments == [2 + carried + rest]).then_some(all)
            }
            Control::Scan {
                carried,
                apart,
                stacked,
                ..
            } => {
                let taken = carried + apart.len();
                let fits = taken <= operands
                    && *arguments == [operands]
                    && carried + stacked.len() == results;
                for i in 0..operands {
                    let apart = i.checked_sub(*carried).and_then(|i| apart.get(i));
                    let operand = Place::Operand(i);
                    let mut ports = vec![whole(Place::Argument(0, i))];
                    ports.push(match apart {
                        Some(slices) => part(operand, slices.axis),
                        None => whole(operand),
                    });
                    if i < *carried {
                        ports.extend([whole(Place::Given(0, i)), whole(Place::Result(i))]);
                    }
                    all.push(ports);
                }
                let stacked = stacked.iter().zip(*carried..);
                all.extend(stacked.map(|(slices, i)| {
                    vec![
                        part(Place::Result(i), slices.axis),
                        whole(Place::Given(0, i)),
                    ]
                }));
                fits.then_some(all)
            }
        }
    }
}

/// A port of an operation that runs functions, or of one of these, by their number in [`Control::functions`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// An operand of the operation.
    Operand(usize),
    /// A result of the operation.
    Result(usize),
    /// An argument of a function.
    Argument(usize, usize),
    /// A result of a function.
    Given(usize, usize),
}

/// A port that holds a value which other ports hold too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joint {
    /// Where it is held.
    pub place: Place,
    /// Of a port that holds the values of all rounds, the dimension along which they follow one another.
    pub axis: Option<usize>,
}

impl Joint {
    /// The dimensions of the value of one round, in the order of those at the port: without that along which rounds follow one another.
    #[must_use]
    pub fn of_one_round(&self, order: &[usize]) -> Vec<usize> {
        let Some(axis) = self.axis else {
            return order.to_vec();
        };
        let rest = order.iter().filter(|&&dim| dim != axis);
        rest.map(|&dim| dim - usize::from(axis < dim)).collect()
    }
}
