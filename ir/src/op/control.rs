//! Operations that run functions of the module.

use std::sync::Arc;

/// The functions that an operation runs, and the order in which it runs them. An interpreter needs this for operations
/// that compute nothing themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// Runs `condition` on the values; while it is true, runs `body` on them, which returns the next values. The
    /// operands are the first values, the results the last ones.
    Loop {
        /// The function that decides whether the loop continues.
        condition: Arc<str>,
        /// The function that is the body of the loop.
        body: Arc<str>,
    },
    /// Runs one of several functions, which gives the results. The operands are a scalar that selects the function,
    /// then the arguments of the first function, of the second, and so on. A boolean selects the first function if
    /// true, else the second. An integer counts from 0; one that is out of range selects the last function.
    Branch(Vec<Arc<str>>),
    /// Runs a function for the rounds 0, 1, … while a boolean is true.
    ///
    /// - The operands are: the maximal number of rounds and the boolean of the first round (if the operation has
    ///   these), the initial carried values, and values that every round gets unchanged.
    /// - The arguments of the function are: the number of the round, its boolean, the carried values, and the unchanged
    ///   values.
    /// - The results of the function are: the boolean of the next round, the next carried values, and one slice for
    ///   each remaining result.
    /// - The results of the operation are: the last carried values, and the slices stacked along a new dimension 0.
    Rounds {
        /// The function that is run.
        body: Arc<str>,
        /// True if the first operand is the maximal number of rounds.
        limit: bool,
        /// True if the next operand is the boolean of the first round. Otherwise that boolean is true.
        condition: bool,
        /// The number of carried values.
        carried: usize,
    },
    /// Runs a function for every slice of some operands.
    ///
    /// - The operands are: the initial carried values, the sliced values, and values that every round gets unchanged.
    /// - The arguments of the function are: the carried values, one slice of each sliced value, and the unchanged
    ///   values.
    /// - The results of the function are: the next carried values, and slices.
    /// - The results of the operation are: the last carried values, and the slices, stacked.
    Scan {
        /// The function that is run.
        body: Arc<str>,
        /// The number of carried values.
        carried: usize,
        /// For each sliced operand, the dimension along which it is sliced.
        apart: Vec<Slices>,
        /// For each stacked result, the dimension along which slices are stacked.
        stacked: Vec<Slices>,
    },
}

/// The dimension of a value along which its slices follow one another. The slices do not have this dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slices {
    /// The dimension of the value.
    pub axis: usize,
    /// True if the first round has the last slice.
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

    /// Sets of ports that hold one value, or the values of successive rounds. The ports of a set have one type, and so
    /// one layout. `operands` and `results` are the numbers of ports of the operation; `arguments` has the number of
    /// arguments of each of [`Control::functions`]. A port that shares its value with no other port is left out. `None`
    /// if these numbers do not fit the operation.
    #[must_use]
    pub fn joined(
        &self,
        operands: usize,
        results: usize,
        arguments: &[usize],
    ) -> Option<Vec<Vec<Joint>>> {
        match self {
            Control::Loop { .. } => joined_of_loop(operands, results, arguments),
            Control::Branch(functions) => {
                joined_of_branch(functions.len(), operands, results, arguments)
            }
            Control::Rounds {
                limit,
                condition,
                carried,
                ..
            } => {
                let first = usize::from(*limit) + usize::from(*condition);
                joined_of_rounds([first, *carried], operands, results, arguments)
            }
            Control::Scan {
                carried,
                apart,
                stacked,
                ..
            } => joined_of_scan(*carried, [apart, stacked], operands, results, arguments),
        }
    }
}

fn joined_of_loop(operands: usize, results: usize, arguments: &[usize]) -> Option<Vec<Vec<Joint>>> {
    let fits = operands == results && *arguments == [operands, operands];
    let carried = |i| {
        vec![
            Joint::whole(ControlPort::Operand(i)),
            Joint::whole(ControlPort::Argument(0, i)),
            Joint::whole(ControlPort::Argument(1, i)),
            Joint::whole(ControlPort::Given(1, i)),
            Joint::whole(ControlPort::Result(i)),
        ]
    };
    fits.then(|| (0..operands).map(carried).collect())
}

