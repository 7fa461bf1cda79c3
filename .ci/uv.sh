#!/usr/bin/env bash
# pip's commands by uv, which installs in seconds what takes pip a minute:
#
#     .ci/uv.sh ENVIRONMENT install ARGUMENT...
#
# Takes the uv of $UV; without it, installs uv into the environment. If uv fails, pip does the work.
set -euo pipefail
environment=$1 && shift
uv=${UV:-}
if [ ! -x "$uv" ]; then
  uv=$environment/bin/uv
  [ -x "$uv" ] || "$environment/bin/pip" install --quiet --disable-pip-version-check uv || true
fi

# pip's settings under uv's names.
links=${PIP_FIND_LINKS:-}
[ -z "$links" ] || export UV_FIND_LINKS=${links// /,}
[ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX=$PIP_INDEX_URL
[ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE=${SSL_CERT_FILE:-$PIP_CERT}

"$uv" pip "$@" --python "$environment/bin/python" || {
  echo 'uv.sh: uv failed; pip tries' >&2
  exec "$environment/bin/python" -m pip "$@"
}
