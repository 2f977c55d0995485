//! Recurrent networks. The products of all inputs by the gates' weights are one matrix product; then each step multiplies
//! its state and applies the gates in one loop. Constant weights are packed when the program is prepared, others once a
//! run.
//!
//! For an LSTM of 20 steps, a batch of 8 and 512 hidden units, the first product has 160 rows by 2048 columns. Each of the
//! 20 steps then multiplies 8 rows of the state by 2048 columns.

use crate::access::Access;
use crate::buffer::gather;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::nest::Nest;
use crate::ops::kernel::{Call, Kernel, Site};
use half::{bf16, f16};
use optc_ir::{Operation, Tensor};
use optc_kernels::element::{Element, Kind, elements, elements_mut};
use optc_kernels::error::KernelError;
use optc_kernels::gates::{PackedColumns, ROWS};
use optc_kernels::gemm::Scratch;
use optc_kernels::math::{sigmoid, tanh};
use optc_kernels::team::{self, Share, Team};
use optc_kernels::vectorized::vectorized_wide;
use optc_ops::{Cell, Reading, Recurrent};
use std::cell::Cell as Kept;
use std::ops::Range;

/// A recurrent network of one layer, of floats.
#[derive(Debug)]
pub(crate) struct Network {
    cell: Cell,
    linear_before_reset: bool,
    /// For each direction, true if it reads the sequence from the last element to the first.
    backwards: Vec<bool>,
    sizes: Sizes,
    operands: Vec<Place>,
    /// The slot of the lengths of sequences, the last operand.
    lengths: Option<Slot>,
    results: Vec<Place>,
    /// Packed weights and biases, if these are constants.
    layers: Option<Vec<Layer>>,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    sequence: usize,
    batch: usize,
    read: usize,
    hidden: usize,
}

/// Loops that copy a value to or from row-major order.
#[derive(Debug)]
struct Place {
    kind: Kind,
    count: usize,
    /// Loops over the destination and the source; one of both is in row-major order.
    nest: Nest<2>,
}

/// The weights of one direction.
#[derive(Debug)]
struct Layer {
    inputs: Vec<Panel>,
    /// Packed weights of the state. A GRU that resets the state before the product has two lists, the second for the third
    /// gate.
    states: [Vec<Panel>; 2],
    /// The initial sums of the gates in each step: the biases.
    begins: Vec<f32>,
}

/// A packed panel of columns of weights.
#[derive(Debug)]
struct Panel {
    /// Its first column in a row of gates.
    at: usize,
    columns: PackedColumns,
}

/// The memory that a thread keeps from one run to the next.
#[derive(Debug, Default)]
struct Spare {
    /// The address of the network whose results it has.
    owner: usize,
    inputs: Vec<f32>,
    gates: Vec<f32>,
    reset: Vec<f32>,
    /// The states of all steps.
    states: Vec<f32>,
    /// The state after the last step and, for an LSTM, the cells.
    last: [Vec<f32>; 2],
}

thread_local! {
    static SPARE: Kept<Spare> = const {
        Kept::new(Spare {
            owner: 0,
            inputs: Vec::new(),
            gates: Vec::new(),
            reset: Vec::new(),
            states: Vec::new(),
            last: [Vec::new(), Vec::new()],
        })
    };
}

impl Network {
    pub(crate) fn of(site: &Site<'_>) -> Option<Network> {
        let data = site.data();
        if &*data.name != Recurrent::NAME {
            return None;
        }
        let of = Recurrent::of(&site.func.op_ref(site.op)).ok()?;
        let all = site.all()?;
        let (operands, results) = all.split_at(data.operands.len());
        let (x, y) = (operands.first()?, results.first()?);
        let [sequence, batch, read] = x.access.shape()[..] else {
            return None;
        };
        let [_, directions, _, hidden] = y.access.shape()[..] else {
            return None;
        };
        if all.iter().any(|slot| slot.access.count() == 0) {
            return None;
        }
        let (lengths, operands) = match of.lengths {
            true => operands
                .split_last()
                .map(|(n, all)| (Some((*n).clone()), all))?,
            false => (None, operands),
        };
        let places = |slots: &[&Slot], writes: bool| -> Option<Vec<Place>> {
            slots.iter().map(|slot| Place::of(slot, writes)).collect()
        };
        let mut network = Network {
            cell: of.cell,
            linear_before_reset: of.linear_before_reset,
            backwards: (0..directions)
                .map(|d| of.direction == Reading::Reverse || d == 1)
                .collect(),
            sizes: Sizes {
                sequence,
                batch,
                read,
                hidden,
            },
            operands: places(operands, false)?,
            lengths,
            results: places(results, true)?,
            layers: None,
        };
        let known = |i: usize| {
            site.constant_bytes(i)?
                .get(site.slot(data.operands[i])?.range())
        };
        if let (Some(inputs), Some(states), Some(biases)) = (known(1), known(2), known(3)) {
            network.layers = Some(network.layers([inputs, states, biases]).ok()?);
        }
        Some(network)
    }

