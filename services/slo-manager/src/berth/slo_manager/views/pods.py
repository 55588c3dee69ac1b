"""Pods of STATE, as far as they concern what their nodes can lend, and what agents have to know of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from sys import intern
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.names import LABEL_LOW_OOM_SCORES
from berth.contracts.slo import NodePod
from berth.contracts.subjects import escape, synced_key
from berth.slo_manager.core.evicting.tenants import Tenant, tenant_of
from berth.slo_manager.core.offers.facts import Holder, holder_of
from berth.slo_manager.views.shared import Shared

_MARKER: Final = synced_key("pods")
_NAMESPACE: Final = "namespace."
_CLAIM: Final = "persistentvolumeclaim."
POD_KEYS: Final = ("pod.>", _MARKER, f"{_NAMESPACE}>", f"{_CLAIM}>")


class _Claim(msgspec.Struct):
    """What is read of a claim: there may be one for each pod of the cluster."""

    volume: str = ""


class _Known(NamedTuple):
    holder: Holder | None
    tenant: Tenant | None


class PodView:
    """The pods of each node by node name. A node whose pods are as before is not marked."""

    def __init__(self, mark: Callable[[str], None], mark_all: Callable[[], None]) -> None:
        self.unreadable = 0
        self._pods: dict[str, dict[str, _Known]] = {}
        self._node: dict[str, str] = {}
        self._lenient: set[str] = set()
        """Keys of namespaces whose pods may have others die before them."""
        self._claims: dict[str, str] = {}
        """The volumes of bound claims."""
        self._users: dict[str, set[str]] = {}
        """Pods that limit the disk of a claim."""
        self._is_listed = self._is_at_end = False
        self._shared = Shared()
        self._mark = mark
        self._mark_all = mark_all

    @property
    def is_complete(self) -> bool:
        """Whether a pod that is not here does not exist."""
        return self._is_listed and self._is_at_end

    def of(self, node: str) -> Collection[Holder]:
        """The pods of a node that hold something there."""
        return [each.holder for each in self._pods.get(node, {}).values() if each.holder is not None]

    def tenants(self, node: str) -> dict[str, Tenant]:
        """The pods of a node, by uid."""
        found = (each.tenant for each in self._pods.get(node, {}).values())
        return {each.pod.uid: self._with_folders(self._in_namespace(each)) for each in found if each is not None}

    def _with_folders(self, tenant: Tenant) -> Tenant:
        """Kubelet calls the folder of a volume by its PersistentVolume, that of an inline one by the pod's own name."""
        pod = tenant.pod
        if not pod.volumes:
            return tenant
        named = {
            name: self._claims.get(_claim_key(pod, claim), "") if claim else name for name, claim in pod.volumes.items()
        }
        folders = {name: folder for name, folder in named.items() if folder}
        return tenant._replace(pod=structs.replace(pod, volumes=folders))

    def _in_namespace(self, tenant: Tenant) -> Tenant:
        if not self._lenient or _NAMESPACE + escape(tenant.pod.namespace) not in self._lenient:
            return tenant
        return tenant._replace(pod=structs.replace(tenant.pod, low_oom_scores=True))

    def reset(self) -> None:
        """The bucket begins anew."""
        self._pods.clear()
        self._node.clear()
        self._lenient.clear()
        self._claims.clear()
        self._users.clear()
        self._is_listed = self._is_at_end = False

    def apply(self, entry: Entry) -> None:
        """One message. A pod that cannot be read stays what it was."""
        try:
            if entry.key == _MARKER:
                self._is_listed = not entry.deleted and decode(entry.value, state.Synced).complete
                self._tell()
                return
            if entry.key.startswith(_NAMESPACE):
                self._name(entry.key, None if entry.deleted else decode(entry.value, state.Namespace))
                return
            if entry.key.startswith(_CLAIM):
                self._bind(entry.key, "" if entry.deleted else msgspec.json.decode(entry.value, type=_Claim).volume)
                return
            pod = None if entry.deleted else decode(entry.value, state.Pod)
        except (InvalidMessage, msgspec.MsgspecError, UnicodeError, RecursionError):
            self.unreadable += 1
            return
        known = None if pod is None else self._known(pod)
        self._put(entry.key, pod.node if pod is not None else "", known)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        if not self._is_at_end:
            self._is_at_end = True
            self._tell()

    def _known(self, pod: state.Pod) -> _Known | None:
        holder, tenant = holder_of(pod), tenant_of(pod)
        if tenant is not None:
            tenant = tenant._replace(pod=self._shared.entry(tenant.pod))
        if holder is not None:
            holder = self._shared.holder(holder, None if tenant is None else tenant.pod)
        return None if holder is None and tenant is None else _Known(holder, tenant)

    def _name(self, key: str, namespace: state.Namespace | None) -> None:
        """A namespace that says something else than before of its pods concerns every node, and is rare."""
        is_lenient = namespace is not None and namespace.labels.get(LABEL_LOW_OOM_SCORES) == "true"
        if is_lenient == (key in self._lenient):
            return
        if is_lenient:
            self._lenient.add(key)
        else:
            self._lenient.discard(key)
        self._tell()

    def _bind(self, key: str, volume: str) -> None:
        if self._claims.get(key, "") == volume:
            return
        if volume:
            self._claims[key] = volume
        else:
            del self._claims[key]
        for pod in self._users.get(key, ()):
            self._mark(self._node[pod])

    def _put(self, key: str, node: str, known: _Known | None) -> None:
        before = self._node.get(key)
        if before is not None:
            pods = self._pods[before]
            if known is not None and before == node and pods[key] == known:
                return
            for claim in _claims_of(pods[key]):
                self._users[claim].discard(key)
                if not self._users[claim]:
                    del self._users[claim]
            del pods[key], self._node[key]
            if not pods:
                del self._pods[before]
            self._mark(before)
        if known is not None:
            node = intern(node)
            self._node[key] = node
            self._pods.setdefault(node, {})[key] = known
            for claim in _claims_of(known):
                self._users.setdefault(claim, set()).add(key)
            self._mark(node)

    def _tell(self) -> None:
        if self.is_complete:
            self._mark_all()


def _claim_key(pod: NodePod, claim: str) -> str:
    return f"{_CLAIM}{escape(pod.namespace)}.{escape(claim)}"


def _claims_of(known: _Known) -> set[str]:
    pod = known.tenant.pod if known.tenant is not None else None
    return set() if pod is None else {_claim_key(pod, claim) for claim in pod.volumes.values() if claim}
