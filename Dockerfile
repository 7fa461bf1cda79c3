# The hpcosim command, for simulator and schedulers alike, without torch. All packages have a version
# and hashes (.ci/lock.sh).
# For a base that cannot change: docker build --build-arg BASE=python:3.11-slim@sha256:DIGEST. The
# default is a tag, because CI reaches no image registry that tells the digest.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
WORKDIR /src
COPY .ci/lock/build.txt .ci/lock/image.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement build.txt \
    && pip install --no-cache-dir --require-hashes --requirement image.txt --prefix=/install
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY protocol protocol
COPY server server
COPY scheduler_client scheduler_client
COPY scenarios scenarios
RUN pip install --no-cache-dir --no-deps --no-build-isolation --prefix=/install .

FROM ${BASE}
# A new volume takes over the owner of the folder that it is mounted on.
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin hpcosim \
    && install --directory --owner=hpcosim --group=hpcosim /results \
    && install --directory --mode=0700 --owner=hpcosim --group=hpcosim /keys/server /keys/scheduler
COPY --from=build /install /usr/local
# With the tables and jobs that they read; last, so that a changed one costs no second installation.
COPY scenarios/*.yaml scenarios/*.csv scenarios/*.jsonl /scenarios/
COPY scenarios/papers/ineps/exp1.yaml /scenarios/ineps/
COPY scenarios/papers/ineps/pairing-exp1/*.safetensors /scenarios/ineps/pairing-exp1/
COPY scenarios/papers/power/models/a2c-real-2.safetensors /scenarios/power/
USER 10001:10001
WORKDIR /results
# As process 1 Python would not die of a SIGTERM; SIGINT it always handles.
STOPSIGNAL SIGINT
ENTRYPOINT ["hpcosim"]
