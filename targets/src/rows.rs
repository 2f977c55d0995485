//! Rows: the layouts that the ports of an operation take, as alternatives that a target file lists.
//!
//! For example, `take = [{ share = "all" }]` is a row of element-wise operations: all ports must have their digits in
//! one order. With `{ order = "logical" }` every port must be row-major.

use crate::price::{Price, PricedPort};
use crate::roles::{PortRole, When, either, list};
use crate::slower::Slower;
use serde::Deserialize;
use std::fmt::Write as _;

/// The dimensions whose digits all ports have in one sequence.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Share {
    /// `"all"`: every dimension.
    All(AllWord),
    /// Dimensions of these roles.
    Roles(Vec<PortRole>),
}

/// The word `all`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum AllWord {
    /// `all`.
    All,
}

/// The word `logical`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum LogicalWord {
    /// `logical`.
    Logical,
}

/// The strides that parts of larger values may have.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Parts {
    /// Any stride in every digit. Digits that must be one run must be one in the whole, too. If values lie in tiles, a
    /// part may begin and end inside of a tile; the innermost `run` of an alternative stays together.
    Any,
    /// One piece, except for the batch, which may have any stride.
    Leading,
    /// Whole tiles, which lie anywhere in the whole. The last tile of a dimension may be filled in part.
    Tiles,
}

impl Parts {
    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Parts::Any => "parts of larger values with any strides",
            Parts::Leading => "parts of larger values, in one piece but for the batch",
            Parts::Tiles => "parts of larger values that are whole tiles",
        }
    }
}

/// The word `any`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum AnyWord {
    /// `any`.
    Any,
}

/// The rule of one port, if it differs from the rest of its alternative.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct PortRule {
    /// Roles that may fill the lanes of a tile; the default is any.
    #[serde(default)]
    pub lanes: Option<Vec<PortRole>>,
    /// Roles that may fill the rows of a tile; the default is any.
    #[serde(default)]
    pub rows: Option<Vec<PortRole>>,
    /// Ends that its order may have. Each is a list of roles; one run of each role is last in the order, in this
    /// sequence.
    #[serde(default)]
    pub ends: Vec<Vec<PortRole>>,
    /// Without tiles: roles that may be innermost, if the port has one of them; the default is any.
    #[serde(default)]
    pub innermost: Option<Vec<PortRole>>,
    /// Without tiles: every stride, except that of the innermost run, is a multiple of this many bytes, if the sizes
    /// have such an order.
    #[serde(default)]
    pub align: Option<u64>,
    /// Without tiles: the least bytes of the innermost run, if the sizes have this many.
    #[serde(default)]
    pub min_run: Option<u64>,
}

impl PortRule {
    /// Returns whether the rule states nothing about tiles.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.is_none() && self.rows.is_none()
    }

    /// The layouts of the port, in words; `None` if it takes any.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let said = self.describe();
        (!said.is_empty()).then(|| said.join(", "))
    }

    fn describe(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(lanes) = &self.lanes {
            said.push(format!("{} in the lanes", either(lanes)));
        }
        if let Some(rows) = &self.rows {
            said.push(format!("{} in the rows", either(rows)));
        }
        if !self.ends.is_empty() {
            let all: Vec<String> = self.ends.iter().map(|end| list(end, "then")).collect();
            said.push(format!("ends in {}", all.join(", or ")));
        }
        said.extend(self.describe_run());
        said
    }
}

