"""Studies that reproduce the experiments of papers.

`catalogue` names every study. A paper's package holds what is particular to it: its runs, the
numbers it published and the layout of its tables and figures. The modules beside the papers hold
what studies share: `runs` (simulations as data), `study` (from runs to files), `rows` and
`measures` (tables), `figures` and `agents` (training with resume).
"""
