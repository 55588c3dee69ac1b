"""Run one command's coroutine: signals cancel it, so that every way out passes through its clean-up."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from berth.cli.errors import EXIT_INTERRUPTED, EXIT_TERMINATED, CliError
from berth.cli.fullness import unwritten
from berth.cli.stack.process import StartError

_CODES = {signal.SIGINT: EXIT_INTERRUPTED, signal.SIGTERM: EXIT_TERMINATED, signal.SIGHUP: EXIT_TERMINATED}


def run(main: Coroutine[Any, Any, int]) -> int:
    """The exit code of a command. A first signal cancels it; a second one ends the process at once."""
    logging.getLogger("berth").addHandler(logging.NullHandler())
    logging.getLogger("nats").addHandler(logging.NullHandler())
    # asyncio says so of every connection with TLS that the other side ends.
    logging.getLogger("asyncio").addFilter(lambda record: "eof_received" not in str(record.msg))
    try:
        return asyncio.run(_guarded(main))
    except (CliError, StartError) as error:
        print(f"berth: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError as error:
        return unwritten(error)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            raise
        return unwritten(error)


async def _guarded(main: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main)
    got: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        if got:
            os._exit(_CODES[number])
        got.append(number)
        task.cancel()

    for number in _CODES:
        with contextlib.suppress(ValueError, NotImplementedError):
            loop.add_signal_handler(number, on_signal, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not got:
            raise
        return _CODES[got[0]]
