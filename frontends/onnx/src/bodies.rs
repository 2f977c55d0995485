//! Graphs of `If`, `Loop` and `Scan`: the types of their inputs, and of the results of their operators.
//!
//! A graph becomes a function of its operator's inputs and of the outer values that it uses. A value that a loop
//! carries has the type of its first value; a size that a round changes becomes open.
//!
//! For example, a loop appends an element to a carried vector that is empty at first. The graph is tried with
//! `tensor<0xf32>` and returns `tensor<1xf32>`, so the carried value has the type `tensor<?xf32>`.

use crate::builder::{MAX_SIZES, Stop};
use crate::codes;
use crate::entries::{Entry, known_or};
use crate::functions::standard;
use crate::node::{NodeCx, label};
use indexmap::{IndexMap, IndexSet};
use optc_ir::types::Dim;
use optc_ir::{DType, Size, TensorType, Type};
use optc_onnx_proto::{AttributeProto, GraphProto, NodeProto};
use prost::Message;
use std::sync::Arc;

/// The first version of the operator set in which `Scan` has no batches of its own.
const SCAN: i64 = 9;

/// The number of attempts to find types of carried values with fewer known sizes, before all sizes become open.
pub(crate) const ATTEMPTS: usize = 4;

/// An operator that runs graphs.
pub(crate) struct Runner {
    kind: Kind,
    /// Each graph with its attribute.
    pub(crate) graphs: Vec<(&'static str, GraphProto)>,
}

enum Kind {
    If,
    /// The number of carried values, and of the inputs before them.
    Loop {
        carried: usize,
    },
    Scan {
        carried: usize,
        inputs: Vec<i64>,
        outputs: Vec<i64>,
    },
}

/// Facts about a loop before it runs.
#[derive(Default)]
pub(crate) struct Counted {
    /// The numbers of each input of its graph, if they are the same in every round.
    pub(crate) known: Vec<Option<Vec<Entry>>>,
    /// The number of rounds that its condition allows, given that it allows the first one.
    pub(crate) rounds: Option<Size>,
}

/// Returns whether a node runs graphs.
pub(crate) fn runs_graphs(node: &NodeProto) -> bool {
    standard(&node.domain).is_empty() && matches!(&*node.op_type, "If" | "Loop" | "Scan")
}

/// A node that runs graphs, with a check that the numbers of its inputs and outputs fit them.
pub(crate) fn runner(node: &NodeProto, opset: i64) -> Result<Runner, Stop> {
    let attr = |name: &str| node.attribute.iter().find(|a| a.name == name);
    let graph = |name: &'static str| match attr(name).and_then(|a| a.g.clone()) {
        None => Err(Stop::opaque(format!("it has no `{name}`"))),
        Some(bytes) => GraphProto::decode(bytes)
            .map(|graph| (name, graph))
            .map_err(|e| Stop::opaque(format!("its `{name}` is no graph: {e}"))),
    };
    let graphs = match &*node.op_type {
        "If" => vec![graph("then_branch")?, graph("else_branch")?],
        _ => vec![graph("body")?],
    };
    let given = node.input.len();
    let kind = match &*node.op_type {
        "If" => {
            count(node, "inputs", given, 1)?;
            Kind::If
        }
        "Loop" => Kind::Loop {
            carried: given.saturating_sub(2),
        },
        _ if opset < SCAN => {
            let message =
                format!("a Scan of operator set {opset} has batches, wanted {SCAN} or later");
            return Err(Stop::opaque(message));
        }
        _ => scan(node, &graphs[0].1, attr)?,
    };
    let runner = Runner { kind, graphs };
    runner.fits(node)?;
    Ok(runner)
}

fn scan<'n>(
    node: &NodeProto,
    body: &GraphProto,
    attr: impl Fn(&str) -> Option<&'n AttributeProto>,
) -> Result<Kind, Stop> {
    let given = node.input.len();
    let scanned = attr("num_scan_inputs").and_then(|a| a.i).unwrap_or(0);
    let scanned = usize::try_from(scanned).unwrap_or(0);
    let carried = given.checked_sub(scanned).filter(|_| 0 < scanned);
    let carried = carried.ok_or_else(|| {
        let message = format!("{} has {given} inputs and scans {scanned}", label(node));
        Stop::error(codes::ONNX_NODE, message)
    })?;
    let stacked = body.output.len().saturating_sub(carried);
    let list = |name: &str, wanted: usize| -> Result<Vec<i64>, Stop> {
        let found = attr(name).map_or_else(|| vec![0; wanted], |a| a.ints.clone());
        let words = format!("numbers in `{name}`");
        count(node, &words, found.len(), wanted).map(|()| found)
    };
    list("scan_input_directions", scanned)?;
    list("scan_output_directions", stacked)?;
    Ok(Kind::Scan {
        carried,
        inputs: list("scan_input_axes", scanned)?,
        outputs: list("scan_output_axes", stacked)?,
    })
}

