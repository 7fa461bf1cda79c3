"""The scenarios of the papers: they load, and give the results of the papers' program."""

from __future__ import annotations

import pytest

from hpcosim_protocol import Processor
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.logs.catalogue import known_trace, locate
from hpcosim_workloads.table import JobSpec
from support.golden import golden
from support.paths import SCENARIOS, SHARED

PAPERS = SCENARIOS / "papers"
NAMES = [path.relative_to(PAPERS).as_posix() for path in sorted(PAPERS.glob("*/*.yaml"))]
GIVEN = {
    "ineps/exp1.yaml": "exp1.json",
    "ineps/exp2.yaml": "exp2.inputs.json",
    "ineps/exp3.yaml": "exp3.inputs.json",
    "ineps/exp4_comp.yaml": "exp4_comp.inputs.json",
    "ineps/exp4_mem.yaml": "exp4_mem.inputs.json",
    "ineps/exp4_mixed.yaml": "exp4_mixed.inputs.json",
    "node_centric/node16.yaml": "node16_synth.inputs.json",
}
JOB_ORDERS = ("random", "first", "shortest", "smallest", "low-mem", "low-mem-ops")
NODE_ORDERS = ("random", "high-gflops", "high-cores", "high-mem", "high-mem-bw", "low-power")
OURS = {"random": "none", "high-mem": "high-mem-used"}
"""What the papers' program does under a name of theirs, by our name."""


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is a scenario with jobs and a known scheduler."""
    scenario = load_scenario(PAPERS / name)
    make_policy(scenario.scheduler.name)
    log = scenario.workload.trace or getattr(scenario.workload.synthetic, "trace", None)
    if log is not None:
        monkeypatch.setenv("HPCOSIM_TRACES", str(SHARED / "traces"))
        if locate(known_trace(log)) is None:
            pytest.skip(f"the job log {log} is not on this machine")
    assert len(Library([PAPERS / name]).first_jobs)


def test_scenarios_have_names_of_their_own() -> None:
    """Scenario names are unique, and each file starts with a comment."""
    names = [load_scenario(PAPERS / name).name for name in NAMES]
    assert len(set(names)) == len(names)
    assert all((PAPERS / name).read_text().startswith("# ") for name in NAMES)


@pytest.mark.parametrize("name", GIVEN)
def test_platform_is_the_one_golden(name: str) -> None:
    """The platform equals the golden file exactly, node by node."""
    nodes = [
        group.processors
        for group in load_scenario(PAPERS / name).platform.nodes
        for _ in range(group.count)
    ]
    assert [figures_of(*processors) for processors in nodes] == [
        (
            node["cores"],
            node["clock_rate"],
            node["dpflops_per_cycle"],
            node["static_power"],
            node["dynamic_power"],
            node["min_power"],
            *(node[constant] for constant in ("c", "b", "da", "db", "dc", "dd")),
        )
        for node in golden(GIVEN[name])["platform"]
    ]


def figures_of(processor: Processor) -> tuple[float, ...]:
    """Return all values of the one processor of a node."""
    memory = processor.contention
    assert memory is not None
    return (
        processor.cores,
        processor.clock_ghz,
        processor.flops_per_cycle,
        processor.static_w,
        processor.dynamic_w,
        processor.idle_fraction,
        *(memory.c_mbps, memory.b_per_mbps, memory.da),
        *(memory.db_mbps, memory.dc_mbps, memory.dd_mbps),
    )


@pytest.mark.parametrize("name", GIVEN)
def test_jobs_are_those_golden(name: str) -> None:
    """The jobs equal the golden file exactly, and each runs on one node."""
    jobs = list(Library([PAPERS / name]).first_jobs.rows())
    assert {job.placement for job in jobs} == {"one_node"}
    assert [asked_by(job) for job in jobs] == [
        (
            job["id"],
            job["submit"],
            job["cores"],
            job["req_ops"] / job["ipc"],
            job["req_time"],
            job["mem"],
            job["mem_vol"],
            job.get("profile", ""),
        )
        for job in golden(GIVEN[name])["workload"]
    ]


def asked_by(job: JobSpec) -> tuple[object, ...]:
    """Return the request of a job."""
    return (
        *(job.job_id, job.submit_s, job.cores, job.ops, job.requested_s),
        *(job.memory_mb, job.memory_volume_mb, job.profile),
    )


def run(name: str, scheduler: str) -> tuple[Simulation, dict[str, int | float]]:
    """Run a scenario with a scheduler."""
    library = Library([PAPERS / name])
    opened = open_scenario(library.first, library.first_jobs, scheduler)
    return opened.simulation, run_in_process(opened, make_policy(scheduler))


@pytest.mark.parametrize("node_order", NODE_ORDERS)
@pytest.mark.parametrize("job_order", JOB_ORDERS)
def test_experiment_1_is_as_the_papers_program_has_it(job_order: str, node_order: str) -> None:
    """Each heuristic has the start times, end times, nodes and energy of the papers' program."""
    expected = golden("exp1.json")["policies"][
        f"{job_order.replace('-', '_')}-{node_order.replace('-', '_')}"  # as named there
    ]
    scheduler = "-".join(OURS.get(order, order) for order in (job_order, node_order))
    simulation, metrics = run("ineps/exp1.yaml", scheduler)
    recording = simulation.recording
    assert list(recording.job_id) == [job for job, _, _, _ in expected["jobs"]]
    for row, (_, start_s, end_s, node) in enumerate(expected["jobs"]):
        assert recording.start_s[row] == pytest.approx(start_s, rel=0, abs=1e-6)
        assert recording.end_s[row] == pytest.approx(end_s, rel=0, abs=1e-6)
        assert recording.nodes_of(row) == [node]
    assert metrics["makespan_s"] == pytest.approx(expected["makespan_s"], rel=0, abs=1e-6)
    assert metrics["energy_j"] == pytest.approx(expected["energy_J"], rel=1e-8)
    assert metrics["edp_js"] == pytest.approx(expected["edp_Js"], rel=1e-8)
