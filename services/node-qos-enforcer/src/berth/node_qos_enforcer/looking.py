"""One look at what is on the node: blocking reads in a thread, values out. What cannot be read is a problem."""

from __future__ import annotations

from collections.abc import Callable

from berth.contracts.base import Problem
from berth.contracts.node_report import ReportedKubelet
from berth.kubelet.core.configz import KubeletConfig
from berth.node_qos_enforcer.core.cpu_report import Cpus, kubelet_of
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.node_report import CPUS, KUBELET, Findings
from berth.node_qos_enforcer.cpu_reading import Layouts, read_cpus
from berth.node_qos_enforcer.files import DiskTree, Unreadable
from berth.node_qos_enforcer.host_probe import HostProbe
from berth.node_qos_enforcer.kubelet_reading import Configz, kubelet_api, read_config, read_state
from berth.node_qos_enforcer.nvml import Nvml
from berth.node_qos_enforcer.settings import Settings
from berth.rules.cpus.kubelet import CHECKPOINT, STATIC
from berth.vendors.device_files import FOLDER
from berth.vendors.devices import Found
from berth.vendors.discovery import discover


class Looker:
    """Looks at the parts that the settings name."""

    def __init__(self, settings: Settings, monotonic: Callable[[], float]) -> None:
        """Nothing is read yet."""
        self._settings = settings
        self._nvml = Nvml(monotonic)
        self._sys = DiskTree(settings.sys_root)
        self._layouts = Layouts(self._sys, monotonic)
        self._configz: Configz | None = None
        if settings.kubelet_url:
            self._configz = Configz(kubelet_api(settings), monotonic)

    @property
    def _asks_holders(self) -> bool:
        return bool(self._settings.podresources_socket)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to look at."""
        return self._settings.devices or self._settings.cpus or self._asks_holders

    def look(self) -> Findings:
        """What is on the node now."""
        problems: list[Problem] = []
        unread: set[str] = set()
        devices = self._devices(problems) if self._settings.devices else None
        cpus = self._cpus(problems, unread) if self._settings.cpus else None
        kubelet = self._kubelet(cpus, problems, unread) if self._settings.cpus else None
        return Findings(devices=devices, cpus=cpus, kubelet=kubelet, unread=frozenset(unread), problems=tuple(problems))

    def close(self) -> None:
        """Let go of what is held open."""
        self._nvml.close()

    def _devices(self, problems: list[Problem]) -> Found:
        settings = self._settings
        roots = {"/sys": settings.sys_root, "/dev": settings.dev_root, FOLDER: settings.device_files}
        found = discover(HostProbe(roots, self._nvml.facts))
        problems += self._nvml.problems
        return found

    def _cpus(self, problems: list[Problem], unread: set[str]) -> Cpus | None:
        try:
            return read_cpus(self._sys, DiskTree(self._settings.proc_root), self._layouts.cores())
        except Malformed as error:
            problems.append(Problem(field=error.file, message=error.reason))
        except Unreadable as error:
            problems.append(Problem(field=error.path, message=error.reason))
        unread.add(CPUS)
        return None

    def _config(self) -> KubeletConfig | Problem | None:
        """By its own word, which has kubelet's flags as well; else by its file."""
        if self._configz is not None:
            return self._configz.read()
        path = self._settings.kubelet_config_file
        return read_config(path) if path else None

    def _kubelet(self, cpus: Cpus | None, problems: list[Problem], unread: set[str]) -> ReportedKubelet | None:
        """What kubelet does; None where nothing says it, and where something cannot be read."""
        config = self._config()
        state = read_state(self._settings.kubelet_root) if self._settings.kubelet_root else None
        faults = [each for each in (config, state) if isinstance(each, Problem)]
        if isinstance(config, Problem) or isinstance(state, Problem) or cpus is None:
            problems += faults
            unread.add(KUBELET)
            return None
        if config is None and state is None:
            return None
        if config is not None and config.cpu_manager_policy == STATIC and state is None and not self._asks_holders:
            message = f"is not there, and kubelet gives out CPUs ({STATIC}); its PodResources would say which"
            problems.append(Problem(field=CHECKPOINT, message=message))
            unread.add(KUBELET)
            return None
        found, unclear = kubelet_of(config, state, cpus.layout)
        problems += [*(config.problems if config is not None else ()), *unclear]
        return found
