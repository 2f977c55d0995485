//! Storage groups: values joined by reshapes and transposes share one buffer.
//!
//! A group has a root, the value that an operation produces. Every other member is the root seen through a chain of
//! logical maps. A layout of the group is a layout of its root. The layout of a member follows from it, or provably
//! does not exist.
//!
//! Example: of `%0 = matmul`, `%1 = reshape(%0)` and `%2 = transpose(%1)`, `%0` is the root. `%1` and `%2` are members
//! with one map each: the reshape, and the reshape joined with the transpose.

use super::layouts::{LayoutId, Layouts, MapId};
use super::maps::{FastMap, FastSet};
use super::over::Over;
use super::parts::cuts;
use super::signature::{Cut, Elements, Signature, SignatureId};
use super::signatures::Signatures;
use crate::codes;
use crate::names::name_of;
use crate::pass::PassContext;
use optc_check::End;
use optc_check::padding::{FUSING, STREAMING};
use optc_check::stats::changes_space;
use optc_ir::entity::{SideTable, Table};
use optc_ir::entity_id;
use optc_ir::size::SizeTable;
use optc_ir::{
    Diagnostic, Dim, Freedom, FreedomClass, Func, Module, Op, StandIns, Structure, TensorType,
    Type, Value,
};
use optc_layout::{Notation, ViewMap};
use optc_ops::Dequantized;
use std::sync::Arc;

entity_id! {
    /// A storage group.
    Group, "g"
}
entity_id! {
    /// A reader or writer of groups: an operation, the boundary, or an alias across a rearrangement that digits cannot
    /// express.
    Node, "n"
}

/// A member of a group: its root seen through maps.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) group: Group,
    /// Maps from the root to this value, in order. No two adjacent maps could be joined into one.
    pub(crate) maps: Arc<[MapId]>,
    pub(crate) bits: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupData {
    pub(crate) root: Value,
    pub(crate) shape: Vec<u64>,
    pub(crate) bits: u32,
    /// The memory space of every member. The search chooses layouts, not memory spaces.
    pub(crate) space: u32,
    /// True if the value is known at compile time: it may lie in any layout, without movement.
    pub(crate) constant: bool,
    /// True if the value is computed of constants alone: its conversions happen at compile time.
    pub(crate) folded: bool,
    /// The node that produces the root and the port it does so at.
    pub(crate) producer: Option<(Node, usize)>,
    /// The nodes and ports that read a member.
    pub(crate) uses: Vec<(Node, usize)>,
    /// True if no operation writes the value: the caller does, or it is a view of another group.
    pub(crate) is_given: bool,
    /// True if an operation that computes reads the value. A rearrangement that stays does not count.
    pub(crate) is_read: bool,
    /// True if a streaming operation writes the value and only streaming operations read it, or if a contraction or
    /// convolution makes it and one element-wise operation alone reads it (its epilogue).
    streamed: bool,
    /// True if the value may be a part of another value in place. Then nothing writes it.
    pub(crate) may_be_part: bool,
}

impl GroupData {
    /// The number of times that the padding counts: once for the write, once for the reads.
    pub(crate) fn touches(&self) -> u64 {
        u64::from(self.is_written()) + u64::from(self.is_read)
    }

    /// Returns whether an operation writes the value, whatever layouts are chosen.
    pub(crate) fn is_written(&self) -> bool {
        !self.is_given && !self.may_be_part
    }

    /// Returns whether the value is known at compile time: a constant, or computed of constants.
    pub(crate) fn is_known(&self) -> bool {
        self.constant || self.folded
    }
}

/// One operand or result of a node.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) value: Value,
    pub(crate) is_result: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// An operation of the program.
    Op(Op),
    /// A rearrangement kept as an alias: the operand's layout decides the result's.
    Alias(Op, MapId),
    /// Argument `i`: its layout is free, or pinned to what the port requires.
    Arg(usize),
    /// Result `i` of the function.
    Return(usize),
}

/// The reason why a port is pinned to a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// The function declares the layout; an option frees it.
    Declared,
    /// The function declares the layout, and is called.
    Called,
    /// The port shares memory with another port.
    Shared,
    /// The option `--pin`.
    Option,
    /// The text of a file of bare operations states the layout. The boundary of such a file is free elsewhere.
    Written,
}

#[derive(Clone, Debug)]
pub(crate) struct NodeData {
    pub(crate) kind: NodeKind,
    pub(crate) ports: Vec<Port>,
    pub(crate) signature: Option<SignatureId>,
    /// For the boundary: the required layout, if the port is pinned.
    pub(crate) pinned: Option<LayoutId>,
    /// The reason for the required layout.
    pub(crate) pin: Option<Pin>,
    /// The required memory space.
    pub(crate) space: Option<u32>,
}

