#!/usr/bin/env bash
# Runs the fast tests with every other supported Python that is on this machine:
#
#     .ci/pythons.sh [VERSION...]      default 3.12 3.13; the other steps of CI use 3.11
#
# Versions differ in the library (asyncio, processes, sockets, argparse, typing, pickles, sqlite), in
# the evaluation of annotations, and in sums of floats. The last version gets all folders in which
# that matters. What has changed since 3.11 has also changed there, so the versions between get the
# tests of the messages, the simulator, scenarios and commands.
# Not here: `docs`, which is text; `gym` and most of `papers`, which need torch, whose builds for these
# versions are gigabytes; `fuzz` and most of `compiled`, which compare two engines of one Python and
# compile for minutes. That Numba compiles with this Python is seen in the files of `compiled` below.
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

# Runs fast tests with one version, in an environment of its own: try VERSION WORKERS [FOLDER...]
try() {
  local version=$1 workers=$2 folder=$WORK/$1 python
  if ! python=$(interpreter "$version"); then
    echo "Python $version is not on this machine: not tried"
    return
  fi
  "$python" -m venv "$folder"
  .ci/uv.sh "$folder" install --quiet --editable '.[test]'
  "$folder/bin/python" -m pytest --numprocesses="$workers" --dist=worksteal -m 'not slow' \
    --hypothesis-profile=fast -q -p no:cacheprovider "${@:3}" >"$folder/log" ||
    { cat "$folder/log"; exit 1; }
  echo "Python $version: $(tail -n 1 "$folder/log")"
}

[ $# != 0 ] || set -- 3.12 3.13
set -m  # each in a process group of its own, which can be ended
for version in "${@:1:$#-1}"; do
  try "$version" 0 tests/protocol tests/sim tests/server tests/scenarios tests/cli &
  running+=($!)
done
try "${@: -1}" "$(nproc)" tests/{api,batsim,cli,client,conformance,experiments,fault} \
  tests/{protocol,scenarios,schedulers,server,sim,slurm,view,workloads} \
  tests/compiled/test_{engine_choice,sums}.py &
running+=($!)
set +m
failed=
for group in "${running[@]}"; do wait "$group" || failed=1; done
running=()
[ -z "$failed" ]
