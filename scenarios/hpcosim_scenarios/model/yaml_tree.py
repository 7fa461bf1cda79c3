"""Reader for the YAML files of users, with numbers of YAML 1.2, unique keys and lines of fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hpcosim_protocol.files import read_regular
from hpcosim_scenarios.errors import ScenarioError

MERGE = "tag:yaml.org,2002:merge"


MOST_BYTES = 2**20


class DuplicateKeyError(yaml.MarkedYAMLError):  # type: ignore[misc]
    """A mapping has a key twice."""


class ExpansionError(yaml.MarkedYAMLError):  # type: ignore[misc]
    """Aliases expand a document to too many values, or without end."""


MOST_NODES = 1_000_000
"""Maximum number of scalars, lists and mappings in a document, after expansion of aliases."""

_Loader: Any = type("_Loader", (yaml.SafeLoader,), {})

# PyYAML reads YAML 1.1, in which 1e10 is text, off is false, 7_1 is 71 and 1:30 is 90. In YAML 1.2
# 1e10 is a number and the others are text (core schema, https://yaml.org/spec/1.2.2/#103-core-schema).
_YAML_1_1 = ("bool", "int", "float")
_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0].rpartition(":")[2] not in _YAML_1_1]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(f"(?:{_pattern})\\Z"), list(_first)
    )


MOST_DIGITS = 100


def _integer(loader: Any, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    if len(text) > MOST_DIGITS:  # Python refuses to print it, and takes long to read it
        what = f"expected an integer of at most {MOST_DIGITS} characters, got {len(text)}"
        raise yaml.constructor.ConstructorError(problem=what, problem_mark=node.start_mark)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)


def _text(loader: Any, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if any("\ud800" <= letter <= "\udfff" for letter in text):  # UTF-8 has no bytes for it
        what = "expected Unicode text, got half of a surrogate pair"
        raise yaml.constructor.ConstructorError(problem=what, problem_mark=node.start_mark)
    return text


_Loader.add_constructor("tag:yaml.org,2002:str", _text)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _text)  # YAML 1.2 has no dates


def _mapping(loader: Any, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
    """Construct a mapping; PyYAML would let the last of several equal keys win."""
    lines: dict[Any, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
            continue
        name, line = loader.construct_object(key), key.start_mark.line + 1
        if name in lines:
            what = f"the key {name!r} is there twice; the first is at line {lines[name]}"
            raise DuplicateKeyError(problem=what, problem_mark=key.start_mark)
        lines[name] = line
    yield from loader.construct_yaml_map(node)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str) -> Any:
    """Return the plain data in a YAML text.

    Raises:
        DuplicateKeyError: a mapping has a key twice.
        yaml.YAMLError: the text is not YAML.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_expansion(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_expansion(root: yaml.Node) -> None:
    """Bound the nodes of a document in which each alias is replaced by its anchor.

    A kilobyte of aliases of aliases, or of merge keys, names billions.

    Raises:
        ExpansionError: it has more than `MOST_NODES`, or an alias names what it is in.
    """
    sizes: dict[int, int] = {}
    todo = [(root, False)]
    while todo:
        node, is_counted = todo.pop()
        if id(node) in sizes and not is_counted:
            if not sizes[id(node)]:  # its children are being counted
                what = "an alias names a list or mapping that it is in"
                raise ExpansionError(problem=what, problem_mark=node.start_mark)
            continue
        inner = _inner(node)
        if is_counted:
            sizes[id(node)] = 1 + sum(sizes[id(each)] for each in inner)
            if sizes[id(node)] > MOST_NODES:
                what = f"its aliases expand it to more than {MOST_NODES} values"
                raise ExpansionError(problem=what, problem_mark=node.start_mark)
        else:
            sizes[id(node)] = 0
            todo.append((node, True))
            todo += [(each, False) for each in inner]


def _inner(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def steps_of(field: str) -> list[str | int]:
    """Return the keys and list positions of a field such as `$.platform.nodes[0].count`."""
    steps = re.findall(r'\.([A-Za-z_]\w*)|\["([^"]*)"\]|\[(\d+)\]', field)
    return [int(place) if place else name or quoted for name, quoted, place in steps]


def line_of(text: str, field: str, key: str | None) -> int | None:
    """Return the line of a field such as `$.platform.nodes[0]`, or of a key in it.

    If the field is absent, it is the line of the innermost mapping or list that should have it.
    """
    node = yaml.compose(text, Loader=_Loader)
    for step in steps_of(field):
        inner = _item(node, step) if isinstance(step, int) else _child(node, step)
        if inner is None:
            break
        node = inner
    if key is not None and isinstance(node, yaml.MappingNode):
        node = next((name for name, _ in node.value if name.value == key), node)
    return node.start_mark.line + 1 if node is not None else None


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _item(node: yaml.Node | None, position: int) -> yaml.Node | None:
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    return items[position] if position < len(items) else None


def read_tree(path: Path, what: str) -> Any:
    """Return the plain data in a YAML file.

    Args:
        path: the file.
        what: what the file should contain, such as `scenario`, for messages.

    Raises:
        ScenarioError: the file cannot be read, or is not YAML.
    """
    text = read_text(path, what)
    try:
        return parse_yaml(text)
    except DuplicateKeyError as error:
        raise ScenarioError(str(error.problem), path, error.problem_mark.line + 1) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ScenarioError(f"is not YAML: {error.problem}", path, line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError(f"is not YAML: {' '.join(str(error).split())}", path) from None
    except RecursionError:
        raise ScenarioError(f"is nested too deeply for {_a(what)}", path) from None


def read_text(path: Path, what: str) -> str:
    """Return the text of a YAML file of at most `MOST_BYTES`.

    Arguments are those of `read_tree`.

    Raises:
        ScenarioError: the file cannot be read, is too large, or is not UTF-8.
    """
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            expected = f"expected {_a(what)} of at most {MOST_BYTES} bytes, got {size} bytes"
            raise ScenarioError(expected, path)
        return read_regular(path, MOST_BYTES).decode()
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise ScenarioError("expected text in UTF-8", path) from None
    except ValueError as error:  # a null byte in the path
        raise ScenarioError(f"cannot be read: {error}", path) from None


def _a(what: str) -> str:
    """Return a noun with its article."""
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"
