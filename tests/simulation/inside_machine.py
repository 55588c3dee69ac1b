"""The machine of the node with an agent, with what is within it: NICs with functions of their own, cards that a daemon
writes down, two NUMA nodes; and how these change under the agent.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.services.worlds.fake_sys import FakeSys
from tests.simulation.harness import Harness
from tests.simulation.node_agent import CORES, Machine

from berth.rules.cpus.cpuset import format_cpuset
from berth.testing.simulation.services import ServiceSpec

NICS: Final = 2
FUNCTIONS: Final = 2
CARDS: Final = 2
EVENT_EVERY_S: Final = 15.0


class InsideMachine(Machine):
    """A machine whose agent reports devices and CPUs."""

    def __init__(self, folder: Path, rng: random.Random, end_s: float) -> None:
        super().__init__(folder, rng, end_s)
        self.sys = FakeSys(folder / "sys")
        self.files = folder / "xpu"

    def spec(self) -> ServiceSpec:
        """Its agent, which looks for devices and CPUs as well."""
        spec = super().spec()
        environ = {**spec.environ, "BERTH_DEVICES": "true", "BERTH_CPUS": "true", "BERTH_DEVICE_FILES": str(self.files)}
        return replace(spec, environ=environ)

    def cpus(self, *zones: tuple[int, ...]) -> None:
        """These CPUs are online, by NUMA node."""
        for zone, cpus in enumerate(zones):
            self._write(f"sys/devices/system/node/node{zone}/cpulist", format_cpuset(cpus))
            meminfo = f"Node {zone} MemTotal: 33554432 kB"
            self._write(f"sys/devices/system/node/node{zone}/meminfo", meminfo)
        self._write("sys/devices/system/node/online", format_cpuset(range(len(zones))))
        self._write("sys/devices/system/cpu/online", format_cpuset(cpu for cpus in zones for cpu in cpus))

    def cards(self, *cards: tuple[str, bool]) -> None:
        """A daemon writes down these cards: what each is called, and whether it is healthy."""
        self.files.mkdir(exist_ok=True)
        entries = [_card(minor, name, healthy) for minor, (name, healthy) in enumerate(cards)]
        (self.files / "cards").write_text(json.dumps(entries))


class BusyMachine(InsideMachine):
    """One on which all that changes, as a seed says, until it is over."""

    def __init__(self, folder: Path, rng: random.Random, end_s: float) -> None:
        super().__init__(folder, rng, end_s)
        self._rng, self._end_s = rng, end_s
        self._names = [f"card-{minor}" for minor in range(CARDS)]
        self._begun = False
        for number in range(NICS):
            self.sys.nic(number, functions=FUNCTIONS, numa=str(number))
        self._mend()

    def live(self, harness: Harness) -> None:
        """Something happens every now and then, and is over before the end."""
        if not self._begun:
            self._begun = True
            harness.world.later(self._rng.uniform(0.5, 1.0) * EVENT_EVERY_S, None, self._happen, harness)
        super().live(harness)

    def _happen(self, harness: Harness) -> None:
        rng = self._rng
        rng.choice((self._port_down, self._card_ill, self._swap, self._core_away))()
        harness.world.later(rng.choice((1.0, 6.0, 15.0)), None, self._mend)
        if harness.world.now < self._end_s - EVENT_EVERY_S:
            harness.world.later(rng.uniform(0.5, 1.5) * EVENT_EVERY_S, None, self._happen, harness)

    def _mend(self) -> None:
        for number in range(NICS):
            self.sys.port(number, "4: ACTIVE")
        self.cards(*((name, True) for name in self._names))
        self.cpus(tuple(range(CORES // 2)), tuple(range(CORES // 2, CORES)))

    def _port_down(self) -> None:
        self.sys.port(self._rng.randrange(NICS), "1: DOWN")

    def _card_ill(self) -> None:
        ill = self._rng.randrange(CARDS)
        self.cards(*((name, minor != ill) for minor, name in enumerate(self._names)))

    def _swap(self) -> None:
        minor = self._rng.randrange(CARDS)
        self._names[minor] += "x"
        self.cards(*((name, True) for name in self._names))

    def _core_away(self) -> None:
        gone = self._rng.randrange(CORES // 2) // 2 * 2
        left = [cpu for cpu in range(CORES // 2) if cpu // 2 * 2 != gone]
        self.cpus(tuple(left), tuple(range(CORES // 2, CORES)))


def _card(minor: int, name: str, healthy: bool) -> dict[str, Any]:
    return {
        "vendor": "kunlun",
        "model": "P800",
        "uuid": name,
        "minor": str(minor),
        "resources": {"gpu-core": "100", "gpu-memory": "32Gi"},
        "topology": {
            "socketID": "0",
            "nodeID": str(minor),
            "pcieID": f"pci0000:{16 * (minor + 1):02x}",
            "busID": f"0000:{32 * (minor + 4):02x}:00.0",
        },
        "status": {"healthy": healthy},
    }
