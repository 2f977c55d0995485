//! The check whether parts of a tiny program may lie in the bytes of others, after every order is chosen.

use super::brute::{Order, shape, unravel};
use super::copies::{Piece, Step, Stored};
use indexmap::{IndexMap, IndexSet};
use optc_ir::op::part::Port;
use optc_ir::{Func, Value};
use optc_target::Parts;

/// The writer of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writer {
    /// The caller.
    Given,
    /// The step with this number.
    Step(usize),
    /// A conversion from another order.
    Conversion,
}

/// An operand of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reader {
    pub(crate) step: usize,
    pub(crate) port: usize,
}

/// A value in one order.
pub(crate) struct Instance {
    /// The position of each element, if the value has a buffer of its own.
    at: Vec<i64>,
    pub(crate) writer: Writer,
    pub(crate) readers: Vec<Reader>,
    /// True if a conversion reads the value.
    pub(crate) is_converted: bool,
    /// True if the value is returned to the caller.
    pub(crate) whole: bool,
}

impl Instance {
    pub(crate) fn new(order: &Order, writer: Writer) -> Instance {
        let mut at = vec![0; order.len()];
        for (position, &element) in order.iter().enumerate() {
            at[element] = i64::try_from(position).expect("tiny");
        }
        Instance {
            at,
            writer,
            readers: Vec::new(),
            is_converted: false,
            whole: false,
        }
    }
}

/// A value and the number of one of its orders.
type Key = (Value, usize);

/// A program whose orders are chosen.
pub(crate) struct Plan<'a> {
    pub(crate) func: &'a Func,
    pub(crate) stored: &'a IndexMap<Value, Stored>,
    pub(crate) steps: &'a [Step],
    pub(crate) instances: IndexMap<Key, Instance>,
}

/// The positions of the buffers for one set of parts in place.
struct Places<'p, 'a> {
    plan: &'p Plan<'a>,
    listed: &'p IndexSet<(usize, Port)>,
    /// The position of each element of a buffer that lies in another one; `None` if the strides are not even.
    at: IndexMap<Key, Option<Vec<i64>>>,
    /// The step in whose result a buffer lies.
    home: IndexMap<Key, usize>,
    pieces: IndexSet<Key>,
}

/// The set of parts is not possible.
struct Refused;

impl Plan<'_> {
    /// Returns whether these parts may lie in place together.
    pub(crate) fn takes(&self, listed: &IndexSet<(usize, Port)>) -> bool {
        let mut places = Places {
            plan: self,
            listed,
            at: IndexMap::new(),
            home: IndexMap::new(),
            pieces: IndexSet::new(),
        };
        places.all().is_ok()
    }

    fn read_by(&self, step: usize, port: usize) -> Key {
        let is_it = |r: &Reader| (r.step, r.port) == (step, port);
        let found = self
            .instances
            .iter()
            .find(|(_, i)| i.readers.iter().any(is_it));
        *found.expect("each operand is read from a buffer").0
    }

    fn written_by(&self, value: Value) -> Key {
        let is_it = |((root, _), i): &(&Key, &Instance)| {
            *root == value && matches!(i.writer, Writer::Step(_))
        };
        *self
            .instances
            .iter()
            .find(is_it)
            .expect("each result has a buffer")
            .0
    }

    fn operand(&self, step: usize, port: usize) -> Value {
        self.func.ops[self.steps[step].op].operands[port]
    }

    /// The buffer of which a buffer is a part, by the operation that writes it.
    fn parent(&self, key: Key) -> Option<Key> {
        let Writer::Step(step) = self.instances[&key].writer else {
            return None;
        };
        self.steps[step].cuts().then(|| self.read_by(step, 0))
    }

    /// Returns whether the elements of a value have one stride for each digit of its dimensions, given the positions of
    /// its buffer.
    fn is_even(&self, value: Value, at: &[i64]) -> bool {
        let map = &self.stored[&value].map;
        let own: Vec<i64> = map.iter().map(|&i| at[i]).collect();
        lies_evenly(&shape(self.func, value), &own)
    }

    /// Returns whether a step can read or write a value at these positions.
    fn step_takes(&self, step: usize, value: Value, key: Key, at: &[i64]) -> bool {
        let compact = &self.instances[&key].at;
        let dense = || {
            let shifts: IndexSet<i64> = compact.iter().zip(at).map(|(a, b)| b - a).collect();
            shifts.len() <= 1
        };
        match self.steps[step].takes {
            None => false,
            Some(Parts::Leading) => self.is_even(value, at) && dense(),
            Some(Parts::Any | Parts::Tiles) => self.is_even(value, at),
        }
    }
}

