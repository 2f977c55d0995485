//! Writes the program that a choice stands for: operations in their layouts, views and conversions.
//!
//! Example: if the root `%0` of `%1 = reshape(%0)` is produced row-major and a relu reads `%1` row-major, the output
//! has `%0`, one `hbir.view` of it, and the relu. If the relu reads another layout, an `hbir.layout_convert` of `%0`
//! stands before the view.

use super::choose::Choice;
use super::conversion::Conversion;
use super::groups::{Graph, Group, Member, Node, NodeKind};
use super::layouts::{LayoutId, Layouts, MapId};
use super::maps::FastMap;
use super::notation::spell;
use super::search::Need;
use indexmap::IndexSet;
use optc_ir::analysis::Uses;
use optc_ir::entity::SideTable;
use optc_ir::size::SizeTable;
use optc_ir::{
    Attr, AttrDict, Dim, Func, Loc, Op, Operation, Registry, TensorType, Type, Value, ValueDef,
};
use optc_layout::{Layout, Notation};
use optc_ops::{LayoutConvert, Reshape, View};
use optc_target::Target;
use std::sync::Arc;

/// The result of lowering a choice.
pub(crate) struct Emitted {
    pub(crate) func: Func,
    pub(crate) conversions: Vec<Conversion>,
    /// Storage groups that are converted at run time, with the layouts and the resulting values.
    pub(crate) turned: Vec<(Group, LayoutId, Value)>,
    /// The explanation of each new value.
    pub(crate) why: Vec<(Value, String)>,
    /// Operations of the old function and their replacements.
    pub(crate) operations: Vec<(Op, Op)>,
    /// Values of the old function that are read, and the new values that hold them.
    pub(crate) held: Vec<(Value, Value)>,
    /// If the places of values are recorded: more pairs, of values that are stored and their copies.
    pub(crate) stored: Vec<(Value, Value)>,
}

pub(crate) struct Emitter<'a> {
    pub(crate) old: &'a Func,
    pub(crate) graph: &'a Graph,
    pub(crate) layouts: &'a mut Layouts,
    pub(crate) candidates: &'a SideTable<Group, Vec<LayoutId>>,
    pub(crate) choice: &'a Choice,
    pub(crate) registry: &'a Registry,
    pub(crate) target: &'a Target,
    pub(crate) explain: bool,
    /// The sizes that costs are compared at.
    pub(crate) sizes: &'a SizeTable,
}

struct Output<'e, 'a> {
    e: &'e mut Emitter<'a>,
    new: Func,
    /// The root of a group in a layout.
    copies: FastMap<(Group, LayoutId), Value>,
    /// A root in a layout, seen through maps.
    views: FastMap<(Group, LayoutId, Vec<MapId>), Value>,
    /// A member that is converted on its own.
    direct: FastMap<(Value, LayoutId), Value>,
    conversions: Vec<Conversion>,
    turned: Vec<(Group, LayoutId, Value)>,
    conversion_of: FastMap<Value, usize>,
    why: Vec<(Value, String)>,
    operations: Vec<(Op, Op)>,
    held: Vec<(Value, Value)>,
    /// Constants that were made a second time in another layout.
    remade: Vec<Op>,
    /// The maps of members, as views write them.
    composed: FastMap<Vec<MapId>, Vec<MapId>>,
    /// Values that some operation in the body so far reads.
    read: SideTable<Value, bool>,
    /// The length of the body that `read` covers.
    scanned: usize,
}

