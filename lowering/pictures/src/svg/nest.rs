//! Layers as nested boxes, and the choice of layers that are drawn closed.
//!
//! A wire that has left the box of a layer must not enter it again: the boxes would have no order from top to bottom. A
//! layer whose names imply this is drawn in several pieces. Example: `enc/a → dec/b → enc/c` gives two boxes `enc`.

use crate::graph::{Graph, Totals};
use indexmap::IndexMap;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::BTreeSet;

/// The largest number of operations of a program that is drawn in full, including repetitions.
const REPEATS_FROM: usize = 90;
/// The smallest number of operations of a repeated layer that is drawn closed.
const SMALLEST_REPEAT: usize = 5;
/// The largest number of boxes: layers are closed until no more are left.
const MOST_BOXES: usize = 200;
/// The largest number of boxes side by side in one layer; further ones are joined in program order.
const MOST_ITEMS: usize = 120;

/// A single box (operation, argument or result) or a layer.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Node(usize),
    Group(Group),
}

/// A layer or a piece of one.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) label: String,
    /// The items, in topological order.
    pub(crate) items: Vec<Item>,
    /// All nodes inside, in program order.
    pub(crate) nodes: Vec<usize>,
    /// If the layer is closed (drawn as one box), the lines below its label.
    pub(crate) closed: Option<Vec<String>>,
    /// If the layer is closed because it repeats an earlier one, the number of its structure.
    repeats: Option<usize>,
}

impl Item {
    /// All nodes inside, in program order.
    pub(crate) fn nodes(&self) -> &[usize] {
        match self {
            Item::Node(node) => std::slice::from_ref(node),
            Item::Group(group) => &group.nodes,
        }
    }
}

/// The layers that [`nest`] would draw closed, by the names of the layers around them and their own.
pub(crate) fn closed_layers(graph: &Graph) -> BTreeSet<String> {
    let mut closed = BTreeSet::new();
    let mut nesting = Nesting::new(graph);
    let all: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut items = nesting.split(&all, 0);
    if graph.nodes.len() > REPEATS_FROM {
        let mut structures = Structures::default();
        nesting.close_repeats(&mut items, &mut structures);
        note_closed(&items, "", &mut closed);
        items = nesting.merge_repeats(items, &structures);
    }
    close_largest(graph, &mut items);
    note_closed(&items, "", &mut closed);
    closed
}

fn note_closed(items: &[Item], around: &str, closed: &mut BTreeSet<String>) {
    for item in items {
        let Item::Group(group) = item else { continue };
        let name = format!("{around}/{}", group.label);
        match group.closed {
            Some(_) => {
                closed.insert(name);
            }
            None => note_closed(&group.items, &name, closed),
        }
    }
}

/// Closes the layers that are closed in the other picture of the program, so that both can be compared.
fn close_named(graph: &Graph, items: &mut [Item], around: &str, names: &BTreeSet<String>) {
    for item in items {
        let Item::Group(group) = item else { continue };
        let name = format!("{around}/{}", group.label);
        match group.closed {
            Some(_) => {}
            None if names.contains(&name) => group.close(graph, None),
            None => close_named(graph, &mut group.items, &name, names),
        }
    }
}

/// All layers of a graph, none of them closed. Rows of very many items are divided into layers in program order.
pub(crate) fn layers(graph: &Graph) -> Vec<Item> {
    let all: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut items = Nesting::new(graph).split(&all, 0);
    divide_rows(graph, &mut items);
    items
}

/// Divides layers of very many items, and the layers that this makes.
fn divide_rows(graph: &Graph, items: &mut Vec<Item>) {
    for item in items.iter_mut() {
        if let Item::Group(group) = item {
            divide_rows(graph, &mut group.items);
        }
    }
    while MOST_ITEMS < items.len() {
        let length = items.len().div_ceil(MOST_ITEMS / 2);
        let before = items.len();
        *items = in_runs(graph, std::mem::take(items), length);
        if items.len() == before {
            break;
        }
    }
}

