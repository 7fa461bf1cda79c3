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
  pyproject.toml README.md protocol server scheduler_client scenarios |
  xargs -0 ls -d 2>/dev/null | xargs -d '\n' cp --parents -t "$WORK/source")
"$PYTHON" -m venv "$WORK/build"
"$WORK/build/bin/pip" install --quiet --disable-pip-version-check build
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
    for package in root.glob("hpcosim_*") for file in package.rglob("*") if file.is_file()
}
wanted |= {f"{package.name}/py.typed" for package in source.glob("*/hpcosim_*")}
missing, more = sorted(wanted - inside), sorted(
    name for name in inside - wanted if ".dist-info/" not in name
)
sys.exit(f"missing in the wheel: {missing}; not in the sources: {more}" if missing or more else 0)
EOF

step 'install'
"$PYTHON" -m venv "$WORK/venv"
"$WORK/venv/bin/pip" install --quiet --disable-pip-version-check "$WHEEL[plot]"
export PATH="$WORK/venv/bin:$PATH"
unset PYTHONPATH
mkdir "$WORK/elsewhere" && cd "$WORK/elsewhere"

step 'run, compare, draw'
cat >small.yaml <<'EOF'
name: small
seed: 1
platform: {nodes: [{count: 4, processors: [{cores: 2, static_w: 10, dynamic_w: 1}]}]}
workload:
  synthetic: {model: poisson, jobs: 50, mean_interarrival_s: 60, cores: [1, 8], run_s: [10, 900]}
scheduler: {name: easy}
EOF
hpcosim --version
hpcosim schedulers >/dev/null
for transport in ipc inproc; do
  hpcosim run small.yaml --transport $transport --out $transport --json >/dev/null
done
diff -r ipc inproc || die 'the results of ipc and inproc differ'
hpcosim compare small.yaml --schedulers fcfs,easy,conservative >/dev/null
hpcosim draw inproc >/dev/null
test -s inproc/schedule.png

step 'what needs a checkout says so'
status=0
message=$(hpcosim reproduce ineps 2>&1) || status=$?
[ "$status" = 2 ] || die "hpcosim reproduce exited $status, not 2: $message"
[ "$(wc -l <<<"$message")" = 1 ] || die "hpcosim reproduce says more than a line: $message"
[[ $message == *'checkout of the repository'* ]] || die "hpcosim reproduce does not say why: $message"
step 'done'
