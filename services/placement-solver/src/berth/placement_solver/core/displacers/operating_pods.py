"""The pods that run in the place of a Reservation, by what their owners name: a pod that none is meant for pays for a
look into an index."""

from __future__ import annotations

from berth.contracts.state import Pod
from berth.placement_solver.core.named_pods import NamedPods
from berth.placement_solver.core.owner_index import OwnerIndex
from berth.rules.reservation_match import reservation_request_of
from berth.rules.reservation_operating import is_placeholder, placeholder_of
from berth.transaction.claims import Name


class Placeholders:
    """The pods of a view that run in the place of a Reservation, by what their owners name."""

    def __init__(self) -> None:
        self._names: dict[str, Name] = {}
        self._uids: dict[Name, str] = {}
        self._able: set[str] = set()
        self._index = OwnerIndex()
        self._named = NamedPods()

    def reset(self) -> None:
        """The view starts over."""
        self._names.clear()
        self._uids.clear()
        self._able.clear()
        self._index.clear()
        self._named.clear()

    def may_mean(self, pod: Pod) -> bool:
        """Whether some of them may be meant for this pod by itself, and not for all that are like it."""
        return self._named.may_mean(pod)

    def see(self, name: Name, pod: Pod | None) -> bool:
        """A pod is shown, or with None gone; whether it has come to be able to hand over."""
        old = self._uids.pop(name, None)
        was_able = old in self._able
        if old is not None:
            self._index.remove(old)
            self._able.discard(old)
            self._named.remove(old)
            del self._names[old]
        if pod is None or not pod.node or not is_placeholder(pod.template.labels):
            return False
        self._uids[name] = pod.uid
        self._names[pod.uid] = name
        owners = placeholder_of(pod).capacity.owners
        self._index.add(pod.uid, owners)
        self._named.put(pod.uid, owners)
        if not pod.ready or pod.deleting:
            return False
        self._able.add(pod.uid)
        return not was_able

    def may_serve(self, pod: Pod) -> list[Name]:
        """The names of all that may hand over to this pod, and of some that may not."""
        if not self._names:
            return []
        wish = reservation_request_of(pod)
        if wish is None or wish.problem is not None:
            return []
        return sorted(self._names[uid] for uid in self._index.may_accept(wish.identity))
