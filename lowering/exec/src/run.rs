//! A run: arguments in, steps, results out.

use crate::buffer::{Buffer, gather, scatter};
use crate::codes;
use crate::compile::{Executable, Outcome, Step, Work, source, too_little};
use crate::memory::{Memory, Slot, Storage};
use crate::moved::Moved;
use crate::profile::{Profile, StepProfile};
use crate::team::{Context, Team};
use cpu_time::{ProcessTime, ThreadTime};
use indexmap::IndexMap;
use optc_interp::{MAX_STEPS, RunError, RunsFunctions, check_inputs, empty, ranks, run_control};
use optc_ir::{DType, Diagnostic, EvalContext, Tensor, Value};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The processor time of this thread, or of all where several share the work.
enum Cpu {
    Thread(ThreadTime),
    Process(ProcessTime),
}

impl Cpu {
    fn now(team: &Team) -> Cpu {
        match team.threads() {
            1 => Cpu::Thread(ThreadTime::now()),
            _ => Cpu::Process(ProcessTime::now()),
        }
    }

    fn elapsed(&self) -> Duration {
        match self {
            Cpu::Thread(time) => time.elapsed(),
            Cpu::Process(time) => time.elapsed(),
        }
    }
}

impl Executable {
    /// Runs it on inputs of the sizes it was made for; keys are argument and result names.
    ///
    /// # Errors
    /// Inputs that do not fit, too little memory, operands that an operation refuses.
    pub fn run(
        &self,
        inputs: &IndexMap<String, Tensor>,
    ) -> Result<IndexMap<String, Tensor>, Box<Diagnostic>> {
        self.profile(inputs).map(|(results, _)| results)
    }

    /// The same, with what each step took and moved.
    ///
    /// # Errors
    /// As [`run`](Executable::run).
    pub fn profile(
        &self,
        inputs: &IndexMap<String, Tensor>,
    ) -> Result<(IndexMap<String, Tensor>, Profile), Box<Diagnostic>> {
        check_inputs(&self.func, inputs, &self.bindings)
            .map_err(|e| Box::new(RunError::Input(e).to_diagnostic()))?;
        let given: Option<Vec<&Tensor>> =
            self.argument_keys.iter().map(|k| inputs.get(k)).collect();
        let mut profile = Profile::default();
        // What is mapped anew for each run costs more than some steps do.
        let fresh = self.options.poison;
        let spare = self.spare.take().filter(|_| !fresh);
        let mut memory = match spare {
            Some(memory) => memory,
            None => self.allocate()?,
        };
        let results = self.execute(&given.unwrap_or_default(), &mut memory, &mut profile)?;
        self.spare.replace(Some(memory));
        Ok((
            self.result_keys.iter().cloned().zip(results).collect(),
            profile,
        ))
    }

    fn execute(
        &self,
        inputs: &[&Tensor],
        memory: &mut Memory,
        profile: &mut Profile,
    ) -> Outcome<Vec<Tensor>> {
        let start = Instant::now();
        for (&arg, tensor) in self.func.args.iter().zip(inputs) {
            if let Some(slot) = &self.slots[arg] {
                scatter(tensor, memory.bytes_mut(slot), &slot.access, slot.width);
            }
        }
        for step in &self.steps {
            let (begin, cpu) = (start.elapsed(), Cpu::now(&self.team));
            let mut entry = StepProfile {
                begin,
                bytes: step.bytes,
                threads: 1,
                ..StepProfile::default()
            };
            self.step(step, memory, &mut entry)?;
            entry.cpu = cpu.elapsed();
            entry.time = start.elapsed().saturating_sub(begin);
            let data = &self.func.ops[step.op];
            data.name
                .rsplit('.')
                .next()
                .unwrap_or_default()
                .clone_into(&mut entry.op);
            entry.source = source(&data.loc);
            profile.steps.push(entry);
        }
        let results: Outcome<Vec<Tensor>> = self
            .func
            .results
            .iter()
            .map(|&v| self.load(memory, v))
            .collect();
        profile.time = start.elapsed();
        results
    }

