"""Labels of the values of an axis: short texts, unique within the axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpcosim_experiments.statistics.rows import Label

MOST_CHARACTERS = 60


def labels_of(values: Sequence[object]) -> list[Label]:
    """Return the labels of the values of an axis.

    Values of one scalar type (text, numbers, or true and false) are their own labels. Otherwise
    the labels are texts. Equal texts are numbered from the second on.

    Args:
        values: plain data.
    """
    if all(isinstance(value, str) for value in values) or all(
        isinstance(value, bool) for value in values
    ):
        return list(values)  # type: ignore[arg-type]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        real = any(isinstance(value, float) for value in values)
        return [float(value) if real else value for value in values]  # type: ignore
    return list(_unique([_shortened(text_of(value)) for value in values]))


def text_of(value: object) -> str:
    """Return a value as a label shows it.

    Example:
        >>> text_of({"name": "timeout", "timeout_s": 900}), text_of([0, 2000])
        ('timeout(timeout_s=900)', '0-2000')
    """
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case dict():
            return _of_mapping(value)
        case [int() | float() as first, int() | float() as last]:  # a window
            return f"{text_of(first)}-{text_of(last)}"
        case list():
            return f"[{_joined(text_of(item) for item in value)}]"
    return str(value)


def _of_mapping(value: Mapping[str, Any]) -> str:
    """Return the text of a mapping; its `name` or `model` comes first."""
    title = next((key for key in ("name", "model") if isinstance(value.get(key), str)), None)
    rest = _joined(f"{key}={text_of(item)}" for key, item in value.items() if key != title)
    if title is None:
        return rest or "{}"
    return f"{value[title]}({rest})" if rest else str(value[title])


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."


def _unique(texts: Sequence[str]) -> Iterable[str]:
    taken, counts = set(texts), Counter[str]()
    for text in texts:
        counts[text] += 1
        numbered = text
        while counts[text] > 1 and numbered in taken:
            numbered = f"{text} ({counts[text]})"
            counts[text] += numbered in taken
        taken.add(numbered)
        yield numbered
