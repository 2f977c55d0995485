#!/usr/bin/env python3
"""MLIR's own tools accept the linalg text that optc writes, and compute the same from it as optc.

usage: python linalg.py OPTC [--verify] [FILE ...]

Without files, the programs are: the models of tests/models, the plans of tests/plans, blocks cut out of models, and
single operations; models with a named batch and sequence, those of symbolic.py, and single operations on named sizes,
each written once and run at two sizes; models folded for targets with tiles and blocks; and single operations on values
in padded layouts.

Each program is written as read, and folded for the cpu.  mlir-opt verifies the text, bufferizes it and lowers it to
LLVM. mlir-cpu-runner runs it on random inputs, and the numbers must be those of `optc run`.  A folded program has no more
`linalg.transpose` than `optc stats` counts conversions; with tiles, no more of `linalg.transpose`, `tensor.pack` and
`tensor.unpack` together.  With --verify files are only folded and verified, and the time and memory of writing them are
printed.  Needs numpy, mlir-opt-19 (or MLIR_OPT) and mlir-cpu-runner-19 (or MLIR_RUNNER).
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

import onnxruntime_peer as peer
import symbolic

ROOT = pathlib.Path(__file__).resolve().parents[2]
MLIR_OPT = os.environ.get("MLIR_OPT", "mlir-opt-19")
RUNNER = os.environ.get("MLIR_RUNNER", "mlir-cpu-runner-19")
FOLD = ["--pass=canonicalize,view-fold", "--target=cpu", "--pin-boundary"]
PASSES = {"read": ["--pass=", "--pin-boundary"], "folded": FOLD}
TILED = {target: ["--pass=canonicalize,view-fold", f"--target={target}", "--pin-boundary"] for target in ["tpu", "journey6"]}
# Operations that move elements to another layout.
MOVES = re.compile(r"linalg\.transpose |tensor\.(?:un)?pack ")
# Lowers packs and unpacks to pads, reshapes and transposes, with the transform dialect.
UNPACK = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %pack = transform.structured.match ops{["tensor.pack"]} in %module : (!transform.any_op) -> !transform.op<"tensor.pack">
    transform.structured.lower_pack %pack : (!transform.op<"tensor.pack">)
      -> (!transform.op<"tensor.pad">, !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
    %unpack = transform.structured.match ops{["tensor.unpack"]} in %module : (!transform.any_op) -> !transform.op<"tensor.unpack">
    transform.structured.lower_unpack %unpack : (!transform.op<"tensor.unpack">)
      -> (!transform.op<"tensor.empty">, !transform.op<"linalg.transpose">, !transform.op<"tensor.collapse_shape">, !transform.op<"tensor.extract_slice">)
    transform.yield
  }
}
"""
# The passes of MLIR 19: bufferization, then lowering to loops and LLVM.
BUFFERS = ["-eliminate-empty-tensors", "-one-shot-bufferize=bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map",
           "-buffer-deallocation-pipeline", "-convert-bufferization-to-memref"]
LOOPS = ["-convert-linalg-to-loops", "-expand-strided-metadata", "-lower-affine", "-convert-scf-to-cf",
         "-arith-expand=include-bf16=true", "-convert-math-to-llvm", "-convert-math-to-libm", "-convert-arith-to-llvm",
         "-convert-index-to-llvm", "-finalize-memref-to-llvm", "-convert-func-to-llvm", "-convert-cf-to-llvm",
         "-reconcile-unrealized-casts"]
# A copy of strided memory calls a library that not every package of the runner has. As linalg it becomes loops.
COPY = re.compile(r"memref\.copy (%\S+), (%\S+) : (memref<.*>) to (memref<.*>)")
DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "i1": "bool"}
DTYPES |= {f"{sign}{bits}": f"{name}{bits}" for sign, name in [("si", "int"), ("i", "int"), ("ui", "uint")]
           for bits in [8, 16, 32, 64]}
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3}

