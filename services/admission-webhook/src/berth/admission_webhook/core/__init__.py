"""Decisions of admission-webhook that are not rules of the protocol: entries and certificates. No I/O, no clock."""
