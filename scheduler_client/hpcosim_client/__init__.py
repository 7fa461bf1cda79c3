"""The SDK for schedulers: a connection to a server, and a view of its nodes and jobs.

A policy is a function that reads a `View` and decides through it. A script that schedules one
simulation of a server:

    from hpcosim_client import main

    def first_come_first_served(view):
        for job in view.queue.values():
            if not view.start(job):
                break

    if __name__ == "__main__":
        main(first_come_first_served)

`run` is the same as a function that returns the metrics. The schedulers and power managers of
hpcosim are in `hpcosim_schedulers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_client.connection import Answer as Answer
    from hpcosim_client.connection import Connection as Connection
    from hpcosim_client.connection import Timeouts as Timeouts
    from hpcosim_client.errors import AddressError as AddressError
    from hpcosim_client.errors import ClientError as ClientError
    from hpcosim_client.errors import PolicyError as PolicyError
    from hpcosim_client.errors import ResultsNotWrittenError as ResultsNotWrittenError
    from hpcosim_client.errors import ServerFaultError as ServerFaultError
    from hpcosim_client.errors import ServerGoneError as ServerGoneError
    from hpcosim_client.errors import ServerRefusedError as ServerRefusedError
    from hpcosim_client.job import Allocation as Allocation
    from hpcosim_client.job import Job as Job
    from hpcosim_client.loop import play as play
    from hpcosim_client.loop import run as run
    from hpcosim_client.nodes import NodePool as NodePool
    from hpcosim_client.profiles import Profile as Profile
    from hpcosim_client.profiles import Reservation as Reservation
    from hpcosim_client.profiles import profile_of as profile_of
    from hpcosim_client.scheduler_state import JobQueue as JobQueue
    from hpcosim_client.script import main as main
    from hpcosim_client.view import Policy as Policy
    from hpcosim_client.view import PolicyAlarm as PolicyAlarm
    from hpcosim_client.view import PowerExchange as PowerExchange
    from hpcosim_client.view import View as View

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "connection": "Answer Connection Timeouts",
        "errors": (
            "AddressError ClientError PolicyError ResultsNotWrittenError ServerFaultError "
            "ServerGoneError ServerRefusedError"
        ),
        "job": "Allocation Job",
        "loop": "play run",
        "nodes": "NodePool",
        "profiles": "Profile Reservation profile_of",
        "scheduler_state": "JobQueue",
        "script": "main",
        "view": "Policy PolicyAlarm PowerExchange View",
    },
)