    /// Returns whether a GRU applies its reset gate after the product with the state (`linear_before_reset`).
    fn apart(&self) -> bool {
        self.cell == Cell::Gru && self.linear_before_reset
    }

    /// Width of a row of gates. With `linear_before_reset`, the inputs' part of the third gate has columns of its own.
    fn width(&self) -> usize {
        let gates = usize::try_from(self.cell.gates()).unwrap_or(0);
        (gates + usize::from(self.apart())) * self.sizes.hidden
    }

    /// Packs the weights of all directions: inputs, states and biases in their layouts.
    fn layers(&self, [inputs, states, biases]: [&[u8]; 3]) -> Result<Vec<Layer>, StepError> {
        let inputs = self.operands[1].read_all(inputs)?;
        let states = self.operands[2].read_all(states)?;
        let biases = self.operands[3].read_all(biases)?;
        let directions = self.backwards.len();
        let part = |list: &[f32], d: usize| -> Vec<f32> {
            let size = list.len() / directions;
            list[d * size..(d + 1) * size].to_vec()
        };
        let layer = |d: usize| self.layer(&part(&inputs, d), &part(&states, d), &part(&biases, d));
        Ok((0..directions).map(layer).collect())
    }

    fn layer(&self, inputs: &[f32], states: &[f32], biases: &[f32]) -> Layer {
        let Sizes { read, hidden, .. } = self.sizes;
        let (of_inputs, of_states) = biases.split_at(biases.len() / 2);
        let pairs = of_inputs.iter().zip(of_states);
        let mut begins: Vec<f32> = pairs.map(|(a, b)| a + b).collect();
        let all = 0..begins.len();
        let two = 0..2 * hidden;
        let third = two.end..all.end;
        let (made, multiplied) = match self.cell {
            Cell::Gru if self.linear_before_reset => {
                begins[third.clone()].copy_from_slice(&of_states[third.clone()]);
                begins.extend(&of_inputs[third.clone()]);
                let mut made = packed(inputs, read, &two, 0);
                made.extend(packed(inputs, read, &third, all.end));
                (made, [packed(states, hidden, &all, 0), Vec::new()])
            }
            Cell::Gru => {
                let first = packed(states, hidden, &two, 0);
                let second = packed(states, hidden, &third, third.start);
                (packed(inputs, read, &all, 0), [first, second])
            }
            Cell::Lstm | Cell::Plain => {
                let made = packed(inputs, read, &all, 0);
                (made, [packed(states, hidden, &all, 0), Vec::new()])
            }
        };
        Layer {
            inputs: made,
            states: multiplied,
            begins,
        }
    }

