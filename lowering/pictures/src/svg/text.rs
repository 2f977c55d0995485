//! Widths of text.

/// Advance widths of the characters from space to tilde, in thousandths of the font size. They are those of DejaVu Sans
/// and Verdana; Arial and Helvetica are narrower.
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];
/// Widths of other characters: up to accented Latin and Greek, then ideographs.
const OTHER: u16 = 800;
const IDEOGRAPH: u16 = 1000;
/// The largest ratio of bold to regular width.
const BOLD: f64 = 1.13;

/// The fonts that fit the widths, best first.
pub(crate) const FONTS: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// An upper bound of the width of a line of text.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let sum: u32 = text.chars().map(|c| u32::from(advance(c))).sum();
    let factor = if bold { BOLD } else { 1.0 };
    f64::from(sum) / 1000.0 * size * factor
}

fn advance(c: char) -> u16 {
    let code = u32::from(c);
    let known = code.checked_sub(32).and_then(|i| usize::try_from(i).ok());
    match known.and_then(|i| WIDTHS.get(i)) {
        Some(&width) => width,
        None if code < 0x1100 => OTHER,
        None => IDEOGRAPH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_add_up() {
        assert!((width("ab", 10.0, false) - 12.48).abs() < 1e-9);
        assert!((width("ab", 10.0, true) - 12.48 * BOLD).abs() < 1e-9);
        assert!((width("", 10.0, false)).abs() < 1e-9);
        assert!((width("×層", 10.0, false) - 18.0).abs() < 1e-9);
    }
}
