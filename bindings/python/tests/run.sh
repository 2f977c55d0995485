#!/usr/bin/env bash
# Builds the wheel once, and tests it in a fresh environment of each Python that is found: the default one with JAX, and
# one of another version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
pip=(-m pip --quiet --disable-pip-version-check)

# The environment of the peers has numpy, onnx, onnxruntime and JAX.
first=.venv/bin/python
"$first" "${pip[@]}" wheel --no-deps --wheel-dir "$out" ./bindings/python
"$first" "${pip[@]}" install --force-reinstall --no-deps "$out"/*.whl
"$first" "${pip[@]}" install mypy
"$first" -m mypy --strict bindings/python/python/optc
"$first" bindings/python/tests/test_optc.py

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
for other in python3.{14,13,12,11,10,9} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.{13,12,10,9}*/bin/python; do
  if found=$(version "$other") && [[ $found != "$(version "$first")" ]]; then
    "$other" -m venv "$out/other"
    "$out/other/bin/python" "${pip[@]}" install "$out"/*.whl numpy ml_dtypes
    echo "Python $found:"
    "$out/other/bin/python" bindings/python/tests/test_optc.py
    exit
  fi
done
echo "NOT CHECKED: there is no Python of another version than $(version "$first") here"
