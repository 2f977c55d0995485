//! The accesses that the row of a target allows an operation to a buffer that is spread out in a larger one.

use crate::labels;
use crate::site::{Site, one_run};
use optc_ir::{Freedom, FreedomClass, Label, Op, Role, Structure};
use optc_layout::Stride;
use optc_target::{Alternative, Parts, PortRole, Row, Target, When};

/// The accesses that an operation allows at one port to a spread out buffer.
pub(crate) struct Reader<'t> {
    pub(crate) row: &'t Row,
    pub(crate) parts: Parts,
    freedom: Freedom,
    at: usize,
    /// Bits of an element of the first operand, and of the port.
    bits: [u32; 2],
}

impl<'t> Reader<'t> {
    /// The reader of an operation whose row takes parts; `None` for a conversion, which takes all.
    pub(crate) fn of(
        site: &Site<'_>,
        target: &'t Target,
        op: Op,
        at: usize,
    ) -> Result<Option<Reader<'t>>, String> {
        let data = &site.func.ops[op];
        let decl = site
            .registry
            .get(&data.name)
            .ok_or("nothing is known of it")?;
        if site.registry.structure(&data.name) == Structure::Convert {
            return Ok(None);
        }
        let of = site.func.op_ref(op);
        let row = target.row(decl.family_of(&of));
        let parts = row.and_then(|row| Some((row, row.parts?)));
        let (row, parts) = parts.ok_or("its row takes no parts of larger values")?;
        Ok(Some(Reader {
            row,
            parts,
            freedom: decl.freedom(&of),
            at,
            bits: [0, at].map(|port| {
                let mut values = data.operands.iter().chain(&data.results);
                let layout = values.nth(port).and_then(|&v| site.layout(v));
                layout.map_or(0, |layout| layout.elem_bits())
            }),
        }))
    }

    fn label(&self, dim: usize) -> Option<usize> {
        let labels = labels::labels_of(&self.freedom, self.at);
        labels.get(dim).copied().flatten()
    }

    /// The role that the operation itself gives a dimension of the port.
    pub(crate) fn own_role(&self, dim: usize) -> Option<Role> {
        self.label(dim).map(|label| self.freedom.labels[label].role)
    }

    /// The role of a dimension of the port in the words of target rows.
    pub(crate) fn role(&self, dim: usize) -> Option<PortRole> {
        let n_operands = self.freedom.operands.len();
        let label = self.label(dim)?;
        Some(labels::role(&self.freedom, label, n_operands))
    }

    /// The roles whose dimensions have to be one run.
    pub(crate) fn runs(&self) -> impl Iterator<Item = PortRole> {
        self.row.take.iter().flat_map(|a| &a.one_run).copied()
    }

    /// The elements of an innermost run that the row wants where values lie in tiles.
    pub(crate) fn least_run(&self) -> u64 {
        let all = self.row.taken().filter(|a| a.when != Some(When::Untiled));
        all.filter_map(|a| a.run).max().unwrap_or(1)
    }

    /// Returns whether each element of the result is computed from the elements at the same indices.
    pub(crate) fn is_elementwise(&self) -> bool {
        let parallel = |label: &Label| label.role == Role::Parallel;
        self.freedom.class == FreedomClass::Ordered && self.freedom.labels.iter().all(parallel)
    }

    /// Returns whether the operand has one line of elements for each combination of its other dimensions, and these are
    /// the first dimensions of the result, too. This holds for the left operand of a product that is not repeated over
    /// a batch.
    pub(crate) fn reads_lines(&self, site: &Site<'_>, op: Op) -> bool {
        let (Some(own), Some(result)) = (
            self.freedom.operands.get(self.at),
            self.freedom.results.first(),
        ) else {
            return false;
        };
        let n_operands = self.freedom.operands.len();
        let role =
            |label: &Option<usize>| label.map(|l| labels::role(&self.freedom, l, n_operands));
        let lines = own
            .iter()
            .take_while(|label| role(label) != Some(PortRole::K))
            .count();
        let (lines, summed) = own.split_at(lines);
        let shape = site.func.ops[op]
            .results
            .first()
            .and_then(|&v| site.layout(v))
            .map(|l| l.shape());
        let repeats = |(d, label): (usize, &Option<usize>)| {
            role(label) == Some(PortRole::Batch) && shape.and_then(|s| s.get(d)) != Some(&1)
        };
        self.freedom.class == FreedomClass::Contract
            && result.starts_with(lines)
            && summed.iter().all(|label| role(label) == Some(PortRole::K))
            && !lines.iter().enumerate().any(repeats)
    }

    /// Returns whether digits end in a run of one role that is long enough for the other dimensions to be in several
    /// runs.
    fn ends_in_run(&self, digits: &[Stride]) -> bool {
        let of = |a: &&Alternative| a.bits.is_empty() || a.bits.contains(&self.bits[0]);
        let mut taken = self.row.taken().filter(of);
        let Some(least) = taken.find_map(|a| a.several_runs) else {
            return false;
        };
        let mut lines: Vec<&Stride> = digits.iter().collect();
        lines.sort_by_key(|s| s.stride.unsigned_abs());
        let role = lines.first().and_then(|s| self.role(s.dim));
        let mut run = 1u64;
        for digit in lines {
            if self.role(digit.dim) != role || i64::try_from(run) != Ok(digit.stride) {
                break;
            }
            run = run.saturating_mul(digit.count);
        }
        let bits = u64::from(self.bits[1]).saturating_mul(run);
        least.saturating_mul(8) <= bits
    }

    /// Checks that digits are the runs that the row wants.
    ///
    /// # Errors
    /// The text names the dimension that is not a run.
    pub(crate) fn finds_runs(&self, digits: &[Stride]) -> Result<(), String> {
        if self.ends_in_run(digits) {
            return Ok(());
        }
        for wanted in self.runs() {
            let of_role = digits.iter().filter(|s| self.role(s.dim) == Some(wanted));
            if !one_run(of_role) {
                return Err(format!("{} is in no one run there", wanted.name()));
            }
        }
        Ok(())
    }
}