/// Arguments and results stay apart unless there are too many of them.
fn in_runs(graph: &Graph, items: Vec<Item>, length: usize) -> Vec<Item> {
    let is_port = |item: &Item| item.nodes().iter().all(|&n| graph.nodes[n].is_port());
    let apart = items.iter().filter(|item| is_port(item)).count() <= MOST_ITEMS / 2;
    let (ports, rest): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| apart && is_port(item));
    let is_arg = |item: &Item| {
        item.nodes()
            .iter()
            .all(|&n| graph.nodes[n].reads.is_empty())
    };
    let (mut found, results): (Vec<Item>, Vec<Item>) = ports.into_iter().partition(is_arg);
    let mut rest = rest.into_iter().peekable();
    while rest.peek().is_some() {
        let mut part: Vec<Item> = rest.by_ref().take(length).collect();
        match part.len() {
            1 => found.append(&mut part),
            _ => found.push(Item::Group(Group::run(graph, part))),
        }
    }
    found.extend(results);
    found
}

/// The boxes of a graph, and notes about omissions. The layers with the names `also` are closed too.
pub(crate) fn nest(graph: &Graph, also: &BTreeSet<String>) -> (Vec<Item>, Vec<String>) {
    let mut nesting = Nesting::new(graph);
    let all: Vec<usize> = (0..graph.nodes.len()).collect();
    let mut items = nesting.split(&all, 0);
    let mut notes = Vec::new();
    if graph.nodes.len() > REPEATS_FROM {
        let mut structures = Structures::default();
        nesting.close_repeats(&mut items, &mut structures);
        let before = count_closed(&items);
        close_named(graph, &mut items, "", also);
        items = nesting.merge_repeats(items, &structures);
        if before > 0 {
            notes.push(format!(
                "{before} layers that repeat another are drawn closed"
            ));
        }
    }
    let open = count_closed(&items);
    close_named(graph, &mut items, "", also);
    let named = count_closed(&items).saturating_sub(open);
    let closed = named + close_largest(graph, &mut items);
    if closed > 0 {
        notes.push(format!(
            "{closed} layers are drawn closed to keep the picture small"
        ));
    }
    let joined = join_rows(graph, &mut items);
    if joined > 0 {
        notes.push(format!(
            "{joined} operations are drawn in groups to keep the picture small"
        ));
    }
    (items, notes)
}

struct Nesting<'a> {
    graph: &'a Graph,
    /// The layers of each node, outermost first.
    paths: Vec<Vec<usize>>,
    /// The wires that each node makes, and the nodes whose values it reads.
    outs: Vec<Vec<usize>>,
    makers: Vec<Vec<usize>>,
    /// The unit of each node, for the level that is being split.
    unit_of: Vec<usize>,
}

const NO_UNIT: usize = usize::MAX;

