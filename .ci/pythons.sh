#!/usr/bin/env bash
# Runs the fast tests with every other supported Python that is on this machine:
#
#     .ci/pythons.sh [VERSION...]      default 3.12 3.13; the other steps of CI use 3.11
#
# Without torch, whose builds for these versions are gigabytes; the tests that need it are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
WORK=$(mktemp -d)
running=()
clean_up() {
  for group in "${running[@]}"; do kill -- "-$group" 2>/dev/null && wait "$group" || true; done
  rm -rf "$WORK"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints the path of an interpreter, from PATH or pyenv.
interpreter() {
  local name=python$1 found
  for found in "$(command -v "$name")" "$(pyenv root 2>/dev/null)"/versions/"$1".*/bin/"$name"; do
    "$found" -c '' 2>/dev/null && echo "$found" && return
  done
  return 1
}

# Runs the fast tests with one version, in an environment of its own.
try() {
  local version=$1 folder=$WORK/$1 python
  if ! python=$(interpreter "$version"); then
    echo "Python $version is not on this machine: not tried"
    return
  fi
  "$python" -m venv "$folder"
  .ci/uv.sh "$folder" install --quiet --editable '.[test]'
  "$folder/bin/python" -m pytest --numprocesses="$workers" --dist=worksteal -m 'not slow' \
    --hypothesis-profile=fast -q -p no:cacheprovider >"$folder/log" || { cat "$folder/log"; exit 1; }
  echo "Python $version: $(tail -n 1 "$folder/log")"
}

[ $# != 0 ] || set -- 3.12 3.13
# Each process reads and compiles all test files, so one on each core is less work than several of
# each version. 0: in the process of pytest itself.
workers=$(($(nproc) / $#))
[ $workers -gt 1 ] || workers=0
set -m  # each in a process group of its own, which can be ended
for version; do
  try "$version" &
  running+=($!)
done
set +m
failed=
for group in "${running[@]}"; do wait "$group" || failed=1; done
running=()
[ -z "$failed" ]