impl<'a> Emitter<'a> {
    pub(crate) fn run(&mut self) -> Emitted {
        let mut new = Func::new(&self.old.name);
        new.attrs = self.old.attrs.clone();
        new.loc = self.old.loc.clone();
        new.span = self.old.span;
        new.bare = self.old.bare;
        let mut out = Output {
            e: self,
            new,
            copies: FastMap::default(),
            views: FastMap::default(),
            direct: FastMap::default(),
            conversions: Vec::new(),
            turned: Vec::new(),
            conversion_of: FastMap::default(),
            why: Vec::new(),
            operations: Vec::new(),
            held: Vec::new(),
            remade: Vec::new(),
            composed: FastMap::default(),
            read: SideTable::new(false),
            scanned: 0,
        };
        out.arguments();
        let nodes: Vec<Node> = out.e.graph.nodes.ids().collect();
        for node in nodes {
            out.node(node);
        }
        out.results();
        out.drop_remade();
        let stored = match out.e.old.trace {
            Some(_) => out.stored(),
            None => Vec::new(),
        };
        Emitted {
            stored,
            func: out.new,
            conversions: out.conversions,
            turned: out.turned,
            why: out.why,
            operations: out.operations,
            held: out.held,
        }
    }
}

impl Output<'_, '_> {
    /// Each value that is stored, with its copies in the order in which they were made.
    fn stored(&self) -> Vec<(Value, Value)> {
        let groups = &self.e.graph.groups;
        let copies = self.copies.iter();
        let copies = copies.map(|((group, _), &value)| (groups[*group].root, value));
        let direct = self.direct.iter().map(|((of, _), &value)| (*of, value));
        let mut all: Vec<(Value, Value)> = copies.chain(direct).collect();
        all.sort_by_key(|&(of, value)| (value, of));
        all
    }

    fn produced(&self, group: Group) -> LayoutId {
        self.e.candidates[group][self.e.choice.groups[group].produced]
    }

    fn notation(&self, layout: LayoutId) -> Notation {
        let target = self.e.target;
        self.e.layouts.notation(layout, |l| spell(l, target))
    }

    fn spelled(&self, value: Value, layout: LayoutId) -> Type {
        let Some(ty) = self.e.old.ty(value).as_tensor() else {
            return self.e.old.ty(value).clone();
        };
        let space = self.e.graph.groups[self.member(value).group].space;
        let notation = self.notation_of(layout, ty.dtype.bits(), space);
        ty.with_notation(notation).into()
    }

    /// The notation of a layout in a memory space, for a value whose type has elements of `type_bits`.
    fn notation_of(&self, layout: LayoutId, type_bits: u32, space: u32) -> Notation {
        let found = self.e.layouts.get(layout);
        if space == 0 && found.elem_bits() == type_bits {
            return self.notation(layout);
        }
        let stored = found.stored_as(type_bits, space);
        stored.map_or_else(|_| self.notation(layout), |l| l.notation().clone())
    }

    fn arguments(&mut self) {
        let old = self.e.old;
        let mut pins = vec![None; old.args.len()];
        for (_, node) in self.e.graph.nodes.iter() {
            if let NodeKind::Arg(i) = node.kind {
                pins[i] = node.pinned;
            }
        }
        for (i, &value) in old.args.iter().enumerate() {
            let pinned = pins[i];
            let group = self.member(value).group;
            let layout = self.produced(group);
            let ty = self.boundary_type(value, layout, pinned.is_some());
            let name = old.values[value].name.as_deref();
            let arg = self.new.add_arg(ty, name);
            self.new.arg_ports[i] = old.arg_ports[i].clone();
            self.copies.insert((group, layout), arg);
            self.say(arg, || format!("argument {i}"));
        }
    }

    /// The type of a value at the boundary. A pinned boundary keeps its declared notation where it equals the layout.
    fn boundary_type(&self, value: Value, layout: LayoutId, pinned: bool) -> Type {
        let declared = self.e.old.ty(value);
        if !pinned {
            return self.spelled(value, layout);
        }
        let of_tensor = |ty: &TensorType| {
            let shape = &self.e.graph.shapes[value];
            Layout::new(ty.notation.clone(), shape, ty.dtype.bits())
        };
        let Some(Ok(l)) = declared.as_tensor().map(of_tensor) else {
            return declared.clone();
        };
        let space = self.e.graph.groups[self.member(value).group].space;
        let chosen = self.e.layouts.get(layout);
        let kept = l.space() == space && l.in_space(0).is_ok_and(|l| l.same_function(chosen));
        match kept {
            true => declared.clone(),
            false => self.spelled(value, layout),
        }
    }

