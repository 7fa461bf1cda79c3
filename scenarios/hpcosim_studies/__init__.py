"""Studies that reproduce the experiments of papers.

    from hpcosim_studies import STUDIES, reproduce_study

    if __name__ == "__main__":  # new processes import this module
        print(*STUDIES)  # ineps pairing-exp1 ...
        reproduce_study("ineps", Path("results/ineps"))

`catalogue` names every study. A paper's package holds what is particular to it: its runs, the
numbers it published and the layout of its tables and figures. The modules beside the papers hold
what studies share: `runs` (simulations as data), `study` (from runs to files), `rows` and
`measures` (tables), `figures` and `agents` (training with resume).
"""

from hpcosim_studies.catalogue import STUDIES, reproduce_study
from hpcosim_studies.errors import StudyError

__all__ = ["STUDIES", "StudyError", "reproduce_study"]
