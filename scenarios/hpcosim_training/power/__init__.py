"""Training power managers."""