    /// Computes all results.
    fn all(&self, ins: &[In<'_>], spare: &mut Spare, team: &Team) -> Result<(), StepError> {
        let mut bytes = Vec::with_capacity(ins.len());
        for operand in ins {
            let In::Bytes(operand) = operand else {
                return Err(StepError::OperandWrittenOver);
            };
            bytes.push(*operand);
        }
        let lengths = match &self.lengths {
            None => None,
            Some(slot) => {
                let own = bytes.pop().unwrap_or_default();
                let own = gather(own, &slot.access, slot.dtype, slot.width);
                Some(own?)
            }
        };
        let [x, inputs, states, biases, initial @ ..] = &bytes[..] else {
            return Err(StepError::OperandCount);
        };
        let made;
        let layers = match &self.layers {
            Some(layers) => layers,
            None => {
                made = self.layers([inputs, states, biases])?;
                &made
            }
        };
        self.load(x, initial, spare)?;
        for (d, layer) in layers.iter().enumerate() {
            self.products(layer, spare, team)?;
            self.steps((layer, d), lengths.as_ref(), spare);
        }
        Ok(())
    }

    /// Loads the inputs and the initial states, and makes room for all results.
    fn load(&self, x: &[u8], initial: &[&[u8]], spare: &mut Spare) -> Result<(), StepError> {
        let Sizes {
            sequence,
            batch,
            hidden,
            ..
        } = self.sizes;
        let (directions, plane) = (self.backwards.len(), batch * hidden);
        self.operands[0].read(x, &mut spare.inputs)?;
        let kept = self.cell.kept();
        for (i, last) in spare.last.iter_mut().enumerate().take(kept) {
            match initial.get(i) {
                Some(initial) => self.operands[4 + i].read(initial, last)?,
                None => {
                    last.clear();
                    last.resize(directions * plane, 0.0);
                }
            }
        }
        spare.states.resize(sequence * directions * plane, 0.0);
        spare.gates.resize(sequence * batch * self.width(), 0.0);
        spare.reset.resize(plane, 0.0);
        Ok(())
    }

    /// Sets the gates of all steps to the biases plus the products of the inputs.
    fn products(&self, layer: &Layer, spare: &mut Spare, team: &Team) -> Result<(), StepError> {
        let Spare { inputs, gates, .. } = spare;
        let (read, width) = (self.sizes.read, self.width());
        let of_rows = |rows: Range<usize>, gates: &mut [f32]| {
            for row in gates.chunks_exact_mut(width) {
                row.copy_from_slice(&layer.begins);
            }
            let own = &inputs[rows.start * read..rows.end * read];
            multiply(&layer.inputs, own, gates, width);
        };
        let rows = self.sizes.sequence * self.sizes.batch;
        shared(team, rows, (gates, width), read * width, of_rows)
    }

    /// Computes all steps of direction `d`, from the gates of its inputs.
    fn steps(&self, (layer, d): (&Layer, usize), lengths: Option<&Tensor>, spare: &mut Spare) {
        let Sizes {
            sequence,
            batch,
            hidden,
            ..
        } = self.sizes;
        let (width, plane, directions) = (self.width(), batch * hidden, self.backwards.len());
        let [state, cells] = &mut spare.last;
        let own = d * plane..(d + 1) * plane;
        let state = &mut state[own.clone()];
        let cells = match self.cell.kept() {
            2 => &mut cells[own],
            _ => &mut [],
        };
        for step in 0..sequence {
            let at = match self.backwards[d] {
                true => sequence - 1 - step,
                false => step,
            };
            let gates = &mut spare.gates[at * batch * width..(at + 1) * batch * width];
            let states = &mut spare.states[(at * directions + d) * plane..][..plane];
            if lengths.is_some() {
                states.fill(0.0);
            }
            // Adjacent sequences that have not ended make a step together.
            let goes_on = |b: &usize| lengths.is_none_or(|all| all.i64_at(*b) > at as i64);
            let mut b = 0;
            while b < batch {
                let end = b + (b..batch).take_while(goes_on).count();
                if b < end {
                    let own = b * hidden..end * hidden;
                    let cells = match cells.is_empty() {
                        true => &mut [][..],
                        false => &mut cells[own.clone()],
                    };
                    let gates = &mut gates[b * width..end * width];
                    let (state, reset) = (&mut state[own.clone()], &mut spare.reset[own.clone()]);
                    self.step(layer, gates, reset, (state, cells));
                    states[own].copy_from_slice(state);
                }
                b = end + 1;
            }
        }
    }

    /// Computes the next state and cells; `gates` has the inputs' part of the sums.
    fn step(
        &self,
        layer: &Layer,
        gates: &mut [f32],
        reset: &mut [f32],
        (state, cells): (&mut [f32], &mut [f32]),
    ) {
        let (n, width) = (self.sizes.hidden, self.width());
        let [first, second] = &layer.states;
        multiply(first, state, gates, width);
        if !second.is_empty() {
            vectorized_wide(
                #[inline(always)]
                || {
                    let rows = gates.chunks_exact(width).zip(state.chunks_exact(n));
                    for (reset, (gates, state)) in reset.chunks_exact_mut(n).zip(rows) {
                        for (to, (gate, h)) in reset.iter_mut().zip(gates[n..].iter().zip(state)) {
                            *to = sigmoid(*gate) * h;
                        }
                    }
                },
            );
            multiply(second, reset, gates, width);
        }
        let (cell, apart) = (self.cell, self.apart());
        vectorized_wide(
            #[inline(always)]
            || {
                let rows = gates.chunks_exact(width).zip(state.chunks_exact_mut(n));
                for (row, (gates, state)) in rows.enumerate() {
                    match cell {
                        Cell::Plain => {
                            let all = state.iter_mut().zip(gates);
                            all.for_each(|(h, gate)| *h = tanh(*gate));
                        }
                        Cell::Lstm => lstm(gates, state, &mut cells[row * n..(row + 1) * n]),
                        Cell::Gru => gru(gates, state, apart),
                    }
                }
            },
        );
    }
}

/// One row of an LSTM, with the gates in the order input, output, forget, new cell.
#[inline(always)]
fn lstm(gates: &[f32], state: &mut [f32], cells: &mut [f32]) {
    let n = state.len();
    let (input, rest) = gates.split_at(n);
    let (output, rest) = rest.split_at(n);
    let (forget, new) = rest.split_at(n);
    let gates = input.iter().zip(output).zip(forget.iter().zip(new));
    for ((h, c), ((input, output), (forget, new))) in state.iter_mut().zip(cells).zip(gates) {
        *c = sigmoid(*forget) * *c + sigmoid(*input) * tanh(*new);
        *h = sigmoid(*output) * tanh(*c);
    }
}

/// One row of a GRU, with the gates in the order update, reset, new state; with `apart`, the inputs' part of the new state
/// follows.
#[inline(always)]
fn gru(gates: &[f32], state: &mut [f32], apart: bool) {
    let n = state.len();
    let (update, rest) = gates.split_at(n);
    let (reset, rest) = rest.split_at(n);
    let (new, inputs) = rest.split_at(n);
    let all = state.iter_mut().zip(update.iter().zip(new));
    if apart {
        let more = reset.iter().zip(inputs);
        for ((h, (update, new)), (reset, input)) in all.zip(more) {
            *h = between(*h, *update, input + sigmoid(*reset) * new);
        }
    } else {
        for (h, (update, new)) in all {
            *h = between(*h, *update, *new);
        }
    }
}

/// The state after an update gate.
#[inline(always)]
fn between(state: f32, update: f32, new: f32) -> f32 {
    let update = sigmoid(update);
    (1.0 - update) * tanh(new) + update * state
}

/// Shares rows of gates, `width` numbers each, between threads; `products` are the multiply-adds of a row.
fn shared(
    team: &Team,
    rows: usize,
    (gates, width): (&mut [f32], usize),
    products: usize,
    work: impl Fn(Range<usize>, &mut [f32]) + Sync,
) -> Result<(), StepError> {
    let threads = team.worth(
        (rows as u64).saturating_mul(products as u64),
        team::PRODUCTS,
    );
    let groups = rows.div_ceil(ROWS);
    if threads < 2 || groups < 2 {
        work(0..rows, &mut gates[..rows * width]);
        return Ok(());
    }
    let end = |thread: usize| (thread * groups / threads * ROWS).min(rows);
    let shares = (0..threads).map(|thread| {
        let units = end(thread)..end(thread + 1);
        Share {
            places: units.start * width..units.end * width,
            units,
        }
    });
    let shares: Vec<Share> = shares.filter(|share| !share.units.is_empty()).collect();
    team.share(gates, &shares, |share, gates| {
        work(share.units.clone(), gates);
        Ok(())
    })
}

/// Packs rows of weights, of `terms` terms each, as panels of columns; the first one is column `at` of a row of gates.
fn packed(weights: &[f32], terms: usize, columns: &Range<usize>, at: usize) -> Vec<Panel> {
    let (mut panels, mut from) = (Vec::new(), columns.start);
    while from < columns.end {
        let own = PackedColumns::of(&weights[from * terms..columns.end * terms], terms);
        let count = own.count;
        panels.push(Panel {
            at: at + from - columns.start,
            columns: own,
        });
        from += count;
    }
    panels
}

/// Adds the products of rows by packed columns to rows of gates.
fn multiply(panels: &[Panel], rows: &[f32], gates: &mut [f32], width: usize) {
    for panel in panels {
        panel.columns.add(rows, gates, width, panel.at);
    }
}

impl Place {
    fn of(slot: &Slot, writes: bool) -> Option<Place> {
        let compact = Access::row_major(&slot.access.shape());
        let nest = match writes {
            true => Nest::of([&slot.access, &compact])?,
            false => Nest::of([&compact, &slot.access])?,
        };
        Some(Place {
            kind: slot.kind().filter(|kind| kind.is_float())?,
            count: slot.access.count(),
            nest,
        })
    }

