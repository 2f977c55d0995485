//! Judges values that lie in the bytes of others: parts of a live value, and operands that are written straight into
//! the result of a concat or pad.
//!
//! A value that an operation lists in `in_place`, and the result of a `subview`, has no buffer of its own. Its place
//! follows from the place of its whole ([`Spread`]). Its readers and writers therefore step by strides instead of
//! walking a compact buffer. [`Site`] finds these readers and writers; [`takes`] says whether the row of a target lets
//! them do so.
//!
//! For example, let `concat(%0, %y, %1)` of 4x3, 4x2 and 4x3 along dimension 1 have `in_place = [0, 2]`. Then `%0` and
//! `%1` lie in the 4x8 result: their rows are 8 elements apart, and the operations that compute them must be able to
//! write such rows. `%y` is copied.

use crate::codes;
use crate::pieces::{Pieces, Whole, takes_pieces};
use crate::reader::Reader;
pub use crate::site::{Site, Use};
use crate::tiles;
use indexmap::{IndexMap, IndexSet};
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{Diagnostic, Func, Module, Op, Operation, Part, Registry, Role, Structure, Value};
use optc_layout::{Spread, Stride};
use optc_ops::Subview;
use optc_target::{Parts, Target};

/// Checks that the row of a target lets an operation read or write a buffer that is spread out in another one.
///
/// # Errors
/// The row does not let it; the text says why.
pub fn takes(
    site: &Site<'_>,
    target: &Target,
    op: Op,
    port: Port,
    spread: &Spread,
) -> Result<(), String> {
    let data = &site.func.ops[op];
    let value = port.value(data).ok_or("there is no such port")?;
    let layout = site.layout(value).ok_or("its layout is not known")?;
    let strides = spread
        .strides(layout)
        .ok_or("its elements do not lie evenly there")?;
    let at = port.index(data.operands.len());
    let Some(reader) = Reader::of(site, target, op, at)? else {
        return Ok(());
    };
    match reader.parts {
        Parts::Leading => {
            let batch = |s: &&Stride| reader.own_role(s.dim) == Some(Role::Batch);
            let torn = |s: &&Stride| i64::try_from(s.compact) != Ok(s.stride);
            match strides.iter().filter(|s| !batch(s)).any(|s| torn(&s)) {
                true => Err("it is not in one piece beside the batch".to_owned()),
                false => Ok(()),
            }
        }
        Parts::Any if site.is_tiled(target) => match reader.least_run() {
            run if stays_together(&strides, run) => Ok(()),
            run => Err(format!(
                "its innermost {run} elements are not together there"
            )),
        },
        Parts::Tiles if site.is_tiled(target) => {
            let tile = tiles::positions_of_tile(layout, target);
            let step = i64::try_from(tile).map_err(|_| "its tile is too large")?;
            let whole = |s: &Stride| s.compact < tile || s.stride % step == 0;
            let aligned = spread.offset() % step == 0 && strides.iter().all(whole);
            match aligned && stays_together(&strides, tile) {
                true => Ok(()),
                false => Err(format!(
                    "it does not consist of whole tiles of {tile} elements there"
                )),
            }
        }
        Parts::Any | Parts::Tiles => reader.finds_runs(&strides),
    }
}

/// Returns whether the positions of each group of `n` in a compact buffer are together where the buffer lies.
fn stays_together(digits: &[Stride], n: u64) -> bool {
    let moved = |s: &&Stride| i64::try_from(s.compact) != Ok(s.stride);
    !digits.iter().filter(|s| s.compact < n).any(|s| moved(&s))
}

/// The places of a function's buffers, as its attributes state them, and the check that all these places are allowed.
struct Judge<'a> {
    site: Site<'a>,
    /// The target whose rows decide which operation takes which strides. `None` if only the places are wanted.
    target: Option<&'a Target>,
    /// The place of each root's buffer; `None` for a root in pieces.
    spread: SideTable<Value, Option<Spread>>,
    /// The operation in whose result the root lies.
    home: SideTable<Value, Option<Op>>,
    /// True if the root lies in another root's buffer.
    inside: SideTable<Value, bool>,
    /// True if the root is written in several pieces.
    pieces: SideTable<Value, bool>,
    /// The place of a root that is read in several pieces.
    gathered: SideTable<Value, Option<Pieces>>,
    /// The operands, as operation and number, that lie in the operation's result.
    placed: IndexSet<(Op, usize)>,
    /// The position of each operation in the body.
    position: SideTable<Op, usize>,
    /// The position of the first update that changes bytes of a root's buffer after the root is made; `None` if its
    /// bytes stay.
    changed: SideTable<Value, Option<usize>>,
    /// True for a root in a buffer of which other operations write other parts.
    joined: SideTable<Value, bool>,
}