    fn allocate(&self) -> Outcome<Memory> {
        let poison = self.options.poison;
        let buffer = |bytes: usize| {
            let made = Buffer::new(bytes, poison);
            made.ok_or_else(|| too_little(self.memory_bytes(), "more than there is"))
        };
        let all = |sizes: &[usize]| {
            sizes
                .iter()
                .map(|&n| buffer(n))
                .collect::<Outcome<Vec<_>>>()
        };
        Ok(Memory {
            arena: buffer(self.arena)?,
            arguments: all(&self.arguments)?,
            results: all(&self.results)?,
            own: all(&self.own)?,
            scratch: match self.scratch() {
                None => Vec::new(),
                Some(bytes) => all(&vec![bytes; self.team.threads()])?,
            },
        })
    }

    fn slot(&self, value: Value) -> Outcome<&Slot> {
        self.slots[value].as_ref().ok_or_else(|| {
            let message = "a value lies nowhere";
            Box::new(Diagnostic::error(codes::EXECUTION_UNPLANNED, message))
        })
    }

    fn load(&self, memory: &Memory, value: Value) -> Outcome<Tensor> {
        let slot = self.slot(value)?;
        let bytes = memory.bytes(slot, &self.constants);
        let tensor = gather(bytes, &slot.access, slot.dtype, slot.width);
        tensor.map_err(|e| Box::new(Diagnostic::error(codes::EXECUTION_FAILED, e.to_string())))
    }

    fn step(&self, step: &Step, memory: &mut Memory, entry: &mut StepProfile) -> Outcome<()> {
        let data = &self.func.ops[step.op];
        let failed = |why: String| {
            let message = format!("{} of @{}: {why}", data.name, self.func.name);
            let error = Diagnostic::error(codes::EXECUTION_FAILED, message);
            Box::new(error.at(data.span, "executed here"))
        };
        if let Work::Kernel(kernel) = &step.work {
            let operands: Outcome<Vec<&Slot>> =
                step.operands.iter().map(|&v| self.slot(v)).collect();
            let operands = operands?;
            let mut cx = Context {
                team: &self.team,
                moved: Moved::default(),
            };
            for (number, &result) in data.results.iter().enumerate() {
                let result = self.slot(result)?;
                let done = memory.with(&operands, result, &self.constants, |ins, out| {
                    kernel.run(number, ins, out, &mut cx)
                });
                done.map_err(&failed)?;
            }
            entry.threads = self.team.most();
            entry.kernel = kernel.name();
            entry.moved = cx.moved.bytes();
            return Ok(());
        }
        if let Work::Tiles(tiled) = &step.work {
            let poison = self.options.poison;
            let moved = tiled.run(memory, &self.constants, &self.team, poison);
            entry.moved = moved.map_err(failed)?.bytes();
            entry.threads = self.team.most();
            entry.kernel = "tiles";
            return Ok(());
        }
        let inputs: Outcome<Vec<Tensor>> = data
            .operands
            .iter()
            .map(|&v| self.load(memory, v))
            .collect();
        let inputs = inputs?;
        let refs: Vec<&Tensor> = inputs.iter().collect();
        let outputs = match &step.work {
            Work::Control(control, functions) => {
                entry.kernel = "control";
                let mut runs = Runs {
                    functions,
                    left: MAX_STEPS,
                    shapes: self.shapes(&data.results)?,
                    failed: &failed,
                };
                let inputs = inputs.into_iter().map(Rc::new).collect();
                let count = data.results.len();
                let outputs = run_control(&mut runs, control.clone(), count, inputs)?;
                outputs.into_iter().map(Rc::unwrap_or_clone).collect()
            }
            Work::Call(callee) => {
                entry.kernel = "call";
                callee.execute(&refs, &mut callee.allocate()?, &mut Profile::default())?
            }
            Work::Generic | Work::Kernel(_) | Work::Tiles(_) => {
                entry.kernel = "generic";
                let cx = EvalContext {
                    bindings: &self.bindings,
                };
                let decl = self.registry.get(&data.name);
                let decl = decl.ok_or_else(|| failed("nothing declares it".to_owned()))?;
                let outputs = decl.eval(&self.func.op_ref(step.op), &refs, &cx);
                outputs.map_err(|e| failed(e.to_string()))?
            }
        };
        entry.staged = step.bytes.saturating_mul(2);
        if outputs.len() != data.results.len() {
            return Err(failed(format!("it gives {} results", outputs.len())));
        }
        for (tensor, &result) in outputs.iter().zip(&data.results) {
            let slot = self.slot(result)?;
            if tensor.shape != slot.access.shape() || tensor.dtype != slot.dtype {
                return Err(failed(format!("its result has shape {:?}", tensor.shape)));
            }
            if !matches!(slot.storage, Storage::Constant(_)) {
                scatter(tensor, memory.bytes_mut(slot), &slot.access, slot.width);
            }
        }
        Ok(())
    }

