"""Trained power managers: agent, environment, learners and study."""
