"""Checks of ledger and cluster against the promises of docs/guarantees.md, as one pure module."""
