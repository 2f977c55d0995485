//! Interned layouts: equal functions have equal ids, and answers about them are memoized.
//!
//! Example: the order `[0, 1]` of `tensor<4x6xf32>` and the digits `4:d0 6:d1` are both row-major, so they have one id.

use super::maps::FastMap;
use super::notation::spell;
use super::physical::{Physical, Place};
use indexmap::{Equivalent, IndexMap};
use optc_check::amount::{Amount, layout_bytes};
use optc_ir::entity::{EntityId, Table};
use optc_ir::size::{Size, SizeTable};
use optc_ir::{Dim, StandIns, entity_id};
use optc_layout::{Layout, Mode, Notation, ViewMap, XlaNotation, propagate};
use optc_target::Target;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

entity_id! {
    /// A layout function over one shape.
    LayoutId, "L"
}
entity_id! {
    /// A logical map between two shapes.
    MapId, "m"
}

/// The interner.
#[derive(Clone, Default)]
pub(crate) struct Layouts {
    layouts: Table<LayoutId, Layout>,
    /// Per layout, its bytes and how many of them hold no element.
    sizes: Table<LayoutId, [u64; 2]>,
    by_hash: FastMap<u64, SmallVec<[LayoutId; 4]>>,
    maps: Table<MapId, ViewMap>,
    /// Per map, the shape of its operand.
    operands: Table<MapId, Vec<u64>>,
    joined: FastMap<(MapId, MapId), Option<MapId>>,
    inverses: FastMap<MapId, MapId>,
    map_ids: FastMap<(Vec<u64>, ViewMap), MapId>,
    propagated: FastMap<(LayoutId, MapId), Option<LayoutId>>,
    /// By layout; `None` where not computed yet.
    modes: Vec<Option<Option<Arc<[Mode]>>>>,
    /// Per layout, the layout of its own digits alone.
    of_own_digits: FastMap<LayoutId, Option<LayoutId>>,
    row_major: FastMap<(Vec<u64>, u32), LayoutId>,
    /// By shape, element width and digits; `None` where the digits are no layout.
    of_modes: FastMap<(Vec<u64>, u32, Vec<Mode>), Option<LayoutId>>,
    notations: RefCell<FastMap<LayoutId, Notation>>,
    /// Names of unknown sizes, for a function that has some.
    open: Option<Open>,
    /// The machine, where it has tiles and all sizes are known.
    machine: Option<Arc<Target>>,
    /// The physical forms of layouts on that machine.
    forms: FastMap<LayoutId, Option<Arc<Physical>>>,
    /// Layouts of forms, memoized.
    formed: FastMap<(Vec<u64>, u32, Physical), Option<LayoutId>>,
}

/// A borrowed key for lookups in [`Layouts::row_major`].
#[derive(Hash)]
struct Shaped<'a>(&'a [u64], u32);

impl Equivalent<(Vec<u64>, u32)> for Shaped<'_> {
    fn equivalent(&self, key: &(Vec<u64>, u32)) -> bool {
        self.1 == key.1 && *self.0 == *key.0
    }
}

/// A borrowed key for lookups in [`Layouts::of_modes`].
#[derive(Hash)]
struct Digits<'a>(&'a [u64], u32, &'a [Mode]);

impl Equivalent<(Vec<u64>, u32, Vec<Mode>)> for Digits<'_> {
    fn equivalent(&self, key: &(Vec<u64>, u32, Vec<Mode>)) -> bool {
        self.1 == key.1 && *self.0 == *key.0 && *self.2 == *key.2
    }
}

/// A function with unknown sizes.
#[derive(Clone)]
struct Open {
    numbers: StandIns,
    target: Arc<Target>,
    sizes: SizeTable,
    /// Bytes at the sizes that costs are compared at.
    bytes: RefCell<IndexMap<LayoutId, u64>>,
    writable: IndexMap<LayoutId, bool>,
}

