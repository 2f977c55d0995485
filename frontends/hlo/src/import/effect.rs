//! Effects of instructions, for those that stay opaque.

use crate::module::{HloModule, Instruction};
use crate::opcode::Opcode;
use optc_ir::Effect;

/// The effects of all instructions of a module.
pub(super) struct Effects {
    /// By computation and instruction; `None` for an unknown opcode.
    instructions: Vec<Vec<Option<Effect>>>,
    /// By computation: the combined effect of its instructions.
    computations: Vec<Effect>,
}

impl Effects {
    pub(super) fn new(hlo: &HloModule<'_>) -> Effects {
        let mut effects = Effects {
            instructions: Vec::with_capacity(hlo.computations.len()),
            computations: Vec::with_capacity(hlo.computations.len()),
        };
        // Callees come first in the text.
        for computation in &hlo.computations {
            let mut own: Vec<Option<Effect>> = Vec::with_capacity(computation.instructions.len());
            for made in &computation.instructions {
                own.push(effects.instruction(made, &own));
            }
            let all = own.iter().map(|e| e.unwrap_or(Effect::Write)).max();
            // Tokens that are created inside order nothing outside.
            effects
                .computations
                .push(match all.unwrap_or(Effect::Pure) {
                    Effect::Token => Effect::Write,
                    other => other,
                });
            effects.instructions.push(own);
        }
        effects
    }

    /// The effect of an instruction; `None` for an unknown opcode.
    pub(super) fn of(&self, computation: usize, instruction: usize) -> Option<Effect> {
        *self.instructions.get(computation)?.get(instruction)?
    }

    /// The combined effect of a computation's instructions.
    pub(super) fn of_computation(&self, computation: usize) -> Effect {
        let known = self.computations.get(computation).copied();
        known.unwrap_or(Effect::Write)
    }

    /// The effect of an instruction, given those of the instructions before it in its computation.
    fn instruction(&self, made: &Instruction<'_>, before: &[Option<Effect>]) -> Option<Effect> {
        if let Some(stated) = made.attrs.get("effect") {
            return Effect::of_name(stated);
        }
        Opcode::find(made.opcode)?;
        let mut effect = by_opcode(made);
        for &callee in made.called.iter().flat_map(|(_, list)| list) {
            effect = effect.max(self.of_computation(callee));
        }
        // The instruction that ends an asynchronous one has the effect of the instruction that starts it.
        if let Some(&start) = made.operands.first()
            && (made.opcode.ends_with("-done") || made.opcode.ends_with("-update"))
        {
            effect = effect.max(before.get(start).copied().flatten()?);
        }
        Some(effect)
    }
}

/// The effect of an opcode by itself, without its computations.
fn by_opcode(made: &Instruction<'_>) -> Effect {
    let parts = ["-start", "-update", "-done"];
    let base = parts.iter().find_map(|part| made.opcode.strip_suffix(part));
    match base.unwrap_or(made.opcode) {
        "rng" => Effect::Random,
        "partition-id" | "replica-id" => Effect::Read,
        "add-dependency" | "after-all" | "infeed" | "outfeed" | "recv" | "send" => Effect::Token,
        "all-gather"
        | "all-reduce"
        | "all-to-all"
        | "collective-broadcast"
        | "collective-permute"
        | "ragged-all-to-all"
        | "reduce-scatter"
        | "rng-get-and-update-state" => Effect::Write,
        "custom-call" if made.attrs.get("custom_call_has_side_effect") == Some("true") => {
            Effect::Write
        }
        // XLA may remove it, but its computation is unknown here.
        "custom-call" => Effect::Read,
        _ => Effect::Pure,
    }
}
