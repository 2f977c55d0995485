//! Conversion of a function to its graph.

use crate::graph::{Graph, Ink, Node, Tone, Wire};
use crate::mesh::RED;
use crate::picture::{Charge, ChargeKind, Charges, OnMesh, Panel, Place};
use crate::repeat::find_layers;
use crate::scope::scopes_of;
use crate::spelling::Spelling;
use crate::words;
use optc_ir::analysis::Order;
use optc_ir::entity::SideTable;
use optc_ir::text::print_type;
use optc_ir::{FreedomClass, Func, Op, Registry, Value};

impl<'a> Panel<'a> {
    /// The functions as graphs, with layouts in this notation.
    pub(crate) fn graphs(&self, spelling: Spelling) -> impl Iterator<Item = (&'a Func, Graph)> {
        let funcs = self.funcs().enumerate();
        funcs.map(move |(number, (func, charges))| {
            let over = self.mesh.as_ref().map(|mesh| (mesh, number));
            (
                func,
                Graph::of(func, self.registry, charges, over, spelling),
            )
        })
    }
}

impl Graph {
    /// The graph of a function. Dead operations are left out, and constants are words in the boxes that read them.
    /// Layouts are written in the notation of the picture. On a mesh, which comes with the number of the function,
    /// collectives are boxes too.
    pub(crate) fn of(
        func: &Func,
        registry: &Registry,
        charges: Option<&Charges>,
        over: Option<(&OnMesh, usize)>,
        spelling: Spelling,
    ) -> Graph {
        let (scopes, scope_of) = scopes_of(func);
        let mut builder = Builder {
            func,
            registry,
            spelling,
            over,
            graph: Graph {
                nodes: Vec::new(),
                wires: Vec::new(),
                scopes,
            },
            wire_of: SideTable::new(None),
            folded: folded_constants(func, registry),
        };
        for (i, &value) in func.args.iter().enumerate() {
            builder.argument(i, value);
        }
        let order = Order::of(func);
        for &op in &func.body {
            let charge = match charges {
                None => Some(FREE),
                Some(charges) => charges[op],
            };
            if let Some(charge) = charge.filter(|_| !builder.folded[op]) {
                builder.operation(op, scope_of[op], order.number(op), charge);
            }
        }
        for (i, &value) in func.results.iter().enumerate() {
            builder.result(i, value);
        }
        find_layers(&mut builder.graph);
        builder.graph
    }
}

const FREE: Charge = Charge {
    kind: ChargeKind::Free,
    bytes: 0,
};

/// Constants that only operations read; they are drawn inside of their readers.
fn folded_constants(func: &Func, registry: &Registry) -> SideTable<Op, bool> {
    let mut folded = SideTable::new(false);
    for &op in &func.body {
        let data = &func.ops[op];
        let class = registry
            .get(&data.name)
            .map(|d| d.freedom(&func.op_ref(op)).class);
        folded[op] = data.operands.is_empty() && class == Some(FreedomClass::Source);
    }
    for op in func.results.iter().filter_map(|&v| func.def_op(v)) {
        folded[op] = false;
    }
    folded
}

struct Builder<'a> {
    func: &'a Func,
    registry: &'a Registry,
    over: Option<(&'a OnMesh, usize)>,
    spelling: Spelling,
    graph: Graph,
    wire_of: SideTable<Value, Option<usize>>,
    folded: SideTable<Op, bool>,
}

