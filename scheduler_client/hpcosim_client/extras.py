"""Packages of the optional extra `rl`, and the error if one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hpcosim_client.errors import PolicyError

PACKAGES = ("torch", "safetensors", "gymnasium", "tensorboard")


@contextmanager
def rl_extra(who: str) -> Iterator[None]:
    """Turn a failed import of one of `PACKAGES` into a `PolicyError`.

    Args:
        who: subject of the message, such as `the scheduler pairing`.

    Raises:
        PolicyError: a package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise PolicyError(f"{who} needs {error.name}: pip install 'hpcosim[rl]'") from None