    fn node(&mut self, node: Node) {
        let data = &self.e.graph.nodes[node];
        match data.kind.clone() {
            NodeKind::Arg(_) | NodeKind::Return(_) => {}
            NodeKind::Op(op) => self.op(node, op),
            NodeKind::Alias(op, map) => self.alias(node, op, map),
        }
    }

    fn op(&mut self, node: Node, op: Op) {
        let old = self.e.old;
        let data = &old.ops[op];
        let needs = self.e.choice.modes[node].needs.clone();
        let mut operands = Vec::with_capacity(data.operands.len());
        for (port, &value) in data.operands.iter().enumerate() {
            let operand = self.operand(value, &needs[port], (Some(op), true));
            self.held.push((value, operand));
            operands.push(operand);
        }
        let mut types = Vec::with_capacity(data.results.len());
        let mut layouts = Vec::with_capacity(data.results.len());
        for &result in &data.results {
            let group = self.member(result).group;
            let layout = self.result_layout(group);
            types.push(self.spelled(result, layout));
            layouts.push((group, layout));
        }
        let (name, props) = self.written(op);
        let new = self
            .new
            .make_op(name, operands, props, types, data.loc.clone());
        self.new.ops[new].attrs = data.attrs.clone();
        self.new.ops[new].span = data.span;
        self.new.body.push(new);
        let results = self.new.ops[new].results.clone();
        self.operations.push((op, new));
        self.held
            .extend(data.results.iter().copied().zip(results.iter().copied()));
        for (key, value) in layouts.into_iter().zip(results) {
            self.copies.insert(key, value);
            self.explain_op(value, node, data.name.as_ref());
        }
    }

    /// The name and properties of an operation in the output. A reshape with unknown sizes becomes the view that it is
    /// in row-major order. A transpose stays. An operation other than a reshape whose result has several sizes without
    /// names stays too: the types of a view would not determine these sizes.
    fn written(&self, op: Op) -> (Arc<str>, AttrDict) {
        let data = &self.e.old.ops[op];
        let view = self.e.registry.rearrangement(&self.e.old.op_ref(op));
        let in_order = view.is_ok_and(|view| view.perm.is_sorted());
        let ty = data
            .results
            .first()
            .and_then(|&v| self.e.old.ty(v).as_tensor());
        let open = ty.map_or(0, |ty| {
            ty.dims.iter().filter(|d| **d == Dim::Unknown).count()
        });
        let says_sizes = &*data.name != Reshape::NAME && 1 < open;
        let (operand, result) = (data.operands.first(), data.results.first());
        let space =
            |value: Option<&Value>| Some(self.e.graph.groups[self.member(*value?).group].space);
        let stays = space(operand) == space(result);
        if stays && in_order && !says_sizes {
            return (Arc::from(View::NAME), AttrDict::new());
        }
        (data.name.clone(), data.props.clone())
    }

    /// The layout of a result. A constant is first made as its file has it; copies in other layouts follow.
    fn result_layout(&self, group: Group) -> LayoutId {
        if self.e.graph.groups[group].constant {
            return self.e.candidates[group][0];
        }
        self.produced(group)
    }

    /// The storage group of a value, and the maps from the root to it.
    fn member(&self, value: Value) -> Arc<Member> {
        let member = self.e.graph.member(value);
        member.cloned().expect("every value has a storage group")
    }

    fn explain_op(&mut self, value: Value, node: Node, name: &str) {
        if !self.e.explain {
            return;
        }
        let data = &self.e.graph.nodes[node];
        let ports = data.ports.iter().enumerate();
        let ports: Vec<String> = ports
            .map(|(i, p)| format!("{}: {}", data.port_name(i), self.describe(p.value)))
            .collect();
        self.why
            .push((value, format!("`{name}` in the form {}", ports.join("; "))));
    }

