"""Schedulers in shared libraries: their names, and libraries that fail."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hpcosim_client import PolicyError
from hpcosim_client.library import is_library, path_in, with_path
from hpcosim_schedulers.catalogue.description import describe, policy_file, with_file
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.catalogue.schedulers import folder_name, make_policy, short_name
from hpcosim_schedulers.power.settings import Timeout
from support.commands import invoke
from support.paths import ROOT

FAULTS = r"""
#include "hpcosim_scheduler.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hpcosim_scheduler { char mode[32], text[200]; int seq; };

static int say(struct hpcosim_scheduler *self, hpcosim_bytes *out, const char *text, int status) {
    snprintf(self->text, sizeof self->text, "%s", text);
    out->data = (const uint8_t *)self->text, out->size = strlen(self->text);
    return status;
}

int hpcosim_scheduler_begin(const uint8_t *options, size_t size, hpcosim_scheduler **made,
                            hpcosim_bytes *hello) {
    struct hpcosim_scheduler *self = *made = calloc(1, sizeof *self);
    memcpy(self->mode, options, size < 31 ? size : 31);
    puts("a word on stdout");
    if (!strcmp(self->mode, "refuses")) return say(self, hello, "no\nlicence", 1);
    if (!strcmp(self->mode, "no hello")) return say(self, hello, "{}", 0);
    int version = strcmp(self->mode, "version 9") ? 1 : 9;
    snprintf(self->text, sizeof self->text,
             "{\"type\": \"hello\", \"client\": \"x\", \"versions\": [%d]}", version);
    return say(self, hello, strdup(self->text), 0);
}

int hpcosim_scheduler_decide(hpcosim_scheduler *self, const uint8_t *message, size_t size,
                             hpcosim_bytes *out) {
    char text[100];
    (void)message, (void)size;
    if (!strcmp(self->mode, "crashes")) abort();
    if (!strcmp(self->mode, "exits")) exit(3);
    if (!strcmp(self->mode, "garbage")) return say(self, out, "garbage", 0);
    if (!strcmp(self->mode, "fails")) return say(self, out, "out of ideas", 1);
    if (!strcmp(self->mode, "nothing")) return out->size = 0, 0;
    int seq = strcmp(self->mode, "seq") ? ++self->seq : 7;
    snprintf(text, sizeof text, "{\"type\": \"decisions\", \"session\": \"\", \"seq\": %d}", seq);
    return say(self, out, text, 0);
}

void hpcosim_scheduler_end(hpcosim_scheduler *self) { free(self); }
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that fails in the way that its options name; its messages are JSON."""
    if not shutil.which("cc"):
        pytest.skip("no cc here")
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty.c").write_text(FAULTS)
    include = f"-I{ROOT / 'scheduler_client' / 'c'}"
    files = ("-o", str(folder / "faulty.so"), str(folder / "faulty.c"))
    subprocess.run(["cc", "-shared", "-fPIC", include, *files], check=True)
    return folder / "faulty.so"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./libmine.so", "./libmine.so"),
        ("libmine.so:a=1:b", "libmine.so"),
        ("in-process:/x/libmine.dylib", "/x/libmine.dylib"),
        ("mine.dll", "mine.dll"),
        ("v1.so.d/libmine.so", "v1.so.d/libmine.so"),
        ("x.so:other.so", "x.so"),
        ("easy", ""),
        ("mine.py:function", ""),
        ("a.sort", ""),
        (".so", ""),
    ],
)
def test_the_suffix_of_a_name_makes_it_a_library(name: str, path: str) -> None:
    """Options follow the first colon after the path."""
    assert path_in(name) == path
    assert is_library(name) == bool(path)


def test_the_path_of_a_library_can_be_replaced() -> None:
    """Prefix and options stay; results are named by the file."""
    assert with_path("in-process:x.so:a", "/y/x.so") == "in-process:/y/x.so:a"
    assert with_file("x.so:a", Path("/y/x.so")) == "/y/x.so:a"
    assert policy_file("in-process:dir/x.so") == Path("dir/x.so")
    assert short_name("dir/x.so:a") == "x.so:a"
    assert folder_name("in-process:dir/x.so:a") == "x"


def test_a_library_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """It is found when the policy is made, before the simulation begins."""
    with pytest.raises(PolicyError, match="no such file; expected a shared library"):
        make_policy(f"{tmp_path}/none.so")


@pytest.mark.parametrize("prefix", ["", "in-process:"])
def test_a_file_that_is_no_library_is_an_error(prefix: str, tmp_path: Path) -> None:
    """The error has one line with its path, in a child and in this process."""
    (tmp_path / "text.so").write_text("no library")
    result = invoke("run", "demo", "--scheduler", f"{prefix}{tmp_path}/text.so", "--transport",
                    "inproc", "--out", tmp_path / "out")  # fmt: skip
    assert result.status == 2
    assert f"{tmp_path}/text.so: " in result.error
    assert "expected a shared library with hpcosim_scheduler.h's functions" in result.error


def test_a_library_and_a_power_manager_are_no_pair(tmp_path: Path) -> None:
    """The library decides about nodes itself."""
    with pytest.raises(PolicyError, match="decides about nodes itself; expected power: always-on"):
        with_power("x.so", Timeout(10.0))


def test_a_library_is_described_by_its_checksum(faulty: Path) -> None:
    """Results say which library was used."""
    assert len(str(describe(str(faulty))["library_sha256"])) == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "option", "what"),
    [
        ("refuses", "--transport=inproc", "no?licence"),
        ("no hello", "--in-process", "its hello is invalid: Object missing required field"),
        ("version 9", "--in-process", "it speaks the versions [9] of the protocol; expected 1"),
        ("garbage", "--in-process", "its request is invalid: JSON is malformed"),
        ("nothing", "--in-process", "its request is invalid: Input data was truncated"),
        ("fails", "--transport=inproc", "out of ideas"),
        ("fails", "--in-process", "out of ideas"),
        ("seq", "--in-process", "the seq of its request is 7; expected 1"),
    ],
)
def test_the_error_of_a_library_ends_its_run(
    mode: str, option: str, what: str, faulty: Path, tmp_path: Path
) -> None:
    """It has one line with the path, in a child and in this process."""
    run = ("run", "demo", "--scheduler", f"{faulty}:{mode}", option, "--out", tmp_path / "out")
    result = invoke(*run)
    assert result.status in (1, 2)
    assert f"error: {faulty}: {what}" in result.err
    assert "Traceback" not in result.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "what"),
    [
        ("crashes", "the library crashed: SIGABRT"),
        ("exits", "the library ended its process with status 3"),
    ],
)
def test_the_crash_of_a_library_ends_one_run(
    mode: str, what: str, faulty: Path, tmp_path: Path
) -> None:
    """Its run is incomplete; other runs of the command are not lost."""
    schedulers = f"fcfs,{faulty}:{mode},easy"
    result = invoke("compare", "demo", "--schedulers", schedulers, "--out", tmp_path / "out")
    assert f"{faulty}: {what}" in result.err
    assert (tmp_path / "out" / "fcfs" / "metrics.json").is_file()


def test_other_schedulers_have_no_process_to_choose(tmp_path: Path) -> None:
    """`--in-process` is an error with a policy."""
    result = invoke("run", "demo", "--scheduler", "easy", "--in-process", "--out", tmp_path / "out")
    assert result.status == 2
    assert "--in-process is for libraries" in result.error
