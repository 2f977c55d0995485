//! Sums over the functions of a module, and the report made of them.

use super::conversion::Conversion;
use super::folded::Folded;
use super::report::{FoldReport, Proof};
use super::shared::Tally;
use crate::codes;
use crate::elide_copies::{Left, Repeats};
use crate::pass::PassContext;
use optc_check::amount::{Amount, amount};
use optc_check::stats::{Stats, fixed_movement};
use optc_check::{FuncWitness, Witness};
use optc_ir::size::{Size, SizeTable};
use optc_ir::{Diagnostic, Module, Value};

/// Sums over functions.
#[derive(Default)]
pub(crate) struct Totals {
    /// The cost of naive lowering.
    pub(crate) naive: Amount,
    /// The part of it that is padding.
    naive_padding: Amount,
    stands_in: bool,
    bound: u64,
    /// Copies that stay although they could have been elided.
    pub(crate) copies: Left,
    unproven: bool,
    /// A function that is called, so that its boundary is not laid out.
    pub(crate) kept: Option<String>,
    dropped: u64,
    /// A cap with which some function converts fewer bytes.
    cap: Option<usize>,
    trials: usize,
    groups: usize,
    nodes: usize,
    conversions: Vec<(usize, Conversion)>,
    why: Vec<(usize, Value, String)>,
    alternatives: Vec<(usize, Value, Vec<String>)>,
    freed: Vec<Option<u64>>,
    witness: Witness,
}

impl Totals {
    /// Bytes of the conversions at run time.
    fn converted(&self, sizes: &SizeTable) -> Amount {
        let mut sum = Amount::default();
        for (_, conversion) in self.conversions.iter().filter(|(_, c)| !c.constant) {
            sum.add(
                &amount(conversion.polynomial.clone(), conversion.bytes),
                sizes,
            );
        }
        sum
    }

    /// Adds the fold of a function; its witness is the module's, in the order of functions.
    pub(crate) fn add(
        &mut self,
        index: usize,
        folded: &Folded,
        witness: FuncWitness,
        sizes: &SizeTable,
    ) {
        self.naive.add(&folded.naive, sizes);
        self.naive.add(&folded.naive_padding, sizes);
        self.naive_padding.add(&folded.naive_padding, sizes);
        self.stands_in |= folded.stands_in;
        self.bound = self.bound.saturating_add(folded.bound);
        self.unproven |= !folded.proven;
        self.dropped += folded.dropped;
        self.cap = self.cap.max(folded.cap);
        self.trials += folded.trials;
        self.groups += folded.groups;
        self.nodes += folded.nodes;
        self.conversions
            .extend(folded.conversions.iter().map(|c| (index, c.clone())));
        self.why
            .extend(folded.why.iter().map(|(v, t)| (index, *v, t.clone())));
        let weighed = folded.alternatives.iter();
        self.alternatives
            .extend(weighed.map(|(v, lines)| (index, *v, lines.clone())));
        self.freed.push(folded.freed);
        self.witness.funcs.push(witness);
    }

    /// Adds to naive lowering the bytes that operations move by themselves, and checks that the result costs no more.
    ///
    /// # Errors
    /// The result costs more.
    pub(crate) fn compare(
        &mut self,
        after: &Stats,
        sizes: &SizeTable,
    ) -> Result<(), Box<Diagnostic>> {
        let moved = amount(after.polynomials.movement.clone(), after.movement_bytes);
        // An operation that stays and moves bytes by itself (a space to depth, a gather that permutes) does so in any
        // lowering. The prices of alternatives depend on the choice; naive lowering has its own.
        let priced = amount(after.polynomials.priced.clone(), after.priced_bytes);
        let stays = moved.minus(&self.converted(sizes), sizes);
        let stays = stays.minus(&priced, sizes);
        self.naive.add(&stays, sizes);
        let naive = self.naive.at(sizes);
        // If numbers stand in for sizes, the choice is made for those, and the bytes here are at other sizes.
        let costs = after.layout_bytes().saturating_add(after.copy_bytes);
        if self.stands_in || costs <= naive {
            return Ok(());
        }
        let message =
            format!("the result moves, copies and pads {costs} bytes, naive lowering {naive}");
        Err(Box::new(Diagnostic::error(
            codes::WORSE_THAN_NAIVE,
            message,
        )))
    }

