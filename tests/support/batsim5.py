"""Components of Batsim 5 for tests: FCFS in C as a shared library, and in Python as a process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

# Its initialization data is the name of a fault, or nothing. With -DFLAGS it has the interface
# before Batsim 5.0: it gets flags, and says hello in answer to BatsimHelloEvent.
FCFS_C = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 10000 };
static char out[1 << 22], fault[40], ids[MOST][40];
static int wants[MOST], hosts, submitted, started, owner[MOST];

static const char hello[] =
    "{\"timestamp\": 0, \"event_type\": \"EDCHelloEvent\", \"event\": {"
    "\"batprotocol_version\": \"1.0.0\", \"decision_component_name\": \"fcfs\","
    "\"decision_component_version\": \"1\", \"decision_component_commit\": \"\"}}";

static void keep(const uint8_t *data, uint32_t size) {
    memcpy(fault, data, size < 39 ? size : 39);
    puts("a word on stdout");
}

#ifdef FLAGS
uint8_t batsim_edc_init(const uint8_t *data, uint32_t size, uint32_t flags) {
    keep(data, size);
    return flags != 2;
}
#else
uint8_t batsim_edc_init(const uint8_t *data, uint32_t size, uint32_t *flags, uint8_t **reply,
                        uint32_t *reply_size) {
    keep(data, size);
    *flags = strcmp(fault, "binary") ? 2 : 1;
    if (!strcmp(fault, "refuses")) return 3;
    if (!strcmp(fault, "no hello")) snprintf(out, sizeof out, "{\"now\": 0, \"events\": []}");
    else snprintf(out, sizeof out, "{\"now\": 0, \"events\": [%s]}", hello);
    *reply = (uint8_t *)out, *reply_size = strlen(out) + 1;
    return 0;
}
#endif

uint8_t batsim_edc_deinit(void) { return 0; }

static void text_after(const char *at, const char *key, char *into) {
    at = strstr(at, key) + strlen(key);
    int size = strchr(at, '"') - at;
    memcpy(into, at, size), into[size] = 0;
}

static int number_after(const char *at, const char *key) {
    return atoi(strstr(at, key) + strlen(key));
}

uint8_t batsim_edc_take_decisions(const uint8_t *message, uint32_t size, uint8_t **decisions,
                                  uint32_t *decisions_size) {
    const char *at = (const char *)message, *type = "\"event_type\":\"";
    char now[40], name[40], *end = out;
    if (at[size - 1]) return 9;
    if (!strcmp(fault, "crashes")) abort();
    if (!strcmp(fault, "exits")) exit(4);
    if (!strcmp(fault, "fails")) return 5;
    int length = strcspn(at + 7, ",");
    memcpy(now, at + 7, length), now[length] = 0;
    end += sprintf(end, "{\"now\": %s, \"events\": [", now);
    while ((at = strstr(at, type))) {
        text_after(at, type, name);
        at += strlen(type);
        if (!strcmp(name, "BatsimHelloEvent")) end += sprintf(end, "%s", hello);
        if (!strcmp(name, "SimulationBeginsEvent"))
            hosts = number_after(at, "\"computation_host_number\":");
        if (!strcmp(name, "JobSubmittedEvent")) {
            text_after(at, "\"job_id\":\"", ids[submitted]);
            wants[submitted++] = number_after(at, "\"resource_request\":");
        }
        if (!strcmp(name, "JobCompletedEvent")) {
            text_after(at, "\"job_id\":\"", name);
            for (int host = 0; host < hosts; ++host)
                if (owner[host] && !strcmp(ids[owner[host] - 1], name)) owner[host] = 0;
        }
    }
    const char *comma = "";
    for (; started < submitted; ++started) {
        int idle = 0;
        for (int host = 0; host < hosts; ++host) idle += !owner[host];
        if (idle < wants[started]) break;
        end += sprintf(end, "%s{\"timestamp\": %s, \"event_type\": \"ExecuteJobEvent\", \"event\": "
                       "{\"job_id\": \"%s\", \"allocation\": {\"host_allocation\": \"",
                       comma, now, ids[started]);
        for (int host = 0, left = wants[started]; left; ++host)
            if (!owner[host]) end += sprintf(end, "%d ", host), owner[host] = started + 1, --left;
        end += sprintf(end, "\", \"executor_placement_type\": "
                       "\"PredefinedExecutorPlacementStrategyWrapper\", \"executor_placement\": "
                       "{\"strategy\": \"SpreadOverHostsFirst\"}}}}");
        comma = ", ";
    }
    end += sprintf(end, "]}");
    if (!strcmp(fault, "garbage")) end = out + sprintf(out, "garbage");
    *decisions = (uint8_t *)out, *decisions_size = end - out + 1;
    return 0;
}
"""

