"""Reading a real cluster."""

from __future__ import annotations

import time

import pytest

from hpcosim_protocol import Dependency
from hpcosim_slurm import texts
from hpcosim_slurm.commands import Carrier, Order, Place
from hpcosim_slurm.config import read_config, read_rights
from hpcosim_slurm.errors import UnreachableError
from hpcosim_slurm.reading import read_state
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.tools import Tools
from hpcosim_slurm.worlds.site import Site, chosen, platform_of
from hpcosim_slurm.worlds.specs import Shown, conditions_of
from support.processes import eventually
from support.slurm_cluster import SOON_S, SlurmCluster

pytestmark = pytest.mark.slow
HOSTILE = "a=b JobId=7 'x' \"y\"\nJobState=RUNNING|\x1f\t\\n %i"


def test_hostile_names_and_comments_are_read_as_they_are(
    ordinary: SlurmCluster, tools: Tools
) -> None:
    """They come back unchanged, and the next job is read as well."""
    first = ordinary.submit("--hold", f"--job-name={HOSTILE}", f"--comment={HOSTILE}")
    second = ordinary.submit("--hold", "--job-name=next")
    jobs = read_state(tools).jobs
    assert (jobs[first].name, jobs[first].comment) == (HOSTILE, HOSTILE)
    assert jobs[second].name == "next"


def test_a_job_is_followed_from_submission_to_end(ordinary: SlurmCluster, tools: Tools) -> None:
    """Its times ascend, and its state goes from pending to over."""
    job = ordinary.submit("--hold", "--nodes=2", "--time=5")
    waiting = read_state(tools).jobs[job]
    assert (waiting.state, waiting.is_held, waiting.nodes_min) == ("pending", True, 2)
    assert (waiting.started_s, waiting.time_limit_s) == (None, 300)
    assert abs(time.time() - waiting.submitted_s) < SOON_S
    ordinary.run("scontrol", "release", str(job))
    eventually(lambda: read_state(tools).jobs[job].state == "over", within_s=SOON_S)
    over = read_state(tools).jobs[job]
    assert over.started_s is not None
    assert over.ended_s is not None
    assert waiting.submitted_s <= over.started_s <= over.ended_s
    assert (over.slurm_state, over.exit_code, len(over.nodes)) == ("COMPLETED", 0, 2)


def test_a_task_of_an_array_keeps_its_number(ordinary: SlurmCluster, tools: Tools) -> None:
    """Slurm gives it another one when it starts."""
    array = ordinary.submit("--array=0-2%1", sleep_s=60)
    numbers = {texts.task_id(array, task) for task in range(3)}
    assert set(read_state(tools).jobs) >= numbers

    def states() -> set[str]:
        jobs = read_state(tools).jobs
        return {jobs[number].state for number in numbers}

    eventually(lambda: states() == {"running", "pending"}, within_s=SOON_S)


def test_a_drained_node_is_not_available(ordinary: SlurmCluster, tools: Tools) -> None:
    """Its reason comes back, until it is resumed."""
    reason = "fan = broken State=IDLE [x] Comment=none"
    ordinary.run("scontrol", "update", "NodeName=node3", "State=DRAIN", f"Reason={reason}")
    node = read_state(tools).nodes["node3"]
    assert (node.is_available, node.is_responding, node.reason) == (False, True, reason)
    ordinary.run("scontrol", "update", "NodeName=node3", "State=RESUME")
    assert read_state(tools).nodes["node3"].is_available


def test_reservations_licences_and_dependencies_on_tasks(
    ordinary: SlurmCluster, tools: Tools
) -> None:
    """Each is read as it was asked for."""
    create = ["scontrol", "create", "reservation", "ReservationName=r", "Nodes=node[2-3]"]
    ordinary.run(*create, "StartTime=now", "Duration=60", "Users=root", "Flags=DAILY,MAINT")
    try:
        job = ordinary.submit("--reservation=r", "--licenses=matlab:2", sleep_s=60)
        array = ordinary.submit("--array=1-3%2", "--hold")
        after = ordinary.submit(f"--dependency=afterok:{array}_2", "--hold")
        ordinary.wait_for(job, "RUNNING")
        state = read_state(tools)
    finally:
        ordinary.run("scancel", "--user", "root")
        eventually(lambda: not ordinary.run("squeue", "-h"), within_s=SOON_S)
        ordinary.run("scontrol", "delete", "ReservationName=r")
    found = state.reservations["r"]
    assert (found.nodes, found.users, found.is_active) == (("node2", "node3"), ("root",), True)
    assert (found.end_s - found.start_s, state.licenses) == (3600.0, {"matlab": 5})
    assert {"DAILY", "MAINT"} <= set(found.flags)
    running = state.jobs[job]
    assert (running.reservation, running.licenses) == ("r", {"matlab": 2})
    assert set(running.nodes) <= set(found.nodes)
    assert state.jobs[texts.task_id(array, 2)].array_limit == 2
    shown = Shown(state, platform_of(chosen(state, Site()), Site()))
    (condition,) = conditions_of(state.jobs[after], shown).dependencies
    assert condition == Dependency("afterok", (texts.task_id(array, 2),))


def test_the_configuration_of_a_real_cluster(placed: SlurmCluster, tools: Tools) -> None:
    """Root has all rights, and the programs are those of the cluster."""
    config = read_config(tools)
    assert (config.name, config.slurm_user, config.scheduler) == (
        "hpcosim",
        "root",
        "sched/builtin",
    )
    assert config.end_program == str(placed.folder / "ended.sh")
    rights = read_rights(tools, config)
    assert (rights.level, rights.changes_jobs, rights.changes_nodes) == ("root", True, True)
    partitions = read_state(tools).partitions
    assert {name: each.is_up for name, each in partitions.items()} == {"queue": False, "main": True}
    assert partitions["queue"].is_default


def test_jobs_survive_a_restart_of_the_controller(placed: SlurmCluster, tools: Tools) -> None:
    """While it is away it is unreachable; afterwards jobs run and wait as before."""
    running, waiting = placed.submit(sleep_s=60), placed.submit()
    place = Order(Place(str(running), ("node5",), "main"), "test")
    Carrier(tools).carry_out([place])
    placed.wait_for(running, "RUNNING")
    before = read_state(tools)
    placed.end("slurmctld")
    with pytest.raises(UnreachableError):
        read_state(Tools(tools.environment, timeout_s=1.0))
    with pytest.raises(UnreachableError):
        Carrier(Tools(tools.environment, timeout_s=1.0)).carry_out([place])
    placed.start("slurmctld")

    def after() -> ClusterState | None:
        try:
            state = read_state(tools)
        except UnreachableError:
            return None
        return state if state.nodes["node5"].cpus_allocated else None

    state = eventually(after, within_s=SOON_S)
    assert state.jobs[running].started_s == before.jobs[running].started_s
    assert state.jobs[running].nodes == ("node5",)
    assert (state.jobs[waiting].state, state.jobs[waiting].partition) == ("pending", "queue")
