//! Decides which copies are elided.
//!
//! Example: `%1 = slice(%0); %2 = neg(%1)` becomes a `subview` of `%0` if the `neg` takes the strides that the part has
//! in `%0`.

use super::access::{takes, writes_pieces};
use super::gather::{Gathered, gather};
use indexmap::IndexMap;
use optc_check::parts::{self, Site, Use};
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{Func, Op, Operation, Part, Registry, Structure, TensorType, Traffic, Value};
use optc_layout::Spread;
use optc_ops::Subview;
use optc_target::Target;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The elided copies of one function.
#[derive(Clone, Default)]
pub(crate) struct Elided {
    /// The numbers of the parts that are in place.
    in_place: IndexMap<Op, BTreeSet<usize>>,
    /// Operations whose result is read from their operands.
    in_pieces: BTreeSet<Op>,
    /// Operations that copy a part, though another placement might save the copy.
    copying: BTreeSet<Op>,
    /// Operations that repeat elements in memory because of other decisions.
    repeating: BTreeSet<Op>,
    /// By operation, the reason why its first part that is not in place is not.
    stays: IndexMap<Op, (Port, Cow<'static, str>)>,
    /// Bytes read plus written by remaining copies that another placement might save.
    pub(crate) left_by_choice: u64,
    /// Bytes read plus written by copies of operands that the function does not compute. A conversion of such an
    /// operand could be written in place.
    pub(crate) given: u64,
    /// The remaining repetitions of elements.
    pub(crate) repeats: Repeats,
}

/// The remaining operations that repeat elements in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Repeats {
    /// None.
    #[default]
    Nothing,
    /// Some that stay whatever else is decided, with the layouts as they are.
    Forced,
    /// Some that stay because of other decisions.
    ByChoice,
}

impl Elided {
    /// Returns whether any copies are elided.
    pub(crate) fn changes(&self) -> bool {
        !self.in_place.is_empty() || !self.in_pieces.is_empty()
    }

    /// The operations that copy or repeat because of a decision.
    pub(super) fn by_choice(&self) -> impl Iterator<Item = Op> {
        self.copying.union(&self.repeating).copied()
    }

    /// The reason why an operation copies, in words, if a part of it is refused.
    pub(super) fn why(&self, op: Op) -> Option<String> {
        let (port, why) = self.stays.get(&op)?;
        Some(match port {
            Port::Operand(n) => format!("operand {n} {why}"),
            Port::Result(n) => format!("result {n} {why}"),
        })
    }

    /// Remaining repetitions, and bytes that are copied because of a decision.
    fn cost(&self) -> (Repeats, u64) {
        let bytes = self.left_by_choice.saturating_add(self.given);
        (self.repeats, bytes)
    }

    /// Applies the decisions to the function.
    pub(crate) fn apply(&self, func: &mut Func) {
        for (&op, numbers) in &self.in_place {
            let data = &mut func.ops[op];
            match Subview::of_copy(&data.name, &data.props) {
                Some(props) => (data.name, data.props) = (Arc::from(Subview::NAME), props),
                None => in_place::set(data, &numbers.iter().copied().collect::<Vec<usize>>()),
            }
        }
        for &op in &self.in_pieces {
            in_place::set_in_pieces(&mut func.ops[op], true);
        }
    }
}

