"""Turning other programs' graphs into a ComputationGraph; one file a format."""
