//! Splits the values and the work of a program over a mesh of devices.
//!
//! ```ir before
//! module attributes {hbir.mesh = ["model:2"]} {
//!   func.func @main(%x: tensor<64x256xf32> {hbir.shard = []}, %w: tensor<256x512xf32> {hbir.shard = ["model@d1/256"]}) -> tensor<64x512xf32> {
//!     %0 = "hbir.matmul"(%x, %w) : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
//!     %1 = "hbir.relu"(%0) : (tensor<64x512xf32>) -> tensor<64x512xf32>
//!     return %1 : tensor<64x512xf32>
//!   }
//! }
//! ```
//! ```ir after
//! module attributes {hbir.mesh = ["model:2"]} {
//!   func.func @main(%x: tensor<64x256xf32> {hbir.shard = []}, %w: tensor<256x512xf32> {hbir.shard = ["model@d1/256"]}) -> (tensor<64x512xf32> {hbir.shard = ["model@d1/256"]}) {
//!     %0 = "hbir.matmul"(%x, %w) {shard = ["model@d1/256"]} : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
//!     %1 = "hbir.relu"(%0) {shard = ["model@d1/256"]} : (tensor<64x512xf32>) -> tensor<64x512xf32>
//!     return %1 : tensor<64x512xf32>
//!   }
//! }
//! ```
//!
//! # Soundness
//! Shardings say on which device an element is, and change no value. The loops of an operation are split only if each
//! part of an operand or result is a digit of it ([`optc_check::mesh::Site`]); the verifier checks that digits divide
//! extents. A collective stands wherever an operation reads or makes a value in another sharding than it is stored.
//!
//! # Cost
//! Time: for each operation the larger of the arithmetic of its part and the bytes that it reads and writes on one
//! device; for each collective the bytes of the ring formulas over the bandwidth of its link, and the latency of its
//! steps. If values do not fit the memory of a device, bytes have a price that rises until they do. The choice is that
//! of the solver which `view-fold` uses; the report has its bound and proof. Linear in the operations.
//!
//! # Not done
//! A softmax or norm is not split along the dimension along which it works, nor is a window. Functions that are called
//! are not split; run `inline` first.
//!
//! # Neighbours
//! Run after `canonicalize` or `view-fold`: a reshape or transpose that is gone splits nothing.
//!
//! # Source
//! XLA's Shardy and GSPMD; Alpa's choice of shardings as an integer programme.

mod pins;
mod places;
mod problem;
mod refine;
mod remarks;
mod report;
mod sites;
mod states;
mod write;

pub use pins::Wishes;
pub use report::ShardReport;

use crate::codes;
use crate::pass::{Changed, OptionInfo, Outcome, Pass, PassContext, PassInfo, Phase};
use crate::view_fold::Proof;
use optc_check::mesh::{Account, Extents, Links, device_memory};
use optc_ir::shard::{self, Mesh, Piece, ShardError};
use optc_ir::{Diagnostic, Module, Value};
use optc_solver::movement;
use pins::{Wished, refused};
use places::places;
use problem::{Choice, Chosen, Given};
use sites::Sites;

static INFO: PassInfo = PassInfo {
    name: "shard",
    summary: "splits values and work over a mesh of devices",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[
        OptionInfo {
            name: "max-states",
            default: "64",
            summary: "the most shardings that are compared for an operation; a quarter of it in programs of more than 8192 operations",
        },
        OptionInfo {
            name: "memory",
            default: "0",
            summary: "the bytes of one device; 0 is what the target's file states",
        },
    ],
};

/// The number of operations above which fewer states are compared.
const LARGE: usize = 1 << 13;

/// The most prices of memory that are tried.
const PRICES: u32 = 24;

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shard;

impl Pass for Shard {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let mesh = mesh_of(module, &cx.shard)?;
        let plain = |error: ShardError| Box::new(refused("the module", &error));
        let links = Links::of(&mesh, &cx.target).map_err(plain)?;
        let before = module.clone();
        module.attrs.set(shard::MESH, mesh.attr());
        let mut report = ShardReport {
            mesh,
            time_ps: 0,
            lower_bound_ps: 0,
            proof: Proof::Optimal,
            account: Account::default(),
            size: [0; 5],
        };
        let wished = Wished::of(module, &cx.shard, &report.mesh)?;
        for (number, wished) in wished.into_iter().enumerate() {
            split(module, number, &wished, &links, cx, &mut report)?;
        }
        let account = Account::of(module, &cx.registry, &cx.target).map_err(plain)?;
        report.account = account.unwrap_or_default();
        if cx.explain_remarks {
            remarks::add(module, &report, cx);
        }
        let changed = Changed::from(!same(&before, module));
        Ok(Outcome::with(changed, report))
    }
}

fn same(before: &Module, after: &Module) -> bool {
    optc_ir::text::print(before) == optc_ir::text::print(after)
}

/// The mesh of the wishes, else that of the module.
fn mesh_of(module: &Module, wishes: &Wishes) -> Result<Mesh, Box<Diagnostic>> {
    let stated = shard::mesh(module).map_err(|e| Box::new(refused("the module", &e)))?;
    match (&wishes.mesh, stated) {
        (Some(mesh), Some(stated)) if *mesh != stated => {
            let message =
                format!("found the mesh `{mesh}`, wanted `{stated}`, that of the program");
            let diag = Diagnostic::error(codes::SHARD_PIN, message);
            Err(Box::new(diag.hint(
                "leave `--mesh` out, or remove the shardings from the program",
            )))
        }
        (Some(mesh), _) => Ok(mesh.clone()),
        (None, Some(stated)) => Ok(stated),
        (None, None) => {
            let message = "found no mesh, wanted one to split the program over";
            let diag = Diagnostic::error(codes::SHARD_NO_MESH, message);
            Err(Box::new(diag.hint("give `--mesh=data:4,model:2`")))
        }
    }
}

