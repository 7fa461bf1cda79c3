"""The study of power management: timeouts, curricula, metrics, sensitivity, Pareto front.

The paper is "Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management
System for HPC Clusters Using Curriculum Learning". Sections and figures in this package are those
of the paper. `scenarios/papers/power/README.md` has the results.
"""
