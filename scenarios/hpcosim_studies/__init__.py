"""Studies that reproduce the experiments of papers.

    from hpcosim_studies import STUDIES, reproduce_study

    if __name__ == "__main__":  # new processes import this module
        print(*STUDIES)  # ineps pairing-exp1 ...
        reproduce_study("ineps", Path("results/ineps"))

`catalogue` lists every study. The package of a paper has its runs, its published numbers and the
layout of its tables and figures. The other modules are shared: `runs` (simulations as data),
`study` (from runs to files), `rows` and `measures` (tables), `figures`, and `agents` (training with
resume).
"""

from hpcosim_studies.catalogue import STUDIES, reproduce_study
from hpcosim_studies.errors import StudyError

__all__ = ["STUDIES", "StudyError", "reproduce_study"]
