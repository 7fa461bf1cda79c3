"""Pictures of a results folder."""