/// One way in which an operation takes all of its ports at once.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// Its name, for explanations.
    #[serde(default)]
    pub name: Option<String>,
    /// The operations to which it applies; the default is all.
    #[serde(default)]
    pub when: Option<When>,
    /// The generations that have it; the default is all of the target's.
    #[serde(default)]
    pub generations: Option<Vec<String>>,
    /// For a contraction without tiles, of `share` or of `ends` at its ports: widths of an element of the first operand, in
    /// bits; the default is any.
    #[serde(default)]
    pub bits: Vec<u32>,
    /// `logical`: every port is row-major.
    #[serde(default)]
    pub order: Option<LogicalWord>,
    /// Roles, major to minor, at all ports.
    #[serde(default)]
    pub sequence: Vec<PortRole>,
    /// The dimensions whose digits all ports have in one sequence.
    #[serde(default)]
    pub share: Option<Share>,
    /// Roles whose digits are one run.
    #[serde(default)]
    pub one_run: Vec<PortRole>,
    /// These digits may be several runs at a port whose innermost run, of any role, has at least this many bytes.
    #[serde(default)]
    pub several_runs: Option<u64>,
    /// Roles that are not innermost, unless the port has no others.
    #[serde(default)]
    pub not_innermost: Vec<PortRole>,
    /// The least innermost run of one dimension, in elements; it is padded up to this.
    #[serde(default)]
    pub run: Option<u64>,
    /// Ends that the order of every port may have; the digits before them are in one sequence at all ports.
    #[serde(default)]
    pub ends: Vec<Vec<PortRole>>,
    /// The least elements in each run of `ends` that does not have all of its role.
    #[serde(default)]
    pub least: Option<u64>,
    /// Roles that must be entirely in the run of `ends`.
    #[serde(default)]
    pub whole: Vec<PortRole>,
    /// True if no digits are before the runs of `ends`.
    #[serde(default)]
    pub alone: bool,
    /// Blocks of this many elements along the last dimension; the other dimensions are whole.
    #[serde(default)]
    pub block: Option<u64>,
    /// Roles that may fill the lanes at every port.
    #[serde(default)]
    pub lanes: Option<Vec<PortRole>>,
    /// Roles that may fill the rows at every port.
    #[serde(default)]
    pub rows: Option<Vec<PortRole>>,
    /// The rule of the first operand.
    #[serde(default)]
    pub left: PortRule,
    /// The rule of the second operand: the right one of a contraction, the weights of a convolution.
    #[serde(default)]
    pub right: PortRule,
    /// The rule of the results.
    #[serde(default)]
    pub result: PortRule,
    /// True if rows and lanes must have different roles; batch and spatial dimensions count as one role. A port with
    /// two of the roles has both in its tile.
    #[serde(default)]
    pub distinct: bool,
    /// True if digits in the tile may differ between ports.
    #[serde(default)]
    pub independent: bool,
    /// `any`: the only result is written in any layout; the operands follow the alternative.
    #[serde(default)]
    pub writes: Option<AnyWord>,
    /// Its price; the default is none.
    #[serde(default)]
    pub price: Option<Price>,
    /// The reason why it is refused. If values lie in tiles, the roles that it lists must be in no lanes and rows, and
    /// messages state the reason.
    #[serde(default)]
    pub refused: Option<String>,
}

impl Alternative {
    /// The rule of a port; `port` counts operands and then results.
    #[must_use]
    pub fn port(&self, port: usize, n_operands: usize) -> PortRule {
        let own = match port {
            _ if n_operands <= port => &self.result,
            0 => &self.left,
            1 => &self.right,
            _ => &PortRule::default(),
        };
        PortRule {
            lanes: own.lanes.clone().or_else(|| self.lanes.clone()),
            rows: own.rows.clone().or_else(|| self.rows.clone()),
            ends: match own.ends.is_empty() {
                true => self.ends.clone(),
                false => own.ends.clone(),
            },
            innermost: own.innermost.clone(),
            align: own.align,
            min_run: own.min_run,
        }
    }

    /// Returns whether single ports have ends of their own.
    #[must_use]
    pub fn ends_by_port(&self) -> bool {
        let of_ports = [&self.left, &self.right, &self.result];
        of_ports.iter().any(|rule| !rule.ends.is_empty())
    }

    /// Returns whether it applies to operations with these numbers of ports: they must have the priced port, and
    /// exactly one result if it may be written in any layout.
    #[must_use]
    pub fn is_for(&self, n_operands: usize, n_results: usize) -> bool {
        let priced = match self.price.map(|price| price.port) {
            None => true,
            Some(PricedPort::Left) => 1 <= n_operands,
            Some(PricedPort::Right) => 2 <= n_operands,
            Some(PricedPort::Result) => n_results == 1,
        };
        priced && (self.writes.is_none() || n_results == 1)
    }

    /// Returns whether it lists roles for lanes or rows.
    #[must_use]
    pub fn lists_roles(&self) -> bool {
        let of_ports = [&self.left, &self.right, &self.result];
        let all = self.lanes.is_some() || self.rows.is_some();
        all || of_ports.iter().any(|p| !p.is_empty())
    }

    /// Returns whether it states nothing about layouts.
    #[must_use]
    pub fn is_free(&self) -> bool {
        !self.lists_roles() && !self.shares_all()
    }

