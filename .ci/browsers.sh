#!/usr/bin/env bash
# Installs the browsers that the tests of pages use, Debian's chromium and firefox-esr:
#
#     .ci/browsers.sh
#
# Only as root on Debian, and only what is missing. If it cannot, it fails and names what is missing.
set -euo pipefail

has() { command -v "$1" >/dev/null; }

packages=()
has chromium || packages+=(chromium fonts-dejavu-core)
has firefox-esr || packages+=(firefox-esr)
[ ${#packages[@]} != 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! has apt-get; then
  echo "browsers.sh: missing ${packages[*]}; only as root on Debian can they be installed" >&2
  exit 1
fi
apt-get update -qq >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${packages[@]}" >/dev/null
