//! The row of one operation, by itself: what the search asks, for tests and tools.

use super::super::layouts::{LayoutId, Layouts};
use super::super::over::Over;
use super::super::signature::{Elements, Signature};
use super::together::{stands_as_it_came, takes};
use super::{accepts_layout, default_layout};
use optc_ir::size::SizeTable;
use optc_ir::{Freedom, FreedomClass, Func, Op, Registry, StandIns, Value};
use optc_layout::Layout;
use optc_ops::Dequantized;
use optc_target::Target;
use std::sync::Arc;

/// The row of a target, compiled for one operation as the search reads it.
///
/// Layouts are given for operands and then results.
pub struct Compiled {
    signature: Signature,
    layouts: Layouts,
}

impl Compiled {
    /// The row of an operation; `None` if it has a port that is no tensor, or that has an unknown size.
    #[must_use]
    pub fn of(func: &Func, op: Op, registry: &Registry, target: &Arc<Target>) -> Option<Compiled> {
        let data = &func.ops[op];
        let op_ref = func.op_ref(op);
        let decl = registry.get(&data.name);
        let freedom = decl.map_or_else(|| Freedom::barrier(&op_ref), |decl| decl.freedom(&op_ref));
        let values: Vec<Value> = data.operands.iter().chain(&data.results).copied().collect();
        let (mut shapes, mut bits) = (Vec::new(), Vec::new());
        for &value in &values {
            let ty = func.ty(value).as_tensor()?;
            shapes.push(ty.shape()?);
            bits.push(ty.dtype.bits());
        }
        let family = decl.map_or("barrier", |decl| decl.family_of(&op_ref));
        let class = freedom.class;
        let ports = (shapes, bits, data.operands.len());
        let (shapes, bits, n) = ports;
        let mut signature = Signature::new(
            (
                family,
                Elements::of(func, op, &Dequantized::of(func, registry)),
            ),
            freedom,
            shapes,
            bits,
            n,
            Vec::new(),
            target,
        );
        if target.row_major && class == FreedomClass::Ordered {
            signature.over = Over::of(&op_ref, registry);
        }
        let mut types = func.values.ids().filter_map(|v| func.ty(v).as_tensor());
        let open = types.any(|ty| ty.shape().is_none());
        let mut layouts = Layouts::default();
        let numbers = StandIns::for_func(func, registry)?;
        layouts.begin(&numbers, open, &SizeTable::default(), target);
        if layouts.is_tiled() {
            signature.read_tiles(target);
        }
        Some(Compiled { signature, layouts })
    }

    /// The price of the operation with these layouts, one a port; `None` if the row refuses them.
    #[must_use]
    pub fn takes(&mut self, form: &[Layout]) -> Option<u64> {
        let form: Vec<LayoutId> = form
            .iter()
            .map(|layout| self.layouts.on_machine(layout.clone()))
            .collect();
        takes(&self.signature, &mut self.layouts, &form)
    }

    /// Returns whether the row takes a layout at a port, in some form.
    #[must_use]
    pub fn takes_at(&mut self, port: usize, layout: &Layout) -> bool {
        let layout = self.layouts.on_machine(layout.clone());
        accepts_layout(&self.signature, &mut self.layouts, port, layout)
            || stands_as_it_came(&self.signature, &mut self.layouts, &[layout])
    }

    /// The layout of a port where nothing is chosen.
    #[must_use]
    pub fn default_at(&mut self, port: usize) -> Layout {
        let layout = default_layout(&self.signature, &mut self.layouts, port);
        self.layouts.get(layout).clone()
    }
}
