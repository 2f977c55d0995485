//! The report of the pass.

use crate::view_fold::Proof;
use optc_check::mesh::Account;
use optc_ir::shard::Mesh;

/// The report of a run of the pass.
#[derive(Clone, Debug)]
pub struct ShardReport {
    /// The mesh.
    pub mesh: Mesh,
    /// The modelled time in picoseconds, as the search prices it.
    pub time_ps: u64,
    /// Lower bound of the time of every choice.
    pub lower_bound_ps: u64,
    /// The strength of the result.
    pub proof: Proof,
    /// The collectives, time and memory of the written program.
    pub account: Account,
    /// The counts of the work: the variables of the problem, the entries of its different tables, those of the tables that
    /// the search summed, the digits of values that were carried from operation to operation, and the questions that
    /// loops were asked about digits.
    pub size: [usize; 5],
}