impl Places<'_, '_> {
    fn all(&mut self) -> Result<(), Refused> {
        let n = self.plan.steps.len();
        for step in (0..n).rev() {
            if !self.plan.steps[step].cuts() {
                self.joined(step)?;
            }
        }
        for step in 0..n {
            if self.plan.steps[step].cuts() {
                self.cut(step)?;
            }
        }
        let keys: Vec<Key> = self.plan.instances.keys().copied().collect();
        for key in keys {
            if self.pieces.contains(&key) {
                self.in_pieces(key)?;
            } else if self.at.contains_key(&key) {
                self.readers(key)?;
            }
        }
        Ok(())
    }

    fn pieces_of(&self, step: usize) -> Vec<&Piece> {
        let listed = |p: &&Piece| self.listed.contains(&(step, p.port));
        self.plan.steps[step].pieces.iter().filter(listed).collect()
    }

    /// The positions of a buffer that is not in pieces.
    fn positions(&self, key: Key) -> Option<Vec<i64>> {
        match self.at.get(&key) {
            Some(at) => at.clone(),
            None => Some(self.plan.instances[&key].at.clone()),
        }
    }

    /// Places the operands that are written in the result.
    fn joined(&mut self, step: usize) -> Result<(), Refused> {
        let plan = self.plan;
        let pieces: Vec<(usize, Vec<usize>)> = self
            .pieces_of(step)
            .iter()
            .map(|piece| (piece.port.number(), piece.places.clone()))
            .collect();
        for (number, places) in pieces {
            let (value, key) = (plan.operand(step, number), plan.read_by(step, number));
            let result = plan.steps[step].results[0];
            let whole = plan.written_by(result);
            let instance = &plan.instances[&key];
            if instance.whole || instance.writer == Writer::Given || self.home.contains_key(&key) {
                return Err(Refused);
            }
            let base = self
                .positions(whole)
                .filter(|_| !self.pieces.contains(&whole));
            let at = base.filter(|base| plan.is_even(result, base)).map(|base| {
                let mut at = vec![0; instance.at.len()];
                for (i, &place) in places.iter().enumerate() {
                    at[plan.stored[&value].map[i]] = base[place];
                }
                at
            });
            let at = at.filter(|at| plan.is_even(value, at));
            if let Some(parent) = plan.parent(key) {
                self.pieces.insert(parent);
            } else {
                let written = match (instance.writer, &at) {
                    (Writer::Step(writer), Some(at)) => plan.step_takes(writer, key.0, key, at),
                    (Writer::Step(writer), None) => plan.steps[writer].takes == Some(Parts::Any),
                    (_, Some(at)) => plan.is_even(key.0, at),
                    (_, None) => true,
                };
                if !written {
                    return Err(Refused);
                }
            }
            self.home.insert(key, step);
            self.at.insert(key, at);
        }
        Ok(())
    }

    /// Places the results that are parts of the operand.
    fn cut(&mut self, step: usize) -> Result<(), Refused> {
        let plan = self.plan;
        let parent = plan.read_by(step, 0);
        let operand = plan.operand(step, 0);
        let pieces: Vec<(Value, Vec<usize>)> = self
            .pieces_of(step)
            .iter()
            .map(|piece| {
                (
                    plan.steps[step].results[piece.port.number()],
                    piece.places.clone(),
                )
            })
            .collect();
        for (result, places) in pieces {
            let key = plan.written_by(result);
            if plan.instances[&key].whole {
                return Err(Refused);
            }
            if self.home.contains_key(&key) {
                continue;
            }
            let map = &plan.stored[&operand].map;
            let base = self
                .positions(parent)
                .filter(|at| plan.is_even(operand, at));
            let at: Option<Vec<i64>> =
                base.map(|base| places.iter().map(|&place| base[map[place]]).collect());
            let at = at.filter(|at| plan.is_even(result, at));
            self.at.insert(key, at);
        }
        Ok(())
    }

