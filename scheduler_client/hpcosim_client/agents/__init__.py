"""Trained agents, evaluated with NumPy. `hpcosim_training` trains them."""
