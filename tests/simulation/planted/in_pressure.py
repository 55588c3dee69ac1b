"""Bugs of evictions for the sake of nodes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

from berth.slo_manager.core.evicting import answering

Planted = AbstractContextManager[object]


def covered_twice() -> Planted:
    """Who leaves already covers nothing."""
    return patch.object(answering, "_leaving", lambda tenants, entries: iter(()))
