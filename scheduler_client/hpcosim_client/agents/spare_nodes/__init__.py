"""The power manager that corrects the plans of `hpcosim_client.predictive` by a network."""
