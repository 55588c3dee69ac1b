"""Decisions as functions of data: whose token it is, and what its owner may do on the bus."""
