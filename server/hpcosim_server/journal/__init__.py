"""Journals: one append-only file per session, from which the session can be restored."""
