//! Signatures: the facts that the search has about an operation, shared by all operations that look alike.
//!
//! A signature is the layout freedom that an operation declares, the rule of the target for its family, and the shapes
//! at its ports.
//!
//! Example: `relu` and `exp` of `tensor<4x6xf32>` are both of the family `elementwise`, with the same freedom and the
//! same shapes. They have one signature, so their forms are found once.

use super::layouts::{LayoutId, Layouts};
use super::maps::FastSet;
use super::over::Over;
use super::physical::Place;
use super::rows::OrderRule;
use optc_ir::entity_id;
use optc_ir::{Freedom, FreedomClass, Func, Op, Role};
use optc_layout::{Mode, Pick};
use optc_ops::Dequantized;
use optc_target::{Alternative, PortRole, Price, Row, Slower, Target, When};

entity_id! {
    /// A signature.
    SignatureId, "s"
}

/// The elements that an operation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Elements {
    /// The first operand has floats.
    Floats,
    /// As [`Elements::Floats`], and the first two operands were dequantized.
    Dequantized,
    /// The first operand has no floats.
    Others,
}

impl Elements {
    pub(crate) fn of(func: &Func, op: Op, dequantized: &Dequantized) -> Elements {
        let data = &func.ops[op];
        let first = data.operands.iter().chain(&data.results).next();
        match first.and_then(|&v| func.ty(v).as_tensor()) {
            Some(ty) if !ty.dtype.is_float() => Elements::Others,
            None => Elements::Others,
            Some(_) if dequantized.multiplied_by(func, op) => Elements::Dequantized,
            Some(_) => Elements::Floats,
        }
    }
}

/// The facts that the search has about an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The family, as the operation declares it.
    pub family: &'static str,
    /// The elements that it reads.
    pub(crate) elements: Elements,
    /// The declared freedom.
    pub freedom: Freedom,
    /// On a target where values are row-major: the operation, asked which permutations of its axes leave it the same
    /// operation. `None` for an operation that takes every order.
    pub(crate) over: Option<Over>,
    /// Extents at each port, operands before results.
    pub shapes: Vec<Vec<u64>>,
    /// Element width in bits at each port.
    pub bits: Vec<u32>,
    /// The number of ports that are operands.
    pub n_operands: usize,
    /// For a call and an operation that runs functions: the fixed layout at each port. Empty for others.
    pub(crate) declared: Vec<LayoutId>,
    /// The port with the most labels. A common order is spelled by its labels.
    pub(crate) fullest: usize,
    /// Ports with labels that the fullest port lacks. Example: the operand of a gather, along its axis.
    pub(crate) besides: Vec<usize>,
    /// True if each label has one extent at all ports that have it.
    pub(crate) is_even: bool,
    /// For an operation of very many ports in one order, the largest port. It receives every order first and hands it
    /// on to the others.
    pub(crate) hub: Option<usize>,
    /// For a contraction: the labels of K in the order that its operands have by default.
    pub reference_k: Vec<usize>,
    /// The alternatives of the row, as they are read on a machine without tiles; at least one.
    pub(crate) orders: Vec<OrderRule>,
    /// Orders of single ports that cost something, on a machine without tiles.
    pub(crate) slower: Vec<Slower>,
    /// The alternatives of the row, on a machine with tiles; else empty.
    pub(crate) tiles: Vec<TileRule>,
    /// On a machine with tiles: the ports that may be parts of other ports in place.
    pub(crate) cuts: Vec<Cut>,
    /// For a machine whose tiles are lines of lanes, beside values without tiles: the elements that the innermost run
    /// of such a value has by default.
    pub(crate) lines: Option<u64>,
}

