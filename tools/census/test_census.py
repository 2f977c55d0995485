#!/usr/bin/env python3
"""Tiled bytes, roles, fusions, trip counts and moves, on HLO texts counted by hand.

usage: python test_census.py
"""
import unittest

import census
import hlo
import relayout


def ports_of(text, name):
    """The roles of an instruction of the entry computation."""
    comp = hlo.Module(text).entry
    return hlo.ports(comp, comp.instrs[name])


def rows_of(text):
    c = census.Census()
    c.module("m", text)
    return c


class Tiles(unittest.TestCase):
    def bytes(self, text, expected):
        self.assertEqual(hlo.shape(text).bytes(), expected, text)

    def test_bytes(self):
        self.bytes("f32[100,200]{1,0:T(8,128)}", 104 * 256 * 4)
        self.bytes("f32[100,200]{0,1:T(8,128)S(1)}", 128 * 200 * 4)
        self.bytes("bf16[197,768]{1,0:T(8,128)(2,1)}", 200 * 768 * 2)
        self.bytes("bf16[3,1,64]{2,1,0:T(2,128)(2,1)}", 3 * 2 * 128 * 2)
        self.bytes("f32[1500]{0:T(1024)}", 2048 * 4)
        self.bytes("bf16[768]{0:T(1024)(128)(2,1)}", 1024 * 2)
        self.bytes("pred[9,10]{1,0:T(8,128)(4,1)}", 16 * 128)
        self.bytes("f32[]{:T(128)}", 128 * 4)
        self.bytes("f32[3,5]{0,1}", 60)

    def test_offsets(self):
        s = hlo.shape("bf16[16,256]{1,0:T(8,128)(2,1)}")
        self.assertEqual([s.offset(at) for at in ((0, 0), (1, 0), (0, 1), (2, 0), (0, 128), (8, 0))], [0, 1, 2, 256, 1024, 2048])

    def test_views(self):
        def view(a, b, perm=None):
            return hlo.is_view(hlo.shape(a), hlo.shape(b), perm)

        self.assertTrue(view("f32[4,8,128]{2,1,0:T(8,128)}", "f32[32,128]{1,0:T(8,128)}"))
        self.assertFalse(view("f32[4,7,128]{2,1,0:T(8,128)}", "f32[28,128]{1,0:T(8,128)}"))
        self.assertTrue(view("f32[16,256]{1,0:T(8,128)}", "f32[256,16]{0,1:T(8,128)}", (1, 0)))
        self.assertFalse(view("f32[16,256]{1,0:T(8,128)}", "f32[256,16]{1,0:T(8,128)}", (1, 0)))

    def test_rule(self):
        for text in ("f32[3,20]{1,0:T(4,128)}", "bf16[1,20]{1,0:T(2,128)(2,1)}", "pred[2,20]{1,0:T(4,128)(4,1)}", "f32[200]{0:T(256)}",
                     "bf16[5]{0:T(256)(128)(2,1)}", "f32[9,1]{0,1:T(1,128)}"):
            s = hlo.shape(text)
            self.assertEqual(census.format_rule(s.bits, s.dims, s.order), s.tiles, text)


