"""Schedulers and power managers by name."""