/// Splits one function.
fn split(
    module: &mut Module,
    number: usize,
    wished: &Wished,
    links: &Links,
    cx: &PassContext,
    report: &mut ShardReport,
) -> Result<(), Box<Diagnostic>> {
    let func = &module.funcs[number];
    let sites = Sites::of(func, &cx.registry);
    let axes: Vec<u64> = links.0.iter().map(|link| link.extent).collect();
    let most = usize::try_from(cx.options.number(&INFO, "max-states")?).unwrap_or(usize::MAX);
    let most = match LARGE < func.body.len() {
        true => (most / 4).max(1),
        false => most,
    };
    let pinned: Vec<(Value, usize, Vec<Piece>)> = pinned_digits(func, wished);
    let places = places(func, &sites, &axes, &pinned, most);
    let given = Given {
        func,
        sites: &sites,
        links,
        registry: &cx.registry,
        target: &cx.target,
        pins: &wished.values,
        returned: &wished.returned,
    };
    let mut choice = Choice::of(&given, &places, most);
    let draft = choice.draft(0);
    let starts = [false, true].map(|follows| choice.forward(follows));
    let first = choice.solve(&draft, &starts);
    let bound = movement(first.solution.bound);
    let proof = match (first.solution.proven, choice.complete) {
        (true, true) => Proof::Optimal,
        (true, false) => Proof::OptimalInCandidates,
        (false, _) => Proof::Bound,
    };
    let limit = match cx.options.get(&INFO, "memory") {
        "0" => cx.target.device_bytes,
        _ => Some(cx.options.number(&INFO, "memory")?),
    };
    let least = limit
        .map(|limit| within(&given, &mut choice, (&first, &starts), limit))
        .transpose()?
        .flatten();
    let proof = if least.is_some() { Proof::Bound } else { proof };
    let time = match &least {
        Some(chosen) => choice.time_of(chosen),
        None => movement(first.solution.cost),
    };
    report.time_ps = report.time_ps.saturating_add(time);
    report.lower_bound_ps = report.lower_bound_ps.saturating_add(bound);
    report.proof = weaker(report.proof, proof);
    report.size[0] += choice.variables();
    report.size[1] += choice.entries;
    report.size[2] += first.solution.summed;
    report.size[3] += places.carries;
    report.size[4] += places.asked;
    let chosen = least.unwrap_or(first);
    drop(choice);
    write::write(&mut module.funcs[number], &chosen, wished, &report.mesh);
    Ok(())
}

/// The digits of all pins, with their axes.
fn pinned_digits(func: &optc_ir::Func, wished: &Wished) -> Vec<(Value, usize, Vec<Piece>)> {
    let values = wished.values.iter().map(|(&value, pin)| (value, pin));
    let returned = wished
        .returned
        .iter()
        .map(|(&i, pin)| (func.results[i], pin));
    let all = values.chain(returned);
    let digits = all.flat_map(|(v, pin)| {
        pin.fixed
            .splits()
            .iter()
            .map(move |s| (v, s.axis, s.pieces().to_vec()))
    });
    digits.filter(|(.., pieces)| !pieces.is_empty()).collect()
}

fn weaker(a: Proof, b: Proof) -> Proof {
    match (a, b) {
        (Proof::Bound, _) | (_, Proof::Bound) => Proof::Bound,
        (Proof::OptimalInCandidates, _) | (_, Proof::OptimalInCandidates) => {
            Proof::OptimalInCandidates
        }
        (Proof::Optimal, Proof::Optimal) => Proof::Optimal,
    }
}

/// The choice at the least price of memory at which a device has room for it; `None` if the first one fits.
fn within(
    given: &Given<'_>,
    choice: &mut Choice<'_>,
    (first, starts): (&Chosen, &[Vec<usize>; 2]),
    limit: u64,
) -> Result<Option<Chosen>, Box<Diagnostic>> {
    let memory = |chosen: &Chosen| {
        let bytes = |value: Value| {
            let stored = chosen.values.get(&value).cloned().unwrap_or_default();
            Extents::of(given.func.ty(value)).map_or(0, |size| size.local_bytes(&stored))
        };
        device_memory(given.func, given.registry, &bytes)[1]
    };
    let mut least = memory(first);
    if least <= limit {
        return Ok(None);
    }
    for price in 0..PRICES {
        let draft = choice.draft(1 << (2 * price));
        let chosen = choice.solve(&draft, starts);
        let now = memory(&chosen);
        if now <= limit {
            return Ok(Some(chosen));
        }
        least = least.min(now);
    }
    let message = format!(
        "found {least} bytes of values alive at once on each device of @{}, wanted at most {limit}",
        given.func.name
    );
    let diag = Diagnostic::error(codes::SHARD_MEMORY, message);
    Err(Box::new(diag.hint(
        "give the mesh more devices, or free the shardings of weights that are on all devices",
    )))
}