impl<'a> Nesting<'a> {
    fn new(graph: &'a Graph) -> Nesting<'a> {
        let n = graph.nodes.len();
        let (mut outs, mut makers) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        for (k, wire) in graph.wires.iter().enumerate() {
            outs[wire.from].push(k);
            for &to in &wire.to {
                makers[to].push(wire.from);
            }
        }
        let paths = graph.nodes.iter().map(|n| graph.scopes.path(n.scope));
        Nesting {
            graph,
            paths: paths.collect(),
            outs,
            makers,
            unit_of: vec![NO_UNIT; n],
        }
    }

    /// The items for these nodes, which are in program order and share `depth` layers.
    fn split(&mut self, nodes: &[usize], depth: usize) -> Vec<Item> {
        let mut layers: IndexMap<(usize, bool), Vec<usize>> = IndexMap::new();
        for &node in nodes {
            let key = match self.paths[node].get(depth) {
                Some(&scope) => (scope, true),
                None => (node, false),
            };
            layers.entry(key).or_default().push(node);
        }
        let units: Vec<(Option<usize>, Vec<usize>)> = layers
            .into_iter()
            .map(|((scope, layer), nodes)| (layer.then_some(scope), nodes))
            .collect();
        let units = self.without_cycles(units);
        let mut items = Vec::with_capacity(units.len());
        for (scope, nodes) in units {
            match scope {
                Some(scope) if nodes.len() > 1 => items.push(self.group(scope, nodes, depth)),
                _ => items.extend(nodes.into_iter().map(Item::Node)),
            }
        }
        self.sorted(items)
    }

    /// A layer. If its only item is another layer, both become one box with both names.
    fn group(&mut self, scope: usize, nodes: Vec<usize>, depth: usize) -> Item {
        let mut label = self.graph.scopes.get(scope).name.clone();
        let mut items = self.split(&nodes, depth + 1);
        if let [Item::Group(inner)] = items.as_mut_slice() {
            label = format!("{label}/{}", inner.label);
            items = std::mem::take(&mut inner.items);
        }
        Item::Group(Group {
            label,
            items,
            nodes,
            closed: None,
            repeats: None,
        })
    }

    /// Splits layers that a wire leaves and enters again.
    fn without_cycles(
        &mut self,
        units: Vec<(Option<usize>, Vec<usize>)>,
    ) -> Vec<(Option<usize>, Vec<usize>)> {
        self.number(units.iter().map(|(_, nodes)| &**nodes));
        let components = kosaraju_scc(&self.quotient(units.len(), units.iter().map(|u| &*u.1)));
        let mut cyclic = vec![false; units.len()];
        for component in components.iter().filter(|c| c.len() > 1) {
            component
                .iter()
                .for_each(|unit| cyclic[unit.index()] = true);
        }
        let steps = self.steps(&units, &cyclic);
        self.forget(units.iter().map(|(_, nodes)| &**nodes));
        let mut out = Vec::with_capacity(units.len());
        for ((scope, nodes), cyclic) in units.into_iter().zip(cyclic) {
            if !cyclic || scope.is_none() {
                out.push((scope, nodes));
                continue;
            }
            let mut pieces: IndexMap<usize, Vec<usize>> = IndexMap::new();
            for node in nodes {
                pieces.entry(steps[&node]).or_default().push(node);
            }
            out.extend(pieces.into_values().map(|nodes| (scope, nodes)));
        }
        out
    }

    /// For each node of a cyclic unit, the largest number of changes of unit on a path to it. This number grows along
    /// each wire between two units, so pieces with equal numbers have an order.
    fn steps(
        &self,
        units: &[(Option<usize>, Vec<usize>)],
        cyclic: &[bool],
    ) -> IndexMap<usize, usize> {
        let mut nodes: Vec<usize> = Vec::new();
        for ((_, inside), _) in units.iter().zip(cyclic).filter(|(_, cyclic)| **cyclic) {
            nodes.extend(inside);
        }
        nodes.sort_unstable();
        let mut steps: IndexMap<usize, usize> = IndexMap::new();
        for &node in &nodes {
            let unit = self.unit_of[node];
            let before = self.makers[node].iter().filter_map(|maker| {
                let step = steps.get(maker)?;
                Some(step + usize::from(self.unit_of[*maker] != unit))
            });
            let step = before.max().unwrap_or(0);
            steps.insert(node, step);
        }
        steps
    }

    fn number<'b>(&mut self, units: impl Iterator<Item = &'b [usize]>) {
        for (unit, nodes) in units.enumerate() {
            nodes.iter().for_each(|&node| self.unit_of[node] = unit);
        }
    }