    /// Returns whether all ports have the digits of all dimensions in one sequence.
    #[must_use]
    pub fn shares_all(&self) -> bool {
        matches!(self.share, Some(Share::All(_)))
    }

    /// Returns whether all ports have the digits of a role in one sequence.
    #[must_use]
    pub fn shares(&self, role: PortRole) -> bool {
        match &self.share {
            Some(Share::All(_)) => true,
            Some(Share::Roles(roles)) => roles.iter().any(|r| r.covers(role)),
            None => false,
        }
    }

    /// The layouts that it takes, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut said = Vec::new();
        if self.order.is_some() {
            said.push("row-major at all ports".to_owned());
        }
        self.describe_orders(&mut said);
        let whole = PortRule {
            lanes: self.lanes.clone(),
            rows: self.rows.clone(),
            ends: self.ends.clone(),
            ..PortRule::default()
        };
        said.extend(whole.describe());
        let ports = [
            ("left", &self.left),
            ("right", &self.right),
            ("result", &self.result),
        ];
        for (name, rule) in ports {
            let of_port = rule.describe();
            if !of_port.is_empty() {
                said.push(format!("{name}: {}", of_port.join(", ")));
            }
        }
        if self.alone {
            said.push("with nothing before these".to_owned());
        }
        if let Some(least) = self.least {
            said.push(format!("of {least} elements or all there are"));
        }
        if !self.whole.is_empty() {
            said.push(format!("all of {}", list(&self.whole, "and")));
        }
        if self.distinct {
            said.push("rows and lanes of different roles".to_owned());
        }
        if self.independent {
            said.push("tiles that need not agree".to_owned());
        }
        if said.is_empty() && self.when != Some(When::Patches) {
            said.push("any layout".to_owned());
        }
        if self.writes.is_some() {
            said.push("the result written in any layout".to_owned());
        }
        said.extend(self.price.map(Price::describe));
        let mut text = said.join("; ");
        if let Some(when) = self.when {
            text = format!("{}: {text}", when.describe());
        }
        if !self.bits.is_empty() {
            let bits: Vec<String> = self.bits.iter().map(u32::to_string).collect();
            text = format!("of elements of {} bits: {text}", bits.join(" or "));
        }
        if let Some(name) = &self.name {
            text = format!("{name} ({text})");
        }
        if let Some(reason) = &self.refused {
            let _ = write!(text, ", refused: {reason}");
        }
        text
    }

    /// Adds what it says of orders, on machines without tiles.
    fn describe_orders(&self, said: &mut Vec<String>) {
        if !self.sequence.is_empty() {
            said.push(format!(
                "{} at all ports, major to minor",
                list(&self.sequence, "then")
            ));
        }
        match &self.share {
            Some(Share::All(_)) => said.push("one order of digits at all ports".to_owned()),
            Some(Share::Roles(roles)) => {
                said.push(format!(
                    "{} in one sequence at all ports that have it",
                    list(roles, "and")
                ));
            }
            None => {}
        }
        if !self.one_run.is_empty() {
            let several = self.several_runs.map(|bytes| {
                format!(", or in several where {bytes} bytes or more of a role are innermost")
            });
            let several = several.unwrap_or_default();
            said.push(format!(
                "{} in one run{several}",
                list(&self.one_run, "and")
            ));
        }
        if !self.not_innermost.is_empty() {
            said.push(format!(
                "{} not innermost",
                list(&self.not_innermost, "and")
            ));
        }
        if let Some(run) = self.run {
            said.push(format!(
                "{run} elements or more of one dimension innermost, padded"
            ));
        }
        if let Some(block) = self.block {
            said.push(format!(
                "blocks of {block} along the last dimension, the others whole"
            ));
        }
    }

    /// A contradiction in its price.
    fn fault_of_price(&self, in_tiles: bool) -> Option<&'static str> {
        let (priced, any) = (self.price.is_some(), self.writes.is_some());
        let patches = self.when == Some(When::Patches);
        if patches {
            let alone = Alternative {
                name: self.name.clone(),
                when: self.when,
                generations: self.generations.clone(),
                writes: self.writes,
                ..Alternative::default()
            };
            return match *self == alone && any && !in_tiles {
                true => None,
                false => {
                    Some("is for `patches`, which says `writes = \"any\"` alone, without tiles")
                }
            };
        }
        if any && !in_tiles {
            return Some("has `writes`, which is read where values lie in tiles, or of `patches`");
        }
        if priced && self.when == Some(When::Untiled) {
            return Some(
                "is for `untiled`, and has a price, which is read on machines without tiles",
            );
        }
        if priced && !in_tiles && !self.shares_all() {
            return Some(
                "has a price without tiles, which is read of one order at all ports: say `share = \"all\"`",
            );
        }
        if priced && self.refused.is_some() {
            return Some("is refused, and has a price");
        }
        if self.refused.is_some() && in_tiles && (!self.lists_roles() || any || self.shares_all()) {
            return Some("is refused, and lists more or less than roles for lanes and rows");
        }
        if priced && self.order.is_some() {
            return Some(
                "has a price and `order = \"logical\"`, which is taken where nothing else is",
            );
        }
        if any && (!self.result.is_empty() || self.order.is_some()) {
            return Some("writes any layout, and says which the result has");
        }
        if priced && self.is_free() {
            return Some("has a price, and says nothing of the layouts that it is the price of");
        }
        if any && self.is_free() {
            return Some("writes any layout, and says nothing of what it reads");
        }
        None
    }

    fn has_ends(&self) -> bool {
        !self.ends.is_empty() || self.ends_by_port()
    }

    /// A contradiction in its ends.
    fn fault_of_ends(&self) -> Option<String> {
        let of_ports = [&self.left, &self.right, &self.result].into_iter();
        let mut all = of_ports.flat_map(|rule| &rule.ends).chain(&self.ends);
        let twice = |end: &Vec<PortRole>| (1..end.len()).any(|i| end[..i].contains(&end[i]));
        if all.any(|end| end.is_empty() || twice(end)) {
            return Some("has `ends` without a role, or with one twice".to_owned());
        }
        if !self.has_ends() && (self.alone || self.least.is_some() || !self.whole.is_empty()) {
            return Some(
                "has `alone`, `least` or `whole`, and no `ends` that they are about".to_owned(),
            );
        }
        if self.ends_by_port() && self.share.is_some() {
            return Some("has `ends` of ports, which say what ports share, and `share`".to_owned());
        }
        (!self.ends.is_empty() && !self.shares_all())
            .then(|| "has `ends` of all ports, which want `share = \"all\"`".to_owned())
    }

    /// A contradiction in the alternative, in words.
    fn fault(&self, tiled: bool) -> Option<String> {
        let in_tiles = tiled && self.when != Some(When::Untiled);
        self.fault_of_tiles(tiled)
            .or_else(|| self.fault_of_price(in_tiles))
            .map(str::to_owned)
            .or_else(|| self.fault_of_ends())
            .or_else(|| self.fault_of_runs())
            .or_else(|| self.fault_of_orders().map(str::to_owned))
            .or_else(|| self.fault_of_roles())
    }

    /// Lanes, rows and roles where no tiles are, or orders where there are.
    fn fault_of_tiles(&self, tiled: bool) -> Option<&'static str> {
        let ports = [&self.left, &self.right, &self.result];
        let of_tiles = self.lanes.is_some()
            || self.rows.is_some()
            || self.distinct
            || self.independent
            || ports.iter().any(|rule| !rule.is_empty());
        let of_orders = !self.sequence.is_empty()
            || matches!(self.share, Some(Share::Roles(_)))
            || !self.one_run.is_empty()
            || !self.not_innermost.is_empty()
            || self.block.is_some()
            || self.has_ends()
            || self.has_runs()
            || (self.run.is_some() && !self.shares_all());
        let untiled = self.when == Some(When::Untiled);
        if of_tiles && (!tiled || untiled) {
            return Some("speaks of lanes and rows where nothing lies in tiles");
        }
        if tiled && of_orders && !untiled {
            return Some(
                "speaks of orders, which are read where there are no tiles: say `when = \"untiled\"`",
            );
        }
        if untiled && !tiled {
            return Some("is for `untiled`, and the target has no formats");
        }
        if of_tiles && self.order.is_some() {
            return Some("says the order at all ports, and lanes and rows too");
        }
        (self.shares_all() && (self.distinct || self.independent)).then_some(
            "has one order at all ports, and `distinct` or `independent`, which are of roles",
        )
    }

    /// A contradiction in its order, runs and blocks.
    fn fault_of_orders(&self) -> Option<&'static str> {
        let says_more = !self.sequence.is_empty()
            || self.share.is_some()
            || !self.one_run.is_empty()
            || self.block.is_some()
            || self.has_ends()
            || self.run.is_some();
        if self.order.is_some() && says_more {
            return Some("has `order = \"logical\"`, which says the whole order, and more of it");
        }
        if self.several_runs.is_some() && self.one_run.is_empty() {
            return Some("has `several_runs`, and no `one_run` that may be several");
        }
        if self.several_runs == Some(0) {
            return Some("wants `several_runs` of at least 1 byte");
        }
        if self.block.is_some() && (self.run.is_some() || !self.sequence.is_empty()) {
            return Some("has `block` with `run` or `sequence`, which it leaves no room for");
        }
        (self.run == Some(0) || self.block == Some(0))
            .then_some("wants a `run` or `block` of at least 1")
    }

    /// A contradiction in its lists of roles.
    fn fault_of_roles(&self) -> Option<String> {
        let twice = |roles: &[PortRole]| {
            let mut pairs = roles.iter().enumerate();
            pairs.find_map(|(i, r)| roles[..i].contains(r).then_some(*r))
        };
        if let Some(role) = twice(&self.sequence) {
            return Some(format!("has `{}` twice in its `sequence`", role.name()));
        }
        if let (Some(last), Some(never)) = (self.sequence.last(), self.not_innermost.first())
            && last == never
        {
            return Some(format!(
                "has `{}` last in its `sequence` and `not_innermost`",
                last.name()
            ));
        }
        let empty = |roles: &Option<Vec<PortRole>>| roles.as_ref().is_some_and(Vec::is_empty);
        let ports = [&self.left, &self.right, &self.result].into_iter();
        let lists = ports.flat_map(|rule| [&rule.lanes, &rule.rows]);
        let nothing = lists.chain([&self.lanes, &self.rows]).any(empty);
        nothing.then(|| "lists no role for lanes or rows, which then nothing fills".to_owned())
    }
}

