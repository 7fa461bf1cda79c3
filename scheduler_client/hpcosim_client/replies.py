"""Replies of a server: whether they answer a request, and errors about them."""

from __future__ import annotations

from hpcosim_protocol import Error, Events, ServerMessage, ServerStatus, SimulationEnded, Welcome

UNNUMBERED = ("invalid_message", "message_too_large", "shutting_down")
"""Codes of errors without the `seq` of their request. Another error without it answers a hello."""


def answers(answer: ServerMessage, seq: int) -> bool:
    """Return whether a message is a reply to request `seq`; hello and bye have number 0."""
    if isinstance(answer, (Events, SimulationEnded)):
        return answer.seq == seq
    if isinstance(answer, Error):
        return answer.seq == max(seq, 0) or (answer.seq == 0 and answer.code in UNNUMBERED)
    # A hello that was sent twice has two welcomes; the second one is late.
    return seq == 0 or not isinstance(answer, Welcome | ServerStatus)


def is_label(session: str) -> str:
    """Return the error message for a label in the place of a session's identifier."""
    return (
        f"{session} is a label of the server's log; --session needs the full identifier, which the "
        "first client printed"
    )


def unexpected(request: str, answer: ServerMessage) -> str:
    """Return the error message for a reply of the wrong type."""
    return f"the server's reply to {request} is of the wrong type, {type(answer).__name__}"