    /// Adds remarks on limits that kept candidates, forms or boundaries out of the search.
    fn remark_limits(&self, tally: &Tally, moves: bool, cx: &mut PassContext) {
        if 0 < self.dropped && moves {
            let mut message = format!(
                "{} candidate layouts exceed max-layouts and were not considered",
                self.dropped
            );
            if let Some(cap) = self.cap {
                message += &format!("; max-layouts={cap} saves bytes");
            }
            cx.remarks
                .push(Diagnostic::remark(codes::LAYOUTS_DROPPED, message));
        }
        if 0 < tally.unsaturated {
            let message = format!(
                "saturation reached its limit for {} operations; a cheaper form may have been missed",
                tally.unsaturated
            );
            cx.remarks
                .push(Diagnostic::remark(codes::NOT_SATURATED, message));
        }
        if let Some(name) = self.kept.as_ref().filter(|_| moves) {
            remark_kept(name, cx);
        }
    }

    /// The report on the folded module.
    pub(crate) fn report(
        self,
        after: &Stats,
        tally: Tally,
        cx: &mut PassContext,
        folded: &Module,
    ) -> FoldReport {
        // If nothing is moved, no other boundary is better.
        let kept = self.kept.is_some() && after.movement_bytes != 0;
        self.remark_limits(&tally, after.movement_bytes != 0, cx);
        let sizes = SizeTable::new(&cx.bindings);
        let costs = after.layout_bytes();
        let bound = self
            .bound
            .saturating_add(fixed_movement(folded, &cx.registry, &sizes))
            .min(costs);
        // A conversion of a given operand could write it in place and so save its copy. Such copies are therefore part
        // of the bound only where nothing is converted.
        let given = if self.bound == 0 {
            0
        } else {
            self.copies.given
        };
        let by_choice = self
            .copies
            .by_choice
            .saturating_add(given)
            .min(after.copy_bytes);
        // An operation that repeats elements may trade repeated bytes for bytes converted before or behind it.
        let repeats = match self.copies.repeats {
            Repeats::Nothing => false,
            Repeats::Forced => self.bound != 0,
            Repeats::ByChoice => true,
        };
        // Saturated sums prove nothing.
        let proven = costs == bound && costs != u64::MAX && !kept && by_choice == 0 && !repeats;
        let proof = match (proven, self.unproven || by_choice != 0 || repeats) {
            (true, _) => Proof::Optimal,
            (false, true) => Proof::Bound,
            (false, false) => Proof::OptimalInCandidates,
        };
        let copied = amount(after.polynomials.copy.clone(), after.copy_bytes);
        let mut left = amount(after.polynomials.movement.clone(), after.movement_bytes);
        left.add(&copied, &sizes);
        left.add(&Amount::from(Size::from(after.padding_bytes)), &sizes);
        let slower = amount(after.polynomials.slower.clone(), after.slower_bytes);
        left.add(&slower, &sizes);
        let bytes_after = left.at(&sizes);
        let left = left.polynomial();
        // The bound is a number. It has a polynomial if it is reached or is 0.
        let least = match bound {
            0 if by_choice == 0 => after.polynomials.copy.clone(),
            n if n == costs && by_choice == 0 => left.clone(),
            _ => None,
        };
        FoldReport {
            bytes_before: self.naive.at(&sizes),
            padding_before: self.naive_padding.at(&sizes),
            bytes_after,
            lower_bound_bytes: bound
                .saturating_add(after.copy_bytes)
                .saturating_sub(by_choice),
            polynomials: [
                ("bytes_before", self.naive.polynomial()),
                ("bytes_after", left),
                ("lower_bound_bytes", least),
            ],
            proof,
            rules_fired: tally.fired,
            dropped: self.dropped,
            sizes: [self.groups, self.nodes, tally.signatures, tally.layouts],
            conversions: self.conversions,
            freed: self.freed,
            trials: self.trials,
            target: cx.target.name.clone(),
            witness: self.witness,
            why: self.why,
            alternatives: self.alternatives,
        }
    }
}

fn remark_kept(name: &str, cx: &mut PassContext) {
    let message = format!(
        "@{name} is called: its arguments and results keep the layouts it declares, and what is \
         proven is so for these"
    );
    let diag = Diagnostic::remark(codes::CALLED_BOUNDARY_KEPT, message);
    cx.remarks
        .push(diag.note("a function put in place of its calls is laid out with them"));
}