impl NodeData {
    /// The name of a port among the operands or the results.
    pub(crate) fn port_name(&self, port: usize) -> String {
        let operands = self.ports.iter().filter(|p| !p.is_result).count();
        match port.checked_sub(operands) {
            Some(result) => format!("result {result}"),
            None => format!("operand {port}"),
        }
    }
}

/// The program as the search sees it.
#[derive(Clone)]
pub(crate) struct Graph {
    pub(crate) groups: Table<Group, GroupData>,
    pub(crate) nodes: Table<Node, NodeData>,
    pub(crate) members: SideTable<Value, Option<Arc<Member>>>,
    pub(crate) shapes: SideTable<Value, Arc<[u64]>>,
    /// The numbers that stand for unknown sizes.
    pub(crate) numbers: StandIns,
    /// Ports of a free boundary that keep their layouts, because they share memory.
    pub(crate) kept: Vec<String>,
    /// On a machine with tiles, the layouts that the text states with tiles of their own.
    pub(crate) stated: Vec<(Value, LayoutId)>,
}

/// Layouts chosen for operations that run functions, and for those functions, instead of the declared ones.
#[derive(Clone, Default)]
pub(crate) struct Laid {
    /// By function that is run: its arguments, then its results.
    pub(crate) boundaries: FastMap<String, Vec<Option<Notation>>>,
    /// By the first function that an operation runs: its operands, then its results.
    pub(crate) ports: FastMap<String, Vec<Option<Notation>>>,
}

/// The functions of a module, as calls see them.
pub(crate) struct Functions<'m> {
    by_name: FastMap<&'m str, &'m Func>,
    first: Option<&'m Func>,
    /// Functions that calls or other operations name: their boundaries stay as declared.
    called: FastSet<&'m str>,
    /// Layouts chosen where functions are run.
    pub(crate) laid: Laid,
}

impl<'m> Functions<'m> {
    pub(crate) fn new(module: &'m Module) -> Self {
        let mut functions = Functions {
            by_name: FastMap::default(),
            first: module.funcs.first(),
            called: FastSet::default(),
            laid: Laid::default(),
        };
        for func in &module.funcs {
            functions.by_name.entry(&func.name).or_insert(func);
            for &op in &func.body {
                functions.called.extend(func.ops[op].props.symbols());
            }
        }
        functions
    }

    /// Returns whether this is the function that the program's user sees: `main`, or else the first.
    pub(crate) fn is_entry(&self, func: &Func) -> bool {
        let entry = self.by_name.get("main").copied().or(self.first);
        entry.is_some_and(|entry| std::ptr::eq(entry, func))
    }

    /// Frees the boundary of a function that something names. [`Self::call`] undoes it.
    pub(crate) fn uncall(&mut self, name: &str) -> Option<&'m str> {
        let at = self.called.get_index_of(name)?;
        self.called.swap_remove_index(at)
    }

    /// Keeps the boundary of a function that something names.
    pub(crate) fn call(&mut self, name: Option<&'m str>) {
        self.called.extend(name);
    }

    /// The layouts chosen for the ports of an operation that runs functions.
    fn ports(&self, func: &Func, op: Op) -> Option<&[Option<Notation>]> {
        let mut names = func.ops[op].props.symbols();
        names.find_map(|name| self.laid.ports.get(name).map(Vec::as_slice))
    }

    fn is_called(&self, name: &str) -> bool {
        self.called.contains(name)
    }

    /// Returns whether a function keeps a boundary that could be in another layout: something names the function, and
    /// an argument or a result has elements in more than one order.
    pub(crate) fn keeps_boundary(&self, func: &Func) -> bool {
        let mut ports = func.args.iter().chain(&func.results);
        let orders = |&v: &Value| {
            let dims = func.ty(v).as_tensor().map_or(&[][..], |ty| &ty.dims);
            dims.iter().any(|d| !d.is_one())
        };
        self.is_called(&func.name) && ports.any(orders)
    }

    /// The function that an operation calls, if it is a call.
    fn callee(&self, func: &Func, op: Op) -> Option<&'m Func> {
        self.by_name.get(func.callee(op)?).copied()
    }
}

/// The element width assumed for a value that is no tensor.
const UNKNOWN_BITS: u32 = 8;

/// Arguments that share their memory with results (`hbir.alias`), and those results.
pub(crate) fn shared_ports(func: &Func) -> impl Iterator<Item = Value> {
    let ports = func.args.iter().zip(&func.arg_ports);
    ports.flat_map(|(&arg, port)| {
        let results = port.attrs.ints("hbir.alias").unwrap_or_default();
        let result = |n: i64| func.results.get(usize::try_from(n).ok()?).copied();
        let results: Vec<Value> = results.into_iter().filter_map(result).collect();
        let arg = (!results.is_empty()).then_some(arg);
        results.into_iter().chain(arg)
    })
}

