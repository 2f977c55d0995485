//! Places boxes in ranks, one below another, with few crossings and short wires.
//!
//! Sugiyama's method: ranks by the longest path, dummy nodes where a wire passes a rank, sweeps that order each rank by
//! the mean position of adjacent nodes, and coordinates that follow adjacent nodes as closely as the widths of boxes
//! allow. A value with many readers is one wire that forks as late as possible. Example: boxes `a → b → d` and `a → d`
//! get the ranks 0, 1, 2; the wire from `a` to `d` passes rank 1 beside `b`.
//!
//! All limits count rounds. The result is the same on every machine, since it depends only on additions, products and
//! comparisons.

/// The number of rounds that improve the order of all ranks; more rounds found no fewer crossings on transformer and
/// Swin blocks.
const ORDER_ROUNDS: usize = 12;
/// The number of rounds that swap adjacent entries after that, in ranks of at most `WIDEST_SWAPPED` entries.
const SWAP_ROUNDS: usize = 4;
const WIDEST_SWAPPED: usize = 40;
/// The number of rounds in which coordinates follow those of adjacent nodes.
const PLACE_ROUNDS: usize = 24;
/// The free space between two boxes of a rank, and between a box and a wire that passes it.
const BOX_GAP: f64 = 22.0;
const WIRE_GAP: f64 = 14.0;
/// The least and the greatest distance between two ranks, and the fraction of a wire's horizontal extent that it needs
/// as height.
const RANK_GAP: (f64, f64) = (20.0, 64.0);
const SLANT: f64 = 0.09;

/// The constraint on the rank of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Any rank.
    Free,
    /// The first rank, shared only with others of this kind: a wire enters here.
    First,
    /// The last rank, shared only with others of this kind: a wire leaves here.
    Last,
}

/// A box with the positions on its upper and lower edge where wires end, from its left edge.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) ins: Vec<f64>,
    pub(crate) outs: Vec<f64>,
    pub(crate) place: Rank,
}

/// One end of a wire: a box, and the number of a position on its edge.
pub(crate) type End = (usize, usize);

/// A wire from a lower edge to the upper edges of boxes with higher numbers.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    pub(crate) from: End,
    pub(crate) to: Vec<End>,
}

/// A piece of a wire between two ranks: straight down, across the space between the ranks, and straight down again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) net: usize,
    /// The start.
    pub(crate) from: (f64, f64),
    /// The heights between which it crosses to the other side.
    pub(crate) cross: (f64, f64),
    /// The end.
    pub(crate) to: (f64, f64),
    /// The box at which it starts, unless it comes from a rank above.
    pub(crate) source: Option<usize>,
    /// The box at which it ends, unless it continues to a rank below.
    pub(crate) target: Option<usize>,
}

/// Boxes and wires with coordinates; x grows to the right and y downwards, both from 0.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// The upper left corner of each box.
    pub(crate) at: Vec<(f64, f64)>,
    pub(crate) pieces: Vec<Piece>,
}

/// Places boxes; every wire must lead from a lower number to higher ones.
pub(crate) fn place(cells: &[Cell], nets: &[Net]) -> Placed {
    let ranks = ranks(cells, nets);
    let mut grid = Grid::new(cells, nets, &ranks);
    grid.reduce_crossings();
    grid.assign_x();
    grid.placed(cells, nets)
}