    fn forget<'b>(&mut self, units: impl Iterator<Item = &'b [usize]>) {
        for nodes in units {
            nodes.iter().for_each(|&node| self.unit_of[node] = NO_UNIT);
        }
    }

    /// The graph of dependences between units; the units are numbered.
    fn quotient<'b>(
        &self,
        count: usize,
        units: impl Iterator<Item = &'b [usize]>,
    ) -> DiGraph<(), ()> {
        let mut quotient = DiGraph::new();
        (0..count).for_each(|_| {
            quotient.add_node(());
        });
        for (unit, nodes) in units.enumerate() {
            for &node in nodes {
                let wires = self.outs[node].iter().map(|&k| &self.graph.wires[k]);
                for &to in wires.flat_map(|w| &w.to) {
                    let to = self.unit_of[to];
                    if to != NO_UNIT && to != unit {
                        quotient.add_edge(NodeIndex::new(unit), NodeIndex::new(to), ());
                    }
                }
            }
        }
        quotient
    }

    /// The items in topological order, as close to program order as possible.
    fn sorted(&mut self, items: Vec<Item>) -> Vec<Item> {
        match self.order(&items) {
            None => items,
            Some(order) => {
                let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
                order.into_iter().filter_map(|i| items[i].take()).collect()
            }
        }
    }

    /// A topological order of the items; `None` if there is a cycle.
    fn order(&mut self, items: &[Item]) -> Option<Vec<usize>> {
        self.number(items.iter().map(Item::nodes));
        let quotient = self.quotient(items.len(), items.iter().map(Item::nodes));
        self.forget(items.iter().map(Item::nodes));
        let mut waits: Vec<usize> = vec![0; items.len()];
        for edge in quotient.raw_edges() {
            waits[edge.target().index()] += 1;
        }
        let first = |i: usize| items[i].nodes().first().copied().unwrap_or(0);
        let mut ready = std::collections::BTreeSet::new();
        ready.extend(
            (0..items.len())
                .filter(|&i| waits[i] == 0)
                .map(|i| (first(i), i)),
        );
        let mut order = Vec::with_capacity(items.len());
        while let Some((_, i)) = ready.pop_first() {
            order.push(i);
            for next in quotient.neighbors(NodeIndex::new(i)) {
                let next = next.index();
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.insert((first(next), next));
                }
            }
        }
        (order.len() == items.len()).then_some(order)
    }

    /// Closes every layer that equals an earlier one.
    fn close_repeats(&self, items: &mut [Item], structures: &mut Structures) {
        for item in items {
            let Item::Group(group) = item else { continue };
            if group.nodes.len() < SMALLEST_REPEAT {
                continue;
            }
            let (number, new) = structures.number(self.structure(&group.nodes), &group.label);
            if new {
                self.close_repeats(&mut group.items, structures);
            } else {
                let like = format!("like {}", structures.label(number));
                group.close(self.graph, Some(like));
                group.repeats = Some(number);
            }
        }
    }

    /// A key that is equal for layers with the same computation on values of the same types.
    fn structure(&self, nodes: &[usize]) -> String {
        let local: IndexMap<usize, usize> = nodes.iter().copied().zip(0..).collect();
        let mut text = String::new();
        for &node in nodes {
            text.push_str(&self.graph.nodes[node].alike);
            for maker in &self.makers[node] {
                match local.get(maker) {
                    Some(i) => text.push_str(&format!(" {i}")),
                    None => text.push_str(" _"),
                }
            }
            text.push('\n');
        }
        text
    }

    /// Merges adjacent closed repetitions into one box.
    fn merge_repeats(&mut self, items: Vec<Item>, structures: &Structures) -> Vec<Item> {
        let mut merged: Vec<Item> = Vec::with_capacity(items.len());
        let mut runs: Vec<Vec<Group>> = Vec::new();
        let mut slots: Vec<usize> = Vec::new();
        let mut open_run = false;
        for item in items {
            match item {
                Item::Group(group) if group.repeats.is_some() => {
                    if !open_run {
                        runs.push(Vec::new());
                        slots.push(merged.len());
                        merged.push(Item::Node(0));
                        open_run = true;
                    }
                    if let Some(run) = runs.last_mut() {
                        run.push(group);
                    }
                }
                Item::Group(mut group) => {
                    open_run = false;
                    group.items = self.merge_repeats(std::mem::take(&mut group.items), structures);
                    merged.push(Item::Group(group));
                }
                // An operation between two layers does not end a run by itself; the check of the order below does, if
                // necessary.
                Item::Node(node) => merged.push(Item::Node(node)),
            }
        }
        let apart = runs.clone();
        for (run, &slot) in runs.into_iter().zip(&slots) {
            merged[slot] = Item::Group(joined(self.graph, run, structures));
        }
        match self.order(&merged) {
            Some(_) => self.sorted(merged),
            None => {
                let mut all = Vec::new();
                let mut apart = slots.into_iter().zip(apart).peekable();
                for (i, item) in merged.into_iter().enumerate() {
                    match apart.next_if(|(slot, _)| *slot == i) {
                        Some((_, run)) => all.extend(run.into_iter().map(Item::Group)),
                        None => all.push(item),
                    }
                }
                self.sorted(all)
            }
        }
    }
}