/// The bits that an element of a value takes in memory. For some types that is more than the type's own width.
fn width(ty: Option<&TensorType>) -> u32 {
    ty.map_or(UNKNOWN_BITS, |ty| ty.notation.element_bits(ty.dtype.bits()))
}

/// Builds the graph of one function.
pub(crate) fn build(
    func: &Func,
    functions: &Functions<'_>,
    cx: &PassContext,
    layouts: &mut Layouts,
    signatures: &mut Signatures,
    counts_copies: bool,
) -> Result<Graph, Box<Diagnostic>> {
    let numbers = StandIns::for_func(func, &cx.registry).ok_or_else(|| {
        let message = format!("the sizes of a value of @{} are too large", func.name);
        Box::new(Diagnostic::error(codes::REARRANGE_UNKNOWN_SIZE, message).at(func.span, "here"))
    })?;
    let mut types = func.values.ids().filter_map(|v| func.ty(v).as_tensor());
    let any = types.any(|ty| ty.shape().is_none());
    if layouts.begin(&numbers, any, &SizeTable::new(&cx.bindings), &cx.target) {
        signatures.forget();
    }
    let cuts = match counts_copies && layouts.is_tiled() {
        true => cuts(func, &cx.registry, &cx.target),
        false => SideTable::new(Vec::new()),
    };
    let mut builder = Builder {
        func,
        called: functions.is_called(&func.name),
        functions,
        aliased: shared_ports(func).collect(),
        dequantized: Dequantized::of(func, &cx.registry),
        cx,
        layouts,
        signatures,
        cuts,
        graph: Graph {
            groups: Table::new(),
            nodes: Table::new(),
            members: SideTable::new(None),
            shapes: SideTable::new(Arc::from([])),
            numbers,
            kept: Vec::new(),
            stated: Vec::new(),
        },
    };
    builder.arguments()?;
    for &op in &func.body {
        builder.op(op)?;
    }
    builder.results()?;
    builder.stated();
    builder.epilogues();
    Ok(builder.graph)
}

struct Builder<'a> {
    func: &'a Func,
    /// True if some operation names this function: its boundary stays as declared.
    called: bool,
    functions: &'a Functions<'a>,
    /// Arguments and results that share memory: they keep the layouts that they declare.
    aliased: FastSet<Value>,
    dequantized: Dequantized,
    cx: &'a PassContext,
    layouts: &'a mut Layouts,
    signatures: &'a mut Signatures,
    /// For each operation, the ports that may be parts of other ports in place.
    cuts: SideTable<Op, Vec<Cut>>,
    graph: Graph,
}

