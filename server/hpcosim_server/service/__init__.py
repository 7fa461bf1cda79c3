"""The service for clients: sessions, messages and the ZeroMQ socket."""