    fn describe(&self, value: Value) -> String {
        let group = self.member(value).group;
        if self.e.graph.groups[group].constant {
            return "constant".to_owned();
        }
        format!("root in {}", self.text(self.produced(group)))
    }

    fn say(&mut self, value: Value, text: impl FnOnce() -> String) {
        if self.e.explain {
            self.why.push((value, text()));
        }
    }

    fn text(&self, layout: LayoutId) -> String {
        self.e.graph.words(&self.notation(layout))
    }

    /// The value that an operation reads: some copy of the group, seen through the member's maps. The last parameter
    /// has the reader, and whether it computes or only moves.
    fn operand(
        &mut self,
        value: Value,
        need: &Need,
        (reader, computes): (Option<Op>, bool),
    ) -> Value {
        let member = self.member(value);
        let group = member.group;
        // The produced layout may be available only to operations that do not compute.
        let state = self.e.choice.groups[group];
        let need = &match state.read || !computes || self.e.graph.groups[group].constant {
            true => need.clone(),
            false => Need {
                mask: need.mask & !(1u64 << state.produced),
                ..need.clone()
            },
        };
        if let Some(layout) = need.direct
            && self.is_direct(group, need, layout)
        {
            return self.direct_copy(value, group, layout, reader);
        }
        let layout = match need.constant {
            Some(layout) => layout,
            None => self.pick(group, need.mask),
        };
        let copy = self.copy(group, layout, reader);
        self.view(value, group, layout, copy, &member.maps)
    }

    /// Returns whether a layout at the port itself serves a need best: no available copy serves it, and every other
    /// layout is larger.
    fn is_direct(&self, group: Group, need: &Need, layout: LayoutId) -> bool {
        let state = self.e.choice.groups[group];
        if need.mask & ((1u64 << state.produced) | state.extras) != 0 {
            return false;
        }
        let all = self.e.candidates[group].iter().enumerate();
        let mut others = all.filter(|(i, _)| need.mask & (1u64 << i) != 0);
        let bytes = self.e.layouts.bytes(layout);
        others.all(|(_, &other)| bytes < self.e.layouts.bytes(other))
    }

    /// The layout of the copy that serves a need best: an available one, else the smallest.
    fn pick(&self, group: Group, mask: u64) -> LayoutId {
        let all = &self.e.candidates[group];
        let state = self.e.choice.groups[group];
        let ok = |i: usize| mask & (1u64 << i) != 0;
        if ok(state.produced) {
            return all[state.produced];
        }
        let there = (0..all.len()).filter(|&i| ok(i) && state.extras & (1u64 << i) != 0);
        let made = (0..all.len()).filter(|&i| ok(i) && self.copies.contains_key(&(group, all[i])));
        let cheap = (0..all.len())
            .filter(|&i| ok(i))
            .min_by_key(|&i| (self.e.layouts.bytes(all[i]), i));
        let best = made.chain(there).next().or(cheap);
        best.map_or(all[state.produced], |i| all[i])
    }

    /// The root of a group in a layout; converted if there is no such copy yet.
    fn copy(&mut self, group: Group, layout: LayoutId, reader: Option<Op>) -> Value {
        if let Some(&value) = self.copies.get(&(group, layout)) {
            if let Some(&at) = self.conversion_of.get(&value)
                // Readers come in order: a known one is the last.
                && self.conversions[at].readers.last() != Some(&reader)
            {
                self.conversions[at].readers.push(reader);
            }
            return value;
        }
        let data = &self.e.graph.groups[group];
        let (constant, known) = (data.constant, data.is_known());
        let from = if constant {
            self.e.candidates[group][0]
        } else {
            self.produced(group)
        };
        let source = self.copies[&(group, from)];
        let root = data.root;
        let ty = self.spelled(root, layout);
        let value = if constant && self.is_source(source) {
            self.constant_in(source, ty)
        } else {
            let loc = self.loc_of(root);
            self.single(LayoutConvert::NAME, source, AttrDict::new(), ty, loc)
        };
        self.note_conversion(value, root, known, from, layout, reader);
        if !known {
            self.turned.push((group, layout, value));
        }
        self.copies.insert((group, layout), value);
        value
    }