/// The distinct structures of layers, with the label of the first layer of each.
#[derive(Default)]
struct Structures(IndexMap<String, String>);

impl Structures {
    /// The number of a structure, and whether it is new.
    fn number(&mut self, structure: String, label: &str) -> (usize, bool) {
        let (number, old) = self.0.insert_full(structure, label.to_owned());
        if let (Some(old), Some((_, label))) = (&old, self.0.get_index_mut(number)) {
            label.clone_from(old);
        }
        (number, old.is_none())
    }

    fn label(&self, number: usize) -> &str {
        self.0.get_index(number).map_or("", |(_, label)| label)
    }
}

impl Group {
    /// A layer of adjacent items, named after the first and the last operation.
    fn run(graph: &Graph, items: Vec<Item>) -> Group {
        let inside = items.iter().flat_map(|item| item.nodes().iter().copied());
        let mut nodes: Vec<usize> = inside.collect();
        nodes.sort_unstable();
        let title = |n: Option<&usize>| n.map_or("", |&n| &*graph.nodes[n].title);
        Group {
            label: format!("{} … {}", title(nodes.first()), title(nodes.last())),
            items,
            nodes,
            closed: None,
            repeats: None,
        }
    }

    /// The same layer, closed and without its items.
    pub(crate) fn shut(&self, graph: &Graph) -> Group {
        let mut shut = Group {
            label: self.label.clone(),
            items: Vec::new(),
            nodes: self.nodes.clone(),
            closed: None,
            repeats: None,
        };
        shut.close(graph, None);
        shut
    }

    fn close(&mut self, graph: &Graph, first: Option<String>) {
        let totals = Totals::of(self.nodes.iter().map(|&n| &graph.nodes[n]));
        self.closed = Some(closed_lines(first, totals));
    }

    /// The number of boxes with which the layer is drawn.
    fn boxes(&self) -> usize {
        if self.closed.is_some() {
            return 1;
        }
        1 + count_boxes(&self.items)
    }
}

fn closed_lines(first: Option<String>, totals: Totals) -> Vec<String> {
    let mut lines: Vec<String> = first.into_iter().collect();
    lines.push(format!("{} ops", totals.ops));
    lines.extend(totals.words());
    lines
}

/// One closed box for several layers.
fn joined(graph: &Graph, mut run: Vec<Group>, structures: &Structures) -> Group {
    if run.len() == 1
        && let Some(only) = run.pop()
    {
        return only;
    }
    let mut kinds: Vec<usize> = run.iter().filter_map(|g| g.repeats).collect();
    let count = run.len();
    kinds.sort_unstable();
    kinds.dedup();
    let like: Vec<&str> = kinds.iter().map(|&k| structures.label(k)).collect();
    let ends = [run.first(), run.last()].map(|g| g.map_or("", |g| &*g.label));
    let label = format!("{} … {}", ends[0], ends[1]);
    let mut nodes: Vec<usize> = run.iter().flat_map(|g| g.nodes.iter().copied()).collect();
    nodes.sort_unstable();
    let totals = Totals::of(nodes.iter().map(|&n| &graph.nodes[n]));
    let like = if like.len() == 1 {
        format!("{count} × identical to {}", like[0])
    } else {
        format!(
            "{count} layers, each identical to one of {}",
            like.join(", ")
        )
    };
    Group {
        label,
        items: Vec::new(),
        nodes,
        closed: Some(closed_lines(Some(like), totals)),
        repeats: kinds.first().copied(),
    }
}

