"""Node-centric scheduling (Stafford, Bosque 2024): the study, week by week.

E. Stafford, J. L. Bosque, "Enhancing heterogeneous cluster efficiency through node-centric
scheduling", J. Supercomputing 80, 2024. The study compares HighGFlops and LowPower, which take jobs
in queue order and choose nodes, with MinMin, MaxMin and Duplex on the weeks of the KIT FH2 log.
Where the paper is ambiguous, every interpretation is run. The results are in
`scenarios/papers/node_centric/README.md`.
"""
