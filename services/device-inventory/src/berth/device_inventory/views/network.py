"""The object that says what network lies above the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import named_key, synced_key
from berth.device_inventory.core.network import NAME

NETWORK: Final = "/network"
"""What is marked when the ClusterNetworkTopology changes: the name of no node."""
_NETWORK: Final = named_key("clusternetworktopology", NAME)
_NETWORKS: Final = synced_key("clusternetworktopologies")
NETWORK_KEYS: Final = ("clusternetworktopology.>", _NETWORKS)


class NetworkView:
    """The one ClusterNetworkTopology that counts, and whether it is known not to be there."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.topology: state.ClusterNetworkTopology | None = None
        self.unreadable = 0
        self._is_listed = self._is_at_end = False
        self._mark = mark

    @property
    def proves_absence(self) -> bool:
        """Whether an object that is not here does not exist."""
        return self._is_listed and self._is_at_end

    @property
    def is_settled(self) -> bool:
        """Whether it is known what there is."""
        return self.topology is not None or self.proves_absence

    def reset(self) -> None:
        """The bucket begins anew."""
        self.topology = None
        self._is_listed = self._is_at_end = False

    def apply(self, entry: Entry) -> None:
        """One message. An object that cannot be read stays what it was."""
        try:
            if entry.key == _NETWORK:
                self.topology = None if entry.deleted else decode(entry.value, state.ClusterNetworkTopology)
            elif entry.key == _NETWORKS:
                self._is_listed = not entry.deleted and decode(entry.value, state.Synced).complete
            else:
                return
        except InvalidMessage:
            self.unreadable += 1
            return
        self._mark(NETWORK)

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
        self._is_at_end = True
        self._mark(NETWORK)
