//! Random layouts, and the conversion by the layout function itself.

use optc_exec::{ConversionOptions, ConversionPlan, Moved, Padding};
use optc_layout::notation::parse_tensor;
use optc_layout::{Layout, Mode};

/// The value of bytes that must be neither read nor overwritten.
const POISON: u8 = 0xa5;

/// The size of a cache line in bytes.
const LINE: usize = 64;

pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % n
    }

    pub(crate) fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut list: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            list.swap(i, self.below(i + 1));
        }
        list
    }

    pub(crate) fn bytes(&mut self, n: u64) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}

fn join(list: &[usize]) -> String {
    let list: Vec<String> = list.iter().map(usize::to_string).collect();
    list.join(", ")
}

fn read(shape: &[u64], encoding: &str, bits: u32) -> Option<Layout> {
    let dims: String = shape.iter().map(|n| format!("{n}x")).collect();
    let text = format!("tensor<{dims}si8, {{{encoding}}}>");
    let notation = parse_tensor(&text).ok()?.layout.notation().clone();
    Layout::new(notation, shape, bits).ok()
}

fn blocks(rng: &mut Rng, shape: &[u64], bits: u32) -> Option<Layout> {
    let factor = |rng: &mut Rng| format!("{}d{}", 1 + rng.below(9), rng.below(shape.len()));
    let factors: Vec<String> = (0..1 + rng.below(3)).map(|_| factor(rng)).collect();
    let order = join(&rng.permutation(shape.len()));
    read(
        shape,
        &format!("block = \"{}\", order = [{order}]", factors.join(" ")),
        bits,
    )
}

fn digits(rng: &mut Rng, shape: &[u64], bits: u32) -> Option<Layout> {
    let mut modes = Vec::new();
    for (dim, &size) in shape.iter().enumerate() {
        let mut above = size;
        while 1 < above {
            let div = match rng.below(2) {
                0 => 1,
                _ => 1 + rng.below(above as usize - 1) as u64,
            };
            // A digit must divide the one above it.
            let fits = modes
                .iter()
                .all(|m: &Mode| m.dim != dim || m.div.is_multiple_of(div));
            let div = if fits { div } else { 1 };
            let count = above.div_ceil(div);
            let extent = count + [0, 0, 0, 1, 3][rng.below(5)];
            modes.push(Mode {
                dim,
                div,
                count,
                extent,
            });
            above = div;
        }
    }
    let order = rng.permutation(modes.len());
    let modes: Vec<Mode> = order.into_iter().map(|i| modes[i]).collect();
    Layout::from_modes(shape, bits, &modes).ok()
}

fn strided(rng: &mut Rng, shape: &[u64], bits: u32) -> Option<Layout> {
    let mut strides = vec![0; shape.len()];
    let mut stride = 1 + rng.below(3) as i64;
    for dim in rng.permutation(shape.len()) {
        strides[dim] = stride;
        stride = stride * shape[dim] as i64 + [0, 0, 1, 4][rng.below(4)];
    }
    // Some layouts share offsets or have negative strides.
    let mut offset = rng.below(5) as i64;
    if rng.below(4) == 0 {
        let dim = rng.below(shape.len());
        strides[dim] = match rng.below(3) {
            0 => 0,
            1 => 1,
            _ => -strides[dim],
        };
        offset += (-strides[dim]).max(0) * (shape[dim] as i64 - 1);
    }
    let strides: Vec<String> = strides.iter().map(i64::to_string).collect();
    read(
        shape,
        &format!("strides = [{}], offset = {offset}", strides.join(", ")),
        bits,
    )
}

