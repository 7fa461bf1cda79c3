"""Readers of job files (SWF, JSON lines, CQSim results), and the catalogue of known logs."""
