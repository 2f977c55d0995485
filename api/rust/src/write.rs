//! Folded programs as bytes in a format.

use crate::answer::Answer;
use crate::compiler::Compiler;
use crate::error::Error;
use crate::format::Format;
use optc_ir::{DType, Diagnostic};

impl Compiler {
    /// The program of an answer in a format, as the bytes of a file.
    ///
    /// ONNX and StableHLO have no layouts, so a conversion becomes a transpose there, or is folded into its readers; the
    /// compiler's target must be that of the answer. Constants in files of their own stay there, and the model refers to
    /// them. The command `optc` keeps operators whole that the formats have, and writes what cannot be written better as
    /// it was; this function does neither.
    ///
    /// ```
    /// let compiler = optc::Compiler::new();
    /// let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>";
    /// let answer = compiler.fold(&compiler.parse("example.ir", text)?)?;
    /// let stablehlo = compiler.write(&answer, optc::Format::StableHlo)?;
    /// assert!(String::from_utf8_lossy(&stablehlo).contains("stablehlo.transpose"));
    /// # Ok::<(), optc::Error>(())
    /// ```
    ///
    /// # Errors
    /// The format lacks an operation or a layout of the program, or constants cannot be read.
    pub fn write(&self, answer: &Answer, format: Format) -> Result<Vec<u8>, Error> {
        let mut program = answer.program().clone();
        let target = self.context(&program)?.target;
        match format {
            Format::Ir => return Ok(program.text().into_bytes()),
            Format::Onnx | Format::StableHlo => {
                self.compile(&mut program, "normalize-layouts")?;
            }
            Format::Hlo if target.dimension_numbers => {
                self.compile(&mut program, "normalize-layouts{keep-boundary=true}")?;
            }
            Format::Hlo | Format::Linalg => {}
        }
        let source = program.data();
        let data = move |file: &str, offset, length, dtype: DType| {
            let bytes = optc_interp::DataSource::read(&source, file, offset, length, dtype);
            bytes.map_err(|error| error.to_string())
        };
        let (module, registry) = (&program.module, self.registry());
        let refused = |diag: Box<Diagnostic>| program.error(vec![*diag]);
        if format == Format::Onnx {
            let options = optc_emit::onnx::Options {
                fused: target.name == "onnxruntime",
                pixel_shuffles: true,
            };
            let made = optc_emit::onnx::emit(module, registry, options, &data);
            return Ok(made.map_err(refused)?.bytes);
        }
        if format == Format::Linalg {
            let made = optc_emit::linalg::emit(module, registry, &data);
            return Ok(made.map_err(refused)?.into_bytes());
        }
        let emit = match format {
            Format::Hlo => optc_emit::hlo::emit,
            _ => optc_emit::stablehlo::emit,
        };
        let made = emit(module, registry, Some(&*target), &data);
        Ok(made.map_err(refused)?.text.into_bytes())
    }
}
