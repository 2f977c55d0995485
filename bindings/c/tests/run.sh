#!/usr/bin/env bash
# Builds the C program with AddressSanitizer against the static library, and runs it on mutated inputs.
# Usage: bindings/c/tests/run.sh LIBRARY [MUTATIONS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
library=$1
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
gcc -std=c11 -Wall -Wextra -Werror -g -fsanitize=address,undefined -fno-sanitize-recover=undefined \
  -I bindings/c/include bindings/c/tests/fold.c "$library" -lm -lpthread -ldl -o "$out/fold"
"$out/fold" "${2:-2000}" tests/models/micro_{channel_shuffle,concat_split_pad_slice,reshape_cancel,transposed_residual}.onnx \
  frontends/stablehlo/tests/modules/{attention,convolutions}.mlir frontends/hlo/tests/modules/{contractions,tiled}.hlo \
  examples/npu16/attention.ir examples/out_of_tree/cases/shuffle.ir
