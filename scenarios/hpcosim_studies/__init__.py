"""Studies that reproduce the experiments of papers.

    from hpcosim_studies import STUDIES, reproduce_study

    if __name__ == "__main__":  # new processes import this module
        print(*STUDIES)  # ineps pairing-exp1 ...
        reproduce_study("ineps", Path("results/ineps"))

`catalogue` lists all studies. Each paper has a package with its runs, its published numbers and
the layout of its tables and figures. The modules beside these packages are shared: `runs`
(simulations as data), `study` (writes the files of a study), `rows` and `measures` (tables),
`figures`, `agents` (training), `pool` (processes) and `papers` (paths).
"""

from hpcosim_studies.catalogue import STUDIES, reproduce_study
from hpcosim_studies.errors import StudyError

__all__ = ["STUDIES", "StudyError", "reproduce_study"]