impl Builder<'_> {
    fn argument(&mut self, i: usize, value: Value) {
        let name = self.func.arg_key(i);
        let ty = print_type(self.func.ty(value));
        let node = port(name.clone(), format!("argument {name}\n{ty}"), "argument");
        self.graph.nodes.push(node);
        self.wire(value);
    }

    fn result(&mut self, i: usize, value: Value) {
        let name = self.func.result_key(i);
        let ty = print_type(self.func.ty(value));
        let wire = self.transferred(value, Place::Returned(i), 0);
        let node = port(name.clone(), format!("result {name}\n{ty}"), "result");
        self.graph.nodes.push(node);
        self.read(wire.or(self.wire_of[value]));
    }

    fn operation(&mut self, op: Op, scope: usize, number: Option<usize>, charge: Charge) {
        let data = &self.func.ops[op];
        let operands = data.operands.iter();
        let wires: Vec<Option<usize>> = operands
            .map(|&value| {
                let sent = self.transferred(value, Place::Read(op), scope);
                sent.or(self.wire_of[value])
            })
            .collect();
        let mut lines = words::attributes(&data.props);
        let constants = data.operands.iter().filter_map(|&v| self.func.def_op(v));
        let constants: Vec<Op> = constants.filter(|&o| self.folded[o]).collect();
        let constant = |&o: &Op| words::constant(self.func, o, self.spelling);
        lines.extend(constants.iter().map(constant));
        let names = constants.iter().map(|&o| &self.func.ops[o].loc);
        if charge.bytes > 0 {
            lines.push(charge_words(charge));
        }
        let mut tip = words::op_tip(self.func, op);
        if let Some(number) = number {
            tip = format!("%{number} = {tip}");
        }
        self.graph.nodes.push(Node {
            tone: self.tone(op, charge),
            op: Some(op),
            title: words::op_name(&data.name).to_owned(),
            lines,
            tip,
            scope,
            reads: Vec::new(),
            charge,
            constant: names.rev().find_map(words::last_name),
            alike: self.alike(op),
        });
        for wire in wires {
            self.read(wire);
        }
        for &result in &data.results {
            self.wire(result);
        }
        for &result in &data.results {
            self.transferred(result, Place::Made(op), scope);
        }
    }

    /// Adds a box for the collectives of a value at a place, if it has any there, and the wire behind it.
    fn transferred(&mut self, value: Value, place: Place, scope: usize) -> Option<usize> {
        let (over, number) = self.over?;
        let mut all = over.transfers.get(number)?.iter();
        let transfer = all.find(|t| t.value == value && t.place == place)?;
        let before = self.wire_of[value]?;
        let made = matches!(place, Place::Made(_));
        if made {
            // The value leaves its operation as the operation makes it.
            let wire = &mut self.graph.wires[before];
            if wire.ink.is_some() {
                wire.tag.pop();
            }
            let (text, ink) = over.split(&transfer.from).unzip();
            wire.tag.extend(text);
            wire.ink = ink;
        }
        let title = OnMesh::title(transfer);
        let lines = over.sent(transfer);
        self.graph.nodes.push(Node {
            tone: Tone::Collective,
            op: None,
            tip: format!("{title}\n{}", lines.join("\n")),
            alike: format!("{title} {}", lines.join(" ")),
            title,
            lines,
            scope,
            reads: Vec::new(),
            charge: FREE,
            constant: None,
        });
        self.read(Some(before));
        let wire = self.graph.wires.len();
        self.graph.wires.push(Wire {
            value,
            from: self.graph.nodes.len() - 1,
            tag: over.text(&transfer.to).into_iter().collect(),
            tip: print_type(self.func.ty(value)),
            ink: Some(Ink {
                colour: RED,
                words: "made by a collective".to_owned(),
            }),
            to: Vec::new(),
        });
        if made {
            self.wire_of[value] = Some(wire);
        }
        Some(wire)
    }

    /// Adds a wire for a value that the last box makes.
    fn wire(&mut self, value: Value) {
        let ty = self.func.ty(value);
        let mut tag = vec![words::shape(ty)];
        tag.extend(words::layout(ty, self.spelling));
        let split = self
            .over
            .and_then(|(over, _)| over.stored(self.func, value));
        let (text, ink) = split.unzip();
        tag.extend(text);
        self.wire_of[value] = Some(self.graph.wires.len());
        self.graph.wires.push(Wire {
            value,
            from: self.graph.nodes.len() - 1,
            tag,
            tip: print_type(ty),
            ink,
            to: Vec::new(),
        });
    }

    /// Connects the last box to a wire that it reads.
    fn read(&mut self, wire: Option<usize>) {
        let node = self.graph.nodes.len() - 1;
        let Some(wire) = wire else {
            return;
        };
        self.graph.wires[wire].to.push(node);
        if !self.graph.nodes[node].reads.contains(&wire) {
            self.graph.nodes[node].reads.push(wire);
        }
    }

    fn tone(&self, op: Op, charge: Charge) -> Tone {
        match charge.kind {
            ChargeKind::Movement => return Tone::Movement,
            ChargeKind::Copy => return Tone::Copy,
            ChargeKind::Expand => return Tone::Expand,
            ChargeKind::Constant => return Tone::Constant,
            ChargeKind::Free => {}
        }
        let decl = self.registry.get(&self.func.ops[op].name);
        let class = decl.map(|d| d.freedom(&self.func.op_ref(op)).class);
        match class {
            Some(FreedomClass::Rearrange) => Tone::View,
            Some(FreedomClass::Source) => Tone::Constant,
            _ => Tone::Compute,
        }
    }

    fn alike(&self, op: Op) -> String {
        let data = &self.func.ops[op];
        let props = data.props.iter().map(|(name, attr)| match attr {
            optc_ir::Attr::Dense(_) | optc_ir::Attr::External { .. } => format!("{name};"),
            other => format!("{name}={};", optc_ir::text::print_attr(other)),
        });
        let operands = data.operands.iter().map(|&v| {
            let constant = self.func.def_op(v).is_some_and(|o| self.folded[o]);
            let mark = if constant { "const " } else { "" };
            format!("{mark}{},", print_type(self.func.ty(v)))
        });
        let results = data
            .results
            .iter()
            .map(|&v| print_type(self.func.ty(v)) + ",");
        let props: String = props.collect();
        let operands: String = operands.collect();
        let results: String = results.collect();
        format!("{}<{props}>({operands})->{results}", data.name)
    }
}

fn charge_words(charge: Charge) -> String {
    let verb = match charge.kind {
        ChargeKind::Movement | ChargeKind::Free => "moves",
        ChargeKind::Copy => "copies",
        ChargeKind::Expand => "repeats",
        ChargeKind::Constant => "at compile time:",
    };
    format!("{verb} {}", words::bytes(charge.bytes))
}

fn port(name: String, tip: String, alike: &str) -> Node {
    Node {
        tone: Tone::Port,
        op: None,
        title: words::cut(&name, 30),
        lines: Vec::new(),
        tip,
        scope: 0,
        reads: Vec::new(),
        charge: FREE,
        constant: None,
        alike: alike.to_owned(),
    }
}