/// The rank of each box: below all boxes that it reads, and close to its readers if that makes the wires shorter.
fn ranks(cells: &[Cell], nets: &[Net]) -> Vec<usize> {
    let n = cells.len();
    let (mut ins, mut outs) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    for (k, net) in nets.iter().enumerate() {
        outs[net.from.0].push(k);
        for &(to, _) in &net.to {
            if ins[to].last() != Some(&k) {
                ins[to].push(k);
            }
        }
    }
    let first = usize::from(cells.iter().any(|c| c.place == Rank::First));
    let mut rank = vec![first; n];
    for i in 0..n {
        if cells[i].place == Rank::First {
            rank[i] = 0;
        }
        let above = ins[i].iter().map(|&k| rank[nets[k].from.0] + 1).max();
        rank[i] = rank[i].max(above.unwrap_or(0));
    }
    let last = (0..n)
        .map(|i| rank[i] + usize::from(cells[i].place != Rank::Last))
        .max();
    for i in (0..n).rev() {
        match cells[i].place {
            Rank::First => continue,
            Rank::Last => {
                rank[i] = last.unwrap_or(0);
                continue;
            }
            Rank::Free => {}
        }
        let readers = outs[i].iter().flat_map(|&k| &nets[k].to);
        if let Some(below) = readers.map(|&(to, _)| rank[to]).min()
            && outs[i].len() > ins[i].len()
        {
            rank[i] = rank[i].max(below.saturating_sub(1));
        }
    }
    rank
}

/// An entry of a rank.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Cell(usize),
    /// A dummy node for a wire that passes the rank.
    Bend,
}

/// A piece of a wire between adjacent ranks, by slots and by distances from their left edges.
#[derive(Clone, Copy, Debug)]
struct Link {
    net: usize,
    upper: usize,
    upper_dx: f64,
    lower: usize,
    lower_dx: f64,
    weight: f64,
}

struct Grid {
    slots: Vec<Slot>,
    widths: Vec<f64>,
    /// The slots of each rank, from left to right.
    rows: Vec<Vec<usize>>,
    /// The links below each rank.
    gaps: Vec<Vec<Link>>,
    /// The index of each slot in its row.
    position: Vec<usize>,
    rank: Vec<usize>,
    /// The links of each slot upwards and downwards: rank of the gap, and index in it.
    up: Vec<Vec<(usize, usize)>>,
    down: Vec<Vec<(usize, usize)>>,
    x: Vec<f64>,
}

impl Grid {
    fn new(cells: &[Cell], nets: &[Net], ranks: &[usize]) -> Grid {
        let count = ranks.iter().max().map_or(0, |r| r + 1);
        let mut grid = Grid {
            slots: (0..cells.len()).map(Slot::Cell).collect(),
            widths: cells.iter().map(|c| c.width).collect(),
            rows: vec![Vec::new(); count],
            gaps: vec![Vec::new(); count],
            position: Vec::new(),
            rank: ranks.to_vec(),
            up: Vec::new(),
            down: Vec::new(),
            x: Vec::new(),
        };
        for (slot, &rank) in ranks.iter().enumerate() {
            grid.rows[rank].push(slot);
        }
        for (k, net) in nets.iter().enumerate() {
            grid.thread(k, net, cells);
        }
        grid.renumber();
        grid.index_links();
        grid
    }

    /// Adds the dummy nodes and links of one wire: one dummy node for each rank, shared by all readers below.
    fn thread(&mut self, k: usize, net: &Net, cells: &[Cell]) {
        let (from, out) = net.from;
        let start = self.rank[from];
        let end = net.to.iter().map(|&(to, _)| self.rank[to]).max();
        let (mut upper, mut dx) = (from, port(&cells[from].outs, out, cells[from].width));
        for rank in start + 1..=end.unwrap_or(0) {
            for &(to, slot) in &net.to {
                if self.rank[to] != rank {
                    continue;
                }
                let lower_dx = port(&cells[to].ins, slot, cells[to].width);
                self.link(k, (upper, dx), (to, lower_dx));
            }
            if end.is_some_and(|end| rank < end) {
                let bend = self.slots.len();
                self.slots.push(Slot::Bend);
                self.widths.push(0.0);
                self.rank.push(rank);
                self.rows[rank].push(bend);
                self.link(k, (upper, dx), (bend, 0.0));
                (upper, dx) = (bend, 0.0);
            }
        }
    }

