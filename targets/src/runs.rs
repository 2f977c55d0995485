//! Runs of bytes: the ends of the ports of a contraction on a machine without tiles, by the width of an element.

use crate::roles::{PortRole, either};
use crate::rows::{Alternative, PortRule, Row};

impl PortRule {
    /// The rule for the innermost run, in words.
    pub(crate) fn describe_run(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(innermost) = &self.innermost {
            said.push(format!("{} innermost", either(innermost)));
        }
        if let Some(align) = self.align {
            let said_of = "all strides but the innermost of whole";
            said.push(format!(
                "{said_of} {align} bytes, where the sizes have them"
            ));
        }
        if let Some(run) = self.min_run {
            said.push(format!(
                "{run} bytes or more innermost, where the sizes have them"
            ));
        }
        said
    }

    fn has_run(&self) -> bool {
        self.innermost.is_some() || self.align.is_some() || self.min_run.is_some()
    }
}

impl Alternative {
    /// Returns whether it states the end of a port, in bytes or by a role, or applies to some widths only.
    #[must_use]
    pub fn has_runs(&self) -> bool {
        let of_ports = [&self.left, &self.right, &self.result];
        !self.bits.is_empty() || of_ports.iter().any(|rule| rule.has_run())
    }

    /// A contradiction in its runs.
    pub(crate) fn fault_of_runs(&self) -> Option<String> {
        let ports = [&self.left, &self.right, &self.result];
        let widths_alone = self.ends_by_port() && !ports.iter().any(|rule| rule.has_run());
        if !self.has_runs() || widths_alone {
            return None;
        }
        if self.shares_all() || !self.shares(PortRole::K) {
            let fault = "asks for runs of ports or for widths, which are read of contractions: wants `share = [\"k\"]`";
            return Some(fault.to_owned());
        }
        let ports = [
            (&self.left, PortRole::N),
            (&self.right, PortRole::M),
            (&self.result, PortRole::K),
        ];
        ports
            .into_iter()
            .find_map(|(rule, lacks)| self.fault_of_run(rule, lacks))
    }

    /// A contradiction in the runs of one port, which lacks dimensions of one role.
    fn fault_of_run(&self, rule: &PortRule, lacks: PortRole) -> Option<String> {
        if rule.align.is_some_and(|n| !n.is_power_of_two()) || rule.min_run == Some(0) {
            let fault = "wants an `align` of a power of two of bytes, a `min_run` of at least one";
            return Some(fault.to_owned());
        }
        let innermost = rule.innermost.as_ref()?;
        if innermost.is_empty() {
            return Some("has `innermost` without a role".to_owned());
        }
        if innermost.contains(&lacks) {
            let role = lacks.name();
            return Some(format!("has `{role}` innermost in a port that has none"));
        }
        let never = innermost
            .iter()
            .find(|role| self.not_innermost.contains(role))?;
        let role = never.name();
        Some(format!("has `{role}` innermost and `not_innermost`"))
    }
}

impl Row {
    /// The defect of an alternative for a width that an earlier one covers, or of a missing alternative for widths that
    /// none names.
    pub(crate) fn fault_of_widths(&self) -> Option<String> {
        let taken = self.take.iter().enumerate();
        let read: Vec<(usize, &Alternative)> = taken
            .filter(|(_, a)| a.refused.is_none() && a.shares(PortRole::K) && !a.shares_all())
            .collect();
        if !read.iter().any(|(_, a)| a.has_runs()) {
            return None;
        }
        let both = |a: &Alternative, b: &Alternative| {
            let same = b.bits.iter().any(|width| a.bits.contains(width));
            a.when == b.when && (a.bits.is_empty() || same)
        };
        let again = read.iter().enumerate().find_map(|(at, (j, later))| {
            let (i, _) = read[..at].iter().find(|(_, a)| both(a, later))?;
            let (i, j) = (i + 1, j + 1);
            Some(format!(
                "alternative {j}: is for elements that alternative {i} takes already"
            ))
        });
        let all = read.iter().any(|(_, a)| a.bits.is_empty());
        let none = "has alternatives for some widths of elements, and none for the others";
        again.or_else(|| (!all).then(|| none.to_owned()))
    }
}
