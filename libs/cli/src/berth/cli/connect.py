"""A connection to the bus of a running control plane: named by option, by environment, or by the run file."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from berth.bus import Bus, BusError, BusSettings
from berth.cli.bus_options import RUN, BusOptions, variable
from berth.cli.errors import CliError
from berth.cli.program import program
from berth.cli.runfile import Run, chosen
from berth.runtime.run import bus_settings
from berth.runtime.settings import ServiceSettings, SettingsError, load_settings
from berth.telemetry.redaction import redacted_text

CONNECT_TIMEOUT_S = 4.0
SHOW_AFTER_S = 1.0
"""A connection that takes longer is spoken of, or given up if nobody listens."""
PROBE_TIMEOUT_S = 0.5
PORTS = {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443}
NAME = "berth-cli"
FILES = ("--nats-password-file", "--nats-creds-file", "--nats-ca-file")


def environment_for(options: BusOptions) -> dict[str, str]:
    """The variables with which a service reaches the same bus. Raises CliError when nobody says where it is."""
    given = {name: value for name, value in os.environ.items() if name.startswith("BERTH_NATS_") and value.strip()}
    given |= {variable(option): value for option, value in options.items() if option != RUN}
    if RUN in options and "--nats" in options:
        raise CliError("--run and --nats exclude each other")
    if "BERTH_NATS_URL" not in given or RUN in options:
        run = run_of(options)
        if run is None:
            raise CliError(
                f"nothing is running here: start it with `{program()} up` (or `demo --keep`), "
                "or name the bus with --nats URL or BERTH_NATS_URL"
            )
        given["BERTH_NATS_URL"] = run.nats_url
    return given


def run_of(options: BusOptions) -> Run | None:
    """The run of this machine that is asked; None when the bus is named otherwise, or nothing runs. Raises CliError."""
    if RUN not in options and ("--nats" in options or os.environ.get("BERTH_NATS_URL", "").strip()):
        return None
    return chosen(options.get(RUN, ""))


def asked(options: BusOptions) -> str:
    """Who is asked, for people: the run of this machine, or the bus."""
    run = run_of(options)
    return run.shown if run else f"bus {redacted_text(environment_for(options)['BERTH_NATS_URL'])}"


def settings_for(options: BusOptions) -> BusSettings:
    """How to reach the bus. Raises CliError naming the option or variable that cannot be used."""
    environment = environment_for(options)
    for option in FILES:
        path = environment.get(variable(option), "")
        if path and not os.access(path, os.R_OK):
            raise CliError(f"{option if option in options else variable(option)}: {path} cannot be read")
    try:
        return bus_settings(load_settings(ServiceSettings, environment), name=NAME)
    except SettingsError as error:
        text = str(error)
        for option in options:
            text = text.replace(f"{variable(option)}: ", f"{option}: ")
        raise CliError(text) from error


@asynccontextmanager
async def connected(options: BusOptions, *, is_answer: bool = True) -> AsyncIterator[Bus]:
    """The bus, for the length of a command. Raises CliError when it does not answer in a few seconds.

    After one second without it this is shown on standard error, or it ends there because no server can be reached.
    Once it answers, standard error says who is asked, where the command is an answer.
    """
    async with _connected(settings_for(options), is_shown=True) as bus:
        if is_answer:
            print(f"asking {asked(options)}", file=sys.stderr)
        yield bus


@asynccontextmanager
async def embedded(url: str) -> AsyncIterator[Bus]:
    """The bus that we have started ourselves, so that the environment's users and files don't concern it."""
    async with _connected(BusSettings(url=url, name=NAME), is_shown=False) as bus:
        yield bus


@asynccontextmanager
async def _connected(settings: BusSettings, *, is_shown: bool) -> AsyncIterator[Bus]:
    shown = redacted_text(settings.url)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            bus = await _connect(settings, shown, is_shown=is_shown)
    except TimeoutError as error:
        raise CliError(
            f"cannot connect to the bus at {shown}: is it running, are address, user and certificates right "
            "(--nats URL, --nats-user, ...)?"
        ) from error
    except (BusError, OSError, ValueError) as error:
        raise CliError(f"cannot use the bus at {shown}: {error}") from error
    try:
        yield bus
    finally:
        await bus.close()


async def _connect(settings: BusSettings, shown: str, *, is_shown: bool) -> Bus:
    connecting = asyncio.create_task(Bus.connect(settings, service="cli"))
    try:
        await asyncio.wait({connecting}, timeout=SHOW_AFTER_S)
        if is_shown and not connecting.done():
            reasons = await asyncio.gather(*map(_unreachable, settings.urls))
            if connecting.done():
                return await connecting
            if all(reasons):
                text = "; ".join(reasons)
                raise CliError(f"cannot connect to the bus at {shown}: {text}. Is it running, is the address right?")
            print(f"connecting to {shown} ...", file=sys.stderr)
        return await connecting
    finally:
        if not connecting.done():
            connecting.cancel()
            await asyncio.wait({connecting})


async def _unreachable(url: str) -> str:
    """Why this server refuses even to be talked to; empty when it does not, or is only slow."""
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or PORTS[parts.scheme])
    except TimeoutError:
        return ""
    except OSError as error:
        return str(error) or type(error).__name__
    writer.close()
    return ""
