"""Environments, one class for each problem: learners train in it, Gymnasium offers it to others."""