fn count_closed(items: &[Item]) -> usize {
    let count = |item: &Item| match item {
        Item::Node(_) => 0,
        Item::Group(group) if group.closed.is_some() => 1,
        Item::Group(group) => count_closed(&group.items),
    };
    items.iter().map(count).sum()
}

fn count_boxes(items: &[Item]) -> usize {
    let count = |item: &Item| match item {
        Item::Node(_) => 1,
        Item::Group(group) => group.boxes(),
    };
    items.iter().map(count).sum()
}

/// Closes layers until few enough boxes are left: the innermost first, and among these the ones that move the fewest
/// bytes. Returns the number of closed layers.
fn close_largest(graph: &Graph, items: &mut [Item]) -> usize {
    let mut closed = 0;
    let mut boxes = count_boxes(items);
    while boxes > MOST_BOXES {
        let mut open = Vec::new();
        innermost(graph, items, &mut Vec::new(), &mut open);
        open.sort();
        let Some(depth) = open.iter().map(|(_, path)| path.len()).max() else {
            break;
        };
        for (_, path) in open.into_iter().filter(|(_, path)| path.len() == depth) {
            if boxes <= MOST_BOXES {
                break;
            }
            if let Some(group) = group_at(items, &path) {
                boxes -= group.boxes() - 1;
                group.close(graph, None);
                closed += 1;
            }
        }
    }
    closed
}

/// The innermost open layers, with the bytes that they move and their paths.
fn innermost(
    graph: &Graph,
    items: &[Item],
    path: &mut Vec<usize>,
    found: &mut Vec<(u64, Vec<usize>)>,
) {
    for (i, item) in items.iter().enumerate() {
        let Item::Group(group) = item else { continue };
        if group.closed.is_some() {
            continue;
        }
        path.push(i);
        let before = found.len();
        innermost(graph, &group.items, path, found);
        if found.len() == before {
            let totals = Totals::of(group.nodes.iter().map(|&n| &graph.nodes[n]));
            found.push((totals.movement.1, path.clone()));
        }
        path.pop();
    }
}

fn group_at<'a>(items: &'a mut [Item], path: &[usize]) -> Option<&'a mut Group> {
    let (&first, rest) = path.split_first()?;
    let Item::Group(group) = items.get_mut(first)? else {
        return None;
    };
    if rest.is_empty() {
        Some(group)
    } else {
        group_at(&mut group.items, rest)
    }
}

/// Joins operations of layers with very many items, in program order; returns the number of joined ones.
fn join_rows(graph: &Graph, items: &mut Vec<Item>) -> usize {
    let mut count = 0;
    for item in items.iter_mut() {
        if let Item::Group(group) = item
            && group.closed.is_none()
        {
            count += join_rows(graph, &mut group.items);
        }
    }
    if items.len() <= MOST_ITEMS {
        return count;
    }
    let length = items.len().div_ceil(MOST_ITEMS / 2);
    let all = std::mem::take(items);
    let is_port = |item: &Item| match item {
        Item::Node(node) => graph.nodes[*node].is_port(),
        Item::Group(_) => false,
    };
    let (ports, rest): (Vec<Item>, Vec<Item>) =
        if all.iter().filter(|i| is_port(i)).count() <= MOST_ITEMS {
            all.into_iter().partition(is_port)
        } else {
            (Vec::new(), all)
        };
    let is_arg = |item: &Item| {
        item.nodes()
            .iter()
            .all(|&n| graph.nodes[n].alike == "argument")
    };
    let (args, results): (Vec<Item>, Vec<Item>) = ports.into_iter().partition(is_arg);
    items.extend(args);
    let mut rest = rest.into_iter().peekable();
    while rest.peek().is_some() {
        let part: Vec<Item> = rest.by_ref().take(length).collect();
        let mut group = Group::run(graph, part);
        count += group.nodes.len();
        group.close(graph, None);
        items.push(Item::Group(group));
    }
    items.extend(results);
    count
}
