#!/usr/bin/env bash
# Writes the lock files: the versions and the hashes of all packages that CI and the image install.
# Run it to take newer versions, and commit what it writes:
#
#     .ci/lock.sh [UV]      the uv to use; default: uv
#
# torch and the packages that only torch needs are pinned by version (.ci/constraints.txt) but have
# no hash: which build of torch is installed depends on the machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
uv=${1:-uv}

lock() {
  local name=$1 && shift
  "$uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-annotate --custom-compile-command .ci/lock.sh "$@" --output-file ".ci/lock/$name.txt"
}

lock image pyproject.toml
lock build - <<<'hatchling>=1.27'
lock dev pyproject.toml --extra dev --constraint .ci/constraints.txt \
  --no-emit-package torch --no-emit-package triton \
  $("$uv" pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header \
    --constraint .ci/constraints.txt - <<<torch | sed -n 's/^\(nvidia-[^=]*\|cuda-[^=]*\)==.*/--no-emit-package \1/p')