X, COLUMN = "tensor<2x4x3xf32>", "tensor<4xf32>"
IMAGE = "tensor<2x4x7x9xf32>"
# Operations whose forms are not trivial: name, attributes, types.
PROGRAMS = [
    ("arg_max", "axis = 1", f"({X}) -> tensor<2x3xsi64>"),
    ("arg_max", "axis = -1, keepdims = true, select_last_index = true", f"({X}) -> tensor<2x4x1xsi64>"),
    ("arg_min", "axis = 1", "(tensor<3x7xsi32>) -> tensor<3xsi64>"),
    ("avg_pool", "kernel = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]", f"({IMAGE}) -> tensor<2x4x4x5xf32>"),
    ("avg_pool", "kernel = [3, 3], strides = [2, 2], ceil_mode = true, count_include_pad = true, pads = [1, 1, 1, 1]",
     "(tensor<1x2x6x6xf32>) -> tensor<1x2x4x4xf32>"),
    ("batch_norm", "epsilon = 0.01", f"({X}, {COLUMN}, {COLUMN}, {COLUMN}, {COLUMN}) -> {X}"),
    ("cast", "to = si8", "(tensor<3x5xf32>) -> tensor<3x5xsi8>"),
    ("cast", "to = ui8", "(tensor<3x5xf32>) -> tensor<3x5xui8>"),
    ("cast", "to = f16", "(tensor<3x5xf32>) -> tensor<3x5xf16>"),
    ("conv", "pads = [1, 1, 1, 1]", "(tensor<1x3x6x5xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x4x6x5xf32>"),
    ("conv", "strides = [2, 1], dilations = [1, 2], group = 2", f"({IMAGE}, tensor<6x2x3x2xf32>) -> tensor<2x6x3x7xf32>"),
    ("conv", "group = 4, pads = [1, 1, 1, 1]", f"({IMAGE}, tensor<4x1x3x3xf32>, {COLUMN}) -> {IMAGE}"),
    ("conv", "strides = [4, 4]", "(tensor<1x3x8x8xf32>, tensor<5x3x4x4xf32>) -> tensor<1x5x2x2xf32>"),
    ("conv", "pads = [2, 2]", "(tensor<2x3x9xf32>, tensor<4x3x5xf32>) -> tensor<2x4x9xf32>"),
    ("conv", "", f"({IMAGE}, tensor<3x4x1x1xf32>, tensor<3xf32>) -> tensor<2x3x7x9xf32>"),
    ("conv", "transposed = true, strides = [2, 2], pads = [1, 1, 0, 0], group = 2, output_padding = [0, 1]",
     "(tensor<1x4x3x4xf32>, tensor<4x3x3x3xf32>, tensor<6xf32>) -> tensor<1x6x6x9xf32>"),
    ("cumsum", "axis = 1", "(tensor<2x5x3xf32>) -> tensor<2x5x3xf32>"),
    ("cumsum", "axis = 0, exclusive = true, reverse = true", "(tensor<4x3xsi32>) -> tensor<4x3xsi32>"),
    ("cumprod", "axis = -1, reverse = true", "(tensor<4x3xf32>) -> tensor<4x3xf32>"),
    ("dequantize", "axis = 1", "(tensor<2x4x3xsi8>, tensor<4xf32>, tensor<4xsi8>) -> tensor<2x4x3xf32>"),
    ("div", "", "(tensor<40xsi8>, tensor<40xsi8>) -> tensor<40xsi8>"),
    ("dynamic_update_slice", "", "(tensor<5x6xf32>, tensor<2x3xf32>, tensor<si32>, tensor<si32>) -> tensor<5x6xf32>"),
    ("einsum", 'equation = "bij,kj->ikb"', "(tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<3x5x2xf32>"),
    ("erf", "", "(tensor<3x5xf32>) -> tensor<3x5xf32>"),
    ("gather", "axis = 1", "(tensor<3x5x2xf32>, tensor<2x2xsi64>) -> tensor<3x2x2x2xf32>"),
    ("gather_elements", "axis = 1", "(tensor<3x5xf32>, tensor<2x4xsi64>) -> tensor<2x4xf32>"),
    ("gather_nd", "batch_dims = 1", "(tensor<3x5x4xf32>, tensor<3x2x1xsi64>) -> tensor<3x2x4xf32>"),
    ("gelu", "", "(tensor<3x5xf32>) -> tensor<3x5xf32>"),
    ("gelu", 'approximate = "tanh"', "(tensor<3x5xf16>) -> tensor<3x5xf16>"),
    ("group_norm", "num_groups = 2", f"({X}, {COLUMN}, {COLUMN}) -> {X}"),
    ("instance_norm", "", f"({X}, {COLUMN}, {COLUMN}) -> {X}"),
    ("layer_norm", "axis = 1", "(tensor<2x4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<2x4x3xf32>"),
    ("log_softmax", "axis = 1", f"({X}) -> {X}"),
    ("matmul", "", "(tensor<3x1x4x5xf32>, tensor<2x5x6xf32>) -> tensor<3x2x4x6xf32>"),
    ("matmul", "", "(tensor<4x5xf16>, tensor<5x6xf16>) -> tensor<4x6xf16>"),
    ("matmul", "to = si32", "(tensor<4x5xsi8>, tensor<5x6xsi8>) -> tensor<4x6xsi32>"),
    ("max_pool", "kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]", f"({IMAGE}) -> tensor<2x4x4x5xf32>"),
    ("mod", "", "(tensor<40xsi8>, tensor<40xsi8>) -> tensor<40xsi8>"),
    ("one_hot", "depth = 5, axis = 0", "(tensor<2x3xsi64>, tensor<2xf32>) -> tensor<5x2x3xf32>"),
    ("pad", 'low = [1, 0], high = [2, 1], mode = "reflect"', "(tensor<4x3xf32>) -> tensor<7x4xf32>"),
    ("pad", 'low = [1, 5], high = [2, 7], mode = "wrap"', "(tensor<4x3xf32>) -> tensor<7x15xf32>"),
    ("pad", "low = [-1, 2], high = [1, 0], value = 2.5", "(tensor<4x3xf32>) -> tensor<4x5xf32>"),
    ("quantize", "axis = 0, to = si8", "(tensor<4x9xf32>, tensor<4xf32>, tensor<4xsi8>) -> tensor<4x9xsi8>"),
    ("reduce", 'kind = "log_sum_exp", axes = [1]', f"({X}) -> tensor<2x3xf32>"),
    ("reduce", 'kind = "mean", axes = [0, 2], keepdims = true', f"({X}) -> tensor<1x4x1xf32>"),
    ("reduce", 'kind = "l2", axes = [2]', f"({X}) -> tensor<2x4xf32>"),
    ("resize", 'scales = [1.0, 1.0, 2.0, 1.5]', "(tensor<1x2x3x4xf32>) -> tensor<1x2x6x6xf32>"),
    ("resize", 'sizes = [1, 2, 7, 4], mode = "cubic"', "(tensor<1x2x3x4xf32>) -> tensor<1x2x7x4xf32>"),
    ("rms_norm", "", "(tensor<2x4x3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>"),
    ("rotary_embedding", "", "(tensor<2x3x5x4xf32>, tensor<2x5x2xf32>, tensor<2x5x2xf32>) -> tensor<2x3x5x4xf32>"),
    ("rotary_embedding", "interleaved = true, size = 4, sequence_axis = 1",
     "(tensor<2x3x5x6xf32>, tensor<7x2xf32>, tensor<7x2xf32>, tensor<2x3xsi64>) -> tensor<2x3x5x6xf32>"),
    ("scatter_elements", 'axis = 0, reduction = "add"', "(tensor<5x3xf32>, tensor<4x2xsi64>, tensor<4x2xf32>) -> tensor<5x3xf32>"),
    ("scatter_nd", 'reduction = "min"', "(tensor<5x4xf32>, tensor<2x3x1xsi32>, tensor<2x3x4xf32>) -> tensor<5x4xf32>"),
    ("scatter_nd", "", "(tensor<5x4xf32>, tensor<1x2xsi64>, tensor<1xf32>) -> tensor<5x4xf32>"),
    ("shift_right", "", "(tensor<40xsi8>, tensor<40xsi8>) -> tensor<40xsi8>"),
    ("slice", "starts = [3, 0], limits = [-1, 5], strides = [-2, 2]", "(tensor<4x5xf32>) -> tensor<2x3xf32>"),
    ("softmax", "axis = 1", f"({X}) -> {X}"),
    ("tile", "repeats = [2, 3]", "(tensor<2x3xf32>) -> tensor<4x9xf32>"),
    ("top_k", "k = 3", "(tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x3xsi64>)"),
    ("top_k", "k = 2, axis = 1, largest = false", "(tensor<2x7x2xsi32>) -> (tensor<2x2x2xsi32>, tensor<2x2x2xsi64>)"),
    ("trilu", "k = -1, upper = false", "(tensor<3x4xsi32>) -> tensor<3x4xsi32>"),
]

