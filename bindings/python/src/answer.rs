//! The answer of a fold.

use crate::program::Program;
use crate::task::{raised, run};
use crate::tensors::{Given, Made, Port, Size, arrays, execute, results, tensors};
use indexmap::IndexMap;
use optc::interp::{EquivalenceOptions, NotEquivalent, compare, equivalent};
use optc::text::value_names;
use optc::{
    Absence, Compiler, Diagnostic, Dim, Error, Fate, Format, Stats, Stored, Value, ViewDecision,
};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, OnceLock};

/// A layout: its text, sizes, strides, and the positions that are padding.
type LayoutParts = (String, Vec<Size>, Option<Vec<Size>>, Option<u64>);
/// A holder: function, value, layout, buffer, whether it is in pieces, whether it is constant.
type HolderParts = (String, String, Option<LayoutParts>, String, bool, bool);
/// A conversion: value, names of the values that went in, layouts before and after, bytes, whether it is constant, and
/// the reason.
type ConversionParts = (
    String,
    Vec<String>,
    Option<LayoutParts>,
    Option<LayoutParts>,
    u64,
    bool,
    Option<String>,
);

struct Folded {
    compiler: Compiler,
    before: Arc<optc::Program>,
    answer: optc::Answer,
    /// The names of the values of each function of the result, made when they are asked for.
    names: Vec<OnceLock<IndexMap<Value, String>>>,
}

/// A program after its fold.
#[pyclass(frozen)]
pub(crate) struct Answer {
    folded: Arc<Folded>,
}

fn layout(layout: &Stored) -> LayoutParts {
    let sizes = |dims: Vec<Dim>| dims.iter().map(Size::from).collect::<Vec<Size>>();
    (
        layout.to_string(),
        sizes(layout.dims()),
        layout.strides().map(sizes),
        layout.padding(),
    )
}

impl Folded {
    /// The name of a value in a function of the result.
    fn name(&self, func: usize, value: Value) -> String {
        let of = || value_names(&self.answer.program().module.funcs[func]);
        let names = self.names[func].get_or_init(of);
        names.get(&value).cloned().unwrap_or_default()
    }

    fn holders(&self, value: Value) -> Result<Vec<HolderParts>, Error> {
        let holders = self.answer.holders(value)?.into_iter();
        let parts = holders.map(|holder| {
            let func = &self.answer.program().module.funcs[holder.func];
            (
                func.name.to_string(),
                self.name(holder.func, holder.value),
                holder.layout.as_ref().map(layout),
                self.name(holder.func, holder.place.buffer),
                holder.place.in_pieces,
                holder.place.is_constant,
            )
        });
        Ok(parts.collect())
    }

    fn conversions(&self) -> Vec<ConversionParts> {
        let names: IndexMap<Value, String> = self.before.values().into_iter().collect();
        let name_of = |value: &Value| names.get(value).cloned();
        let all = self.answer.conversions().into_iter();
        let parts = all.map(|kept| {
            let func = &self.answer.program().module.funcs[kept.op.func];
            let result = func.ops[kept.op.op].results.first();
            (
                result.map_or_else(String::new, |&v| self.name(kept.op.func, v)),
                kept.of.iter().filter_map(name_of).collect(),
                kept.from.as_ref().map(layout),
                kept.to.as_ref().map(layout),
                kept.bytes,
                kept.is_constant,
                kept.reason.map(|reason| reason.to_string()),
            )
        });
        parts.collect()
    }

    /// Compares both programs on seeded inputs and edge values.
    fn verify(&self, seeds: u64) -> Result<(), Error> {
        let (before, after) = (&*self.before, self.answer.program());
        let entry = before.entry().map(|func| func.name.to_string());
        let names = [before.name.clone(), format!("{}, folded", before.name)];
        let options = EquivalenceOptions {
            func: entry.unwrap_or_else(|| "main".to_owned()),
            seeds: (0..seeds).collect(),
            uninterpreted: true,
            names: Arc::new(names),
            bindings: self.compiler.bindings.clone(),
            ..EquivalenceOptions::default()
        };
        let (registry, modules) = (self.compiler.registry(), (&before.module, &after.module));
        let data = (before.data(), after.data());
        let done = equivalent(modules.0, modules.1, registry, &data.0, &data.1, &options);
        done.map_err(|error| match &error {
            NotEquivalent::Run { which, source, .. } => {
                let program = if which.is_first() { before } else { after };
                program.error(vec![source.to_diagnostic()])
            }
            NotEquivalent::Boundary(_) | NotEquivalent::Differs { .. } => {
                differs(before, error.to_string())
            }
        })
    }

    /// Compares the results of both programs on inputs.
    fn verify_on(&self, inputs: Vec<Given>) -> Result<(), Error> {
        let inputs = tensors(&self.before, inputs)?;
        let wanted = execute(&self.compiler, &self.before, &inputs)?;
        let found = execute(&self.compiler, self.answer.program(), &inputs)?;
        for ((name, wanted), found) in wanted.iter().zip(found.values()) {
            compare(found, wanted)
                .map_err(|e| differs(&self.before, format!("result `{name}`: {e}")))?;
        }
        Ok(())
    }
}

/// The error of two programs that compute different results.
fn differs(program: &optc::Program, message: String) -> Error {
    let mut codes = optc_cli::CODES.iter();
    let code = codes.find(|code| code.name == "not-equivalent");
    let code = code.copied().unwrap_or(optc::codes::shared::INTERNAL_ERROR);
    Error::about(&program.name, Diagnostic::error(code, message))
}

