//! Interned signatures, and memoized answers about them.

use super::layouts::{LayoutId, Layouts};
use super::maps::{FastMap, FastSet};
use super::orders::{Followed, transfers};
use super::price;
use super::rows::{default_layout, takes_layout};
use super::signature::{Signature, SignatureId};
use super::tiled::{self, InLanes};
use optc_ir::entity::EntityId;
use std::cell::RefCell;
use std::sync::Arc;

/// The number of layouts of least padding that are offered at a port that takes tiles by roles.
const CHEAPEST: usize = 2;

/// A signature, a port, and what is known of its lanes.
type LeastKey = (SignatureId, usize, Option<InLanes>);

/// Layouts at other ports that fit a layout at some port.
type Transfers = Arc<[(usize, LayoutId)]>;

/// Interned signatures and their memoized answers.
#[derive(Clone, Default)]
pub(crate) struct Signatures {
    known: FastSet<Arc<Signature>>,
    defaults: RefCell<FastMap<(SignatureId, usize), LayoutId>>,
    transfers: FastMap<(SignatureId, usize, LayoutId), Transfers>,
    followed: FastMap<SignatureId, Followed>,
    least: RefCell<FastMap<LeastKey, u64>>,
    admitted: RefCell<FastMap<(SignatureId, usize, LayoutId), bool>>,
    cheapest: FastMap<(SignatureId, usize), Arc<[LayoutId]>>,
    uncut: FastMap<(SignatureId, usize), Arc<[LayoutId]>>,
    cheaper: FastMap<(SignatureId, usize), Option<LayoutId>>,
}

impl Signatures {
    /// Drops answers that depend on layouts: those for a function with unknown sizes do not hold for another function.
    pub(crate) fn forget(&mut self) {
        self.transfers.clear();
        self.followed.clear();
        self.least.borrow_mut().clear();
        self.admitted.borrow_mut().clear();
        self.cheapest.clear();
        self.uncut.clear();
    }

    /// The signatures, with the memoized answers about single ports alone.
    pub(crate) fn of_ports(&self) -> Signatures {
        Signatures {
            known: self.known.clone(),
            defaults: self.defaults.clone(),
            ..Signatures::default()
        }
    }

    pub(crate) fn intern(&mut self, signature: Signature) -> SignatureId {
        SignatureId::from_index(self.known.insert_full(Arc::new(signature)).0)
    }

    pub(crate) fn get(&self, id: SignatureId) -> &Signature {
        &self.known[id.index()]
    }

    /// A signature that can be kept without copying its lists of ports.
    pub(crate) fn shared(&self, id: SignatureId) -> Arc<Signature> {
        self.known[id.index()].clone()
    }

    /// Returns whether `is_so` holds for some signature.
    pub(crate) fn any(&self, is_so: impl Fn(&Signature) -> bool) -> bool {
        self.known.iter().any(|sig| is_so(sig))
    }

    /// [`tiled::least_padding`], computed once a signature and port.
    pub(crate) fn least_padding(
        &self,
        layouts: &Layouts,
        id: SignatureId,
        port: usize,
        lanes: Option<InLanes>,
    ) -> u64 {
        if let Some(&known) = self.least.borrow().get(&(id, port, lanes)) {
            return known;
        }
        let least = tiled::least_padding(self.get(id), layouts, port, lanes);
        self.least.borrow_mut().insert((id, port, lanes), least);
        least
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// [`default_layout`], computed once a signature and port.
    pub(crate) fn default_at(
        &self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
    ) -> LayoutId {
        if let Some(&known) = self.defaults.borrow().get(&(id, port)) {
            return known;
        }
        let default = default_layout(self.get(id), layouts, port);
        self.defaults.borrow_mut().insert((id, port), default);
        default
    }

    /// [`accepts_layout`](super::rows::accepts_layout), computed once a signature, port and layout.
    pub(crate) fn accepts(
        &self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
        layout: LayoutId,
    ) -> bool {
        if let Some(&known) = self.admitted.borrow().get(&(id, port, layout)) {
            return known;
        }
        let default = self.default_at(layouts, id, port);
        let answer = layout == default || takes_layout(self.get(id), layouts, port, layout);
        self.admitted
            .borrow_mut()
            .insert((id, port, layout), answer);
        answer
    }

    /// [`tiled::cheapest`], computed once a signature and port.
    pub(crate) fn cheapest(
        &mut self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
    ) -> Arc<[LayoutId]> {
        let sig = &self.known[id.index()];
        let known = self.cheapest.entry((id, port));
        known
            .or_insert_with(|| tiled::cheapest(sig, layouts, port, CHEAPEST).into())
            .clone()
    }

    /// [`price::cheaper_order`] than the default, computed once a signature and port.
    pub(crate) fn cheaper_order(
        &mut self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
    ) -> Option<LayoutId> {
        if !self.get(id).has_order_prices() {
            return None;
        }
        if let Some(known) = self.cheaper.get(&(id, port)) {
            return *known;
        }
        let default = self.default_at(layouts, id, port);
        let found = price::cheaper_order(self.get(id), layouts, port, default);
        self.cheaper.insert((id, port), found);
        found
    }

    /// [`tiled::uncut`], computed once a signature.
    pub(crate) fn uncut(
        &mut self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
    ) -> Arc<[LayoutId]> {
        let sig = &self.known[id.index()];
        let known = self.uncut.entry((id, port));
        known
            .or_insert_with(|| tiled::uncut(sig, layouts, port, CHEAPEST).into())
            .clone()
    }

    /// Layouts at other ports that fit this layout at this port.
    pub(crate) fn transfers(
        &mut self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
        layout: LayoutId,
    ) -> Transfers {
        if let Some(known) = self.transfers.get(&(id, port, layout)) {
            return known.clone();
        }
        let answer: Transfers = if self.accepts(layouts, id, port, layout) {
            let followed = self.followed.entry(id).or_default();
            transfers(&self.known[id.index()], layouts, followed, port, layout).into()
        } else {
            Arc::new([])
        };
        self.transfers.insert((id, port, layout), answer.clone());
        answer
    }
}
