//! A function as boxes and wires, without coordinates.

use crate::picture::{Charge, ChargeKind};
use crate::scope::Scopes;
use crate::words;
use optc_ir::{Op, Value};

/// The style of a box, from the cost or kind of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// An argument or a result.
    Port,
    /// Computes.
    Compute,
    /// Renames elements at no cost.
    View,
    /// Moves the whole value.
    Movement,
    /// Copies a part.
    Copy,
    /// Repeats elements.
    Expand,
    /// Works on constants only, at compile time.
    Constant,
    /// Devices exchange parts of a value.
    Collective,
}

/// One box.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) tone: Tone,
    /// The operation; `None` for an argument, a result or a collective.
    pub(crate) op: Option<Op>,
    /// The first line.
    pub(crate) title: String,
    /// Further lines.
    pub(crate) lines: Vec<String>,
    /// All details, for the tooltip.
    pub(crate) tip: String,
    /// The layer of the box.
    pub(crate) scope: usize,
    /// The wires that the box reads, each once, in the order of the operands.
    pub(crate) reads: Vec<usize>,
    /// The bytes that the operation moves.
    pub(crate) charge: Charge,
    /// The name of a constant that the operation reads, if the constant is drawn inside of the box.
    pub(crate) constant: Option<String>,
    /// A key that is equal for operations with the same effect on values of the same types.
    pub(crate) alike: String,
}

impl Node {
    /// Returns whether this is an argument or a result.
    pub(crate) fn is_port(&self) -> bool {
        self.tone == Tone::Port
    }
}

/// A colour of wires, and its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ink {
    pub(crate) colour: &'static str,
    pub(crate) words: String,
}

/// One value, from the box that makes it to the boxes that read it.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// The value.
    pub(crate) value: Value,
    /// The box that makes the value.
    pub(crate) from: usize,
    /// The shape and element type, then the layout if it is not row-major.
    pub(crate) tag: Vec<String>,
    /// The full type, for the tooltip.
    pub(crate) tip: String,
    /// The colour of a value that is split over a mesh, or that a collective made.
    pub(crate) ink: Option<Ink>,
    /// The boxes that read the value, one entry for each use, in program order.
    pub(crate) to: Vec<usize>,
}

/// The boxes and wires of one function. Boxes are in program order: arguments, operations, results. A wire leads from a
/// lower number to higher ones.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) scopes: Scopes,
}

impl Graph {
    /// The number of operations, and the bytes that they move in each class with a cost.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for node in self.nodes.iter().filter(|n| n.op.is_some()) {
            totals.add(node.charge);
        }
        totals
    }
}

/// The number of operations, and for each class with a cost its operations and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) ops: usize,
    pub(crate) movement: (usize, u64),
    pub(crate) copy: (usize, u64),
    pub(crate) expand: (usize, u64),
}

impl Totals {
    fn add(&mut self, charge: Charge) {
        self.ops += 1;
        let class = match charge.kind {
            ChargeKind::Free | ChargeKind::Constant => return,
            ChargeKind::Movement => &mut self.movement,
            ChargeKind::Copy => &mut self.copy,
            ChargeKind::Expand => &mut self.expand,
        };
        class.0 += 1;
        class.1 = class.1.saturating_add(charge.bytes);
    }

    /// The sum of both.
    pub(crate) fn plus(mut self, other: Totals) -> Totals {
        self.ops += other.ops;
        for (a, b) in [
            (&mut self.movement, other.movement),
            (&mut self.copy, other.copy),
            (&mut self.expand, other.expand),
        ] {
            *a = (a.0 + b.0, a.1.saturating_add(b.1));
        }
        self
    }

    /// The totals of these boxes.
    pub(crate) fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Totals {
        let mut totals = Totals::default();
        for node in nodes.into_iter().filter(|n| n.op.is_some()) {
            totals.add(node.charge);
        }
        totals
    }

    /// The classes with a cost: word, operations and bytes.
    pub(crate) fn classes(&self) -> [(&'static str, (usize, u64)); 3] {
        [
            ("moved", self.movement),
            ("copied", self.copy),
            ("repeated", self.expand),
        ]
    }

    /// `768.0 kB moved by 3 ops`: one entry for each class that has operations.
    pub(crate) fn words(&self) -> Vec<String> {
        let there = self.classes().into_iter().filter(|(_, (ops, _))| *ops > 0);
        there
            .map(|(done, (ops, bytes))| {
                let plural = if ops == 1 { "op" } else { "ops" };
                format!("{} {done} by {ops} {plural}", words::bytes(bytes))
            })
            .collect()
    }

    /// All totals in one line.
    pub(crate) fn line(&self) -> String {
        let mut words = vec![format!("{} operations", self.ops)];
        words.extend(self.words());
        if words.len() == 1 {
            words.push("nothing moves".to_owned());
        }
        words.join(", ")
    }
}
