"""Builders, fixtures and servers for tests."""