# Operations on named sizes, with types in HLO's syntax; an omitted result type is that of the first operand.
SIZES = [{"B": 3, "S": 7, "T": 4, "H": 9, "W": 6}, {"B": 1, "S": 5, "T": 5, "H": 12, "W": 7}]
SIZED = [
    ("arg_max", "axis = 1", "f32[B,S,3] -> si64[B,3]"),
    ("avg_pool", "kernel = [3, 2], strides = [2, 2]", "f32[B,4,H,W] -> f32[B,4,(H-3)//2+1,W//2]"),
    ("batch_norm", "epsilon = 0.01", "f32[B,4,S] f32[4] f32[4] f32[4] f32[4]"),
    ("broadcast", 'shape = ["B", 4, "S"]', "f32[4,1] f32[B,S] -> f32[B,4,S]"),
    ("concat", "axis = 1", "f32[B,S,3] f32[B,2,3] f32[B,T,3] -> f32[B,S+T+2,3]"),
    ("conv", "pads = [1, 1, 1, 1]", "f32[B,3,H,W] f32[4,3,3,3] f32[4] -> f32[B,4,H,W]"),
    ("conv", "strides = [2, 1], dilations = [1, 2], group = 2, pads = [1, 0, 1, 0]",
     "f32[B,4,H,W] f32[6,2,3,2] -> f32[B,6,(H+1)//2,W-2]"),
    ("conv", "", "f32[B,4,H,W] f32[3,4,1,1] f32[3] -> f32[B,3,H,W]"),
    ("conv", "transposed = true, strides = [2, 2], pads = [1, 1, 0, 0], group = 2, output_padding = [0, 1]",
     "f32[B,4,H,W] f32[4,3,3,3] f32[6] -> f32[B,6,2*H,2*W+1]"),
    ("cumsum", "axis = 1", "f32[B,S,3]"),
    ("cumsum", "axis = 0, exclusive = true, reverse = true", "si32[S,3]"),
    ("dynamic_update_slice", "", "f32[5,S] f32[2,3] si32[] si32[] -> f32[5,S]"),
    ("einsum", 'equation = "bij,kj->ikb"', "f32[B,S,4] f32[T,4] -> f32[S,T,B]"),
    ("gather", "axis = 1", "f32[B,5,S] si64[T,2] -> f32[B,T,2,S]"),
    ("gather_elements", "axis = 1", "f32[3,S] si64[3,T] -> f32[3,T]"),
    ("gather_nd", "batch_dims = 1", "f32[B,S,4] si64[B,2,1] -> f32[B,2,4]"),
    ("group_norm", "num_groups = 2", "f32[B,4,S] f32[4] f32[4]"),
    ("layer_norm", "axis = 1", "f32[B,S,3] f32[S,3] f32[S,3]"),
    ("log_softmax", "axis = 2", "f32[B,4,S]"),
    ("matmul", "", "f32[B,1,S,5] f32[2,5,T] -> f32[B,2,S,T]"),
    ("matmul", "", "f16[B,S] f16[S,6] -> f16[B,6]"),
    ("max_pool", "kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]",
     "f32[B,4,H,W] -> f32[B,4,(H-1)//2+1,(W-1)//2+1]"),
    ("one_hot", "depth = 5, axis = 0", "si64[B,S] f32[2] -> f32[5,B,S]"),
    ("pad", 'low = [1, 0], high = [2, 1], mode = "reflect"', "f32[S,T] -> f32[S+3,T+1]"),
    ("pad", 'low = [1, 5], high = [2, 7], mode = "wrap"', "f32[S,3] -> f32[S+3,15]"),
    ("pad", 'low = [1, 0], high = [0, 1], mode = "edge"', "f32[S,B] -> f32[S+1,B+1]"),
    ("pad", "low = [0, 2], high = [3, 0], value = 2.5", "f32[S,B] -> f32[S+3,B+2]"),
    ("pad", "low = [-1, 2], high = [1, 0], value = 2.5", "f32[S,B] -> f32[S,B+2]"),
    ("quantize", "axis = 0, to = si8", "f32[4,S] f32[4] si8[4] -> si8[4,S]"),
    ("reduce", 'kind = "log_sum_exp", axes = [1]', "f32[B,S,3] -> f32[B,3]"),
    ("reduce", 'kind = "mean", axes = [0, 2], keepdims = true', "f32[B,4,S] -> f32[1,4,1]"),
    ("reduce", 'kind = "mean", axes = [1]', "f32[2*B,S] -> f32[2*B]"),
    ("reshape", 'shape = ["2*B*S", 3]', "f32[B,S,6] -> f32[2*B*S,3]"),
    ("reshape", 'shape = ["B", "S", 6]', "f32[B*S,6] f32[B] -> f32[B,S,6]"),
    ("reshape", 'shape = ["S*B", 6]', "f32[S*B,2,3] f32[B+1] f32[B*S+2*S+1] -> f32[B*S,6]"),
    ("resize", "scales = [1.0, 1.0, 2.0, 1.5]", "f32[B,2,3,4] -> f32[B,2,6,6]"),
    ("rms_norm", "axis = 2", "f32[B,4,S] f32[S]"),
    ("rotary_embedding", "", "f32[B,3,S,4] f32[B,S,2] f32[B,S,2]"),
    ("scatter_elements", 'axis = 0, reduction = "add"', "f32[S,3] si64[T,2] f32[T,2] -> f32[S,3]"),
    ("scatter_nd", 'reduction = "min"', "f32[S,T] si32[2,3,1] f32[2,3,T] -> f32[S,T]"),
    ("slice", 'starts = [1, 0], limits = ["S-1", 2], strides = [1, 1]', "f32[S,4] -> f32[S-2,2]"),
    ("slice", 'starts = ["S-1", 0], limits = ["S", 4], strides = [1, 2]', "f32[S,4] -> f32[1,2]"),
    ("softmax", "axis = 1", "f32[B,S,3]"),
    ("split", "axis = 1, sizes = [1, 3]", "f32[B,4,S] -> f32[B,1,S] f32[B,3,S]"),
    ("tile", "repeats = [2, 3]", "f32[B,S] -> f32[2*B,3*S]"),
    ("top_k", "k = 3", "f32[B,S] -> f32[B,3] si64[B,3]"),
    ("transpose", "perm = [2, 0, 1]", "f32[B,S,3] -> f32[3,B,S]"),
    ("trilu", "k = -1, upper = false", "si32[S,T]"),
]


