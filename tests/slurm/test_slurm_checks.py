"""What a mode needs: locks, partitions, a controller that answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcosim_slurm.bridge.run import locks_of
from hpcosim_slurm.checks import Wanted, check_cluster, check_partitions, exclusive
from hpcosim_slurm.errors import CommandError, SlurmError, UnreachableError
from hpcosim_slurm.state import ClusterState, LivePartition
from hpcosim_slurm.tools import Tools, environment
from hpcosim_slurm.worlds.site import Site
from support.slurm_cluster import SlurmCluster

HOLDER = """
import sys
from pathlib import Path
from hpcosim_slurm.checks import exclusive
with exclusive("c", ["main"], Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_bridge_is_an_error_until_the_first_is_killed(tmp_path: Path) -> None:
    """The message names the process, the partition and the file; other partitions are free."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        expected = rf"acts on partition main of cluster c \(process {holder.pid}, .*c\+main\.lock\)"
        with (
            pytest.raises(SlurmError, match=expected),
            exclusive("c", ["gpu", "main"], tmp_path),
        ):
            pass
        with exclusive("c", ["gpu"], tmp_path), exclusive("d", ["main"], tmp_path):
            pass
        holder.kill()
        holder.wait()
    with exclusive("c", ["main", "main", "gpu"], tmp_path):
        pass


def test_names_of_locks_stay_in_their_folder(tmp_path: Path) -> None:
    """A name with slashes is a name."""
    folder = tmp_path / "locks"
    with exclusive("..", ["../../x", "a+b"], folder):
        assert len(list(folder.iterdir())) == 2
    assert list(tmp_path.iterdir()) == [folder]
    (tmp_path / "file").touch()
    with (
        pytest.raises(SlurmError, match=r"cannot lock partition main"),
        exclusive("c", ["main"], tmp_path / "file"),
    ):
        pass


def test_bridges_exclude_each_other_by_both_partitions_of_one_controller(tmp_path: Path) -> None:
    """Jobs wait in one partition and start in the other; a cluster of another port is another."""
    first = locks_of(Site(name="c", partitions=("main",), waiting=("queue",)), "6817")
    same_queue = locks_of(Site(name="c", partitions=("gpu",), waiting=("queue",)), "6817")
    held = locks_of(Site(name="c", partitions=("main",)), "6817")
    elsewhere = locks_of(Site(name="c", partitions=("main",), waiting=("queue",)), "6818")
    with exclusive(*first, tmp_path):
        for other, partition in ((same_queue, "queue"), (held, "main")):
            with (
                pytest.raises(SlurmError, match=f"acts on partition {partition} of cluster c:6817"),
                exclusive(*other, tmp_path),
            ):
                pass
        with exclusive(*elsewhere, tmp_path):
            pass


def site(waiting_is_up: bool = False, waiting_nodes: tuple[str, ...] = ("a", "b")) -> ClusterState:
    """Return a cluster with the partitions `main` and `queue`."""
    main = LivePartition("main", ("a", "b"), is_up=True)
    queue = LivePartition("queue", waiting_nodes, is_up=waiting_is_up)
    return ClusterState(0.0, {}, {}, {"main": main, "queue": queue})


@pytest.mark.parametrize(
    ("state", "wanted", "words"),
    [
        (site(), Wanted("shadow", ["gpu"]), "unknown partition gpu; the partitions are: main, q"),
        (site(), Wanted("place", ["main"], ["wait"]), "unknown partition wait"),
        (site(), Wanted("hold"), "mode hold needs the names of the partitions to act on"),
        (site(), Wanted("place", ["main"]), "in which jobs wait: --waiting-partition"),
        (site(), Wanted("place", ["main"], ["main"]), "main is named twice; expected different"),
        (site(), Wanted("place", ["main", "queue"], ["queue"]), "2 --partition and 1 --waiting-p"),
        (site(True), Wanted("place", ["main"], ["queue"]), "queue is up.*expected State=DOWN"),
        (site(False, ("a",)), Wanted("hold", ["main"], ["queue"]), "queue lacks node b of main"),
    ],
)
def test_wrong_partitions_are_errors(state: ClusterState, wanted: Wanted, words: str) -> None:
    """The message says which partition is wrong and what was expected."""
    with pytest.raises(SlurmError, match=words):
        check_partitions(state, wanted)


def test_right_partitions_are_none() -> None:
    """Shadow needs no partition, hold no waiting partition."""
    for wanted in (
        Wanted("shadow"),
        Wanted("hold", ["main"]),
        Wanted("place", ["main"], ["queue"]),
    ):
        check_partitions(site(), wanted)


def test_a_machine_without_commands_is_an_error(tmp_path: Path) -> None:
    """The message names the first missing program."""
    with pytest.raises(SlurmError, match="no Slurm: squeue not found on PATH"):
        check_cluster(Tools(environment={"PATH": str(tmp_path)}), Wanted("shadow"))


def program(folder: Path, name: str, text: str, timeout_s: float = 60.0) -> Tools:
    """Return the commands of a machine with one program.

    Args:
        folder: folder of the program.
        name: its name.
        text: its shell commands.
        timeout_s: time after which it counts as hung, s.
    """
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return Tools({"PATH": f"{folder}:{os.environ['PATH']}"}, timeout_s, max_output=1000)


def test_a_missing_slurm_conf_is_an_error(tmp_path: Path) -> None:
    """The message names the file at once: Slurm's commands look for it for a minute."""
    missing = str(tmp_path / "slurm.conf")
    tools = Tools({**os.environ, "SLURM_CONF": missing})
    with pytest.raises(SlurmError, match=f"^SLURM_CONF={missing}: no such file; expected the"):
        tools.output("true")


def test_a_machine_without_a_configuration_is_one_sentence(tmp_path: Path) -> None:
    """Slurm's commands say in several lines where they have looked."""
    said = "echo 'error: fetch_config: DNS SRV lookup failed' >&2; "
    said += "echo 'fatal: Could not establish a configuration source' >&2; exit 1"
    with pytest.raises(UnreachableError, match=r"^scontrol: this machine has no slurm\.conf; set "):
        program(tmp_path, "scontrol", said).output("scontrol")


def test_a_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    """The controller counts as unreachable after the timeout."""
    tools = program(tmp_path, "squeue", "exec sleep 60", 0.3)
    begin_s = time.monotonic()
    with pytest.raises(UnreachableError, match=r"squeue: no answer within 0\.3 s"):
        tools.outputs(["true"], ["squeue"])
    assert time.monotonic() - begin_s < 30


def test_a_command_that_prints_too_much_is_an_error(tmp_path: Path) -> None:
    """The output is bounded."""
    tools = program(tmp_path, "squeue", "yes")
    with pytest.raises(CommandError, match="squeue: its output has more than 1000 bytes"):
        tools.output("squeue")


def test_errors_have_the_words_of_the_command(tmp_path: Path) -> None:
    """On one line, without control characters."""
    tools = program(tmp_path, "scontrol", r"printf 'bad\033[1m\nnews\n' >&2; exit 3")
    with pytest.raises(CommandError) as caught:
        tools.output("scontrol", "show")
    assert str(caught.value) == "scontrol: bad?[1m; news (exit status 3)"
    assert (caught.value.status, caught.value.command) == (3, ("scontrol", "show"))


def test_standard_input_reaches_a_command() -> None:
    """Also more than a pipe holds, while output is read."""
    text = "line\n" * 100_000
    assert Tools().output("cat", text=text) == text


def test_settings_of_users_do_not_change_formats() -> None:
    """Variables such as SQUEUE_FORMAT are left out, SLURM_CONF is kept."""
    given = {"SQUEUE_FORMAT": "%i", "SLURM_CONF": "/x", "SLURM_TIME_FORMAT": "relative"}
    found = environment(given)
    assert "SQUEUE_FORMAT" not in found
    assert (found["SLURM_CONF"], found["SLURM_TIME_FORMAT"]) == ("/x", "%s")


@pytest.mark.slow
def test_an_ordinary_cluster_is_fit_for_shadow_only(ordinary: SlurmCluster, tools: Tools) -> None:
    """It has no partition in which jobs wait, and cannot switch nodes."""
    found = check_cluster(tools, Wanted("shadow"))
    assert (found.config.name, found.rights.level) == ("hpcosim", "root")
    assert len(found.state.nodes) == 8
    with pytest.raises(SlurmError, match="unknown partition queue"):
        check_cluster(tools, Wanted("place", ["main"], ["queue"]))
    with pytest.raises(SlurmError, match="expected SuspendProgram and ResumeProgram"):
        check_cluster(tools, Wanted("hold", ["main"], power=True))


@pytest.mark.slow
def test_a_prepared_cluster_is_fit_for_place(placed: SlurmCluster, tools: Tools) -> None:
    """It can also switch nodes."""
    found = check_cluster(tools, Wanted("place", ["main"], ["queue"], power=True))
    assert found.config.start_program == str(placed.folder / "started.sh")


@pytest.mark.slow
def test_a_controller_that_is_gone_is_unreachable(ordinary: SlurmCluster, tmp_path: Path) -> None:
    """A cluster whose controller does not listen."""
    text = (ordinary.folder / "slurm.conf").read_text()
    port = next(line for line in text.splitlines() if line.startswith("SlurmctldPort="))
    (tmp_path / "slurm.conf").write_text(text.replace(port, "SlurmctldPort=1"))
    given = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    with pytest.raises(UnreachableError):
        check_cluster(Tools(environment(given), timeout_s=1.0), Wanted("shadow"))
