"""Metrics of the energy of the nodes, and of its cost and emissions; see `metrics`."""

from __future__ import annotations

from collections.abc import Mapping

from hpcosim_sim.physics.power import NodeState
from hpcosim_sim.record.economics import J_PER_KWH
from hpcosim_sim.record.run_record import RunRecord


def energies(record: RunRecord) -> dict[str, int | float]:
    """Return the energy of all nodes, in total and by node state, and the energy-delay product.

    A node that is on is computing while it runs a task and idle otherwise. The five node states
    add up to the total.

    Returns:
        energy_j: Integral of the power of all nodes over the makespan, J. Source: Lopez, Stafford,
            Bosque 2025.
        computing_energy_j: Energy of all nodes while computing, J.
        idle_energy_j: Energy of all nodes while idle, J. A node is also idle between its
            allocation to a job and the start of the job.
        sleeping_energy_j: Energy of all nodes while sleeping, J.
        switching_on_energy_j: Energy of all nodes while being switched on, J.
        switching_off_energy_j: Energy of all nodes while being switched off, J.
        wasted_energy_j: Energy of all nodes while not computing, J: energy_j - computing_energy_j.
            Source: curriculum learning, section 5.
        energy_kwh: The energy of energy_j in kWh: energy_j / 3,600,000.
        wasted_energy_kwh: The energy of wasted_energy_j in kWh.
        edp_js: Energy-delay product, energy_j * makespan_s, J s. Source: Lopez, Stafford, Bosque
            2025.
    """
    by_state = record.state_energy_j
    wasted_j = _wasted(by_state)
    return {
        "energy_j": record.energy_j,
        **{f"{state}_energy_j": by_state[state] for state in by_state if state != "down"},
        "wasted_energy_j": wasted_j,
        "energy_kwh": record.energy_j / J_PER_KWH,
        "wasted_energy_kwh": wasted_j / J_PER_KWH,
        "edp_js": record.energy_j * record.duration_s,
    }


def costs(record: RunRecord) -> dict[str, int | float]:
    """Return the cost and the CO2 emissions of the energy of all nodes.

    The metrics are there if the scenario states a price or a carbon intensity.

    Returns:
        energy_cost: Integral of power * price over the makespan, in the currency of the scenario
            (`economics` in `run.json`). Only with `economics.price_per_kwh` or `tariff`.
        wasted_energy_cost: Part of energy_cost while nodes are not computing, see wasted_energy_j.
        co2_kg: Integral of power * carbon intensity over the makespan, kg of CO2. Only with
            `economics.co2_g_per_kwh` or `series`.
        wasted_co2_kg: Part of co2_kg while nodes are not computing, kg.
    """
    found: dict[str, int | float] = {}
    if cost := record.state_cost:
        found |= {"energy_cost": sum(cost.values()), "wasted_energy_cost": _wasted(cost)}
    if co2_g := record.state_co2_g:
        found |= {"co2_kg": sum(co2_g.values()) / 1000, "wasted_co2_kg": _wasted(co2_g) / 1000}
    return found


def _wasted(by_state: Mapping[NodeState, float]) -> float:
    """Return the part of a sum over node states that is not computing."""
    return sum(part for state, part in by_state.items() if state != "computing")