# Operations on values in padded layouts: tiles with padding at the end of a dimension, tiles and blocks that cut a
# dimension before its end, blocks in another order, strides, and tiles across merged dimensions.  Each operand and
# result has the layout that it is converted to or from.
ROWS, TILE, TURNED = 'xla = "1,0:T(8,128)"', 'xla = "2,1,0:T(8,128)"', 'xla = "1,2,0:T(8,128)"'
BLOCK = 'block = "4H4W"'
PADDED = [
    ("relu", "", f"14x20xf32[{ROWS}] -> 14x20xf32[{ROWS}]"),
    ("relu", "", f"14x200xf32[{ROWS}] -> 14x200xf32[{ROWS}]"),
    ("relu", "", f'14x200xf32[{ROWS}] -> 14x200xf32[xla = "0,1:T(8,128)"]'),
    ("neg", "", f'5x7xf32[{BLOCK}] -> 5x7xf32[block = "4W2H", order = [1, 0]]'),
    ("neg", "", '5x7xsi32[strides = [9, 1], size = 50] -> 5x7xsi32[strides = [1, 6], offset = 3, size = 50]'),
    ("neg", "", '14x200xf16[xla = "1,0:T(8,128)(2,1)"] -> 14x200xf16[xla = "1,0:T(8,128)(2,1)"]'),
    ("not", "", f"9x13xi1[{ROWS}] -> 9x13xi1[{BLOCK}]"),
    ("add", "", f"14x200xf32[{ROWS}] 200xf32[] -> 14x200xf32[{ROWS}]"),
    ("add", "", f"5x7xf32[{BLOCK}] 5x7xf32[{BLOCK}] -> 5x7xf32[{BLOCK}]"),
    ("div", "", f"5x7xsi8[{BLOCK}] 5x7xsi8[{BLOCK}] -> 5x7xsi8[{BLOCK}]"),
    ("matmul", "", f"14x20xf32[{ROWS}] 20x6xf32[{ROWS}] -> 14x6xf32[{ROWS}]"),
    ("matmul", "", '5x7xf32[block = "4W"] 7x6xf32[block = "4H", order = [0, 1]] -> 5x6xf32[block = "4W"]'),
    ("matmul", "", f"3x14x200xf32[{TILE}] 200x9xf32[] -> 3x14x9xf32[{TILE}]"),
    ("matmul", "", '2x9x13xf32[block = "4W4C"] 2x13x6xf32[block = "4C"] -> 2x9x6xf32[block = "4C4W"]'),
    ("matmul", "", '2x9x13xf32[block = "4C4W"] 2x13x6xf32[block = "4W4C"] -> 2x9x6xf32[block = "4W4C"]'),
    ("reduce", 'kind = "mean", axes = [1]', f'5x7xf32[{BLOCK}] -> 5xf32[block = "4W"]'),
    ("reduce", 'kind = "mean", axes = [0]', f'14x200xf32[{ROWS}] -> 200xf32[xla = "0:T(256)"]'),
    ("reduce", 'kind = "min", axes = [0, 1], keepdims = true', f"14x200xf32[{ROWS}] -> 1x1xf32[{ROWS}]"),
    ("reduce", 'kind = "log_sum_exp", axes = [1]', f'5x7xf32[{BLOCK}] -> 5xf32[block = "4W"]'),
    ("softmax", "axis = 1", f"5x7xf32[{BLOCK}] -> 5x7xf32[{BLOCK}]"),
    ("softmax", "axis = 1", f"14x200xf32[{ROWS}] -> 14x200xf32[{ROWS}]"),
    ("log_softmax", "axis = 2", f"3x14x20xf32[{TILE}] -> 3x14x20xf32[{TURNED}]"),
    ("layer_norm", "axis = 1", f"14x200xf32[{ROWS}] 200xf32[] 200xf32[] -> 14x200xf32[{ROWS}]"),
    ("layer_norm", "axis = 1", f'5x7xf32[{BLOCK}] 7xf32[block = "4W"] 7xf32[block = "4W"] -> 5x7xf32[{BLOCK}]'),
    ("group_norm", "num_groups = 3", '2x9x3xf32[block = "4W2C"] 9xf32[] 9xf32[] -> 2x9x3xf32[block = "4W2C"]'),
    ("instance_norm", "", '2x3x5x7xf32[block = "4W4C"] 3xf32[] 3xf32[] -> 2x3x5x7xf32[block = "4W4C"]'),
    ("arg_max", "axis = 1", f'5x7xf32[{BLOCK}] -> 5xsi64[block = "4W"]'),
    ("gather", "axis = 1", f'3x13x2xf32[{TURNED}] 2x3xsi64[block = "2W"] -> 3x2x3x2xf32[xla = "3,2,1,0:T(8,128)"]'),
    ("scatter_nd", 'reduction = "add"', f"5x7xf32[{BLOCK}] 3x1xsi32[] 3x7xf32[{BLOCK}] -> 5x7xf32[{BLOCK}]"),
    ("cumsum", "axis = 1", f"5x7xf32[{BLOCK}] -> 5x7xf32[{ROWS}]"),
    ("top_k", "k = 3", f"5x7xf32[{BLOCK}] -> 5x3xf32[{BLOCK}] 5x3xsi64[{ROWS}]"),
    ("conv", "pads = [1, 1, 1, 1]",
     '1x3x6x5xf32[block = "8W"] 5x3x3x3xf32[block = "4N"] 5xf32[] -> 1x5x6x5xf32[xla = "1,3,2,0:T(8,128)"]'),
    ("conv", "group = 2", '2x6x7x9xf32[block = "4C"] 6x3x2x2xf32[] -> 2x6x6x8xf32[block = "4C"]'),
    ("max_pool", "kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]",
     '2x5x7x9xf32[xla = "1,3,2,0:T(8,128)"] -> 2x5x4x5xf32[block = "4C4W"]'),
    ("slice", "starts = [1, 3], limits = [5, 7], strides = [2, 1]", f"5x7xf32[{ROWS}] -> 2x4xf32[{BLOCK}]"),
    ("slice", "starts = [1, 3], limits = [5, 7], strides = [2, 1]", f"5x7xf32[{BLOCK}] -> 2x4xf32[{ROWS}]"),
    ("split", "axis = 1, sizes = [3, 4]", f"5x7xf32[{BLOCK}] -> 5x3xf32[{BLOCK}] 5x4xf32[{BLOCK}]"),
    ("concat", "axis = 1", f"5x7xf32[{BLOCK}] 5x3xf32[{ROWS}] -> 5x10xf32[{BLOCK}]"),
    ("pad", "low = [1, 0], high = [2, 1], value = 2.5", f"5x7xf32[{ROWS}] -> 8x8xf32[{ROWS}]"),
    ("transpose", "perm = [1, 0]", f"14x200xf32[{ROWS}] -> 200x14xf32[{ROWS}]"),
    ("transpose", "perm = [1, 0]", f'14x200xf32[{ROWS}] -> 200x14xf32[xla = "0,1:T(8,128)"]'),
    ("reshape", "shape = [7, 2, 200]", f"14x200xf32[{ROWS}] -> 7x2x200xf32[{TILE}]"),
    ("reshape", "shape = [35]", f"5x7xf32[{BLOCK}] -> 35xf32[]"),
    ("relu", "", '3x1x6x50x16xf32[digits = "7:d3/8 3:(d0*d2)/8 8:d3 8:(d0*d2) 16:d4"] -> '
     '3x1x6x50x16xf32[digits = "7:d3/8 3:(d0*d2)/8 8:d3 8:(d0*d2) 16:d4"]'),
]


