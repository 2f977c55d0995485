//! The operations of a function as splits see them.

use crate::view_fold::maps::FastSet;
use optc_check::mesh::Site;
use optc_ir::entity::EntityId;
use optc_ir::{Func, Registry, Value};

/// A port of an operation: its operand (`Ok`) or result (`Err`) of this number.
pub(super) type Port = Result<usize, usize>;

/// The loops of each operation, equal ones once, and the ports at which operations read or make each value.
pub(super) struct Sites {
    all: FastSet<Site>,
    of: Vec<usize>,
    ports: Vec<Vec<(usize, Port)>>,
}

impl Sites {
    pub(super) fn of(func: &Func, registry: &Registry) -> Sites {
        let mut sites = Sites {
            all: FastSet::default(),
            of: Vec::with_capacity(func.body.len()),
            ports: vec![Vec::new(); func.values.len()],
        };
        for (at, &op) in func.body.iter().enumerate() {
            let (number, _) = sites.all.insert_full(Site::of(func, op, registry));
            sites.of.push(number);
            let data = &func.ops[op];
            let operands = data.operands.iter().enumerate().map(|(i, v)| (v, Ok(i)));
            let results = data.results.iter().enumerate().map(|(i, v)| (v, Err(i)));
            for (value, port) in operands.chain(results) {
                sites.ports[value.index()].push((at, port));
            }
        }
        sites
    }

    /// The number of operations.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// The number of the site of an operation of the body. Operations with one number have equal sites.
    pub(super) fn number(&self, at: usize) -> usize {
        self.of[at]
    }

    /// The site of an operation of the body.
    pub(super) fn at(&self, at: usize) -> &Site {
        self.numbered(self.of[at])
    }

    /// The site of this number.
    pub(super) fn numbered(&self, number: usize) -> &Site {
        &self.all[number]
    }

    /// The operations that read or make a value, in the order of the body, with their ports.
    pub(super) fn ports(&self, value: Value) -> &[(usize, Port)] {
        &self.ports[value.index()]
    }
}
