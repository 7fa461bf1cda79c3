"""Batsim's formats and protocol: its inputs read, its outputs written, its schedulers served."""
