//! Options for meshes of devices, and their figures in `optc stats`.

use crate::args::CompileArgs;
use crate::estimate::seconds;
use crate::failure::Failure;
use optc::mesh::{Account, Kind, Mesh, ShardReport, Wishes, mesh};
use optc::{Compiler, Program, Target};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

/// The kinds of collectives, in the order of their names.
const KINDS: [Kind; 5] = [
    Kind::AllGather,
    Kind::AllReduce,
    Kind::AllToAll,
    Kind::Permute,
    Kind::ReduceScatter,
];

/// Adds the mesh and the shardings that the options state.
pub(crate) fn add(wishes: &mut Wishes, args: &CompileArgs) -> Result<(), Failure> {
    if let Some(text) = &args.mesh {
        let mesh = text.parse::<Mesh>();
        let mesh = mesh.map_err(|e| Failure::about("--mesh", e.into()))?;
        wishes.mesh = Some(mesh);
    }
    for pin in &args.shard {
        match pin.split_once('=') {
            Some((name, text)) if !name.trim().is_empty() => {
                let pin = (name.trim().to_owned(), text.trim().to_owned());
                wishes.pins.push(pin);
            }
            _ => {
                let wanted = "NAME=[…] with one entry a dimension, such as x='[data, _]'";
                let message = format!("found `--shard {pin}`, wanted {wanted}");
                return Err(Failure::usage(message));
            }
        }
    }
    Ok(())
}

/// The figures of a program on its mesh.
pub(crate) struct Figures {
    mesh: Mesh,
    account: Account,
    report: Option<ShardReport>,
}

impl Figures {
    /// The figures; `None` if the program states no mesh.
    pub(crate) fn of(
        compiler: &Compiler,
        program: &Program,
        target: &Target,
        report: Option<&ShardReport>,
    ) -> Result<Option<Figures>, Failure> {
        let refused = |e: optc::mesh::ShardError| Failure::about("the mesh", e.into());
        let account = Account::of(&program.module, compiler.registry(), target).map_err(refused)?;
        let mesh = mesh(&program.module).map_err(refused)?;
        Ok(mesh.zip(account).map(|(mesh, account)| Figures {
            mesh,
            account,
            report: report.cloned(),
        }))
    }

    /// The number and the bytes of the collectives of each kind along each axis, without those that are none.
    fn rows(&self) -> impl Iterator<Item = (&str, &'static str, usize, u64)> {
        let axes = self.mesh.axes.iter().enumerate();
        axes.flat_map(move |(axis, own)| {
            KINDS.iter().filter_map(move |&kind| {
                let all = self.account.collectives();
                let mine = all.filter(|c| c.axis == axis && c.kind == kind);
                let (count, bytes) = mine.fold((0, 0u64), |(n, sum), c| {
                    (n + 1, sum.saturating_add(c.bytes))
                });
                (0 < count).then_some((&*own.name, kind.name(), count, bytes))
            })
        })
    }

    pub(crate) fn json(&self) -> Json {
        let account = &self.account;
        let axes = self.mesh.axes.iter().enumerate().map(|(axis, own)| {
            json!({
                "name": &*own.name,
                "extent": own.extent,
                "link": own.link.as_deref(),
                "collective_bytes": account.axis_bytes(axis),
            })
        });
        let rows = self.rows().map(|(axis, kind, count, bytes)| {
            json!({"axis": axis, "kind": kind, "count": count, "bytes": bytes})
        });
        let report = self.report.as_ref();
        json!({
            "devices": self.mesh.devices(),
            "axes": axes.collect::<Vec<_>>(),
            "collectives": rows.collect::<Vec<_>>(),
            "resident_bytes": account.resident_bytes,
            "memory_bytes": account.memory_bytes,
            "work_seconds": account.work_seconds,
            "collective_seconds": account.collective_seconds(),
            "seconds": account.seconds(),
            "lower_bound_seconds": report.map(|r| seconds(r.lower_bound_ps)),
            "proof": report.map(|r| r.proof.name()),
        })
    }

    pub(crate) fn text(&self) -> String {
        let account = &self.account;
        let mut text = format!(
            "mesh {} of {} devices; a device sends, has and takes:\n",
            self.mesh,
            self.mesh.devices()
        );
        for (axis, own) in self.mesh.axes.iter().enumerate() {
            let name = format!("collective_bytes {}", own.name);
            let _ = writeln!(text, "{name:<24} {:>16}", account.axis_bytes(axis));
        }
        for (axis, kind, count, bytes) in self.rows() {
            let name = format!("  {kind} {axis}");
            let _ = writeln!(text, "{name:<24} {bytes:>16} in {count}");
        }
        let rows = [
            ("resident_bytes", account.resident_bytes),
            ("memory_bytes", account.memory_bytes),
        ];
        for (name, n) in rows {
            let _ = writeln!(text, "{name:<24} {n:>16}");
        }
        let rows = [
            ("work_seconds", account.work_seconds),
            ("collective_seconds", account.collective_seconds()),
        ];
        for (name, time) in rows {
            let _ = writeln!(text, "{name:<24} {time:>16.3e}");
        }
        if let Some(report) = &self.report {
            let bound = seconds(report.lower_bound_ps);
            let _ = writeln!(
                text,
                "lower bound {bound:.3e} seconds, {}",
                report.proof.name()
            );
        }
        text
    }
}
