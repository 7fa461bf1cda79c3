#!/bin/bash
# Brings docker-compose.yml up for real, each profile but the benchmark, and compares the results
# with those of plain runs:
#
#     .ci/compose.sh [HPCOSIM]      the command to compare with; default $HPCOSIM, then hpcosim
#
# Uses the Docker engine that is there. Where there is none, and we are root on Debian: installs
# Docker and runs a daemon of its own for the time of the test, with a stand-in for the base
# images made of this machine's files, as there may be no registry to pull from; it has the C
# compiler and libraries too, which .ci/other_languages.sh installs. A pass then
# shows that Dockerfile and compose file work, not that the official image behaves the same.
# Leaves nothing running and nothing mounted; the Debian packages stay.
set -euo pipefail

BASE_IMAGE=python:3.11-slim
C_BASE_IMAGE=debian:bookworm-slim
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PROFILES=(--profile two --profile pairing --profile power --profile c)
PROJECT=hpcosim-ci-$$
WORK=$(mktemp -d /var/tmp/hpcosim-compose.XXXXXX)
COMPOSE=()  # the compose command with its files, once there is an engine
DAEMON=     # process id of our own daemon
LOG=        # of a step that is silent unless it fails
OUTCOME=FAILED
STARTED_MS=$(date +%s%3N)

lap() {
  local ms=$(($(date +%s%3N) - STARTED_MS))
  printf '[%4d.%d s] %s\n' $((ms / 1000)) $((ms % 1000 / 100)) "$*"
}

die() {
  echo "compose.sh: $*" >&2
  exit 1
}

take_down() {
  timeout 60 "${COMPOSE[@]}" "${PROFILES[@]}" down --volumes --remove-orphans -t 2 "$@" 2>&1
}