fn joined_of_branch(
    functions: usize,
    operands: usize,
    results: usize,
    arguments: &[usize],
) -> Option<Vec<Vec<Joint>>> {
    let mut all = Vec::new();
    let mut next = 1;
    for (number, &count) in arguments.iter().enumerate() {
        let argument = |i| {
            vec![
                Joint::whole(ControlPort::Operand(next + i)),
                Joint::whole(ControlPort::Argument(number, i)),
            ]
        };
        all.extend((0..count).map(argument));
        next += count;
    }
    let result = |i| {
        let given = (0..functions).map(|f| Joint::whole(ControlPort::Given(f, i)));
        given
            .chain([Joint::whole(ControlPort::Result(i))])
            .collect()
    };
    all.extend((0..results).map(result));
    (next == operands && arguments.len() == functions).then_some(all)
}

/// `first` is the number of the first operand that is carried.
fn joined_of_rounds(
    [first, carried]: [usize; 2],
    operands: usize,
    results: usize,
    arguments: &[usize],
) -> Option<Vec<Vec<Joint>>> {
    let rest = operands.checked_sub(first + carried)?;
    results.checked_sub(carried)?;
    let argument = |i| {
        vec![
            Joint::whole(ControlPort::Operand(first + i)),
            Joint::whole(ControlPort::Argument(0, 2 + i)),
        ]
    };
    let round = |i| {
        let mut ports = argument(i);
        ports.push(Joint::whole(ControlPort::Given(0, 1 + i)));
        ports.push(Joint::whole(ControlPort::Result(i)));
        ports
    };
    let stacked = |i| {
        vec![
            Joint::part(ControlPort::Result(i), 0),
            Joint::whole(ControlPort::Given(0, 1 + i)),
        ]
    };
    let all = (0..carried).map(round);
    let all = all.chain((carried..carried + rest).map(argument));
    let all = all.chain((carried..results).map(stacked));
    (*arguments == [2 + carried + rest]).then(|| all.collect())
}

fn joined_of_scan(
    carried: usize,
    [apart, stacked]: [&[Slices]; 2],
    operands: usize,
    results: usize,
    arguments: &[usize],
) -> Option<Vec<Vec<Joint>>> {
    let taken = carried + apart.len();
    let fits = taken <= operands && *arguments == [operands] && carried + stacked.len() == results;
    let mut all = Vec::new();
    for i in 0..operands {
        let apart = i.checked_sub(carried).and_then(|i| apart.get(i));
        let operand = ControlPort::Operand(i);
        let mut ports = vec![Joint::whole(ControlPort::Argument(0, i))];
        ports.push(match apart {
            Some(slices) => Joint::part(operand, slices.axis),
            None => Joint::whole(operand),
        });
        if i < carried {
            ports.push(Joint::whole(ControlPort::Given(0, i)));
            ports.push(Joint::whole(ControlPort::Result(i)));
        }
        all.push(ports);
    }
    all.extend(stacked.iter().zip(carried..).map(|(slices, i)| {
        vec![
            Joint::part(ControlPort::Result(i), slices.axis),
            Joint::whole(ControlPort::Given(0, i)),
        ]
    }));
    fits.then_some(all)
}

/// A port of an operation that runs functions, or a port of one of these functions. The first number of
/// [`ControlPort::Argument`] and [`ControlPort::Given`] is the index of the function in [`Control::functions`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlPort {
    /// An operand of the operation.
    Operand(usize),
    /// A result of the operation.
    Result(usize),
    /// An argument of a function.
    Argument(usize, usize),
    /// A result of a function.
    Given(usize, usize),
}

/// A port that holds the same value as other ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joint {
    /// The port.
    pub place: ControlPort,
    /// The dimension along which the values of the rounds follow one another, if the port holds those of all rounds.
    pub axis: Option<usize>,
}

impl Joint {
    /// A port that holds one value, or that of one round.
    fn whole(place: ControlPort) -> Joint {
        Joint { place, axis: None }
    }

    /// A port that holds the values of all rounds along an axis.
    fn part(place: ControlPort, axis: usize) -> Joint {
        let axis = Some(axis);
        Joint { place, axis }
    }

    /// Converts an order of the dimensions at this port into the order of the value of one round: the dimension along
    /// which rounds follow one another is removed.
    #[must_use]
    pub fn of_one_round(&self, order: &[usize]) -> Vec<usize> {
        let Some(axis) = self.axis else {
            return order.to_vec();
        };
        let rest = order.iter().filter(|&&dim| dim != axis);
        rest.map(|&dim| dim - usize::from(axis < dim)).collect()
    }
}