def run(command, **kwargs):
    return subprocess.run([str(c) for c in command], capture_output=True, **kwargs)


def need(command, **kwargs):
    done = run(command, **kwargs)
    if done.returncode != 0:
        words = " ".join(str(c) for c in command)
        raise AssertionError(f"$ {words}\n{done.stderr.decode(errors='replace')[:1500]}")
    return done.stdout


def signature(optc, path):
    """The names, element types and shapes of the arguments of @main, and the types of its results."""
    text = json.loads(need([optc, "--pass=", "--emit=json", path]))
    main = next((f for f in text["functions"] if f["name"] == "main"), text["functions"][0])
    port = lambda p: (p["attributes"].get("hbir.name", p["name"]), p["type"]["element"], p["type"]["shape"])
    return [port(p) for p in main["arguments"]], [(p["type"]["element"], p["type"]["shape"]) for p in main["results"]]


def drawn(rng, element, shape, nth, name):
    dtype = np.dtype(DTYPES[element])
    if dtype.kind == "f":
        x = rng.standard_normal(shape)
        if name == "cast":
            x = x * 200
        # Scales and variances are positive.
        return (np.abs(x) + 0.1 if name and (nth == 4 or (nth == 1 and "quantize" in name)) else x).astype(dtype)
    if dtype.kind == "b" or not name:
        return rng.integers(0, 2, shape).astype(dtype)
    if nth == 0 and name != "one_hot" or name in ("div", "mod", "shift_right"):
        return rng.integers(-9 if dtype.kind == "i" else 0, 10, shape).astype(dtype)
    # Indices of both signs, in the range of the smallest indexed extent.
    low, high = (0, 4) if dtype.kind == "u" or name == "rotary_embedding" else (-4, 4)
    return rng.integers(low, high, shape).astype(dtype)


def memref(element, shape):
    plain = element.replace("si", "i").replace("ui", "i")
    return "".join(f"{n}x" for n in shape) + plain


def harness(text, inputs, results):
    """The module with an entry that reads the inputs from standard input and writes the results to standard output."""
    lines, args = [], []
    # Arguments and results with unknown sizes are cast.
    declared = re.search(r"func\.func @main\((.*)\) -> \((.*)\) \{", text)
    takes, gives = (re.findall(r"tensor<[^>]*>", part) for part in declared.groups())

    def cast(value, source, target):
        if source == target:
            return value
        lines.append(f"{value.replace('#', '_')}_c = tensor.cast {value} : {source} to {target}")
        return f"{value.replace('#', '_')}_c"

    def pointer(buffer, ty):
        lines.append(f"%{buffer}_i = memref.extract_aligned_pointer_as_index %{buffer} : memref<{ty}> -> index")
        lines.append(f"%{buffer}_p = arith.index_cast %{buffer}_i : index to i64")
        return f"%{buffer}_p"

    def bytes_of(element, shape):
        return np.dtype(DTYPES[element]).itemsize * int(np.prod(shape, dtype=np.int64))

    lines += ["%fd0 = arith.constant 0 : i32", "%fd1 = arith.constant 1 : i32"]
    for i, (element, shape) in enumerate(inputs):
        ty = memref(element, shape)
        lines.append(f"%a{i} = memref.alloc() : memref<{ty}>")
        lines.append(f"%a{i}_n = arith.constant {bytes_of(element, shape)} : i64")
        lines.append(f"%a{i}_r = func.call @read(%fd0, {pointer(f'a{i}', ty)}, %a{i}_n) : (i32, i64, i64) -> i64")
        lines.append(f"%a{i}_t = bufferization.to_tensor %a{i} restrict : memref<{ty}>")
        args.append(cast(f"%a{i}_t", f"tensor<{ty}>", takes[i]))
    lines.append(f"%r:{len(results)} = func.call @main({', '.join(args)}) : ({', '.join(takes)}) -> ({', '.join(gives)})")
    for i, (element, shape) in enumerate(results):
        ty = memref(element, shape)
        result = cast(f"%r#{i}", gives[i], f"tensor<{ty}>")
        lines.append(f"%b{i} = bufferization.to_memref {result} : memref<{ty}>")
        lines.append(f"%b{i}_n = arith.constant {bytes_of(element, shape)} : i64")
        lines.append(f"%b{i}_r = func.call @write(%fd1, {pointer(f'b{i}', ty)}, %b{i}_n) : (i32, i64, i64) -> i64")
    body = "\n".join("    " + line for line in lines)
    entry = ("  func.func private @read(i32, i64, i64) -> i64\n  func.func private @write(i32, i64, i64) -> i64\n"
             f"  func.func @entry() {{\n{body}\n    return\n  }}\n}}\n")
    at = text.index("\n}\n") + 1
    return text[:at] + entry + text[at + 2:]