/// A port that may be a part of another port in place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cut {
    /// The port that is a part.
    pub(crate) part: usize,
    /// The port that it is a part of.
    pub(crate) whole: usize,
    /// The index along each dimension of the whole.
    pub(crate) picks: Vec<Pick>,
    /// Bytes read plus written if the part is copied.
    pub(crate) bytes: u64,
    /// True if the value at the port cannot lie in another one, but a conversion of it can: it is an argument, another
    /// operation joins it, or its writer or a reader takes no parts.
    pub(crate) given: bool,
}

/// An alternative of a row, as it is read on a machine with tiles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TileRule {
    /// All ports have one order of digits and one tile.
    pub(crate) shares_all: bool,
    /// All ports have the default layout.
    pub(crate) logical: bool,
    /// The least innermost run of one dimension, in elements.
    pub(crate) run: u64,
    /// Ports need not agree on the digits in the tile.
    pub(crate) independent: bool,
    /// Rows and lanes have different roles.
    pub(crate) distinct: bool,
    /// Per port, the roles in its lanes and in its rows. `None` where any role may be there.
    pub(crate) ports: Vec<[Option<Vec<PortRole>>; 2]>,
    /// The result is written in any layout.
    pub(crate) writes_any: bool,
    /// The price of the alternative.
    pub(crate) price: Option<Price>,
}

impl TileRule {
    /// An alternative that takes everything, at each port independently.
    pub(crate) fn any() -> TileRule {
        TileRule {
            shares_all: false,
            logical: false,
            run: 1,
            independent: true,
            distinct: false,
            ports: Vec::new(),
            writes_any: false,
            price: None,
        }
    }

    /// Returns whether the alternative takes everything.
    pub(crate) fn is_any(&self) -> bool {
        !self.shares_all && !self.logical && self.independent
    }

    /// Returns whether it takes tiles by the roles of dimensions.
    pub(crate) fn is_by_roles(&self) -> bool {
        !self.shares_all && !self.logical && !self.independent
    }
}

/// One digit of an order in terms of labels: `count` values of `label / div`, on `extent` positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LabelDigit {
    pub(crate) label: usize,
    pub(crate) div: u64,
    pub(crate) extent: u64,
    /// The place in a tile. On a machine without tiles all digits are in the grid.
    pub(crate) place: Place,
}

impl LabelDigit {
    /// A digit in the grid.
    pub(crate) fn in_grid(label: usize, div: u64, extent: u64) -> LabelDigit {
        LabelDigit {
            label,
            div,
            extent,
            place: Place::Grid,
        }
    }
}

/// An order of labels, major to minor.
pub(crate) type LabelOrder = Vec<LabelDigit>;

