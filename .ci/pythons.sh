#!/usr/bin/env bash
# Runs the fast tests with every other supported Python that is on this machine:
#
#     .ci/pythons.sh [VERSION...]      default 3.12 3.13; the other steps of CI use 3.11
#
# Without torch, whose builds for these versions are gigabytes; the tests that need it are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# Prints the path of an interpreter, from PATH or pyenv.
interpreter() {
  local name=python$1 found
  for found in "$(command -v "$name")" "$(pyenv root 2>/dev/null)"/versions/"$1".*/bin/"$name"; do
    "$found" -c '' 2>/dev/null && echo "$found" && return
  done
  return 1
}

[ $# != 0 ] || set -- 3.12 3.13
for version; do
  if ! python=$(interpreter "$version"); then
    echo "Python $version is not on this machine: not tried"
    continue
  fi
  "$python" -m venv "$WORK/$version"
  .ci/uv.sh "$WORK/$version" install --quiet --editable '.[test]'
  "$WORK/$version/bin/python" -m pytest --numprocesses=auto --dist=worksteal -m 'not slow' \
    --hypothesis-profile=fast -q -p no:cacheprovider >"$WORK/log" || { cat "$WORK/log"; exit 1; }
  echo "Python $version: $(tail -n 1 "$WORK/log")"
done
