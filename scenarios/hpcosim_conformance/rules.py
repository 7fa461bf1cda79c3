"""The rules of the specification that are tried, each by its section and its words.

A test holds them against `protocol/README.md`.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """A rule of the specification.

    Attributes:
        section: the number of its section.
        title: the heading of the section.
        text: its own words, line breaks aside.
    """

    section: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"section {self.section}, {self.title}: {self.text}"


DEFAULTS = Rule(
    "1",
    "Messages",
    "A field with a default MAY be left out; one that is `required` MUST be there. A reader takes"
    " a field that is not there as its default.",
)
NUMBERS = Rule(
    "1",
    "Messages",
    "In the tables, `int` is a whole number and `float` a float64; where a `float` is due, an "
    "`int` MAY be sent. An `id` is an `int` from 0 to 2^63 - 1.",
)
NAMES = Rule(
    "1.2",
    "From the server",
    "The session's name, to be sent with every message; a secret.",
)
ANSWERED = Rule(
    "1.2",
    "From the server",
    "The request this answers.",
)
SEQ = Rule(
    "1.1",
    "From the client",
    "1 for the first, then one more each; the same again only to resend.",
)
METRICS = Rule(
    "1.2",
    "From the server",
    "Measures of the run. The names are the server's; a client MUST NOT rely on any.",
)
ALARM_TIME = Rule(
    "1.4",
    "Events",
    "Not after now, or after 10^15 s.",
)
ALARM = Rule(
    "1.4",
    "Events",
    "An alarm the client had set went off. It is gone then.",
)
MISFIT = Rule(
    "1.4",
    "Events",
    "The nodes or cores are not what the job asks for; see section 5.1.",
)
DYNAMIC = Rule(
    "1.5",
    "Decisions",
    "Add a job, submitted now. Allowed where `dynamic_jobs` is true.",
)
NO_POWER = Rule(
    "5.7",
    "Power states",
    "The node has no `power_states`.",
)
OPTIONS = Rule(
    "1.3",
    "Parts of `welcome`",
    "A server sends all of them that its edition has.",
)
REJECTION = Rule(
    "1.4",
    "Events",
    "A decision could not be carried out, and nothing of it was.",
)
HELLO = Rule(
    "2.1",
    "In order",
    "`hello` with `versions: [1]`. The server answers `welcome`. Time stands at the first "
    "submission.",
)
FIRST = Rule(
    "2.1",
    "In order",
    "`decisions` with `seq` 1 and no decisions. No job is submitted yet, so none can be allocated.",
)
BEGAN = Rule(
    "2.1",
    "In order",
    "The server answers `events`: `simulation_began`, then the first submissions.",
)
IN_ORDER = Rule(
    "2.1",
    "In order",
    "The client asks, the server answers: one answer to each request, and nothing unasked.",
)
BYE = Rule(
    "2.1",
    "In order",
    "A client MAY send `bye` at any time instead. The server then answers `goodbye`, and the "
    "session is closed.",
)
END = Rule(
    "2.1",
    "In order",
    "When every job is over, the next `decisions` is answered by `simulation_ended`. The session "
    "is closed; the client sends nothing more.",
)
PING = Rule(
    "2.1",
    "In order",
    "A ping is a `hello` with `versions: []`. It is answered by the error `unsupported_version` "
    "and opens nothing.",
)
FATAL = Rule(
    "2.2",
    "Errors",
    "A fatal error ends the session named in the request, and no other.",
)
NOT_FATAL = Rule(
    "2.2",
    "Errors",
    "After one that is not fatal, an open session is as it was: nothing of the request was done, "
    "`seq` did not advance, and a corrected request takes the same `seq`.",
)
UNKNOWN_SESSION = Rule(
    "2.2",
    "Errors",
    "The session named never was, or is over; the `message` says why it ended.",
)
WHOLE = Rule(
    "2.2",
    "Errors",
    "A message is refused as a whole: one decision that can't be read (of an unknown kind, say) "
    "refuses all of them.",
)
OTHERS_STAND = Rule(
    "2.2",
    "Errors",
    "One that can be read but not carried out is a `decision_rejected`; the others stand.",
)
VERSION_FIRST = Rule(
    "2.2",
    "Errors",
    "A version is checked before all else: a `hello` that offers only versions not spoken here is"
    " answered `unsupported_version` even if its other fields are unreadable.",
)
OUT_OF_ORDER = Rule(
    "2.2",
    "Errors",
    "`seq` is neither one more than the last answered, nor the last with the same request.",
)
INVALID = Rule(
    "2.2",
    "Errors",
    "The bytes are no message of this version, or `elapsed_s` is above 10^15.",
)
NO_SCENARIO = Rule(
    "2.2",
    "Errors",
    "A `hello` names a scenario that is not here.",
)
ERROR_SEQ = Rule(
    "2.2",
    "Errors",
    "`seq` of an `error` is that of the request, or 0 where it had none, or could not be read",
)
TOO_MANY = Rule(
    "2.2",
    "Errors",
    "More than `max_decisions` in one message.",
)
STUCK = Rule(
    "4.5",
    "A stuck simulation",
    "when jobs wait, nothing runs, no node is being switched, no alarm is set, no submission is "
    "to come, and a request brings no event.",
)
IMPOSSIBLE = Rule(
    "2.3",
    "Answers that can't be",
    "A client can't go on after an answer that can't be: bytes that are no message of this "
    "version, a message of a type that is no answer to its request (section 1.1), or a `welcome` "
    "of a version it did not offer. It MUST stop, and send nothing more in the session but `bye`.",
)
FRAMES = Rule(
    "3",
    "Frames",
    "Its last frame is the body, one message of section 1. There MUST be at most 6 frames as the "
    "client sends them.",
)
ENVELOPE = Rule(
    "3",
    "Frames",
    "All frames before the body come back before the answer's body, as they were sent: the empty "
    "delimiter, and what stood before it, such as a request number.",
)
NO_DELIMITER = Rule(
    "3",
    "Frames",
    "To a client that sends no delimiter the answer comes without one.",
)
DROPPED = Rule(
    "3",
    "Frames",
    "A longer message is dropped without an answer.",
)
BODY = Rule(
    "3",
    "Frames",
    "A body is exactly one msgpack map with text keys, and no byte after it. `type` MAY stand "
    "anywhere in it; first is best. A key MUST NOT stand twice.",
)
WIDTHS = Rule(
    "3",
    "Frames",
    "Integers and floats MAY be of any width msgpack has; the server writes floats as",
)
TOO_LARGE = Rule(
    "3",
    "Frames",
    "A body longer than `max_message_bytes` (16 MiB in this server, unless told otherwise) is "
    "answered `message_too_large`.",
)
WAITS = Rule(
    "3",
    "Frames",
    "A DEALER may resend; a REQ waits for its answer.",
)
TIME = Rule(
    "4.1",
    "Time",
    "`now_s` never decreases. No event's `time_s` is after its message's `now_s`. In `events`, "
    "`time_s` does not decrease from one event to the next.",
)
SAME_AGAIN = Rule(
    "4.1",
    "Time",
    "The same scenario, seed and requests give the same answers, byte for byte but for the "
    "session's name.",
)
ELAPSED = Rule(
    "4.2",
    "What a request does",
    "`elapsed_s` passes. All that happens meanwhile, the last instant included, happens before "
    "the decisions and cuts nothing short.",
)
IN_TURN = Rule(
    "4.2",
    "What a request does",
    "The decisions are carried out now, in the order given, each wholly or not at all.",
)
BATCH = Rule(
    "4.2",
    "What a request does",
    "All that happens at one instant goes out in one batch; a batch never stops in the middle of "
    "an instant.",
)
DEFAULT_WAKE = Rule(
    "4.3",
    "What wakes a client",
    "A client is woken at the end of the first instant at which there is an event it did not hear"
    " of, of a kind in `wake_on`. Its own decisions' echo counts too.",
)
ALWAYS_WAKES = Rule(
    "4.3",
    "What wakes a client",
    "Always, whatever `wake_on` says: `alarm`, `decision_rejected`.",
)
NOT_LOST = Rule(
    "4.3",
    "What wakes a client",
    "Events of other kinds are not lost; they are in the next batch. An unknown kind is an "
    "`invalid_message`.",
)
NO_JOB_ALLOCATED = Rule(
    "4.3",
    "What wakes a client",
    "A client MUST NOT name `job_allocated` unless `wake_on_allocation` is true",
)
ALLOCATION = Rule(
    "5.1",
    "Allocation",
    "Nodes MUST be at least one, each known, each once.",
)
PLACEMENTS = Rule(
    "5.1",
    "Allocation",
    "A job asks for `cores` cores and a `placement`:",
)
POWER = Rule(
    "5.7",
    "Power states",
    "A node is in one power state at any time, and goes from one to the next only so:",
)
RESEND = Rule(
    "6",
    "Resending and coming back",
    "A request of the same `seq` as the last one answered gets the same answer again, byte for "
    "byte, and nothing happens; one that differs from it is `out_of_order`.",
)
LAST_ANSWER = Rule(
    "6",
    "Resending and coming back",
    "The last answer of a session that is over can still be had so, by its `seq` alone, for the "
    "last 1000 sessions.",
)
DROP = Rule(
    "6",
    "Resending and coming back",
    "A client that resends MUST drop answers to requests it is done with: `events` or "
    "`simulation_ended` of another `seq`, or a second `welcome`.",
)
NONCE = Rule(
    "6",
    "Resending and coming back",
    "A `hello` sent again while its session is open gets the `welcome` of that session again, as "
    "it first was, and no second session opens: the `nonce` tells that it is the same.",
)
NONCE_DIFFERS = Rule(
    "6",
    "Resending and coming back",
    "One that differs in anything else is an `invalid_message`. An empty nonce is none.",
)
COMING_BACK = Rule(
    "6",
    "Resending and coming back",
    "A client that died MAY come back: `hello` with `session`. The `welcome` then has the current"
    " `seq` and `now_s`, and a `snapshot`:",
)
UNKNOWN_FIELDS = Rule(
    "7",
    "Evolution",
    "Both sides ignore fields they do not know, anywhere.",
)
UNKNOWN_EVENTS = Rule(
    "7",
    "Evolution",
    "Clients ignore events of kinds they do not know, in `events` and in `snapshot`.",
)
UNKNOWN_DECISIONS = Rule(
    "7",
    "Evolution",
    "A server refuses decisions and kinds in `wake_on` that it does not know, as "
    "`invalid_message`.",
)
VERSIONS = Rule(
    "7",
    "Evolution",
    "A `hello` lists all versions its client speaks; the server picks one and names it in "
    "`welcome`. If there is none, `unsupported_version` names both sides'.",
)
STOPS = Rule(
    "9",
    "The minimal client",
    "send `hello`, keep `session`, number `decisions` from 1, end at `simulation_ended` or an "
    "`error`;",
)
COUNTS = Rule(
    "9",
    "The minimal client",
    "count free cores by node: take those of a job it starts (all of a node for `whole_nodes`), "
    "and give them back when the job completes.",
)
WAITS_ON = Rule(
    "9",
    "The minimal client",
    "If `decision_rejected` names the allocation, the job waits on; a client that never expects "
    "this MAY stop there;",
)
EXIT_STATUS = Rule(
    "9",
    "The minimal client",
    "if it is a program of its own, end by itself: with exit status 0 after `simulation_ended`, "
    "with another when it stops before that.",
)
ALLOCATED = Rule(
    "5.7",
    "Power states",
    "starts as the last of its nodes is `on`, with the `nodes` and `cores` that `job_allocated` "
    "had.",
)
NO_WAKING = Rule(
    "5.7",
    "Power states",
    "else it is refused with `wrong_power_state`.",
)
APART = Rule(
    "11",
    "Security",
    "What a client sends reaches its own session only, but one thread answers all: a long request"
    " makes the others wait.",
)
