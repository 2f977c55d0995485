//! The chart of results: two bars for each model over an axis in megabytes, the longest bar first.

use std::fmt::Write as _;

/// The bytes that a model moves before and after the fold.
pub(crate) struct Bars<'a> {
    pub(crate) name: &'a str,
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// The height of a model's two bars and the space below them.
const LINE: u64 = 18;
/// The horizontal start of the bars, with room for a name of 30 characters, and the length of the longest bar.
const LEFT: u64 = 220;
const WIDTH: u64 = 520;
/// The vertical position of the axis, below the title and the legend.
const TOP: u64 = 72;
/// A megabyte, in bytes.
const MEGABYTE: u64 = 1_000_000;

const BEFORE: &str = "#9a9a9a";
const AFTER: &str = "#c62828";

/// The chart as an SVG document, ending with a line break.
pub(crate) fn draw(bars: &[Bars], target: &str) -> String {
    let mut sorted: Vec<&Bars> = bars.iter().collect();
    sorted.sort_by(|a, b| {
        let key = |m: &Bars| (m.before, m.after);
        key(b).cmp(&key(a)).then(a.name.cmp(b.name))
    });
    let most = bars.iter().map(|m| m.before.max(m.after)).max();
    let step = step(most.unwrap_or(0));
    let end = most.unwrap_or(0).div_ceil(step).max(1) * step;
    let models = u64::try_from(bars.len()).unwrap_or(u64::MAX);
    let bottom = TOP + 8 + LINE * models;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"18\" font-size=\"13\">Bytes that reshapes and transposes move on target {}, most first</text>\n\
         <rect x=\"{LEFT}\" y=\"28\" width=\"22\" height=\"9\" fill=\"{BEFORE}\"/><text x=\"{}\" y=\"36\">before</text>\
         <rect x=\"{}\" y=\"28\" width=\"22\" height=\"9\" fill=\"{AFTER}\"/><text x=\"{}\" y=\"36\">after view-fold</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">read and written, MB (10^6 bytes)</text>\n",
        LEFT + WIDTH + 130,
        bottom + 8,
        escaped(target),
        LEFT + 28,
        LEFT + 90,
        LEFT + 118,
        LEFT + WIDTH + 120,
        36,
    );
    // The grid lines are drawn under the bars.
    for tick in (0..=end / step).map(|n| n * step) {
        let x = LEFT + scaled(tick, end);
        let _ = writeln!(
            svg,
            "<path d=\"M{x},{} V{bottom}\" stroke=\"#e0e0e0\"/>\
             <path d=\"M{x},{} V{TOP}\" stroke=\"#424242\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            TOP,
            TOP - 5,
            TOP - 9,
            number(tick),
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT},{TOP} H{}\" stroke=\"#424242\"/>",
        LEFT + WIDTH
    );
    for (model, y) in sorted.iter().zip((0..).map(|i: u64| TOP + 6 + LINE * i)) {
        let (before, after) = (scaled(model.before, end), scaled(model.after, end));
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{before}\" height=\"7\" fill=\"{BEFORE}\"/>\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"{after}\" height=\"7\" fill=\"{AFTER}\"/>\
             <text x=\"{}\" y=\"{}\">{} → {}</text>",
            LEFT - 8,
            y + 11,
            escaped(model.name),
            y + 7,
            LEFT + before.max(after) + 6,
            y + 11,
            mb(model.before),
            mb(model.after)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// The length of a bar.
fn scaled(bytes: u64, end: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(WIDTH) / u128::from(end.max(1))).unwrap_or(WIDTH)
}

/// The distance between two ticks: 1, 2 or 5 times a power of ten, such that at most six ticks cover the range. It is
/// at least 100 bytes, the precision of the labels.
fn step(most: u64) -> u64 {
    let mut power = 100_u64;
    loop {
        for digit in [1, 2, 5] {
            let step = power.saturating_mul(digit);
            if most.div_ceil(step) <= 6 {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Megabytes in the format of the tables.
#[expect(clippy::cast_precision_loss, reason = "megabytes with two digits")]
pub(crate) fn mb(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}

/// A tick in megabytes, with as many digits as necessary.
fn number(bytes: u64) -> String {
    let (whole, rest) = (bytes / MEGABYTE, bytes % MEGABYTE);
    match rest {
        0 => whole.to_string(),
        _ => format!("{whole}.{}", format!("{rest:06}").trim_end_matches('0')),
    }
}

/// A text with XML escapes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::{Bars, LEFT, WIDTH, draw, number, step};

    const ROWS: [(&str, u64, u64); 4] = [
        ("small", 40_000, 40_000),
        ("b_equal", 9_030_000, 0),
        ("a_equal", 9_030_000, 0),
        ("large", 274_560_000, 16_860_000),
    ];

    fn bars(rows: &[(&'static str, u64, u64)]) -> Vec<Bars<'static>> {
        let bars = rows.iter().map(|&(name, before, after)| Bars {
            name,
            before,
            after,
        });
        bars.collect()
    }

    #[test]
    fn the_model_that_moves_most_stands_first_whatever_the_order_of_the_rows() {
        let picture = draw(&bars(&ROWS), "cpu");
        let mut backwards = ROWS;
        backwards.reverse();
        assert_eq!(picture, draw(&bars(&backwards), "cpu"));
        let places = ["large", "a_equal", "b_equal", "small"].map(|name| {
            let text = format!(">{name}</text>");
            picture.find(&text).expect("a model of the picture")
        });
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn the_axis_has_ticks_a_unit_and_ends_behind_the_longest_bar() {
        let picture = draw(&bars(&ROWS), "cpu");
        for (mark, tick) in [(0, "0"), (1, "50"), (6, "300")] {
            let x = LEFT + WIDTH * mark / 6;
            let text = format!("<text x=\"{x}\" y=\"63\" text-anchor=\"middle\">{tick}</text>");
            assert!(picture.contains(&text), "no {text} in {picture}");
        }
        assert!(picture.contains("MB (10^6 bytes)"), "{picture}");
        let longest = WIDTH * 27_456 / 30_000;
        let bar = format!("width=\"{longest}\" height=\"7\"");
        assert!(picture.contains(&bar), "no {bar} in {picture}");
    }

    #[test]
    fn the_legend_names_the_colours_of_the_bars() {
        let picture = draw(&bars(&ROWS), "npu");
        for (words, colour) in [("before", super::BEFORE), ("after view-fold", super::AFTER)] {
            let legend = picture
                .lines()
                .find(|l| l.contains(&format!(">{words}</text>")));
            let legend = legend.expect("an entry of the legend");
            let patch = &legend[..legend.find(words).unwrap_or(0)];
            assert!(
                patch.rfind("fill=") == patch.rfind(&format!("fill=\"{colour}\"")),
                "{legend}"
            );
        }
        assert!(picture.contains("on target npu"), "{picture}");
    }

    #[test]
    fn ticks_are_round_numbers_of_megabytes() {
        assert_eq!(step(274_560_000), 50_000_000);
        assert_eq!(step(0), 100);
        assert_eq!(step(u64::MAX), 5_000_000_000_000_000_000);
        assert_eq!(number(50_000_000), "50");
        assert_eq!(number(2_500), "0.0025");
        assert_eq!(
            draw(&[], "cpu").matches("text-anchor=\"middle\"").count(),
            2
        );
    }
}