def poisoned(text):
    """The module with poison in padding: NaN, or a large integer."""
    def number(element):
        if element.startswith("i"):
            return "true" if element == "i1" else "85"
        return {"f64": "0x7FF8000000000000", "f32": "0x7FC00000", "f16": "0x7E00"}[element]

    constant = lambda m: f"{m[1]} = arith.constant {number(m[2])}" + ("" if m[2] == "i1" else f" : {m[2]}")
    for name in set(re.findall(r"padding_value\((%\S+) :", text)):
        text = re.sub(rf"({name}) = arith\.constant \S+(?: : (\w+))?", lambda m: constant([0, m[1], m[2] or "i1"]), text)
    for name in set(re.findall(r"tensor\.insert_slice \S+ into (%\w+)\[", text)):
        splat = lambda m: f"{m[1]} = arith.constant dense<{number(m[3])}> : {m[2]}"
        text = re.sub(rf"({name}) = tensor\.empty\(\) : (tensor<(?:\d+x)*(\w+)>)", splat, text)
    return text


def stored(x, shape):
    """An array as the first elements of each dimension of an array of this shape, ignoring dimensions of extent 1."""
    own = [n for n in x.shape if n != 1]
    if list(x.shape) == shape or x.size == np.prod(shape):
        return x.reshape(shape)
    assert len(own) == len(shape), (x.shape, shape)
    whole = np.full(shape, np.nan if x.dtype.kind == "f" else 85).astype(x.dtype)
    whole[tuple(slice(n) for n in own)] = x.reshape(own)
    return whole


def taken(x, shape):
    """The inverse of [`stored`]."""
    own = [n for n in shape if n != 1]
    if 4 <= len(own) + 2 == x.ndim:
        # Tiles of the last two dimensions.
        *outer, rows, columns, height, width = x.shape
        x = x.swapaxes(-3, -2).reshape(*outer, rows * height, columns * width)
    return x.reshape(shape) if x.size == np.prod(shape) else x[tuple(slice(n) for n in own)].reshape(shape)


def executed(text, inputs, results, folder):
    """The results that MLIR's tools compute from a module."""
    types = [(element, x.shape) for element, x in inputs]
    (folder / "run.mlir").write_text(harness(text, types, results))
    lowered = []
    if "tensor.pack" in text or "tensor.unpack" in text:
        (folder / "unpack.mlir").write_text(UNPACK)
        lowered = [f"-transform-preload-library=transform-library-paths={folder / 'unpack.mlir'}", "-transform-interpreter"]
    buffers = need([MLIR_OPT, folder / "run.mlir", *lowered, *BUFFERS]).decode()
    (folder / "buffers.mlir").write_text(COPY.sub(r"linalg.copy ins(\1 : \3) outs(\2 : \4)", buffers))
    need([MLIR_OPT, folder / "buffers.mlir", *LOOPS, "-o", folder / "llvm.mlir"])
    given = b"".join(np.ascontiguousarray(x).tobytes() for _, x in inputs)
    (folder / "in.bin").write_bytes(given)
    # New memory is filled with bytes, so that a program which reads what nothing wrote is wrong in every run.
    environment = {**os.environ, "MALLOC_PERTURB_": "1"}
    with open(folder / "in.bin", "rb") as file:
        out = need([RUNNER, folder / "llvm.mlir", "-e", "entry", "-entry-point-result=void", "-O2"], stdin=file, env=environment)
    found, at = [], 0
    for element, shape in results:
        dtype = np.dtype(DTYPES[element])
        n = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        found.append(np.frombuffer(out[at:at + n], dtype).reshape(shape))
        at += n
    assert at == len(out), (at, len(out))
    return found


def agree(found, wanted):
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    if wanted.dtype.kind != "f":
        assert np.array_equal(found, wanted), f"integers differ: {found} {wanted}"
        return
    assert np.array_equal(np.isnan(found), np.isnan(wanted)), "other NaNs"
    a, b = np.nan_to_num(found.astype(np.float64)), np.nan_to_num(wanted.astype(np.float64))
    bound = TOLERANCE[str(wanted.dtype)] * max(1.0, float(np.max(np.abs(b), initial=0.0)))
    worst = float(np.max(np.abs(a - b), initial=0.0))
    assert worst <= bound, f"differs by {worst}, allowed {bound}"


def written(optc, passes, path, folder):
    here = folder / "m.mlir"
    need([optc, *passes, "--emit=linalg", path, "-o", here])
    need([MLIR_OPT, here, "-verify-each", "-o", os.devnull])
    return here.read_text()


