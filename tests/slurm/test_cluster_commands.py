"""Actions, their commands, and what a real Slurm does with them."""

from __future__ import annotations

import pytest

from hpcosim_slurm.commands import (
    Action,
    Begin,
    Cancel,
    Carrier,
    Hold,
    Order,
    Place,
    PowerDown,
    PowerUp,
    Release,
    Requeue,
    Resume,
    Suspend,
    Terminate,
    Withdraw,
    command_of,
)
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.reading import read_state
from hpcosim_slurm.tools import Tools
from support.processes import eventually
from support.slurm_cluster import SOON_S, SlurmCluster


def orders(*actions: Action) -> list[Order]:
    """Return orders of a test."""
    return [Order(action, "test") for action in actions]


@pytest.mark.parametrize(
    ("action", "command"),
    [
        (
            Place("17", ("node0", "node2"), "main"),
            "scontrol update JobId=17 Partition=main ReqNodeList=node[0,2]",
        ),
        (Release("101_3", "main"), "scontrol update JobId=101_3 Partition=main"),
        (Release("17"), "scontrol release 17"),
        (Withdraw("17", "queue"), "scontrol update JobId=17 Partition=queue ReqNodeList="),
        (Hold("17"), "scontrol uhold 17"),
        (Cancel("17"), "scancel 17"),
        (Terminate("17"), "scancel --full --signal=TERM 17"),
        (Requeue("101_3"), "scontrol requeue 101_3"),
        (Suspend("17"), "scontrol suspend 17"),
        (Resume("17"), "scontrol resume 17"),
        (Begin("17", 1.2), "scontrol update JobId=17 StartTime=uts2"),
        (PowerUp(("node0",)), "scontrol update NodeName=node0 State=POWER_UP"),
        (PowerDown(("a1", "a2")), "scontrol update NodeName=a[1-2] State=POWER_DOWN"),
    ],
)
def test_each_action_has_a_command(action: Action, command: str) -> None:
    """A dry run prints the command once, and runs nothing; nothing can be taken back."""
    assert command_of(action) == command.split()
    printed: list[str] = []
    carrier = Carrier(Tools(environment={"PATH": ""}), printed.append)
    for _ in range(2):
        assert carrier.carry_out(orders(action)) == []
    expected = [] if isinstance(action, Withdraw) else [command]
    assert [line.replace("'", "") for line in printed] == expected


@pytest.mark.parametrize(
    "action",
    [
        Cancel("17 18"),
        Cancel("--user=root"),
        Hold(""),
        Terminate("--user=root"),
        Suspend("17,18"),
        Place("17", (), "main"),
        Place("17", ("a b",), "main"),
        Place("17", ("node0",), "main Priority=9"),
        PowerDown(("ALL=1",)),
    ],
)
def test_names_cannot_add_arguments(action: Action) -> None:
    """A name that Slurm would read as something else is an error, and no command."""
    with pytest.raises(SlurmError, match="expected"):
        command_of(action)
    printed: list[str] = []
    refused = Carrier(Tools(), printed.append).carry_out(orders(action))
    assert (len(refused), printed) == (1, [])


@pytest.mark.slow
def test_a_placed_job_starts_on_its_nodes(placed: SlurmCluster, tools: Tools) -> None:
    """Jobs and tasks of an array start on the nodes of their placements, and no other starts."""
    wide = placed.submit("--nodes=2", sleep_s=60)
    array = placed.submit("--array=1-2", sleep_s=60)
    refused = Carrier(tools).carry_out(
        orders(
            Place(str(wide), ("node6", "node3"), "main"), Place(f"{array}_2", ("node5",), "main")
        )
    )
    assert refused == []
    eventually(
        lambda: sum(job.state == "running" for job in read_state(tools).jobs.values()) == 2,
        within_s=SOON_S,
    )
    found = {job.name_in_slurm: job for job in read_state(tools).jobs.values()}
    assert found[str(wide)].nodes == ("node3", "node6")
    assert found[f"{array}_2"].nodes == ("node5",)
    assert found[f"{array}_1"].state == "pending"


@pytest.mark.slow
def test_a_withdrawn_job_waits_again(placed: SlurmCluster, tools: Tools) -> None:
    """A job that waits for a busy node does not start when the node is free."""
    first, second = (placed.submit(sleep_s=60) for _ in range(2))
    carrier = Carrier(tools)
    carrier.carry_out(orders(Place(str(first), ("node1",), "main")))
    placed.wait_for(first, "RUNNING")
    carrier.carry_out(orders(Place(str(second), ("node1",), "main")))
    assert read_state(tools).jobs[second].partition == "main"
    assert carrier.carry_out(orders(Withdraw(str(second), "queue"))) == []
    assert carrier.carry_out(orders(Cancel(str(first)))) == []  # together they would run at once
    eventually(lambda: read_state(tools).nodes["node1"].cpus_allocated == 0, within_s=SOON_S)
    assert read_state(tools).jobs[second].partition == "queue"
    assert carrier.carry_out(orders(Release(str(second), "main"))) == []
    placed.wait_for(second, "RUNNING")


@pytest.mark.slow
def test_refusals_have_the_words_of_slurm(placed: SlurmCluster, tools: Tools) -> None:
    """Each refused order has its own words; the others are carried out."""
    job = placed.submit(sleep_s=60)
    wrong = orders(
        Place("999999", ("node0",), "main"),
        Place(str(job), ("elsewhere",), "main"),
        Place(str(job), ("node0",), "nowhere"),
        PowerDown(("elsewhere",)),
        Hold("999998"),
    )
    right = orders(Place(str(job), ("node4",), "main"))
    refused = Carrier(tools).carry_out([*wrong, *right])
    assert [each.order for each in refused] == wrong
    for each, words in zip(
        refused,
        [
            "Invalid job id specified",
            f"Invalid node name specified for job {job}",
            f"Invalid partition name specified for job {job}",
            "Invalid node name specified",
            "Invalid job id specified",
        ],
        strict=True,
    ):
        assert words in each.words
    placed.wait_for(job, "RUNNING")
    assert read_state(tools).jobs[job].nodes == ("node4",)


@pytest.mark.slow
def test_a_held_job_waits_for_its_release(ordinary: SlurmCluster, tools: Tools) -> None:
    """On an ordinary cluster, jobs are submitted held, and released."""
    job = ordinary.submit("--hold", sleep_s=60)
    assert read_state(tools).jobs[job].is_held
    assert Carrier(tools).carry_out(orders(Release(str(job)))) == []
    ordinary.wait_for(job, "RUNNING")


@pytest.mark.slow
def test_nodes_are_switched(placed: SlurmCluster, tools: Tools) -> None:
    """Nodes are off, boot for a job that is placed on them, or are switched on."""

    def powers() -> list[str]:
        nodes = read_state(tools).nodes
        return [nodes[name].power for name in ("node6", "node7")]

    carrier = Carrier(tools)
    assert carrier.carry_out(orders(PowerDown(("node6", "node7")))) == []
    eventually(lambda: powers() == ["off", "off"], within_s=SOON_S)
    assert read_state(tools).nodes["node6"].is_available
    job = placed.submit(sleep_s=60)
    carrier.carry_out(orders(Place(str(job), ("node6",), "main"), PowerUp(("node7",))))
    eventually(lambda: powers() == ["on", "on"], within_s=SOON_S)
    placed.wait_for(job, "RUNNING")
    assert read_state(tools).jobs[job].nodes == ("node6",)
