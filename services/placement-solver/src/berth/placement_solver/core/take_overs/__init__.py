"""Reservations that take over pods that run (pre-allocation): which pods those are, and where it is enough."""