def at_sizes(optc, path, text, sizes, name, folder):
    """Compares the results of MLIR's tools for one text with those of optc, at these sizes."""
    number = lambda size: size if isinstance(size, int) else eval(size, {"__builtins__": {}}, dict(sizes))
    args, results = signature(optc, path)
    rng = np.random.default_rng(7)
    inputs = []
    for i, (_, element, shape) in enumerate(args):
        inputs.append((element, drawn(rng, element, [number(n) for n in shape], i, name)))
    np.savez(folder / "in.npz", **{key: x for (key, *_), (_, x) in zip(args, inputs)})
    need([optc, "run", "--pass=", path, "--inputs", folder / "in.npz", "--output", folder / "out.npz"])
    with np.load(folder / "out.npz") as file:
        wanted = [file[key] for key in file]
    results = [(element, [number(n) for n in shape]) for element, shape in results]
    # A value that is padded at the boundary has its padding at the end of its dimensions.
    if not sizes:
        parts = re.search(r"func\.func @main\((.*)\) -> \((.*)\) \{", text).groups()
        takes, gives = ([[int(n) for n in re.findall(r"(\d+)x", ty)] for ty in re.findall(r"tensor<[^>]*>", part)] for part in parts)
        inputs = [(element, stored(x, shape)) for (element, x), shape in zip(inputs, takes, strict=True)]
        given, results = results, [(element, shape) for (element, _), shape in zip(results, gives, strict=True)]
    found = executed(text, inputs, results, folder)
    if not sizes:
        found = [taken(x, shape) for x, (_, shape) in zip(found, given)]
    for a, b in zip(found, wanted, strict=True):
        agree(a, b)


def check_sized(optc, path, sizes, name=""):
    """The failure of one program with named sizes; None if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for what, passes in PASSES.items():
            try:
                text = written(optc, passes, path, folder)
                head = text[text.index("func.func @main"):].split("{", 1)[0]
                assert "?" in head, "no size is open"
                if what == "folded":
                    stats = json.loads(need([optc, "stats", *FOLD, "--json", path]))
                    count = len(re.findall(r"linalg\.transpose ", text))
                    assert count <= stats["layout_convert"], f"{count} transposes, {stats['layout_convert']} conversions"
            except AssertionError as error:
                return f"{what}: {error}"
            for own in sizes:
                try:
                    at_sizes(optc, path, text, own, name, folder)
                except AssertionError as error:
                    return f"{what}, at {own}: {error}"
    return None


def twins(folder):
    """Models with named sizes, each with two assignments to its names."""
    models = [(p.stem, lambda p=p: peer.load(p, np.random.default_rng(3))) for p in sorted((ROOT / "tests/models").glob("*.onnx"))]
    models += [(make.__name__, make) for make in [symbolic.encoder, symbolic.decoder, symbolic.patches, symbolic.windows]]
    for name, load in models:
        rewriter = symbolic.Rewriter(load(), True)
        path = folder / f"{name}.symbolic.onnx"
        onnx.save(rewriter.run(), str(path))
        first = {n: rewriter.sizes[n] for n in rewriter.origin}
        # Positions and masks are slices of constants, which are no longer than the model's own sequence.
        other = {n: max(2, v - 1) if n == "S" else v + 1 for n, v in first.items()}
        yield name, path, [first, other]


def sized_source(name, attributes, types):
    def tensor(word):
        element, inside = word.rstrip("]").split("[")
        dims = [d for d in inside.split(",") if d]
        if all(d.isdigit() for d in dims):
            return f"tensor<{''.join(d + 'x' for d in dims)}{element}>"
        shown = "".join(f"{d if d.isdigit() else '?'}x" for d in dims)
        names = ", ".join(d if d.isdigit() else f'"{d}"' for d in dims)
        return f"tensor<{shown}{element}, {{dims = [{names}]}}>"

    takes, _, gives = types.partition(" -> ")
    takes = [tensor(t) for t in takes.split()]
    gives = [tensor(t) for t in gives.split()] or takes[:1]
    args = ", ".join(f"%a{i}: {t}" for i, t in enumerate(takes))
    # Some arguments of reshapes and broadcasts only provide sizes.
    used = takes[:1] if name in ("reshape", "broadcast") else takes
    results = ", ".join(f"%0#{i}" for i in range(len(gives))) if 1 < len(gives) else "%0"
    left = f"%0:{len(gives)}" if 1 < len(gives) else "%0"
    names = ", ".join(f"%a{i}" for i in range(len(used)))
    return (f"func.func @main({args}) -> ({', '.join(gives)}) {{\n"
            f'  {left} = "hbir.{name}"({names}) <{{{attributes}}}> : ({", ".join(used)}) -> ({", ".join(gives)})\n'
            f"  return {results} : {', '.join(gives)}\n}}\n")


def check(optc, path, name=""):
    """The failure of one program; None if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            if path.suffix == ".onnx":
                # Absent weights are filled in.
                model = peer.load(path, np.random.default_rng(3))
                path = folder / path.name
                onnx.save(model, str(path))
            args, results = signature(optc, path)
            rng = np.random.default_rng(7)
            inputs = [(element, drawn(rng, element, shape, i, name)) for i, (_, element, shape) in enumerate(args)]
            np.savez(folder / "in.npz", **{key: x for (key, *_), (_, x) in zip(args, inputs)})
            need([optc, "run", "--pass=", path, "--inputs", folder / "in.npz", "--output", folder / "out.npz"])
            with np.load(folder / "out.npz") as file:
                wanted = [file[key] for key in file]
            for what, passes in PASSES.items():
                text = written(optc, passes, path, folder)
                if what == "folded":
                    stats = json.loads(need([optc, "stats", *FOLD, "--json", path]))
                    count = len(re.findall(r"linalg\.transpose ", text))
                    assert count <= stats["layout_convert"], f"{count} transposes, {stats['layout_convert']} conversions"
                for i, (a, b) in enumerate(zip(executed(text, inputs, results, folder), wanted)):
                    try:
                        agree(a, b)
                    except AssertionError as error:
                        raise AssertionError(f"{what}, result {i}: {error}") from None
        except AssertionError as error:
            return str(error)
    return None


