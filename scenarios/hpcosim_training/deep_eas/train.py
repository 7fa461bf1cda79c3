"""Training Deep-EAS on a scenario: what `hpcosim train deep-eas` does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from hpcosim_client import make_policy
from hpcosim_client.agents.deep_eas.model import save_deep_eas
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_training.curve import Curve
from hpcosim_training.deep_eas.ground import machines_of, model_of
from hpcosim_training.deep_eas.outcome import normalised_edps
from hpcosim_training.deep_eas.session import Iteration, Session
from hpcosim_training.deep_eas.settings import Training

NETWORK = "deep-eas.safetensors"
COMPARED = 10  # sequences of validation that the simulator runs too
AGREE = 1e-9  # how far both may be apart


def train_deep_eas(
    path: Path,
    out: Path,
    training: Training,
    *,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    told: Callable[[Iteration], None] = lambda _: None,
) -> Path:
    """Train Deep-EAS on sequences like a scenario's, drawn by another seed than its own.

    Into the folder go `deep-eas.safetensors`, `curve.csv`, `tensorboard/` and, to go on from,
    `checkpoint.safetensors`. The same arguments give the same bytes of weights. Torch is held to
    one thread, so that trainings can go on side by side.

    Args:
        path: the scenario's file; its own scheduler is of no account.
        out: the folder.
        training: how; for how many machines, of how many cores, says the scenario.
        resume: go on from the folder's checkpoint.
        overrides: values of the scenario to change, by dotted path.
        told: told of each iteration when it is over.

    Returns:
        The network's file.

    Raises:
        ScenarioError: its workload is not of the model `bernoulli`, nodes are not alike, a job
            fits on none, or what happens there does not happen at whole steps.
        WorkloadError: hardly a job comes.
        PolicyError: there is no such training to go on with.
        OSError: the folder can't be written to.
    """
    scenario = Library([path], overrides).first
    torch.set_num_threads(1)
    session = _session(scenario, training, path)
    _compare(scenario, session, path)
    if resume:
        session.resume(out)
    out.mkdir(parents=True, exist_ok=True)
    with Curve(out, Iteration, session.done if resume else None) as curve:
        while not session.over:
            done = session.advance()
            curve.add(done)
            session.write_checkpoint(out)
            told(done)
    save_deep_eas(out / NETWORK, session.network(), session.about())
    return out / NETWORK


def _session(scenario: Scenario, training: Training, path: Path) -> Session:
    model = model_of(scenario, path)
    machines = machines_of(scenario, training.settings, path)
    training = dataclasses.replace(training, settings=machines.settings)
    try:
        return Session(machines, model, training)
    except ScenariosError as error:
        raise ScenarioError(f"can't be learned on: {error}", path, field="$.workload") from None


def _compare(scenario: Scenario, session: Session, path: Path) -> None:
    """Make sure that sequences run as they do in the simulator, which judges what is learned.

    Raises:
        ScenarioError: they do not.
    """
    found = normalised_edps(session.by_esjf).sum(axis=1)
    for table, total in zip(session.tried[:COMPARED], found.tolist(), strict=False):
        opened = open_scenario(scenario, table, "esjf")
        judged = run_in_process(opened, make_policy("esjf"))["mean_normalised_edp"]
        if not math.isclose(judged, total / len(table), rel_tol=AGREE):
            raise ScenarioError(
                f"can't be learned on: ESJF comes to {judged:.6g} in the simulator on a sequence "
                f"on which it comes to {total / len(table):.6g} in whole steps; nodes must be on "
                "always, take no energy when idle, and compute alike however many jobs they run",
                path,
                field="$.platform.nodes",
            )