/// Checks that the values that lie in the bytes of others are allowed to on a target: each byte has one writer, and all
/// readers and writers take the strides.
#[must_use]
pub fn check_parts(module: &Module, registry: &Registry, target: &Target) -> Vec<Diagnostic> {
    let effects = Effects::of_module(module, registry);
    let of = |func| check_func(func, registry, &effects, target);
    module.funcs.iter().filter_map(of).collect()
}

/// Checks one function as [`check_parts`] does.
#[must_use]
pub fn check_func(
    func: &Func,
    registry: &Registry,
    effects: &Effects<'_>,
    target: &Target,
) -> Option<Diagnostic> {
    let says = |op: &Op| {
        let data = &func.ops[*op];
        data.attrs.get(in_place::IN_PLACE).is_some()
            || in_place::is_in_pieces(data)
            || &*data.name == Subview::NAME
    };
    if !func.body.iter().any(says) {
        return None;
    }
    let mut judge = Judge::new(Site::new(func, registry, effects), Some(target));
    let (op, reason) = judge.run().err()?;
    let data = &func.ops[op];
    let message = format!(
        "`{}` lists a value in `in_place` or `in_pieces` that is not there",
        data.name
    );
    let diag = Diagnostic::error(codes::PART_IN_PLACE, message);
    Some(diag.at(data.span, "here").note(format!("found: {reason}")).note(
        "wanted: one writer for each byte, and readers and writers whose rows take the strides",
    ))
}

type Refused = (Op, String);

/// The values that lie inside another value by the attributes of a function, each with the operation that wants it
/// there. Values in several pieces are included; views of these values are not. The map is empty if the attributes are
/// contradictory, whatever the target.
#[must_use]
pub fn homes(func: &Func, registry: &Registry, effects: &Effects<'_>) -> IndexMap<Value, Op> {
    let mut homes = IndexMap::new();
    let says = |op: &Op| func.ops[*op].attrs.get(in_place::IN_PLACE).is_some();
    if !func.body.iter().any(says) {
        return homes;
    }
    let mut judge = Judge::new(Site::new(func, registry, effects), None);
    if judge.run().is_err() {
        return homes;
    }
    for value in func.values.ids() {
        if let Some(op) = judge.home[value] {
            homes.insert(judge.site.parent(value).unwrap_or(value), op);
        }
    }
    homes
}

/// The roots of a function of which an operation replaces elements in place by the attributes of the function, each with
/// the first such operation. The map is empty if the attributes are contradictory.
#[must_use]
pub fn replaced(func: &Func, registry: &Registry, effects: &Effects<'_>) -> IndexMap<Value, Op> {
    let updates = |&op: &Op| in_place::settled_update(func, op, registry).is_some();
    if !func.body.iter().any(updates) {
        return IndexMap::new();
    }
    let mut judge = Judge::new(Site::new(func, registry, effects), None);
    if judge.run().is_err() {
        return IndexMap::new();
    }
    let at = |value: Value| Some((value, *func.body.get(judge.changed[value]?)?));
    func.values.ids().filter_map(at).collect()
}

impl<'a> Judge<'a> {
    fn new(site: Site<'a>, target: Option<&'a Target>) -> Self {
        let mut judge = Judge {
            spread: SideTable::new(None),
            home: SideTable::new(None),
            inside: SideTable::new(false),
            pieces: SideTable::new(false),
            gathered: SideTable::new(None),
            placed: IndexSet::new(),
            position: SideTable::new(0),
            changed: SideTable::new(None),
            joined: SideTable::new(false),
            site,
            target,
        };
        for value in judge.site.func.values.ids() {
            judge.spread[value] = judge.site.own(value);
        }
        for (position, &op) in judge.site.func.body.iter().enumerate() {
            judge.position[op] = position;
        }
        judge
    }
}