/// The row of a family: the unit that runs it, and the alternatives that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The unit that runs it.
    pub unit: String,
    /// The alternatives in order of preference; at least one.
    pub take: Vec<Alternative>,
    /// The evidence: a benchmark, a census, a sentence of a source.
    pub evidence: String,
    /// True if the lowering has a kernel, and a benchmark shows its price.
    pub kernel: bool,
    /// The reason why the operations are outside of groups of tiles: a compiler of kernels refuses them. Empty if they
    /// may be in a group.
    pub outside: String,
    /// The strides of ports that are parts of larger values; `None` if such parts are copied.
    pub parts: Option<Parts>,
    /// The roles along which an operand may be in pieces, with arbitrary positions of elements along them. Such an
    /// operand is joined from values that stay where they were written. A role that `one_run` lists must have runs of
    /// at least 256 bits.
    pub pieces: Vec<PortRole>,
    /// Orders of single ports in which the operations take longer.
    pub slower: Vec<Slower>,
}

impl Row {
    /// The row with the alternatives of a generation.
    #[must_use]
    pub(crate) fn of_generation(&self, generation: &str) -> Row {
        let has = |listed: &Option<Vec<String>>| {
            let listed = listed.as_ref();
            listed.is_none_or(|list| list.iter().any(|g| g == generation))
        };
        let take = self.take.iter().filter(|a| has(&a.generations));
        let slower = self.slower.iter().filter(|s| has(&s.generations));
        Row {
            take: take.cloned().collect(),
            slower: slower.cloned().collect(),
            ..self.clone()
        }
    }

