"""A YARN cluster on virtual time: a pair of ResourceManagers by their REST, and NodeManagers with containers.

What a ResourceManager is told is carried out when it arrives, whatever became of its sender. One that becomes the
active one lists nobody until NodeManagers have come, with what they were granted. NodeManagers fill what they have with
containers, and containers end when they like, or when YARN is told to end what is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import unquote, urlsplit

import msgspec

from berth.contracts.names import ANNOTATION_THIRD_PARTY_ALLOCATIONS
from berth.runtime import Context
from berth.simcluster.store.resource import NODES
from berth.testing.simulation.services import ServiceSpec
from berth.testing.simulation.world import World
from berth.yarn_operator.core.notes import Noted, read_note
from berth.yarn_operator.core.pods import DEFAULT_CLUSTER
from berth.yarn_operator.core.units import NONE, Share, amounts_of, larger, smaller
from berth.yarn_operator.rest import Answer, NoAnswerError
from berth.yarn_operator.settings import SERVICE, Settings
from berth.yarn_operator.shell import main as operator

if TYPE_CHECKING:
    from tests.simulation.harness import Harness

YARN_OPERATOR: Final = SERVICE
URLS: Final = ("http://rm-0:8088", "http://rm-1:8088")
REGISTERED: Final = Share(1, 64)
"""What NodeManagers' configuration says."""
TICK_S: Final = 1.0
COMES_S: Final = (0.3, 3.0)
"""How long a NodeManager needs to find the active one."""
WAY_S: Final = (0.001, 0.02)
AGAIN_S: Final = 20.0
ENDS: Final = 0.3
OVER_S: Final = 5
_PORT: Final = ":8041"
_NOTHING: Final = Answer(404, b"<html>not found</html>")


class _Loop(Protocol):
    """The loop of a simulated process."""

    def deliver(self, callback: Any, args: tuple[Any, ...], when_s: float) -> object: ...


class NodeManager:
    """`share` is what it has, `over_at_s` when YARN ends what it uses beyond that; `is_listed`: the active one knows
    it."""

    def __init__(self) -> None:
        self.share = REGISTERED
        self.used = NONE
        self.over_at_s = float("inf")
        self.is_listed = False


