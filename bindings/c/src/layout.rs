//! Layouts: the place of an element, the view decision, deduced maps and conversions.

use crate::argument::{buffer, given, list, optional_list, text, wrong};
use crate::c_text;
use crate::error::{OptcError, enter};
use optc::TensorLayout;
use optc::layout::{NotView, NotationKind, ViewMap, deduce};
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr::null;

/// A tensor type with its layout.
#[derive(Debug)]
pub struct OptcLayout {
    tensor: TensorLayout,
    text: CString,
}

impl From<TensorLayout> for OptcLayout {
    fn from(tensor: TensorLayout) -> OptcLayout {
        OptcLayout {
            text: c_text(tensor.to_string()),
            tensor,
        }
    }
}

/// The answer whether one layout is a view of another: a chain of maps, or a reason.
#[derive(Debug)]
pub struct OptcDecision {
    maps: Vec<ViewMap>,
    reason: Option<CString>,
}

impl From<NotView> for OptcDecision {
    fn from(why: NotView) -> OptcDecision {
        OptcDecision {
            maps: Vec::new(),
            reason: Some(c_text(why.to_string())),
        }
    }
}

/// A map of elements: a reshape to `shape`, a transpose by `perm`, a reshape to `result`. The arrays live as long as
/// the decision.
#[repr(C)]
#[derive(Debug)]
pub struct OptcMap {
    /// Elements along each dimension before the transpose; NULL for those of the operand.
    pub shape: *const u64,
    /// The number of dimensions before the transpose.
    pub shape_rank: usize,
    /// The input axis of each output axis; NULL for no transpose.
    pub perm: *const usize,
    /// The number of axes of `perm`.
    pub perm_rank: usize,
    /// Elements along each dimension of the result.
    pub result: *const u64,
    /// The number of dimensions of the result.
    pub result_rank: usize,
}

/// Reads a tensor type with its layout: `tensor<2x3xf32, {order = [1, 0]}>`, `f32[2,3]{0,1:T(2,128)}` or CuTe's
/// `f32 (2,3):(1,2)`. The caller frees the layout.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_parse(
    tensor: *const c_char,
    layout: Option<&mut MaybeUninit<*mut OptcLayout>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let layout = given(layout, "layout")?;
        let tensor = TensorLayout::parse(text(tensor, "tensor")?)?;
        layout.write(Box::into_raw(Box::new(tensor.into())));
        Ok(())
    })
}

/// Frees a layout; NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_free(layout: Option<Box<OptcLayout>>) {
    drop(layout);
}

/// The tensor type as MLIR writes it. It lives as long as the layout.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_text(layout: Option<&OptcLayout>) -> *const c_char {
    layout.map_or(null(), |layout| layout.text.as_ptr())
}

/// The number of dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_rank(layout: Option<&OptcLayout>) -> usize {
    layout.map_or(0, |layout| layout.tensor.layout().rank())
}

/// Elements along each dimension, as many as the rank. The array lives as long as the layout.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_shape(layout: Option<&OptcLayout>) -> *const u64 {
    layout.map_or(null(), |layout| layout.tensor.layout().shape().as_ptr())
}

/// The bytes of the buffer, padding included.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_bytes(layout: Option<&OptcLayout>) -> u64 {
    layout.map_or(0, |layout| layout.tensor.layout().bytes())
}

/// The position of an element, in elements from the start of the buffer. `index` has one number for each of the `rank`
/// dimensions.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_index(
    layout: Option<&OptcLayout>,
    index: *const u64,
    rank: usize,
    position: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (layout, position) = (given(layout, "layout")?, given(position, "position")?);
        position.write(layout.tensor.position(list(index, rank, "index")?)?);
        Ok(())
    })
}

/// The same layout in a notation: `block`, `strided`, `digits` or `xla`. The caller frees it.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_written_as(
    layout: Option<&OptcLayout>,
    notation: *const c_char,
    written: Option<&mut MaybeUninit<*mut OptcLayout>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (layout, written) = (given(layout, "layout")?, given(written, "written")?);
        let name = text(notation, "notation")?;
        let mut kinds = NotationKind::ALL.iter();
        let Some(kind) = kinds.find(|kind| kind.name() == name) else {
            let known = NotationKind::ALL.iter().map(|kind| kind.name());
            let known: Vec<&str> = known.collect();
            let known = known.join(", ");
            return Err(wrong(format!(
                "found the notation `{name}`, wanted one of {known}"
            )));
        };
        written.write(Box::into_raw(Box::new(
            layout.tensor.written_as(*kind)?.into(),
        )));
        Ok(())
    })
}

