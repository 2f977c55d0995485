//! Rows of a target, compiled for one operation.
//!
//! A target file lists the alternatives of a row in the words of roles. [`OrderRule`] is such an alternative, read for
//! the ports of one operation on a machine without tiles. Each fact of it is one condition, and an alternative takes
//! what satisfies all of them. The search and the bound ask these questions:
//!
//! - [`takes_layout`]: is a layout taken at a port, in some form?
//! - [`side`]: which layouts of another port go with this one?
//! - [`Compiled::takes`]: are these layouts of all ports taken, and at what price?
//! - [`default_layout`], [`listed`], [`channel_orders`]: which layouts are tried?
//!
//! The checker of certificates (`optc_check::check_target`) reads the target file on its own. A test compares both on
//! random layouts.
//!
//! Example: `{ share = ["k"], one_run = ["k"], not_innermost = ["batch"] }` takes the orders `batch m k` and `m batch
//! k` of the left operand of a matmul. It refuses `k0 m k1`, as K is in two runs.

mod compiled;
mod contract;
mod port;
mod together;
mod window;

pub use compiled::Compiled;
pub(crate) use port::{accepts_layout, default_layout, listed, takes_at, takes_layout};
pub(crate) use together::{Side, is_over_axes, related, shared, side};
pub(crate) use window::{channel_orders, contracts_patches, contracts_pixels};

use super::signature::Signature;
use optc_ir::FreedomClass;
use optc_target::{Alternative, PortRole, Price, Row, Share, Slower, Target, When};

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

    fn of(a: &Alternative, sig: &Signature, target: &Target) -> OrderRule {
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
            ends: ends_of(a, sig),
            one_run: a.one_run.clone(),
            several_runs: a.several_runs.map(bits),
            not_innermost: a.not_innermost.clone(),
            runs: runs_of(a, sig),
            channels: match a.sequence.last() {
                Some(PortRole::Channel) => Some(Channels::Last),
                Some(_) => Some(Channels::First),
                None => None,
            },
            patches: a.when == Some(When::Patches),
            price: a.price.filter(|_| !target.is_tiled()),
        }
    }
}

/// The alternatives of a row that an operation has on a machine without tiles; at least one.
pub(crate) fn read(row: Option<&Row>, sig: &Signature, target: &Target) -> Vec<OrderRule> {
    let row = row.filter(|_| sig.freedom.class != FreedomClass::Barrier);
    let alternatives = row.map_or_else(Vec::new, |row| alternatives(row, sig));
    let mut rules: Vec<OrderRule> = Vec::new();
    for a in alternatives {
        let rule = OrderRule::of(a, sig, target);
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    if rules.is_empty() {
        rules.push(OrderRule::logical());
    }
    rules
}

fn alternatives<'r>(row: &'r Row, sig: &Signature) -> Vec<&'r Alternative> {
    let untiled = |a: &&Alternative| a.when == Some(When::Untiled);
    let mut all: Vec<&Alternative> = row.taken().filter(untiled).collect();
    if all.is_empty() {
        all = row.taken().collect();
    }
    let n_results = sig.n_ports().saturating_sub(sig.n_operands);
    all.retain(|a| untiled(a) || sig.is_of(a.when));
    all.retain(|a| a.is_for(sig.n_operands, n_results));
    all.retain(|a| a.bits.is_empty() || sig.bits.first().is_some_and(|n| a.bits.contains(n)));
    // A window operation that mixes channels alone is a contraction wherever its row lists the place of channels.
    let contraction = sig.freedom.class == FreedomClass::Contract;
    let contracts =
        |a: &Alternative| a.ends_by_port() || (a.shares(PortRole::K) && !a.shares_all());
    all.retain(|a| contraction || !contracts(a));
    all
}

fn ends_of(a: &Alternative, sig: &Signature) -> Option<Ends> {
    let ports: Vec<_> = (0..sig.n_ports())
        .map(
            |port| match a.ends_by_port() && 2 <= port && port < sig.n_operands {
                true => Vec::new(),
                false => a.port(port, sig.n_operands).ends,
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
fn runs_of(a: &Alternative, sig: &Signature) -> Vec<PortRun> {
    if !a.has_runs() {
        return Vec::new();
    }
    let bits = |bytes: Option<u64>| bytes.map_or(1, |n| n.saturating_mul(8));
    let port = |port: usize| {
        let rule = match 2 <= port && port < sig.n_operands {
            true => optc_target::PortRule::default(),
            false => a.port(port, sig.n_operands),
        };
        PortRun {
            innermost: rule.innermost,
            align: bits(rule.align),
            least: bits(rule.min_run),
        }
    };
    (0..sig.n_ports()).map(port).collect()
}

/// Orders of single ports in which the operation takes longer.
pub(crate) fn slower_of(row: &Row, sig: &Signature) -> Vec<Slower> {
    let is_of = |slower: &&Slower| {
        let port = slower.port.index(sig.n_operands);
        let priced = slower.factor.thousandths() != 0 && port < sig.n_ports();
        priced && sig.is_of(slower.when)
    };
    row.slower.iter().filter(is_of).cloned().collect()
}