impl Open {
    /// A notation of a layout without numbers that stand for unknown sizes, as far as it can avoid them.
    fn named(&self, notation: Notation, layout: &Layout) -> Notation {
        notation.with_whole_digits(layout.shape(), &|extent| self.numbers.stands(extent))
    }
}

impl Layouts {
    /// No layouts, of values whose sizes are known.
    pub(crate) fn on(target: &Arc<Target>) -> Layouts {
        Layouts {
            machine: target.is_tiled().then(|| Arc::clone(target)),
            ..Layouts::default()
        }
    }

    /// Begins a function. `numbers` stand for its unknown sizes, if `any`. Memoized answers about layouts of another
    /// function no longer hold. Returns whether some were dropped.
    pub(crate) fn begin(
        &mut self,
        numbers: &StandIns,
        any: bool,
        sizes: &SizeTable,
        target: &Arc<Target>,
    ) -> bool {
        let had = self.open.take().is_some();
        if any {
            self.open = Some(Open {
                numbers: numbers.clone(),
                target: Arc::clone(target),
                sizes: sizes.clone(),
                bytes: RefCell::default(),
                writable: IndexMap::new(),
            });
        }
        // Numbers that stand for unknown sizes have no tiles: such functions are laid out without tiles.
        let machine = (target.is_tiled() && !any).then(|| Arc::clone(target));
        let had = had || machine.is_some() != self.machine.is_some();
        if had || any {
            self.row_major.clear();
            self.forms.clear();
            self.formed.clear();
        }
        self.machine = machine;
        let anew = had || any;
        if anew {
            self.propagated.clear();
            self.notations.get_mut().clear();
        }
        anew
    }

    /// Records a number that stands for a size without a name.
    pub(crate) fn adopt(&mut self, number: u64) {
        if let Some(open) = &mut self.open {
            open.numbers.adopt(number);
        }
    }