def check_tiled(optc, path, passes, name=""):
    """The failure of one program folded for a target with tiles; None if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            if path.suffix == ".onnx":
                model = peer.load(path, np.random.default_rng(3))
                path = folder / path.name
                onnx.save(model, str(path))
            text = written(optc, passes, path, folder)
            if passes != ["--pass="]:
                stats = json.loads(need([optc, "stats", *passes, "--json", path]))
                count = len(MOVES.findall(text))
                # A view of tiles across merged dimensions needs an unpack before it.
                spare = 1 if name == "merged" else 0
                assert count <= stats["layout_convert"] + spare, f"{count} moves, {stats['layout_convert']} conversions"
            at_sizes(optc, path, poisoned(text), {}, name, folder)
        except AssertionError as error:
            return str(error)
    return None


def padded_source(name, attributes, types):
    """One operation whose operands and results are converted from and to row-major order."""
    def tensors(words):
        found = re.findall(r"(\S+?)\[((?:[^\[\]]|\[[^\]]*\])*)\]", words)
        plain = [f"tensor<{shape}>" for shape, _ in found]
        return plain, [f"tensor<{shape}, {{{layout}}}>" if layout else f"tensor<{shape}>" for shape, layout in found]

    def convert(value, source, target):
        return f'  {value}c = "hbir.layout_convert"({value.replace("o", "0#") if many else value}) : ({source}) -> {target}\n'

    takes, gives = (tensors(words) for words in types.split(" -> "))
    many = False
    lines = "".join(convert(f"%a{i}", *pair) for i, pair in enumerate(zip(*takes)))
    args = ", ".join(f"%a{i}: {ty}" for i, ty in enumerate(takes[0]))
    used = ", ".join(f"%a{i}c" for i in range(len(takes[0])))
    many = 1 < len(gives[0])
    left = f"%0:{len(gives[0])}" if many else "%o0"
    lines += f'  {left} = "hbir.{name}"({used}) <{{{attributes}}}> : ({", ".join(takes[1])}) -> ({", ".join(gives[1])})\n'
    lines += "".join(convert(f"%o{i}", b, a) for i, (a, b) in enumerate(zip(*gives)))
    made = ", ".join(f"%o{i}c" for i in range(len(gives[0])))
    plain = ", ".join(gives[0])
    return f"func.func @main({args}) -> ({plain}) {{\n{lines}  return {made} : {plain}\n}}\n"


def source(name, attributes, types):
    count = types.split(" -> ")[0].count("tensor<")
    args = ", ".join(f"%a{i}" for i in range(count))
    left = "%0" if types.split(" -> ")[1].count("tensor<") == 1 else "%0:2"
    return f'{left} = "hbir.{name}"({args}) <{{{attributes}}}> : {types}\n'


def measured(command):
    """The seconds and MiB that a command took, and its error if it failed."""
    start = time.monotonic()
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    why = said.decode(errors="replace")[:600] if child.returncode != 0 else None
    return time.monotonic() - start, usage.ru_maxrss // 1024, why


def verified(optc, path):
    """Folds and verifies one model, and prints the cost of writing it."""
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder) / "m.mlir"
        seconds, mib, why = measured([optc, *FOLD, "--emit=linalg", path, "-o", here])
        if why:
            return why
        reading, mlir_mib, why = measured([MLIR_OPT, here, "-verify-each", "-o", os.devnull])
        if why:
            return why
        stats = json.loads(need([optc, "stats", *FOLD, "--json", path]))
        # The memory of this process would count for its children.
        count = int(run(["grep", "-c", "linalg.transpose ", here]).stdout)
        size = here.stat().st_size
        print(f"{path.name}: written in {seconds:.1f} s and {mib} MiB, {size / 1e6:.1f} MB of text; verified in "
              f"{reading:.1f} s and {mlir_mib} MiB; {count} transposes of {stats['layout_convert']} conversions", flush=True)
        if stats["layout_convert"] < count:
            return f"{count} transposes, {stats['layout_convert']} conversions"
    return None


def main():
    optc, files = sys.argv[1], [pathlib.Path(p) for p in sys.argv[2:] if p != "--verify"]
    failed, tried = 0, 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        if "--verify" in sys.argv:
            jobs = [(path, verified(optc, path)) for path in files]
        else:
            programs = [(path, path, "") for path in files]
            if not files:
                groups = ROOT / "tests/cases/passes/tile-propagate/groups"
                paths = [*sorted((ROOT / "tests/models").glob("*.onnx")), *sorted((ROOT / "tests/plans").glob("*.ir")),
                         *sorted(groups.glob("*_small.ir"))]
                programs = [(path.relative_to(ROOT), path, "") for path in paths]
                for i, program in enumerate(PROGRAMS):
                    path = pathlib.Path(folder) / f"{i}.ir"
                    path.write_text(source(*program))
                    programs.append((" ".join(program), path, program[0]))
            done = pool.map(lambda p: check(optc, p[1], p[2]), programs)
            jobs = [(what, why) for (what, *_), why in zip(programs, done)]
        sized = []
        if not files:
            sized = [(name, path, sizes, "") for name, path, sizes in twins(pathlib.Path(folder))]
            models = len(sized)
            for i, program in enumerate(SIZED):
                path = pathlib.Path(folder) / f"sized_{i}.ir"
                path.write_text(sized_source(*program))
                sized.append((" ".join(program), path, SIZES, program[0]))
            done = pool.map(lambda p: check_sized(optc, *p[1:]), sized)
            found = [(f"named sizes: {what}", why) for (what, *_), why in zip(sized, done)]
            good = sum(not why for _, why in found[:models])
            print(f"{good} models of named sizes and {sum(not why for _, why in found[models:])} operations on them, at two sizes each")
            if not good:
                found.append(("named sizes", "no model was run"))
            jobs += found
        if not files:
            tiled = []
            for target, passes in TILED.items():
                models = sorted((ROOT / "tests/models").glob("*.onnx"))
                for path in models:
                    merged = (target, path.stem) == ("tpu", "micro_qkv_split")
                    tiled.append((f"{path.relative_to(ROOT)} for {target}", path, passes, "merged" if merged else ""))
            models = len(tiled)
            for i, program in enumerate(PADDED):
                path = pathlib.Path(folder) / f"padded_{i}.ir"
                path.write_text(padded_source(*program))
                tiled.append((" ".join(program), path, ["--pass="], program[0]))
            done = pool.map(lambda p: check_tiled(optc, *p[1:]), tiled)
            found = [(what, why) for (what, *_), why in zip(tiled, done)]
            good = sum(not why for _, why in found[:models])
            print(f"{good} models in tiles and blocks, {sum(not why for _, why in found[models:])} operations on padded values")
            jobs += found
        for what, why in jobs:
            tried += 1
            if why:
                failed += 1
                print(f"{what}: {why}")
    print(f"{tried} programs in MLIR's tools, {failed} failures")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
