"""The node-centric study of Stafford and Bosque (2024), week by week.

E. Stafford, J. L. Bosque, "Enhancing heterogeneous cluster efficiency through node-centric
scheduling", J. Supercomputing 80, 2024. Two schedulers that take jobs in order and choose nodes,
HighGFlops and LowPower, against MinMin, MaxMin and Duplex, on the weeks of the KIT FH2 log. Where
the paper is ambiguous, every reading is run; `scenarios/papers/node_centric/README.md` has the
results.
"""