    fn link(&mut self, net: usize, upper: (usize, f64), lower: (usize, f64)) {
        let bend = |slot: usize| matches!(self.slots[slot], Slot::Bend);
        // Straightness has priority for long wires, then for chains of boxes.
        let weight = match (bend(upper.0), bend(lower.0)) {
            (true, true) => 8.0,
            (false, false) => 3.0,
            _ => 1.0,
        };
        let gap = self.rank[upper.0];
        self.gaps[gap].push(Link {
            net,
            upper: upper.0,
            upper_dx: upper.1,
            lower: lower.0,
            lower_dx: lower.1,
            weight,
        });
    }

    fn renumber(&mut self) {
        self.position = vec![0; self.slots.len()];
        for row in &self.rows {
            for (i, &slot) in row.iter().enumerate() {
                self.position[slot] = i;
            }
        }
    }

    fn index_links(&mut self) {
        self.up = vec![Vec::new(); self.slots.len()];
        self.down = vec![Vec::new(); self.slots.len()];
        for (rank, gap) in self.gaps.iter().enumerate() {
            for (i, link) in gap.iter().enumerate() {
                self.down[link.upper].push((rank, i));
                self.up[link.lower].push((rank, i));
            }
        }
    }

    /// The position of one end of a link among the ends of its row.
    fn spot(&self, slot: usize, dx: f64) -> f64 {
        let inside = if self.widths[slot] > 0.0 {
            dx / self.widths[slot]
        } else {
            0.5
        };
        as_float(self.position[slot]) + inside
    }

