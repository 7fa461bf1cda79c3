"""Batsim compatibility: input formats, scheduler protocol and output files of Batsim 4.2.1."""