class Roles(unittest.TestCase):
    def test_dot(self):
        op, operands, result = ports_of("""HloModule m

ENTRY %main (a: f32[2,8,16], b: f32[2,4,16]) -> f32[2,8,4] {
  %a = f32[2,8,16]{2,1,0:T(8,128)} parameter(0)
  %b = f32[2,4,16]{2,1,0:T(4,128)} parameter(1)
  ROOT %d = f32[2,8,4]{2,1,0:T(8,128)} dot(%a, %b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}
}
""", "d")
        self.assertEqual((op, operands[0], operands[1]), ("contraction", ("lhs", ["batch", "M", "K"]), ("rhs", ["batch", "N", "K"])))
        self.assertEqual(result, ("result", ["batch", "M", "N"]))

    def convolution(self, lhs, rhs, out, window, labels):
        return ports_of(f"""HloModule m

ENTRY %main () -> f32[] {{
  %a = {lhs} parameter(0)
  %b = {rhs} parameter(1)
  ROOT %c = {out} convolution(%a, %b), window={{{window}}}, dim_labels={labels}
}}
""", "c")

    def test_convolution_that_is_a_contraction(self):
        op, operands, result = self.convolution("f32[12,197,64]", "f32[12,64,197]", "f32[12,197,197]", "size=12 stride=11 lhs_dilate=12", "0bf_0io->0bf")
        self.assertEqual((op, operands[0][1], operands[1][1], result[1]), ("contraction", ["batch", "M", "K"], ["batch", "K", "N"], ["batch", "M", "N"]))
        op, operands, result = self.convolution("f32[1,197,768]", "f32[12,768,64]", "f32[12,197,64]", "size=12 pad=11_11 rhs_reversal=1", "0bf_0io->0bf")
        self.assertEqual((op, operands[0][1], operands[1][1], result[1]), ("contraction", ["N", "M", "K"], ["N", "K", "N"], ["N", "M", "N"]))
        op, operands, result = self.convolution("f32[197,768,12]", "f32[64,768,12]", "f32[197,64,1]", "size=12", "bf0_oi0->bf0")
        self.assertEqual((op, operands[0][1], result[1]), ("contraction", ["M", "K", "K"], ["M", "N", "K"]))
        op, operands, result = self.convolution("f32[14,197,768]", "f32[1,768,64]", "f32[14,197,64]", "size=1", "0bf_0io->0bf")
        self.assertEqual((op, operands[0][1]), ("contraction", ["M", "M", "K"]))

    def test_convolution(self):
        op, operands, result = self.convolution("f32[2,9,9,3]", "f32[3,3,3,8]", "f32[2,9,9,8]", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f")
        self.assertEqual((op, operands[0][1]), ("convolution", ["batch", "spatial", "spatial", "input channel"]))
        self.assertEqual(operands[1][1], ["window", "window", "input channel", "output channel"])
        self.assertEqual(result[1], ["batch", "spatial", "spatial", "output channel"])

    def test_reduce_and_reshape(self):
        a, b = hlo.shape("f32[4,6,5]"), hlo.shape("f32[24,5]")
        self.assertEqual(hlo.reshape_roles(a, b), (["merged", "merged", "kept"], ["merged", "kept"]))
        self.assertEqual(hlo.reshape_roles(b, a), (["split", "kept"], ["split", "split", "kept"]))


FUSED = """HloModule m

%inner (p: bf16[8,4,128]) -> bf16[32,128] {
  %p = bf16[8,4,128]{2,1,0:T(4,128)(2,1)} parameter(0)
  ROOT %v = bf16[32,128]{1,0:T(4,128)(2,1)} bitcast(%p)
}

%fused (x: bf16[8,4,128], w: bf16[128,16]) -> (f32[16,32], f32[32,128]) {
  %x = bf16[8,4,128]{2,1,0:T(4,128)(2,1)} parameter(0)
  %w = bf16[128,16]{1,0:T(8,128)(2,1)} parameter(1)
  %f = bf16[32,128]{1,0:T(4,128)(2,1)} fusion(%x), kind=kLoop, calls=%inner
  %c = bf16[16,32]{0,1:T(8,128)(2,1)} convolution(%f, %w), dim_labels=bf_io->fb
  %t = f32[16,32]{0,1:T(8,128)} convert(%c)
  %e = f32[32,128]{1,0:T(8,128)} convert(%f)
  %g = f32[32,128]{1,0:T(8,128)} negate(%e)
  ROOT %r = (f32[16,32]{0,1:T(8,128)}, f32[32,128]{1,0:T(8,128)}) tuple(%t, %g)
}

ENTRY %main (x: bf16[8,4,128], w: bf16[128,16]) -> f32[16,32] {
  %x = bf16[8,4,128]{2,1,0:T(4,128)(2,1)} parameter(0)
  %w = bf16[128,16]{1,0:T(8,128)(2,1)} parameter(1)
  %y = (f32[16,32]{0,1:T(8,128)}, f32[32,128]{1,0:T(8,128)}) fusion(%x, %w), kind=kOutput, calls=%fused
  ROOT %z = f32[16,32]{0,1:T(8,128)} get-tuple-element(%y), index=0
}
"""

LOOP = """HloModule m

%body (s: (s32[], f32[8,128])) -> (s32[], f32[8,128]) {
  %s = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%s), index=0
  %x = f32[8,128]{1,0:T(8,128)} get-tuple-element(%s), index=1
  %two = s32[]{:T(128)} constant(2)
  %j = s32[]{:T(128)} add(%i, %two)
  %y = f32[8,128]{0,1:T(8,128)} copy(%x)
  %z = f32[8,128]{1,0:T(8,128)} copy(%y)
  ROOT %t = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}) tuple(%j, %z)
}

%cond (s: (s32[], f32[8,128])) -> pred[] {
  %s = (s32[]{:T(128)}, /*index=1*/f32[8,128]{1,0:T(8,128)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%s), index=0
  %n = s32[]{:T(128)} constant(9)
  ROOT %lt = pred[]{:T(512)} compare(%i, %n), direction=LT
}

ENTRY %main (x: f32[8,128]) -> f32[8,128] {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  %zero = s32[]{:T(128)} constant(1)
  %t = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}) tuple(%zero, %x)
  %w = (s32[]{:T(128)}, f32[8,128]{1,0:T(8,128)}) while(%t), condition=%cond, body=%body
  ROOT %z = f32[8,128]{1,0:T(8,128)} get-tuple-element(%w), index=1
}
"""


class Modules(unittest.TestCase):
    def test_through_a_fusion(self):
        rows = rows_of(FUSED).rows
        self.assertEqual(rows["contraction", "lhs", 16, "K", "M"].bytes, 8 * 4 * 128 * 2)
        self.assertEqual(rows["contraction", "rhs", 16, "N", "K"].count, 1)
        self.assertEqual(rows["contraction", "result", 32, "N", "M"].bytes, 32 * 128 * 4)
        self.assertEqual(rows["elementwise", "operand", 16, "elementwise", "elementwise"].count, 1)
        self.assertEqual(rows["root", "operand", 32, "none", "none"].count, 1)

    def test_trips(self):
        module = hlo.Module(LOOP)
        self.assertEqual([times for _, times in module.scopes()], [1, 4])
        self.assertEqual(hlo.Module(LOOP.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}')).scopes()[1][1], 7)
        self.assertEqual(rows_of(LOOP).rows["copy", "result", 32, "from rows", "from lanes"].count, 8)

    def test_moves(self):
        made = relayout.Counter(LOOP).made
        self.assertEqual(made["relayout"], 4 * 2 * (8 * 128 * 4 + 128 * 128 * 4))
        self.assertEqual(made["padding"], 4 * 2 * 120 * 128 * 4)

    def test_moves_of_every_kind(self):
        made = relayout.Counter("""HloModule m

ENTRY %main (x: f32[16,100]) -> f32[32,100] {
  %x = f32[16,100]{1,0:T(8,128)} parameter(0)
  %zero = f32[]{:T(128)} constant(0)
  %view = f32[100,16]{0,1:T(8,128)} transpose(%x), dimensions={1,0}
  %cut = f32[8,100]{1,0:T(8,128)} slice(%x), slice={[0:8], [0:100]}
  %more = f32[16,100]{1,0:T(8,128)} pad(%cut, %zero), padding=0_8x0_0
  ROOT %all = f32[32,100]{1,0:T(8,128)} concatenate(%x, %more), dimensions={0}
}
""").made
        row = 128 * 4
        self.assertEqual(made["relayout"], (8 + 8) * row + (8 + 16) * row + (16 + 16 + 32) * row)

    def test_what_a_module_without_fusions_stores(self):
        made = relayout.Counter("""HloModule m

ENTRY %main (x: f32[8,100], w: f32[100,128]) -> f32[8,128] {
  %x = f32[8,100]{1,0:T(8,128)} parameter(0)
  %w = f32[100,128]{1,0:T(8,128)} parameter(1)
  %a = f32[8,100]{1,0:T(8,128)} negate(%x)
  %b = f32[8,100]{1,0:T(8,128)} exponential(%a)
  %same = f32[8,100]{1,0:T(8,128)S(1)} copy(%b)
  %d = f32[8,128]{1,0:T(8,128)} dot(%same, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %y = f32[8,128]{1,0:T(8,128)} negate(%d)
}
""").made
        self.assertEqual((made["relayout"], made["stored"], made["padding"]), (0, 3, 8 * 28 * 4 + 4 * 128 * 4))

    def test_a_convolution_whose_space_became_batch(self):
        made = relayout.Counter("""HloModule m

ENTRY %main (x: f32[64,8,8], w: f32[8,16,3,3]) -> f32[64,8,6,16] {
  %x = f32[66,8,64]{2,1,0:T(8,128)} parameter(0)
  %w = f32[8,16,3,3]{1,0,3,2:T(8,128)} parameter(1)
  %cut = f32[66,8,64]{1,2,0:T(8,128)} copy(%x)
  %pieces = f32[66,8,8,8]{1,3,2,0:T(8,128)} bitcast(%cut)
  %other = f32[66,8,64]{0,2,1:T(8,128)} copy(%x)
  ROOT %c = f32[66,8,6,16]{3,1,2,0:T(8,128)} convolution(%pieces, %w), window={size=3x3 pad=1_1x0_0}, dim_labels=0fb1_io01->0b1f
}
""").made
        self.assertEqual(made["stem"], 66 * (8 * 128 + 64 * 128) * 4)
        self.assertEqual(made["relayout"], (66 * 8 * 128 + 8 * 64 * 128) * 4)


if __name__ == "__main__":
    unittest.main()
