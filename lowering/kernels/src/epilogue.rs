//! Epilogues: operations on sums, or on the elements of a row, before they are stored. Every other operand is one number.
//!
//! An epilogue of `dequantize(sum, 0.5)`, `relu`, `div(.., 2.0)` and `round` to `si8` turns the sum -3 into 0 and the sum
//! 10 into 2 (2.5, ties to even).

use crate::element::Kind;
use crate::links::{ChainOp, From, MOST_CODES, MOST_OPERANDS, PART, Part, compute, narrowed};
use crate::product::Requantize;
use crate::requantize::RequantizeLoop;
use crate::vectorized::vectorized;
use crate::with_type;
use bytemuck::cast_slice_mut;
use std::sync::Arc;

/// Most lines of sums that operations are applied to at once.
const MOST_LINES: usize = 16;

/// Dequantization of integer sums: each is converted to `f32`, multiplied by a scale and added to a bias, with a rounding
/// after each step.
#[derive(Clone, Debug)]
pub struct Dequantization {
    /// Scales and biases.
    pub values: Arc<[[f32; 2]]>,
    /// For each dimension of the result, the index that each of its steps adds: the pair of a sum is at their sum.
    pub tables: Vec<Vec<i64>>,
}

/// An epilogue: operations on sums before they are stored, whose other operands are one number each.
#[derive(Clone, Debug)]
pub struct Epilogue {
    /// Dequantization, which the product applies before the epilogue; the operations then take floats.
    scale: Option<Arc<Dequantization>>,
    /// True if the operations take floats, because integer sums are dequantized first.
    floats: bool,
    links: Vec<ChainOp>,
    /// The types of the operands, the sums first, and the numbers that the others are.
    kinds: Vec<Kind>,
    numbers: Vec<u32>,
    /// All operations as one loop, if [`RequantizeLoop`] knows their form.
    one_loop: Option<RequantizeLoop>,
}

impl Epilogue {
    /// Operations on sums of a type, `i32` or `f32`, which are operand 0, and on numbers, which are the other operands. The
    /// last operation gives an element of the type that is stored.
    pub fn of(sums: Kind, links: Vec<ChainOp>, numbers: Vec<(Kind, u32)>) -> Option<Epilogue> {
        let whole = matches!(sums, Kind::I32 | Kind::F32);
        let few = links.len() <= MOST_CODES && numbers.len() < MOST_OPERANDS;
        let fits = whole && few && !links.is_empty();
        let (kinds, numbers): (Vec<Kind>, Vec<u32>) = numbers.into_iter().unzip();
        let kinds: Vec<Kind> = [sums].into_iter().chain(kinds).collect();
        let number = |k: usize| numbers.get(k.checked_sub(1)?).copied();
        let found = RequantizeLoop::of(&links, |k| kinds[k], number);
        let one_loop = found.filter(|found| found.0 == 0).map(|found| found.1);
        fits.then_some(Epilogue {
            scale: None,
            floats: false,
            links,
            kinds,
            numbers,
            one_loop,
        })
    }

    /// Dequantization, and operations on the floats if there are any.
    pub fn scaled(
        scale: Dequantization,
        links: Vec<ChainOp>,
        numbers: Vec<(Kind, u32)>,
    ) -> Option<Epilogue> {
        let rest = match links.is_empty() {
            false => Some(Epilogue::of(Kind::F32, links, numbers)?),
            true => None,
        };
        Some(Epilogue {
            scale: Some(Arc::new(scale)),
            ..Epilogue::of_floats(rest)
        })
    }

    /// An epilogue of integer sums that the product dequantizes itself: the operations of `rest`, if any.
    pub fn of_floats(rest: Option<Epilogue>) -> Epilogue {
        let rest = rest.unwrap_or(Epilogue {
            scale: None,
            floats: true,
            links: Vec::new(),
            kinds: vec![Kind::F32],
            numbers: Vec::new(),
            one_loop: None,
        });
        Epilogue {
            floats: true,
            ..rest
        }
    }

    /// Dequantization before the operations, if there is one.
    pub fn scale(&self) -> Option<&Dequantization> {
        self.scale.as_deref()
    }

    /// Its scales and biases.
    pub(crate) fn scales(&self) -> Option<&[[f32; 2]]> {
        Some(&self.scale.as_ref()?.values)
    }

    /// Returns whether all operations are one loop.
    pub fn is_one_loop(&self) -> bool {
        self.one_loop.is_some()
    }

    /// The type of the sums.
    pub fn sums(&self) -> Kind {
        match self.scale {
            Some(_) => Kind::I32,
            None => self.kinds[0],
        }
    }

    /// Replaces sums by the results of the operations, as numbers.
    pub fn all(&self, parts: &mut [Part], sums: &mut [u32]) {
        vectorized(
            #[inline(always)]
            || self.each(parts, sums),
        );
    }

