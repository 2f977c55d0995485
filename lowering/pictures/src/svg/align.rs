//! Alignment of equal operations at the same height, in the pictures of a program before and after.

use crate::graph::Graph;
use crate::svg::frame::{Block, Frame, Shape};
use crate::svg::nest::Item;

/// The name of an item: that of a layer, or the kind of an operation.
fn name<'a>(graph: &'a Graph, item: &'a Item) -> &'a str {
    match item {
        Item::Node(node) => &graph.nodes[*node].title,
        Item::Group(group) => &group.label,
    }
}

/// A placed function or layer, and its items.
pub(crate) struct Side<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) items: &'a [Item],
    pub(crate) block: &'a mut Block,
}

/// Moves the ranks of two functions, and of the layers in both, down until items that are in both are at the same
/// height.
pub(crate) fn align(left: Side<'_>, right: Side<'_>) {
    let (x, y) = match (&mut left.block.shape, &mut right.block.shape) {
        (Shape::Frame(x), Shape::Frame(y)) => (x, y),
        _ => return,
    };
    let names = |side: &[Item], graph| -> Vec<String> {
        let names = side.iter().map(|item| name(graph, item).to_owned());
        names.collect()
    };
    let pairs = common(
        &names(left.items, left.graph),
        &names(right.items, right.graph),
    );
    let mut down = (Down::new(x), Down::new(y));
    for &(i, j) in &pairs {
        let (Item::Group(a), Item::Group(b)) = (&left.items[i], &right.items[j]) else {
            continue;
        };
        let (graphs, blocks) = (
            (left.graph, right.graph),
            (&mut x.children[i].1, &mut y.children[j].1),
        );
        align(
            Side {
                graph: graphs.0,
                items: &a.items,
                block: blocks.0,
            },
            Side {
                graph: graphs.1,
                items: &b.items,
                block: blocks.1,
            },
        );
    }
    down.0.grow(x);
    down.1.grow(y);
    let mut tops = Vec::with_capacity(pairs.len());
    for &(i, j) in &pairs {
        let (top, other) = (x.children[i].0.1, y.children[j].0.1);
        tops.push([(down.0.rank(top), top), (down.1.rank(other), other)]);
    }
    tops.sort_by_key(|pair| pair.map(|(rank, _)| rank));
    let mut next = (0, 0);
    for [(x, top), (y, other)] in tops {
        if x < next.0 || y < next.1 {
            continue;
        }
        let apart = down.1.of(other) - down.0.of(top);
        if apart > 0.0 {
            down.0.push(x, apart);
        } else {
            down.1.push(y, -apart);
        }
        next = (x + 1, y + 1);
    }
    let heights = (down.0.of(left.block.height), down.1.of(right.block.height));
    down.0.apply(x);
    down.1.apply(y);
    let height = f64::max(heights.0, heights.1);
    (left.block.height, right.block.height) = (height, height);
}

/// The distances by which the contents of a frame move down.
struct Down {
    /// The first and the last height of each rank.
    ranks: Vec<(f64, f64)>,
    /// The distance by which each rank moves away from the rank above it.
    by: Vec<f64>,
    /// The increase in height of each rank.
    grows: Vec<f64>,
    /// The original heights of the blocks.
    heights: Vec<f64>,
}

impl Down {
    fn new(frame: &Frame) -> Down {
        let heights: Vec<f64> = frame.children.iter().map(|(_, b)| b.height).collect();
        let tops = frame.children.iter().map(|((_, top), _)| *top);
        let mut spans: Vec<(f64, f64)> = tops.zip(&heights).map(|(y, h)| (y, y + h)).collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut ranks: Vec<(f64, f64)> = Vec::new();
        for (top, end) in spans {
            match ranks.last_mut() {
                Some(rank) if top < rank.1 => rank.1 = rank.1.max(end),
                _ => ranks.push((top, end)),
            }
        }
        Down {
            by: vec![0.0; ranks.len()],
            grows: vec![0.0; ranks.len()],
            ranks,
            heights,
        }
    }

    fn rank(&self, y: f64) -> usize {
        let after = self.ranks.partition_point(|&(top, _)| top <= y);
        after.saturating_sub(1)
    }

    /// Makes space for blocks that have become higher.
    fn grow(&mut self, frame: &Frame) {
        for ((_, top), block) in &frame.children {
            let rank = self.rank(*top);
            if let Some(&(_, end)) = self.ranks.get(rank) {
                self.grows[rank] = f64::max(self.grows[rank], top + block.height - end);
            }
        }
    }

    fn push(&mut self, rank: usize, by: f64) {
        self.by[rank] += by;
    }

    /// The new position of a height.
    fn of(&self, y: f64) -> f64 {
        let ranks = self.ranks.iter().zip(self.by.iter().zip(&self.grows));
        let moves = ranks.map(|(&(top, end), (by, grows))| {
            let moved = if top <= y { *by } else { 0.0 };
            moved + if end <= y { *grows } else { 0.0 }
        });
        y + moves.sum::<f64>()
    }

    /// The new position of the lower edge of the block above this point, if a block ends there.
    fn edge(&self, frame: &Frame, (x, y): (f64, f64)) -> Option<f64> {
        let mut blocks = frame.children.iter().zip(&self.heights);
        let ((corner, block), _) = blocks.find(|(((left, top), block), height)| {
            (top + **height - y).abs() < 0.05 && *left <= x && x <= left + block.width
        })?;
        Some(self.of(corner.1) + block.height)
    }

    fn apply(&self, frame: &mut Frame) {
        let edges: Vec<f64> = frame
            .pieces
            .iter()
            .map(|piece| {
                let edge = self.edge(frame, piece.from);
                edge.unwrap_or_else(|| self.of(piece.from.1))
            })
            .collect();
        for (piece, edge) in frame.pieces.iter_mut().zip(edges) {
            piece.from.1 = edge;
            piece.cross = (self.of(piece.cross.0), self.of(piece.cross.1));
            piece.to.1 = self.of(piece.to.1);
        }
        for ((_, y), _) in &mut frame.children {
            *y = self.of(*y);
        }
    }
}

/// The longest common subsequence of two lists, as pairs of positions.
fn common(a: &[String], b: &[String]) -> Vec<(usize, usize)> {
    let mut longest = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i][j] = match a[i] == b[j] {
                true => longest[i + 1][j + 1] + 1,
                false => longest[i + 1][j].max(longest[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}
