//! Values on a mesh of devices: the colours of their splits, and the collectives between them.
//!
//! Example: on `data:4,model:2` a value that is split over `data` alone is a blue wire with `data@d0/2` below its type. A
//! sum that is left in parts over `model` passes a box `all-reduce` before it is read, and goes on as a red wire.

use crate::graph::Ink;
use crate::picture::{OnMesh, Transfer};
use crate::words;
use optc_ir::shard::{self, Sharding};
use optc_ir::{Func, Value};

/// The colour of collectives.
pub(crate) const RED: &str = "#d50000";

/// The colours of splits over the first axis, the second one, both, the third one, and so on.
const INKS: [&str; 7] = [
    "#1e88e5", "#2e7d32", "#8e24aa", "#ef6c00", "#00838f", "#6d4c41", "#3949ab",
];

impl OnMesh {
    /// The splits of a value as it is stored: their texts, and their colour. `None` if no axis splits it.
    pub(crate) fn stored(&self, func: &Func, value: Value) -> Option<(String, Ink)> {
        self.split(&shard::stored(func, value, &self.mesh).ok().flatten()?)
    }

    /// The texts of the splits, and their colour. `None` if there are none.
    pub(crate) fn split(&self, sharding: &Sharding) -> Option<(String, Ink)> {
        Some((self.text(sharding)?, self.ink(sharding)))
    }

    /// The texts of the splits; `None` if there are none.
    pub(crate) fn text(&self, sharding: &Sharding) -> Option<String> {
        let texts = sharding.texts(&self.mesh);
        (!texts.is_empty()).then(|| texts.join(" "))
    }

    fn ink(&self, sharding: &Sharding) -> Ink {
        let axes = || sharding.splits().iter().map(|split| split.axis);
        let number = axes().fold(0usize, |all, axis| all | 1 << (axis % 32));
        let names: Vec<&str> = axes().map(|axis| &*self.mesh.axes[axis].name).collect();
        Ink {
            colour: INKS[number.saturating_sub(1) % INKS.len()],
            words: format!("split over {}", names.join(" and ")),
        }
    }

    /// The name of a transfer: the kinds of its collectives.
    pub(crate) fn title(transfer: &Transfer) -> String {
        let kinds = transfer.collectives.iter().map(|(kind, ..)| *kind);
        let mut kinds: Vec<&str> = kinds.collect();
        kinds.dedup();
        match kinds.is_empty() {
            true => "takes its part".to_owned(),
            false => kinds.join(", "),
        }
    }

    /// The axis and the bytes of each collective.
    pub(crate) fn sent(&self, transfer: &Transfer) -> Vec<String> {
        let sent = transfer.collectives.iter().map(|&(_, axis, bytes)| {
            format!("{} over {}", words::bytes(bytes), self.mesh.axes[axis].name)
        });
        sent.collect()
    }

    /// The bytes that a device sends along each axis.
    pub(crate) fn lines(&self) -> Vec<String> {
        let all = || self.transfers.iter().flatten().flat_map(|t| &t.collectives);
        let axes = self.mesh.axes.iter().enumerate().map(|(number, axis)| {
            let along = || all().filter(|(_, on, _)| *on == number);
            let bytes = along().fold(0u64, |sum, (.., bytes)| sum.saturating_add(*bytes));
            let sent = match along().count() {
                0 => "nothing".to_owned(),
                1 => format!("{} in one collective", words::bytes(bytes)),
                count => format!("{} in {count} collectives", words::bytes(bytes)),
            };
            format!("{}: {} devices, each sends {sent}", axis.name, axis.extent)
        });
        axes.collect()
    }
}
