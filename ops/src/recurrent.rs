//! `hbir.recurrent`: a recurrent network of one layer (ONNX `LSTM`, `GRU` and `RNN` with their own activations).
//!
//! Operands, where `D` is the number of directions (1 or 2) and `g` the number of gates:
//!
//! - the sequence `[S, B, I]`,
//! - the weights of inputs `[D, g·H, I]` and of states `[D, g·H, H]`,
//! - the biases of both `[D, 2·g·H]`,
//! - optionally the initial state `[D, B, H]` and, for an LSTM, the initial cells; both are zeros when absent,
//! - with `lengths`, the number of elements of each sequence `[B]`. The states of later steps are 0, and the reverse
//!   direction starts with the last element.
//!
//! The gates are in the order of ONNX: i, o, f, c for an LSTM (`g` = 4), z, r, h for a GRU (3), and one for a plain
//! network.
//!
//! Results: the states of all steps `[S, D, B, H]`, the last state `[D, B, H]` and, for an LSTM, the last cells.
//! Everything is computed in `f64` and rounded once.

use crate::prelude::*;

words! {
    /// The cell of a [`Recurrent`].
    pub enum Cell {
        /// A state and a cell, updated with four gates.
        Lstm = "lstm",
        /// A state, updated with three gates.
        Gru = "gru",
        /// A state: the hyperbolic tangent of a sum.
        Plain = "plain",
    }
}

words! {
    /// The order in which a [`Recurrent`] reads its sequence.
    pub enum Reading {
        /// From the first element to the last.
        Forward = "forward",
        /// From the last element to the first.
        Reverse = "reverse",
        /// In both orders; the results of the two directions are separate.
        Bidirectional = "bidirectional",
    }
}

attributes! {
    /// A recurrent network of one layer.
    pub struct Recurrent {
        /// The cell.
        cell: Cell [RECURRENT_C1],
        /// The order in which the sequence is read.
        direction: Reading [RECURRENT_C1] = Reading::Forward,
        /// True if a GRU multiplies the state by its weights before it applies the reset gate.
        linear_before_reset: bool = false,
        /// True if the last operand holds the length of each sequence; otherwise all sequences have the full length.
        lengths: bool = false,
    }
}

impl Cell {
    /// The number of gates.
    #[must_use]
    pub fn gates(self) -> u64 {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Plain => 1,
        }
    }

    /// The number of tensors that are carried from one step to the next.
    #[must_use]
    pub fn kept(self) -> usize {
        match self {
            Cell::Lstm => 2,
            Cell::Gru | Cell::Plain => 1,
        }
    }
}

impl Recurrent {
    /// The number of initial states among the operands.
    fn states(&self, operands: usize) -> usize {
        operands.saturating_sub(4 + usize::from(self.lengths))
    }

    fn directions(&self) -> u64 {
        match self.direction {
            Reading::Forward | Reading::Reverse => 1,
            Reading::Bidirectional => 2,
        }
    }
}

impl Operation for Recurrent {
    const NAME: &'static str = "hbir.recurrent";
    const SUMMARY: &'static str = "a recurrent network of one layer";
    const FAMILY: &'static str = "operator";
    const OPERANDS: (usize, usize) = (4, 7);
    const CODES: &'static [Code] = CODES;