    fn note_conversion(
        &mut self,
        value: Value,
        of: Value,
        constant: bool,
        from: LayoutId,
        to: LayoutId,
        reader: Option<Op>,
    ) {
        let ValueDef::Result(op, _) = self.new.values[value].def else {
            return;
        };
        let mut bytes = self.e.layouts.amount(from);
        bytes.add(&self.e.layouts.amount(to), self.e.sizes);
        let words_of_layouts = [self.text(from), self.text(to)];
        let words = bytes.words(self.e.sizes);
        self.say(value, || {
            let [from, to] = &words_of_layouts;
            format!("converted from {from} to {to}, {words}")
        });
        self.conversion_of.insert(value, self.conversions.len());
        let readers = vec![reader];
        self.conversions.push(Conversion {
            op,
            of,
            bytes: bytes.at(self.e.sizes),
            words,
            polynomial: bytes.polynomial(),
            constant,
            from: self.e.layouts.get(from).clone(),
            to: self.e.layouts.get(to).clone(),
            words_of_layouts,
            readers,
            forced_by: None,
            wanted_by: None,
            reason: None,
            left_out: Vec::new(),
        });
    }

    fn is_source(&self, value: Value) -> bool {
        self.new
            .def_op(value)
            .is_some_and(|op| self.new.ops[op].operands.is_empty())
    }

    /// The constant again, written in another layout at compile time.
    fn constant_in(&mut self, source: Value, ty: Type) -> Value {
        let op = self
            .new
            .def_op(source)
            .expect("a source is the result of an operation");
        let data = self.new.ops[op].clone();
        let new = self
            .new
            .make_op(data.name, Vec::new(), data.props, vec![ty], data.loc);
        self.new.ops[new].attrs = data.attrs;
        self.remade.push(op);
        self.new.body.push(new);
        self.new.ops[new].results[0]
    }

    /// Drops constants that are used only through their copies in other layouts.
    fn drop_remade(&mut self) {
        if self.remade.is_empty() {
            return;
        }
        let uses = Uses::of(&self.new);
        let remade: IndexSet<Op> = self.remade.iter().copied().collect();
        let ops = &self.new.ops;
        self.new
            .body
            .retain(|op| !remade.contains(op) || ops[*op].results.iter().any(|&r| uses.is_used(r)));
    }

    /// A member converted on its own, where no layout of the root gives the needed layout.
    fn direct_copy(
        &mut self,
        value: Value,
        group: Group,
        layout: LayoutId,
        reader: Option<Op>,
    ) -> Value {
        if let Some(&known) = self.direct.get(&(value, layout)) {
            return known;
        }
        let member = self.member(value);
        let mut from = self.produced(group);
        let mut here = self.e.graph.at_member(self.e.layouts, value, from);
        if here.is_none() {
            let all = self.e.candidates[group].clone();
            let reachable = all
                .into_iter()
                .find_map(|l| Some((l, self.e.graph.at_member(self.e.layouts, value, l)?)));
            if let Some((l, h)) = reachable {
                (from, here) = (l, Some(h));
            }
        }
        let here = here.expect("a member is reachable from the layout that makes it row-major");
        let copy = self.copy(group, from, reader);
        let seen = self.view(value, group, from, copy, &member.maps);
        let ty = self.spelled(value, layout);
        let loc = self.loc_of(value);
        let new = self.single(LayoutConvert::NAME, seen, AttrDict::new(), ty, loc);
        let constant = self.e.graph.groups[group].is_known();
        self.note_conversion(new, value, constant, here, layout, reader);
        self.direct.insert((value, layout), new);
        new
    }