impl Builder<'_> {
    fn arguments(&mut self) -> Result<(), Box<Diagnostic>> {
        for (i, &value) in self.func.args.iter().enumerate() {
            let shape = self.fresh_shape(value);
            let key = self.func.arg_key(i);
            let pinned = self.boundary(&key, i, value, &shape)?;
            let node = self.node(NodeKind::Arg(i), vec![value], 1, None);
            self.root(value, shape, false, node, 0);
            if let Some((layout, space, pin)) = pinned {
                self.pinned(node, layout, pin);
                if let Some(member) = &self.graph.members[value] {
                    self.graph.groups[member.group].space = space;
                }
            }
        }
        Ok(())
    }

    fn results(&mut self) -> Result<(), Box<Diagnostic>> {
        for (i, &value) in self.func.results.iter().enumerate() {
            let shape = self.graph.shapes[value].to_vec();
            let key = self.func.result_key(i);
            let port = self.func.args.len() + i;
            let pinned = self.boundary(&key, port, value, &shape)?;
            let node = self.node(NodeKind::Return(i), vec![value], 0, None);
            if let Some((layout, space, pin)) = pinned {
                self.pinned(node, layout, pin);
                self.graph.nodes[node].space = Some(space);
            }
            self.use_port(value, node, 0);
        }
        Ok(())
    }

    /// Marks the operands of element-wise operations that are epilogues of a contraction or convolution.
    fn epilogues(&mut self) {
        let family = |graph: &Graph, node: Node| {
            let id = graph.nodes[node].signature;
            id.map(|id| self.signatures.get(id).family)
        };
        let graph = &self.graph;
        let fused = |node: Node| {
            let ports = graph.nodes[node].ports.iter().filter(|p| !p.is_result);
            let mut groups = ports.filter_map(|p| Some(graph.member(p.value)?.group));
            groups.find(|&group| {
                let data = &graph.groups[group];
                let made = data.producer.and_then(|(node, _)| family(graph, node));
                data.uses.len() == 1 && made.is_some_and(|made| FUSING.contains(&made))
            })
        };
        let nodes = graph.nodes.ids();
        let elementwise = nodes.filter(|&node| family(graph, node) == Some("elementwise"));
        let fused: Vec<Group> = elementwise.filter_map(fused).collect();
        for group in fused {
            self.graph.groups[group].streamed = true;
        }
    }

    /// Records the layouts that the text states with tiles.
    fn stated(&mut self) {
        if !self.layouts.is_tiled() {
            return;
        }
        for value in self.func.values.ids() {
            if let Some(layout) = self.tiled_text(value) {
                self.graph.stated.push((value, layout));
            }
        }
    }

    /// The layout of a value, where the text states it with tiles.
    fn tiled_text(&mut self, value: Value) -> Option<LayoutId> {
        let ty = self.func.ty(value).as_tensor()?;
        let Notation::Xla(xla) = &ty.notation else {
            return None;
        };
        if xla.tiles().is_empty() {
            return None;
        }
        let shape = self.graph.shapes[value].to_vec();
        let layout = optc_layout::Layout::new(ty.notation.clone(), &shape, ty.dtype.bits());
        let layout = layout.and_then(|layout| layout.in_space(0)).ok()?;
        Some(self.layouts.on_machine(layout))
    }

    fn pinned(&mut self, node: Node, layout: LayoutId, pin: Pin) {
        self.graph.nodes[node].pinned = Some(layout);
        self.graph.nodes[node].pin = Some(pin);
    }

    /// The layout and the memory space that the boundary requires of a port; `None` when it is free.
    fn boundary(
        &mut self,
        key: &str,
        port: usize,
        value: Value,
        shape: &[u64],
    ) -> Result<Option<(LayoutId, u32, Pin)>, Box<Diagnostic>> {
        let Some(ty) = self.func.ty(value).as_tensor() else {
            return Ok(None);
        };
        let laid = self.functions.laid.boundaries.get(&*self.func.name);
        let laid = laid.and_then(|laid| laid.get(port)?.as_ref());
        if let Some(notation) = laid.filter(|_| self.called) {
            let (notation, space) = (notation.clone(), ty.notation.space());
            let layout = self.pin(notation, key, shape, ty.dtype.bits())?;
            return Ok(Some((layout, space, Pin::Called)));
        }
        let boundary = &self.cx.boundary;
        let (notation, pin) = match boundary.pins.get(key) {
            Some(pin) if !self.called => (pin.clone(), Pin::Option),
            _ => {
                let bare_free = self.func.bare && !boundary.pin_bare;
                let named = boundary.free.iter().any(|f| f == key);
                let aliased = self.aliased.contains(&value);
                let free = !self.called && (boundary.free_all || bare_free || named);
                let written = bare_free && ty.notation != Notation::RowMajor;
                if free && !written {
                    if !aliased {
                        return Ok(None);
                    }
                    self.graph.kept.push(key.to_owned());
                }
                let pin = match (self.called, aliased, written) {
                    (true, ..) => Pin::Called,
                    (_, true, _) => Pin::Shared,
                    (_, _, true) => Pin::Written,
                    (false, false, false) => Pin::Declared,
                };
                (ty.notation.clone(), pin)
            }
        };
        let space = notation.space();
        let layout = self.pin(notation, key, shape, ty.dtype.bits())?;
        Ok(Some((layout, space, pin)))
    }

    /// The layout that is pinned at a port, without its memory space.
    fn pin(
        &mut self,
        notation: Notation,
        key: &str,
        shape: &[u64],
        bits: u32,
    ) -> Result<LayoutId, Box<Diagnostic>> {
        let layout = optc_layout::Layout::new(notation, shape, bits);
        let layout = layout
            .and_then(|layout| layout.in_space(0))
            .map_err(|error| {
                let error = self.graph.numbers.reword(&error.to_string());
                let message = format!("the layout pinned at `{key}` does not fit: {error}");
                Box::new(Diagnostic::error(codes::PIN_LAYOUT, message))
            })?;
        Ok(self.layouts.on_machine(layout))
    }

    /// The fixed layouts at the ports of an operation. For a call they are those of the function's boundary. For
    /// another operation that runs functions, and for a copy into another memory space, they are those that it was
    /// written with. Empty for other operations.
    fn declared(
        &mut self,
        op: Op,
        shapes: &[Vec<u64>],
        bits: &[u32],
    ) -> Result<Vec<LayoutId>, Box<Diagnostic>> {
        let (func, data) = (self.func, &self.func.ops[op]);
        if data.props.symbols().next().is_none() && !changes_space(func, op, &self.cx.registry) {
            return Ok(self.stated_ports(op, shapes, bits));
        }
        let laid = self.functions.ports(func, op).map(<[_]>::to_vec);
        let callee = self.functions.callee(func, op);
        let (owner, ports) = match callee.filter(|_| laid.is_none()) {
            Some(callee) => (callee, callee.args.iter().chain(&callee.results)),
            None => (func, data.operands.iter().chain(&data.results)),
        };
        let decided =
            laid.is_some() || callee.is_some() || changes_space(func, op, &self.cx.registry);
        let mut layouts = Vec::with_capacity(shapes.len());
        for (at, (&value, (shape, &bits))) in ports.zip(shapes.iter().zip(bits)).enumerate() {
            layouts.push(match owner.ty(value).as_tensor() {
                // An operation that hands values to its functions in a way of its own keeps the written layouts.
                Some(ty) if !decided => {
                    let layout = ty.layout().and_then(Result::ok);
                    let layout = layout.and_then(|l| l.in_space(0).ok());
                    match layout {
                        Some(layout) => self.layouts.intern(layout),
                        None => self.layouts.row_major(shape, bits),
                    }
                }
                Some(ty) => {
                    let laid = laid.as_ref().and_then(|laid| laid.get(at)?.clone());
                    let notation = laid.unwrap_or_else(|| ty.notation.clone());
                    self.pin(notation, &data.name, shape, ty.dtype.bits())?
                }
                None => self.layouts.row_major(shape, bits),
            });
        }
        Ok(layouts)
    }

    /// On a machine with tiles, the layouts of a barrier whose text states them.
    fn stated_ports(&mut self, op: Op, shapes: &[Vec<u64>], bits: &[u32]) -> Vec<LayoutId> {
        let data = &self.func.ops[op];
        let class = self.cx.registry.class(&self.func.op_ref(op));
        // Beside values without tiles, the tiles of a text need not be the machine's.
        let plain = bits.iter().any(|&bits| self.layouts.is_plain(bits));
        let known = class.is_some_and(|c| c != FreedomClass::Barrier);
        if !self.layouts.is_tiled() || plain || known {
            return Vec::new();
        }
        let ports: Vec<Value> = data.operands.iter().chain(&data.results).copied().collect();
        let stated: Vec<Option<LayoutId>> = ports.iter().map(|&v| self.tiled_text(v)).collect();
        if stated.iter().all(Option::is_none) {
            return Vec::new();
        }
        let natural = stated.into_iter().zip(shapes.iter().zip(bits));
        let port = |(stated, (shape, &bits)): (Option<LayoutId>, (&Vec<u64>, &u32))| {
            stated.unwrap_or_else(|| self.layouts.row_major(shape, bits))
        };
        natural.map(port).collect()
    }

    /// The number that stands for an extent of a value.
    fn number(&mut self, dim: &Dim) -> u64 {
        let number = self.graph.numbers.number(dim);
        let number = number.expect("`StandIns::for_func` has found numbers for all values");
        if *dim == Dim::Unknown {
            self.layouts.adopt(number);
        }
        number
    }

    fn fresh_shape(&mut self, value: Value) -> Vec<u64> {
        let ty = self.func.ty(value).as_tensor();
        let dims = ty.map_or(&[][..], |t| &t.dims);
        dims.iter().map(|d| self.number(d)).collect()
    }

    fn root(&mut self, value: Value, shape: Vec<u64>, constant: bool, node: Node, port: usize) {
        // A value that is no tensor is a unit that has no layout to choose.
        let ty = self.func.ty(value).as_tensor();
        let bits = width(ty);
        let space = ty.map_or(0, |ty| ty.notation.space());
        self.graph.shapes[value] = Arc::from(&shape[..]);
        let producer = Some((node, port));
        let data = GroupData {
            root: value,
            shape,
            bits,
            space,
            constant,
            folded: false,
            producer,
            uses: Vec::new(),
            is_given: matches!(
                self.graph.nodes[node].kind,
                NodeKind::Arg(_) | NodeKind::Alias(..)
            ),
            is_read: false,
            streamed: self.streams(node),
            may_be_part: false,
        };
        let group = self.graph.groups.push(data);
        self.graph.members[value] = Some(Arc::new(Member {
            group,
            maps: Arc::new([]),
            bits,
        }));
    }

    fn node(
        &mut self,
        kind: NodeKind,
        values: Vec<Value>,
        n_results: usize,
        signature: Option<SignatureId>,
    ) -> Node {
        let first_result = values.len() - n_results;
        let port = |(i, value)| Port {
            value,
            is_result: first_result <= i,
        };
        let ports = values.into_iter().enumerate().map(port).collect();
        self.graph.nodes.push(NodeData {
            kind,
            ports,
            signature,
            pinned: None,
            pin: None,
            space: None,
        })
    }

    /// Returns whether nothing is stored between this node and others of its kind.
    fn streams(&self, node: Node) -> bool {
        let id = self.graph.nodes[node].signature;
        id.is_some_and(|id| STREAMING.contains(&self.signatures.get(id).family))
    }

    fn use_port(&mut self, value: Value, node: Node, port: usize) {
        if let Some(member) = &self.graph.members[value] {
            let group = member.group;
            let streams = self.streams(node);
            let is_op = matches!(self.graph.nodes[node].kind, NodeKind::Op(_));
            let data = &mut self.graph.groups[group];
            data.uses.push((node, port));
            data.is_read |= is_op;
            data.streamed &= streams;
        }
    }

    fn op(&mut self, op: Op) -> Result<(), Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let op_ref = self.func.op_ref(op);
        let decl = self.cx.registry.get(&data.name);
        let freedom = decl.map_or_else(|| Freedom::barrier(&op_ref), |d| d.freedom(&op_ref));
        if changes_space(self.func, op, &self.cx.registry) {
            return self.barrier(op);
        }
        let converts = self.cx.registry.structure(&data.name) == Structure::Convert;
        if freedom.class == FreedomClass::Rearrange || converts {
            return self.rearrange(op, converts);
        }
        self.compute(op, freedom)
    }

    /// A barrier: operands and results are in the default layout, and nothing else is known.
    fn barrier(&mut self, op: Op) -> Result<(), Box<Diagnostic>> {
        let freedom = Freedom::barrier(&self.func.op_ref(op));
        self.compute(op, freedom)
    }

    /// An operation that computes, with this freedom.
    fn compute(&mut self, op: Op, freedom: Freedom) -> Result<(), Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let op_ref = self.func.op_ref(op);
        let decl = self.cx.registry.get(&data.name);
        let class = freedom.class;
        let tensor = |&v: &Value| matches!(self.func.ty(v), Type::Tensor(_));
        let all_tensors = data.operands.iter().chain(&data.results).all(tensor);
        let mut shapes: Vec<Vec<u64>> = data
            .operands
            .iter()
            .map(|&v| self.graph.shapes[v].to_vec())
            .collect();
        for (i, &result) in data.results.iter().enumerate() {
            let shape =
                self.result_shape(result, freedom.results.get(i), &freedom.operands, &shapes);
            self.graph.shapes[result] = Arc::from(&shape[..]);
            shapes.push(shape);
        }
        let values: Vec<Value> = data.operands.iter().chain(&data.results).copied().collect();
        let bits: Vec<u32> = values.iter().map(|&v| self.bits(v)).collect();
        let family = decl.map_or("barrier", |d| d.family_of(&op_ref));
        let freedom = if all_tensors {
            freedom
        } else {
            Freedom::barrier(&op_ref)
        };
        let declared = self.declared(op, &shapes, &bits)?;
        let mut signature = Signature::new(
            (family, Elements::of(self.func, op, &self.dequantized)),
            freedom,
            shapes,
            bits,
            data.operands.len(),
            declared,
            &self.cx.target,
        );
        if self.cx.target.row_major && class == FreedomClass::Ordered {
            signature.over = Over::of(&op_ref, &self.cx.registry);
        }
        let constant = class == FreedomClass::Source
            || (!data.operands.is_empty()
                && data.operands.iter().all(|&v| self.is_constant(v))
                && self.cx.registry.effect(&op_ref).is_pure());
        let (func, registry) = (self.func, &self.cx.registry);
        if self.layouts.is_tiled() {
            signature.read_tiles(&self.cx.target);
            if changes_space(func, op, registry) {
                signature.move_between_spaces();
            }
            if !constant {
                signature.cuts = std::mem::take(&mut self.cuts[op]);
                signature
                    .cuts
                    .retain(|cut| !self.is_constant(values[cut.part]));
            }
        }
        self.known_where_padded(op, &signature, &values)?;
        let id = self.signatures.intern(signature);
        let node = self.node(NodeKind::Op(op), values, data.results.len(), Some(id));
        for (port, &value) in data.operands.iter().enumerate() {
            self.use_port(value, node, port);
        }
        for (i, &result) in data.results.iter().enumerate() {
            let shape = self.graph.shapes[result].to_vec();
            let source = constant && class == FreedomClass::Source;
            self.root(result, shape, source, node, data.operands.len() + i);
            if let Some(member) = &self.graph.members[result] {
                let group = &mut self.graph.groups[member.group];
                group.folded = constant && !source;
                let port = data.operands.len() + i;
                let mut cuts = self.signatures.get(id).cuts.iter();
                group.may_be_part = cuts.any(|cut| cut.part == port);
            }
        }
        Ok(())
    }

    /// The bits that an element of a value takes in memory.
    fn bits(&self, value: Value) -> u32 {
        match self.graph.member(value) {
            Some(member) => member.bits,
            None => width(self.func.ty(value).as_tensor()),
        }
    }

    /// Refuses an unknown size where the target pads it.
    fn known_where_padded(
        &self,
        op: Op,
        signature: &Signature,
        values: &[Value],
    ) -> Result<(), Box<Diagnostic>> {
        let Some((port, least)) = signature.padded_unknown(self.layouts) else {
            return Ok(());
        };
        let value = values[port];
        let dims = self.func.ty(value).as_tensor().map_or(&[][..], |t| &t.dims);
        let (last, size) = dims
            .iter()
            .enumerate()
            .next_back()
            .unwrap_or((0, &Dim::Unknown));
        let target = &self.cx.target.name;
        let data = &self.func.ops[op];
        let message = format!(
            "`{}` has the size {size} in dimension {last} of {}, target `{target}` pads it to \
             {least} and wants it known",
            data.name,
            name_of(self.func, value)
        );
        let diag = Diagnostic::error(codes::TARGET_WANTS_SIZES, message).at(data.span, "here");
        Err(Box::new(diag))
    }

    fn is_constant(&self, value: Value) -> bool {
        self.graph.members[value]
            .as_ref()
            .is_some_and(|m| self.graph.groups[m.group].is_known())
    }

    /// Sizes of a result: known ones, and unknown ones from operands with the same label.
    fn result_shape(
        &mut self,
        value: Value,
        labels: Option<&Vec<Option<usize>>>,
        operand_labels: &[Vec<Option<usize>>],
        operand_shapes: &[Vec<u64>],
    ) -> Vec<u64> {
        let Some(ty) = self.func.ty(value).as_tensor() else {
            return Vec::new();
        };
        let mut shape = Vec::with_capacity(ty.rank());
        for (i, dim) in ty.dims.iter().enumerate() {
            let label = labels.and_then(|l| l.get(i).copied().flatten());
            let same = |(labels, sizes): (&Vec<Option<usize>>, &Vec<u64>)| {
                let at = labels.iter().position(|l| *l == label)?;
                sizes.get(at).copied()
            };
            let tied = match (dim, label) {
                (Dim::Unknown, Some(_)) => operand_labels.iter().zip(operand_shapes).find_map(same),
                _ => None,
            };
            shape.push(tied.unwrap_or_else(|| self.number(dim)));
        }
        shape
    }

    fn rearrange(&mut self, op: Op, converts: bool) -> Result<(), Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let (operand, result) = (data.operands[0], data.results[0]);
        let from = self.graph.shapes[operand].to_vec();
        let Some(member) = self.graph.members[operand].clone() else {
            return Ok(());
        };
        if converts {
            self.graph.shapes[result] = Arc::from(&from[..]);
            self.graph.members[result] = Some(member);
            return Ok(());
        }
        // A value in two memory spaces is no view.
        let space = self.func.ty(result).as_tensor().map(|t| t.notation.space());
        if space.is_some_and(|space| space != self.graph.groups[member.group].space) {
            return self.barrier(op);
        }
        // If the sizes do not follow from each other, the rearrangement stays, from row-major to row-major.
        let Some(map) = self.view_of(op, &from)? else {
            return self.barrier(op);
        };
        let to = map.result.clone();
        self.graph.shapes[result] = Arc::from(&to[..]);
        let map = self.layouts.map(&from, map);
        let maps = self.chain(&member.maps, map);
        let bits = member.bits;
        if maps.len() <= MAX_MAPS && self.reaches_default(&to, bits, &maps) {
            self.graph.members[result] = Some(Arc::new(Member {
                group: member.group,
                maps: maps.into(),
                bits,
            }));
        } else {
            self.alias(op, map, member.group, to);
        }
        Ok(())
    }

    /// The map of a rearrangement from these extents; `None` where sizes do not follow from each other.
    fn view_of(&mut self, op: Op, from: &[u64]) -> Result<Option<ViewMap>, Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let op_ref = self.func.op_ref(op);
        let dims = self.cx.registry.rearrangement(&op_ref).map_err(|error| {
            Box::new(Diagnostic::error(error.code, error.message.clone()).at(data.span, "here"))
        })?;
        let Some(shape) = self.graph.numbers.complete(&dims.shape, from) else {
            return Ok(None);
        };
        let permuted: Vec<u64> = dims.perm.iter().map(|&p| shape[p]).collect();
        let ty = self.func.ty(data.results[0]).as_tensor();
        let ty = ty.map_or(&[][..], |t| &t.dims);
        let Some(to) = self.graph.numbers.complete(ty, &permuted) else {
            return Ok(None);
        };
        let map = ViewMap {
            shape: (shape != from).then_some(shape),
            perm: (!dims.perm.iter().enumerate().all(|(i, &p)| i == p)).then_some(dims.perm),
            result: to,
        };
        Ok(map.check(from).is_ok().then_some(map))
    }

    /// Keeps a rearrangement as an alias: its result is the root of a group of its own.
    fn alias(&mut self, op: Op, map: MapId, group: Group, to: Vec<u64>) {
        let data = &self.func.ops[op];
        let (operand, result) = (data.operands[0], data.results[0]);
        let node = self.node(NodeKind::Alias(op, map), vec![operand, result], 1, None);
        self.use_port(operand, node, 0);
        let GroupData {
            constant, folded, ..
        } = self.graph.groups[group];
        self.root(result, to, constant, node, 1);
        if let Some(member) = &self.graph.members[result] {
            self.graph.groups[member.group].folded = folded;
        }
    }

    /// The maps and one more. The last two become one map where they can be joined.
    fn chain(&mut self, maps: &[MapId], next: MapId) -> Vec<MapId> {
        let (last, before) = match maps.split_last() {
            Some((&last, before)) => (last, before),
            None => return vec![next],
        };
        let mut chain = before.to_vec();
        match self.layouts.join(last, next) {
            Some(joined) => chain.push(joined),
            None => chain.extend([last, next]),
        }
        chain
    }

    /// Returns whether some layout of the root makes this member row-major.
    fn reaches_default(&mut self, shape: &[u64], bits: u32, maps: &[MapId]) -> bool {
        let mut at = Some(self.layouts.row_major(shape, bits));
        for &map in maps.iter().rev() {
            at = at.and_then(|l| self.layouts.backward(l, map));
        }
        at.is_some()
    }
}