class SimYarn:
    """The cluster. The knobs are for faults: how late requests come, and how many of them, or of their answers, never
    do."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._harness: Harness
        self.active: int | None = 0
        self.slow_s = 0.0
        self.lost = self.lost_after = 0.0
        self.managers: dict[str, NodeManager] = {}
        self._is_calm = False

    @property
    def world(self) -> World:
        """Whose time it is."""
        return self._harness.world

    def spec(self) -> ServiceSpec:
        """yarn-operator, which asks this cluster."""

        @asynccontextmanager
        async def connect(timeout_s: float) -> AsyncIterator[SimRest]:
            yield SimRest(self, timeout_s)

        async def main(context: Context[Settings]) -> None:
            await operator(context, connect)

        environ = {
            "BERTH_YARN_CLUSTERS": f"{DEFAULT_CLUSTER}={'|'.join(URLS)}",
            "BERTH_YARN_OVER_COMMIT_TIMEOUT_S": str(OVER_S),
        }
        return ServiceSpec(name=YARN_OPERATOR, settings_type=Settings, main=main, environ=environ)

    def live(self, harness: Harness) -> None:
        """A NodeManager on each node; from now on."""
        self._harness = harness
        for key in sorted(harness.kube.store.state.of(NODES).items):
            name = key.rpartition("/")[2]
            self.managers[name] = NodeManager()
            self._comes(name, registers=True)
        harness.world.later(TICK_S, None, self._tick)

    # --- faults -------------------------------------------------------------------------------------------------------

    def go_away(self, for_s: float) -> None:
        """No ResourceManager answers for a while; the other one of the pair is active then."""
        if self.active is None:
            return
        following = 1 - self.active
        self.active = None
        for manager in self.managers.values():
            manager.is_listed = False
        self.world.later(for_s, None, self.come_back, following)

    def come_back(self, following: int) -> None:
        """One of the pair is the active one."""
        if self.active is None:
            self.active = following
            for name in self.managers:
                self._comes(name, registers=False)

    def begin_anew(self, name: str) -> None:
        """A NodeManager is started again, without its containers."""
        manager = self.managers[name]
        manager.is_listed = False
        manager.share, manager.used = REGISTERED, NONE
        self._told(name, registers=True)
        self._comes(name, registers=True)

    def calm(self) -> None:
        """Nothing goes wrong any more, and no container begins or ends."""
        self._is_calm = True
        self.slow_s = self.lost = self.lost_after = 0.0
        self.come_back(0)

    # --- what is served -----------------------------------------------------------------------------------------------

    def serve(self, method: str, url: str, body: bytes) -> Answer | None:
        """The answer of the ResourceManager that the URL names; None: nobody is there."""
        parts = urlsplit(url)
        at = URLS.index(f"{parts.scheme}://{parts.netloc}")
        if self.active is None:
            return None
        if parts.path == "/ws/v1/cluster/info":
            return _said({"clusterInfo": {"haState": "ACTIVE" if at == self.active else "STANDBY"}})
        if at != self.active:
            return Answer(307, b"<html>this is the standby</html>")
        if method == "GET":
            return _said({"nodes": {"node": [*self._listed()]}})
        name = unquote(parts.path.split("/")[-2]).removesuffix(_PORT)
        manager = self.managers.get(name)
        if manager is None or not manager.is_listed:
            return _NOTHING
        asked = msgspec.json.decode(body)
        share = Share(asked["resource"]["vCores"], asked["resource"]["memory"])
        if share != manager.share:
            manager.share = share
            manager.over_at_s = self.world.now + asked["overCommitTimeout"] / 1000
            self._told(name)
        return _said(asked["resource"])

    def _listed(self) -> Iterator[dict[str, Any]]:
        for name, manager in self.managers.items():
            if manager.is_listed:
                yield {
                    "id": name + _PORT,
                    "state": "RUNNING",
                    "usedMemoryMB": manager.used.memory_mb,
                    "availMemoryMB": manager.share.memory_mb - manager.used.memory_mb,
                    "usedVirtualCores": manager.used.vcores,
                    "availableVirtualCores": manager.share.vcores - manager.used.vcores,
                }

    # --- what goes on -------------------------------------------------------------------------------------------------

    def _comes(self, name: str, *, registers: bool) -> None:
        self.world.later(self._rng.uniform(*COMES_S), None, self._registered, name, registers)

    def _registered(self, name: str, registers: bool) -> None:
        if self.active is not None:
            self.managers[name].is_listed = True
            self._told(name, registers=registers)

    def _tick(self) -> None:
        rng = self._rng
        for name, manager in self.managers.items():
            used = manager.used
            if self.world.now >= manager.over_at_s:
                used = smaller(used, manager.share)
            if self._is_calm:
                pass
            elif rng.random() < ENDS:
                used = Share(*(rng.randint(0, each) for each in used))
            elif self.active is not None and manager.is_listed:
                used = larger(used, rng.choice((manager.share, _half(manager.share))))
            if used != manager.used:
                manager.used = used
                self._told(name)
        self.world.later(TICK_S, None, self._tick)

    def _told(self, name: str, *, registers: bool = False) -> None:
        manager, observer = self.managers[name], self._harness.observer
        observer.at(self.world.now)
        observer.divided.has(name, amounts_of(larger(manager.share, manager.used)), registers=registers)

    # --- at the end ---------------------------------------------------------------------------------------------------

    def unsettled(self) -> Iterator[str]:
        """What is not as it should be: both together have more than there is, YARN is not granted what it is charged
        with, or none of what there is."""
        yield from self._harness.observer.divided.over()
        for key, node in self._harness.kube.store.state.of(NODES).items.items():
            name = key.rpartition("/")[2]
            noted, manager = _noted(node.data), self.managers.get(name)
            if manager is None:
                continue  # a node that came last is none of YARN's
            if noted is None:
                yield f"node {name}: {ANNOTATION_THIRD_PARTY_ALLOCATIONS} cannot be read"
            elif noted.charged != manager.share:
                yield f"node {name}: YARN is charged with {noted.charged}, and granted {manager.share}"


class SimRest:
    """The way of one replica to the cluster."""

    def __init__(self, yarn: SimYarn, timeout_s: float) -> None:
        self._yarn = yarn
        self._timeout_s = timeout_s

    async def get(self, url: str, params: Mapping[str, str]) -> Answer:
        """See `berth.yarn_operator.rest.Rest`."""
        return await self._ask("GET", url, b"")

    async def post(self, url: str, params: Mapping[str, str], body: bytes) -> Answer:
        """See `berth.yarn_operator.rest.Rest`. What is not answered may come late, and twice."""
        return await self._ask("POST", url, body)

    async def _ask(self, method: str, url: str, body: bytes) -> Answer:
        yarn, rng = self._yarn, self._yarn._rng
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        loop = cast("_Loop", asyncio.get_running_loop())
        up_s, down_s = (rng.uniform(*WAY_S) + rng.random() * yarn.slow_s for _ in range(2))
        drawn = rng.random()
        is_lost, is_answer_lost = drawn < yarn.lost, yarn.lost <= drawn < yarn.lost + yarn.lost_after

        def settle(answer: Answer | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        def arrives() -> None:
            answer = yarn.serve(method, url, body)
            if not is_answer_lost:
                loop.deliver(settle, (answer,), yarn.world.now + down_s)

        if not is_lost:
            yarn.world.later(up_s, None, arrives)
        if is_answer_lost and rng.random() < 0.5:
            yarn.world.later(up_s + rng.random() * AGAIN_S, None, yarn.serve, method, url, body)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await answered
        except TimeoutError:
            raise NoAnswerError("no answer") from None
        if answer is None:
            raise NoAnswerError("connection refused")
        return answer


def _said(body: dict[str, Any]) -> Answer:
    return Answer(200, msgspec.json.encode(body))


def _half(share: Share) -> Share:
    return Share(share.vcores // 2, share.memory_mb // 2)


def _noted(node: Mapping[str, Any]) -> Noted | None:
    read = read_note(node["metadata"].get("annotations") or {})
    return read if isinstance(read, Noted) else None