/// Decides which copies of a function are elided on a target. Results may be read in pieces where that copies less.
pub(crate) fn elide(func: &Func, known: (&Registry, &Effects<'_>), target: &Target) -> Elided {
    if !takes_any(target) {
        return Elided::default();
    }
    let mut site = Site::new(func, known.0, known.1);
    let stored = decide(&mut site, target, BTreeSet::new(), Gathered::default());
    if stored.copying.is_empty() || target.families.values().all(|row| row.pieces.is_empty()) {
        return stored;
    }
    let all = gather(&mut site, target, None);
    // Results that need no copy stay in one piece, unless they are pieces of results that are copied.
    let wanted = all.families(&site, &stored.copying);
    if wanted.is_empty() {
        return stored;
    }
    let some = gather(&mut site, target, Some(&wanted));
    let found = decide(&mut site, target, BTreeSet::new(), some);
    match found.cost() < stored.cost() && holds(func, known, target, &found) {
        true => found,
        false => stored,
    }
}

/// Returns whether the checker of parts accepts the decisions.
fn holds(
    func: &Func,
    (registry, effects): (&Registry, &Effects<'_>),
    target: &Target,
    found: &Elided,
) -> bool {
    let mut func = func.clone();
    found.apply(&mut func);
    parts::check_func(&func, registry, effects, target).is_none()
}

/// [`elide`] with every result in one piece. The parts in `copied` are not elided.
pub(crate) fn elide_stored(
    func: &Func,
    (registry, effects): (&Registry, &Effects<'_>),
    target: &Target,
    copied: BTreeSet<(Op, Port)>,
) -> Elided {
    if !takes_any(target) {
        return Elided::default();
    }
    let mut site = Site::new(func, registry, effects);
    decide(&mut site, target, copied, Gathered::default())
}

/// Returns whether any operation takes parts on a target.
fn takes_any(target: &Target) -> bool {
    target.families.values().any(|row| row.parts.is_some())
}

fn decide(
    site: &mut Site<'_>,
    target: &Target,
    copied: BTreeSet<(Op, Port)>,
    gathered: Gathered,
) -> Elided {
    let func = site.func;
    let mut order: SideTable<Op, usize> = SideTable::new(0);
    for (place, &op) in func.body.iter().enumerate() {
        order[op] = place;
    }
    let mut decision = Decision {
        order,
        until: SideTable::new(usize::MAX),
        home: SideTable::new(None),
        joined: SideTable::new(false),
        spread: SideTable::new(None),
        placed: SideTable::new(false),
        pieces: SideTable::new(false),
        may_be_pieces: SideTable::new(None),
        elided: Elided::default(),
        copied,
        gathered,
        site,
        target,
    };
    for value in func.values.ids() {
        decision.spread[value] = decision.site.own(value);
    }
    for &op in func.body.iter().rev() {
        decision.operands(op);
    }
    for &op in &func.body {
        decision.results(op);
    }
    decision.elided.in_pieces = decision.gathered.ops.clone();
    decision.elided
}

/// The reason why a part is not in place.
struct Refused {
    /// True if it is not in place whatever else is decided. False if another decision or another layout might change
    /// that.
    always: bool,
    why: Cow<'static, str>,
}

/// A reason that no other decision changes.
fn always(why: &'static str) -> Refused {
    Refused {
        always: true,
        why: why.into(),
    }
}

/// A reason that another decision might change.
fn here(why: impl Into<Cow<'static, str>>) -> Refused {
    Refused {
        always: false,
        why: why.into(),
    }
}

/// The port does not exist.
const NO_PORT: &str = "is no value";
/// The value is a result of the function, or a barrier reads it.
const WHOLE: &str =
    "must have a buffer of its own: it is a result of the function, or a barrier reads it";
/// The value's buffer is not made while the program runs.
const KNOWN: &str = "is known when the program is compiled";
/// No strides describe the part.
const UNEVEN: &str = "cannot be described by strides there";
/// The value is an argument that no result may be written over.
const ARGUMENT: &str = "is an argument";
/// Another operation reads the bytes after they have changed.
const READ_LATER: &str = "is read after other elements are written over it";
/// The value would have its bytes in two places.
const PLACED: &str = "has its bytes in another value already";

struct Decision<'a, 'f> {
    site: &'a mut Site<'f>,
    target: &'a Target,
    /// The position of each operation in the body.
    order: SideTable<Op, usize>,
    /// The position of the first update that writes into the bytes of a root after the root is made.
    until: SideTable<Value, usize>,
    /// The root in whose buffer a placed root lies.
    home: SideTable<Value, Option<Value>>,
    /// True for a root that lies in a buffer that other operations than updates fill.
    joined: SideTable<Value, bool>,
    /// The position of each root's buffer; `None` where it has no even strides.
    spread: SideTable<Value, Option<Spread>>,
    /// True for a root that is written into the result of a reader.
    placed: SideTable<Value, bool>,
    /// True for a root that is written in pieces.
    pieces: SideTable<Value, bool>,
    /// Memoized: true for a root that may be written in pieces.
    may_be_pieces: SideTable<Value, Option<bool>>,
    elided: Elided,
    /// Parts that are copied whatever is decided.
    copied: BTreeSet<(Op, Port)>,
    /// The results that are read in pieces.
    gathered: Gathered,
}

impl<'f> Decision<'_, 'f> {
    /// The root whose buffer contains that of a root.
    fn outermost(&self, root: Value) -> Value {
        let mut at = root;
        while let Some(home) = self.home[at] {
            at = home;
        }
        at
    }

    fn func(&self) -> &'f Func {
        self.site.func
    }

    /// Returns whether the row of an operation takes parts at all.
    fn has_parts(&self, op: Op) -> bool {
        self.site.has_parts(self.target, op)
    }

    fn settle(&mut self, op: Op, number: usize) {
        self.elided.in_place.entry(op).or_default().insert(number);
    }

    /// Records a part that stays a copy, and counts its bytes if a decision is the reason.
    fn stays(&mut self, op: Op, part: &Part, refused: Refused) {
        let Refused { always, why } = refused;
        let known = self.elided.stays.entry(op);
        known.or_insert((part.part, why));
        let data = &self.func().ops[op];
        let decl = self.site.registry.get(&data.name);
        let traffic = decl.map_or(Traffic::None, |d| d.traffic(&self.func().op_ref(op)));
        let is_operand = matches!(part.part, Port::Operand(_));
        if traffic == Traffic::Expand {
            let stays = match always {
                true => Repeats::Forced,
                false => {
                    self.elided.repeating.insert(op);
                    Repeats::ByChoice
                }
            };
            self.elided.repeats = self.elided.repeats.max(stays);
            return;
        }
        if traffic == Traffic::None || (always && !is_operand) {
            return;
        }
        let ty = part
            .part
            .value(data)
            .and_then(|v| self.func().ty(v).as_tensor());
        let bytes = ty
            .map(TensorType::logical_bytes)
            .and_then(|n| n.as_constant());
        let bytes = bytes
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or(u64::MAX);
        let left = match always {
            true => &mut self.elided.given,
            false => &mut self.elided.left_by_choice,
        };
        *left = left.saturating_add(bytes.saturating_mul(2));
        self.elided.copying.insert(op);
    }

    /// Places operands directly in the result, where possible.
    fn operands(&mut self, op: Op) {
        let parts = self.site.parts(op);
        let is_operand = |part: &&Part| matches!(part.part, Port::Operand(_));
        if !self.has_parts(op) || self.gathered.ops.contains(&op) {
            return;
        }
        for part in parts.iter().filter(is_operand) {
            match self.operand(op, part) {
                Ok(()) => self.settle(op, part.part.number()),
                Err(refused) => self.stays(op, part, refused),
            }
        }
    }

    fn operand(&mut self, op: Op, part: &Part) -> Result<(), Refused> {
        let data = &self.site.func.ops[op];
        let value = part.part.value(data).ok_or_else(|| always(NO_PORT))?;
        let whole = part.whole.value(data).ok_or_else(|| always(NO_PORT))?;
        let (root, whole) = (self.site.root(value), self.site.root(whole));
        let writer = self.site.writer(root);
        if writer.is_none() && !self.site.may_be_written(root, self.outermost(whole)) {
            return Err(always(ARGUMENT));
        }
        let updates = self.site.updates(op, part);
        if self.site.is_known(root) {
            return Err(always(KNOWN));
        }
        if self.site.is_wanted_whole(root) {
            return Err(always(WHOLE));
        }
        let gathered = &self.gathered;
        let stays = gathered.is_in_pieces(root) || gathered.holds(root) || gathered.holds(whole);
        if self.placed[root] || stays {
            return Err(here(PLACED));
        }
        if self.copied.contains(&(op, part.part)) {
            return Err(here("keeps too many bytes alive"));
        }
        let base = match self.pieces[whole] {
            true => None,
            false => self.spread[whole].clone(),
        };
        let spread = base.and_then(|base| self.site.spread(op, part, &base));
        let until = match updates {
            true => self.until[whole].min(self.order[op]),
            false => self.until[whole],
        };
        if updates && self.joined[whole] {
            return Err(here(PLACED));
        }
        let parent = self.site.parent(root);
        match (parent, writer) {
            (None, None) => {
                let first = spread.as_ref().is_some_and(Spread::is_first);
                if !first {
                    return Err(here(
                        "is an argument, which can only be the first bytes of the result: the dimension that grows must be outermost in both",
                    ));
                }
            }
            (Some(_), _) if updates => return Err(here(PLACED)),
            (Some(parent), _) => {
                if !self.may_be_pieces(parent) || !self.all_go_to(parent, op) {
                    return Err(here(
                        "is a part of a value whose other parts are not written there",
                    ));
                }
            }
            (None, Some((writer, number))) => self.writes(writer, number, spread.as_ref())?,
        }
        let others = self.site.uses(root).to_vec();
        let others = others
            .into_iter()
            .filter(|&(reader, port, _)| (reader, Port::Operand(port)) != (op, part.part));
        for (reader, port, _) in others {
            if until <= self.order[reader] {
                return Err(here(READ_LATER));
            }
            let spread = spread.as_ref().ok_or_else(|| here(UNEVEN))?;
            takes(self.site, self.target, reader, Port::Operand(port), spread)
                .map_err(|why| self.refused(reader, &why))?;
        }
        if let Some(parent) = parent {
            self.in_pieces(parent);
        }
        self.spread[root] = spread;
        self.placed[root] = true;
        self.until[root] = until;
        self.home[root] = Some(whole);
        self.joined[root] = !updates || self.joined[whole];
        Ok(())
    }

    /// Returns an error if an operation cannot write its result at this position.
    fn writes(&self, op: Op, number: usize, spread: Option<&Spread>) -> Result<(), Refused> {
        let structure = self.site.registry.structure(&self.func().ops[op].name);
        if structure != Structure::Plain && structure != Structure::Convert {
            return Err(here("is a part of another value"));
        }
        let port = Port::Result(number);
        let taken = match spread {
            Some(spread) => takes(self.site, self.target, op, port, spread),
            None => writes_pieces(self.site, self.target, op),
        };
        let refused = |why: String| Refused {
            always: !self.has_parts(op) && structure != Structure::Convert,
            ..self.refused(op, &why)
        };
        taken.map_err(refused)
    }

    /// The refusal by an operation that would read or write a part.
    fn refused(&self, op: Op, why: &str) -> Refused {
        let data = &self.func().ops[op];
        here(format!("is not taken there by `{}`: {why}", data.name))
    }

    /// Returns whether all readers of a root take disjoint parts of it, and its writer writes pieces.
    fn may_be_pieces(&mut self, root: Value) -> bool {
        if let Some(known) = self.may_be_pieces[root] {
            return known;
        }
        let may = self.is_cut(root);
        self.may_be_pieces[root] = Some(may);
        may
    }

    fn is_cut(&mut self, root: Value) -> bool {
        let Some((writer, number)) = self.site.writer(root) else {
            return false;
        };
        let fixed = self.site.is_known(root) || self.site.is_wanted_whole(root);
        let itself = self.site.parent(root).is_some()
            || self.placed[root]
            || self.gathered.is_in_pieces(root)
            || self.gathered.holds(root);
        let uses = self.site.uses(root).to_vec();
        if fixed || itself || MOST_PIECES < uses.len() || self.writes(writer, number, None).is_err()
        {
            return false;
        }
        self.all_apart(&uses)
    }

    fn all_apart(&mut self, uses: &[Use]) -> bool {
        let mut all: Vec<(Op, Part)> = Vec::new();
        let one_view = uses.iter().all(|&(.., v)| v == uses[0].2);
        for &(reader, ..) in uses {
            let results = &self.site.func.ops[reader].results;
            let parts = self.site.parts(reader);
            let parts = parts.iter().filter(|p| matches!(p.part, Port::Result(_)));
            let before = all.len();
            all.extend(parts.map(|part| (reader, part.clone())));
            let whole = results.iter().any(|&r| self.site.is_wanted_whole(r));
            let cut = all.len() - before == results.len() && self.has_parts(reader);
            let copied = (0..results.len()).any(|i| self.is_copied(reader, i));
            if !one_view || whole || !cut || copied {
                return false;
            }
        }
        if MOST_PIECES < all.len() {
            return false;
        }
        (0..all.len()).all(|i| {
            (0..i).all(|j| {
                self.site
                    .apart((all[i].0, &all[i].1), (all[j].0, &all[j].1))
            })
        })
    }

    /// Returns whether a result is copied whatever is decided.
    fn is_copied(&self, op: Op, number: usize) -> bool {
        self.copied.contains(&(op, Port::Result(number)))
    }

    /// Returns whether the parts of a root make up all of it, and a single reader takes each of them once.
    fn all_go_to(&self, root: Value, by: Op) -> bool {
        let cutters = self.site.uses(root).iter().map(|&(cutter, ..)| cutter);
        let parts = cutters.flat_map(|cutter| &self.site.func.ops[cutter].results);
        let mut left = self.elements(root);
        for &part in parts {
            let once = matches!(self.site.uses(part), [(reader, ..)] if *reader == by);
            left = left
                .zip(self.elements(part))
                .and_then(|(n, k)| n.checked_sub(k));
            if !once {
                return false;
            }
        }
        left == Some(0)
    }

    fn elements(&self, value: Value) -> Option<u64> {
        Some(self.site.layout(value)?.elements())
    }

    /// Marks a root as written in pieces: every part of it is in place, or where a reader needs it.
    fn in_pieces(&mut self, root: Value) {
        self.pieces[root] = true;
        for (reader, ..) in self.site.uses(root).to_vec() {
            for number in 0..self.site.func.ops[reader].results.len() {
                self.settle(reader, number);
            }
        }
    }

    /// Makes results parts of the operand in place, where possible.
    fn results(&mut self, op: Op) {
        let parts = self.site.parts(op);
        if !self.has_parts(op) {
            return;
        }
        for part in parts.iter().filter(|p| matches!(p.part, Port::Result(_))) {
            match self.result(op, part) {
                Ok(()) => self.settle(op, part.part.number()),
                Err(refused) => self.stays(op, part, refused),
            }
        }
    }

    fn result(&mut self, op: Op, part: &Part) -> Result<(), Refused> {
        let data = &self.site.func.ops[op];
        let result = part.part.value(data).ok_or_else(|| always(NO_PORT))?;
        let whole = part.whole.value(data).ok_or_else(|| always(NO_PORT))?;
        let parent = self.site.root(whole);
        if self.site.is_known(result) {
            return Err(always(KNOWN));
        }
        if self.gathered.is_in_pieces(result) {
            return Ok(());
        }
        if self.site.is_wanted_whole(result) {
            let fixed = self.site.writer(parent).is_none()
                || self.site.is_known(parent)
                || self.site.is_wanted_whole(parent);
            return Err(if fixed { always(WHOLE) } else { here(WHOLE) });
        }
        if self.placed[result] {
            return match self.pieces[parent] {
                true => Ok(()),
                // The part is copied to its other place.
                false => Err(here(PLACED)),
            };
        }
        if self.gathered.is_in_pieces(parent) {
            return Err(here("is cut from a value that is in pieces"));
        }
        if self.copied.contains(&(op, part.part)) {
            return Err(here("keeps too many bytes alive"));
        }
        let base = self.spread[parent].clone();
        let spread = base.and_then(|base| self.site.spread(op, part, &base));
        let spread = spread.ok_or_else(|| here(UNEVEN))?;
        let until = self.until[parent];
        for (reader, port, _) in self.site.uses(result).to_vec() {
            if until <= self.order[reader] {
                return Err(here(READ_LATER));
            }
            let port = Port::Operand(port);
            takes(self.site, self.target, reader, port, &spread)
                .map_err(|why| self.refused(reader, &why))?;
        }
        self.spread[result] = Some(spread);
        self.until[result] = until;
        Ok(())
    }
}

/// The most parts that a value may be cut into to be written in pieces: each part is compared with each other.
const MOST_PIECES: usize = 64;
