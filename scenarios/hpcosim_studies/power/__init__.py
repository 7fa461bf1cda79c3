"""The study of power management: timeouts, curricula, scheduling metrics, sensitivity, Pareto.

The paper is "Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management
System for HPC Clusters Using Curriculum Learning". Sections and figures named in this package are
its own. `scenarios/papers/power/README.md` has the results.
"""
