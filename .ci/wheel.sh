#!/usr/bin/env bash
# Builds the sdist and, from it, the wheel; installs the wheel in an empty environment outside the
# repository, and runs there what must work without a checkout:
#
#     .ci/wheel.sh [PYTHON]      the interpreter of both environments; default python3
#
# Needs a package registry. Leaves nothing behind.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=${1:-python3}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

step() { printf '== wheel: %s (%ss)\n' "$*" "$SECONDS"; }

die() {
  echo "wheel.sh: $*" >&2
  exit 1
}

step 'build'
mkdir "$WORK/source"
# A copy, so that no folder of the build lies in the repository; with changes not yet committed.
(cd "$ROOT" && git ls-files --cached --others --exclude-standard -z -- \
  pyproject.toml hatch_build.py README.md LICENSE protocol server scheduler_client scenarios |
  xargs -0 ls -d 2>/dev/null | xargs -d '\n' cp --parents -t "$WORK/source")
"$PYTHON" -m venv "$WORK/build"
"$ROOT/.ci/uv.sh" "$WORK/build" install --quiet build
"$WORK/build/bin/python" -m build --outdir "$WORK/dist" "$WORK/source" >"$WORK/build.log" 2>&1 ||
  { tail -n 30 "$WORK/build.log" >&2 && die 'the build failed'; }
WHEEL=$(echo "$WORK"/dist/*.whl)

step 'contents'
"$PYTHON" - "$WHEEL" "$WORK/source" <<'EOF'
import pathlib, sys, zipfile

wheel, source = sys.argv[1], pathlib.Path(sys.argv[2])
inside = set(zipfile.ZipFile(wheel).namelist())
wanted = {
    str(file.relative_to(root))
    for root in source.iterdir() if root.is_dir()
    for package in root.glob("hpcosim*") for file in package.rglob("*") if file.is_file()
}
shipped = source / "scenarios"
data = {".csv", ".json", ".jsonl", ".safetensors", ".yaml"}
wanted |= {
    f"hpcosim_scenarios/shipped/{file.relative_to(shipped)}"
    for pattern in ("*.*", "batch/**/*", "experiments/*", "papers/**/*", "suites/**/*")
    for file in shipped.glob(pattern)
    if file.suffix in data
}
missing, more = sorted(wanted - inside), sorted(
    name for name in inside - wanted if ".dist-info/" not in name
)
sys.exit(f"missing in the wheel: {missing}; not in the sources: {more}" if missing or more else 0)
EOF

step 'install'
"$PYTHON" -m venv "$WORK/venv"
"$ROOT/.ci/uv.sh" "$WORK/venv" install --quiet \
  --constraint "$ROOT/.ci/constraints.txt" "$WHEEL[experiment,plot,rl]"
export PATH="$WORK/venv/bin:$PATH"
unset PYTHONPATH
mkdir "$WORK/elsewhere" && cd "$WORK/elsewhere"

step 'the demo'
hpcosim --version
hpcosim schedulers >/dev/null
hpcosim scenarios >/dev/null
for transport in ipc inproc; do
  hpcosim run demo --transport $transport --out $transport --json >/dev/null
done
diff -r ipc inproc || die 'the results of ipc and inproc differ'
hpcosim show draw inproc >/dev/null
test -s inproc/schedule.png
hpcosim report inproc ipc --out runs.html
test -s runs.html
hpcosim show squeue inproc --at 50% >/dev/null

step 'a trained agent of a shipped scenario'
hpcosim compare ineps/exp1 --schedulers minmin,pairing-energy >/dev/null

step 'an experiment'
cat >tiny.yaml <<'YAML'
name: tiny
scenario: demo
set: {workload.synthetic.jobs: 50}
axes: {scheduler: [fcfs, easy], seed: [1, 2]}
YAML
hpcosim experiment tiny.yaml >/dev/null 2>&1
test -s results/tiny/results.parquet && test -s results/tiny/report.html
hpcosim experiment backfilling --dry-run >/dev/null 2>&1

step 'a suite of the benchmark'
hpcosim benchmark run deep-eas-1 --scheduler esjf --out esjf.zip >/dev/null 2>&1
hpcosim benchmark verify esjf.zip >/dev/null

step 'a study of a paper'
hpcosim reproduce pairing-exp1 --out pairing >/dev/null
test -s pairing/summary.md
step 'done'