/// Makes scalars of the number of rounds and of the condition, which the graph of a loop is given as such. Exporters write
/// vectors of one element too.
pub(crate) fn as_scalars(cx: &mut NodeCx<'_, '_>) -> Result<(), Stop> {
    for i in 0..2 {
        let Some(val) = cx.input(i) else { continue };
        if matches!(&cx.dims(val)?[..], [dim] if dim.is_one()) {
            cx.inputs[i] = Some(cx.reshape(val, &[])?);
        }
    }
    Ok(())
}

fn count(node: &NodeProto, what: &str, found: usize, wanted: usize) -> Result<(), Stop> {
    if found == wanted {
        return Ok(());
    }
    let message = format!("{} has {found} {what}, wanted {wanted}", label(node));
    Err(Stop::error(codes::ONNX_NODE, message))
}

impl Runner {
    /// The number of carried values.
    pub(crate) fn carried(&self) -> usize {
        match &self.kind {
            Kind::If => 0,
            Kind::Loop { carried } | Kind::Scan { carried, .. } => *carried,
        }
    }

    /// The number of results of a graph before the carried ones.
    fn before(&self) -> usize {
        usize::from(matches!(self.kind, Kind::Loop { .. }))
    }

    /// The number of outputs of the operator.
    pub(crate) fn outputs(&self) -> usize {
        self.graphs[0].1.output.len() - self.before()
    }

    fn fits(&self, node: &NodeProto) -> Result<(), Stop> {
        let inputs = match &self.kind {
            Kind::If => 0,
            Kind::Loop { carried } => carried + 2,
            Kind::Scan { .. } => node.input.len(),
        };
        let least = self.before() + self.carried();
        for (name, graph) in &self.graphs {
            count(
                node,
                &format!("inputs of `{name}`"),
                graph.input.len(),
                inputs,
            )?;
            let given = graph.output.len();
            let outputs = self.graphs[0].1.output.len();
            let wanted = outputs.max(least);
            count(node, &format!("outputs of `{name}`"), given, wanted)?;
        }
        let missing = |i: &usize| node.input.get(*i).is_none_or(String::is_empty);
        let from = if self.before() == 1 { 2 } else { 0 };
        if let Some(i) = (from..node.input.len()).find(missing) {
            let message = format!("{}: input {i} is missing", label(node));
            return Err(Stop::error(codes::MISSING_INPUT, message));
        }
        let most = self.outputs();
        if most < node.output.len() || (self.graphs.len() == 2 && node.output.len() < most) {
            count(node, "outputs", node.output.len(), most)?;
        }
        Ok(())
    }

    /// The types of the graphs' inputs at the first round, given the types of the operator's inputs.
    pub(crate) fn given(&self, inputs: &[Option<Type>]) -> Result<Vec<Type>, Stop> {
        let input = |i: usize| inputs.get(i).cloned().flatten();
        let known =
            |i: usize| input(i).ok_or_else(|| Stop::opaque(format!("input {i} is missing")));
        match &self.kind {
            Kind::If => Ok(Vec::new()),
            Kind::Loop { carried } => {
                let mut types = vec![scalar(DType::SI64), scalar(DType::BOOL)];
                for i in 0..*carried {
                    types.push(known(2 + i)?);
                }
                Ok(types)
            }
            Kind::Scan {
                carried, inputs, ..
            } => {
                let mut types = Vec::new();
                for i in 0..*carried {
                    types.push(known(i)?);
                }
                for (i, &axis) in inputs.iter().enumerate() {
                    let ty = known(carried + i)?;
                    let mut ty = tensor(&ty)?.without_layout();
                    ty.dims.remove(at(axis, ty.rank())?);
                    types.push(ty.into());
                }
                Ok(types)
            }
        }
    }

