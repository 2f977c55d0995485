//! The figures of a run of the pass.

use super::conversion::Conversion;
use indexmap::IndexMap;
use optc_check::{Certificate, Stats, Witness};
use optc_ir::size::Size;
use optc_ir::{Module, Registry, Value, unbound_sizes};
use optc_target::Target;

/// The strength of the proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// No other program in layouts that the target admits costs fewer bytes. This holds for bytes that are moved,
    /// copied and padded, and also for these plus the bytes that are repeated in memory. Compared are programs that
    /// compute each value once, or as often as this one does.
    Optimal,
    /// No program with the candidate layouts and forms costs less.
    OptimalInCandidates,
    /// The search was cut short. The lower bound says how far the result may be off.
    Bound,
}

impl Proof {
    /// The name that `optc stats --json` prints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Proof::Optimal => "optimal",
            Proof::OptimalInCandidates => "optimal_in_candidates",
            Proof::Bound => "bound",
        }
    }
}

/// The report of a run of the pass.
#[derive(Clone, Debug)]
pub struct FoldReport {
    /// Bytes of the program lowered naively on the target: movement, copies, padding, and prices of slower orders.
    pub bytes_before: u64,
    /// The part of them that is padding.
    pub padding_before: u64,
    /// Bytes of the result: movement, copies, padding, and prices of slower orders.
    pub bytes_after: u64,
    /// Lower bound of `bytes_after` over all choices of layouts that the target admits. The boundaries of called
    /// functions are as declared. Each value is computed once, or as often as in the result.
    pub lower_bound_bytes: u64,
    /// `bytes_before`, `bytes_after` and `lower_bound_bytes` as polynomials in the program's unknown sizes, by name;
    /// `None` where a layout has no polynomial.
    pub polynomials: [(&'static str, Option<Size>); 3],
    /// The strength of the proof.
    pub proof: Proof,
    /// The number of times that each rule gave a form, over distinct operations.
    pub rules_fired: IndexMap<String, u64>,
    /// Candidate layouts that `max-layouts` left out.
    pub dropped: u64,
    /// Storage groups, search nodes, distinct signatures and layouts.
    pub sizes: [usize; 4],
    /// The conversions that stay, per function.
    pub conversions: Vec<(usize, Conversion)>,
    /// Per function, the bytes converted with `--free-boundary`. `None` where that is not less, or where no remarks
    /// were requested.
    pub freed: Vec<Option<u64>>,
    /// The number of searches that were made for remarks alone; 0 where no remarks were requested.
    pub trials: usize,
    /// The target.
    pub target: String,
    /// The positions of the original's values in the result, for an independent check.
    pub witness: Witness,
    /// With `explain`: the explanation of each value, per function.
    pub why: Vec<(usize, Value, String)>,
    /// With the name of a value or a place as `explain`: the rules that made its form, the alternatives and their
    /// costs, line by line, per function.
    pub alternatives: Vec<(usize, Value, Vec<String>)>,
}

impl FoldReport {
    /// The certificate of the run that folded `original` into `folded`.
    #[must_use]
    pub fn certificate(
        &self,
        original: &Module,
        folded: &Module,
        registry: &Registry,
        target: &Target,
    ) -> Certificate {
        // The checker has no bindings.
        let sizes = unbound_sizes(original, registry);
        let moved = Stats::on(folded, registry, &sizes, target).movement_bytes;
        Certificate::of(original, folded, self.witness.clone(), &self.target, moved)
    }
}
