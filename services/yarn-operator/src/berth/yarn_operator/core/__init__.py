"""Decisions about one node, as functions of data."""
