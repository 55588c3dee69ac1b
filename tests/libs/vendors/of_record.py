"""What a container gets for the text of its pod's `device-allocated`."""

from __future__ import annotations

from typing import Any

from berth.contracts.base import Problem
from berth.vendors.containers import edits
from berth.vendors.given import read_given
from berth.vendors.probe import Probe
from berth.vendors.vendor import Container, Edits


def edits_of_record(text: str, container: Container, probe: Probe, **more: Any) -> Edits | Problem:
    """The edits; a problem where the text cannot be read or honoured."""
    given = read_given(text)
    return given if isinstance(given, Problem) else edits(given, container, probe, **more)
