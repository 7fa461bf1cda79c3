"""Simulate HPC clusters with job schedulers and power managers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim.version import __version__ as __version__

__all__, __getattr__, __dir__ = lazy_names(__name__, {"version": "__version__"})
