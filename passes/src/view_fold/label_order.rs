//! The order of labels that a layout expresses.

use super::layouts::{LayoutId, Layouts};
use super::physical::Digit;
use super::signature::{LabelDigit, LabelOrder, Signature};
use optc_layout::Mode;

/// The order of labels that a layout at a port expresses; `None` if it is no order of labels.
pub(crate) fn label_order(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Option<LabelOrder> {
    let labels = sig.labels(port);
    if sig.is_tiled() {
        let form = layouts.form(layout)?;
        let digit = |d: &Digit| {
            let label = labels.get(d.dim).copied().flatten()?;
            let (div, extent, place) = (d.div, d.extent, d.place);
            Some(LabelDigit {
                label,
                div,
                extent,
                place,
            })
        };
        return form.digits.iter().map(digit).collect();
    }
    let modes = layouts.modes(layout)?;
    let shape = &sig.shapes[port];
    let long = |p: &&Mode| 1 < p.extent && (1 < shape[p.dim] || labels[p.dim].is_some());
    let long = modes.iter().filter(long);
    long.map(|m| sig.label_digit(port, m)).collect()
}