    fn reduce_crossings(&mut self) {
        let mut best = (self.crossings(), self.rows.clone());
        for round in 0..ORDER_ROUNDS {
            let count = self.rows.len();
            for step in 1..count {
                let (row, upwards) = if round % 2 == 0 {
                    (step, true)
                } else {
                    (count - 1 - step, false)
                };
                self.sort_row(row, upwards);
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
            if best.0 == 0 {
                break;
            }
        }
        self.rows = best.1;
        self.renumber();
        for _ in 0..SWAP_ROUNDS {
            let mut any = false;
            for row in 0..self.rows.len() {
                any |= self.swap_neighbours(row);
            }
            if !any {
                break;
            }
        }
    }

    /// Sorts a row by the mean position of the linked slots; slots without a link keep their positions.
    fn sort_row(&mut self, row: usize, upwards: bool) {
        let means: Vec<Option<f64>> = self.rows[row]
            .iter()
            .map(|&slot| self.mean(slot, upwards))
            .collect();
        let mut moving: Vec<(f64, usize)> = means
            .iter()
            .zip(&self.rows[row])
            .filter_map(|(mean, &slot)| Some(((*mean)?, slot)))
            .collect();
        moving.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sorted = moving.into_iter().map(|(_, slot)| slot);
        let old = std::mem::take(&mut self.rows[row]);
        let new = old.iter().zip(&means).map(|(&slot, mean)| match mean {
            Some(_) => sorted.next().unwrap_or(slot),
            None => slot,
        });
        self.rows[row] = new.collect();
        for (i, &slot) in self.rows[row].iter().enumerate() {
            self.position[slot] = i;
        }
    }

    fn mean(&self, slot: usize, upwards: bool) -> Option<f64> {
        let links = if upwards {
            &self.up[slot]
        } else {
            &self.down[slot]
        };
        let spots = links.iter().map(|&(rank, i)| {
            let link = &self.gaps[rank][i];
            if upwards {
                self.spot(link.upper, link.upper_dx)
            } else {
                self.spot(link.lower, link.lower_dx)
            }
        });
        let count = links.len();
        (count > 0).then(|| spots.sum::<f64>() / as_float(count))
    }

    fn crossings(&self) -> usize {
        self.gaps.iter().map(|gap| self.crossings_of(gap)).sum()
    }

    /// The number of crossings: pairs of links whose order above differs from that below.
    fn crossings_of(&self, gap: &[Link]) -> usize {
        let mut ends: Vec<(f64, f64)> = gap
            .iter()
            .map(|l| {
                (
                    self.spot(l.upper, l.upper_dx),
                    self.spot(l.lower, l.lower_dx),
                )
            })
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let lower: Vec<f64> = ends.iter().map(|e| e.1).collect();
        inversions(&lower)
    }

    /// Swaps adjacent slots of a row if that reduces the crossings; returns whether it did.
    fn swap_neighbours(&mut self, row: usize) -> bool {
        if self.rows[row].len() > WIDEST_SWAPPED {
            return false;
        }
        let mut any = false;
        for i in 1..self.rows[row].len() {
            let (a, b) = (self.rows[row][i - 1], self.rows[row][i]);
            let before = self.between(a, b);
            self.exchange(row, i);
            if self.between(b, a) < before {
                any = true;
            } else {
                self.exchange(row, i);
            }
        }
        any
    }

    fn exchange(&mut self, row: usize, i: usize) {
        self.rows[row].swap(i - 1, i);
        for at in [i - 1, i] {
            self.position[self.rows[row][at]] = at;
        }
    }

    /// The number of crossings between the links of two adjacent slots, `a` to the left of `b`.
    fn between(&self, a: usize, b: usize) -> usize {
        let above = |&(rank, i): &(usize, usize)| {
            let l = &self.gaps[rank][i];
            self.spot(l.upper, l.upper_dx)
        };
        let below = |&(rank, i): &(usize, usize)| {
            let l = &self.gaps[rank][i];
            self.spot(l.lower, l.lower_dx)
        };
        let crossed = |left: Vec<f64>, right: Vec<f64>| -> usize {
            let over = |x: &f64| right.iter().filter(|&&y| y < *x).count();
            left.iter().map(over).sum()
        };
        let up = |slot: usize| self.up[slot].iter().map(above).collect();
        let down = |slot: usize| self.down[slot].iter().map(below).collect();
        crossed(up(a), up(b)) + crossed(down(a), down(b))
    }

    /// The distance of a link's ends from the middle of the edges of its boxes.
    fn off_middle(&self, link: &Link) -> f64 {
        let off = |slot: usize, dx: f64| (dx - self.widths[slot] / 2.0).abs();
        off(link.upper, link.upper_dx) + off(link.lower, link.lower_dx)
    }

    fn assign_x(&mut self) {
        let columns = Columns::new(self);
        let starts = columns.place(self);
        self.x = (0..self.slots.len())
            .map(|slot| starts[columns.of[slot]] + columns.offset[slot])
            .collect();
        let left = self.x.iter().copied().fold(f64::INFINITY, f64::min);
        if left.is_finite() {
            self.x.iter_mut().for_each(|x| *x -= left);
        }
    }

    /// The least distance between the left edges of two adjacent slots.
    fn distance(&self, left: usize, right: usize) -> f64 {
        let gap = match (self.slots[left], self.slots[right]) {
            (Slot::Cell(_), Slot::Cell(_)) => BOX_GAP,
            _ => WIRE_GAP,
        };
        self.widths[left] + gap
    }

    fn placed(&self, cells: &[Cell], nets: &[Net]) -> Placed {
        let height_of = |slot: usize| match self.slots[slot] {
            Slot::Cell(i) => cells[i].height,
            Slot::Bend => 0.0,
        };
        let mut tops = Vec::with_capacity(self.rows.len());
        let mut bottoms = Vec::with_capacity(self.rows.len());
        let mut y = 0.0;
        for (row, slots) in self.rows.iter().enumerate() {
            let height = slots.iter().map(|&s| height_of(s)).fold(0.0, f64::max);
            tops.push(y);
            bottoms.push(y + height);
            y += height + self.gap_height(row);
        }
        let top_of = |slot: usize| {
            let rank = self.rank[slot];
            // A box without inputs is placed close to its readers.
            if self.up[slot].is_empty() {
                bottoms[rank] - height_of(slot)
            } else {
                tops[rank]
            }
        };
        let at: Vec<(f64, f64)> = (0..cells.len()).map(|i| (self.x[i], top_of(i))).collect();
        let mut pieces = Vec::new();
        for (rank, gap) in self.gaps.iter().enumerate() {
            for link in gap {
                let cell = |slot: usize| match self.slots[slot] {
                    Slot::Cell(cell) => Some(cell),
                    Slot::Bend => None,
                };
                let (source, target) = (cell(link.upper), cell(link.lower));
                let start = match source {
                    Some(_) => top_of(link.upper) + height_of(link.upper),
                    None => tops[rank],
                };
                let end = match target {
                    Some(_) => top_of(link.lower),
                    None => tops[rank + 1],
                };
                pieces.push(Piece {
                    net: link.net,
                    from: (self.x[link.upper] + link.upper_dx, start),
                    cross: (bottoms[rank], tops[rank + 1]),
                    to: (self.x[link.lower] + link.lower_dx, end),
                    source,
                    target,
                });
            }
        }
        debug_assert!(pieces.iter().all(|p| p.net < nets.len()));
        let right = (0..self.slots.len()).map(|s| self.x[s] + self.widths[s]);
        Placed {
            width: right.fold(0.0, f64::max),
            height: bottoms.last().copied().unwrap_or(0.0),
            at,
            pieces,
        }
    }

    /// The space below a row; it is larger if a wire goes far to the side.
    fn gap_height(&self, row: usize) -> f64 {
        let slants = self.gaps[row].iter().map(|l| {
            let (a, b) = (self.x[l.upper] + l.upper_dx, self.x[l.lower] + l.lower_dx);
            (a - b).abs()
        });
        let widest = slants.fold(0.0, f64::max);
        (RANK_GAP.0 + SLANT * widest).min(RANK_GAP.1)
    }
}

/// Columns: slots of adjacent ranks that are exactly below one another, joined by straight links.
struct Columns {
    /// The column of each slot, and the distance of its left edge from the start of the column.
    of: Vec<usize>,
    offset: Vec<f64>,
    /// For each column, its links to other columns.
    links: Vec<Vec<Pull>>,
    /// For each column, the columns to its right with the least distance to each; and the same for the left.
    right: Vec<Vec<(usize, f64)>>,
    left: Vec<Vec<(usize, f64)>>,
}

/// A link to another column; it is straight if this column starts `shift` after that one.
struct Pull {
    other: usize,
    shift: f64,
    weight: f64,
}

impl Columns {
    fn new(grid: &Grid) -> Columns {
        let n = grid.slots.len();
        let (mut of, mut offset) = (vec![usize::MAX; n], vec![0.0; n]);
        let straight: Vec<Option<&Link>> = straight_links(grid);
        let mut count = 0;
        for row in &grid.rows {
            for &slot in row {
                match straight[slot] {
                    Some(link) => {
                        of[slot] = of[link.upper];
                        offset[slot] = offset[link.upper] + link.upper_dx - link.lower_dx;
                    }
                    None => {
                        of[slot] = count;
                        count += 1;
                    }
                }
            }
        }
        let mut columns = Columns {
            of,
            offset,
            links: (0..count).map(|_| Vec::new()).collect(),
            right: vec![Vec::new(); count],
            left: vec![Vec::new(); count],
        };
        columns.add_links(grid);
        columns.add_neighbours(grid);
        columns
    }