    /// A copy of a root, seen as a member.
    fn view(
        &mut self,
        value: Value,
        group: Group,
        layout: LayoutId,
        copy: Value,
        maps: &[MapId],
    ) -> Value {
        if maps.is_empty() {
            return copy;
        }
        let steps = self.compose(group, maps);
        let Some((last, before)) = steps.split_last() else {
            return copy;
        };
        let key = (group, layout, steps.clone());
        if let Some(&known) = self.views.get(&key) {
            return known;
        }
        let mut at = layout;
        let mut seen = copy;
        for &map in before {
            at = self
                .e
                .layouts
                .forward(at, map)
                .expect("the search only uses layouts that exist");
            let ty = self.step_type(value, map, at);
            seen = self.emit_view(seen, map, ty, value);
        }
        at = self
            .e
            .layouts
            .forward(at, *last)
            .expect("the search only uses layouts that exist");
        let ty = self.spelled(value, at);
        seen = self.emit_view(seen, *last, ty, value);
        self.views.insert(key, seen);
        seen
    }

    /// The maps, joined where two become one. Maps that change nothing drop out.
    fn compose(&mut self, group: Group, maps: &[MapId]) -> Vec<MapId> {
        if let Some(known) = self.composed.get(maps) {
            return known.clone();
        }
        let composed = self.compose_anew(group, maps);
        self.composed.insert(maps.to_vec(), composed.clone());
        composed
    }

    fn compose_anew(&mut self, group: Group, maps: &[MapId]) -> Vec<MapId> {
        let mut shape = self.e.graph.groups[group].shape.clone();
        let mut out: Vec<(Vec<u64>, MapId)> = Vec::new();
        for &id in maps {
            let result = self.e.layouts.view_map(id).result.clone();
            match out.last_mut() {
                Some((_, last)) => match self.e.layouts.join(*last, id) {
                    Some(joined) => *last = joined,
                    None => out.push((shape, id)),
                },
                None => out.push((shape, id)),
            }
            shape = result;
        }
        let mut steps = Vec::with_capacity(out.len());
        for (from, id) in out {
            let mut map = self.e.layouts.view_map(id).clone();
            let stays = map
                .perm
                .as_ref()
                .is_some_and(|p| p.iter().enumerate().all(|(i, &a)| i == a));
            if stays {
                (map.perm, map.shape) = (None, None);
            }
            if map.perm.is_some() || from != map.result {
                steps.push(self.e.layouts.map(&from, map));
            }
        }
        steps
    }

    fn step_type(&self, value: Value, map: MapId, layout: LayoutId) -> Type {
        let dtype = self.e.old.ty(value).as_tensor().map(|t| t.dtype);
        let result = &self.e.layouts.view_map(map).result;
        let dims = result
            .iter()
            .map(|&n| self.e.graph.numbers.dim(n))
            .collect();
        let dtype = dtype.expect("a member of a group is a tensor");
        let space = self.e.graph.groups[self.member(value).group].space;
        let notation = self.notation_of(layout, dtype.bits(), space);
        TensorType {
            dims,
            dtype,
            notation,
        }
        .into()
    }

    fn emit_view(&mut self, operand: Value, map: MapId, ty: Type, of: Value) -> Value {
        let map = self.e.layouts.view_map(map).clone();
        let mut props = AttrDict::new();
        if let Some(perm) = &map.perm {
            props.set("perm", Attr::ints(perm));
            let operand_dims = self.new.ty(operand).as_tensor().map(|t| &t.dims);
            if let Some(shape) = &map.shape
                && operand_dims
                    != Some(&shape.iter().map(|&n| self.e.graph.numbers.dim(n)).collect())
            {
                props.set("shape", self.shape_attr(shape));
            }
        }
        let loc = self.loc_of(of);
        let value = self.single(View::NAME, operand, props, ty, loc);
        self.say(value, || {
            "a view: the chain of rearrangements keeps every element's place".to_owned()
        });
        value
    }

    fn shape_attr(&self, shape: &[u64]) -> Attr {
        let entry = |&n: &u64| match self.e.graph.numbers.dim(n) {
            Dim::Fixed(n) => Attr::int(i64::try_from(n).unwrap_or(i64::MAX)),
            Dim::Symbol(name) => Attr::Str(name),
            Dim::Unknown => Attr::int(-1),
        };
        Attr::Array(shape.iter().map(entry).collect())
    }

