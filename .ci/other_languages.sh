#!/usr/bin/env bash
# Installs what the clients in C, C++ and JavaScript need to be built and run:
#
#     .ci/other_languages.sh
#
# Debian's packages only as root on Debian, and only those that are missing; those of npm into
# scheduler_client/node/node_modules. If it cannot, it fails and names what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
OLDEST_NODE=18

has() { command -v "$1" >/dev/null; }
knows() { has pkg-config && pkg-config --exists "$1"; }

packages=()
has cc || packages+=(gcc libc6-dev)
has c++ || packages+=(g++)
has rustc || packages+=(rustc)
has make || packages+=(make)
has pkg-config || packages+=(pkg-config)
knows libzmq || packages+=(libzmq3-dev)
has node || packages+=(nodejs)
has npm || packages+=(npm)
msgpack_missing=
knows msgpack-c || knows msgpack || msgpack_missing=1

if [ ${#packages[@]} != 0 ] || [ -n "$msgpack_missing" ]; then
  if [ "$(id -u)" != 0 ] || ! has apt-get; then
    echo "other_languages.sh: missing ${packages[*]} ${msgpack_missing:+libmsgpack-dev};" \
      "only as root on Debian can they be installed" >&2
    exit 1
  fi
  apt-get update -qq >/dev/null
  if [ -n "$msgpack_missing" ]; then
    # Since Debian 13 the C library has a package of its own.
    if apt-cache show libmsgpack-c-dev >/dev/null 2>&1; then
      packages+=(libmsgpack-c-dev)
    else
      packages+=(libmsgpack-dev)
    fi
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${packages[@]}" >/dev/null
fi

node=$(node --version)
if [ "$(cut -d. -f1 <<<"${node#v}")" -lt $OLDEST_NODE ]; then
  echo "other_languages.sh: Node.js $OLDEST_NODE or later is needed, not $node" >&2
  exit 1
fi
# No script of a package is run: zeromq brings its library along.
npm ci --ignore-scripts --no-audit --no-fund --silent --prefix scheduler_client/node
