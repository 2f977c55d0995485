//! State that the functions of a module share while they are folded.

use super::choose::Choice;
use super::emit::{Emitted, Emitter};
use super::groups::{Graph, Group};
use super::layouts::{LayoutId, Layouts};
use super::saturate::RuleSet;
use super::search::Search;
use super::signatures::Signatures;
use crate::pass::PassContext;
use indexmap::IndexMap;
use optc_ir::Func;
use optc_ir::entity::SideTable;
use optc_ir::size::SizeTable;

/// Layouts, signatures and rules, with the options of the run.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) layouts: Layouts,
    pub(crate) signatures: Signatures,
    pub(crate) rules: RuleSet,
    /// The most candidate layouts of a group.
    pub(crate) cap: usize,
    /// True if layouts are chosen so that they save copies: parts that do not lie evenly count on a machine with tiles,
    /// and layouts are chosen again on others.
    pub(crate) saves_copies: bool,
    /// True if the explanation of each value is kept.
    pub(crate) explain: bool,
    /// The value or place whose alternatives are weighed.
    pub(crate) weighed: Option<String>,
}

/// Figures over all functions that were folded.
pub(crate) struct Tally {
    /// The number of times that each rule gave a form.
    pub(crate) fired: IndexMap<String, u64>,
    /// The number of operations whose saturation was cut short.
    pub(crate) unsaturated: u64,
    /// The numbers of distinct signatures and layouts.
    pub(crate) signatures: usize,
    pub(crate) layouts: usize,
}

impl Shared {
    pub(crate) fn tally(&mut self) -> Tally {
        Tally {
            fired: std::mem::take(&mut self.rules.fired),
            unsaturated: self.rules.unsaturated,
            signatures: self.signatures.len(),
            layouts: self.layouts.len(),
        }
    }

    /// A search with its candidates.
    pub(crate) fn search<'a>(&'a mut self, graph: &'a Graph) -> Search<'a> {
        let mut search = Search::new(
            graph,
            &mut self.layouts,
            &mut self.signatures,
            &mut self.rules,
            self.cap,
        );
        search.demand();
        search
    }

    /// The program that a choice stands for.
    pub(crate) fn emit(
        &mut self,
        func: &Func,
        graph: &Graph,
        cx: &PassContext,
        candidates: &SideTable<Group, Vec<LayoutId>>,
        choice: &Choice,
        explain: bool,
    ) -> Emitted {
        Emitter {
            old: func,
            graph,
            layouts: &mut self.layouts,
            candidates,
            choice,
            registry: &cx.registry,
            target: &cx.target,
            explain,
            sizes: &SizeTable::new(&cx.bindings),
        }
        .run()
    }
}
