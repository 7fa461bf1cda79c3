"""Import of clusters and job records from workload managers.

`import_sacct` reads job records of Slurm's accounting, `import_accounting` those of PBS, LSF, Grid
Engine and OAR, `import_slurm` reads the configuration of a Slurm cluster, and `import_kubernetes` a
table of containers with GPUs. Each returns what it wrote and a report of everything that it
dropped, guessed or did not model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_slurm.files.accounting import import_accounting as import_accounting
    from hpcosim_slurm.files.kubernetes import import_kubernetes as import_kubernetes
    from hpcosim_slurm.files.output import InputError as InputError
    from hpcosim_slurm.files.report import ImportReport as ImportReport
    from hpcosim_slurm.files.sacct import import_sacct as import_sacct
    from hpcosim_slurm.files.slurm.convert import import_slurm as import_slurm

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "accounting": "import_accounting",
        "kubernetes": "import_kubernetes",
        "output": "InputError",
        "report": "ImportReport",
        "sacct": "import_sacct",
        "slurm.convert": "import_slurm",
    },
)
