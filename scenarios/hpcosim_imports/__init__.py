"""Import of clusters and job records from workload managers.

`import_sacct` reads job records of Slurm's accounting, `import_slurm` reads the configuration of a
Slurm cluster, and `import_kubernetes` reads a table of containers with GPUs. Each returns what it
wrote and a report of everything that it dropped, guessed or did not model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcosim_imports.errors import ImportsError, InputError
    from hpcosim_imports.kubernetes import import_kubernetes
    from hpcosim_imports.report import ImportReport
    from hpcosim_imports.sacct.convert import import_sacct
    from hpcosim_imports.slurm.convert import import_slurm

__all__ = [
    "ImportReport",
    "ImportsError",
    "InputError",
    "import_kubernetes",
    "import_sacct",
    "import_slurm",
]

_MODULES = (
    ("errors", ("ImportsError", "InputError")),
    ("kubernetes", ("import_kubernetes",)),
    ("report", ("ImportReport",)),
    ("sacct.convert", ("import_sacct",)),
    ("slurm.convert", ("import_slurm",)),
)


def __getattr__(name: str) -> object:
    for module, names in _MODULES:  # imported on first use
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
