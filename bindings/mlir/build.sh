#!/usr/bin/env bash
# Builds the pass plugin for mlir-opt-19. Needs libmlir-19-dev and llvm-19-dev.
# Usage: bindings/mlir/build.sh LIBRARY PLUGIN, with the path of liboptc_c.a and that of the plugin to write.
set -euo pipefail
library=$(realpath "$1") plugin=$(realpath -m "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
llvm=${LLVM:-/usr/lib/llvm-19}
g++ -std=c++17 -O1 -fPIC -shared -fno-rtti -Wall -Werror -isystem "$llvm/include" -I ../c/include Optc.cpp "$library" \
  -Wl,--exclude-libs,ALL -lm -lpthread -ldl -o "$plugin"
