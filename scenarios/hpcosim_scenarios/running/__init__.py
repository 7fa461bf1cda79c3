"""Running scenarios: in one process, in two, served, and with several schedulers."""
