"""What became of each pod, seen through one watch: when it was sent, when it was bound, what its condition says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import msgspec

from berth.cli.errors import CliError
from berth.cli.load.api import Api

PODS = "/api/v1/pods"
RETRY_PAUSE_S = 0.5


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] = []


class PodView(msgspec.Struct):
    """A pod as far as it matters here."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def refusal(self) -> str:
        """The message of PodScheduled=False."""
        return next((c.message for c in self.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")


class _List(msgspec.Struct):
    metadata: _Meta
    items: list[PodView]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


@dataclass(slots=True)
class Fate:
    """One pod, by time (of the running loop): sent, bound; -1 while it was not. `moved`: bound to two nodes in turn."""

    sent: float = -1.0
    bound: float = -1.0
    node: str = ""
    refusal: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    gone: bool = False
    moved: bool = False

    @property
    def is_settled(self) -> bool:
        """It has a node, or a reason why not, or was deleted."""
        return bool(self.node or self.refusal) or self.gone


class PodWatch:
    """Follows all pods of an API server."""

    def __init__(self, api: Api, on_change: Callable[[str, Fate], None] = lambda name, fate: None) -> None:
        self.fates: dict[str, Fate] = {}
        self.bound = 0
        self.last_change = 0.0
        self.seen = asyncio.Event()
        """Set once the first list was read."""
        self._api = api
        self._on_change = on_change
        self._decode_list = msgspec.json.Decoder(_List).decode
        self._decode_event = msgspec.json.Decoder(_Event).decode
        self._decode_pod = msgspec.json.Decoder(PodView).decode

    def expect(self, name: str) -> Fate:
        """The fate of a pod, by `namespace/name`; made when it is not known yet."""
        return self.fates.setdefault(name, Fate())

    def sending(self, name: str) -> Callable[[], None]:
        """To be called right before the pod is sent."""

        def note() -> None:
            self.expect(name).sent = asyncio.get_running_loop().time()

        return note

    async def run(self) -> None:
        """List and watch until cancelled, from the start again whenever the watch ends."""
        while True:
            try:
                version = await self._list()
                self.seen.set()
                async for line in self._api.lines(f"{PODS}?watch=1&resourceVersion={version}"):
                    if not self._take(line):
                        break
            except (aiohttp.ClientError, TimeoutError, OSError, CliError):
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _list(self) -> str:
        answer = self._decode_list(await self._api.raw(PODS))
        for pod in answer.items:
            self._see(pod, gone=False)
        return answer.metadata.resource_version

    def _take(self, line: bytes) -> bool:
        event = self._decode_event(line)
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            self._see(self._decode_pod(event.object), gone=event.type == "DELETED")
        return event.type != "ERROR"

    def _see(self, pod: PodView, *, gone: bool) -> None:
        now = asyncio.get_running_loop().time()
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        fate = self.expect(name)
        self.last_change = now
        if pod.spec.node_name and not fate.node:
            fate.node, fate.bound = pod.spec.node_name, now
            self.bound += 1
        elif fate.node and pod.spec.node_name != fate.node and not gone:
            fate.moved = True
        fate.annotations = pod.metadata.annotations
        fate.refusal = pod.refusal
        fate.gone = gone
        self._on_change(name, fate)
