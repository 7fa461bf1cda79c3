"""Batsim's input files: platforms, workloads, profiles and external events."""
