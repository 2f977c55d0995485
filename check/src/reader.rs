//! What the row of a target lets an operation read or write that is spread out in a larger buffer.

use crate::labels;
use crate::site::{Site, one_run};
use optc_ir::{Freedom, FreedomClass, Label, Op, Role, Structure};
use optc_layout::Stride;
use optc_target::{Parts, PortRole, Row, Target};

/// What an operation takes at a port of what is spread out in another buffer.
pub(crate) struct Reader<'t> {
    pub(crate) row: &'t Row,
    pub(crate) parts: Parts,
    freedom: Freedom,
    at: usize,
    /// Of an element of the first operand.
    bits: u32,
}

impl<'t> Reader<'t> {
    /// Of an operation whose row takes parts; `None` of a conversion, which takes all.
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
            bits: data
                .operands
                .first()
                .and_then(|&v| site.layout(v))
                .map_or(0, |layout| layout.elem_bits()),
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

    /// What a dimension of the port is to the rows of targets.
    pub(crate) fn role(&self, dim: usize) -> Option<PortRole> {
        let n_operands = self.freedom.operands.len();
        let label = self.label(dim)?;
        Some(labels::role(&self.freedom, label, n_operands))
    }

    /// The roles whose dimensions have to be one run.
    pub(crate) fn runs(&self) -> impl Iterator<Item = PortRole> {
        self.row.take.iter().flat_map(|a| &a.one_run).copied()
    }

    /// Whether each element of the result is made of those at its place.
    pub(crate) fn is_elementwise(&self) -> bool {
        let parallel = |label: &Label| label.role == Role::Parallel;
        self.freedom.class == FreedomClass::Ordered && self.freedom.labels.iter().all(parallel)
    }

    /// Whether what is read has a line for each index of the other dimensions together, which are the first of the result as well: a
    /// product whose left operand lies so, and that is not repeated over a batch.
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

    /// Whether digits end in a run of one role that is long enough for others to be in several.
    fn ends_in_run(&self, digits: &[Stride]) -> bool {
        let several = |row: &Row| row.contraction(self.bits)?.several_runs;
        let Some(least) = several(self.row) else {
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
        let bits = u64::from(self.bits).saturating_mul(run);
        least.saturating_mul(8) <= bits
    }

    /// Whether digits are the runs that the row wants.
    ///
    /// # Errors
    /// The text says which dimension is none.
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