    fn single(&mut self, name: &str, operand: Value, props: AttrDict, ty: Type, loc: Loc) -> Value {
        let op = self
            .new
            .make_op(Arc::from(name), vec![operand], props, vec![ty], loc);
        self.new.body.push(op);
        self.new.ops[op].results[0]
    }

    fn loc_of(&self, value: Value) -> Loc {
        self.e
            .old
            .def_op(value)
            .map_or(Loc::Unknown, |op| self.e.old.ops[op].loc.clone())
    }

    fn alias(&mut self, node: Node, op: Op, map: MapId) {
        let old = self.e.old;
        let (from, to) = (old.ops[op].operands[0], old.ops[op].results[0]);
        let needs = self.e.choice.modes[node].needs.clone();
        let operand = self.operand(from, &needs[0], (Some(op), false));
        let group = self.member(to).group;
        let layout = self.result_layout(group);
        let ty = self.spelled(to, layout);
        let value = self.emit_view(operand, map, ty, to);
        self.copies.insert((group, layout), value);
    }

    fn results(&mut self) {
        let old = self.e.old;
        let nodes: Vec<(Node, usize)> = (self.e.graph.nodes.iter())
            .filter_map(|(id, node)| match node.kind {
                NodeKind::Return(i) => Some((id, i)),
                NodeKind::Op(_) | NodeKind::Alias(..) | NodeKind::Arg(_) => None,
            })
            .collect();
        for (node, i) in nodes {
            let new = self.returned(node, old.results[i]);
            self.held.push((old.results[i], new));
            self.new.results.push(new);
            self.read[new] = true;
            self.new.result_ports.push(old.result_ports[i].clone());
        }
    }

    fn returned(&mut self, node: Node, value: Value) -> Value {
        let need = self.e.choice.modes[node].needs[0].clone();
        let new = self.operand(value, &need, (None, false));
        let new = self.moved(node, value, new);
        let pinned = self.e.graph.nodes[node].pinned.is_some();
        let declared = self.e.old.ty(value).clone();
        if !pinned || *self.new.ty(new) == declared {
            return new;
        }
        let same = match (self.new.ty(new).as_tensor(), declared.as_tensor()) {
            (Some(a), Some(b)) => match (a.layout(), b.layout()) {
                (Some(Ok(a)), Some(Ok(b))) => a.same_function(&b),
                _ => false,
            },
            _ => false,
        };
        if !same {
            return new;
        }
        if self.new.def_op(new).is_some() && self.is_private(new) {
            self.new.values[new].ty = declared;
            return new;
        }
        let loc = self.loc_of(value);
        self.single(View::NAME, new, AttrDict::new(), declared, loc)
    }

    /// The returned value in the memory space that the boundary is pinned to.
    fn moved(&mut self, node: Node, value: Value, new: Value) -> Value {
        let space = self.e.graph.groups[self.member(value).group].space;
        let wanted = self.e.graph.nodes[node].space.unwrap_or(space);
        let Some(ty) = self.new.ty(new).as_tensor().filter(|_| wanted != space) else {
            return new;
        };
        let there = ty.layout().and_then(Result::ok);
        let there = there.and_then(|l| l.stored_as(ty.dtype.bits(), wanted).ok());
        let Some(there) = there else { return new };
        let ty = ty.with_notation(there.notation().clone()).into();
        let loc = self.loc_of(value);
        self.single(LayoutConvert::NAME, new, AttrDict::new(), ty, loc)
    }

    /// Returns whether nothing but the return reads a value.
    fn is_private(&mut self, value: Value) -> bool {
        for &op in &self.new.body[self.scanned..] {
            for &operand in &self.new.ops[op].operands {
                self.read[operand] = true;
            }
        }
        self.scanned = self.new.body.len();
        !self.read[value]
    }
}
