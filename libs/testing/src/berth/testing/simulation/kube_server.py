"""A Kubernetes API server outside of every process: the simulated cluster's store, watches, kubelets and controllers.

The same calls as over HTTP (`berth.simcluster.verbs`), answered at the moment a request arrives. It survives every
process; what becomes of requests on their way is drawn here and carried out by `SimTransport`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final, Literal, NamedTuple

import msgspec

from berth.kube.answer import Answer, answer_of
from berth.simcluster.controllers import Controllers, ControllerSettings
from berth.simcluster.http.discovery import discover
from berth.simcluster.http.target import Target
from berth.simcluster.http.watch import Hub, Watcher
from berth.simcluster.http.watching import open_watch
from berth.simcluster.kubelet import Kubelets, KubeletSettings
from berth.simcluster.manifests import load
from berth.simcluster.store import Path, Reply, Store
from berth.simcluster.store.crds import find_crds
from berth.simcluster.store.objects import Json
from berth.simcluster.store.status import ApiError, expired
from berth.simcluster.store.store import HISTORY
from berth.simcluster.verbs import answered, call
from berth.testing.simulation.kube_faults import Fate, KubeFaults, StreamFate, fate_of, stream_fate_of
from berth.testing.simulation.scheduling import Cancellable, Scheduler

DISCOVER: Final = "discover"
"""Verb of a question for a discovery document, whose path is the target's name."""

TOUCHED: Final = "sim.berth.sh/touched"
"""Annotation that another writer leaves when it causes a conflict."""
EVERYBODY: Final = ""
_MERGE: Final = "application/merge-patch+json"
_PAUSE_S: Final = 0.001
_VERSIONS_KEPT: Final = 4096
_PAGE: Final = b"<html><head><title>%d</title></head><body>no server is available</body></html>"
_REASONS: Final = {429: "TooManyRequests", 503: "ServiceUnavailable", 504: "Timeout"}

How = Literal["refused", "silent", "answers"]


class _Target(msgspec.Struct):
    name: str = ""


class _Binding(msgspec.Struct):
    target: _Target = msgspec.field(default_factory=_Target)


class Away(NamedTuple):
    """How a client cannot reach the server, and until when.

    `refused`: nobody listens. `silent`: nothing gets through. `answers`: requests arrive, but no answer comes back.
    """

    until_s: float
    how: How