impl Signature {
    pub(crate) fn new(
        (family, elements): (&'static str, Elements),
        freedom: Freedom,
        shapes: Vec<Vec<u64>>,
        bits: Vec<u32>,
        n_operands: usize,
        declared: Vec<LayoutId>,
        target: &Target,
    ) -> Signature {
        let mut signature = Signature {
            family,
            elements,
            freedom,
            over: None,
            shapes,
            bits,
            n_operands,
            declared,
            reference_k: Vec::new(),
            orders: Vec::new(),
            slower: Vec::new(),
            tiles: Vec::new(),
            cuts: Vec::new(),
            lines: None,
            fullest: 0,
            besides: Vec::new(),
            is_even: false,
            hub: None,
        };
        signature.reference_k = signature.default_k();
        let row = target.row(family);
        signature.orders = read(row, &signature, target);
        let barrier = signature.freedom.class == FreedomClass::Barrier;
        if let Some(row) = row.filter(|_| !barrier && !target.is_tiled()) {
            signature.slower = slower_of(row, &signature);
        }
        signature.fullest = fullest_port(&signature);
        signature.besides = besides(&signature);
        signature.is_even = is_even(&signature);
        signature.hub = hub(&signature);
        signature
    }

    /// Makes the operation a move into another memory space. It reads and writes any layouts at one price.
    pub(crate) fn move_between_spaces(&mut self) {
        self.tiles = vec![TileRule::any()];
    }

    /// Returns whether the operation is a move into another memory space.
    pub(crate) fn is_move(&self) -> bool {
        self.freedom.class == FreedomClass::Barrier && self.tiles.iter().any(TileRule::is_any)
    }

    /// Reads the row for a machine with tiles.
    pub(crate) fn read_tiles(&mut self, target: &Target) {
        let logical = TileRule {
            logical: true,
            independent: false,
            ..TileRule::any()
        };
        let barrier = self.freedom.class == FreedomClass::Barrier;
        let all_plain = || self.bits.iter().map(|&bits| target.plain(bits));
        self.lines = all_plain()
            .collect::<Option<Vec<u64>>>()
            .and_then(|all| all.into_iter().max());
        let row = target.row(self.family).filter(|_| !barrier);
        let Some(row) = row else {
            self.tiles = vec![logical];
            return;
        };
        let read = |a: &Alternative| {
            if a.order.is_some() {
                return logical.clone();
            }
            let port = |port| {
                let rule = a.port(port, self.n_operands);
                [rule.lanes, rule.rows]
            };
            TileRule {
                shares_all: a.shares_all(),
                logical: false,
                run: a.run.unwrap_or(1),
                independent: a.independent || a.is_free(),
                distinct: a.distinct,
                // An order that all ports share is asked port by port only where roles are listed.
                ports: match a.shares_all() && !a.lists_roles() {
                    true => Vec::new(),
                    false => (0..self.n_ports()).map(port).collect(),
                },
                writes_any: a.writes.is_some(),
                price: a.price,
            }
        };
        let n_results = self.n_ports().saturating_sub(self.n_operands);
        let taken = row.taken().filter(|a| self.is_of(a.when));
        let taken = taken.filter(|a| a.is_for(self.n_operands, n_results));
        self.tiles = taken.map(read).collect();
        if self.tiles.is_empty() {
            self.tiles = vec![logical];
        }
        self.hub = hub(self);
    }

    /// Returns whether the row has been read for a machine with tiles.
    pub(crate) fn is_tiled(&self) -> bool {
        !self.tiles.is_empty()
    }

    /// Returns whether ports take tiles by their roles, on a machine with tiles.
    pub(crate) fn takes_roles(&self) -> bool {
        self.tiles.iter().any(TileRule::is_by_roles)
    }

    /// Returns whether an alternative that the operation takes has a price, or writes any layout.
    pub(crate) fn has_prices(&self) -> bool {
        let mut rules = self.tiles.iter();
        let tiled = rules.any(|rule| rule.price.is_some() || rule.writes_any);
        !self.cuts.is_empty() || tiled || self.has_order_prices()
    }

    /// Returns whether an order has a price, on a machine without tiles.
    pub(crate) fn has_order_prices(&self) -> bool {
        self.prices_orders() || !self.slower.is_empty()
    }

    /// Returns whether an alternative of one order costs something, on a machine without tiles.
    pub(crate) fn prices_orders(&self) -> bool {
        self.is_common_order() && self.orders.iter().any(|rule| rule.price.is_some())
    }

    /// Returns whether each alternative lists the ends of orders, on a machine without tiles.
    pub(crate) fn lists_ends(&self) -> bool {
        !self.is_tiled() && self.orders.iter().all(|rule| rule.ends.is_some())
    }

    /// Returns whether some alternative is so, on a machine without tiles.
    pub(crate) fn has_order(&self, is_so: fn(&OrderRule) -> bool) -> bool {
        !self.is_tiled() && self.orders.iter().any(is_so)
    }

    /// The role of a label, in the words of rows.
    pub(crate) fn port_role(&self, label: usize) -> PortRole {
        match self.freedom.class {
            FreedomClass::Contract => match self.contract_role(label) {
                ContractRole::Batch => PortRole::Batch,
                ContractRole::M => PortRole::M,
                ContractRole::N => PortRole::N,
                ContractRole::K => PortRole::K,
                ContractRole::Other => PortRole::Parallel,
            },
            FreedomClass::Window => {
                let (data, result) = (
                    self.has_label(0, label),
                    self.has_label(self.n_operands, label),
                );
                match (self.freedom.labels[label].role, data, result) {
                    (Role::Batch, ..) => PortRole::Batch,
                    (Role::Spatial, ..) => PortRole::Spatial,
                    (Role::Channel, true, false) => PortRole::Input,
                    (Role::Channel, false, true) => PortRole::Output,
                    (Role::Channel, true, true) => PortRole::Channel,
                    (Role::Channel, false, false) => PortRole::Input,
                    (Role::Axis | Role::Parallel, ..) => PortRole::Tap,
                }
            }
            _ => match self.freedom.labels[label].role {
                Role::Axis => PortRole::Axis,
                Role::Batch => PortRole::Batch,
                Role::Channel => PortRole::Channel,
                Role::Spatial => PortRole::Spatial,
                Role::Parallel => PortRole::Parallel,
            },
        }
    }

    /// The order of K at the first operand that has K in one run in row-major, else at the first operand.
    fn default_k(&self) -> Vec<usize> {
        if self.freedom.class != FreedomClass::Contract {
            return Vec::new();
        }
        let is_k = |label: &usize| self.contract_role(*label) == ContractRole::K;
        let of = |port: usize| -> Vec<usize> {
            self.labels(port)
                .iter()
                .flatten()
                .copied()
                .filter(is_k)
                .collect()
        };
        let one_run = |port: &usize| {
            let dims = self.labels(*port).iter().zip(&self.shapes[*port]);
            let long: Vec<bool> = dims
                .filter(|(_, n)| 1 < **n)
                .map(|(label, _)| label.is_some_and(|l| is_k(&l)))
                .collect();
            long.windows(2).filter(|w| !w[0] && w[1]).count()
                + usize::from(long.first() == Some(&true))
                <= 1
        };
        let ports = 0..self.n_operands.min(2);
        ports
            .clone()
            .find(one_run)
            .or(ports.clone().next())
            .map_or_else(Vec::new, of)
    }

    /// The first port whose last dimension has an unknown size that the target pads, and the number of elements that it
    /// pads to.
    pub(crate) fn padded_unknown(&self, layouts: &Layouts) -> Option<(usize, u64)> {
        let rule = self.orders.first()?;
        let least = rule.padded_to()?;
        let known = |shape: &Vec<u64>| match shape.last() {
            Some(&last) if rule.run.is_some() => {
                !layouts.is_unknown(last) || layouts.is_at_least(last, least)
            }
            Some(&last) => last.is_multiple_of(least) || !layouts.is_unknown(last),
            None => true,
        };
        let port = self.shapes.iter().position(|shape| !known(shape))?;
        Some((port, least))
    }

    /// The labels at a port, one a dimension.
    #[must_use]
    pub fn labels(&self, port: usize) -> &[Option<usize>] {
        let (operands, results) = (&self.freedom.operands, &self.freedom.results);
        let at = if port < self.n_operands {
            operands.get(port)
        } else {
            results.get(port - self.n_operands)
        };
        at.map_or(&[], Vec::as_slice)
    }

    /// The labels of a port that have several elements there, with their numbers of elements.
    pub(crate) fn long_labels(&self, port: usize) -> impl Iterator<Item = (usize, u64)> {
        let dims = self.labels(port).iter().zip(&self.shapes[port]);
        dims.filter_map(|(label, &n)| Some(((*label)?, n)))
            .filter(|(_, n)| 1 < *n)
    }

    /// The elements at a port; 2^64 - 1 where there are more.
    pub(crate) fn elements(&self, port: usize) -> u64 {
        let sizes = self.shapes[port].iter();
        sizes.fold(1, |n: u64, &size| n.saturating_mul(size))
    }

    /// The number of ports.
    #[must_use]
    pub fn n_ports(&self) -> usize {
        self.shapes.len()
    }

    pub(crate) fn has_label(&self, port: usize, label: usize) -> bool {
        self.labels(port).contains(&Some(label))
    }

    /// The label of a dimension of a port.
    pub(crate) fn label(&self, port: usize, dim: usize) -> Option<usize> {
        self.labels(port).get(dim).copied().flatten()
    }

    /// The dimension of a port that has a label.
    pub(crate) fn dim_of(&self, port: usize, label: usize) -> Option<usize> {
        self.labels(port).iter().position(|l| *l == Some(label))
    }

    /// The size of a label at a port.
    pub(crate) fn extent(&self, port: usize, label: usize) -> Option<u64> {
        let dim = self.dim_of(port, label)?;
        self.shapes[port].get(dim).copied()
    }

    /// A digit of a port in terms of labels; `None` if its dimension has none.
    pub(crate) fn label_digit(&self, port: usize, mode: &Mode) -> Option<LabelDigit> {
        let label = self.label(port, mode.dim)?;
        Some(LabelDigit::in_grid(label, mode.div, mode.extent))
    }

    /// The role of a label in a contraction.
    pub(crate) fn contract_role(&self, label: usize) -> ContractRole {
        let (a, b) = (self.has_label(0, label), self.has_label(1, label));
        let c = self.has_label(self.n_operands, label);
        match (a, b, c) {
            (true, true, true) => ContractRole::Batch,
            (true, true, false) => ContractRole::K,
            (true, false, _) => ContractRole::M,
            (false, true, _) => ContractRole::N,
            (false, false, _) => ContractRole::Other,
        }
    }

    /// Returns whether all ports share one order, rather than each port having a rule of its own.
    pub(crate) fn is_common_order(&self) -> bool {
        let shared = match self.is_tiled() {
            true => self.tiles.iter().any(|rule| rule.shares_all),
            false => self.orders.iter().any(|rule| rule.shares_all),
        };
        let whole = match self.freedom.class {
            FreedomClass::Ordered => true,
            FreedomClass::Window => !self.is_tiled(),
            _ => false,
        };
        whole && shared
    }

    /// The groups of a convolution that only mixes channels within each group: every kernel extent is 1 and the spatial
    /// extents stay. `None` for any other operation.
    pub(crate) fn pointwise_groups(&self) -> Option<u64> {
        if self.freedom.class != FreedomClass::Window || self.n_operands < 2 {
            return None;
        }
        let result = self.n_operands;
        let kernel = self.shapes[1].get(2..)?;
        let spatial = |port: usize| -> Vec<u64> {
            let dims = self.labels(port).iter().zip(&self.shapes[port]);
            dims.filter(|(l, _)| self.is_role(**l, Role::Spatial))
                .map(|(_, &n)| n)
                .collect()
        };
        if kernel.iter().any(|&k| k != 1) || spatial(0) != spatial(result) {
            return None;
        }
        let second_of = |port: usize| Some((self.shapes[port].get(1)?, *self.labels(port).get(1)?));
        let ((&input, channel), (&output, label)) = (second_of(0)?, second_of(result)?);
        let (&inside, _) = second_of(1)?;
        let straight =
            self.labels(1).first() == Some(&label) && self.is_role(channel, Role::Channel);
        if !straight || inside == 0 || !input.is_multiple_of(inside) {
            return None;
        }
        let groups = input / inside;
        let whole = self.shapes[1][0] == output && groups != 0 && output.is_multiple_of(groups);
        whole.then_some(groups)
    }

    /// Returns whether this is a convolution that only mixes channels.
    pub(crate) fn is_pointwise_conv(&self) -> bool {
        self.pointwise_groups().is_some()
    }

    /// Returns whether this is one of the operations that an alternative is for.
    fn is_of(&self, when: Option<When>) -> bool {
        match when {
            Some(When::Pointwise) => self.is_pointwise_conv(),
            Some(When::Depthwise) => self.freedom.is_depthwise(),
            Some(When::Mixing) => !self.freedom.is_depthwise(),
            Some(When::Patches) => self.reads_once() && !self.is_pointwise_conv(),
            Some(When::Floats) => self.elements != Elements::Others,
            Some(When::Unquantized) => self.elements == Elements::Floats,
            Some(When::Matrices) => self.is_of_matrices(),
            Some(When::Untiled) => false,
            None => true,
        }
    }

    /// Returns whether this is a contraction of which neither operand is a vector beside the batch.
    fn is_of_matrices(&self) -> bool {
        let has = |port: usize, role: PortRole| {
            let mut long = self.long_labels(port);
            long.any(|(label, _)| self.port_role(label) == role)
        };
        let contracts = self.freedom.class == FreedomClass::Contract && 2 <= self.n_operands;
        contracts && has(0, PortRole::M) && has(1, PortRole::N)
    }

    /// Returns whether this is a convolution of one group that reads each position of its data once.
    pub(crate) fn reads_once(&self) -> bool {
        if self.freedom.class != FreedomClass::Window || self.n_operands < 2 {
            return false;
        }
        let (data, weights) = (&self.shapes[0], &self.shapes[1]);
        let Some(result) = self.shapes.get(self.n_operands) else {
            return false;
        };
        let rank = data.len();
        if rank < 3 || weights.len() != rank || result.len() != rank {
            return false;
        }
        let of_result = |port: usize| self.labels(port).get(usize::from(port != 1)).copied();
        let straight = of_result(1).is_some() && of_result(1) == of_result(self.n_operands);
        let once = |d: usize| result[d].checked_mul(weights[d]) == Some(data[d]);
        straight && data[1] == weights[1] && result[1] == weights[0] && (2..rank).all(once)
    }

    /// The digits of a port of a pointwise convolution, with the grouped channels cut into digits within one group and
    /// digits across groups. At the weights the grouped channels are the outputs. Digits across groups are marked
    /// `true`. `None` where a digit cannot be cut at the size of a group.
    pub(crate) fn grouped_digits(&self, port: usize, digits: &[Mode]) -> Option<Vec<(Mode, bool)>> {
        let groups = self.pointwise_groups()?;
        let channels = usize::from(port != 1);
        let inner = self.shapes[port].get(channels)? / groups.max(1);
        let mut out = Vec::with_capacity(digits.len() + 1);
        for mode in digits {
            if mode.dim != channels || groups == 1 {
                out.push((*mode, false));
                continue;
            }
            let end = mode.div.checked_mul(mode.extent)?;
            if inner <= mode.div {
                if !mode.div.is_multiple_of(inner) {
                    return None;
                }
                out.push((*mode, true));
            } else if end <= inner {
                if !inner.is_multiple_of(end) {
                    return None;
                }
                out.push((*mode, false));
            } else {
                if !inner.is_multiple_of(mode.div) || !end.is_multiple_of(inner) {
                    return None;
                }
                let (low, high) = (inner / mode.div, end / inner);
                let outer = Mode {
                    div: inner,
                    count: high,
                    extent: high,
                    ..*mode
                };
                let inside = Mode {
                    count: low,
                    extent: low,
                    ..*mode
                };
                out.extend([(outer, true), (inside, false)]);
            }
        }
        Some(out)
    }

    /// The digits of K in an order of labels at a port. Digits inside a group at the data have the label of the
    /// weights.
    pub(crate) fn k_digits(&self, port: usize, order: &[LabelDigit]) -> Vec<LabelDigit> {
        let is_k = |d: &&LabelDigit| self.contract_role(d.label) == ContractRole::K;
        let groups = self.pointwise_groups().unwrap_or(1);
        let (channel, label) = match (self.labels(0), self.labels(self.n_operands.min(1))) {
            ([_, Some(channel), ..], [_, label, ..]) if port == 0 && 1 < groups => {
                (*channel, *label)
            }
            // The summed channels of weights are those of one group. The data has the channels of all groups.
            (_, [_, label, ..]) if port == 1 && 1 < groups => {
                let own = order.iter().filter(|d| Some(d.label) == *label);
                return own.copied().collect();
            }
            _ => return order.iter().filter(is_k).copied().collect(),
        };
        let modes: Vec<Mode> = order
            .iter()
            .filter(|d| d.label == channel)
            .map(|d| Mode {
                dim: 1,
                div: d.div,
                count: d.extent,
                extent: d.extent,
            })
            .collect();
        let inside = self.grouped_digits(port, &modes).unwrap_or_default();
        let digit = |(p, across): &(Mode, bool)| {
            let digit = LabelDigit::in_grid(label?, p.div, p.extent);
            (!across && 1 < p.extent).then_some(digit)
        };
        inside.iter().filter_map(digit).collect()
    }

    fn is_role(&self, label: Option<usize>, role: Role) -> bool {
        label.is_some_and(|l| self.freedom.labels[l].role == role)
    }
}

/// Above this number of ports, an order is handed on through one port rather than from each port to each other, which is
/// quadratic in their number.
const MANY_PORTS: usize = 64;

/// The role of a label in a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContractRole {
    Batch,
    M,
    N,
    K,
    Other,
}

