"""The power manager that plans with samples of the future: `hpcosim_client.predictive.manager`."""
