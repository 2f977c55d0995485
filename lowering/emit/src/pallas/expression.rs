//! One operation on tiles.

use super::cx::Reason;
use super::form::Site;
use super::member::{Member, padded};
use super::movement::{pad_value, slices};
use super::ops::write;
use super::rearrange::rearrangement_of_tile;
use super::words::{dtype, tuple};
use super::writer::Writer;
use optc_ir::{AttrDict, Attributes, DType, Dim, OpDecl, OpRef, Operation, Type};
use optc_ops::{Broadcast, Concat, Conv, Iota, Pad, PadAmounts, PadMode, Slice, Split, Subview};
use optc_target::Precision;
use optc_tile::Tile;

impl Writer<'_> {
    /// One operation on its tile.
    pub(super) fn lines(&mut self, member: &Member) -> Result<Vec<String>, Reason> {
        let args = self.arguments(member, &[])?;
        let texts = self.expressions(member, &args, None)?;
        let results = &self.cx.func.ops[member.schedule.op].results;
        let mut lines = Vec::with_capacity(texts.len());
        for ((&value, text), _) in results
            .iter()
            .zip(texts)
            .zip(&member.part.outside)
            .filter(|(_, absent)| !**absent)
        {
            let name = self.names.fresh(&(self.cx.name)(value));
            lines.push(format!("{name} = {text}"));
            self.local.insert((value, member.number), name);
        }
        Ok(lines)
    }

    /// The attributes of a convolution that computes some of its groups. `result` has the extents of its tile. If the
    /// tile has a part of the channels of every group, these lie apart in the operand and are brought together.
    fn some_groups(
        &mut self,
        member: &Member<'_>,
        mut conv: Conv,
        result: &[u64],
        (args, operands): (&mut [String], &mut [Vec<u64>]),
    ) -> Result<AttrDict, Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.schedule.op];
        let groups = conv.groups().map_err(|e| e.message)?;
        let each = cx.shape(data.results[0])?[1] / groups;
        let here = (result[1] / each.max(1)).max(1);
        conv.group = here.cast_signed();
        let (channels, part) = (operands[0][1], operands[1][1]);
        let all = cx.shape(data.operands[1])?[1];
        if part < all && channels == (here - 1) * all + part {
            self.helpers.insert("_parts");
            args[0] = format!("_parts({}, {here}, {all}, {part})", args[0]);
            operands[0][1] = here * part;
        }
        Ok(conv.write())
    }

    /// The parts of a split whose operand is cut: slices of the tile if all of the axis is in it, else the tile itself if
    /// each part has its extents. `None` for a whole operand and for other operations.
    fn split_parts(
        &self,
        member: &Member<'_>,
        x: &str,
        operand: &[u64],
        results: &[Vec<u64>],
    ) -> Result<Option<Vec<String>>, Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.schedule.op];
        let Some(split) = cx.typed::<Split>(member.schedule.op) else {
            return Ok(None);
        };
        if *operand == cx.shape(data.operands[0])? {
            return Ok(None);
        }
        let axis = split.along(&cx.func.op_ref(member.schedule.op));
        let axis = axis.map_err(|e| e.message)?;
        let sizes = split.sizes.iter().map(|size| size.unsigned_abs());
        let whole = results
            .iter()
            .zip(sizes.clone())
            .all(|(r, size)| r[axis] == size);
        if whole && operand[axis] == sizes.sum() {
            return Ok(Some(slices(x, &split.sizes, axis)));
        }
        if results.iter().all(|r| r == operand) {
            return Ok(Some(vec![x.to_owned(); results.len()]));
        }
        Err("its parts have other extents than its tile".to_owned())
    }

    /// The operation on its arguments, which are tiles; with another element type of the result.
    ///
    /// The body is a list of the operations whose form on a tile is another one than on a whole value, in
    /// the order in which they are told apart: each returns, or changes what the general form is given.
    pub(super) fn expressions(
        &mut self,
        member: &Member<'_>,
        args: &[String],
        held: Option<DType>,
    ) -> Result<Vec<String>, Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.schedule.op];
        let extents = |t: &Tile| -> Vec<u64> { t.0.iter().map(|s| s.extent).collect() };
        let results: Vec<Vec<u64>> = member.part.results.iter().map(extents).collect();
        let mut operands: Vec<Vec<u64>> =
            member.operands.iter().map(|o| extents(&o.tile)).collect();
        let mut args = args.to_vec();
        if let Some(concat) = cx.typed::<Concat>(member.schedule.op)
            && let Some(text) = self.joined(member, &concat, &args)?
        {
            return Ok(vec![text]);
        }
        if let Some(pad) = cx.typed::<Pad>(member.schedule.op)
            && let Some(text) = self.padded_part(member, &pad, &args[0])?
        {
            return Ok(vec![text]);
        }
        if member.operands.iter().any(|o| o.absent) {
            return Err("its part of an operand is empty in some program".to_owned());
        }
        if let Some(texts) = self.split_parts(member, &args[0], &operands[0], &results)? {
            return Ok(texts);
        }
        if let Some((inner, perm)) = &member.inner {
            let (x, from, to) = (&args[0], &operands[0], &results[0]);
            let text = rearrangement_of_tile(x, [from, inner, to], perm, &mut self.helpers)?;
            return Ok(vec![text]);
        }
        let op = cx.func.op_ref(member.schedule.op);
        let mut types: Vec<Type> = op.results.iter().map(|t| (*t).clone()).collect();
        let mut props = data.props.clone();
        if let Some(conv) = cx
            .typed::<Conv>(member.schedule.op)
            .filter(|conv| 1 < conv.group)
        {
            props = self.some_groups(member, conv, &results[0], (&mut args, &mut operands))?;
        }
        if let Some(held) = held {
            types = vec![Type::tensor(&cx.shape(data.results[0])?, held)];
        }
        let op = OpRef {
            name: op.name,
            operands: op.operands.clone(),
            results: types.iter().collect(),
            props: &props,
        };
        if let Some(decl) = cx.registry.get(op.name) {
            self.fits(member, decl, &op, &operands, &results)?;
        }
        let site = Site {
            op: &op,
            registry: cx.registry,
            operands,
            results,
            tile: true,
            precision: Precision::of_product(data.attrs.str(Precision::STATED), cx.precision),
            pads: member.pads.clone(),
        };
        let written = write(&site, &args).ok_or("it has no form on a tile yet")?;
        self.helpers.extend(&written.helpers);
        let mut texts = written.results;
        if let Ok(iota) = Iota::of(&op) {
            let axis = iota.along(&op).map_err(|e| e.message)?;
            let start = self.python(&member.part.results[0].0[axis].start);
            texts = vec![format!("{} + ({start})", texts[0])];
        }
        Ok(texts)
    }

    /// A part of a concat that is cut along its axis: of each operand what lies in the part. None where
    /// it is not cut so.
    fn joined(
        &mut self,
        member: &Member<'_>,
        concat: &Concat,
        args: &[String],
    ) -> Result<Option<String>, Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.schedule.op];
        let shape = cx.shape(data.results[0])?;
        let tile = member.part.results[0].clone();
        let axis = concat.along(&cx.func.op_ref(member.schedule.op));
        let axis = axis.map_err(|e| e.message)?;
        if tile.0[axis].is_whole(shape[axis]) && !member.operands.iter().any(|o| o.absent) {
            return Ok(None);
        }
        let extents = |t: &Tile| -> Vec<u64> { t.0.iter().map(|s| s.extent).collect() };
        let mut parts = Vec::with_capacity(args.len());
        let mut before = 0u64;
        for (operand, arg) in member.operands.iter().zip(args) {
            let size = cx.shape(operand.value)?[axis];
            if !operand.absent {
                if extents(&operand.tile) != extents(&tile) {
                    return Err("an operand has other extents than its tile".to_owned());
                }
                parts.push(tuple([
                    arg.clone(),
                    before.to_string(),
                    (before + size).to_string(),
                ]));
            }
            before += size;
        }
        let start = self.python(&tile.0[axis].start);
        match parts.as_slice() {
            [] => Err("a program has nothing of its operands".to_owned()),
            [_] => Ok(args.iter().find(|arg| !arg.is_empty()).cloned()),
            parts => {
                self.helpers.insert("_joined");
                Ok(Some(format!(
                    "_joined({axis}, {start}, {})",
                    parts.join(", ")
                )))
            }
        }
    }

    /// A part of a pad that is cut along dimensions that are padded: the elements of these are the value of the pad
    /// where they lie outside of the operand. None where no such dimension is cut.
    fn padded_part(
        &mut self,
        member: &Member<'_>,
        pad: &Pad,
        x: &str,
    ) -> Result<Option<String>, Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.schedule.op];
        let amounts = pad.amounts(&cx.func.op_ref(member.schedule.op));
        let PadAmounts { mut low, mut high } = amounts.map_err(|e| e.message)?;
        let (to, operand) = (&member.part.results[0], &member.operands[0]);
        let (from, (shape, element)) = (cx.shape(operand.value)?, cx.array(data.results[0])?);
        let is_cut = |d: &usize| (low[*d], high[*d]) != (0, 0) && !to.0[*d].is_whole(shape[*d]);
        let cut: Vec<usize> = (0..shape.len()).filter(is_cut).collect();
        if cut.is_empty() {
            return Ok(None);
        }
        let same = |&d: &usize| to.0[d].extent == operand.tile.0[d].extent;
        if pad.mode != PadMode::Constant || operand.absent || !cut.iter().all(same) {
            return Err("a part of its border is of other elements than its tile".to_owned());
        }
        let value = pad_value(pad, element).ok_or("it has no form on a tile yet")?;
        let mut dims = Vec::with_capacity(cut.len());
        for &d in &cut {
            let start = self.python(&operand.tile.0[d].start);
            dims.push(tuple([d.to_string(), start, from[d].to_string()]));
            (low[d], high[d]) = (0, 0);
        }
        self.helpers.insert("_inside");
        let text = format!("_inside({x}, {value}, {})", dims.join(", "));
        let config: Vec<String> = low
            .iter()
            .zip(&high)
            .map(|(a, b)| tuple([*a, *b, 0]))
            .collect();
        Ok(Some(match low.iter().chain(&high).all(|&n| n == 0) {
            true => text,
            false => {
                let (config, element) = (tuple(config), dtype(element));
                format!("lax.pad({text}, jnp.asarray({value}, {element}), {config})")
            }
        }))
    }

    /// Returns whether the operation on its tiles gives the tiles of its results.
    fn fits(
        &self,
        member: &Member<'_>,
        decl: &dyn OpDecl,
        op: &OpRef<'_>,
        operands: &[Vec<u64>],
        results: &[Vec<u64>],
    ) -> Result<(), Reason> {
        // The attributes of these say what becomes of the whole operand, or there is none.
        let of_whole = Broadcast::of(op).is_ok() || Slice::of(op).is_ok();
        if of_whole || Subview::of(op).is_ok() || Iota::of(op).is_ok() {
            return Ok(());
        }
        let types: Vec<Type> = operands
            .iter()
            .zip(&op.operands)
            .map(|(shape, ty)| Type::tensor(shape, ty.as_tensor().map_or(DType::F32, |t| t.dtype)))
            .collect();
        let ends: Vec<Type> = results
            .iter()
            .zip(&op.results)
            .map(|(shape, ty)| Type::tensor(shape, ty.as_tensor().map_or(DType::F32, |t| t.dtype)))
            .collect();
        let pads = member.pads.as_ref().and_then(|pads| padded(op, pads));
        let props = pads.as_ref().unwrap_or(op.props);
        let here = OpRef {
            name: op.name,
            operands: types.iter().collect(),
            results: ends.iter().collect(),
            props,
        };
        let inferred = decl.infer(&here).map_err(|e| e.message)?;
        let found: Vec<Option<Vec<u64>>> = inferred
            .iter()
            .map(|i| i.dims.iter().map(Dim::fixed).collect())
            .collect();
        let wanted: Vec<Option<Vec<u64>>> = results.iter().cloned().map(Some).collect();
        if found == wanted {
            return Ok(());
        }
        Err("on tiles it gives other extents than its tile".to_owned())
    }
}
