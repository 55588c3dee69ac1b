"""`berth watch`: events as they happen."""

from __future__ import annotations

import asyncio
import sys
import time

from berth.bus import Message
from berth.cli.connect import connected
from berth.cli.errors import CliError
from berth.cli.lines import event_line, stamped
from berth.cli.output import fitted, is_live
from berth.contracts.subjects import PREFIX

EVENTS = f"{PREFIX}.evt"


def subject_of(pattern: str) -> str:
    """The subject to listen on: `placement`, `placement.bound`, `*.refused.>`, or a whole subject. Raises CliError."""
    text = pattern.strip()
    if not text or text == ">":
        return f"{EVENTS}.>"
    if any(char.isspace() for char in text) or ".." in text or text.startswith(".") or text.endswith("."):
        raise CliError(f"{pattern!r} is not a pattern: write words joined by dots, such as placement.bound")
    if text.startswith(f"{PREFIX}."):
        return text
    return f"{EVENTS}.{text}" if text.endswith(">") else f"{EVENTS}.{text}.>"


async def watch(pattern: str, *, nats: str | None, as_json: bool) -> int:
    """Print events until interrupted."""
    subject = subject_of(pattern)
    gone = asyncio.get_running_loop().create_future()

    async def show(message: Message) -> None:
        if gone.done():
            return
        try:
            if as_json:
                print(message.data.decode(errors="replace"), flush=True)
            else:
                line = stamped(event_line(message.data), time.time())
                print(fitted(line) if is_live() else fitted(line, 4096), flush=True)
        except BrokenPipeError as error:
            gone.set_exception(error)

    async with connected(nats) as bus:
        await bus.subscribe(subject, show)
        print(f"listening on {subject}", file=sys.stderr)
        await gone
    return 0