    /// As [`all`](Epilogue::all), inside of a function that is compiled for the machine's vectors already.
    #[inline(always)]
    pub fn each(&self, parts: &mut [Part], sums: &mut [u32]) {
        if let Some(one_loop) = &self.one_loop {
            return one_loop.run(sums);
        }
        if self.links.is_empty() {
            return;
        }
        for some in sums.chunks_mut(PART) {
            let count = some.len();
            self.links(parts, Some(some), count);
            let made = parts.last().map_or(&[][..], |part| &part[..count]);
            some.copy_from_slice(made);
        }
    }

    /// The epilogue as a requantization of `i32` sums in registers, if it is one.
    pub(crate) fn requantize(&self) -> Option<Requantize> {
        if self.floats {
            return match self.one_loop {
                None if self.links.is_empty() => Requantize::scaled(1.0, f32::NEG_INFINITY),
                None => None,
                Some(one_loop) => one_loop.requantize_scaled(),
            };
        }
        self.one_loop?.requantize()
    }

    /// The epilogue as a requantization of `f32` sums in registers, if it is one.
    pub(crate) fn requantize_floats(&self) -> Option<Requantize> {
        self.one_loop?.requantize_floats()
    }

    /// Bytes that [`parts`](Epilogue::parts) take.
    pub fn scratch(&self) -> usize {
        (self.kinds.len() + self.links.len()) * size_of::<Part>()
    }

