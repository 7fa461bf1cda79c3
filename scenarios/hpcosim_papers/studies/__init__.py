"""Studies that reproduce the experiments of papers.

    from hpcosim_papers.studies import STUDIES, Request, reproduce_study

    if __name__ == "__main__":  # new processes import this module
        print(*STUDIES)  # ineps pairing-exp1 ...
        reproduce_study(Request("ineps", Path("results/ineps")))

`STUDIES` lists all studies. The runs of a study are an experiment, such as
`scenarios/papers/ineps/experiments/ineps.yaml`. Each paper has a package with its published numbers
and the layout of its tables and figures. The modules beside these packages are shared: `study`
(simulates the runs and writes the files of a study; paths, measures, single simulations),
`figures` and `agents` (training).
"""

from hpcosim_papers.studies.study import STUDIES, Request, StudyError, reproduce_study

__all__ = ["STUDIES", "Request", "StudyError", "reproduce_study"]