class SimKube:
    """See the module."""

    def __init__(
        self,
        scheduler: Scheduler,
        rng: random.Random,
        *,
        wall: Callable[[], float],
        faults: KubeFaults | None = None,
        kubelet: KubeletSettings | None = None,
        controllers: ControllerSettings | None = None,
        bookmark_s: float = 60.0,
        history: int = HISTORY,
        first_version: int = 1,
        manifests: Iterable[Json] = (),
    ) -> None:
        """`scheduler` runs outside of every process, `wall` is Unix time. `kubelet`: None leaves pods and nodes alone;
        `controllers`: None leaves everything else alone.

        Raises ValueError naming the manifest that is refused.
        """
        self.faults = faults or KubeFaults()
        """May be replaced at any time."""
        self.barred: set[str] = set()
        """Nodes onto which an admission policy of the cluster lets nobody bind. May be changed at any time."""
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """Verb, plural, and the status that the client saw (0: none) of every request that ended."""
        self.scheduler = scheduler
        self.store = Store(
            clock=wall, random=random.Random(rng.getrandbits(64)), history=history, first_version=first_version
        )
        self.hub = Hub()
        self.store.listen(self.hub.publish)
        self.kubelets: Kubelets | None = None
        self._rng = rng
        self._wall = wall
        self._away: dict[str, Away] = {}
        self._cuts: list[tuple[str, Callable[[], None]]] = []
        self._versions: list[tuple[float, int]] = []
        self.controllers: Controllers | None = None
        self._timers: dict[str, Cancellable] = {}
        self._touches = 0
        self._bookmark_s = bookmark_s
        load(self.store, find_crds(None))
        self.store.listen(lambda _: self._remember_version())
        self.load(manifests)
        if kubelet is not None:
            self.kubelets = Kubelets(self.store, kubelet, wake=self._kubelets_due)
            self._kubelets_due()
        if controllers is not None:
            seeded = random.Random(rng.getrandbits(64))
            self.controllers = Controllers(self.store, controllers, random=seeded, wake=self._controllers_due)
            self._controllers_due()
        scheduler.later(bookmark_s, self._bookmark)

    def load(self, manifests: Iterable[Json]) -> int:
        """Create objects as somebody with kubectl would, without a network. Raises ValueError naming a refused one."""
        return load(self.store, manifests)

    def perform(self, verb: str, path: Path, body: bytes | None = None, **query: str) -> Reply:
        """One call as somebody with kubectl would make it, without a network. PATCH is a merge patch."""
        target = Target(path, query)
        return answered(lambda: call(self.store, verb, target, body or b"", _MERGE), verb)

    # --- trouble ------------------------------------------------------------------------------------------------------

    def go_away(self, for_s: float, how: How = "refused", client: str = EVERYBODY) -> None:
        """Be out of reach, of one client or of all. `refused` breaks the watches under way."""
        until_s = self.scheduler.now() + for_s
        self._away[client] = Away(until_s, how)
        if how == "refused":
            self.cut_watches(client)

    def come_back(self, client: str = EVERYBODY) -> None:
        """Be in reach again; for EVERYBODY whatever was said about single clients."""
        if client == EVERYBODY:
            self._away.clear()
        else:
            self._away.pop(client, None)

    def away(self, client: str) -> Away | None:
        """How this client cannot reach the server now."""
        if not self._away:
            return None
        now = self.scheduler.now()
        for name in (EVERYBODY, client):
            found = self._away.get(name)
            if found is not None:
                if found.until_s > now:
                    return found
                del self._away[name]
        return None

    def cut_watches(self, client: str = EVERYBODY) -> int:
        """Break the connections of all watches, or of those of one client; returns how many."""
        chosen = [cut for name, cut in self._cuts if client in (EVERYBODY, name)]
        for cut in chosen:
            cut()
        return len(chosen)

    def forget_history(self, keep: int = 0) -> None:
        """Older resource versions are answered with 410 from now on."""
        for collection in self.store.state.collections.values():
            collection.compact(keep)

    # --- for the transport --------------------------------------------------------------------------------------------

    def draw(self, verb: str, target: Target, client: str) -> Fate:
        """What becomes of a request of this client."""
        query = target.query
        return fate_of(
            self.faults,
            self._rng,
            verb,
            target.path.plural,
            client=client,
            further_page="continue" in query,
            any_version=query.get("resourceVersion") == "0",
        )

    def draw_stream(self, target: Target) -> StreamFate:
        """What becomes of a watch."""
        return stream_fate_of(self.faults, self._rng, target.path.plural)

    def delay(self) -> float:
        """One way, one more time."""
        return self._rng.uniform(*self.faults.delay_s)

    def chance(self) -> float:
        """Between 0 and 1."""
        return self._rng.random()

    def serve(self, verb: str, target: Target, body: bytes, content_type: str, fate: Fate) -> Answer:
        """A request has arrived."""
        match fate.mishap:
            case "throttled" | "failed":
                return _answer(_refusal(fate))
            case "turned-away":
                return _turned_away(fate, verb, target)
            case "token-expired":
                return _answer(expired("The provided continue parameter is too old").reply())
            case "conflict":
                self._touch(target.path)
            case "stale":
                target = self._as_it_was(target, fate.age_s)
        if verb == DISCOVER:
            return self._discover(target.path.name)
        if verb == "bind" and self.barred and (refusal := self._barred(target.path, body)) is not None:
            return _answer(refusal)
        answer = _answer(answered(lambda: call(self.store, verb, target, body, content_type), verb))
        return _answer(_refusal(fate)) if fate.mishap == "failed-after" else answer

    def _barred(self, path: Path, body: bytes) -> Reply | None:
        """What a ValidatingAdmissionPolicy answers to a bind that it denies."""
        try:
            node = msgspec.json.decode(body, type=_Binding).target.name
        except msgspec.DecodeError:
            return None
        if node not in self.barred:
            return None
        denied = "ValidatingAdmissionPolicy 'bars-nodes' with binding 'bars-nodes' denied request: no pods onto"
        return ApiError(422, "Invalid", f'pods "{path.name}" is forbidden: {denied} {node}').reply()

    def _discover(self, path: str) -> Answer:
        """A discovery document, as the simulated API serves it over HTTP."""
        found = discover(self.store.state, path)
        return Answer(404, b"404 page not found", "Not Found") if found is None else Answer(200, found[1])

    def open(self, target: Target, client: str, cut: Callable[[], None]) -> Watcher | Answer:
        """A watch has arrived; `cut` breaks its connection. The refusal instead, if it is refused."""
        try:
            watcher = open_watch(self.store, self.hub, target)
        except ApiError as error:
            return _answer(error.reply())
        except ValueError as error:
            return _answer(ApiError(400, "BadRequest", str(error)).reply())
        self._cuts.append((client, cut))
        return watcher

    def close(self, watcher: Watcher, client: str, cut: Callable[[], None]) -> None:
        """The connection of a watch is no more."""
        self.hub.remove(watcher)
        self._cuts.remove((client, cut))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _touch(self, path: Path) -> None:
        """Another writer was here: a harmless annotation, and another resource version."""
        self._touches += 1
        body = b'{"metadata":{"annotations":{"%s":"%d"}}}' % (TOUCHED.encode(), self._touches)
        self.perform("patch", path._replace(subresource=""), body)

    def _as_it_was(self, target: Target, age_s: float) -> Target:
        """The list of an older moment, if it is still known."""
        then, version = self.scheduler.now() - age_s, 0
        for at_s, known in self._versions:
            if at_s > then:
                break
            version = known
        collection = self.store.state.find(target.path.group, target.path.version, target.path.plural)
        if not version or collection is None or version < collection.floor:
            return target
        return target._replace(query={**target.query, "resourceVersion": str(version), "resourceVersionMatch": "Exact"})

    def _remember_version(self) -> None:
        now = self.scheduler.now()
        if self._versions and now - self._versions[-1][0] < 1.0:
            return
        self._versions.append((now, self.store.version))
        if len(self._versions) > 2 * _VERSIONS_KEPT:
            del self._versions[:_VERSIONS_KEPT]

    def _bookmark(self) -> None:
        self.hub.bookmark(self.store.version)
        self.scheduler.later(self._bookmark_s, self._bookmark)

    def _kubelets_due(self) -> None:
        self._await("kubelets", self.kubelets)

    def _controllers_due(self) -> None:
        self._await("controllers", self.controllers)

    def _await(self, name: str, timers: Kubelets | Controllers | None) -> None:
        """Run them when they are due, instead of when they were due before."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        due = timers.next_due() if timers is not None else None
        if timers is not None and due is not None:
            later_s = max(_PAUSE_S, due - self._wall())
            self._timers[name] = self.scheduler.later(later_s, lambda: self._run(name, timers))

    def _run(self, name: str, timers: Kubelets | Controllers) -> None:
        self._timers.pop(name, None)
        timers.run(self._wall())
        self._await(name, timers)


def _refusal(fate: Fate) -> Reply:
    reason = _REASONS.get(fate.status, "InternalError")
    return ApiError(fate.status, reason, "the server has trouble", retry_after_s=fate.retry_after_s).reply()


def _turned_away(fate: Fate, verb: str, target: Target) -> Answer:
    """A page, or what an API server says to those whom it does not know, and to those who may not."""
    if fate.is_page:
        return answer_of(fate.status, _PAGE % fate.status, HTTPStatus(fate.status).phrase, None)
    if fate.status == HTTPStatus.UNAUTHORIZED:
        return _answer(ApiError(401, "Unauthorized", "Unauthorized").reply())
    path = target.path
    what = f'{path.plural} "{path.name}" is forbidden: ' if path.name else f"{path.plural} is forbidden: "
    message = f'{what}User cannot {verb} resource "{path.plural}" in API group "{path.group}"'
    return _answer(ApiError(403, "Forbidden", message).reply())


def _answer(reply: Reply) -> Answer:
    after = None if reply.retry_after_s is None else str(reply.retry_after_s)
    return answer_of(reply.status, reply.body, "", after)