impl Judge<'_> {
    fn run(&mut self) -> Result<(), Refused> {
        let func = self.site.func;
        for &op in func.body.iter().rev() {
            self.operands(op)?;
        }
        for &op in &func.body {
            self.results(op)?;
            if in_place::is_in_pieces(&func.ops[op]) {
                self.gathers(op).map_err(|why| (op, why))?;
            }
        }
        for &arg in &func.args {
            if let Some(home) = self.home[arg] {
                self.readers(home, arg)?;
            }
        }
        for &op in &func.body {
            for &result in &func.ops[op].results {
                let root = self.site.root(result);
                if root != result {
                    continue;
                }
                if let Some(pieces) = self.gathered[root].clone() {
                    self.readers_of_pieces(op, root, &pieces)?;
                } else if self.inside[root] || self.pieces[root] {
                    self.readers(op, root)?;
                }
            }
        }
        Ok(())
    }

    fn listed(&self, op: Op) -> Result<Vec<Part>, Refused> {
        let data = &self.site.func.ops[op];
        let numbers = in_place::listed(data).map_err(|e| (op, e))?;
        let all = self.site.parts(op);
        if &*data.name == Subview::NAME {
            return Ok(all.to_vec());
        }
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let has_parts = |target| self.site.has_parts(target, op);
        if !self.target.is_none_or(has_parts) {
            return Err((op, "its row has no `parts`".to_owned()));
        }
        let by_number: IndexMap<usize, &Part> = all.iter().map(|p| (p.part.number(), p)).collect();
        let of_number = |n: &usize| {
            let found = by_number.get(n).map(|&part| part.clone());
            found.ok_or_else(|| (op, format!("port {n} is no part of another one")))
        };
        numbers.iter().map(of_number).collect()
    }

    /// Places the operands that lie in the result.
    fn operands(&mut self, op: Op) -> Result<(), Refused> {
        for part in self.listed(op)? {
            let data = &self.site.func.ops[op];
            let (Port::Operand(n), Some(value)) = (part.part, part.part.value(data)) else {
                continue;
            };
            let root = self.site.root(value);
            let refuse = |why: &str| Err((op, format!("operand {n} {why}")));
            if self.site.is_known(root) || self.site.is_wanted_whole(root) {
                return refuse("has a buffer of its own");
            }
            if self.home[root].is_some() {
                return refuse("lies in another place too");
            }
            let at = part.whole.value(data).map(|v| self.site.root(v));
            let updates = self.site.updates(op, &part);
            if updates && (self.site.parent(root).is_some() || at.is_some_and(|at| self.joined[at]))
            {
                return refuse("is changed within a value that other operations write too");
            }
            self.joined[root] = !updates || at.is_some_and(|at| self.joined[at]);
            let later = at.and_then(|at| self.changed[at]);
            self.changed[root] = match updates {
                true => Some(self.position[op]),
                false => later,
            };
            let whole = part.whole.value(data).map(|v| self.site.root(v));
            let whole = whole.filter(|w| !self.pieces[*w]);
            let base = whole.and_then(|w| self.spread[w].clone());
            let spread = base.and_then(|base| self.site.spread(op, &part, &base));
            match (self.site.parent(root), self.site.writer(root)) {
                // The whole of the part that lies here is written in pieces.
                (Some(parent), _) => {
                    self.pieces[parent] = true;
                    let all = [self.changed[parent], self.changed[root]];
                    self.changed[parent] = all.into_iter().flatten().min();
                }
                (None, Some((writer, number))) => self
                    .writes(writer, number, spread.as_ref())
                    .map_err(|e| (op, format!("operand {n}: {e}")))?,
                (None, None) => {
                    let owner = at.map(|at| self.owner(at));
                    if !owner.is_some_and(|owner| self.site.may_be_written(root, owner)) {
                        return refuse("is an argument, and shares no memory with this result");
                    }
                    if !spread.as_ref().is_some_and(Spread::is_first) {
                        return refuse("is an argument, and not the first bytes of the result");
                    }
                }
            }
            self.home[root] = Some(op);
            self.placed.insert((op, n));
            self.inside[root] = true;
            self.spread[root] = spread;
        }
        Ok(())
    }

    /// The root whose buffer contains that of a root, as far as operands of later operations are placed.
    fn owner(&self, root: Value) -> Value {
        let mut at = root;
        while let Some(home) = self.home[at]
            && let Some(&result) = self.site.func.ops[home].results.first()
        {
            at = self.site.root(result);
        }
        at
    }

    /// Checks that an operation can write its result at the place given.
    fn writes(&self, op: Op, number: usize, spread: Option<&Spread>) -> Result<(), String> {
        let data = &self.site.func.ops[op];
        if self.site.wants_whole(op) {
            return Err(format!("`{}` writes a buffer of its own", data.name));
        }
        match (self.target, spread) {
            (None, _) => Ok(()),
            (Some(target), Some(spread)) => {
                takes(&self.site, target, op, Port::Result(number), spread)
            }
            (Some(target), None) => writes_pieces(&self.site, target, op),
        }
    }

    /// Places the results that are parts of the operand.
    fn results(&mut self, op: Op) -> Result<(), Refused> {
        for part in self.listed(op)? {
            let data = &self.site.func.ops[op];
            let (Port::Result(n), Some(result)) = (part.part, part.part.value(data)) else {
                continue;
            };
            let parent = part.whole.value(data).map(|v| self.site.root(v));
            let Some(parent) = parent else { continue };
            if self.site.is_wanted_whole(result) {
                return Err((
                    op,
                    format!(
                        "result {n} must have a buffer of its own: it is a result of the function, or a barrier reads it"
                    ),
                ));
            }
            if self.home[result].is_some() {
                continue;
            }
            if let Some(pieces) = self.gathered[parent].clone() {
                let cut = self.site.cut(op, &part, &pieces);
                let cut =
                    cut.ok_or_else(|| (op, "cuts pieces beside their dimension".to_owned()))?;
                self.gathered[result] = Some(cut);
                continue;
            }
            self.changed[result] = self.changed[parent];
            let base = self.spread[parent].clone();
            self.spread[result] = base.and_then(|base| self.site.spread(op, &part, &base));
            self.inside[result] = true;
        }
        Ok(())
    }

    /// Places the result of an operation that is in pieces.
    fn gathers(&mut self, op: Op) -> Result<(), String> {
        let data = &self.site.func.ops[op];
        let has_parts = |target| self.site.has_parts(target, op);
        if data.attrs.get(in_place::IN_PLACE).is_some() {
            return Err("it is in pieces, and operands lie in it".to_owned());
        }
        if !self.target.is_none_or(has_parts) {
            return Err("its row has no `parts`".to_owned());
        }
        let (home, spread, inside) = (&self.home, &self.spread, &self.inside);
        let changed = &self.changed;
        let known = |root: Value| self.gathered[root].clone();
        let mut whole = |site: &mut Site<'_>, root: Value| {
            let mut base = root;
            while inside[base]
                && let Some(parent) = site.parent(base)
            {
                base = parent;
            }
            if site.writer(base).is_none() || site.is_known(base) || site.is_wanted_whole(base) {
                return Err("has a buffer that is not the function's own".to_owned());
            }
            if home[base].is_some() || home[root].is_some() {
                return Err("lies in another value too".to_owned());
            }
            if changed[root].is_some() || changed[base].is_some() {
                return Err("is changed later".to_owned());
            }
            let spread = spread[root].clone().ok_or("does not lie evenly")?;
            Ok(Whole { spread, base })
        };
        let pieces = self.site.gathered(op, &known, &mut whole)?;
        let result = data.results[0];
        if self.home[result].is_some() || self.pieces[result] {
            return Err("it is read in pieces, and written into another value".to_owned());
        }
        self.gathered[result] = Some(pieces);
        Ok(())
    }

    /// Checks that all readers of a root in pieces take these pieces.
    fn readers_of_pieces(&mut self, op: Op, root: Value, pieces: &Pieces) -> Result<(), Refused> {
        if self.site.is_wanted_whole(root) || self.site.is_known(root) {
            return Err((op, "is in pieces, and wanted whole".to_owned()));
        }
        for (reader, port, view) in self.site.uses(root).to_vec() {
            let results = &self.site.func.ops[reader].results;
            let gathers = |&r: &Value| self.gathered[r].is_some();
            if !results.is_empty() && results.iter().all(gathers) {
                continue;
            }
            let seen = self.site.viewed(view, pieces);
            let seen =
                seen.ok_or_else(|| (op, "is in pieces, and a view rearranges more".to_owned()))?;
            let Some(target) = self.target else { continue };
            takes_pieces(&self.site, target, reader, port, &seen).map_err(|e| {
                (
                    op,
                    format!("for `{}`, {e}", self.site.func.ops[reader].name),
                )
            })?;
        }
        Ok(())
    }

    /// Checks that all readers of a root take the strides with which it lies.
    fn readers(&mut self, op: Op, root: Value) -> Result<(), Refused> {
        let uses = self.site.uses(root).to_vec();
        if self.pieces[root] {
            let (writer, _) = self
                .site
                .writer(root)
                .ok_or((op, "an argument is written in pieces".to_owned()))?;
            if let Some(target) = self.target {
                writes_pieces(&self.site, target, writer).map_err(|e| (op, e))?;
            }
            if self.site.is_wanted_whole(root)
                || self.site.is_known(root)
                || self.site.parent(root).is_some()
            {
                return Err((op, "is written in pieces, and wanted whole".to_owned()));
            }
            return self.all_apart(op, root, &uses);
        }
        for (reader, port, _) in uses {
            if self.home[root] == Some(reader) && self.placed.contains(&(reader, port)) {
                continue;
            }
            if self.changed[root].is_some_and(|at| at <= self.position[reader]) {
                let name = &self.site.func.ops[reader].name;
                return Err((
                    op,
                    format!("`{name}` reads a value of which elements were replaced"),
                ));
            }
            let Some(spread) = &self.spread[root] else {
                return Err((
                    op,
                    "its elements do not lie evenly, and it has other readers".to_owned(),
                ));
            };
            let Some(target) = self.target else { continue };
            takes(&self.site, target, reader, Port::Operand(port), spread).map_err(|e| {
                (
                    op,
                    format!("for `{}`, {e}", self.site.func.ops[reader].name),
                )
            })?;
        }
        Ok(())
    }

    /// Checks that all readers take parts that lie in one value, have no elements in common, and together are the whole
    /// root.
    fn all_apart(&mut self, op: Op, root: Value, uses: &[Use]) -> Result<(), Refused> {
        let mut all: Vec<(Op, Part)> = Vec::new();
        let one_view = uses.iter().all(|&(.., v)| v == uses[0].2);
        for &(reader, ..) in uses {
            let parts = self.listed(reader)?;
            let results = self.site.func.ops[reader].results.len();
            let in_place = parts.iter().filter(|p| matches!(p.part, Port::Result(_)));
            if !one_view || in_place.count() != results {
                return Err((op, "is written in pieces, and read as a whole".to_owned()));
            }
            all.extend(parts.into_iter().map(|part| (reader, part)));
        }
        let elements = |v: Value| self.site.layout(v).map(|l| l.elements());
        let mut left = elements(root);
        let mut homes = Vec::with_capacity(all.len());
        for (cutter, part) in &all {
            let value = part.part.value(&self.site.func.ops[*cutter]);
            let size = value.and_then(elements);
            left = left.zip(size).and_then(|(n, k)| n.checked_sub(k));
            homes.push(value.and_then(|v| self.home[v]));
        }
        if left != Some(0) || homes.iter().any(|home| home.is_none() || *home != homes[0]) {
            return Err((
                op,
                "is written in pieces that do not all lie in one value".to_owned(),
            ));
        }
        for i in 0..all.len() {
            for j in 0..i {
                let (a, b) = (&all[i], &all[j]);
                if !self.site.apart((a.0, &a.1), (b.0, &b.1)) {
                    return Err((
                        op,
                        "is written in pieces that have elements in common".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Checks that an operation can write a result that lies in several pieces.
///
/// # Errors
/// It cannot; the text says why.
pub fn writes_pieces(site: &Site<'_>, target: &Target, op: Op) -> Result<(), String> {
    let data = &site.func.ops[op];
    if site.registry.structure(&data.name) == Structure::Convert {
        return Ok(());
    }
    let row = site
        .registry
        .get(&data.name)
        .and_then(|d| target.row(d.family_of(&site.func.op_ref(op))));
    match row.and_then(|row| row.parts) {
        Some(Parts::Any) => Ok(()),
        Some(Parts::Leading | Parts::Tiles) | None => {
            Err(format!("`{}` writes its result in one piece", data.name))
        }
    }
}