    fn add_links(&mut self, grid: &Grid) {
        for link in grid.gaps.iter().flatten() {
            let (a, b) = (self.of[link.upper], self.of[link.lower]);
            let spot_a = self.offset[link.upper] + link.upper_dx;
            let spot_b = self.offset[link.lower] + link.lower_dx;
            if a == b {
                continue;
            }
            let weight = link.weight;
            self.links[a].push(Pull {
                other: b,
                shift: spot_b - spot_a,
                weight,
            });
            self.links[b].push(Pull {
                other: a,
                shift: spot_a - spot_b,
                weight,
            });
        }
    }

    fn add_neighbours(&mut self, grid: &Grid) {
        for row in &grid.rows {
            for pair in row.windows(2) {
                let &[s, t] = pair else { continue };
                let distance = grid.distance(s, t) + self.offset[s] - self.offset[t];
                self.right[self.of[s]].push((self.of[t], distance));
                self.left[self.of[t]].push((self.of[s], distance));
            }
        }
    }

    /// The start of each column: first as far left as adjacent columns allow, then moved back and forth to the position
    /// that its links prefer, within the limits of adjacent columns.
    fn place(&self, grid: &Grid) -> Vec<f64> {
        let order = self.order(grid);
        let mut start = vec![0.0; self.links.len()];
        for &column in &order {
            start[column] = self.left_limit(column, &start).unwrap_or(0.0);
        }
        for _ in 0..PLACE_ROUNDS {
            for &column in order.iter().rev() {
                self.settle(column, &mut start);
            }
            for &column in &order {
                self.settle(column, &mut start);
            }
        }
        start
    }

