//! Tiles that act as the steps of a radix sort of digits.

use crate::notation::digits::{DigitOp, DigitText};

/// The longest tile that is written.
const LONGEST: usize = 64;

/// The order of dimensions, the most minor first, and tiles that bring the digits of the dimensions of `shape` into the
/// order of `digits`. The first tile covers the dimensions in `merges`.
///
/// A tile over all axes splits each axis in two: the block counts stay, in order, and the insides move behind all block
/// counts, in order. A tile is thus one step of a radix sort. First each axis is split into digits. Then the digits are
/// sorted by a key: going through the digits in the wanted order splits them into rising runs from left to right, and
/// the key of a digit is the number of its run. A last tile pads the axes that have room.
pub(crate) fn sorting_tiles(
    digits: &[DigitText],
    shape: &[u64],
    merges: &[bool],
) -> Option<(Vec<usize>, Vec<Vec<u64>>)> {
    let div: Vec<u64> = digits
        .iter()
        .map(|digit| match digit.ops.last() {
            Some(DigitOp::Div(by)) => *by,
            _ => 1,
        })
        .collect();
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); shape.len()];
    let mut axes = Vec::new();
    for (place, digit) in digits.iter().enumerate() {
        match digit.dims.first() {
            Some(&dim) => own.get_mut(dim)?.push(place),
            None => axes.push(vec![place]),
        }
    }
    for places in &mut own {
        places.sort_by_key(|&place| std::cmp::Reverse(div[place]));
    }
    let domain = domains(&own, &div, shape);
    let mut major_to_minor: Vec<usize> = (0..own.len()).collect();
    major_to_minor.sort_by_key(|&dim| own[dim].last().copied());
    let order = major_to_minor.iter().rev().copied().collect();
    // A tile longer than the rank adds axes of one element.
    let mut must = vec![true; axes.len()];
    must.extend(major_to_minor.iter().map(|&dim| merges[dim]));
    axes.extend(major_to_minor.iter().map(|&dim| own[dim].clone()));

    let mut padded = false;
    let mut tiles: Vec<Vec<u64>> = Vec::new();
    loop {
        let mut moving: Vec<usize> = axes
            .iter()
            .map(|axis| axis.len().saturating_sub(1))
            .collect();
        if moving.iter().all(|&n| n == 0) {
            moving = next_run(&axes, tiles.len())?;
        }
        let mut room = false;
        if moving.iter().all(|&n| n == 0) {
            let has_room = |axis: &Vec<usize>| {
                let wider =
                    |&place: &usize| domain[place].div_ceil(div[place]) != digits[place].extent;
                axis.first().is_some_and(wider)
            };
            let Some(first) = axes.iter().position(has_room).filter(|_| !padded) else {
                return Some((order, tiles));
            };
            room = true;
            padded = true;
            for (axis, n) in axes.iter().zip(&mut moving).skip(first) {
                *n = axis.len();
            }
        }
        let first = (0..axes.len()).find(|&i| 0 < moving[i] || must.get(i) == Some(&true))?;
        must.clear();
        if LONGEST < axes.len() - first {
            return None;
        }
        let (mut tile, mut inside) = (Vec::new(), Vec::new());
        for (axis, &n) in axes[first..].iter_mut().zip(&moving[first..]) {
            let moved = axis.split_off(axis.len() - n);
            let size = match moved[..] {
                [] => 1,
                [place] if room => digits[place].extent,
                [top, .., bottom] => domain[top].div_ceil(div[bottom]),
                [place] => domain[place].div_ceil(div[place]),
            };
            tile.push(size);
            inside.push(moved);
        }
        tiles.push(tile);
        axes.extend(inside);
    }
}

/// The domain of each digit and those below it in its dimension. Positions without elements count as one. `own` has the
/// digits of each dimension, major to minor.
fn domains(own: &[Vec<usize>], div: &[u64], shape: &[u64]) -> Vec<u64> {
    let mut domain = vec![1u64; div.len()];
    for (places, &size) in own.iter().zip(shape) {
        let mut rest = size;
        for &place in places {
            domain[place] = rest;
            rest = div[place];
        }
    }
    domain
}

/// The number of digits of each axis, which has at most one, that move in the next step of the sort: 1 if the run number
/// of the digit is odd. Run numbers are counted anew in each step.
fn next_run(axes: &[Vec<usize>], steps: usize) -> Option<Vec<usize>> {
    let now: Vec<usize> = axes.iter().flatten().copied().collect();
    let mut at = vec![0; now.len()];
    for (i, &place) in now.iter().enumerate() {
        *at.get_mut(place)? = i;
    }
    let mut run = vec![0usize; now.len()];
    for place in 1..at.len() {
        run[place] = run[place - 1] + usize::from(at[place] < at[place - 1]);
    }
    // Each step halves the runs, so the loop ends; the count is only a guard.
    let sorted = run.last().is_none_or(|&last| last == 0);
    if !sorted && LONGEST < steps {
        return None;
    }
    let moves = |axis: &Vec<usize>| axis.first().map_or(0, |&place| run[place] & 1);
    Some(axes.iter().map(moves).collect())
}