    /// Checks that every reader of a buffer in another one accepts its positions.
    fn readers(&self, key: Key) -> Result<(), Refused> {
        let (plan, instance) = (self.plan, &self.plan.instances[&key]);
        let at = self.at[&key].as_ref();
        for reader in &instance.readers {
            let port = Port::Operand(reader.port);
            let placed = self.home.get(&key) == Some(&reader.step)
                && self.listed.contains(&(reader.step, port));
            let value = plan.operand(reader.step, reader.port);
            let taken = at.is_some_and(|at| plan.step_takes(reader.step, value, key, at));
            if !placed && !taken {
                return Err(Refused);
            }
        }
        let even = at.is_some_and(|at| plan.is_even(key.0, at));
        if instance.is_converted && !even {
            return Err(Refused);
        }
        Ok(())
    }

    /// Checks that a buffer may be written in pieces: it must be cut into parts that all lie in one place.
    fn in_pieces(&self, key: Key) -> Result<(), Refused> {
        let (plan, instance) = (self.plan, &self.plan.instances[&key]);
        let writes = match instance.writer {
            Writer::Given => false,
            Writer::Conversion => true,
            Writer::Step(step) => plan.steps[step].takes == Some(Parts::Any),
        };
        if !writes || instance.whole || instance.is_converted || plan.parent(key).is_some() {
            return Err(Refused);
        }
        let mut all: Vec<&Piece> = Vec::new();
        let mut homes: IndexSet<Option<usize>> = IndexSet::new();
        let mut views: IndexSet<Value> = IndexSet::new();
        for reader in &instance.readers {
            let step = &plan.steps[reader.step];
            let pieces = self.pieces_of(reader.step);
            if !step.cuts() || pieces.len() != step.results.len() {
                return Err(Refused);
            }
            views.insert(plan.operand(reader.step, reader.port));
            for piece in pieces {
                let result = plan.written_by(step.results[piece.port.number()]);
                homes.insert(self.home.get(&result).copied());
                all.push(piece);
            }
        }
        let elements: usize = all.iter().map(|piece| piece.places.len()).sum();
        let apart = |a: &Piece, b: &Piece| {
            let mut pairs = a.bounds.iter().zip(&b.bounds);
            pairs.any(|(p, q)| p.1 < q.0 || q.1 < p.0)
        };
        let all_apart = (0..all.len()).all(|i| (0..i).all(|j| apart(all[i], all[j])));
        let at_home = homes.len() == 1 && homes[0].is_some() && views.len() == 1;
        match at_home && all_apart && elements == instance.at.len() {
            true => Ok(()),
            false => Err(Refused),
        }
    }
}

/// Returns whether the position of each element is a sum of one term for each digit of its index, proportional to the
/// digit.
fn lies_evenly(shape: &[usize], at: &[i64]) -> bool {
    let Some(&first) = at.first() else {
        return true;
    };
    let mut stride = 1;
    let mut lines: Vec<Vec<i64>> = Vec::with_capacity(shape.len());
    for &n in shape.iter().rev() {
        lines.push((0..n).map(|i| at[i * stride] - first).collect());
        stride *= n;
    }
    lines.reverse();
    let sum = |i: usize| -> i64 {
        let index = unravel(i, shape);
        index.iter().zip(&lines).map(|(&i, line)| line[i]).sum()
    };
    lines.iter().all(|line| is_even_line(line)) && (0..at.len()).all(|i| at[i] - first == sum(i))
}

/// Returns whether a line that begins with 0 can be cut into digits with one stride each.
fn is_even_line(line: &[i64]) -> bool {
    let n = line.len();
    if n <= 2 {
        return true;
    }
    (2..=n)
        .filter(|inner| n.is_multiple_of(*inner))
        .any(|inner| {
            let step = line[1];
            let even = |i: usize| {
                line[i] == line[i / inner * inner] + step * i64::try_from(i % inner).expect("tiny")
            };
            let outer: Vec<i64> = line.iter().step_by(inner).copied().collect();
            (0..n).all(even) && is_even_line(&outer)
        })
}
