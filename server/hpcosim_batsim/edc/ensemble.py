"""Several components that decide together.

Batsim 5 has options for several components, and does not implement them. Here each event goes to
all components, except calls and data of probes, which go to the one that requested them. The
decisions of all replies apply by time, at equal times in the order of the components. The
simulation goes on after the latest `now` of the replies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from hpcosim_batsim.edc import messages
from hpcosim_batsim.edc.batsim5 import JSON
from hpcosim_batsim.edc.components import Component, ComponentPlan, Introduction
from hpcosim_batsim.edc.library import Interface
from hpcosim_batsim.errors import BadReplyError, RunFailedError, SchedulerError

_IDS: Mapping[str, str] = {
    "CallMeLaterEvent": "call_me_later_id",
    "StopCallMeLaterEvent": "call_me_later_id",
    "RequestedCallEvent": "call_me_later_id",
    "CreateProbeEvent": "probe_id",
    "StopProbeEvent": "probe_id",
    "ProbeDataEmittedEvent": "probe_id",
}
"""The field with the id that a component has chosen, by event."""


class Member(NamedTuple):
    """A component of several, and what it has said."""

    component: Component
    plan: ComponentPlan
    said: Introduction


def combine(members: Sequence[Member]) -> tuple[Component, Introduction]:
    """Return several components as one, which requests what any of them requests.

    Raises:
        RunFailedError: a component has the interface before Batsim 5.0.
    """
    for member in members:
        if member.said.interface == "flags":
            raise RunFailedError(
                f"{member.plan.target}: a component with the interface before Batsim 5.0 cannot "
                "run with others"
            )
    hellos = [member.said.hello for member in members]
    features = [hello.requested_simulation_features for hello in hellos]
    constraints = [hello.scheduling_constraints for hello in hellos]
    hello = messages.Hello(
        requested_simulation_features=messages.RequestedFeatures(
            **{
                name: any(getattr(each, name) for each in features)
                for name in messages.RequestedFeatures.__struct_fields__
            }
        ),
        scheduling_constraints=messages.SchedulingConstraints(
            compute_sharing=any(each.compute_sharing for each in constraints),
            storage_sharing=all(each.storage_sharing for each in constraints),
        ),
    )
    interface: Interface = "hello"
    return _Ensemble(members), Introduction(hello, JSON, interface)


class _Ensemble:
    """Several components in the place of one that uses JSON."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._registering = {
            place
            for place, member in enumerate(members)
            if member.said.hello.requested_simulation_features.dynamic_registration
        }

    @property
    def waited_s(self) -> float:
        return sum(member.component.waited_s for member in self._members)

    def decide(self, message: bytes) -> bytes:
        received = messages.read_events(message, messages.from_json)
        now_s, events = received.now, []
        for place, member in enumerate(self._members):
            own = _of_member(received.events, place)
            if not own:
                continue
            form = member.said.form
            data = form.encode({"now": received.now, "events": msgspec.to_builtins(own)})
            try:
                reply = messages.read_events(member.component.decide(data), form.decode)
            except SchedulerError as error:
                self._leave_others(member, received.now)
                if not isinstance(error, BadReplyError):
                    raise
                what = f"component {member.plan.target}: {error.what}"
                raise BadReplyError(what, error.where, error.now_s) from None
            now_s = max(now_s, reply.now)
            events += [each for each in reply.events if self._counts(each, place)]
        events.sort(key=attrgetter("timestamp"))
        return JSON.encode({"now": now_s, "events": msgspec.to_builtins(events)})

    def _leave_others(self, failed: Member, now_s: float) -> None:
        """Tell all but a component that has failed that the simulation ends."""
        end = {"timestamp": now_s, "event_type": "SimulationEndsEvent", "event": {}}
        for member in self._members:
            if member is not failed:
                with suppress(SchedulerError):
                    data = member.said.form.encode({"now": now_s, "events": [end]})
                    member.component.say_goodbye(data)

    def say_goodbye(self, message: bytes) -> None:
        for member in self._members:
            data = member.said.form.encode(messages.from_json(message))
            member.component.say_goodbye(data)

    def _counts(self, event: messages.TimedEvent, place: int) -> bool:
        """Mark the ids of a component; tell whether a decision is one of the whole."""
        field = _IDS.get(event.event_type)
        if field is not None and isinstance(event.event.get(field), str):
            event.event[field] = f"{place}:{event.event[field]}"
        if event.event_type == "FinishRegistrationEvent":
            self._registering.discard(place)
            return not self._registering
        return True


def _of_member(events: Sequence[messages.TimedEvent], place: int) -> list[messages.TimedEvent]:
    """Return the events for a component, with its own ids."""
    own = []
    for event in events:
        field = _IDS.get(event.event_type)
        if field is None:
            own.append(event)
            continue
        owner, _, name = event.event[field].partition(":")
        if owner == str(place):
            renamed: dict[str, Any] = {**event.event, field: name}
            own.append(messages.TimedEvent(event.timestamp, event.event_type, renamed))
    return own
