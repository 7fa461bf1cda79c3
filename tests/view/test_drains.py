"""Drained nodes, from the recording to the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_client import play
from hpcosim_schedulers import make_policy
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import NodeChange, SiteEvents
from hpcosim_sim.record.results import Run, write_results
from hpcosim_view.errors import ReadResultsError
from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.recording import RecordingReader
from hpcosim_view.terminal.slurm_tables import nodes_at
from support.simulating import cluster_of
from support.site_scenes import job, table

RUN = Run(hpcosim="0", scenario="s", scheduler="p", seed=0)
EVENTS = SiteEvents(
    (
        NodeChange(at_s=5.0, nodes=(0,), kind="drain"),
        NodeChange(at_s=20.0, nodes=(0,), kind="repair"),
        NodeChange(at_s=25.0, nodes=(1,), kind="drain"),
    )
)


@pytest.fixture
def simulation() -> Simulation:
    """Node 0 is drained from 5 to 20 s, node 1 from 25 s on; job 1 runs on node 0 until 10 s."""
    simulation = Simulation(
        cluster_of(2), table(job(1, run_s=10.0), job(2, 22.0, 8.0)), site_events=EVENTS
    )
    play(
        make_policy("fcfs"),
        cluster_of(2),
        lambda decisions, wake_on, elapsed_s: simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s
        ),
    )
    return simulation


def test_a_folder_has_the_drains_of_the_recording(simulation: Simulation, tmp_path: Path) -> None:
    """The file has begin and end of each drain, and the folder the columns of a live frame."""
    write_results(tmp_path / "out", simulation.record(), RUN)
    assert (tmp_path / "out/drains.csv").read_text().splitlines() == [
        *("time_s,node,change", "5.0,0,drained", "20.0,0,repaired", "25.0,1,drained"),
    ]
    live = RecordingReader(Opened(simulation, RUN, 0)).frame()
    folder = read_folder(tmp_path / "out")
    for name in ("drain.time_s", "drain.node", "drain.drained"):
        assert folder.columns[name].tolist() == live.columns[name].tolist()


def test_sinfo_tells_drained_nodes_from_idle_ones(simulation: Simulation) -> None:
    """A drained node is `drng` while a job runs there, then `drain`."""
    whole = RecordingReader(Opened(simulation, RUN, 0)).frame()

    def states_at(at_s: float) -> dict[str, str]:
        return {each.hosts: each.state for each in nodes_at(whole, at_s)}

    assert states_at(7.0) == {"node0": "drng", "node1": "idle"}
    assert states_at(12.0) == {"node0": "drain", "node1": "idle"}
    assert states_at(21.0) == {"node[0-1]": "idle"}


def test_a_node_that_the_platform_lacks_is_an_error(simulation: Simulation, tmp_path: Path) -> None:
    """The error names the file and the line."""
    write_results(tmp_path / "out", simulation.record(), RUN)
    file = tmp_path / "out/drains.csv"
    file.write_text(file.read_text().replace("20.0,0", "20.0,9"))
    with pytest.raises(ReadResultsError, match=r"drains\.csv:3: expected rows in order of time_s"):
        read_folder(tmp_path / "out")
