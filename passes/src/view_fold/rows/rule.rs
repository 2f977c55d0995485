//! Alternatives of a row, read for the ports of one operation.
//!
//! Example: `{ share = "all", run = 32 }` becomes a rule with `shares_all` and a `run` of 32.

use optc_layout::Mode;
use optc_target::{Alternative, PortRole, PortRule, Price, Share, When};

/// An alternative of a row, as it is read on a machine without tiles. Without any condition it takes every layout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OrderRule {
    /// Every port is row-major.
    pub(crate) logical: bool,
    /// All ports have the digits of all labels in one sequence.
    pub(crate) shares_all: bool,
    /// Roles whose digits are in one sequence at all ports that have them.
    pub(crate) shared: Vec<PortRole>,
    /// The least innermost run of one dimension, in elements; it is padded up to this.
    pub(crate) run: Option<u64>,
    /// Blocks of this many elements along the last dimension. The other dimensions are whole.
    pub(crate) block: Option<u64>,
    /// The ends that ports may have.
    pub(crate) ends: Option<Ends>,
    /// Roles whose digits are one run.
    pub(crate) one_run: Vec<PortRole>,
    /// The least bits of the innermost run of a port where these digits may be several runs.
    pub(crate) several_runs: Option<u64>,
    /// Roles that may not stand innermost, unless the port has no other.
    pub(crate) not_innermost: Vec<PortRole>,
    /// Demands on the innermost run, an entry a port. Empty where there are none.
    pub(crate) runs: Vec<PortRun>,
    /// The place of the channels of a window's data and result.
    pub(crate) channels: Option<Channels>,
    /// The operation reads its data in patches and writes its result in any order.
    pub(crate) patches: bool,
    /// The price of the alternative.
    pub(crate) price: Option<Price>,
}

/// The place of the channels of a window operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Channels {
    /// The layout is row-major.
    First,
    /// Behind the spatial dimensions.
    Last,
}

/// Role runs that the ports of an operation may end in by one alternative.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    /// Per port, lists of roles. Empty where the alternative says nothing of the port.
    pub(crate) ports: Vec<Vec<Vec<PortRole>>>,
    /// The least elements of a run that has only part of its role.
    pub(crate) least: u64,
    /// Roles that must be in their run as a whole.
    pub(crate) whole: Vec<PortRole>,
    /// True if nothing stands before the runs.
    pub(crate) alone: bool,
}

/// Demands of a row on the innermost run of one port, in bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortRun {
    /// Roles that may stand innermost; `None` for any.
    pub(crate) innermost: Option<Vec<PortRole>>,
    pub(crate) align: u64,
    pub(crate) least: u64,
}

impl OrderRule {
    /// The alternative of an operation of which nothing is known, or whose family has no row.
    pub(crate) fn logical() -> OrderRule {
        OrderRule {
            logical: true,
            ..OrderRule::default()
        }
    }

    /// Returns whether it takes every layout.
    pub(crate) fn is_any(&self) -> bool {
        *self == OrderRule::default()
    }

    /// The elements of a run or block, up to which ports are padded.
    pub(crate) fn padded_to(&self) -> Option<u64> {
        self.run.or(self.block)
    }

    /// Reads an alternative for an operation with these numbers of ports and of operands. On a machine with tiles, whose
    /// programs of unknown sizes lie without them, nothing has a price.
    pub(crate) fn of(a: &Alternative, ports: (usize, usize), is_tiled: bool) -> OrderRule {
        let bits = |bytes: u64| bytes.saturating_mul(8);
        OrderRule {
            logical: a.order.is_some(),
            shares_all: a.shares_all(),
            shared: match &a.share {
                Some(Share::Roles(roles)) => roles.clone(),
                Some(Share::All(_)) | None => Vec::new(),
            },
            run: a.run,
            block: a.block,
            ends: ends_of(a, ports),
            one_run: a.one_run.clone(),
            several_runs: a.several_runs.map(bits),
            not_innermost: a.not_innermost.clone(),
            runs: runs_of(a, ports),
            channels: match a.sequence.last() {
                Some(PortRole::Channel) => Some(Channels::Last),
                Some(_) => Some(Channels::First),
                None => None,
            },
            patches: a.when == Some(When::Patches),
            price: a.price.filter(|_| !is_tiled),
        }
    }
}

fn ends_of(a: &Alternative, (n_ports, n_operands): (usize, usize)) -> Option<Ends> {
    let ports: Vec<_> = (0..n_ports)
        .map(
            |port| match a.ends_by_port() && 2 <= port && port < n_operands {
                true => Vec::new(),
                false => a.port(port, n_operands).ends,
            },
        )
        .collect();
    let listed = ports.iter().any(|ends| !ends.is_empty());
    listed.then(|| Ends {
        ports,
        least: a.least.unwrap_or(1),
        whole: a.whole.clone(),
        alone: a.alone,
    })
}

/// Demands of an alternative on the runs of ports: an entry a port, empty where it demands nothing.
fn runs_of(a: &Alternative, (n_ports, n_operands): (usize, usize)) -> Vec<PortRun> {
    if !a.has_runs() {
        return Vec::new();
    }
    let bits = |bytes: Option<u64>| bytes.map_or(1, |n| n.saturating_mul(8));
    let port = |port: usize| {
        let rule = match 2 <= port && port < n_operands {
            true => PortRule::default(),
            false => a.port(port, n_operands),
        };
        PortRun {
            innermost: rule.innermost,
            align: bits(rule.align),
            least: bits(rule.min_run),
        }
    };
    (0..n_ports).map(port).collect()
}

/// Returns whether nothing is padded.
pub(crate) fn is_unpadded(modes: &[Mode]) -> bool {
    modes.iter().all(|p| p.extent == p.count)
}