/// The most maps between a member and its root, after joining. A value behind more maps is a root of its own.
const MAX_MAPS: usize = 8;

/// The most views of views that are followed to their source.
const MOST_VIEWS: usize = 64;

impl Graph {
    /// Arguments and results, and whether each is free to have any layout.
    pub(crate) fn ends(&self) -> Vec<(End, bool)> {
        let end = |data: &NodeData| {
            let end = match data.kind {
                NodeKind::Arg(i) => End::Arg(i),
                NodeKind::Return(i) => End::Result(i),
                NodeKind::Op(_) | NodeKind::Alias(..) => return None,
            };
            Some((end, data.pinned.is_none()))
        };
        self.nodes
            .ids()
            .filter_map(|node| end(&self.nodes[node]))
            .collect()
    }

    /// Returns whether a group lies between operations that stream. In one layout it is then stored nowhere.
    pub(crate) fn is_streamed(&self, group: Group) -> bool {
        let data = &self.groups[group];
        data.streamed && !data.uses.is_empty()
    }

    /// Returns whether reads of a group certainly count apart from other reads of its buffer. A view shares the buffer
    /// of its source.
    pub(crate) fn is_read_apart(&self, group: Group) -> bool {
        let mut at = group;
        for _ in 0..MOST_VIEWS {
            let data = &self.groups[at];
            if (at == group) != data.is_read {
                return false;
            }
            let alias = data.producer.map(|(node, _)| &self.nodes[node]);
            let of = alias.filter(|node| matches!(node.kind, NodeKind::Alias(..)));
            let Some(member) = of.and_then(|node| self.member(node.ports[0].value)) else {
                return true;
            };
            at = member.group;
        }
        false
    }

