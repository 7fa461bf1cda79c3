"""Training a pairing agent on a scenario: what `hpcosim train pairing` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import torch

from hpcosim_client.agents.pairing.model import save_pairing
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_protocol import energy_estimate_j
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_training.curve import Curve
from hpcosim_training.pairing.exploring import Pooled, here
from hpcosim_training.pairing.progress import Simulation
from hpcosim_training.pairing.session import Session, Training
from hpcosim_training.subject import refuse_without_power
from hpcosim_workloads.table import JobTable

ACTOR = "actor.safetensors"


def train_pairing(
    path: Path,
    out: Path,
    training: Training,
    *,
    validation: Path | None = None,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    told: Callable[[Simulation], None] = lambda _: None,
) -> Path:
    """Train a pairing agent for a scenario's platform on its workload.

    Into the folder go `actor.safetensors`, `curve.csv`, `tensorboard/` and, to go on from,
    `checkpoint.safetensors`. The same arguments give the same bytes of weights. Torch is held to
    one thread, which is no slower for these networks, so that trainings can go on side by side.

    Args:
        path: the scenario's file; its own scheduler is of no account.
        out: the folder.
        training: how.
        validation: a scenario on whose workload it is tried; its platform is of no account.
        resume: go on from the folder's checkpoint.
        overrides: values of the scenario to change, by dotted path.
        told: told of each simulation when it is over.

    Returns:
        The actor's file.

    Raises:
        ScenarioError, WorkloadError, PolicyError: bad input.
        OSError: the folder can't be written to.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    refuse_without_power(scenario.platform, path)
    training = dataclasses.replace(training, pairing=scaled_for(training.pairing, scenario, jobs))
    tried = jobs if validation is None else Library([validation]).first_jobs
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    session = Session(scenario, jobs, tried, training)
    if resume:
        session.resume(out)
    with ExitStack() as stack:
        curve = stack.enter_context(Curve(out, Simulation, session.done if resume else None))
        explorer = here(session.ground)
        if training.workers > 1:
            explorer = stack.enter_context(Pooled(session.ground, training.workers))
        while not session.over:
            done = session.advance(explorer)
            curve.add(done)
            session.write_checkpoint(out)
            told(done)
    save_pairing(out / ACTOR, session.actor(), session.about())
    return out / ACTOR


def scaled_for(pairing: Pairing, scenario: Scenario, jobs: JobTable) -> Pairing:
    """Return the settings with scales that suit a workload.

    They are the medians over its jobs of the requested time and of the least energy estimate.
    """
    platform = scenario.platform
    estimates_j = [
        np.array(
            [
                energy_estimate_j(platform, group, cores, requested_s, 0)
                for cores, requested_s in zip(
                    jobs.cores.tolist(), jobs.requested_s.tolist(), strict=True
                )
            ]
        )
        for group in range(len(platform.nodes))
    ]
    return msgspec.structs.replace(
        pairing,
        time_s=max(float(np.median(jobs.requested_s)), 1e-6),
        energy_j=max(float(np.median(np.min(estimates_j, axis=0))), 1e-6),
    )
