//! Programs as pictures: states of a program side by side, as a graph for graphviz or as SVG.

use crate::program::Program;
use crate::target::default_target;
use optc_check::mesh::{Account, Cause};
use optc_check::stats::{CostClass, OpCost, op_costs};
use optc_ir::{Module, Registry, unbound_sizes};
pub use optc_pictures::explorer::Explored;
use optc_pictures::picture::{
    Charge, ChargeKind, Charges, OnMesh, Panel, Picture, Place, Transfer,
};
use optc_pictures::{dot, explorer, svg};

/// One state of a program and its title, such as `before`.
///
/// ```
/// use optc::{State, arena_to_svg, layouts_to_svg, to_dot, to_svg};
///
/// let compiler = optc::Compiler::new();
/// let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>";
/// let before = compiler.parse("example.ir", text)?;
/// let mut after = before.clone();
/// compiler.compile(&mut after, "view-fold,bufferize,plan-memory")?;
/// let states = [State { title: "before", program: &before }, State { title: "after", program: &after }];
/// assert!(to_dot("fold", &states, compiler.registry()).starts_with("digraph"));
/// for picture in [to_svg, layouts_to_svg, arena_to_svg] {
///     assert!(picture("fold", &states, compiler.registry()).contains("<svg"));
/// }
/// # Ok::<(), optc::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The title above the state.
    pub title: &'a str,
    /// The program in this state.
    pub program: &'a Program,
}

/// The states as one graph in graphviz's language: every operation a node, every use an edge.
#[must_use]
pub fn to_dot(title: &str, states: &[State<'_>], registry: &Registry) -> String {
    dot::write(&picture(title, states, registry))
}

/// The states as one picture, from left to right. Large programs are shortened: repeated layers are drawn closed, and
/// the picture states this. If the last state has a plan of tiles and only known sizes, it is drawn as its groups,
/// every operation with the tiles of its result.
#[must_use]
pub fn to_svg(title: &str, states: &[State<'_>], registry: &Registry) -> String {
    let last = states.last().map(|state| &state.program.module);
    if let Some(tiles) = last.and_then(|module| svg::tiles::write(title, module, registry)) {
        return tiles;
    }
    svg::write(&picture(title, states, registry))
}

/// The functions of the states as graphs for Google's Model Explorer: the file that it opens, and the bytes that
/// operations move as its node data.
///
/// ```
/// use optc::{Explored, State, to_model_explorer};
///
/// let compiler = optc::Compiler::new();
/// let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>";
/// let program = compiler.parse("example.ir", text)?;
/// let states = [State { title: "before", program: &program }];
/// let Explored { graphs, node_data } = to_model_explorer("example.ir", &states, compiler.registry());
/// assert!(graphs.contains("\"label\":\"transpose\"") && node_data.contains("\"value\":48"));
/// # Ok::<(), optc::Error>(())
/// ```
#[must_use]
pub fn to_model_explorer(title: &str, states: &[State<'_>], registry: &Registry) -> Explored {
    explorer::write(&picture(title, states, registry))
}

/// The layouts of the last state: the positions of its values in memory, their padding, and the moves of each
/// conversion. Values, and conversions, of one type are drawn once; the picture states what it omits.
#[must_use]
pub fn layouts_to_svg(title: &str, states: &[State<'_>], registry: &Registry) -> String {
    svg::layouts::write(&picture(title, states, registry))
}

/// The arenas of the last state, if its memory is planned: the bytes of each value, from the operation that writes them
/// to the last one that reads them, and the bytes alive at once.
#[must_use]
pub fn arena_to_svg(title: &str, states: &[State<'_>], registry: &Registry) -> String {
    svg::arena::write(&picture(title, states, registry))
}

fn picture<'a>(title: &str, states: &[State<'a>], registry: &'a Registry) -> Picture<'a> {
    let panels = states.iter().map(|state| Panel {
        title: state.title.to_owned(),
        module: &state.program.module,
        registry,
        charges: charges(&state.program.module, registry),
        mesh: on_mesh(state.program, registry),
    });
    Picture {
        title: title.to_owned(),
        panels: panels.collect(),
    }
}

/// The cost of each operation of each function, as the statistics count it.
pub(crate) fn charges(module: &Module, registry: &Registry) -> Vec<Charges> {
    let effects = optc_ir::effects::Effects::of_module(module, registry);
    let sizes = unbound_sizes(module, registry);
    let of = |func: &optc_ir::Func| {
        let costs = op_costs(func, registry, &effects, &sizes);
        let mut charges = Charges::new(None);
        for &op in &func.body {
            charges[op] = costs[op].map(charge);
        }
        charges
    };
    module.funcs.iter().map(of).collect()
}

/// The mesh of a program and its collectives, if it states a mesh. Links are those of its default target; with axes over
/// others only the splits are known.
fn on_mesh(program: &Program, registry: &Registry) -> Option<OnMesh> {
    let module = &program.module;
    let mesh = optc_ir::shard::mesh(module).ok().flatten()?;
    let mut transfers = vec![Vec::new(); module.funcs.len()];
    let account = default_target(program)
        .ok()
        .and_then(|target| Account::of(module, registry, &target).ok().flatten());
    for done in account.into_iter().flat_map(|account| account.done) {
        let collectives = done.collectives.iter();
        transfers[done.func].push(Transfer {
            value: done.value,
            place: match done.cause {
                Cause::Made(op) => Place::Made(op),
                Cause::Read(op) => Place::Read(op),
                Cause::Returned(result) => Place::Returned(result),
            },
            from: done.from,
            to: done.to,
            collectives: collectives
                .map(|c| (c.kind.name(), c.axis, c.bytes))
                .collect(),
        });
    }
    Some(OnMesh { mesh, transfers })
}

fn charge(cost: OpCost) -> Charge {
    let kind = match cost.class {
        CostClass::Free => ChargeKind::Free,
        CostClass::Movement => ChargeKind::Movement,
        CostClass::Copy => ChargeKind::Copy,
        CostClass::Expand => ChargeKind::Expand,
        CostClass::Constant => ChargeKind::Constant,
    };
    Charge {
        kind,
        bytes: cost.bytes,
    }
}
