//! What a run of the pass did, in figures.

use super::conversion::Conversion;
use indexmap::IndexMap;
use optc_check::{Certificate, Stats, Witness};
use optc_ir::size::{Size, SizeTable};
use optc_ir::{Module, Registry, Value};
use optc_target::Target;

/// How sure the result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// No program in any layouts the target admits moves, copies and pads fewer bytes, nor these and what it repeats in
    /// memory together, which computes each value once, or as often as this one does.
    Optimal,
    /// None does among the candidate layouts and forms.
    OptimalInCandidates,
    /// The search was cut short; the lower bound says how far it may be off.
    Bound,
}

impl Proof {
    /// As `optc stats --json` prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Proof::Optimal => "optimal",
            Proof::OptimalInCandidates => "optimal_in_candidates",
            Proof::Bound => "bound",
        }
    }
}

/// What a run of the pass did.
#[derive(Clone, Debug)]
pub struct FoldReport {
    /// Movement, copy and padding bytes of the program lowered naively on the target.
    pub bytes_before: u64,
    /// How much of them is padding.
    pub padding_before: u64,
    /// Movement, copy and padding bytes of the result.
    pub bytes_after: u64,
    /// No choice of layouts that the target admits moves and copies fewer bytes than this, the
    /// boundaries of called functions being as they are declared, and each value being computed once, or as often as in the
    /// result.
    pub lower_bound_bytes: u64,
    /// The three figures above as polynomials in the program's unknown sizes, by name; `None` where a
    /// layout has no polynomial.
    pub polynomials: [(&'static str, Option<Size>); 3],
    /// How sure the result is.
    pub proof: Proof,
    /// How often each rule gave a form, over distinct operations.
    pub rules_fired: IndexMap<String, u64>,
    /// Candidate layouts that `max-layouts` kept out.
    pub dropped: u64,
    /// Storage groups, search nodes, distinct signatures and layouts.
    pub sizes: [usize; 4],
    /// The conversions that stay, per function.
    pub conversions: Vec<(usize, Conversion)>,
    /// Per function, bytes converted when `--free-boundary` is given; `None` where these are not fewer, or where
    /// nobody asked for remarks.
    pub freed: Vec<Option<u64>>,
    /// Searches that were made for remarks alone: none where nobody asked for them.
    pub trials: usize,
    /// The target.
    pub target: String,
    /// Where the values of the original are, for an independent check.
    pub witness: Witness,
    /// With `explain`: why each value is as it is, per function.
    pub why: Vec<(usize, Value, String)>,
    /// With the name of a value or a place as `explain`: which rules made its form, what it might have been and what that costs,
    /// line by line, per function.
    pub alternatives: Vec<(usize, Value, Vec<String>)>,
}

impl FoldReport {
    /// The certificate of the run that made `folded` of `original`.
    #[must_use]
    pub fn certificate(
        &self,
        original: &Module,
        folded: &Module,
        registry: &Registry,
        target: &Target,
    ) -> Certificate {
        // The checker knows no bindings.
        let sizes = SizeTable::default();
        let moved = Stats::on(folded, registry, &sizes, target).movement_bytes;
        Certificate::of(original, folded, self.witness.clone(), &self.target, moved)
    }
}
