//! Runs a compiled function: writes arguments, runs steps, reads results.
//!
//! For a function of two steps, `run` scatters each argument to its buffer, runs the kernel of each step on slices of the
//! memory, and gathers each result into a row-major tensor. `profile` records the time and traffic of both steps.

use crate::buffer::{Buffer, gather, scatter};
use crate::codes;
use crate::compile::{Executable, Outcome, Step, Work, source, too_little};
use crate::error::StepError;
use crate::memory::{Memory, Slot, Storage};
use crate::moved::Moved;
use crate::ops::{Call, Context, Kernel};
use crate::profile::{Profile, StepProfile};
use cpu_time::{ProcessTime, ThreadTime};
use indexmap::IndexMap;
use optc_interp::{MAX_STEPS, RunError, RunsFunctions, check_inputs, empty, ranks, run_control};
use optc_ir::{DType, Diagnostic, EvalContext, Tensor, Value};
use optc_kernels::team::Team;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Processor time of this thread, or of the process if several threads share the work.
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
    /// Runs the function on inputs of the sizes it was compiled for; keys are argument and result names.
    ///
    /// # Errors
    /// Inputs do not fit, there is too little memory, or an operation refuses its operands.
    pub fn run(
        &self,
        inputs: &IndexMap<String, Tensor>,
    ) -> Result<IndexMap<String, Tensor>, Box<Diagnostic>> {
        self.profile(inputs).map(|(results, _)| results)
    }

    /// Runs the function and records the time and traffic of each step.
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
        let mut memory = self.memory()?;
        let given = given.unwrap_or_default();
        let results = self
            .isa
            .scope(|| self.execute(&given, &mut memory, Some(&mut profile)))?;
        self.spare().replace(memory);
        Ok((
            self.result_keys.iter().cloned().zip(results).collect(),
            profile,
        ))
    }

    /// Memory for a run: that of the previous run, as mapping new pages costs more than some steps take.
    fn memory(&self) -> Outcome<Memory> {
        let spare = self.spare().take().filter(|_| !self.options.poison);
        spare.map_or_else(|| self.allocate(), Ok)
    }

    /// The memory that the last run left.
    fn spare(&self) -> MutexGuard<'_, Option<Memory>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(
        &self,
        inputs: &[&Tensor],
        memory: &mut Memory,
        profile: Option<&mut Profile>,
    ) -> Outcome<Vec<Tensor>> {
        let start = Instant::now();
        for (&arg, tensor) in self.func.args.iter().zip(inputs) {
            self.fill(arg, tensor, memory);
        }
        let mut profile = profile;
        self.steps(memory, profile.as_deref_mut(), start)?;
        let results: Outcome<Vec<Tensor>> = self
            .func
            .results
            .iter()
            .map(|&v| self.load(memory, v))
            .collect();
        if let Some(profile) = profile {
            profile.time = start.elapsed();
        }
        results
    }

    /// Writes an argument to its slot, unless it is a constant.
    fn fill(&self, arg: Value, tensor: &Tensor, memory: &mut Memory) {
        if let Some(slot) = &self.slots[arg]
            && !matches!(slot.storage, Storage::Constant(_))
        {
            scatter(tensor, memory.bytes_mut(slot), &slot.access, slot.width);
        }
    }

    /// Runs all steps, and records them in a profile if there is one.
    fn steps(
        &self,
        memory: &mut Memory,
        profile: Option<&mut Profile>,
        start: Instant,
    ) -> Outcome<()> {
        let Some(profile) = profile else {
            let mut steps = self.steps.iter();
            return steps.try_for_each(|step| self.step(step, memory, &mut StepProfile::default()));
        };
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
        Ok(())
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

    fn failed(&self, step: &Step, why: StepError) -> Box<Diagnostic> {
        let data = &self.func.ops[step.op];
        let message = format!("{} of @{}: {why}", data.name, self.func.name);
        let error = Diagnostic::error(codes::EXECUTION_FAILED, message);
        Box::new(error.at(data.span, "executed here"))
    }

    /// Computes all results of a step with its kernel; returns the bytes that are moved without computing.
    fn computed(&self, step: &Step, kernel: &dyn Kernel, memory: &mut Memory) -> Outcome<Moved> {
        let operands = step.operands.iter().map(|&v| self.slot(v));
        let operands = operands.collect::<Outcome<Vec<&Slot>>>()?;
        let (team, mut moved) = (&self.team, Moved::default());
        for (number, &value) in self.func.ops[step.op].results.iter().enumerate() {
            let done = memory.with(&operands, self.slot(value)?, &self.constants, |ins, out| {
                let moved = &mut moved;
                kernel.run(Call {
                    result: number,
                    ins,
                    out,
                    cx: Context { team, moved },
                })
            });
            done.map_err(|why| self.failed(step, why))?;
        }
        Ok(moved)
    }

    fn step(&self, step: &Step, memory: &mut Memory, entry: &mut StepProfile) -> Outcome<()> {
        let data = &self.func.ops[step.op];
        let failed = |why: StepError| self.failed(step, why);
        if let Work::Kernel(kernel) = &step.work {
            let moved = self.computed(step, &**kernel, memory)?;
            entry.threads = self.team.most();
            entry.kernel = kernel.name();
            entry.moved = moved.bytes();
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
        if let Work::Control(runs) = &step.work {
            entry.kernel = "control";
            entry.staged = step.bytes.saturating_mul(2);
            let inputs: Outcome<Vec<Arc<Tensor>>> = (data.operands.iter().enumerate())
                .map(|(i, &v)| match runs.known.get(i) {
                    Some(Some(known)) => Ok(Arc::clone(known)),
                    _ => self.load(memory, v).map(Arc::new),
                })
                .collect();
            let mut running = Running {
                functions: &runs.functions,
                kept: IndexMap::new(),
                left: MAX_STEPS,
                shapes: self.shapes(&data.results)?,
                failed: &failed,
            };
            let (control, count) = (runs.control.clone(), data.results.len());
            let outputs = run_control(&mut running, control, count, inputs?)?;
            running.leave();
            return self.write(step, outputs.iter().map(|t| &**t), memory);
        }
        let inputs: Outcome<Vec<Tensor>> = data
            .operands
            .iter()
            .map(|&v| self.load(memory, v))
            .collect();
        let inputs = inputs?;
        let refs: Vec<&Tensor> = inputs.iter().collect();
        let outputs = match &step.work {
            Work::Call(callee) => {
                entry.kernel = "call";
                callee.execute(&refs, &mut callee.allocate()?, None)?
            }
            Work::Generic | Work::Kernel(_) | Work::Tiles(_) | Work::Control(_) => {
                entry.kernel = "generic";
                let cx = EvalContext {
                    bindings: &self.bindings,
                };
                let decl = self.registry.get(&data.name);
                let decl = decl.ok_or_else(|| failed(StepError::Undeclared))?;
                let outputs = decl.eval(&self.func.op_ref(step.op), &refs, &cx);
                outputs.map_err(|e| failed(e.into()))?
            }
        };
        entry.staged = step.bytes.saturating_mul(2);
        self.write(step, outputs.iter(), memory)
    }

    /// Writes the results of an operation to their slots.
    fn write<'t>(
        &self,
        step: &Step,
        outputs: impl ExactSizeIterator<Item = &'t Tensor>,
        memory: &mut Memory,
    ) -> Outcome<()> {
        let data = &self.func.ops[step.op];
        let failed = |why: StepError| self.failed(step, why);
        if outputs.len() != data.results.len() {
            return Err(failed(StepError::Results(outputs.len())));
        }
        for (tensor, &result) in outputs.zip(&data.results) {
            let slot = self.slot(result)?;
            if tensor.shape != slot.access.shape() || tensor.dtype != slot.dtype {
                return Err(failed(StepError::ResultShape(tensor.shape.clone())));
            }
            if !matches!(slot.storage, Storage::Constant(_)) {
                scatter(tensor, memory.bytes_mut(slot), &slot.access, slot.width);
            }
        }
        Ok(())
    }

    /// The element types and shapes of values.
    fn shapes(&self, values: &[Value]) -> Outcome<Vec<(DType, Vec<usize>)>> {
        let one = |&value: &Value| {
            let slot = self.slot(value)?;
            Ok((slot.dtype, slot.access.shape().to_vec()))
        };
        values.iter().map(one).collect()
    }
}