    /// The columns from left to right.
    fn order(&self, grid: &Grid) -> Vec<usize> {
        let mut waits: Vec<usize> = self.left.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..waits.len()).filter(|&c| waits[c] == 0).collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some(column) = ready.pop() {
            order.push(column);
            for &(next, _) in &self.right[column] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(next);
                }
            }
        }
        debug_assert_eq!(
            order.len(),
            waits.len(),
            "straight links cross in {:?}",
            grid.rows
        );
        order
    }

    fn left_limit(&self, column: usize, start: &[f64]) -> Option<f64> {
        let limits = self.left[column].iter().map(|&(c, d)| start[c] + d);
        limits.reduce(f64::max)
    }

    fn right_limit(&self, column: usize, start: &[f64]) -> Option<f64> {
        let limits = self.right[column].iter().map(|&(c, d)| start[c] - d);
        limits.reduce(f64::min)
    }

    fn settle(&self, column: usize, start: &mut [f64]) {
        let Some(mut wanted) = self.wish(column, start) else {
            return;
        };
        if let Some(right) = self.right_limit(column, start) {
            wanted = wanted.min(right);
        }
        if let Some(left) = self.left_limit(column, start) {
            wanted = wanted.max(left);
        }
        start[column] = wanted;
    }

    /// The weighted median of the positions that the links prefer for a column; the mean of the two middle positions if
    /// the weights are equal.
    fn wish(&self, column: usize, start: &[f64]) -> Option<f64> {
        let pulls = self.links[column].iter();
        let mut wishes: Vec<(f64, f64)> = pulls
            .map(|p| (start[p.other] + p.shift, p.weight))
            .collect();
        wishes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = wishes.iter().map(|w| w.1).sum::<f64>() / 2.0;
        let mut sum = 0.0;
        for (i, &(wish, weight)) in wishes.iter().enumerate() {
            sum += weight;
            if sum > half {
                return Some(wish);
            }
            if sum >= half {
                let next = wishes.get(i + 1).map_or(wish, |w| w.0);
                return Some((wish + next) / 2.0);
            }
        }
        None
    }
}

