"""How the bus is reached, as given on the command line: options with values, such as `--nats-user`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BusOptions = Mapping[str, str]
"""Options of the bus that were given, with their values."""


def variable(option: str) -> str:
    """The variable that an option goes before: `BERTH_NATS_URL` of `--nats`, `BERTH_NATS_USER` of `--nats-user`."""
    return "BERTH_NATS_URL" if option == "--nats" else "BERTH_" + option.removeprefix("--").replace("-", "_").upper()


RUN: Final = "--run"
"""The one option that names a run of this machine instead of saying how to reach its bus."""