    /// The types of a graph's inputs such that its results can be carried: the given types, with fewer known sizes if
    /// needed.
    pub(crate) fn carrying(&self, given: &[Type], results: &[Type]) -> Result<Vec<Type>, Stop> {
        let mut types = given.to_vec();
        let first = 2 * self.before();
        for i in 0..self.carried() {
            types[first + i] = either(&given[first + i], &results[self.before() + i])?;
        }
        Ok(types)
    }

    /// The types of a graph's inputs with no known sizes of carried values.
    pub(crate) fn open(&self, given: &[Type]) -> Vec<Type> {
        let mut types = given.to_vec();
        let first = 2 * self.before();
        for ty in types.iter_mut().skip(first).take(self.carried()) {
            if let Type::Tensor(tensor) = ty {
                *ty = TensorType::new(vec![Dim::Unknown; tensor.rank()], tensor.dtype).into();
            }
        }
        types
    }

    /// Returns whether a condition decides how long it runs.
    pub(crate) fn counts(&self) -> bool {
        matches!(self.kind, Kind::Loop { .. })
    }

    /// Facts that follow from the numbers that a loop starts with, `first`, and from the results of its graph, `given`,
    /// if the graph's inputs have the names `names`.
    pub(crate) fn counted(
        &self,
        names: &[Option<Vec<Entry>>],
        first: &[Option<Vec<Entry>>],
        given: &[Option<Vec<Entry>>],
    ) -> Counted {
        let round = Size::name(ROUND);
        let mut known = vec![None; names.len()];
        // The meaning of each name in round `round`, counted from 0.
        let mut meant: IndexMap<Arc<str>, Size> = IndexMap::new();
        let name_of = |entry: &Entry| entry.size()?.as_name().map(Arc::from);
        let rounds_before = names.first().and_then(|n| name_of(n.as_ref()?.first()?));
        meant.extend(rounds_before.map(|name| (name, round.clone())));
        for (i, own) in names.iter().enumerate().skip(2) {
            let all = (own, first.get(i), given.get(i - 1));
            let (Some(own), Some(Some(first)), Some(Some(next))) = all else {
                continue;
            };
            let mut stays = own.len() == first.len() && own == next;
            for ((own, first), next) in own.iter().zip(first).zip(next) {
                let step = || next.size()?.minus(&own.size()?)?.as_constant();
                let value = step()
                    .and_then(|step| first.size()?.plus(&round.times(&Size::constant(step))?));
                stays &= first.size().is_some();
                meant.extend(name_of(own).zip(value));
            }
            known[i] = stays.then(|| first.clone());
        }
        let condition = given.first().and_then(|c| c.as_ref()?.first());
        let rounds = match condition {
            Some(Entry::Below(a, b)) => rounds_below(a, b, &meant),
            _ => None,
        };
        Counted { known, rounds }
    }

    /// The types of the operator's outputs, from those of its inputs and of its graphs' inputs and results. `rounds` is
    /// the number of rounds, if it is known; otherwise `name` makes a name for sizes of that number.
    pub(crate) fn results(
        &self,
        inputs: &[Option<Type>],
        given: &[Type],
        graphs: &[Vec<Type>],
        (rounds, name): (Option<Dim>, &mut dyn FnMut() -> Dim),
    ) -> Result<Vec<Type>, Stop> {
        let carried = self.carried();
        let (axes, rounds) = match &self.kind {
            Kind::If => {
                let pairs = graphs[0].iter().zip(&graphs[1]);
                return pairs.map(|(a, b)| either(a, b)).collect();
            }
            Kind::Loop { .. } => (None, rounds),
            Kind::Scan {
                inputs: axes,
                outputs,
                ..
            } => {
                let mut rounds: Option<Dim> = None;
                for (i, &axis) in axes.iter().enumerate() {
                    let Some(ty) = inputs.get(carried + i).and_then(Option::as_ref) else {
                        continue;
                    };
                    let ty = tensor(ty)?;
                    let dim = ty.dims[at(axis, ty.rank())?].clone();
                    rounds = match rounds {
                        Some(Dim::Fixed(n)) => Some(Dim::Fixed(n)),
                        Some(before) if dim.fixed().is_none() => Some(known_or(before, &dim)),
                        _ => Some(dim),
                    };
                }
                (Some(outputs), rounds.filter(|dim| *dim != Dim::Unknown))
            }
        };
        let mut types: Vec<Type> = given
            .iter()
            .skip(2 * self.before())
            .take(carried)
            .cloned()
            .collect();
        let parts = &graphs[0][self.before() + carried..];
        let rounds = match rounds {
            Some(rounds) => rounds,
            None if parts.is_empty() => Dim::Unknown,
            None => name(),
        };
        for (i, ty) in parts.iter().enumerate() {
            let mut ty = tensor(ty)?.without_layout();
            let axis = axes.map_or(Ok(0), |axes| at(axes[i], ty.rank() + 1))?;
            ty.dims.insert(axis, rounds.clone());
            types.push(ty.into());
        }
        Ok(types)
    }
}