    /// The defect of alternatives for generations that the target does not declare.
    pub(crate) fn fault_of_generations(&self, known: &[String]) -> Option<String> {
        let take = self.take.iter().map(|a| &a.generations);
        let slower = self.slower.iter().map(|s| &s.generations);
        let mut all = take.chain(slower).flatten().flatten();
        let unknown = all.find(|g| !known.contains(g))?;
        Some(format!(
            "names the generation `{unknown}`, which is not declared"
        ))
    }

    /// The alternatives that are not refused.
    pub fn taken(&self) -> impl Iterator<Item = &Alternative> {
        self.take.iter().filter(|a| a.refused.is_none())
    }

    /// Returns whether an alternative has a price, or an order of a port does.
    #[must_use]
    pub fn has_prices(&self) -> bool {
        !self.slower.is_empty() || self.take.iter().any(|a| a.price.is_some())
    }

    /// The elements of a run or block that the row wants; 1 if it wants none.
    #[must_use]
    pub fn parameter(&self) -> u64 {
        let of = |a: &Alternative| a.run.or(a.block);
        self.take.iter().find_map(of).unwrap_or(1)
    }

    /// The layouts that it takes, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let all: Vec<String> = self.take.iter().map(Alternative::describe).collect();
        let mut text = all.join("; or ");
        if let Some(parts) = self.parts {
            let _ = write!(text, "; {}", parts.describe());
        }
        if !self.pieces.is_empty() {
            let roles: Vec<&str> = self.pieces.iter().map(|role| role.name()).collect();
            let _ = write!(text, "; operands in pieces along {}", roles.join(" or "));
        }
        for slower in &self.slower {
            let _ = write!(text, "; {}", slower.describe());
        }
        text
    }

    /// A contradiction in the row, in words.
    pub(crate) fn fault(&self, tiled: bool) -> Option<String> {
        if self.take.iter().all(|a| a.refused.is_some()) {
            return Some("takes nothing: `take` lists no alternative".to_owned());
        }
        let mut faults = self.take.iter().enumerate();
        let own = faults.find_map(|(i, a)| {
            let fault = a.fault(tiled)?;
            Some(format!("alternative {}: {fault}", i + 1))
        });
        own.or_else(|| self.fault_of_widths())
            .or_else(|| self.fault_of_pair())
            .or_else(|| self.fault_of_default())
            .or_else(|| self.fault_of_order_prices(tiled).map(str::to_owned))
            .or_else(|| self.slower.iter().find_map(|slower| slower.fault(tiled)))
            .or_else(|| self.fault_of_parts(tiled))
    }

    /// Without tiles: the defect of a price if no order is cheaper, or if some alternative does not have one order at all
    /// ports.
    fn fault_of_order_prices(&self, tiled: bool) -> Option<&'static str> {
        let taken = || self.taken();
        let priced = !tiled && taken().any(|a| a.price.is_some());
        let common = taken().all(Alternative::shares_all);
        let ended = taken().any(Alternative::has_ends);
        match (priced, common, ended) {
            (true, false, _) => {
                Some("has a price without tiles, and an alternative without one order at all ports")
            }
            (true, true, false) => {
                Some("has a price for every order: list an alternative with `ends` that costs less")
            }
            (true, true, true) | (false, ..) => None,
        }
    }

    /// The defect of alternatives with one order at all ports and listed roles for lanes and rows, without an
    /// alternative for the other layouts.
    fn fault_of_default(&self) -> Option<String> {
        let taken = || self.taken();
        let some = taken().any(|a| a.shares_all() && a.lists_roles());
        let all = taken().any(|a| a.shares_all() && !a.lists_roles() && a.writes.is_none());
        (some && !all).then(|| {
            "has one order at all ports for some roles in lanes and rows, and no alternative for the others: list one \
             with a price"
                .to_owned()
        })
    }

    /// The defect of parts that contradict an alternative, or that a row-major port cannot be.
    fn fault_of_parts(&self, tiled: bool) -> Option<String> {
        if self.parts.is_none() && !self.pieces.is_empty() {
            return Some("has `pieces`, and no `parts`, which pieces are too".to_owned());
        }
        self.parts?;
        let fault = match self.parts {
            _ if self.take.iter().any(|a| a.order.is_some()) => {
                "has `parts` and `order = \"logical\"`, which wants a buffer of its own"
            }
            Some(Parts::Leading) if tiled => {
                "has parts in one piece, and values lie in tiles: wanted `any` or `tiles`"
            }
            Some(Parts::Tiles) if !tiled => "has parts of whole tiles, and values lie in none",
            _ if !tiled && self.parameter() != 1 => {
                "has `parts`, and a `run` or `block` that is padded in a buffer of its own"
            }
            _ => return None,
        };
        Some(fault.to_owned())
    }

    /// The defect of two alternatives for the same layouts, one of them with another price or refused.
    fn fault_of_pair(&self) -> Option<String> {
        let layouts = |a: &Alternative| Alternative {
            name: None,
            generations: None,
            price: None,
            refused: None,
            ..a.clone()
        };
        let mut all = self.take.iter().enumerate();
        all.find_map(|(i, a)| {
            let of_a = layouts(a);
            let j = self.take[..i].iter().position(|b| layouts(b) == of_a)?;
            let (i, j) = (i + 1, j + 1);
            Some(format!(
                "alternative {i}: takes the layouts of alternative {j} again"
            ))
        })
    }
}