    /// Returns whether an extent stands for an unknown size.
    pub(crate) fn is_unknown(&self, extent: u64) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.numbers.stands(extent))
    }

    /// Returns whether an extent is at least `least`, whatever the unknown sizes are.
    pub(crate) fn is_at_least(&self, extent: u64, least: u64) -> bool {
        match self
            .open
            .as_ref()
            .filter(|open| open.numbers.stands(extent))
        {
            None => least <= extent,
            Some(open) => {
                let size = open.numbers.size(extent);
                size.is_some_and(|size| size.is_at_least(i128::from(least)))
            }
        }
    }

    /// Returns whether a type can state the layout. It cannot if the notation would contain an unknown size.
    pub(crate) fn is_writable(&mut self, id: LayoutId) -> bool {
        let Some(open) = &mut self.open else {
            return true;
        };
        if let Some(&known) = open.writable.get(&id) {
            return known;
        }
        let written = spell(&self.layouts[id], &open.target);
        let text = open.named(written, &self.layouts[id]).to_string();
        let writable = open.numbers.reword(&text) == text;
        open.writable.insert(id, writable);
        writable
    }

    /// Bytes of a layout, padding included.
    pub(crate) fn amount(&self, id: LayoutId) -> Amount {
        let layout = &self.layouts[id];
        match &self.open {
            None => Amount::from(Size::from(layout.bytes())),
            Some(open) => layout_bytes(layout, &open.numbers, &open.sizes),
        }
    }

    pub(crate) fn intern(&mut self, layout: Layout) -> LayoutId {
        let same = self.by_hash.entry(layout.function_hash()).or_default();
        for &id in same.iter() {
            let known = &self.layouts[id];
            if known.shape() == layout.shape() && known.same_function(&layout) {
                return id;
            }
        }
        let bytes = layout.bytes();
        let bits = layout
            .elements()
            .saturating_mul(u64::from(layout.elem_bits()));
        let id = self.layouts.push(layout);
        self.sizes
            .push([bytes, bytes.saturating_sub(bits.div_ceil(8))]);
        same.push(id);
        id
    }

    /// The layout of these digits, major to minor.
    pub(crate) fn of_modes(
        &mut self,
        shape: &[u64],
        bits: u32,
        modes: &[Mode],
    ) -> Option<LayoutId> {
        if let Some(&known) = self.of_modes.get(&Digits(shape, bits, modes)) {
            return known;
        }
        let layout = Layout::from_modes(shape, bits, modes).ok();
        let id = layout.map(|layout| self.intern(layout));
        let key = (shape.to_vec(), bits, modes.to_vec());
        self.of_modes.insert(key, id);
        id
    }

    /// The layout that consists of a layout's own digits, found once.
    pub(crate) fn of_own_digits(
        &mut self,
        id: LayoutId,
        find: impl FnOnce(&mut Layouts) -> Option<LayoutId>,
    ) -> Option<LayoutId> {
        if let Some(&known) = self.of_own_digits.get(&id) {
            return known;
        }
        let found = find(self);
        self.of_own_digits.insert(id, found);
        found
    }

    pub(crate) fn get(&self, id: LayoutId) -> &Layout {
        &self.layouts[id]
    }

    pub(crate) fn row_major(&mut self, shape: &[u64], bits: u32) -> LayoutId {
        if let Some(&id) = self.row_major.get(&Shaped(shape, bits)) {
            return id;
        }
        let form = match self.is_plain(bits) {
            true => Physical::plain(shape, &Vec::from_iter(0..shape.len()), None),
            false => Physical::natural(shape),
        };
        let tiled = self.formed(shape, bits, &form);
        let id = tiled.unwrap_or_else(|| self.intern(Layout::row_major(shape, bits)));
        self.row_major.insert((shape.to_vec(), bits), id);
        id
    }

    /// Returns whether values lie in the tiles of a machine.
    pub(crate) fn is_tiled(&self) -> bool {
        self.machine.is_some()
    }

    /// Returns whether elements of this width may lie without tiles, on a machine with tiles.
    pub(crate) fn is_plain(&self, bits: u32) -> bool {
        let machine = self.machine.as_ref();
        machine.is_some_and(|m| m.plain(bits).is_some())
    }

    /// The layout of a form, on a machine with tiles.
    pub(crate) fn formed(&mut self, shape: &[u64], bits: u32, form: &Physical) -> Option<LayoutId> {
        let machine = self.machine.clone()?;
        let form = &form.clone().canonical(shape.len(), bits, &machine);
        let key = (shape.to_vec(), bits, form.clone());
        if let Some(&known) = self.formed.get(&key) {
            return known;
        }
        let layout = form.layout(shape, bits, &machine);
        let id = layout.map(|layout| self.intern(layout));
        if let Some(id) = id {
            self.forms
                .entry(id)
                .or_insert_with(|| Some(Arc::new(form.clone())));
        }
        self.formed.insert(key, id);
        id
    }

    /// The form of a layout, on a machine with tiles. A layout has one if it was built from a form or is XLA's text.
    pub(crate) fn form(&mut self, id: LayoutId) -> Option<Arc<Physical>> {
        let machine = self.machine.clone()?;
        if let Some(known) = self.forms.get(&id) {
            return known.clone();
        }
        let layout = self.layouts[id].clone();
        let (shape, bits) = (layout.shape(), layout.elem_bits());
        let plain = self.is_plain(bits).then(|| self.modes(id)).flatten();
        let plain = plain.and_then(|modes| Physical::of_modes(&modes, bits, &machine));
        let read = match layout.notation() {
            Notation::Xla(xla) if plain.is_none() => Physical::of_text(xla, shape),
            _ => plain,
        };
        // A notation may be the algebra's way to write a function. Its tiles then are not the machine's.
        let read = read.filter(|form| form.is_of(bits, &machine));
        let same = |form: &Physical| {
            let built = form.layout(shape, bits, &machine);
            built.is_some_and(|built| built.same_function(&layout))
        };
        // The text of a machine's own tile adds nothing to the form.
        let free = read.clone().map(|form| Physical {
            stated: None,
            ..form
        });
        let form = free.filter(same).or_else(|| read.filter(same));
        let form = form.map(|form| form.canonical(shape.len(), bits, &machine));
        let form = form.filter(same).map(Arc::new);
        self.forms.insert(id, form.clone());
        form
    }

    /// The layout that a text means on a machine with tiles. An order without tiles means the machine's tiles.
    pub(crate) fn on_machine(&mut self, layout: Layout) -> LayoutId {
        if self.is_plain(layout.elem_bits()) {
            return self.intern(layout);
        }
        let form = match (self.is_tiled(), layout.notation()) {
            (true, Notation::RowMajor) => Some(Physical::natural(layout.shape())),
            (true, Notation::Xla(xla)) if xla.tiles().is_empty() => {
                Physical::of_text(xla, layout.shape())
            }
            _ => None,
        };
        let formed = form.and_then(|f| self.formed(layout.shape(), layout.elem_bits(), &f));
        formed.unwrap_or_else(|| self.intern(layout))
    }

    /// Positions of one tile run of rows and lanes of these extents, padding included.
    pub(crate) fn padded(&self, rank: usize, bits: u32, rows: u64, lanes: u64) -> u64 {
        let Some(machine) = &self.machine else {
            return rows.saturating_mul(lanes);
        };
        let tiles = match rank {
            0 | 1 => machine.tiles(bits, &[lanes]),
            _ => machine.tiles(bits, &[rows, lanes]),
        };
        match tiles.first().map(Vec::as_slice) {
            Some(&[r, l]) => {
                let rows = rows.next_multiple_of(r.max(1));
                rows.saturating_mul(lanes.next_multiple_of(l.max(1)))
            }
            Some(&[l]) => rows.saturating_mul(lanes.next_multiple_of(l.max(1))),
            _ => rows.saturating_mul(lanes),
        }
    }

    /// The positions of a run of this many elements in lanes, the padding of rows left aside.
    pub(crate) fn in_lanes(&self, bits: u32, run: u64) -> u64 {
        match self.is_plain(bits) {
            true => self.padded(2, bits, 1, run),
            false => run.next_multiple_of(self.lanes(bits)),
        }
    }

    /// The fewest lanes of the machine's tiles for elements of this width; 1 without tiles.
    pub(crate) fn lanes(&self, bits: u32) -> u64 {
        let machine = self.machine.as_ref();
        let tiles = |shape: [u64; 2]| machine.map(|m| m.tiles(bits, &shape));
        let sizes = [1, 1 << 20].into_iter();
        let shapes = sizes.flat_map(|rows| [1, 1 << 20].map(|lanes| [rows, lanes]));
        let lanes = shapes.map(|shape| rows_and_lanes(tiles(shape).as_deref())[1]);
        lanes.min().unwrap_or(1).max(1)
    }

    /// Returns whether elements of two widths have the same number of lanes.
    pub(crate) fn have_same_lanes(&self, a: u32, b: u32) -> bool {
        a == b || self.lanes(a) == self.lanes(b)
    }

    /// The rows of the machine's largest tile for elements of this width.
    pub(crate) fn most_rows(&self, bits: u32) -> u64 {
        let tiles = self.machine.as_ref().map(|m| m.full_tiles(bits));
        rows_and_lanes(tiles.as_deref())[0]
    }

    /// Rows and lanes of the tile of a layout; 1 where it has none.
    pub(crate) fn tile(&mut self, id: LayoutId) -> [u64; 2] {
        let (machine, form) = (self.machine.clone(), self.form(id));
        let layout = &self.layouts[id];
        let tiles = form
            .zip(machine)
            .and_then(|(form, machine)| form.tiles_of(layout.rank(), layout.elem_bits(), &machine));
        rows_and_lanes(tiles.as_deref())
    }

    /// Returns whether the rows of a layout's tile could number tiles as well: no row is padded, one tile is as wide as
    /// the value, and nothing is packed. Tiles of one row then are the same function.
    pub(crate) fn is_loose(&mut self, id: LayoutId) -> bool {
        let (Some(machine), Some(form)) = (self.machine.clone(), self.form(id)) else {
            return false;
        };
        let layout = &self.layouts[id];
        let tiles = form.tiles_of(layout.rank(), layout.elem_bits(), &machine);
        let Some([tile]) = tiles.as_deref() else {
            return false;
        };
        let [rows, lanes] = tile.as_slice() else {
            return false;
        };
        let extent = |place| form.at(place).fold(1u64, |n, d| n.saturating_mul(d.extent));
        extent(Place::Row).is_multiple_of(*rows) && extent(Place::Lane) <= *lanes
    }

    /// Bytes of a layout that hold no element.
    pub(crate) fn padding(&self, id: LayoutId) -> u64 {
        if self.open.is_some() {
            return 0;
        }
        self.sizes[id][1]
    }

    /// Records the form of the layout that a map makes of another one.
    fn follow(&mut self, from: LayoutId, map: MapId, to: LayoutId) {
        if self.machine.is_none() || self.forms.contains_key(&to) {
            return;
        }
        let (Some(machine), Some(form)) = (self.machine.clone(), self.form(from)) else {
            return;
        };
        let (shape, bits) = (
            self.layouts[from].shape().to_vec(),
            self.layouts[from].elem_bits(),
        );
        let Some(through) = form.through(&shape, &self.maps[map]) else {
            return;
        };
        let layout = self.layouts[to].clone();
        let same = |form: &Physical| {
            let built = form.layout(layout.shape(), bits, &machine);
            built.is_some_and(|built| built.same_function(&layout))
        };
        // If the rank alone decides the format, the tiles stay those of the operand.
        let found = if same(&through) {
            Some(through)
        } else {
            let tiles = form.tiles_of(shape.len(), bits, &machine);
            let stated = Physical {
                stated: tiles,
                ..through
            };
            same(&stated).then_some(stated)
        };
        let found = found
            .map(|form| form.canonical(layout.rank(), bits, &machine))
            .filter(same);
        if let Some(found) = found {
            self.forms.insert(to, Some(Arc::new(found)));
        }
    }

    /// The layout whose dimensions stand in this order, major to minor; row-major where `order` is no permutation.
    pub(crate) fn ordered(&mut self, shape: &[u64], bits: u32, order: &[usize]) -> LayoutId {
        let form = match self.is_plain(bits) {
            true => Physical::plain(shape, order, None),
            false => Physical::of_order(shape, order),
        };
        if let Some(id) = self.formed(shape, bits, &form) {
            return id;
        }
        match Layout::from_order(shape, bits, order) {
            Ok(layout) => self.intern(layout),
            Err(_) => self.row_major(shape, bits),
        }
    }

    /// Interns a map from `operand`'s shape; its inverse is known from then on.
    pub(crate) fn map(&mut self, operand: &[u64], map: ViewMap) -> MapId {
        let key = (operand.to_vec(), map);
        if let Some(&id) = self.map_ids.get(&key) {
            return id;
        }
        let inverse = invert(&key.0, &key.1);
        let id = self.maps.push(key.1.clone());
        let back = self.maps.push(inverse.clone());
        self.operands.push(operand.to_vec());
        self.operands.push(key.1.result.clone());
        self.inverses.insert(id, back);
        self.inverses.insert(back, id);
        let result = key.1.result.clone();
        self.map_ids.insert(key, id);
        self.map_ids.entry((result, inverse)).or_insert(back);
        id
    }

    /// The one map that equals `first` followed by `next`, if there is one.
    pub(crate) fn join(&mut self, first: MapId, next: MapId) -> Option<MapId> {
        if let Some(&known) = self.joined.get(&(first, next)) {
            return known;
        }
        let operand = self.operands[first].clone();
        let joined = self.maps[first].then(&operand, &self.maps[next]);
        let joined = joined.and_then(|map| self.sayable(&operand, map));
        let id = joined.map(|map| self.map(&operand, map));
        self.joined.insert((first, next), id);
        id
    }

    /// The same map with at most one `?` among its listed sizes. A view cannot state more than one.
    fn sayable(&self, operand: &[u64], map: ViewMap) -> Option<ViewMap> {
        let (Some(open), Some(perm), Some(shape)) = (&self.open, &map.perm, &map.shape) else {
            return Some(map);
        };
        let is_open = |&&n: &&u64| open.numbers.stands(n) && open.numbers.dim(n) == Dim::Unknown;
        if shape == operand || shape.iter().filter(is_open).count() <= 1 {
            return Some(map);
        }
        // Extents of 1 need no listing: the operand's dimensions can be transposed as they are.
        let long =
            |sizes: &[u64]| -> Vec<usize> { (0..sizes.len()).filter(|&d| sizes[d] != 1).collect() };
        let (from, to) = (long(operand), long(shape));
        let same =
            from.len() == to.len() && from.iter().zip(&to).all(|(&a, &b)| operand[a] == shape[b]);
        if !same {
            return None;
        }
        let at = |d: &usize| to.iter().position(|t| t == d).map(|i| from[i]);
        let mut through: Vec<usize> = perm.iter().filter_map(at).collect();
        through.extend((0..operand.len()).filter(|&d| operand[d] == 1));
        Some(ViewMap {
            shape: None,
            perm: Some(through),
            result: map.result,
        })
    }

    /// The map that undoes a map.
    pub(crate) fn inverse(&self, map: MapId) -> MapId {
        self.inverses[&map]
    }

    pub(crate) fn view_map(&self, id: MapId) -> &ViewMap {
        &self.maps[id]
    }

    /// The result's layout for which `map` is a view of a value in `layout`, if there is one.
    pub(crate) fn forward(&mut self, layout: LayoutId, map: MapId) -> Option<LayoutId> {
        if let Some(&known) = self.propagated.get(&(layout, map)) {
            return known;
        }
        let answer = propagate(&self.layouts[layout], &self.maps[map]).ok();
        let id = answer.map(|l| self.intern(l));
        let id = id.filter(|&id| self.is_writable(id));
        self.propagated.insert((layout, map), id);
        if let Some(id) = id {
            self.follow(layout, map, id);
        }
        if let (Some(id), Some(&back)) = (id, self.inverses.get(&map)) {
            self.propagated.entry((id, back)).or_insert(Some(layout));
        }
        id
    }

    /// The operand's layout for which `map` gives a view in `layout`, if there is one.
    pub(crate) fn backward(&mut self, layout: LayoutId, map: MapId) -> Option<LayoutId> {
        let back = self.inverses[&map];
        self.forward(layout, back)
    }

    pub(crate) fn modes(&mut self, id: LayoutId) -> Option<Arc<[Mode]>> {
        if let Some(Some(known)) = self.modes.get(id.index()) {
            return known.clone();
        }
        let modes = self.layouts[id].modes().map(Arc::from);
        if self.modes.len() <= id.index() {
            self.modes.resize(self.layouts.len(), None);
        }
        self.modes[id.index()] = Some(modes.clone());
        modes
    }

    /// Bytes of a layout, padding included, at the sizes that costs are compared at.
    pub(crate) fn bytes(&self, id: LayoutId) -> u64 {
        let Some(open) = &self.open else {
            return self.sizes[id][0];
        };
        if let Some(&known) = open.bytes.borrow().get(&id) {
            return known;
        }
        let bytes = self.amount(id).at(&open.sizes);
        open.bytes.borrow_mut().insert(id, bytes);
        bytes
    }

    /// Unpadded bytes of a shape that has unknown sizes, at the sizes that costs are compared at.
    pub(crate) fn symbolic_bytes(&self, shape: &[u64], bits: u32) -> Option<u64> {
        let open = self.open.as_ref()?;
        let layout = Layout::row_major(shape, bits);
        Some(layout_bytes(&layout, &open.numbers, &open.sizes).at(&open.sizes))
    }

    /// XLA's text of a layout in tiles, where each place of the tile has one whole dimension.
    fn xla_text(&self, id: LayoutId) -> Option<Notation> {
        let machine = self.machine.as_ref()?;
        let form = self.forms.get(&id)?.as_ref()?;
        let layout = &self.layouts[id];
        if self.is_plain(layout.elem_bits()) {
            return None;
        }
        let shape = layout.shape();
        let tiles = form.tiles_of(shape.len(), layout.elem_bits(), machine)?;
        let mut major: Vec<usize> = (0..shape.len()).filter(|&d| shape[d] == 1).collect();
        let places = [Place::Grid, Place::Row, Place::Lane];
        let wanted = tiles.first().map_or(0, Vec::len);
        for place in places {
            let dims: Vec<usize> = form.at(place).map(|d| d.dim).collect();
            let in_tile = match place {
                Place::Grid | Place::Short => false,
                Place::Row => 2 <= wanted,
                Place::Lane => 1 <= wanted,
            };
            if dims.is_empty() && in_tile {
                // A dimension of extent 1 fills an empty place.
                if major.first().is_some_and(|&d| shape[d] == 1) {
                    let unit = major.remove(0);
                    major.push(unit);
                } else if !shape.is_empty() {
                    return None;
                }
            }
            major.extend(dims);
        }
        let minor: Vec<String> = major.iter().rev().map(usize::to_string).collect();
        let tiles = match wanted {
            0 => String::new(),
            _ => format!(":{}", optc_target::tiles_text(&tiles)),
        };
        let text = format!("{}{tiles}", minor.join(","));
        let notation = XlaNotation::parse(&text, shape.len()).ok()?;
        let notation = Notation::Xla(notation.packed(layout.elem_bits()));
        let same = Layout::new(notation.clone(), shape, layout.elem_bits()).ok()?;
        same.same_function(layout).then_some(notation)
    }

    /// The notation of a layout, made by `spell` at the first request.
    pub(crate) fn notation(
        &self,
        id: LayoutId,
        spell: impl FnOnce(&Layout) -> Notation,
    ) -> Notation {
        let mut known = self.notations.borrow_mut();
        let written = || {
            let text = self.xla_text(id).unwrap_or_else(|| spell(self.get(id)));
            match &self.open {
                Some(open) => open.named(text, self.get(id)),
                None => text,
            }
        };
        let notation = known.entry(id).or_insert_with(written);
        notation.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.layouts.len()
    }
}

/// Rows and lanes of the outermost of these tiles; 1 where there is none.
pub(crate) fn rows_and_lanes(tiles: Option<&[Vec<u64>]>) -> [u64; 2] {
    match tiles.and_then(|t| t.first()).map(Vec::as_slice) {
        Some(&[rows, lanes]) => [rows, lanes],
        Some(&[lanes]) => [1, lanes],
        _ => [1, 1],
    }
}

/// The map that undoes `map` on a value of shape `operand`.
fn invert(operand: &[u64], map: &ViewMap) -> ViewMap {
    let inverse = map.perm.as_ref().map(|_| map.inverse(operand));
    let inverse = inverse.and_then(Result::ok);
    inverse.unwrap_or_else(|| ViewMap::reshape(operand))
}

impl std::fmt::Debug for Layouts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} layouts", self.len())
    }
}
