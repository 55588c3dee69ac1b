"""Replays of recorded clusters and workloads: load, measurements, and whether everything was right."""
