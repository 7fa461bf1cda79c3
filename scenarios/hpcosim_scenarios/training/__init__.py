"""Training of the learned power manager. All but the environment needs the extra `rl`."""
