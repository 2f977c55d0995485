//! Interned layouts: equal functions have equal ids, and every question about one is asked once.

use super::maps::FastMap;
use super::notation::spell;
use indexmap::IndexMap;
use optc_check::amount::{Amount, layout_bytes};
use optc_ir::entity::Table;
use optc_ir::size::{Size, SizeTable};
use optc_ir::{Dim, StandIns, entity_id};
use optc_layout::{Layout, Mode, Notation, ViewMap, propagate};
use optc_target::Target;
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
    by_hash: FastMap<u64, Vec<LayoutId>>,
    maps: Table<MapId, ViewMap>,
    /// Per map, the shape it is a map of.
    operands: Table<MapId, Vec<u64>>,
    joined: FastMap<(MapId, MapId), Option<MapId>>,
    inverses: FastMap<MapId, MapId>,
    map_ids: FastMap<(Vec<u64>, ViewMap), MapId>,
    propagated: FastMap<(LayoutId, MapId), Option<LayoutId>>,
    modes: FastMap<LayoutId, Option<Vec<Mode>>>,
    row_major: FastMap<(Vec<u64>, u32), LayoutId>,
    notations: RefCell<FastMap<LayoutId, Notation>>,
    /// What unknown sizes of the function at hand are called, where it has some.
    open: Option<Open>,
}

/// A function with unknown sizes.
#[derive(Clone)]
struct Open {
    numbers: StandIns,
    target: Arc<Target>,
    sizes: SizeTable,
    /// Bytes at those sizes.
    bytes: RefCell<IndexMap<LayoutId, u64>>,
    writable: IndexMap<LayoutId, bool>,
}

impl Layouts {
    /// Begins a function whose unknown sizes, if it has any, these numbers stand for: answers about
    /// layouts of another one no longer hold. Whether any are dropped.
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
        let anew = had || any;
        if anew {
            self.propagated.clear();
        }
        anew
    }

    /// Learns of a number that stands for a size without a name.
    pub(crate) fn adopt(&mut self, number: u64) {
        if let Some(open) = &mut self.open {
            open.numbers.adopt(number);
        }
    }

    /// Whether an extent stands for an unknown size.
    pub(crate) fn is_unknown(&self, extent: u64) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.numbers.stands(extent))
    }

    /// Whether an extent is at least `least`, whatever the unknown sizes.
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

    /// Whether a type can say the layout: its notation has no place for an unknown size.
    pub(crate) fn is_writable(&mut self, id: LayoutId) -> bool {
        let Some(open) = &mut self.open else {
            return true;
        };
        if let Some(&known) = open.writable.get(&id) {
            return known;
        }
        let text = spell(&self.layouts[id], &open.target).to_string();
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
        let id = self.layouts.push(layout);
        same.push(id);
        id
    }

    pub(crate) fn get(&self, id: LayoutId) -> &Layout {
        &self.layouts[id]
    }

    pub(crate) fn row_major(&mut self, shape: &[u64], bits: u32) -> LayoutId {
        if let Some(&id) = self.row_major.get(&(shape.to_vec(), bits)) {
            return id;
        }
        let id = self.intern(Layout::row_major(shape, bits));
        self.row_major.insert((shape.to_vec(), bits), id);
        id
    }

    /// The layout whose dimensions stand in this order, major to minor; row-major where that is none.
    pub(crate) fn ordered(&mut self, shape: &[u64], bits: u32, order: &[usize]) -> LayoutId {
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

    /// The one map that does what `first` and then `next` do, if there is one.
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

    /// The same map with at most one `?` among the sizes that it lists; a view can say no more.
    fn sayable(&self, operand: &[u64], map: ViewMap) -> Option<ViewMap> {
        let (Some(open), Some(perm), Some(shape)) = (&self.open, &map.perm, &map.shape) else {
            return Some(map);
        };
        let is_open = |&&n: &&u64| open.numbers.stands(n) && open.numbers.dim(n) == Dim::Unknown;
        if shape == operand || shape.iter().filter(is_open).count() <= 1 {
            return Some(map);
        }
        // Extents of 1 need no listing: the dimensions of the operand are transposed as they are.
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

    pub(crate) fn view_map(&self, id: MapId) -> &ViewMap {
        &self.maps[id]
    }

    /// The layout of the result for which `map` is a view of a value in `layout`, if there is one.
    pub(crate) fn forward(&mut self, layout: LayoutId, map: MapId) -> Option<LayoutId> {
        if let Some(&known) = self.propagated.get(&(layout, map)) {
            return known;
        }
        let answer = propagate(&self.layouts[layout], &self.maps[map]).ok();
        let id = answer.map(|l| self.intern(l));
        let id = id.filter(|&id| self.is_writable(id));
        self.propagated.insert((layout, map), id);
        if let (Some(id), Some(&back)) = (id, self.inverses.get(&map)) {
            self.propagated.entry((id, back)).or_insert(Some(layout));
        }
        id
    }

    /// The layout of the operand for which `map` gives a view in `layout`, if there is one.
    pub(crate) fn backward(&mut self, layout: LayoutId, map: MapId) -> Option<LayoutId> {
        let back = self.inverses[&map];
        self.forward(layout, back)
    }

    pub(crate) fn modes(&mut self, id: LayoutId) -> Option<Vec<Mode>> {
        if let Some(known) = self.modes.get(&id) {
            return known.clone();
        }
        let modes = self.layouts[id].modes();
        self.modes.insert(id, modes.clone());
        modes
    }

    /// Bytes of a layout, padding included, at the sizes that costs are compared at.
    pub(crate) fn bytes(&self, id: LayoutId) -> u64 {
        let Some(open) = &self.open else {
            return self.layouts[id].bytes();
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

    /// How a layout is written, by `spell` when it is asked for the first time.
    pub(crate) fn notation(
        &self,
        id: LayoutId,
        spell: impl FnOnce(&Layout) -> Notation,
    ) -> Notation {
        let mut known = self.notations.borrow_mut();
        let notation = known.entry(id).or_insert_with(|| spell(self.get(id)));
        notation.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.layouts.len()
    }
}

/// The map that undoes `map` on a value of shape `operand`.
fn invert(operand: &[u64], map: &ViewMap) -> ViewMap {
    let shape = map.shape.clone().unwrap_or_else(|| operand.to_vec());
    let Some(perm) = &map.perm else {
        return ViewMap {
            shape: None,
            perm: None,
            result: operand.to_vec(),
        };
    };
    let permuted: Vec<u64> = perm.iter().map(|&p| shape[p]).collect();
    let mut inverse = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    ViewMap {
        shape: Some(permuted),
        perm: Some(inverse),
        result: operand.to_vec(),
    }
}

impl std::fmt::Debug for Layouts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} layouts", self.len())
    }
}