    /// Scratch memory for [`run`](Epilogue::run): operands, then the results of the operations.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = vec![[0; PART]; self.kinds.len() + self.links.len()];
        for (part, &number) in parts[1..].iter_mut().zip(&self.numbers) {
            part.fill(number);
        }
        parts
    }

    /// Applies the operations to `used` sums from each place on and stores results as numbers; `used` is at most the length
    /// of a part.
    pub(crate) fn lines(
        &self,
        parts: &mut [Part],
        sums: &mut [u32],
        mut places: impl Iterator<Item = usize>,
        used: usize,
    ) {
        vectorized(
            #[inline(always)]
            || {
                if self.links.is_empty() {
                    return;
                }
                if let Some(one_loop) = &self.one_loop {
                    return places.for_each(|place| one_loop.run(&mut sums[place..place + used]));
                }
                // Several lines at once, as each operation has a fixed cost.
                let mut own = [0; MOST_LINES];
                loop {
                    let (mut count, most) = (0, (PART / used.max(1)).min(MOST_LINES));
                    for place in places.by_ref().take(most) {
                        let to = &mut parts[0][count * used..][..used];
                        to.copy_from_slice(&sums[place..place + used]);
                        own[count] = place;
                        count += 1;
                    }
                    if count == 0 {
                        return;
                    }
                    self.links(parts, None, count * used);
                    let made = parts.last().map_or(&[][..], |part| &part[..count * used]);
                    for (&place, made) in own.iter().zip(made.chunks_exact(used)) {
                        sums[place..place + used].copy_from_slice(made);
                    }
                }
            },
        );
    }

    /// Applies the operations to the first `used` of every `width` sums and stores results as numbers; `used` is at most
    /// the length of a part.
    pub fn run(&self, parts: &mut [Part], sums: &mut [u32], width: usize, used: usize) {
        vectorized(
            #[inline(always)]
            || {
                let lines = PART / used.max(1);
                if self.links.is_empty() {
                    return;
                }
                if let Some(one_loop) = &self.one_loop {
                    match used == width {
                        true => sums.chunks_mut(PART).for_each(|sums| one_loop.run(sums)),
                        false => {
                            let all = sums.chunks_exact_mut(width);
                            all.for_each(|sums| one_loop.run(&mut sums[..used]));
                        }
                    }
                    return;
                }
                for sums in sums.chunks_mut(lines * width) {
                    let count = sums.len() / width * used;
                    if used == width {
                        self.links(parts, Some(sums), count);
                        let made = parts.last().map_or(&[][..], |part| &part[..count]);
                        sums.copy_from_slice(made);
                        continue;
                    }
                    let own = parts[0].chunks_exact_mut(used);
                    for (to, line) in own.zip(sums.chunks_exact(width)) {
                        to.copy_from_slice(&line[..used]);
                    }
                    self.links(parts, None, count);
                    let made = parts.last().map_or(&[][..], |part| &part[..count]);
                    for (line, from) in sums.chunks_exact_mut(width).zip(made.chunks_exact(used)) {
                        line[..used].copy_from_slice(from);
                    }
                }
            },
        );
    }

    /// Computes all operations on the given sums, or on the first part if there are none.
    #[inline(always)]
    fn links(&self, parts: &mut [Part], sums: Option<&[u32]>, count: usize) {
        let operands = self.kinds.len();
        for (number, link) in self.links.iter().enumerate() {
            let (before, rest) = parts.split_at_mut(operands + number);
            let [a, b] = link.from.map(|from| match from {
                From::Operand(0) => (sums.unwrap_or(&before[0][..count]), self.kinds[0]),
                From::Operand(k) => (&before[k][..count], self.kinds[k]),
                From::Code(i) => (&before[operands + i][..count], self.links[i].kind),
            });
            let to = &mut rest[0][..count];
            compute(link, [a.1, b.1], a.0, b.0, to);
            if number + 1 != self.links.len() {
                with_type!(link.kind, E => narrowed::<E>(cast_slice_mut(to)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::Code;

    #[test]
    fn one_loop_does_what_operations_do_one_by_one() {
        let link = |code, kind, from| ChainOp { code, kind, from };
        let operand = From::Operand;
        for (kind, relu, plus) in [
            (Kind::I8, false, None),
            (Kind::I8, true, Some(3)),
            (Kind::U8, true, None),
            (Kind::U8, false, Some(200)),
        ] {
            for (scale, divisor) in [
                (0.015_625f32, 0.5f32),
                (0.3, 0.7),
                (1e30, 1e-30),
                (-1e-3, 1e-40),
                (f32::NAN, 2.0),
                (1.0, 0.0),
                (3e38, f32::MIN_POSITIVE),
            ] {
                let mut links = vec![link(Code::Dequantize, Kind::F32, [operand(0), operand(1)])];
                let last = |links: &[ChainOp]| From::Code(links.len() - 1);
                if relu {
                    links.push(link(Code::Relu, Kind::F32, [last(&links); 2]));
                }
                links.push(link(Code::Div, Kind::F32, [last(&links), operand(2)]));
                let floats = [scale, divisor].map(|x| (Kind::F32, x.to_bits()));
                let mut numbers = floats.to_vec();
                links.push(match plus {
                    None => link(Code::Round, kind, [last(&links); 2]),
                    Some(plus) => {
                        numbers.push((kind, plus));
                        link(Code::RoundPlus, kind, [last(&links), operand(3)])
                    }
                });
                let scaled = links[..1 + usize::from(relu)].to_vec();
                let one = [(links, numbers.clone()), (scaled, numbers)];
                let small = (0..700u32).map(|i| i.wrapping_mul(2_654_435_761) >> 17);
                let sums = small.clone().map(|x| x.wrapping_sub(1 << 14));
                let large = small.map(|x| x << 17);
                let ends = [0, u32::MAX, 1 << 31, (1 << 31) - 1, 1 << 24, (1 << 24) - 1];
                for sums in [sums.collect::<Vec<u32>>(), large.chain(ends).collect()] {
                    for (links, numbers) in one.clone() {
                        let one = Epilogue::of(Kind::I32, links, numbers).expect("they are few");
                        assert!(one.one_loop.is_some());
                        let all = Epilogue {
                            one_loop: None,
                            ..one.clone()
                        };
                        let [mut a, mut b] = [sums.clone(), sums.clone()];
                        one.all(&mut one.parts(), &mut a);
                        all.all(&mut all.parts(), &mut b);
                        assert_eq!(a, b, "{kind:?} {relu} {plus:?} {scale} {divisor}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_are_finished_wherever_they_lie() {
        let link = |code, kind, from| ChainOp { code, kind, from };
        let (sum, scale) = (From::Operand(0), From::Operand(1));
        let links = vec![
            link(Code::Dequantize, Kind::F32, [sum, scale]),
            link(Code::Relu, Kind::F32, [From::Code(0); 2]),
            link(Code::Div, Kind::F32, [From::Code(1), From::Operand(2)]),
            link(Code::Round, Kind::I8, [From::Code(2); 2]),
        ];
        let numbers = [0.125f32, 3.0].map(|x| (Kind::F32, x.to_bits()));
        let epilogue = Epilogue::of(Kind::I32, links, numbers.to_vec()).expect("they are few");
        let mut parts = epilogue.parts();
        for (width, used) in [(32, 32), (32, 17), (32, 1), (7, 7), (1, 1)] {
            let before: Vec<i32> = (0..width * 37).map(|i| i * 97 - 3000).collect();
            let mut sums: Vec<u32> = before.iter().map(|x| x.cast_unsigned()).collect();
            epilogue.run(&mut parts, &mut sums, width as usize, used);
            for (i, (found, &before)) in sums.iter().zip(&before).enumerate() {
                let scaled = (before as f32 * 0.125).max(0.0) / 3.0;
                let wanted = match i % (width as usize) < used {
                    true => scaled.round_ties_even().min(127.0) as i32,
                    false => before,
                };
                assert_eq!(found.cast_signed(), wanted, "{width} {used} {i}");
            }
        }
    }
}