    fn read_all(&self, bytes: &[u8]) -> Result<Vec<f32>, StepError> {
        let mut list = Vec::new();
        self.read(bytes, &mut list)?;
        Ok(list)
    }

    /// Loads elements as numbers in row-major order.
    fn read(&self, bytes: &[u8], to: &mut Vec<f32>) -> Result<(), StepError> {
        to.resize(self.count, 0.0);
        match self.kind {
            Kind::F32 => copied::<f32, f32>(&self.nest, elements(bytes)?, to),
            Kind::F16 => copied::<f16, f32>(&self.nest, elements(bytes)?, to),
            Kind::BF16 => copied::<bf16, f32>(&self.nest, elements(bytes)?, to),
            Kind::I8 | Kind::U8 | Kind::I32 => Err(StepError::Integers),
        }
    }

    /// Stores numbers in row-major order as elements.
    fn write(&self, from: &[f32], bytes: &mut [u8]) -> Result<(), StepError> {
        match self.kind {
            Kind::F32 => copied::<f32, f32>(&self.nest, from, elements_mut(bytes)?),
            Kind::F16 => copied::<f32, f16>(&self.nest, from, elements_mut(bytes)?),
            Kind::BF16 => copied::<f32, bf16>(&self.nest, from, elements_mut(bytes)?),
            Kind::I8 | Kind::U8 | Kind::I32 => Err(StepError::Integers),
        }
    }
}

/// Copies and converts elements.
fn copied<E: Element<Number = f32>, T: Element<Number = f32>>(
    nest: &Nest<2>,
    from: &[E],
    to: &mut [T],
) -> Result<(), StepError> {
    if !nest.fits(0, to.len()) || !nest.fits(1, from.len()) {
        return Err(KernelError::OutOfBounds.into());
    }
    let (n, steps) = nest.inner;
    nest.each(|[at, read]| match steps {
        [1, 1] => {
            let (at, read) = (at as usize, read as usize);
            let all = to[at..at + n].iter_mut().zip(&from[read..read + n]);
            all.for_each(|(to, x)| *to = T::of(x.read()));
        }
        [step, other] => {
            for i in 0..n as i64 {
                let x = from[(read + other * i) as usize];
                to[(at + step * i) as usize] = T::of(x.read());
            }
        }
    });
    Ok(())
}

impl Kernel for Network {
    fn name(&self) -> &'static str {
        "recurrent"
    }

