"""The `/sim/` endpoint: what a test or a demonstration asks of the simulation itself."""

from typing import TYPE_CHECKING

import msgspec

from berth.simcluster.faults import Fault, Faults
from berth.simcluster.http.target import parse_query
from berth.simcluster.http.watch import Hub
from berth.simcluster.store import Reply, Store
from berth.simcluster.store.objects import Json, encode, section
from berth.simcluster.store.resource import PODS
from berth.simcluster.store.status import ApiError, bad_request, no_such_path

if TYPE_CHECKING:
    from berth.simcluster.kubelet import Kubelets


class _FaultSet(msgspec.Struct, forbid_unknown_fields=True):
    faults: tuple[Fault, ...] = ()
    seed: int | None = None


class Admin:
    """Faults, watches, history, and a summary of the state."""

    def __init__(self, store: Store, hub: Hub, faults: Faults, kubelets: "Kubelets | None") -> None:
        """Works on what the server works on."""
        self._store = store
        self._hub = hub
        self._faults = faults
        self._kubelets = kubelets

    def answer(self, method: str, raw: str, body: bytes) -> Reply:
        """Answer a request to `/sim/...`. Raises `ApiError`."""
        path, _, query = raw.partition("?")
        fields = parse_query(query)
        match method, path:
            case "GET", "/sim/state":
                return Reply(200, encode(self.summary()))
            case "GET", "/sim/faults":
                return Reply(200, encode({"faults": self._faults.rules, "fired": self._faults.fired}))
            case "PUT", "/sim/faults":
                return self._set_faults(body)
            case "POST", "/sim/watches/close":
                return Reply(200, encode({"closed": self._hub.close(fields.get("resource", ""))}))
            case "POST", "/sim/history/compact":
                return self._compact(fields)
            case _:
                raise no_such_path()

    def summary(self) -> Json:
        """Counts by resource, pods by phase, watches, version."""
        state = self._store.state
        phases: dict[str, int] = {}
        bound = 0
        for pod in state.of(PODS).items.values():
            phase = str(section(pod.data, "status").get("phase", ""))
            phases[phase] = phases.get(phase, 0) + 1
            bound += bool(pod.data["spec"].get("nodeName"))
        objects = {
            f"{plural}.{group}" if group else plural: len(collection.items)
            for (group, plural), collection in state.collections.items()
            if collection.items
        }
        return {
            "version": state.version,
            "objects": objects,
            "pods": {"bound": bound, "phases": phases},
            "watches": len(self._hub),
            "timers": self._kubelets.waiting() if self._kubelets is not None else 0,
            "faults": {"rules": len(self._faults.rules), "fired": self._faults.fired},
        }

    def _set_faults(self, body: bytes) -> Reply:
        try:
            wanted = msgspec.json.decode(body, type=_FaultSet)
            self._faults.set(wanted.faults, seed=wanted.seed)
        except (msgspec.MsgspecError, ValueError) as error:
            raise bad_request(f"faults: {error}") from error
        return Reply(200, encode({"faults": self._faults.rules}))

    def _compact(self, fields: dict[str, str]) -> Reply:
        wanted = fields.get("resource", "")
        keep = fields.get("keep", "0")
        if not keep.isdigit() or len(keep) > 9:
            raise ApiError(400, "BadRequest", "keep: must be a non-negative integer")
        for (_, plural), collection in self._store.state.collections.items():
            if wanted in ("", plural):
                collection.compact(int(keep))
        return Reply(200, encode({"version": self._store.version}))