    /// Returns whether an operation computes values that are known at compile time.
    pub(crate) fn is_known(&self, node: Node) -> bool {
        let mut results = self.nodes[node].ports.iter().filter(|p| p.is_result);
        results.all(|p| {
            self.member(p.value)
                .is_none_or(|m| self.groups[m.group].is_known())
        })
    }

    /// A notation in words.
    pub(crate) fn words(&self, notation: &Notation) -> String {
        match notation {
            Notation::RowMajor => "row-major".to_owned(),
            other => self.numbers.reword(&format!("{{{other}}}")),
        }
    }

    pub(crate) fn member(&self, value: Value) -> Option<&Arc<Member>> {
        self.members[value].as_ref()
    }

    /// The layout of a member when its root lies in `layout`.
    pub(crate) fn at_member(
        &self,
        layouts: &mut Layouts,
        value: Value,
        layout: LayoutId,
    ) -> Option<LayoutId> {
        let member = self.members[value].as_ref()?;
        member
            .maps
            .iter()
            .try_fold(layout, |l, &map| layouts.forward(l, map))
    }

    /// The layout of the root that gives a member `layout`.
    pub(crate) fn at_root(
        &self,
        layouts: &mut Layouts,
        value: Value,
        layout: LayoutId,
    ) -> Option<LayoutId> {
        let member = self.members[value].as_ref()?;
        member
            .maps
            .iter()
            .rev()
            .try_fold(layout, |l, &map| layouts.backward(l, map))
    }
}