impl Answer {
    pub(crate) fn new(
        compiler: Compiler,
        before: Arc<optc::Program>,
        passes: &str,
    ) -> Result<Answer, Error> {
        let answer = compiler.answer(&before, passes)?;
        Ok(Answer {
            folded: Arc::new(Folded {
                compiler,
                before,
                names: answer
                    .program()
                    .module
                    .funcs
                    .iter()
                    .map(|_| OnceLock::new())
                    .collect(),
                answer,
            }),
        })
    }

    fn value(&self, name: &str) -> PyResult<Value> {
        let found = self.folded.before.value(name);
        found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

#[pymethods]
impl Answer {
    /// The program that went in.
    fn before(&self) -> Program {
        Program {
            program: self.folded.before.clone(),
        }
    }

    /// The text of the result.
    fn text(&self) -> String {
        self.folded.answer.program().text()
    }

    /// The names of the result's results and their types.
    fn results(&self) -> Vec<Port> {
        results(self.folded.answer.program())
    }

    /// The fate of a value: a word, and a pass if one removed it.
    fn fate(&self, py: Python<'_>, name: &str) -> PyResult<(&'static str, Option<&'static str>)> {
        let fate = self.folded.answer.fate(self.value(name)?);
        Ok(match fate.map_err(|error| raised(py, &error))? {
            Fate::Absent(Absence::Dead) => ("dead", None),
            Fate::Absent(Absence::Inside(_)) => ("inside", None),
            Fate::Absent(Absence::Removed(pass)) => ("removed", Some(pass)),
            _ => ("held", None),
        })
    }

    /// The holders of a value that went in.
    fn holders(&self, py: Python<'_>, name: &str) -> PyResult<Vec<HolderParts>> {
        let holders = self.folded.holders(self.value(name)?);
        holders.map_err(|error| raised(py, &error))
    }

    /// The place of an element of a value in the buffer of a holder, in elements; `None` if it is outside or not known.
    fn offset(
        &self,
        py: Python<'_>,
        name: &str,
        holder: usize,
        index: Vec<u64>,
    ) -> PyResult<Option<i64>> {
        let holders = self.folded.answer.holders(self.value(name)?);
        let holders = holders.map_err(|error| raised(py, &error))?;
        Ok(holders.get(holder).and_then(|holder| holder.offset(&index)))
    }

    /// The fate of the rearrangement with this value as result: `view`, `moved`, `computed` or `absent`.
    fn view(&self, py: Python<'_>, name: &str) -> PyResult<&'static str> {
        let answer = &self.folded.answer;
        let op = answer.definition(self.value(name)?);
        let Some(op) = op.map_err(|error| raised(py, &error))? else {
            return Err(PyValueError::new_err(format!("{name} is an argument")));
        };
        Ok(
            match answer.is_view(op).map_err(|error| raised(py, &error))? {
                ViewDecision::View { .. } => "view",
                ViewDecision::Moved(_) => "moved",
                ViewDecision::Computed => "computed",
                _ => "absent",
            },
        )
    }

    /// The conversions that stay.
    fn conversions(&self) -> Vec<ConversionParts> {
        self.folded.conversions()
    }

    /// The figures before or after the fold, by name.
    fn stats(&self, py: Python<'_>, before: bool) -> PyResult<Vec<(&'static str, u64)>> {
        let Folded {
            compiler, answer, ..
        } = &*self.folded;
        if !before {
            return Ok(answer.stats().fields());
        }
        let cx = compiler.context(answer.program());
        let target = cx.map_err(|error| raised(py, &error))?.target;
        let sizes = compiler.sizes(&self.folded.before);
        let module = &self.folded.before.module;
        Ok(Stats::on(module, compiler.registry(), &sizes, &target).fields())
    }

    /// The target, the bytes before and after, the lower bound and its proof; `None` without `view-fold`.
    fn report(&self) -> Option<(String, u64, u64, u64, &'static str)> {
        let fold = self.folded.answer.folded()?;
        let bytes = (fold.bytes_before, fold.bytes_after, fold.lower_bound_bytes);
        Some((
            fold.target.clone(),
            bytes.0,
            bytes.1,
            bytes.2,
            fold.proof.name(),
        ))
    }

    /// The most bytes that are alive at once.
    fn peak_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        let folded = self.folded.clone();
        run(py, move || folded.answer.peak_bytes())
    }

    /// The remarks and warnings as the command prints them.
    fn remarks(&self) -> String {
        let said = &self.folded.answer.report().remarks;
        self.folded.before.render(said)
    }

    /// Runs the result by the physical executor.
    fn run<'py>(&self, py: Python<'py>, inputs: Vec<Given>) -> PyResult<Vec<Made<'py>>> {
        let folded = self.folded.clone();
        let made = run(py, move || {
            let inputs = tensors(&folded.before, inputs)?;
            execute(&folded.compiler, folded.answer.program(), &inputs)
        })?;
        Ok(arrays(py, &made))
    }

    /// Compares both programs, on seeded inputs or on given ones.
    fn verify(&self, py: Python<'_>, seeds: u64, inputs: Option<Vec<Given>>) -> PyResult<()> {
        let folded = self.folded.clone();
        run(py, move || match inputs {
            Some(inputs) => folded.verify_on(inputs),
            None => folded.verify(seeds),
        })
    }

    /// The result in a format.
    fn write<'py>(&self, py: Python<'py>, format: &str) -> PyResult<Bound<'py, PyBytes>> {
        let found = Format::named(format);
        let format = found.ok_or_else(|| PyValueError::new_err(format.to_owned()))?;
        let folded = self.folded.clone();
        let bytes = run(py, move || folded.compiler.write(&folded.answer, format))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
