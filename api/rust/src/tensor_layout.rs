//! Layouts of tensors as text, and the questions about them that other languages ask.

use crate::codes;
use crate::error::Error;
use optc_ir::{Code, Diagnostic, Span};
use optc_layout::notation::{TextError, parse_tensor};
use optc_layout::{Layout, LayoutError, NotView, NotationKind, ViewMap, XlaType, is_view};
use std::fmt;
use std::sync::Arc;

/// A tensor type with its layout, and the text that it was read from.
///
/// `Display` writes it as MLIR does.
///
/// ```
/// use optc::TensorLayout;
/// use optc::layout::NotationKind;
///
/// let rows = TensorLayout::parse("f32[2,3]{1,0}")?;
/// let columns = TensorLayout::parse("tensor<2x3xf32, {order = [1, 0]}>")?;
/// assert_eq!((rows.position(&[1, 0])?, columns.position(&[1, 0])?), (3, 1));
/// assert_eq!((rows.dtype(), rows.layout().bytes()), ("f32", 24));
/// assert_eq!(columns.written_as(NotationKind::Strided)?.to_string(), "tensor<2x3xf32, {strides = [1, 2]}>");
/// assert!(rows.decide_view(&columns, None, None)?.is_err());
/// # Ok::<(), optc::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorLayout {
    text: String,
    dtype: String,
    layout: Layout,
}

impl TensorLayout {
    /// Reads a tensor type in any way of writing: `tensor<2x3xf32, {order = [1, 0]}>`, `f32[2,3]{0,1:T(2,2)}`, or
    /// CuTe's `f32 (2,3):(1,2)`.
    ///
    /// # Errors
    /// `tensor-syntax` at the first mistake.
    pub fn parse(text: &str) -> Result<TensorLayout, Error> {
        let tensor = parse_tensor(text).map_err(|e| TensorLayout::mistake(text, e))?;
        Ok(TensorLayout {
            text: text.to_owned(),
            dtype: tensor.dtype,
            layout: tensor.layout,
        })
    }

    /// The error of a mistake in the text of a tensor or a layout.
    #[must_use]
    pub fn mistake(text: &str, e: TextError) -> Error {
        let start = u32::try_from(e.offset.min(text.len())).unwrap_or(u32::MAX);
        let span = Span {
            start,
            end: start.saturating_add(1),
        };
        let message = format!("found {}, wanted {}", e.found, e.wanted);
        let diag = Diagnostic::error(codes::TENSOR_SYNTAX, message).at(span, "");
        let reason = e.layout.map(|reason| reason.to_string());
        let notes = reason.into_iter().chain(e.hint);
        Error {
            diagnostics: vec![notes.fold(diag, Diagnostic::note)],
            file: "<tensor>".to_owned(),
            source: Arc::from(text),
        }
    }

    /// The name of the element type as written.
    #[must_use]
    pub fn dtype(&self) -> &str {
        &self.dtype
    }

    /// The MLIR name of the element type, which may be written with XLA's.
    #[must_use]
    pub fn mlir_dtype(&self) -> String {
        XlaType::from_name(&self.dtype).map_or_else(|| self.dtype.clone(), XlaType::mlir_name)
    }

    /// The layout; row-major if none is written.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The position of an element, in elements from the start of the buffer.
    ///
    /// # Errors
    /// `index-rank` or `index-bounds`.
    pub fn position(&self, index: &[u64]) -> Result<u64, Error> {
        let shape = self.layout.shape();
        if index.len() != shape.len() {
            let (found, wanted) = (index.len(), shape.len());
            let message = format!("found an index of {found} numbers, wanted {wanted}");
            return Err(self.refuse(codes::INDEX_RANK, message));
        }
        self.layout.index(index).ok_or_else(|| {
            let message = format!("the index {index:?} is out of bounds of the shape {shape:?}");
            self.refuse(codes::INDEX_BOUNDS, message)
        })
    }

    /// The same layout in a notation.
    ///
    /// # Errors
    /// `layout-notation` if the notation cannot write it.
    pub fn written_as(&self, kind: NotationKind) -> Result<TensorLayout, Error> {
        let refused = |e: LayoutError| {
            let message = format!("no layout in this notation: {e}");
            self.refuse(codes::LAYOUT_NOTATION, message)
        };
        Ok(TensorLayout {
            layout: self.layout.convert(kind).map_err(refused)?,
            ..self.clone()
        })
    }

    /// Decides whether `result` is this tensor in the same buffer, reshaped to `shape` and transposed by `perm`, as
    /// in [`ViewMap`]. The inner error says why it is none.
    ///
    /// # Errors
    /// `view-shape` if the map does not fit the tensors.
    pub fn decide_view(
        &self,
        result: &TensorLayout,
        shape: Option<Vec<u64>>,
        perm: Option<Vec<usize>>,
    ) -> Result<Result<(), NotView>, Error> {
        let map = ViewMap {
            shape,
            perm,
            result: result.layout.shape().to_vec(),
        };
        map.check(self.layout.shape())
            .map_err(|e| self.refuse(codes::VIEW_SHAPE, e.to_string()))?;
        Ok(is_view(&self.layout, &map, &result.layout))
    }

    /// Copies the elements of a buffer in this layout into a buffer in another one. Padding becomes zero.
    ///
    /// ```
    /// let rows = optc::TensorLayout::parse("s8[2,3]{1,0}")?;
    /// let columns = optc::TensorLayout::parse("s8[2,3]{0,1}")?;
    /// let mut output = [0; 6];
    /// rows.convert(&columns, &[1, 2, 3, 4, 5, 6], &mut output)?;
    /// assert_eq!(output, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), optc::Error>(())
    /// ```
    ///
    /// # Errors
    /// `layout-conversion` if shapes or element widths differ, or a buffer has not the size of its layout.
    #[cfg(feature = "exec")]
    pub fn convert(&self, to: &TensorLayout, input: &[u8], output: &mut [u8]) -> Result<(), Error> {
        use optc_exec::{ConversionOptions, ConversionPlan, Moved, Padding};
        let options = ConversionOptions {
            padding: Padding::Zero,
            ..ConversionOptions::default()
        };
        ConversionPlan::new(&self.layout, &to.layout, options)
            .and_then(|plan| plan.execute(input, output, &mut Moved::default()))
            .map_err(|e| self.refuse(codes::LAYOUT_CONVERSION, e.to_string()))
    }

    fn refuse(&self, code: Code, message: String) -> Error {
        Error::about(&self.text, Diagnostic::error(code, message))
    }
}

impl fmt::Display for TensorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for n in self.layout.shape() {
            write!(f, "{n}x")?;
        }
        f.write_str(&self.mlir_dtype())?;
        match self.layout.notation().to_string() {
            notation if notation.is_empty() => f.write_str(">"),
            notation => write!(f, ", {{{notation}}}>"),
        }
    }
}
