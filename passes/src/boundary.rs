//! Freedom and pins of the layouts of arguments and results.

use crate::codes;
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Diagnostic, Module, Value};

/// Options for the boundary of functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Boundary {
    /// `--free-boundary`: every argument and result may have any layout. Exceptions are an argument that shares its
    /// memory with results (the attribute `hbir.alias` of its port has their numbers) and these results.
    pub free_all: bool,
    /// `--free-boundary=x,y`: these ports may have any layout.
    pub free: Vec<String>,
    /// `--pin-boundary`: the boundary of a bare-op file keeps its layouts, too.
    pub pin_bare: bool,
    /// `--pin x='{…}'`: the layout of a port, in the notation of its encoding.
    pub pins: IndexMap<String, optc_layout::Notation>,
    /// `--alias past=present`: pairs of an argument and a result that share their memory, so that the result is written
    /// in place. A pair that cannot is refused (`alias-refused`).
    pub aliases: Vec<(String, String)>,
}

impl Boundary {
    /// Checks that each name is that of a tensor among the arguments and results of a function.
    ///
    /// # Errors
    /// A name is of none (`unknown-port`).
    pub fn check(&self, module: &Module) -> Result<(), Box<Diagnostic>> {
        let mut known: IndexSet<String> = IndexSet::new();
        for func in &module.funcs {
            let tensor = |&(_, value): &(String, &Value)| func.ty(*value).as_tensor().is_some();
            let args = func.args.iter().enumerate();
            let args = args.map(|(i, value)| (func.arg_key(i), value));
            let results = func.results.iter().enumerate();
            let results = results.map(|(i, value)| (func.result_key(i), value));
            known.extend(args.chain(results).filter(tensor).map(|(key, _)| key));
        }
        let mut names = self.free.iter().chain(self.pins.keys());
        let Some(name) = names.find(|name| !known.contains(*name)) else {
            return Ok(());
        };
        let message = format!("found no tensor `{name}` among the arguments and results");
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let diag = Diagnostic::error(codes::UNKNOWN_PORT, message);
        let diag = diag.note(format!("wanted one of {}", known.join(", ")));
        Err(Box::new(diag.suggest("", name, known)))
    }
}
