//! A function as boxes and wires, before anything is placed.

use crate::picture::{Charge, ChargeKind};
use crate::scope::Scopes;
use crate::words;

/// How a box looks: what it costs, or what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// An argument or a result.
    Port,
    /// Computes.
    Compute,
    /// Renames elements for nothing.
    View,
    /// Moves the whole value.
    Movement,
    /// Copies a part.
    Copy,
    /// Repeats elements.
    Expand,
    /// Works on constants alone, at compile time.
    Constant,
}

/// One box.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) tone: Tone,
    /// The first line.
    pub(crate) title: String,
    /// Further lines.
    pub(crate) lines: Vec<String>,
    /// Everything about it.
    pub(crate) tip: String,
    /// The layer it belongs to.
    pub(crate) scope: usize,
    /// The wires it reads, each once, in the order of its operands.
    pub(crate) reads: Vec<usize>,
    /// Bytes it moves.
    pub(crate) charge: Charge,
    /// The name of a constant that it reads, where that is drawn in it.
    pub(crate) constant: Option<String>,
    /// Equal for operations that do the same to values of the same types.
    pub(crate) alike: String,
}

impl Node {
    /// Returns whether this is an operation, and no argument or result.
    pub(crate) fn is_op(&self) -> bool {
        self.tone != Tone::Port
    }
}

/// One value, from the box that makes it to those that read it.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// The box that makes it.
    pub(crate) from: usize,
    /// Its shape and element type, then its layout where that is not row-major.
    pub(crate) tag: Vec<String>,
    /// Its whole type.
    pub(crate) tip: String,
    /// The boxes that read it, one entry a use, in the order of the program.
    pub(crate) to: Vec<usize>,
}

/// The boxes and wires of one function. Boxes stand in the order of the program: arguments,
/// operations, results; a wire leads from a lower number to higher ones.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) scopes: Scopes,
}

impl Graph {
    /// How many operations there are, and what they move in each class that has a price.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for node in self.nodes.iter().filter(|n| n.is_op()) {
            totals.add(node.charge);
        }
        totals
    }
}

/// Operations, and operations and bytes of each class that has a price.
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

    /// Both together.
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
        for node in nodes.into_iter().filter(|n| n.is_op()) {
            totals.add(node.charge);
        }
        totals
    }

    /// The classes that have a price, in words, with operations and bytes.
    pub(crate) fn classes(&self) -> [(&'static str, (usize, u64)); 3] {
        [
            ("moved", self.movement),
            ("copied", self.copy),
            ("repeated", self.expand),
        ]
    }

    /// `768.0 kB moved by 3 ops`, one entry a class that has any.
    pub(crate) fn words(&self) -> Vec<String> {
        let there = self.classes().into_iter().filter(|(_, (ops, _))| *ops > 0);
        there
            .map(|(done, (ops, bytes))| {
                let plural = if ops == 1 { "op" } else { "ops" };
                format!("{} {done} by {ops} {plural}", words::bytes(bytes))
            })
            .collect()
    }

    /// All of it in one line.
    pub(crate) fn line(&self) -> String {
        let mut words = vec![format!("{} operations", self.ops)];
        words.extend(self.words());
        if words.len() == 1 {
            words.push("nothing moves".to_owned());
        }
        words.join(", ")
    }
}
