//! A cache of conversion plans by pairs of layouts.

use super::plan::{ConversionError, ConversionOptions, ConversionPlan};
use indexmap::IndexMap;
use optc_layout::Layout;
use std::sync::Arc;

/// Plans by layouts, width and options.
#[derive(Debug, Default)]
pub struct PlanCache {
    /// By the hashes of both layouts' functions, which include width and size.
    plans: IndexMap<(u64, u64), Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    from: Layout,
    to: Layout,
    options: ConversionOptions,
    plan: Arc<ConversionPlan>,
}

impl PlanCache {
    /// Returns the plan of a conversion, made if it is not cached.
    ///
    /// # Errors
    /// As for [`ConversionPlan::new`].
    pub fn plan(
        &mut self,
        from: &Layout,
        to: &Layout,
        options: ConversionOptions,
    ) -> Result<Arc<ConversionPlan>, ConversionError> {
        let key = (from.function_hash(), to.function_hash());
        let entries = self.plans.entry(key).or_default();
        let known = entries.iter().find(|entry| {
            entry.options == options && entry.from.same_function(from) && entry.to.same_function(to)
        });
        if let Some(entry) = known {
            return Ok(Arc::clone(&entry.plan));
        }
        let plan = Arc::new(ConversionPlan::new(from, to, options)?);
        entries.push(Entry {
            from: from.clone(),
            to: to.clone(),
            options,
            plan: Arc::clone(&plan),
        });
        Ok(plan)
    }

    /// Number of cached plans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.plans.values().map(Vec::len).sum()
    }

    /// Returns whether no plan is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
