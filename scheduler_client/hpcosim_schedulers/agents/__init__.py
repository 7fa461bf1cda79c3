"""Trained agents, evaluated with NumPy. `hpcosim_gym` trains them."""
