"""Logs, traces, metrics and health of a Berth service."""
