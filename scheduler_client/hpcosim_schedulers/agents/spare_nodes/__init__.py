"""The power manager that corrects the plans of `hpcosim_schedulers.predictive` by a network."""