/// Decides whether `result` is `operand` in the same buffer, reshaped to `shape`, transposed by `perm`, and reshaped
/// to the result. A NULL `shape` is that of the operand, a NULL `perm` no transpose. The caller frees the decision.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_is_view(
    operand: Option<&OptcLayout>,
    shape: *const u64,
    shape_rank: usize,
    perm: *const usize,
    perm_rank: usize,
    result: Option<&OptcLayout>,
    decision: Option<&mut MaybeUninit<*mut OptcDecision>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (operand, result) = (given(operand, "operand")?, given(result, "result")?);
        let decision = given(decision, "decision")?;
        let map = ViewMap {
            shape: optional_list(shape, shape_rank).map(<[u64]>::to_vec),
            perm: optional_list(perm, perm_rank).map(<[usize]>::to_vec),
            result: result.tensor.layout().shape().to_vec(),
        };
        let (shape, perm) = (map.shape.clone(), map.perm.clone());
        let decided = operand.tensor.decide_view(&result.tensor, shape, perm)?;
        decision.write(Box::into_raw(Box::new(match decided {
            Ok(()) => OptcDecision {
                maps: vec![map],
                reason: None,
            },
            Err(why) => why.into(),
        })));
        Ok(())
    })
}

/// Finds the map between two tensors that share a buffer. The caller frees the decision.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_deduce(
    operand: Option<&OptcLayout>,
    result: Option<&OptcLayout>,
    decision: Option<&mut MaybeUninit<*mut OptcDecision>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (operand, result) = (given(operand, "operand")?, given(result, "result")?);
        let decision = given(decision, "decision")?;
        let found = deduce(operand.tensor.layout(), result.tensor.layout());
        decision.write(Box::into_raw(Box::new(match found {
            Ok(maps) => OptcDecision { maps, reason: None },
            Err(why) => why.into(),
        })));
        Ok(())
    })
}

/// Returns whether the result is a view.
#[unsafe(no_mangle)]
pub extern "C" fn optc_decision_is_view(decision: Option<&OptcDecision>) -> bool {
    decision.is_some_and(|decision| decision.reason.is_none())
}

/// The reason why the result is no view; NULL if it is one. It lives as long as the decision.
#[unsafe(no_mangle)]
pub extern "C" fn optc_decision_reason(decision: Option<&OptcDecision>) -> *const c_char {
    let reason = decision.and_then(|decision| decision.reason.as_ref());
    reason.map_or(null(), |reason| reason.as_ptr())
}

/// The number of maps from the operand to the result, one after another; 0 if nothing changes.
#[unsafe(no_mangle)]
pub extern "C" fn optc_decision_map_count(decision: Option<&OptcDecision>) -> usize {
    decision.map_or(0, |decision| decision.maps.len())
}

/// The map of a number.
#[unsafe(no_mangle)]
pub extern "C" fn optc_decision_map(
    decision: Option<&OptcDecision>,
    number: usize,
    map: Option<&mut MaybeUninit<OptcMap>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (decision, map) = (given(decision, "decision")?, given(map, "map")?);
        let found = decision.maps.get(number).ok_or_else(|| {
            let count = decision.maps.len();
            wrong(format!("found the map {number}, wanted one below {count}"))
        })?;
        map.write(OptcMap {
            shape: found.shape.as_ref().map_or(null(), |s| s.as_ptr()),
            shape_rank: found.shape.as_ref().map_or(0, Vec::len),
            perm: found.perm.as_ref().map_or(null(), |p| p.as_ptr()),
            perm_rank: found.perm.as_ref().map_or(0, Vec::len),
            result: found.result.as_ptr(),
            result_rank: found.result.len(),
        });
        Ok(())
    })
}

/// Frees a decision; NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn optc_decision_free(decision: Option<Box<OptcDecision>>) {
    drop(decision);
}

/// Copies the elements of a buffer in the layout `from` into a buffer in the layout `to`. The buffers have the bytes
/// of their layouts and do not overlap. Padding becomes zero.
#[unsafe(no_mangle)]
pub extern "C" fn optc_layout_convert(
    from: Option<&OptcLayout>,
    to: Option<&OptcLayout>,
    input: *const u8,
    input_len: usize,
    output: *mut u8,
    output_len: usize,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (from, to) = (given(from, "from")?, given(to, "to")?);
        let input = list(input, input_len, "input")?;
        let output = buffer(output, output_len, "output")?;
        from.tensor.convert(&to.tensor, input, output)
    })
}
