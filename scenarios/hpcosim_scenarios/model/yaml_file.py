"""Reader for the YAML files of users: scenarios and experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hpcosim_protocol.files import read_regular
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.yaml_lines import DuplicateKeyError, parse_yaml

MOST_BYTES = 2**20


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
