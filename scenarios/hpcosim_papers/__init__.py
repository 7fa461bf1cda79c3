"""Papers: one folder each, with agent, environments, learners and study."""
