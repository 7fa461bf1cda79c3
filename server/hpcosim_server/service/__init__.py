"""Clients served: sessions, messages and the socket."""
