#!/usr/bin/env bash
# Runs the executor under AddressSanitizer: at least a thousand random programs on each instruction set of this machine,
# compared with the reference interpreter, and conversions between random layouts. It builds everything once more, which takes
# long for the unrolled kernels, so that CI does not run it.
#
#   tools/sanitize.sh [FACTOR]     # FACTOR times 400 programs, 3 unless said otherwise
#
# SANITIZE_DIR keeps what is built for the next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -n ${SANITIZE_DIR:-} ]]; then
  CARGO_TARGET_DIR=$SANITIZE_DIR
else
  CARGO_TARGET_DIR=$(mktemp -d)
  trap 'rm -rf "$CARGO_TARGET_DIR"' EXIT
fi
export CARGO_TARGET_DIR CARGO_INCREMENTAL=0
# Sanitizers need a nightly compiler, or one that is told to be one. Debug builds check overflows and alignments too.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
export OPTC_PROPS_FACTOR=${1:-3}

run() {
  cargo test --locked --target x86_64-unknown-linux-gnu "$@"
}
run -p optc-exec --test all
run -p optc-tests --test all -- --nocapture \
  physical::random_programs physical::small_models quantized special integers
