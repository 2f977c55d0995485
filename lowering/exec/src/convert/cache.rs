//! Plans that are made once for each pair of layouts.

use super::plan::{ConversionError, ConversionOptions, ConversionPlan};
use indexmap::IndexMap;
use optc_layout::Layout;
use std::sync::Arc;

/// Plans by layouts, width and options.
#[derive(Debug, Default)]
pub struct PlanCache {
    /// By hashes of both functions, which width and size are part of.
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
    /// The plan of a conversion, made if it is not there.
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

    /// How many plans there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.plans.values().map(Vec::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