clean_up() {
  local status=$?
  trap '' INT TERM  # a second Ctrl-C must not leave half of it behind
  set +e
  if [ $OUTCOME = FAILED ] && [ -s "$LOG" ]; then tail -n 30 "$LOG" >&2; fi
  if [ ${#COMPOSE[@]} != 0 ]; then
    local said
    said=$(take_down --rmi local) || { OUTCOME=FAILED && echo "$said" >&2; }
  fi
  if [ -n "$DAEMON" ]; then
    kill "$DAEMON"  # it stops its own containerd
    wait "$DAEMON"
    # Network namespaces, and what a daemon that died has left mounted.
    awk -v folder="$WORK/" 'index($2, folder) == 1 {print $2}' /proc/mounts | sort -r \
      | xargs -r umount
  fi
  # Never through a mount that stayed.
  rm -rf --one-file-system "$WORK"
  lap "cleaned up"
  echo "compose: $OUTCOME"
  # A signal may come at a time when all is well so far.
  if [ $OUTCOME = FAILED ] && [ "$status" = 0 ]; then status=1; fi
  exit "$status"
}

engine_answers() {
  command -v docker >/dev/null && docker version >/dev/null 2>&1
}

# Sets COMPOSE to the compose command, new or old, and the files named.
use_compose() {
  if docker compose version >/dev/null 2>&1; then
    COMPOSE=(docker compose)
  elif command -v docker-compose >/dev/null; then
    COMPOSE=(docker-compose)
  else
    die "there is a Docker engine but no docker compose: install it"
  fi
  COMPOSE+=(--project-name "$PROJECT")
  local file
  for file in "$@"; do COMPOSE+=(--file "$file"); done
}

install_docker() {
  command -v dockerd >/dev/null && command -v docker-compose >/dev/null && return
  apt-get update -qq >/dev/null
  LOG=$WORK/apt.log
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    docker.io docker-compose >"$LOG" 2>&1
}

start_daemon() {
  # No iptables, forwarding or default bridge: the machine's own network is left as it is.
  # Compose makes bridges of its own; builds use the host's network (compose.ci.yml).
  # In a session of its own: a Ctrl-C is not for it: the containers are taken down first.
  LOG=$WORK/dockerd.log
  setsid dockerd --data-root="$WORK/data" --exec-root="$WORK/exec" --pidfile="$WORK/pid" \
    --host="unix://$WORK/docker.sock" --iptables=false --ip6tables=false --ip-forward=false \
    --ip-masq=false --bridge=none >"$LOG" 2>&1 </dev/null &
  DAEMON=$!
  export DOCKER_HOST=unix://$WORK/docker.sock
  for _ in {1..480}; do
    engine_answers && return
    kill -0 "$DAEMON" 2>/dev/null || break
    sleep 0.25
  done
  die "our own Docker daemon does not start; its log ends so:"
}

# Makes FOLDER a stand-in for the base image: Debian's userland and CPython 3.11 with pip, all
# copied from this machine, and its certificates, so that pip gets through a proxy of its kind.
make_base() {
  local root=$1 list=$1.list python library file
  python=$(python3.11 -c 'import sys; print(sys.base_prefix)') || die "there is no python3.11"
  for file in lib/libpython3.11.so.1.0 lib/python3.11/ensurepip; do
    [ -e "$python/$file" ] || die "no image can be made of the CPython at $python: no $file"
  done

  mkdir -p "$root"/{usr/{bin,sbin,lib,lib64,local},proc,sys,dev,run,root,tmp,var/tmp,etc/ld.so.conf.d}
  chmod 1777 "$root"/{tmp,var/tmp}
  local folder
  for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done

  local packages=(base-files base-passwd bash dash coreutils sed grep findutils debianutils mawk
    tar gzip netbase tzdata ca-certificates media-types passwd login libc6 libc-bin libstdc++6
    libgcc-s1 openssl libssl3 libpam-modules libpam-runtime
    libc6-dev linux-libc-dev make libzmq3-dev libzmq5 libmsgpack-dev libmsgpackc2)
  mapfile -t -O ${#packages[@]} packages < <(dpkg-query --show --showformat='${Package}\n' \
    'gcc*' 'cpp*' 'binutils*' 'libgcc-*-dev' 'pkg*conf*')
  local package
  {
    for package in "${packages[@]}"; do dpkg -L "$package" 2>/dev/null || true; done
    printf '%s\n' /etc/alternatives/awk /usr/bin/awk /etc/nsswitch.conf /etc/ld.so.conf \
      /etc/ssl/certs/ca-certificates.crt \
      /usr/bin/cc /etc/alternatives/cc /usr/lib/*/pkgconfig/{,*/}*.pc
    # What the programs and Python's modules are linked with.
    { ldd /usr/bin/{bash,dash,ls,tar,gzip,grep,sed,mawk,find,install} /usr/sbin/useradd \
      /usr/bin/{as,ld,make,pkg-config} /usr/lib/gcc/*/*/{cc1,collect2} \
      /usr/lib/*/lib{zmq,msgpackc}.so \
      "$python"/lib/python3.11/lib-dynload/*.so || true; } \
      | awk '$2 == "=>" && $3 ~ "^/(usr/)?lib" {print $3} $1 ~ "^/lib64" {print $1}' \
      | while read -r library; do echo "$library"; readlink -f "$library"; done
  } | sed -E 's#^/(bin|sbin|lib|lib64)(/|$)#/usr/\1\2#' \
    | grep -vE '^/usr/share/(doc|man|locale|info|lintian|bug)(/|$)|^/\.$' | sort -u \
    | while read -r file; do
      if [ -e "$file" ] || [ -L "$file" ]; then echo "${file#/}"; fi
    done >"$list"
  tar -C / --create --no-recursion --files-from="$list" | tar -C "$root" --extract
  # Debian's own accounts, without those of this machine.
  cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
  cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"

  tar -C "$python" --create --exclude=__pycache__ --exclude='lib/python3.11/site-packages/*' \
    --exclude=lib/python3.11/{test,tkinter,idlelib} --exclude='lib/python3.11/config-*' \
    --exclude='*_tkinter*' bin/{python,python3,python3.11} lib/libpython3.11.so.1.0 \
    lib/python3.11 | tar -C "$root/usr/local" --extract
  echo /usr/local/lib >"$root/etc/ld.so.conf.d/local.conf"
  ldconfig -r "$root"
  chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin python3.11 -m ensurepip
  ln -s pip3 "$root/usr/local/bin/pip"
  echo $'[global]\ncert = /etc/ssl/certs/ca-certificates.crt' >"$root/etc/pip.conf"
}

import_base() {
  LOG=$WORK/base.log
  make_base "$WORK/base" >"$LOG" 2>&1
  tar -C "$WORK/base" --create . | docker import --change 'CMD ["python3"]' \
    --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin LANG=C.UTF-8' \
    - "$BASE_IMAGE" >/dev/null
  docker tag "$BASE_IMAGE" "$C_BASE_IMAGE"
}

# Fails unless a container of the server's has as few rights as the compose file says.
check_rights() {
  LOG=$WORK/rights.log
  "${COMPOSE[@]}" run --rm --no-deps -T --entrypoint python server -c '
import os, pathlib
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
assert os.getuid() == os.getgid() == 10001, "another user"
assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 0, "capabilities"
assert int(status["NoNewPrivs"]) == 1, "may gain privileges"
assert os.statvfs("/").f_flag & os.ST_RDONLY, "writable root"
for folder in "/tmp", "/results":
    pathlib.Path(folder, "probe").touch()
    pathlib.Path(folder, "probe").unlink()
' >"$LOG" 2>&1 </dev/null
  LOG=
}

# check_run SERVER SESSION... -- ARGUMENTS: brings up what the arguments of compose say, waits
# until all have ended, and compares.
check_run() {
  local server=$1 schedulers=() name folders
  while shift && [ "$1" != -- ]; do schedulers+=("$1"); done
  shift
  timeout 300 "${COMPOSE[@]}" "$@" </dev/null || die "'compose $*' failed or took over 300 s"

  local ours=label=com.docker.compose.project=$PROJECT containers
  mapfile -t containers < <(docker ps --all --quiet --filter "$ours")
  [ ${#containers[@]} = $((2 + ${#schedulers[@]})) ] \
    || die "${#containers[@]} containers came up, not $((2 + ${#schedulers[@]})) with that of the keys"
  # Compose waits for the services it was told to start, not for those they depend on.
  timeout 120 docker wait "${containers[@]}" >/dev/null || die "a container does not end"
  local ends
  ends=$(docker inspect --format '{{.Name}} {{.State.Status}} {{.State.ExitCode}}' \
    "${containers[@]}")
  ! grep -v ' exited 0$' <<<"$ends" || die "not every container ended well"

  local results=$WORK/results-$server found
  mkdir "$results"
  docker cp --quiet "$(docker ps --all --quiet --filter "$ours" \
    --filter "label=com.docker.compose.service=$server"):/results/." "$results"
  found=$(find "$results" -mindepth 1 -maxdepth 1 -not -name '.*' | wc -l)
  [ "$found" = ${#schedulers[@]} ] || die "$found results, not ${#schedulers[@]}: $(ls -A "$results")"
  for name in "${schedulers[@]}"; do
    folders=("$results"/*-"$name"-????????)
    compare_with_plain "$server" "$name" "${folders[0]}"
  done
  LOG=$WORK/down.log
  take_down >"$LOG"
  LOG=
}

# run_description FOLDER SERVER: prints run.json without what describes the environment, and without
# what a plain run states elsewhere: the name of a session, the scheduler that a scenario is overridden
# with, the policy of the client in C. The checksums of all results stay.
run_description() {
  python3 -c '
import json, sys
run = json.load(open(sys.argv[1] + "/run.json"))
print(json.dumps({key: run[key] for key in run if key not in sys.argv[2:]}, indent=1))
' "$1" git packages $(case $2 in
    server-c) echo policy ;;
    server-p*) echo scheduler overrides effective_scenario ;;
  esac)
}

# Prints the arguments of the plain run that is as a session.
plain_run() {
  local papers=$ROOT/scenarios/papers
  case $1 in
    pairing) printf '%s\n' "$papers/ineps/exp1.yaml" \
      --scheduler "pairing:$papers/ineps/pairing-exp1/energy.safetensors" ;;
    power) printf '%s\n' "$ROOT/scenarios/office-hours.yaml" --scheduler easy \
      --set "scheduler.power={name: rl, model: $papers/power/models/a2c-real-2.safetensors}" ;;
    *) printf '%s\n' "$ROOT/scenarios/demo.yaml" --scheduler "$1" ;;
  esac
}

# compare_with_plain SERVER SESSION FOLDER: fails unless FOLDER holds what the plain run gives: files
# to the last byte.
compare_with_plain() {
  local server=$1 name=$2 folder=$3 plain=$WORK/plain-$1-$2 arguments
  [ -d "$folder" ] || die "no results of $name: $folder"
  mapfile -t arguments < <(plain_run "$name")
  "$HPCOSIM" run "${arguments[@]}" --transport inproc --json --out "$plain" --force \
    >"$plain.json" || die "the plain run with $name failed"
  diff "$plain.json" "$folder/metrics.json" || die "$name: metrics.json differs from a plain run"
  diff --recursive --brief --exclude run.json "$plain" "$folder" ||
    die "$name: results differ from a plain run"
  # The container has its own packages and no checkout; all else in run.json is the same.
  diff <(run_description "$plain" "$server") <(run_description "$folder" "$server") ||
    die "$name: run.json differs from a plain run"
  lap "$name: $(basename "$folder") is as a plain run"
}

trap clean_up EXIT
trap 'exit 130' INT  # even where the program that runs takes a Ctrl-C for itself
HPCOSIM=${1:-${HPCOSIM:-hpcosim}}
[ -x "$(command -v -- "$HPCOSIM")" ] || die "there is no command $HPCOSIM to compare with"

if engine_answers; then
  use_compose "$ROOT/docker-compose.yml"
  lap "Docker engine $(docker version --format '{{.Server.Version}}')"
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  install_docker
  lap "packages"
  start_daemon
  use_compose "$ROOT/docker-compose.yml" "$ROOT/.ci/compose.ci.yml"
  lap "own daemon $(docker version --format '{{.Server.Version}}')"
  import_base
  lap "base image, $(docker image inspect --format '{{.Size}}' "$BASE_IMAGE") bytes"
else
  die "no Docker engine answers, and only as root on Debian can one be started for the test"
fi

LOG=$WORK/build.log
"${COMPOSE[@]}" "${PROFILES[@]}" build >"$LOG" 2>&1
lap "built"
check_rights
lap "user, capabilities, read-only root"
check_run server easy -- up --no-color
check_run server-of-two easy fcfs -- --profile two up --no-color easy fcfs
check_run server-pairing pairing -- --profile pairing up --no-color pairing
check_run server-power power -- --profile power up --no-color power
check_run server-c fcfs -- --profile c up --no-color c
OUTCOME=passed
