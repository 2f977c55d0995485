//! Which copies go.

use super::gather::{Gathered, gather};
use indexmap::IndexMap;
use optc_check::parts::{self, Site, Use, takes, writes_pieces};
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

/// The copies of one function that go.
#[derive(Clone, Default)]
pub(crate) struct Elided {
    /// The numbers of the parts that lie in place.
    in_place: IndexMap<Op, BTreeSet<usize>>,
    /// The operations whose result is read where their operands lie.
    in_pieces: BTreeSet<Op>,
    /// The operations that copy a part, though another choice of what lies where might save it.
    copying: BTreeSet<Op>,
    /// The operations that repeat elements in memory by what else was decided.
    repeating: BTreeSet<Op>,
    /// Why the first part of an operation that lies in no place of another value does not.
    stays: IndexMap<Op, (Port, Cow<'static, str>)>,
    /// Bytes read plus written of copies that stay, though another choice of what lies where might save them.
    pub(crate) left_by_choice: u64,
    /// Bytes read plus written of operands that nobody computes, and that are copied where a conversion would be written
    /// in place.
    pub(crate) given: u64,
    /// What stays that repeats elements.
    pub(crate) repeats: Repeats,
}

/// What stays of the operations that repeat elements in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Repeats {
    /// None.
    #[default]
    Nothing,
    /// Some that stay whatever else is decided, the layouts being as they are.
    Forced,
    /// Some that stay by what else was decided.
    ByChoice,
}

impl Elided {
    /// Whether there are any.
    pub(crate) fn changes(&self) -> bool {
        !self.in_place.is_empty() || !self.in_pieces.is_empty()
    }

    /// The operations that copy or repeat by what was decided.
    pub(super) fn by_choice(&self) -> impl Iterator<Item = Op> {
        self.copying.union(&self.repeating).copied()
    }

    /// Why an operation copies, in words, if a part of it is refused.
    pub(super) fn why(&self, op: Op) -> Option<String> {
        let (port, why) = self.stays.get(&op)?;
        Some(match port {
            Port::Operand(n) => format!("operand {n} {why}"),
            Port::Result(n) => format!("result {n} {why}"),
        })
    }

    /// Bytes that are copied, beside those that are so whatever is decided.
    fn cost(&self) -> (Repeats, u64) {
        let bytes = self.left_by_choice.saturating_add(self.given);
        (self.repeats, bytes)
    }

    /// Writes them into the function.
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

/// Decides which copies of a function go on a target, with results that are read in pieces where that copies less.
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
    // Results that nobody has to copy stay in one piece, unless they are pieces of some that are copied.
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

/// Whether the checker of parts takes what is decided.
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

/// The same with every result in one piece; the parts in `copied` do not go.
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

/// Whether an operation takes parts on a target.
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
    let mut decision = Decision {
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

/// Why a part does not lie in place.
struct Refused {
    /// Whether it does not whatever else is decided; else it is so by what else was decided, or by its layout.
    always: bool,
    why: Cow<'static, str>,
}

/// What no other decision changes.
fn always(why: &'static str) -> Refused {
    Refused {
        always: true,
        why: why.into(),
    }
}

/// What another decision might change.
fn here(why: impl Into<Cow<'static, str>>) -> Refused {
    Refused {
        always: false,
        why: why.into(),
    }
}

/// There is no such port.
const NO_PORT: &str = "is no value";
/// It is a result of the function, or an operation that nothing is known of reads it.
const WHOLE: &str = "is wanted in a buffer of its own";
/// Its buffer is not made while the program runs.
const KNOWN: &str = "is known when the program is compiled";
/// No strides say where it is.
const UNEVEN: &str = "would not lie evenly there";
/// It has its bytes in a second place.
const PLACED: &str = "has its bytes in another value already";

struct Decision<'a, 'f> {
    site: &'a mut Site<'f>,
    target: &'a Target,
    /// Where each root's buffer lies; `None` where it does not lie evenly.
    spread: SideTable<Value, Option<Spread>>,
    /// Whether a root lies in the result of a reader.
    placed: SideTable<Value, bool>,
    /// Whether a root is written in pieces.
    pieces: SideTable<Value, bool>,
    /// Whether it may be.
    may_be_pieces: SideTable<Value, Option<bool>>,
    elided: Elided,
    /// Parts that are copied whatever is decided.
    copied: BTreeSet<(Op, Port)>,
    /// What is read in pieces.
    gathered: Gathered,
}

impl<'f> Decision<'_, 'f> {
    fn func(&self) -> &'f Func {
        self.site.func
    }

    /// Whether the row of an operation takes parts at all.
    fn has_parts(&self, op: Op) -> bool {
        self.site.has_parts(self.target, op)
    }

    fn settle(&mut self, op: Op, number: usize) {
        self.elided.in_place.entry(op).or_default().insert(number);
    }

    /// Counts a part that is copied, unless it is so whatever is decided.
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

    /// The operands that are written where the result wants them.
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
        let (writer, number) = writer.ok_or_else(|| always("is an argument"))?;
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
        let parent = self.site.parent(root);
        match parent {
            Some(parent) => {
                if !self.may_be_pieces(parent) || !self.all_go_to(parent, op) {
                    return Err(here("is a part of a value whose parts do not all go there"));
                }
            }
            None => self.writes(writer, number, spread.as_ref())?,
        }
        let others = self.site.uses(root).to_vec();
        let others = others
            .into_iter()
            .filter(|&(reader, port, _)| (reader, Port::Operand(port)) != (op, part.part));
        for (reader, port, _) in others {
            let spread = spread.as_ref().ok_or_else(|| here(UNEVEN))?;
            takes(self.site, self.target, reader, Port::Operand(port), spread)
                .map_err(|why| self.refused(reader, &why))?;
        }
        if let Some(parent) = parent {
            self.in_pieces(parent);
        }
        self.spread[root] = spread;
        self.placed[root] = true;
        Ok(())
    }

    /// Whether an operation that computes writes its result there.
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

    /// What an operation says of a place that it reads or writes.
    fn refused(&self, op: Op, why: &str) -> Refused {
        let data = &self.func().ops[op];
        here(format!("is not taken there by `{}`: {why}", data.name))
    }

    /// Whether all readers of a root take parts of it that have no element in common, and its writer writes pieces.
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

    /// Whether a result is copied whatever is decided.
    fn is_copied(&self, op: Op, number: usize) -> bool {
        self.copied.contains(&(op, Port::Result(number)))
    }

    /// Whether the parts of a root are all there is of it, and one reader alone takes each of them once.
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

    /// Every part of a root is where it lies, or where a reader wants it.
    fn in_pieces(&mut self, root: Value) {
        self.pieces[root] = true;
        for (reader, ..) in self.site.uses(root).to_vec() {
            for number in 0..self.site.func.ops[reader].results.len() {
                self.settle(reader, number);
            }
        }
    }

    /// The results that are parts of the operand where that lies.
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
                // It is copied there.
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
        for (reader, port, _) in self.site.uses(result).to_vec() {
            let port = Port::Operand(port);
            takes(self.site, self.target, reader, port, &spread)
                .map_err(|why| self.refused(reader, &why))?;
        }
        self.spread[result] = Some(spread);
        Ok(())
    }
}

/// Parts that a value may be cut into and be written in pieces.
const MOST_PIECES: usize = 64;
