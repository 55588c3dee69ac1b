"""What the API server says of every pod, by uid, through one watch in the order of its changes.

Every bind is counted at once: a device given out beyond a whole is seen although its holder is gone a moment later,
and so is a pod that is bound to a second node. Nothing here comes from the product.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from berth.cli.errors import CliError
from berth.cli.load.api import Api

PODS = "/api/v1/pods"
RETRY_PAUSE_S = 0.2
WHOLE = 100
DEVICES = "scheduling.koordinator.sh/device-allocated"
_PERCENT = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
_ENDED = ("Succeeded", "Failed")


@dataclass(slots=True)
class Life:
    """One pod. Times are of the running loop; `bound` is -1 while it has no node. Versions are the API server's: as it
    was first seen, and as it was first seen on a node."""

    name: str
    sent: float
    born_version: int
    bound: float = -1.0
    bound_version: int = 0
    node: str = ""
    refusal: str = ""
    gone: bool = False
    shares: list[tuple[str, int, str, int]] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """It has a node, or a reason why not, or it is gone."""
        return bool(self.node or self.refusal) or self.gone


class Eyes:
    """Follows all pods; `doubled` holds what must never be, in words."""

    def __init__(self, api: Api) -> None:
        self.lives: dict[str, Life] = {}
        self.newest: dict[str, Life] = {}
        self.sent: dict[str, float] = {}
        self.doubled: list[str] = []
        self.seen = asyncio.Event()
        self._held: Counter[tuple[str, int, str]] = Counter()
        self._here: set[str] = set()
        self._api = api
        self.on_bound: Callable[[], None] | None = None

    def sending(self, name: str) -> None:
        """A pod of this name is about to be created."""
        self.sent[name] = asyncio.get_running_loop().time()

    def is_here(self, name: str) -> bool:
        """A pod of this name exists."""
        life = self.newest.get(name)
        return life is not None and not life.gone

    async def run(self) -> None:
        """List and watch until cancelled, anew whenever the watch ends."""
        while True:
            try:
                version = await self._list()
                self.seen.set()
                async for line in self._api.lines(f"{PODS}?watch=1&resourceVersion={version}"):
                    if not self._take(msgspec.json.decode(line)):
                        break
            except (aiohttp.ClientError, TimeoutError, OSError, CliError):
                pass
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _list(self) -> str:
        answer = await self._api.get(PODS)
        listed = {pod["metadata"]["uid"] for pod in answer["items"]}
        for uid in self._here - listed:  # deleted while nobody watched
            self._end(uid)
        for pod in answer["items"]:
            self._see(pod)
        return str(answer["metadata"]["resourceVersion"])

    def _take(self, event: dict[str, Any]) -> bool:
        match event["type"]:
            case "ADDED" | "MODIFIED":
                self._see(event["object"])
            case "DELETED":
                self._end(event["object"]["metadata"]["uid"])
        return event["type"] != "ERROR"

    def _see(self, pod: dict[str, Any]) -> None:
        meta, now = pod["metadata"], asyncio.get_running_loop().time()
        uid, version = meta["uid"], int(meta["resourceVersion"])
        life = self.lives.get(uid)
        if life is None:
            life = Life(meta["name"], self.sent.get(meta["name"], now), version)
            self.lives[uid] = self.newest[life.name] = life
            self._here.add(uid)
        node = pod["spec"].get("nodeName", "")
        if node and not life.node:
            life.node, life.bound, life.bound_version = node, now, version
            self._hold(life, meta.get("annotations", {}))
            if self.on_bound is not None:
                self.on_bound()
        elif node != life.node:
            self.doubled.append(f"{life.name} ({uid}) was bound to {life.node} and then to {node or 'nothing'}")
        life.refusal = refusal_of(pod)
        if pod.get("status", {}).get("phase") in _ENDED:
            self._release(life)

    def _hold(self, life: Life, annotations: dict[str, str]) -> None:
        grants = json.loads(annotations[DEVICES]).get("gpu", []) if DEVICES in annotations else []
        for grant in grants:
            for name in _PERCENT:
                amount = int(grant["resources"].get(name, "0"))
                key = (life.node, grant["minor"], name)
                life.shares.append((*key, amount))
                self._held[key] += amount
                if self._held[key] > WHOLE:
                    self.doubled.append(
                        f"{life.name}: {life.node} minor {key[1]} is given out to {self._held[key]} % of {name}"
                    )

    def _release(self, life: Life) -> None:
        for node, minor, name, amount in life.shares:
            self._held[node, minor, name] -= amount
        life.shares.clear()

    def _end(self, uid: str) -> None:
        self._here.discard(uid)
        life = self.lives.get(uid)
        if life is not None:
            life.gone = True
            self._release(life)


def refusal_of(pod: dict[str, Any]) -> str:
    """The message of PodScheduled=False with reason Unschedulable."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", "")) if condition.get("reason") == "Unschedulable" else ""
    return ""
