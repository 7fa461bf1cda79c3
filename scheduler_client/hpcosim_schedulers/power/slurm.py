"""The power manager that switches nodes like the power saving of Slurm."""

from __future__ import annotations

from hpcosim_client.view import Policy, View
from hpcosim_schedulers.power.manager import managed
from hpcosim_schedulers.power.slurm_saving import PowerSaving
from hpcosim_schedulers.power.slurm_settings import Slurm


def slurm(policy: Policy, rules: Slurm) -> Policy:
    """Return the policy of a job scheduler beside Slurm's power saving.

    The model follows `src/slurmctld/power_save.c` of Slurm 26.11-dev (284c3b95). Nodes are switched
    in scans, at whole seconds t: at the first whole second, and then at each t

    - later than the last scan + `power_save_min_interval_s`, and
    - if no node has changed since the last scan, later than the last scan +
      `power_save_interval_s`. "Later" is strict: an interval of 10 without changes means a scan
      every 11 s.

    A node changes when it is allocated or released, when it has booted, and when a scan switches
    it. A scan takes place at the end of its instant, after all events and the job scheduler's
    decisions. It does the following, in this order:

    1. Resume: it boots sleeping nodes that are allocated, one per resume token: jobs in the order
       of their allocations, the nodes of each by number. The other nodes wait for tokens.
    2. Suspend: it switches off nodes by number, one per suspend token, that are on, not allocated,
       not excluded, and have `last_busy < t - suspend_time_s`. `last_busy` is the whole second in
       which the node was last released or booted, or the first second of the simulation.
    3. It makes nodes available again that it switched off before `t - suspend_timeout_s`.

    A token bucket holds at most `max(1, rate * max(1, power_save_interval_s) // 60)` tokens. It is
    full at the first scan and gains a token at each multiple of `60000 // rate` ms.

    A job that is allocated sleeping nodes holds them immediately. They boot in a scan, as tokens
    permit, and the allocation is sent to the server when the last one boots. This changes neither
    the job's start nor the power of a node; nodes of the job that are on draw idle power meanwhile.
    Scans without effect are skipped.

    Differences from Slurm:

    - No boot fails. A boot may take longer than `resume_timeout_s`.
    - A node that takes longer than `suspend_timeout_s` to switch off becomes available at the first
      scan after it sleeps. In Slurm it would become available too early.
    - A job starts when all its nodes are on, as with `--wait-all-nodes=1`. There is no COMPLETING
      state.
    - Slurm's job scheduler runs at its own times. Here it runs at each event, and, if jobs wait, in
      the second after step 3 made nodes available.
    - A scan during the job scheduler's own simulated time (`View.elapsed_s`) takes place after it.
    - Slurm prefers nodes that are on. Here the job scheduler chooses.
    - The job scheduler must not switch nodes. It cannot kill a job that waits for tokens, because
      the server does not know its allocation and rejects the decision.

    The policy raises `PolicyError` at its first call if the settings do not fit the platform or
    `wake_on_allocation` is false, and later if the job scheduler switches a node.

    Args:
        policy: the job scheduler.
        rules: the settings.
    """
    saving: PowerSaving | None = None

    def informed(view: View) -> None:
        nonlocal saving
        if saving is None:
            saving = PowerSaving(view, rules)
        saving.before(view)
        policy(view)

    def manage(view: View) -> float | None:
        assert saving is not None
        return saving.after(view)

    return managed(informed, manage)