    /// C2: all operands are floats, except for lengths, which are integers. C3: the shapes of all operands agree, and
    /// there are no initial states or as many as the cell carries.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let dtype = wants_float(op, RECURRENT_C2, 0)?;
        let (x, r) = (op.operand(0)?, op.operand(2)?);
        let unfit = |i: usize, wanted: &[Dim]| {
            let found = op.operand(i).map(|ty| show(&ty.dims)).unwrap_or_default();
            let message = format!(
                "{} of {found} in operand {i}, wanted {}",
                op.name,
                show(wanted)
            );
            OpError::new(RECURRENT_C3, message)
        };
        let ([sequence, batch, read], Some(kept)) = (&x.dims[..], r.dims.get(2)) else {
            let any = vec![Dim::Unknown; 3];
            return Err(unfit(usize::from(x.rank() == 3) * 2, &any));
        };
        let (directions, gates) = (Dim::Fixed(self.directions()), self.cell.gates());
        let rows = |n: u64| {
            let rows = kept.fixed().and_then(|hidden| hidden.checked_mul(n));
            rows.map_or(Dim::Unknown, Dim::Fixed)
        };
        let kept = kept.clone();
        let states = self.states(op.operands.len());
        let mut batch = batch.clone();
        let mut wanted = vec![
            vec![sequence.clone(), batch.clone(), read.clone()],
            vec![directions.clone(), rows(gates), read.clone()],
            vec![directions.clone(), rows(gates), kept.clone()],
            vec![directions.clone(), rows(2 * gates)],
        ];
        wanted.resize(
            4 + states,
            vec![directions.clone(), batch.clone(), kept.clone()],
        );
        if self.lengths {
            wanted.push(vec![batch.clone()]);
        }
        for (i, wanted) in wanted.iter().enumerate() {
            match self.lengths && i == 4 + states {
                true => wants_index(op, RECURRENT_C2, i)?,
                false => wants_float(op, RECURRENT_C2, i).map(|_| ())?,
            }
            let found = &op.operand(i)?.dims;
            let pairs = found.iter().zip(wanted);
            let fits =
                found.len() == wanted.len() && pairs.clone().all(|(a, b)| unify(a, b).is_some());
            if !fits {
                return Err(unfit(i, wanted));
            }
            let at = usize::from(found.len() == 3);
            if 4 <= i
                && let Some(known) = unify(&batch, &found[at])
            {
                batch = known;
            }
        }
        if states != 0 && states != self.cell.kept() {
            let message = format!(
                "{} has {states} initial states, wanted none or {}",
                op.name,
                self.cell.kept()
            );
            return Err(OpError::new(RECURRENT_C3, message));
        }
        let result = |dims: Vec<Dim>| Inferred { dims, dtype };
        let all = vec![
            sequence.clone(),
            directions.clone(),
            batch.clone(),
            kept.clone(),
        ];
        let last = result(vec![directions, batch, kept]);
        let mut results = vec![result(all)];
        results.resize(1 + self.cell.kept(), last);
        Ok(results)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let given: Vec<Vec<f64>> = call.inputs.iter().map(|t| t.to_f64()).collect();
        let shape = call.shape();
        let [sequence, directions, batch, hidden] = shape[..] else {
            return Err(EvalError::new("a recurrent network gives four dimensions"));
        };
        let read = call.input(0).shape[2];
        let n_gates = usize::try_from(self.cell.gates()).unwrap_or(1);
        let plane = batch * hidden;
        let states = self.states(given.len());
        let lengths = given.last().filter(|_| self.lengths);
        let is_over = |at: usize, b: usize| lengths.is_some_and(|n| n[b] <= at as f64);
        let mut all = vec![0.0; sequence * directions * plane];
        let mut last = vec![vec![0.0; directions * plane]; self.cell.kept()];
        for d in 0..directions {
            let layer = Layer {
                cell: self.cell,
                linear_before_reset: self.linear_before_reset,
                inputs: part(&given[1], directions, d),
                states: part(&given[2], directions, d),
                biases: part(&given[3], directions, d),
                hidden,
                n_gates,
            };
            let mut kept: Vec<Vec<f64>> = (0..self.cell.kept())
                .map(|i| match given.get(4 + i).filter(|_| i < states) {
                    Some(initial) => part(initial, directions, d).to_vec(),
                    None => vec![0.0; plane],
                })
                .collect();
            let backwards = self.direction == Reading::Reverse || d == 1;
            for step in 0..sequence {
                let at = match backwards {
                    true => sequence - 1 - step,
                    false => step,
                };
                let now = &mut all[(at * directions + d) * plane..][..plane];
                for b in (0..batch).filter(|&b| !is_over(at, b)) {
                    let x = &given[0][(at * batch + b) * read..][..read];
                    layer.step(x, b, &mut kept);
                    let own = b * hidden..(b + 1) * hidden;
                    now[own.clone()].copy_from_slice(&kept[0][own]);
                }
            }
            for (last, kept) in last.iter_mut().zip(&kept) {
                last[d * plane..][..plane].copy_from_slice(kept);
            }
        }
        let mut results = call.floats(all);
        for (values, target) in last.into_iter().zip(&call.results[1..]) {
            results.push(Tensor::from_f64(target.dtype, target.shape.clone(), values));
        }
        Ok(results)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let [sequence, batch, read, direction, kept] = [
            (&x.dims[0], LoopKind::Whole),
            (&x.dims[1], LoopKind::Parallel),
            (&x.dims[2], LoopKind::Whole),
            (&y.dims[1], LoopKind::Whole),
            (&y.dims[3], LoopKind::Whole),
        ]
        .map(|(dim, kind)| domain.add_for(dim, kind));
        for id in [sequence, read, direction, kept] {
            domain.uncut(id);
        }
        let state = IndexExpr::each(&[direction, batch, kept]);
        domain.operands[0] = IndexExpr::each(&[sequence, batch, read]);
        for i in 4..op.operands.len() {
            domain.operands[i] = match op.operand(i)?.rank() {
                1 => IndexExpr::each(&[batch]),
                _ => state.clone(),
            };
        }
        domain.results.fill(state);
        domain.results[0] = IndexExpr::each(&[sequence, direction, batch, kept]);
        Ok(domain)
    }
}

