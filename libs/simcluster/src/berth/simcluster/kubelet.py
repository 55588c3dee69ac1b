"""Simulated kubelets: one heap of timers for all pods of all nodes.

A bound pod starts after a delay (one status update to Running), ends when its annotations say so, and goes away when
it is deleted. The device plugins of vendors take their lock off a node once they have seen the pod that it names.

There is no task per pod and no clock but the store's: the driver of this calls `run(now)` at the time that `next_due`
names. Nothing happens on a node that does not exist or is marked silent; its pods wait, as they would for a kubelet
that died.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from berth.simcluster.duration import parse_duration_s
from berth.simcluster.kubelet_status import ended_status, node_status, running_status
from berth.simcluster.store import Event, Store
from berth.simcluster.store.collection import ADDED, DELETED
from berth.simcluster.store.deleting import Options, delete
from berth.simcluster.store.objects import Json, Obj, condition_status, section
from berth.simcluster.store.resource import NODES, PODS
from berth.simcluster.store.status import ApiError

DURATION = "sim.berth.sh/duration"
FAIL_AFTER = "sim.berth.sh/fail-after"
SILENT = "sim.berth.sh/silent"
HANDED = "scheduling.koordinator.sh/bind-timestamp"
"""What a pod carries that was bound for a device plugin."""
LOCKS = ("cambricon.com/dsmlu.lock", "hami.io/mutex.lock")
"""Annotations of nodes, `<time>,<namespace>,<pod>`."""
_SILENT_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """Delays in seconds of simulated time; `speed` divides them all (60: a minute takes a second)."""

    start_delay_s: float = 1.0
    stop_delay_s: float = 0.5  # how long containers take to end; the grace period is the upper bound
    plugin_delay_s: float = 0.05  # how long a device plugin takes for a pod
    heartbeat_s: float = 300.0  # node status updates; 0 = none after the first
    speed: float = 1.0
    running: bool = True  # False: bound pods stay Pending and cost no update (pure replay)
    nodes: bool = True  # False: node statuses are left alone

    def problem(self) -> str:
        """What is wrong; empty if nothing."""
        for name in ("start_delay_s", "stop_delay_s", "plugin_delay_s", "heartbeat_s"):
            if not 0 <= getattr(self, name) <= 1e9:
                return f"{name}: must be between 0 and 1e9"
        return "" if 1e-6 <= self.speed <= 1e6 else "speed: must be between 1e-6 and 1e6"


class Kubelets:
    """The kubelets of every node."""

    def __init__(self, store: Store, settings: KubeletSettings, *, wake: Callable[[], None] = lambda: None) -> None:
        """`wake` is called when a timer was added that is due before all others."""
        self._store = store
        self._settings = settings
        self._wake = wake
        self._heap: list[tuple[float, int, str, str, str]] = []  # due, order, what, key, uid
        self._order = 0
        store.listen(self._seen)
        for node in store.state.of(NODES).items.values():
            self._node_seen(node)
        for pod in store.state.of(PODS).items.values():
            self._pod_seen(pod, None)

    def waiting(self) -> int:
        """How many timers are set."""
        return len(self._heap)

    def next_due(self) -> float | None:
        """When `run` has something to do (unix seconds); None: not before something changes."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float, limit: int = 500) -> int:
        """Do what is due, at most `limit` things; returns how many were done."""
        done = 0
        while self._heap and self._heap[0][0] <= now and done < limit:
            _, _, what, key, uid = heapq.heappop(self._heap)
            self._do(what, key, uid)
            done += 1
        return done

    def _set(self, delay_s: float, what: str, key: str, uid: str) -> None:
        due = self._store.state.clock() + delay_s / self._settings.speed
        self._order += 1
        first = not self._heap or due < self._heap[0][0]
        heapq.heappush(self._heap, (due, self._order, what, key, uid))
        if first:
            self._wake()

    # Seen: only timers are set here, since a listener must not write.

    def _seen(self, event: Event) -> None:
        if event.kind == DELETED:
            return
        if event.resource is PODS:
            self._pod_seen(event.obj, event.prev)
        elif event.resource is NODES and event.kind == ADDED:
            self._node_seen(event.obj)

    def _node_seen(self, node: Obj) -> None:
        if self._settings.nodes:
            self._set(0.0, "node", node.key, node.uid)

    def _pod_seen(self, pod: Obj, before: Obj | None) -> None:
        if not pod.data["spec"].get("nodeName"):
            return
        is_new = before is None or not before.data["spec"].get("nodeName")
        if is_new and HANDED in section(pod.meta, "annotations"):
            self._set(self._settings.plugin_delay_s, "prepare", pod.key, pod.uid)
        if "deletionTimestamp" in pod.meta:
            grace_s = pod.meta.get("deletionGracePeriodSeconds", 0)
            if before is None or before.meta.get("deletionGracePeriodSeconds") != grace_s:
                self._set(min(self._settings.stop_delay_s, grace_s), "stop", pod.key, pod.uid)
        elif self._settings.running and is_new:
            phase = section(pod.data, "status").get("phase")
            if phase == "Pending":
                self._set(self._settings.start_delay_s, "start", pod.key, pod.uid)
            elif phase == "Running":
                self._set_end(pod)

    def _set_end(self, pod: Obj) -> None:
        annotations = section(pod.meta, "annotations")
        times = [
            (parse_duration_s(annotations[name]), what)
            for name, what in ((DURATION, "succeed"), (FAIL_AFTER, "fail"))
            if isinstance(annotations.get(name), str)
        ]
        known = [(time_s, what) for time_s, what in times if time_s is not None]
        if known:
            time_s, what = min(known)
            self._set(time_s, what, pod.key, pod.uid)

    # Due.

    def _do(self, what: str, key: str, uid: str) -> None:
        if what == "node":
            self._heartbeat(key, uid)
            return
        pods = self._store.state.of(PODS)
        pod = pods.items.get(key)
        if pod is None or pod.uid != uid:
            return
        if not self._alive(pod.data["spec"]["nodeName"]):
            self._set(_SILENT_RETRY_S * self._settings.speed, what, key, uid)
            return
        if what == "prepare":
            self._prepare(pod)
        elif what == "stop":
            self._stop(pod)
        elif "deletionTimestamp" in pod.meta:
            return
        elif what == "start":
            self._start(pod)
        elif section(pod.data, "status").get("phase") == "Running":
            self._write(pod, ended_status(pod.data, self._store.state.stamp(), failed=what == "fail"))

    def _alive(self, name: str) -> bool:
        node = self._store.state.of(NODES).items.get(name)
        return node is not None and section(node.meta, "annotations").get(SILENT) != "true"

    def _start(self, pod: Obj) -> None:
        if section(pod.data, "status").get("phase") != "Pending":
            return
        node = self._store.state.of(NODES).items[pod.data["spec"]["nodeName"]]
        status = running_status(pod.data, node.data, self._store.state.stamp(), order=self._order)
        self._set_end(self._write(pod, status))

    def _prepare(self, pod: Obj) -> None:
        """As device plugins do: the lock goes that names the pod."""
        nodes = self._store.state.of(NODES)
        node = nodes.items[pod.data["spec"]["nodeName"]]
        annotations = section(node.meta, "annotations")
        holder = [pod.meta["namespace"], pod.meta["name"]]
        left = {k: v for k, v in annotations.items() if k not in LOCKS or str(v).split(",")[1:] != holder}
        if len(left) < len(annotations):
            self._store.state.replace(nodes, node, {**node.data, "metadata": {**node.meta, "annotations": left}})

    def _stop(self, pod: Obj) -> None:
        try:
            delete(self._store.state, self._store.state.of(PODS), pod, Options(grace_s=0))
        except ApiError:  # pragma: no cover - no precondition is given, so nothing can refuse
            return

    def _write(self, pod: Obj, status: Json) -> Obj:
        data = {**pod.data, "metadata": dict(pod.meta), "status": status}
        return self._store.state.replace(self._store.state.of(PODS), pod, data)

    def _heartbeat(self, key: str, uid: str) -> None:
        nodes = self._store.state.of(NODES)
        node = nodes.items.get(key)
        if node is None or node.uid != uid:
            return
        settings = self._settings
        silent = section(node.meta, "annotations").get(SILENT) == "true"
        if silent:
            self._set(_SILENT_RETRY_S * settings.speed, "node", key, uid)
            return
        again = condition_status(node.data, "Ready") == "True"
        status = node_status(node.data, self._store.state.stamp())
        self._store.state.replace(nodes, node, {**node.data, "metadata": dict(node.meta), "status": status})
        if settings.heartbeat_s:
            # The first interval differs from node to node, so that thousands of nodes don't report at once.
            share = 1.0 if again else (self._order % 97 + 1) / 97
            self._set(settings.heartbeat_s * share, "node", key, uid)
