"""The protocol's custom resources: which of them a cluster lacks, and how they are installed."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from berth.cli.errors import EXIT_BAD, CliError
from berth.kube import CUSTOM_RESOURCE_DEFINITIONS, Kube, Resource, Selection

SERVED_TIMEOUT_S = 30.0
POLL_S = 0.1
NOT_FOUND = 404
CONFLICT = 409


def folder() -> Path:
    """Where the definitions lie, one file each."""
    return Path(str(files("berth.contracts") / "crds"))


def definitions() -> list[dict[str, Any]]:
    """The definitions that come with the contract."""
    return [msgspec.json.decode(path.read_bytes()) for path in sorted(folder().glob("*.json"))]


def resource_of(definition: dict[str, Any]) -> Resource:
    """The kind that a definition defines."""
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    return Resource(spec["group"], version, spec["names"]["plural"], spec["scope"] == "Namespaced")


async def lacking(kube: Kube, every: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the definitions whose kind this cluster does not serve."""

    async def is_served(definition: dict[str, Any]) -> bool:
        answer = await kube.page(Selection(resource_of(definition)), limit=1)
        return answer.status != NOT_FOUND

    served = await asyncio.gather(*map(is_served, every))
    return [definition for definition, here in zip(every, served, strict=True) if not here]


async def install(kube: Kube, wanted: list[dict[str, Any]]) -> None:
    """Create definitions; their kinds are served a moment later. Raises CliError with the server's refusal."""

    async def create(definition: dict[str, Any]) -> None:
        answer = await kube.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, field_manager="berth")
        if not answer.ok and answer.status != CONFLICT:
            name = definition["metadata"]["name"]
            raise CliError(f"--install-crds: {name}: {answer.status or 'no answer'} {answer.message}")

    await asyncio.gather(*map(create, wanted))


async def until_served(kube: Kube, wanted: list[dict[str, Any]]) -> None:
    """Return once the kinds of these definitions are served. Raises CliError when they never are."""
    deadline = asyncio.get_running_loop().time() + SERVED_TIMEOUT_S
    while wanted := await lacking(kube, wanted):
        if asyncio.get_running_loop().time() > deadline:
            names = sorted(each["metadata"]["name"] for each in wanted)
            raise CliError(f"installed, but not served after {SERVED_TIMEOUT_S:.0f} s: {names}", EXIT_BAD)
        await asyncio.sleep(POLL_S)