/// The alternatives of a row that an operation has on a machine without tiles; at least one.
fn read(row: Option<&Row>, sig: &Signature, target: &Target) -> Vec<OrderRule> {
    let row = row.filter(|_| sig.freedom.class != FreedomClass::Barrier);
    let alternatives = row.map_or_else(Vec::new, |row| alternatives(row, sig));
    let mut rules: Vec<OrderRule> = Vec::new();
    for a in alternatives {
        let rule = OrderRule::of(a, (sig.n_ports(), sig.n_operands), target.is_tiled());
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

/// Orders of single ports in which the operation takes longer.
fn slower_of(row: &Row, sig: &Signature) -> Vec<Slower> {
    let is_of = |slower: &&Slower| {
        let port = slower.port.index(sig.n_operands);
        port < sig.n_ports() && sig.is_of(slower.when)
    };
    row.slower.iter().filter(is_of).cloned().collect()
}

/// The port with the most labels. A common order is spelled by its labels.
fn fullest_port(sig: &Signature) -> usize {
    let long = |port: usize| sig.long_labels(port).count();
    let result = sig.n_operands.min(sig.n_ports().saturating_sub(1));
    (0..sig.n_ports()).fold(
        result,
        |best, port| if long(best) < long(port) { port } else { best },
    )
}

/// Ports with labels that the fullest port lacks.
fn besides(sig: &Signature) -> Vec<usize> {
    let known: FastSet<usize> = sig.labels(sig.fullest).iter().flatten().copied().collect();
    let lacks = |&port: &usize| sig.long_labels(port).any(|(l, _)| !known.contains(&l));
    (0..sig.n_ports()).filter(lacks).collect()
}

/// Returns whether each label has one extent at all ports that have it.
fn is_even(sig: &Signature) -> bool {
    let mut extents: Vec<Option<u64>> = vec![None; sig.freedom.labels.len()];
    (0..sig.n_ports()).all(|port| {
        let mut dims = sig.labels(port).iter().zip(&sig.shapes[port]);
        dims.all(|(label, &n)| {
            let known = label.and_then(|l| extents.get_mut(l));
            known.is_none_or(|known| *known.get_or_insert(n) == n)
        })
    })
}

fn hub(sig: &Signature) -> Option<usize> {
    if sig.n_ports() <= MANY_PORTS || !sig.is_common_order() {
        return None;
    }
    (0..sig.n_ports())
        .rev()
        .max_by_key(|&port| sig.elements(port))
}
