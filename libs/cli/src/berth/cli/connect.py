"""A connection to the bus of a running control plane: told by option, by environment, or by the run file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from berth.bus import Bus, BusError, BusSettings
from berth.cli.errors import CliError
from berth.cli.runfile import running
from berth.runtime.settings import ServiceSettings, SettingsError, load_settings

CONNECT_TIMEOUT_S = 4.0


def settings_for(nats: str | None) -> BusSettings:
    """How to reach the bus. Raises CliError when nobody says where it is."""
    url = nats or os.environ.get("BERTH_NATS_URL", "").strip()
    if not url:
        run = running()
        if run is None:
            raise CliError(
                "nothing is running here: start it with `berth up` (or `berth demo --keep`), "
                "or name the bus with --nats URL or BERTH_NATS_URL"
            )
        url = run.nats_url
    try:
        common = load_settings(ServiceSettings, {**os.environ, "BERTH_NATS_URL": url})
        return BusSettings(
            url=common.nats_url,
            user=common.nats_user,
            password_file=common.nats_password_file,
            creds_file=common.nats_creds_file,
            ca_file=common.nats_ca_file,
            name="berth-cli",
        )
    except (SettingsError, ValueError) as error:
        raise CliError(str(error)) from error


@asynccontextmanager
async def connected(nats: str | None, *, embedded: bool = False) -> AsyncIterator[Bus]:
    """The bus, for the length of a command. Raises CliError when it does not answer in a few seconds.

    `embedded`: the bus is one that we started ourselves, so the environment's users and files don't concern it.
    """
    settings = BusSettings(url=nats, name="berth-cli") if nats and embedded else settings_for(nats)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            bus = await Bus.connect(settings, service="cli")
    except TimeoutError as error:
        raise CliError(
            f"cannot connect to the bus at {settings.url}: is it running, and is the address right (--nats URL)?"
        ) from error
    except (BusError, OSError, ValueError) as error:
        raise CliError(f"cannot use the bus at {settings.url}: {error}") from error
    try:
        yield bus
    finally:
        await bus.close()
