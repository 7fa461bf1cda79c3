"""Questions in words of a command line, their answers as text, and the client of a twin."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from hpcosim_protocol.errors import HpcosimError
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.overrides import value_of
from hpcosim_twin.answers.questions import KINDS, AnyQuestion, question_of
from hpcosim_twin.answers.table import (
    advice_lines,
    aligned,
    effect_lines,
    map_lines,
    queue_lines,
    ways_lines,
)
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_view.run.extracts import printable

TIMEOUT_S = 180.0
MAX_ANSWER_BYTES = 1 << 28
UNIX_S = 1e8
"""Numbers from here on are Unix times, those below durations, s."""
LINES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "queue": queue_lines,
    "ways": ways_lines,
    "advice": advice_lines,
    "map": map_lines,
    "what-if": effect_lines,
}
"""What the answers of some questions look like as text; others are shown as tables."""
_FIELD = re.compile(r"([a-z][a-z_]*)=(.*)", re.DOTALL)


class NoTwinError(HpcosimError):
    """A twin does not answer, or refuses a question."""

    exit_status = 1


def question_in(name: str, words: Sequence[str], job_id: int | None = None) -> AnyQuestion:
    """Return the question that words ask.

    Args:
        name: the type of the question, such as `ways`.
        words: `FIELD=VALUE`, with values in JSON or YAML. Other words are the values of its first
            text or list, such as options of sbatch.

    Raises:
        ForecastError: there is no such question or field, or a value is invalid.
    """
    values: dict[str, Any] = {} if job_id is None else {"job_id": job_id}
    plain_words = []
    for word in words:
        found = _FIELD.fullmatch(word)
        if found is None:
            plain_words.append(word)
            continue
        try:
            values[found[1]] = value_of(found[2], found[1])
        except ScenarioError as error:
            raise ForecastError(str(error)) from None
    if plain_words and name in KINDS:
        values |= _plain_values(name, plain_words)
    return question_of(name, values)


def _plain_values(name: str, words: list[str]) -> dict[str, Any]:
    for field in msgspec.structs.fields(KINDS[name]):
        described = msgspec.json.schema(field.type)
        if described.get("type") == "array":
            return {field.encode_name: words}
        if described.get("type") == "string" and len(words) == 1:
            return {field.encode_name: words[0]}
    raise ForecastError(f"{name}: expected FIELD=VALUE, got {words[0][:80]!r}")


def ask_twin(url: str, token: str, question: AnyQuestion) -> dict[str, Any]:
    """Return the answer of a running twin.

    Raises:
        NoTwinError: it does not answer, or refuses the question.
    """
    if not re.match(r"https?://", url):
        raise NoTwinError(f"{url[:80]}: expected the URL of a twin, such as http://127.0.0.1:28090")
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = Request(f"{url.rstrip('/')}/ask", msgspec.json.encode(question), headers)  # noqa: S310
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_S) as reply:
            found: dict[str, Any] = json.loads(reply.read(MAX_ANSWER_BYTES))
            return found
    except HTTPError as error:
        raise NoTwinError(_said(error)) from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise NoTwinError(f"{url}: no twin answers: {why}; start one with `hpcosim twin`") from None


def _said(error: HTTPError) -> str:
    """Return what a twin says of a question that it refuses."""
    text = error.read(1 << 16).decode(errors="replace").strip()
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the twin refuses the question with status {error.code}: {printable(text)[:300]}"


def text_of(name: str, answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an answer: first its tables, then its figures."""
    if name in LINES:
        yield from LINES[name](answer)
        if "record" in answer:
            yield f"record: {printable(answer['record'])}"
        return
    tables, figures = {}, []
    for key, value in answer.items():
        if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            tables[key] = [_flat(row) for row in value]
        else:
            flat = _flat({key: value})
            figures += [f"{_title(inner)}: {_shown(inner, each)}" for inner, each in flat.items()]
    for rows in tables.values():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        yield from aligned(
            [
                tuple(_title(column).upper() for column in columns),
                *(tuple(_shown(column, row.get(column)) for column in columns) for row in rows),
            ]
        )
        yield ""
    yield from figures


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}.")
        else:
            found[before + key] = value
    return found


def _title(key: str) -> str:
    return key.removesuffix("_s").replace("_", " ").replace(".", " ")


def _shown(key: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, list):
        return " to ".join(_shown(key, each) for each in value) if len(value) == 2 else str(value)
    if isinstance(value, float) and math.isfinite(value):
        if value > UNIX_S:
            return datetime.fromtimestamp(round(value)).isoformat()
        return f"{value:.4g} s" if key.endswith("_s") else f"{value:.4g}"
    return printable(str(value))
