"""Options of the bus are understood before the command as well as behind it: `berth --server URL status`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BUS_OPTIONS: Final = (
    "--nats",
    "--server",
    "--nats-user",
    "--nats-password-file",
    "--nats-domain",
    "--nats-creds-file",
    "--nats-ca-file",
    "--run",
)


def command_first(tokens: Sequence[str]) -> list[str]:
    """The command line with the options of the bus that stand in front moved behind the command."""
    moved: list[str] = []
    rest = list(tokens)
    while rest:
        name, equals, _ = rest[0].partition("=")
        if name not in BUS_OPTIONS:
            break
        count = 1 if equals else 2
        moved += rest[:count]
        del rest[:count]
    return [rest[0], *moved, *rest[1:]] if rest else list(tokens)
