"""Webhooks of the simulated API: which are called for a request, and what becomes of it."""
