"""Schedulers as processes: a connection, a view, and policies.

from hpcosim_client import run

def first_come_first_served(view):
    for job in list(view.queue.values()):
        if not view.start(job):
            break

print(run(first_come_first_served, "tcp://127.0.0.1:28080"))
"""

from hpcosim_client.catalogue.schedulers import GROUPS, POLICIES, expand, make_policy
from hpcosim_client.connection import Answer, Connection, Patience
from hpcosim_client.errors import (
    ClientError,
    PolicyError,
    ServerFaultError,
    ServerGoneError,
    ServerRefusedError,
)
from hpcosim_client.job import Job, Place
from hpcosim_client.nodes import NodePool
from hpcosim_client.play import play, run
from hpcosim_client.view import Policy, View

__all__ = [
    "GROUPS",
    "POLICIES",
    "Answer",
    "ClientError",
    "Connection",
    "Job",
    "NodePool",
    "Patience",
    "Place",
    "Policy",
    "PolicyError",
    "ServerFaultError",
    "ServerGoneError",
    "ServerRefusedError",
    "View",
    "expand",
    "make_policy",
    "play",
    "run",
]
