"""YAML 1.2 numbers, and the line at which a field of a YAML file stands."""

from __future__ import annotations

import re
from typing import Any

import yaml

# PyYAML reads YAML 1.1, in which 1e10 and 1.5e10 are text; in YAML 1.2 they are numbers.
_Loader: Any = type("_Loader", (yaml.SafeLoader,), {})
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)\Z"),
    list("-+.0123456789"),
)


def _text(loader: Any, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # UTF-8 has no bytes for it
        what = "half of a surrogate pair is no letter"
        raise yaml.constructor.ConstructorError(problem=what, problem_mark=node.start_mark)
    return text


_Loader.add_constructor("tag:yaml.org,2002:str", _text)


def parse_yaml(text: str) -> Any:
    """Return what a YAML text holds, plain data only.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def line_of(text: str, field: str, key: str | None) -> int | None:
    """Return the line of a field such as `$.platform.nodes[0]`, or of a key in it.

    Where there is no such place, it is the line of what should hold it.
    """
    node = yaml.compose(text, Loader=_Loader)
    steps = re.findall(r'\.([A-Za-z_]\w*)|\["([^"]*)"\]|\[(\d+)\]', field)
    for name, quoted, place in steps:
        inner = _item(node, int(place)) if place else _child(node, name or quoted)
        if inner is None:
            break
        node = inner
    if key is not None and isinstance(node, yaml.MappingNode):
        node = next((name for name, _ in node.value if name.value == key), node)
    return node.start_mark.line + 1 if node is not None else None


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _item(node: yaml.Node | None, place: int) -> yaml.Node | None:
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    return items[place] if place < len(items) else None