    /// The types of values.
    fn shapes(&self, values: &[Value]) -> Outcome<Vec<(DType, Vec<usize>)>> {
        let one = |&value: &Value| {
            let slot = self.slot(value)?;
            Ok((slot.dtype, slot.access.shape().to_vec()))
        };
        values.iter().map(one).collect()
    }
}

/// The functions that an operation runs.
struct Runs<'a> {
    functions: &'a IndexMap<Arc<str>, Outcome<Rc<Executable>>>,
    /// How many operations may still be run.
    left: u64,
    /// The types of the operation's results.
    shapes: Vec<(DType, Vec<usize>)>,
    failed: &'a dyn Fn(String) -> Box<Diagnostic>,
}

impl Runs<'_> {
    fn named(&self, name: &str) -> Outcome<&Rc<Executable>> {
        let found = self.functions.get(name);
        let found = found.ok_or_else(|| (self.failed)(format!("it runs no function @{name}")))?;
        found.as_ref().map_err(Clone::clone)
    }
}

impl RunsFunctions for Runs<'_> {
    type Error = Box<Diagnostic>;

    fn arguments(&self, name: &str) -> Outcome<Vec<Option<usize>>> {
        self.named(name).map(|function| ranks(&function.func))
    }

    fn run(&mut self, name: &str, inputs: Vec<Rc<Tensor>>) -> Outcome<Vec<Rc<Tensor>>> {
        let function = Rc::clone(self.named(name)?);
        // Nothing has no end: a function without operations counts too.
        let left = self.left.checked_sub(function.count + 1);
        let long = || format!("it goes on after {MAX_STEPS} operations");
        self.left = left.ok_or_else(|| (self.failed)(long()))?;
        let args = &function.func.args;
        let fits = |(&arg, tensor): (&Value, &Rc<Tensor>)| {
            function.slots[arg].as_ref().is_none_or(|slot| {
                tensor.shape == slot.access.shape() && tensor.dtype == slot.dtype
            })
        };
        if args.len() != inputs.len() || !args.iter().zip(&inputs).all(fits) {
            let what = format!("what it hands over does not fit @{name}");
            return Err((self.failed)(what));
        }
        let refs: Vec<&Tensor> = inputs.iter().map(|t| &**t).collect();
        let mut memory = function.allocate()?;
        let results = function.execute(&refs, &mut memory, &mut Profile::default())?;
        Ok(results.into_iter().map(Rc::new).collect())
    }

    fn hold(&mut self, _: DType, _: &[usize]) -> Outcome<u64> {
        Ok(0)
    }

    fn release(&mut self, _: u64) {}

    fn nothing(&self, result: usize, _: usize) -> Outcome<Tensor> {
        let empty_one = self
            .shapes
            .get(result)
            .filter(|(_, shape)| shape.contains(&0));
        let made = empty_one.map(|(dtype, shape)| empty(*dtype, shape.clone()));
        made.ok_or_else(|| (self.failed)("no round gave a part of a result".to_owned()))
    }

    fn fault(&self, what: String) -> Box<Diagnostic> {
        (self.failed)(what)
    }
}
