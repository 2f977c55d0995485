//! What instructions do besides giving their results, for those that stay opaque.

use crate::module::{HloModule, Instruction};
use crate::opcode::Opcode;
use optc_ir::Effect;

/// The effects of all instructions of a module.
pub(super) struct Effects {
    /// By computation and instruction; none where the opcode is not known.
    instructions: Vec<Vec<Option<Effect>>>,
    /// By computation: what its instructions do together.
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
            // Tokens made inside order nothing outside.
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

    /// The effect of an instruction; none where its opcode is not known.
    pub(super) fn of(&self, computation: usize, instruction: usize) -> Option<Effect> {
        *self.instructions.get(computation)?.get(instruction)?
    }

    /// What the instructions of a computation do together.
    pub(super) fn of_computation(&self, computation: usize) -> Effect {
        let known = self.computations.get(computation).copied();
        known.unwrap_or(Effect::Write)
    }

    /// The effect of an instruction, those before it in its computation being known.
    fn instruction(&self, made: &Instruction<'_>, before: &[Option<Effect>]) -> Option<Effect> {
        if let Some(stated) = made.attrs.get("effect") {
            return Effect::of_name(stated);
        }
        Opcode::find(made.opcode)?;
        let mut effect = by_opcode(made);
        for &callee in made.called.iter().flat_map(|(_, list)| list) {
            effect = effect.max(self.of_computation(callee));
        }
        // What ends an instruction goes only with what starts it.
        if let Some(&start) = made.operands.first()
            && (made.opcode.ends_with("-done") || made.opcode.ends_with("-update"))
        {
            effect = effect.max(before.get(start).copied().flatten()?);
        }
        Some(effect)
    }
}

/// The effect that an opcode has by itself, its computations left out.
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
        // XLA may leave it out, but nobody here knows what it computes.
        "custom-call" => Effect::Read,
        _ => Effect::Pure,
    }
}