    fn packed_bytes(&self) -> usize {
        let panels =
            |panels: &[Panel]| -> usize { panels.iter().map(|panel| panel.columns.bytes()).sum() };
        let layers = self.layers.iter().flatten();
        let own = layers.map(|layer| {
            let states: usize = layer.states.iter().map(|list| panels(list)).sum();
            panels(&layer.inputs) + states + size_of_val(&layer.begins[..])
        });
        own.sum()
    }

    fn scratch(&self) -> Scratch {
        let rows = self.sizes.sequence * self.sizes.batch;
        let places = self.operands.iter().take(1).chain(&self.results);
        let lists: usize = places.map(|place| place.count).sum();
        let numbers = rows * self.width() + lists + self.sizes.batch * self.sizes.hidden;
        [0, 0, 0, numbers * size_of::<f32>()]
    }

    /// All results are computed with the first one and kept for the others, which the same thread writes next.
    fn run(&self, call: Call<'_>) -> Result<(), StepError> {
        let (result, out) = (call.result, call.out);
        let own = std::ptr::from_ref(self).addr();
        let mut spare = SPARE.take();
        if result == 0 || spare.owner != own {
            self.all(call.ins, &mut spare, call.cx.team)?;
        }
        let place = self.results.get(result).ok_or(StepError::NoResult)?;
        let written = match result.checked_sub(1) {
            None => place.write(&spare.states, out),
            Some(kept) => place.write(&spare.last[kept], out),
        };
        spare.owner = if result + 1 < self.results.len() {
            own
        } else {
            0
        };
        SPARE.set(spare);
        written
    }
}
