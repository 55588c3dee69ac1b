"""Decisions as functions of data: no I/O, no clock, no randomness."""
