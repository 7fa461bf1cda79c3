"""Switch nodes as the power saving of Slurm does."""

from __future__ import annotations

from hpcosim_client.power.manager import managed
from hpcosim_client.power.slurm_saving import PowerSaving
from hpcosim_client.power.slurm_settings import Slurm
from hpcosim_client.view import Policy, View


def slurm(policy: Policy, rules: Slurm) -> Policy:
    """Return the policy that lets one schedule jobs, and Slurm's power saving switch nodes.

    It follows `src/slurmctld/power_save.c` of Slurm 26.11-dev (284c3b95). All happens in scans, at
    whole seconds t. There is one at the first whole second, and then one at each t

    - after the last scan + `power_save_min_interval_s`, and
    - if a node has changed at or after the last scan; or, if none has, after the last scan +
      `power_save_interval_s`. "After" is strict: with 10, and nothing changing, every 11 s.

    A node changes when a job is given it or leaves it, when it has booted, and by what a scan does
    itself. A scan comes at the end of its instant, when all else has happened and the job scheduler
    has decided. In this order it

    1. boots the nodes that sleep and are held for a job: the jobs in the order they were given
       nodes, the nodes of each by number, one for each resume token; the others wait;
    2. switches off, by number and one for each suspend token, nodes that are on, held by no job,
       not excluded, and for which `last_busy < t - suspend_time_s`. `last_busy` is the whole second
       in which the node was last freed or booted, or the first second of the simulation;
    3. lets nodes be given to jobs again that were told to switch off before `t -
       suspend_timeout_s`.

    A bucket is full at the first scan, with `max(1, rate * max(1, power_save_interval_s) // 60)`
    tokens, gets one at each multiple of `60000 // rate` ms, and never has more.

    So a job that is given nodes that sleep holds them from then on, but they begin to boot at a
    scan, as tokens allow, and it is allocated for the server when its last one does. That changes
    neither the job's start nor any node's power; nodes of it that are on draw as idle meanwhile.
    Only simulated time in which something can happen costs time: where a scan would do nothing,
    none is made.

    What differs from Slurm:

    - No boot fails. A node whose random boot time exceeds `resume_timeout_s` is waited for.
    - A node whose random time of switching off exceeds `suspend_timeout_s` is given to jobs at the
      first scan after it sleeps; Slurm would give it too early.
    - A job starts when all its nodes are on, as with `--wait-all-nodes=1`, and jobs leave no node
      COMPLETING.
    - Slurm's job scheduler runs at times of its own. Here it decides at each event, and, if jobs
      wait, in the second after step 3 found nodes for them.
    - A scan that falls into the job scheduler's thinking time (`View.elapsed_s`) is made after it.
    - Slurm prefers nodes that are on for jobs; here that is left to the job scheduler.
    - The job scheduler must not switch nodes itself, and can't kill a job that waits for tokens:
      the server rejects that.

    Raises:
        PolicyError: when it first decides, if the settings don't fit the platform, or jobs can't
            be given nodes that sleep (`wake_on_allocation`); later, if the job scheduler switches
            a node.
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
