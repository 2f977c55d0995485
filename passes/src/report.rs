//! Reports of passes, each in a type of its own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The report of a pass on a run; any type will do.
pub trait Report: Any + fmt::Debug + Send + Sync {}

impl<T: Any + fmt::Debug + Send + Sync> Report for T {}

/// The reports of the passes that ran, in their order. A pass that runs twice has two.
#[derive(Clone, Debug, Default)]
pub struct Reports(Vec<(&'static str, Arc<dyn Report>)>);

impl Reports {
    /// The last report of this type.
    #[must_use]
    pub fn get<R: Report>(&self) -> Option<&R> {
        self.all().last()
    }

    /// All reports of this type.
    pub fn all<R: Report>(&self) -> impl Iterator<Item = &R> {
        self.0.iter().filter_map(|(_, report)| {
            let any: &dyn Any = &**report;
            any.downcast_ref()
        })
    }

    /// The name of each pass that reported, and its report.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &dyn Report)> {
        self.0.iter().map(|(pass, report)| (*pass, &**report))
    }

    pub(crate) fn add(&mut self, pass: &'static str, report: Arc<dyn Report>) {
        self.0.push((pass, report));
    }
}