/// Part `at` of `n` equal parts.
fn part(all: &[f64], n: usize, at: usize) -> &[f64] {
    let size = all.len() / n.max(1);
    &all[at * size..][..size]
}

/// The weights of one direction.
struct Layer<'a> {
    cell: Cell,
    linear_before_reset: bool,
    inputs: &'a [f64],
    states: &'a [f64],
    biases: &'a [f64],
    hidden: usize,
    n_gates: usize,
}

impl Layer<'_> {
    /// The product of row `row` of the input weights with an input, plus the bias.
    fn of_input(&self, row: usize, x: &[f64]) -> f64 {
        dot(&self.inputs[row * x.len()..], x) + self.biases[row]
    }

    /// The product of row `row` of the state weights with a state, plus the bias.
    fn of_state(&self, row: usize, h: &[f64]) -> f64 {
        let bias = self.biases[self.n_gates * self.hidden + row];
        dot(&self.states[row * h.len()..], h) + bias
    }

    /// Computes the next state of element `b` of the batch.
    fn step(&self, x: &[f64], b: usize, kept: &mut [Vec<f64>]) {
        let n = self.hidden;
        let own = b * n..(b + 1) * n;
        let h = kept[0][own.clone()].to_vec();
        let sum = |gate: usize, j: usize| {
            self.of_input(gate * n + j, x) + self.of_state(gate * n + j, &h)
        };
        match self.cell {
            Cell::Plain => {
                for j in 0..n {
                    kept[0][own.start + j] = sum(0, j).tanh();
                }
            }
            Cell::Lstm => {
                for j in 0..n {
                    let [input, output, forget] = [0, 1, 2].map(|gate| sigmoid(sum(gate, j)));
                    let cell = forget * kept[1][own.start + j] + input * sum(3, j).tanh();
                    kept[1][own.start + j] = cell;
                    kept[0][own.start + j] = output * cell.tanh();
                }
            }
            Cell::Gru => {
                let reset: Vec<f64> = (0..n).map(|j| sigmoid(sum(1, j))).collect();
                let cleared: Vec<f64> = h.iter().zip(&reset).map(|(h, r)| h * r).collect();
                for j in 0..n {
                    let update = sigmoid(sum(0, j));
                    let row = 2 * n + j;
                    let remembered = match self.linear_before_reset {
                        true => reset[j] * self.of_state(row, &h),
                        false => self.of_state(row, &cleared),
                    };
                    let new = (self.of_input(row, x) + remembered).tanh();
                    kept[0][own.start + j] = (1.0 - update) * new + update * h[j];
                }
            }
        }
    }
}

fn dot(row: &[f64], x: &[f64]) -> f64 {
    row.iter().zip(x).map(|(a, b)| a * b).sum()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

codes! {
    const CODES;

    RECURRENT_C1 = program(
        "`cell` or `direction` of `hbir.recurrent` is no known word",
        r#"%0, %1 = "hbir.recurrent"(%x, %w, %r, %b) <{cell = "rnn"}> : (tensor<2x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x2xf32>) -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>)"#,
        "use one of the words that the message lists",
    );
    RECURRENT_C2 = program(
        "`hbir.recurrent` of integers or booleans, wanted floats, or with lengths that are no integers",
        r#"%0, %1 = "hbir.recurrent"(%x, %w, %r, %b) <{cell = "plain"}> : (tensor<2x1x1xsi32>, tensor<1x1x1xsi32>, tensor<1x1x1xsi32>, tensor<1x2xsi32>) -> (tensor<2x1x1x1xsi32>, tensor<1x1x1xsi32>)"#,
        "cast the operands to a float type",
    );
    RECURRENT_C3 = program(
        "sequence, weights, biases, initial states or lengths of `hbir.recurrent` do not fit each other",
        r#"%0, %1 = "hbir.recurrent"(%x, %w, %r, %b) <{cell = "plain"}> : (tensor<2x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1xf32>) -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>)"#,
        "give `[S, B, I]`, `[D, g·H, I]`, `[D, g·H, H]`, `[D, 2·g·H]`, initial states `[D, B, H]` and lengths `[B]`",
    );
}