/// For each slot, the link from above that is drawn straight. No two of these links cross, so that columns have an
/// order from left to right. The heaviest links are chosen first, and among several links of one box the middle one.
fn straight_links(grid: &Grid) -> Vec<Option<&Link>> {
    let mut from_above: Vec<Option<&Link>> = vec![None; grid.slots.len()];
    let mut taken = vec![false; grid.slots.len()];
    for gap in &grid.gaps {
        let mut links: Vec<(f64, &Link)> = gap.iter().map(|l| (grid.off_middle(l), l)).collect();
        links.sort_by(|a, b| {
            let heavy = b.1.weight.total_cmp(&a.1.weight);
            heavy.then(a.0.total_cmp(&b.0))
        });
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        for (_, link) in links {
            let ends = (grid.position[link.upper], grid.position[link.lower]);
            let crosses = |&(a, b): &(usize, usize)| (a < ends.0) != (b < ends.1);
            if taken[link.upper] || from_above[link.lower].is_some() || chosen.iter().any(crosses) {
                continue;
            }
            taken[link.upper] = true;
            from_above[link.lower] = Some(link);
            chosen.push(ends);
        }
    }
    from_above
}

/// The position on an edge where a wire ends; the middle if the edge has no such position.
fn port(ports: &[f64], i: usize, width: f64) -> f64 {
    ports.get(i).copied().unwrap_or(width / 2.0)
}

/// A count as a length.
pub(crate) fn as_float(n: usize) -> f64 {
    u32::try_from(n).map_or(f64::from(u32::MAX), f64::from)
}

