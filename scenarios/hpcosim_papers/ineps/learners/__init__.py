"""Training of pairing agents: assign queued jobs to nodes."""