# Its arguments are the address, and `flags` for the interface before Batsim 5.0.
FCFS_PY = r"""
import json, struct, sys, zmq

socket = zmq.Context().socket(zmq.REP)
socket.bind(sys.argv[1])
data = socket.recv()
hello = {"timestamp": 0, "event_type": "EDCHelloEvent", "event": {
    "batprotocol_version": "1.0.0", "decision_component_name": "fcfs",
    "decision_component_version": "1", "decision_component_commit": ""}}
first = {"now": 0, "events": [hello]}
if sys.argv[2:] == ["flags"]:
    assert data == struct.pack("=II", 2, 4) + b"init", data
    socket.send(b"")
else:
    assert data == struct.pack("=I", 4) + b"init", data
    socket.send(struct.pack("=I", 2) + json.dumps(first).encode())
queue, free, used, ended = [], set(), {}, False
while not ended:
    text = socket.recv()
    assert text.endswith(b"}\0"), text
    message, decisions = json.loads(text[:-1]), []
    for each in message["events"]:
        kind, event = each["event_type"], each["event"]
        if kind == "BatsimHelloEvent":
            decisions.append(hello)
        elif kind == "SimulationBeginsEvent":
            free = set(range(event["computation_host_number"]))
        elif kind == "JobSubmittedEvent":
            queue.append((event["job_id"], event["job"]["resource_request"]))
        elif kind == "JobCompletedEvent":
            free |= used.pop(event["job_id"])
        elif kind == "SimulationEndsEvent":
            ended = True
    while queue and queue[0][1] <= len(free):
        name, count = queue.pop(0)
        used[name] = set(sorted(free)[:count])
        free -= used[name]
        decisions.append({"timestamp": message["now"], "event_type": "ExecuteJobEvent", "event": {
            "job_id": name, "allocation": {
                "host_allocation": " ".join(map(str, sorted(used[name]))),
                "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
                "executor_placement": {"strategy": "SpreadOverHostsFirst"}}}})
    socket.send(json.dumps({"now": message["now"], "events": decisions}).encode())
"""

_TYPES = {
    "delay": "DelayProfile",
    "parallel": "ParallelTaskProfile",
    "parallel_homogeneous": "ParallelTaskHomogeneousProfile",
    "composed": "SequentialCompositionProfile",
}


def compile_fcfs(folder: Path, *, flags: bool = False) -> Path:
    """Return FCFS as a shared library. Without a compiler the test is skipped."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source = folder / "fcfs.c"
    source.write_text(FCFS_C, encoding="utf-8")
    library = folder / ("libfcfs-flags.so" if flags else "libfcfs.so")
    options = ["-DFLAGS"] if flags else []
    subprocess.run(
        [compiler, "-shared", "-fPIC", *options, "-o", str(library), str(source)], check=True
    )
    return library


def as_batsim5(profiles: dict[str, Any]) -> dict[str, Any]:
    """Return profiles of Batsim 4.2.1 in the form of Batsim 5."""
    return {name: {**raw, "type": _TYPES[raw["type"]]} for name, raw in profiles.items()}


def rewrite_for_batsim5(workload: Path, path: Path) -> Path:
    """Write a workload of Batsim 4.2.1 in the form of Batsim 5."""
    raw = json.loads(workload.read_text(encoding="utf-8"))
    text = json.dumps({**raw, "profiles": as_batsim5(raw["profiles"])})
    path.write_text(text, encoding="utf-8")
    return path


Events = Sequence[dict[str, Any]]


def decisions(now_s: float, *events: tuple[str, dict[str, Any]]) -> bytes:
    """Return a reply of a component with decisions that apply now."""
    timed = [{"timestamp": now_s, "event_type": kind, "event": data} for kind, data in events]
    return json.dumps({"now": now_s, "events": timed}).encode()


def execution(job_id: str, hosts: str, mapping: Sequence[int] | None = None, **more: Any) -> Any:
    """Return the decision to execute a job."""
    placement: dict[str, Any] = {
        "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
        "executor_placement": {"strategy": "SpreadOverHostsFirst"},
    }
    if mapping is not None:
        placement = {
            "executor_placement_type": "CustomExecutorToHostMapping",
            "executor_placement": {"mapping": list(mapping)},
        }
    allocation = {"host_allocation": hosts, **placement}
    return "ExecuteJobEvent", {"job_id": job_id, "allocation": allocation, **more}


Decide = Callable[[float, Events], Sequence[Any]]
"""Returns decisions after the events of a message; arguments: its time, s, and its events."""