/// The number of inversions in a list, by merge sort.
fn inversions(list: &[f64]) -> usize {
    fn sort(list: &mut [f64], spare: &mut Vec<f64>) -> usize {
        let n = list.len();
        if n < 2 {
            return 0;
        }
        let (left, right) = list.split_at_mut(n / 2);
        let mut count = sort(left, spare) + sort(right, spare);
        spare.clear();
        let (mut i, mut j) = (0, 0);
        while i < left.len() || j < right.len() {
            if j == right.len() || (i < left.len() && left[i] <= right[j]) {
                spare.push(left[i]);
                i += 1;
            } else {
                spare.push(right[j]);
                j += 1;
                count += left.len() - i;
            }
        }
        list.copy_from_slice(spare);
        count
    }
    sort(&mut list.to_vec(), &mut Vec::with_capacity(list.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(width: f64) -> Cell {
        Cell {
            width,
            height: 20.0,
            ins: vec![width / 2.0],
            outs: vec![width / 2.0],
            place: Rank::Free,
        }
    }

    fn net(from: usize, to: &[usize]) -> Net {
        Net {
            from: (from, 0),
            to: to.iter().map(|&t| (t, 0)).collect(),
        }
    }

    #[track_caller]
    fn no_overlaps(cells: &[Cell], placed: &Placed) {
        for i in 0..cells.len() {
            for j in 0..i {
                let apart =
                    |a: f64, aw: f64, b: f64, bw: f64| a + aw <= b + 1e-6 || b + bw <= a + 1e-6;
                let ((ax, ay), (bx, by)) = (placed.at[i], placed.at[j]);
                assert!(
                    apart(ax, cells[i].width, bx, cells[j].width)
                        || apart(ay, cells[i].height, by, cells[j].height),
                    "{i} at {ax},{ay} overlaps {j} at {bx},{by}"
                );
            }
        }
        for (i, &(x, y)) in placed.at.iter().enumerate() {
            assert!(x >= 0.0 && x + cells[i].width <= placed.width + 1e-6);
            assert!(y >= 0.0 && y + cells[i].height <= placed.height + 1e-6);
        }
    }

    #[test]
    fn a_chain_is_straight() {
        let cells = [cell(30.0), cell(90.0), cell(10.0)];
        let placed = place(&cells, &[net(0, &[1]), net(1, &[2])]);
        no_overlaps(&cells, &placed);
        for piece in &placed.pieces {
            assert!((piece.from.0 - piece.to.0).abs() < 0.01, "{piece:?}");
        }
    }

    #[test]
    fn a_wire_passes_beside_the_boxes_between() {
        let cells = [cell(40.0), cell(40.0), cell(40.0), cell(40.0)];
        let nets = [net(0, &[1, 3]), net(1, &[2]), net(2, &[3])];
        let placed = place(&cells, &nets);
        no_overlaps(&cells, &placed);
        let through = placed
            .pieces
            .iter()
            .filter(|p| p.net == 0 && p.target.is_none());
        let through: Vec<f64> = through.map(|p| p.to.0).collect();
        assert_eq!(through.len(), 2);
        for x in through {
            for i in [1, 2] {
                let left = placed.at[i].0;
                assert!(
                    x < left - 1.0 || x > left + 41.0,
                    "{x} hits box {i} at {left}"
                );
            }
        }
    }

    #[test]
    fn crossings_that_can_be_avoided_are() {
        // Two chains whose boxes are numbered crosswise.
        let cells = vec![cell(30.0); 6];
        let nets = [net(0, &[3]), net(1, &[2]), net(2, &[5]), net(3, &[4])];
        let placed = place(&cells, &nets);
        no_overlaps(&cells, &placed);
        let side = |i: usize| placed.at[i].0;
        assert_eq!(side(0) < side(1), side(3) < side(2));
        assert_eq!(side(3) < side(2), side(4) < side(5));
    }

    #[test]
    fn inversions_are_pairs_in_falling_order() {
        assert_eq!(inversions(&[1.0, 2.0, 3.0]), 0);
        assert_eq!(inversions(&[3.0, 2.0, 1.0]), 3);
        assert_eq!(inversions(&[2.0, 1.0, 1.0, 3.0]), 2);
    }

    #[test]
    fn ports_stand_in_the_first_and_last_rank() {
        let mut cells = vec![cell(10.0), cell(10.0), cell(10.0), cell(10.0), cell(10.0)];
        cells[0].place = Rank::First;
        cells[4].place = Rank::Last;
        let nets = [net(0, &[2]), net(1, &[2]), net(2, &[3, 4])];
        let placed = place(&cells, &nets);
        no_overlaps(&cells, &placed);
        let y = |i: usize| placed.at[i].1;
        assert!(y(0) < y(1) && y(1) < y(2) && y(2) < y(3) && y(3) < y(4));
    }

    #[test]
    fn nothing_to_place_is_placed() {
        let placed = place(&[], &[]);
        assert_eq!((placed.width, placed.height), (0.0, 0.0));
    }

    /// A pseudorandom sequence that is the same in every run.
    struct Noise(u64);

    impl Noise {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % n
        }
    }

    #[test]
    fn random_graphs_have_no_overlaps_and_wires_miss_all_boxes() {
        for seed in 0..40 {
            let mut noise = Noise(seed);
            let count = 2 + noise.below(40);
            let cells: Vec<Cell> = (0..count)
                .map(|_| Cell {
                    height: as_float(10 + noise.below(60)),
                    ..cell(as_float(10 + noise.below(120)))
                })
                .collect();
            let nets: Vec<Net> = (0..count - 1)
                .map(|from| {
                    let readers = 1 + noise.below(3);
                    let to: Vec<usize> = (0..readers)
                        .map(|_| from + 1 + noise.below(count - from - 1))
                        .collect();
                    net(from, &to)
                })
                .collect();
            let placed = place(&cells, &nets);
            no_overlaps(&cells, &placed);
            for piece in &placed.pieces {
                let (x, until) = (piece.from.0, piece.cross.0);
                let (end, since) = (piece.to.0, piece.cross.1);
                for (i, cell) in cells.iter().enumerate() {
                    let (left, top) = placed.at[i];
                    let hit = |x: f64, y0: f64, y1: f64| {
                        let across = left + 1.0 < x && x < left + cell.width - 1.0;
                        across && y0 + 1e-6 < top + cell.height && top + 1e-6 < y1
                    };
                    assert!(
                        !hit(x, piece.from.1, until),
                        "seed {seed}: {piece:?} hits {i}"
                    );
                    assert!(
                        !hit(end, since, piece.to.1),
                        "seed {seed}: {piece:?} hits {i}"
                    );
                }
            }
        }
    }
}
