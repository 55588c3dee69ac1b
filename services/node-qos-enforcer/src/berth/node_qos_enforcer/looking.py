"""One look at what is on the node: blocking reads in a thread, values out. What cannot be read is a problem."""

from __future__ import annotations

from collections.abc import Callable

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.node_report import Findings
from berth.node_qos_enforcer.host_probe import HostProbe
from berth.node_qos_enforcer.nvml import Nvml
from berth.node_qos_enforcer.settings import Settings
from berth.vendors.device_files import FOLDER
from berth.vendors.discovery import discover


class Looker:
    """Looks at the parts that the settings name."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float]) -> None:
        """Nothing is read yet."""
        self._settings = settings
        self._nvml = Nvml(monotonic)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to look at."""
        return self._settings.devices

    def look(self) -> Findings:
        """What is on the node now."""
        settings = self._settings
        if not settings.devices:
            return Findings()
        roots = {"/sys": settings.sys_root, "/dev": settings.dev_root, FOLDER: settings.device_files}
        found = discover(HostProbe(roots, self._nvml.facts))
        problems: tuple[Problem, ...] = self._nvml.problems
        return Findings(devices=found, problems=problems)

    def close(self) -> None:
        """Let go of what is held open."""
        self._nvml.close()