fn tiles(rng: &mut Rng, shape: &[u64], bits: u32) -> Option<Layout> {
    let order: Vec<String> = rng
        .permutation(shape.len())
        .iter()
        .map(usize::to_string)
        .collect();
    let mut tiles = String::new();
    for _ in 0..1 + rng.below(2) {
        let len = 1 + rng.below(3);
        let entry = |rng: &mut Rng, i: usize| match rng.below(7) {
            0 if i + 1 < len => "*".to_owned(),
            _ => (1 + rng.below(9)).to_string(),
        };
        let entries: Vec<String> = (0..len).map(|i| entry(rng, i)).collect();
        tiles += &format!("({})", entries.join(","));
    }
    read(
        shape,
        &format!("xla = \"{}:T{tiles}\"", order.join(",")),
        bits,
    )
}

pub(crate) fn layout(rng: &mut Rng, shape: &[u64], bits: u32) -> Layout {
    for _ in 0..20 {
        let made = match rng.below(6) {
            0 => Some(Layout::row_major(shape, bits)),
            1 => Layout::from_order(shape, bits, &rng.permutation(shape.len())).ok(),
            2 => blocks(rng, shape, bits),
            3 => digits(rng, shape, bits),
            4 => strided(rng, shape, bits),
            _ => tiles(rng, shape, bits),
        };
        if let Some(made) = made.filter(|l| l.positions() < 1 << 18 && l.elem_bits() == bits) {
            return made;
        }
    }
    Layout::row_major(shape, bits)
}

fn get(buffer: &[u8], bit: u64) -> u8 {
    buffer[(bit / 8) as usize] >> (bit % 8) & 1
}

fn set(buffer: &mut [u8], bit: u64, value: u8) {
    let place = &mut buffer[(bit / 8) as usize];
    *place = *place & !(1 << (bit % 8)) | value << (bit % 8);
}

/// The expected target, which is filled with poison first, element by element.
pub(crate) fn expected(from: &Layout, to: &Layout, source: &[u8], padding: Padding) -> Vec<u8> {
    let poison = if padding == Padding::Zero { 0 } else { POISON };
    let mut target = vec![poison; to.bytes() as usize];
    let bits = u64::from(from.elem_bits());
    let mut e = vec![0u64; from.rank()];
    for _ in 0..from.elements() {
        let (read, written) = (from.index(&e).unwrap(), to.index(&e).unwrap());
        for bit in 0..bits {
            set(
                &mut target,
                written * bits + bit,
                get(source, read * bits + bit),
            );
        }
        for (index, size) in e.iter_mut().zip(from.shape()).rev() {
            *index += 1;
            if *index < *size {
                break;
            }
            *index = 0;
        }
    }
    target
}

/// Converts with these options and numbers of threads, and compares.
#[track_caller]
pub(crate) fn check(
    from: &Layout,
    to: &Layout,
    source: &[u8],
    wanted: &[u8],
    options: ConversionOptions,
    threads: usize,
) {
    let plan = ConversionPlan::new(from, to, options).expect("the layouts fit");
    // The target is once aligned to a cache line, as streaming requires, and once not. A cache line on both sides must
    // stay unchanged.
    let mut memory = vec![POISON; wanted.len() + 4 * LINE];
    let aligned = memory.as_ptr().align_offset(LINE).min(LINE);
    let mut moved = Moved::default();
    for start in [aligned + LINE, aligned + LINE + 8] {
        memory.fill(POISON);
        moved = Moved::default();
        let target = &mut memory[start..][..wanted.len()];
        plan.execute_on(threads, source, target, &mut moved)
            .expect("the sizes are right");
        let outside = |i: usize| i < start || start + wanted.len() <= i;
        let found = memory.iter().enumerate();
        let mut wrong = found.filter(|&(i, &byte)| match outside(i) {
            true => byte != POISON,
            false => byte != wanted[i - start],
        });
        if let Some((at, _)) = wrong.next() {
            panic!(
                "{:?} {} -> {}, {} bits, {options:?}, {threads} threads: byte {}\n{plan}",
                from.shape(),
                from.notation(),
                to.notation(),
                from.elem_bits(),
                at as i64 - start as i64,
            );
        }
    }
    let whole = from.elements() * u64::from(from.elem_bits());
    assert_eq!(moved.read(), whole.div_ceil(8));
    assert!(whole.div_ceil(8) <= moved.written());
}
