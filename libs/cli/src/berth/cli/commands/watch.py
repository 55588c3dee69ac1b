"""`berth watch`: events as they happen."""

from __future__ import annotations

import asyncio
import sys
import time

from berth.bus import Message
from berth.cli.bus_options import BusOptions
from berth.cli.connect import connected
from berth.cli.errors import CliError
from berth.cli.lines import event_line, stamped
from berth.cli.output import columns, fitted, is_live
from berth.contracts.buckets import EVENTS as EVENT_STREAM
from berth.contracts.catalogue import CHANNELS
from berth.contracts.subjects import PREFIX

EVENTS = f"{PREFIX}.evt"
_PHASES = ("pending", "available", "succeeded", "failed")


def subject_of(pattern: str) -> str:
    """The subject to listen on: `placement`, `placement.bound`, `*.refused.>`, or a whole subject. Raises CliError."""
    text = pattern.strip()
    if not text or text == ">":
        return f"{EVENTS}.>"
    if any(char.isspace() for char in text) or ".." in text or text.startswith(".") or text.endswith("."):
        raise CliError(f"{pattern!r} is not a pattern: write words joined by dots, such as placement.bound")
    if text.startswith(f"{PREFIX}.") and not text.startswith(f"{EVENTS}."):
        return text
    words = text.removeprefix(f"{EVENTS}.")
    if not any(_may_match(words.split("."), kind) for kind in _kinds()):
        raise CliError(f"no event is called {pattern!r}; there are\n{_families()}")
    return text if text != words else f"{EVENTS}.{text}" if text.endswith(">") else f"{EVENTS}.{text}.>"


def _kinds() -> list[tuple[str, str]]:
    """Family and kind of every event there is: `placement`, `bound`."""
    patterns = [channel.pattern.removeprefix(f"{EVENTS}.") for channel in CHANNELS if channel.place == EVENT_STREAM]
    found: dict[tuple[str, str], None] = {}
    for pattern in patterns:
        family, kind = pattern.split(".")[:2]
        for each in _PHASES if kind == "<phase>" else [kind]:
            found[family, each] = None
    return list(found)


def _may_match(words: list[str], kind: tuple[str, str]) -> bool:
    for word, name in zip(words, kind, strict=False):
        if word == ">":
            return True
        if word not in ("*", name):
            return False
    return True


def _families() -> str:
    families: dict[str, list[str]] = {}
    for family, kind in _kinds():
        families.setdefault(family, []).append(kind)
    rows = [(family, " ".join(kinds)) for family, kinds in families.items()]
    return "\n".join(columns(rows, indent="  "))


async def watch(pattern: str, *, bus: BusOptions, as_json: bool) -> int:
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

    async with connected(bus) as link:
        await link.subscribe(subject, show)
        print(f"listening on {subject}", file=sys.stderr)
        await gone
    return 0
