"""Host ports: two pods on one node may not bind the same one.

Follows Kubernetes' NodePorts: same protocol, same port, and the same address or one side bound to all of IPv4. `::`
is no wildcard there, so it is none here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.contracts.kube import Container
from berth.contracts.state import HostPort

REASON: Final = "node(s) didn't have free ports for the requested pod ports"

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - a value to compare with, nothing is bound


def host_ports(containers: Iterable[Container], init_containers: Iterable[Container] = ()) -> list[HostPort]:
    """The ports of the node that a pod takes: those of its containers and sidecars; ordinary init containers do not
    count.
    """
    sidecars = (each for each in init_containers if each.restart_policy == "Always")
    return [
        HostPort(port=port.host_port, protocol=port.protocol or "TCP", host_ip=port.host_ip)
        for container in (*containers, *sidecars)
        for port in container.ports or ()
        if port.host_port > 0
    ]


def read_port(text: str) -> HostPort:
    """A port as decisions and claims write it: `address/protocol/port`."""
    address, protocol, port = text.split("/")
    return HostPort(port=int(port), protocol=protocol, host_ip=address)


def write_port(port: HostPort) -> str:
    """The inverse of `read_port`; no address means all of them."""
    return f"{port.host_ip or _ANY_ADDRESS}/{port.protocol}/{port.port}"


class UsedPorts:
    """The host ports taken on one node. A port may be added by several pods, and is free when all of them are
    removed.
    """

    __slots__ = ("_holders",)

    def __init__(self, ports: Iterable[HostPort] = ()) -> None:
        self._holders: dict[tuple[str, int], dict[str, int]] = {}
        for port in ports:
            self.add(port)

    def copy(self) -> UsedPorts:
        """The same holders, to be changed apart."""
        found = UsedPorts()
        found._holders = {slot: dict(holders) for slot, holders in self._holders.items()}
        return found

    def add(self, port: HostPort) -> None:
        """One more holder."""
        holders = self._holders.setdefault(_slot(port), {})
        address = port.host_ip or _ANY_ADDRESS
        holders[address] = holders.get(address, 0) + 1

    def remove(self, port: HostPort) -> None:
        """One holder less; a port that nobody holds is left alone."""
        holders = self._holders.get(_slot(port), {})
        address = port.host_ip or _ANY_ADDRESS
        if holders.get(address, 0) > 1:
            holders[address] -= 1
        else:
            holders.pop(address, None)
            if not holders:
                self._holders.pop(_slot(port), None)

    def conflict(self, wanted: Iterable[HostPort]) -> HostPort | None:
        """The first wanted port that is taken, or None."""
        for port in wanted:
            holders = self._holders.get(_slot(port))
            if holders and _meets(port.host_ip or _ANY_ADDRESS, holders):
                return port
        return None


def _slot(port: HostPort) -> tuple[str, int]:
    return (port.protocol or "TCP", port.port)


def _meets(address: str, holders: dict[str, int]) -> bool:
    return address == _ANY_ADDRESS or _ANY_ADDRESS in holders or address in holders
