"""Run scenarios: in one process, in two processes, from a server, and with several schedulers."""