/// The functions that an operation runs, while it runs.
struct Running<'a> {
    functions: &'a IndexMap<Arc<str>, Outcome<Arc<Executable>>>,
    /// The memory of functions that have run, and the values of their arguments in it.
    kept: IndexMap<String, (Memory, Vec<Arc<Tensor>>)>,
    /// Operations that may still be run.
    left: u64,
    /// The types of the operation's results.
    shapes: Vec<(DType, Vec<usize>)>,
    failed: &'a dyn Fn(StepError) -> Box<Diagnostic>,
}

impl Running<'_> {
    fn named(&self, name: &str) -> Outcome<&Arc<Executable>> {
        let found = self.functions.get(name);
        let found = found.ok_or_else(|| (self.failed)(StepError::NoFunction(name.to_owned())))?;
        found.as_ref().map_err(Clone::clone)
    }

    /// Keeps the memory of functions for the next run.
    fn leave(self) {
        for (name, (memory, _)) in self.kept {
            if let Some(Ok(function)) = self.functions.get(&*name) {
                function.spare().replace(memory);
            }
        }
    }
}

impl RunsFunctions for Running<'_> {
    type Error = Box<Diagnostic>;

    fn arguments(&self, name: &str) -> Outcome<Vec<Option<usize>>> {
        self.named(name).map(|function| ranks(&function.func))
    }

    fn run(&mut self, name: &str, inputs: Vec<Arc<Tensor>>) -> Outcome<Vec<Arc<Tensor>>> {
        let function = Arc::clone(self.named(name)?);
        // A function without operations counts as one, so that endless loops end.
        let left = self.left.checked_sub(function.count + 1);
        self.left = left.ok_or_else(|| (self.failed)(StepError::Endless))?;
        let args = &function.func.args;
        let fits = |(&arg, tensor): (&Value, &Arc<Tensor>)| {
            function.slots[arg].as_ref().is_none_or(|slot| {
                tensor.shape == slot.access.shape() && tensor.dtype == slot.dtype
            })
        };
        if args.len() != inputs.len() || !args.iter().zip(&inputs).all(fits) {
            return Err((self.failed)(StepError::Arguments(name.to_owned())));
        }
        let kept = self.kept.swap_remove(name);
        let (mut memory, before) = match kept.filter(|_| !function.options.poison) {
            Some(kept) => kept,
            None => (function.memory()?, Vec::new()),
        };
        for (number, (&arg, tensor)) in args.iter().zip(&inputs).enumerate() {
            // Arguments are never written, so that those of the previous round stay.
            if before
                .get(number)
                .is_none_or(|there| !Arc::ptr_eq(there, tensor))
            {
                function.fill(arg, tensor, &mut memory);
            }
        }
        function.steps(&mut memory, None, Instant::now())?;
        let result = |&value: &Value| match args.iter().position(|&arg| arg == value) {
            Some(number) => Ok(Arc::clone(&inputs[number])),
            None => function.load(&memory, value).map(Arc::new),
        };
        let results = function.func.results.iter().map(result).collect();
        self.kept.insert(name.to_owned(), (memory, inputs));
        results
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
        made.ok_or_else(|| (self.failed)(StepError::NoRound))
    }

    fn fault(&self, what: String) -> Box<Diagnostic> {
        (self.failed)(StepError::Control(what))
    }
}