/// The stand-in for the number of a round. No size of a model has this name.
const ROUND: &str = "\0round";

/// A name for each integer input of a graph; no size of a model has such a name.
pub(crate) fn names_of_numbers(given: &[Type]) -> Vec<Option<Vec<Entry>>> {
    let names = |(i, ty): (usize, &Type)| {
        let ty = ty
            .as_tensor()
            .filter(|ty| ty.dtype.is_int() && !ty.dtype.is_bool())?;
        let count = ty.elements().filter(|&n| n <= MAX_SIZES as u64)?;
        let name = |k: u64| Entry::Size(Size::name(&format!("\0{i} {k}")));
        Some((0..count).map(name).collect())
    };
    given.iter().enumerate().map(names).collect()
}

/// The number of rounds if a further round follows round `ROUND` as long as `a` is below `b`.
fn rounds_below(a: &Size, b: &Size, meant: &IndexMap<Arc<str>, Size>) -> Option<Size> {
    let left = b.minus(a)?.substituted(&|name| meant.get(name).cloned())?;
    let first = left.with(ROUND, 0)?;
    let each = first.minus(&left)?.exact_quotient(&Size::name(ROUND))?;
    let open = |name: &Arc<str>| name.starts_with('\0');
    if each.as_constant().is_none_or(|n| n <= 0) || first.names().iter().any(open) {
        return None;
    }
    let more = first.quotient_up(&each)?.maximum(&Size::default())?;
    more.plus(&Size::constant(1))
}

/// A new name that no size has yet.
pub(crate) fn name_of_rounds(taken: &mut IndexSet<Arc<str>>) -> Dim {
    let names = (0usize..).map(|i| Arc::from(format!("rounds_{i}")));
    let fresh = names
        .into_iter()
        .find(|name: &Arc<str>| !taken.contains(name));
    let Some(name) = fresh else {
        return Dim::Unknown;
    };
    taken.insert(name.clone());
    Dim::of_size(&Size::name(&name))
}

fn scalar(dtype: DType) -> Type {
    TensorType::new(Vec::new(), dtype).into()
}

fn tensor(ty: &Type) -> Result<&TensorType, Stop> {
    let found = ty.as_tensor();
    found.ok_or_else(|| Stop::opaque("it scans or stacks a value that is not a tensor"))
}

/// An axis counted from the front.
fn at(axis: i64, rank: usize) -> Result<usize, Stop> {
    let n = i64::try_from(rank).unwrap_or(i64::MAX);
    let counted = if axis < 0 {
        axis.saturating_add(n)
    } else {
        axis
    };
    let found = usize::try_from(counted).ok().filter(|_| counted < n);
    found.ok_or_else(|| {
        let message = format!("axis {axis} is out of range for {rank} dimensions");
        Stop::error(codes::AXIS_OUT_OF_RANGE, message)
    })
}

/// The common type of two types; sizes in which they differ are open.
fn either(a: &Type, b: &Type) -> Result<Type, Stop> {
    let (Some(x), Some(y)) = (a.as_tensor(), b.as_tensor()) else {
        let same = a.as_tensor().is_none() && b.as_tensor().is_none();
        let differ = || Stop::opaque("a value is a tensor at one time and none at another");
        return same.then(|| a.clone()).ok_or_else(differ);
    };
    if x.dtype != y.dtype || x.rank() != y.rank() {
        return Err(Stop::opaque(
            "a value has one element type or number of dimensions at one time and another at another",
        ));
    }
    let same = |(x, y): (&Dim, &Dim)| if x == y { x.clone() } else { Dim::Unknown };
    let dims = x.dims.iter().zip(&y.dims).map(same).collect();
    Ok(TensorType::new(dims, x.dtype).into())
}
