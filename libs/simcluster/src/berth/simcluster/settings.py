"""The settings of a simulated cluster."""

from dataclasses import dataclass, field
from pathlib import Path

from berth.simcluster.controllers import ControllerSettings
from berth.simcluster.faults import Fault
from berth.simcluster.kubelet import KubeletSettings
from berth.simcluster.store.store import HISTORY


@dataclass(frozen=True, slots=True)
class SimSettings:
    """Settings of the server. Nothing is read from the environment."""

    host: str = "127.0.0.1"
    port: int = 0  # 0: any free one
    port_file: Path | None = None
    crds: Path | None = None  # None: those that come with the contracts
    install_crds: bool = True
    history: int = HISTORY  # changes kept per resource
    bookmark_s: float = 5.0
    kubelet: KubeletSettings | None = field(default_factory=KubeletSettings)  # None: no kubelets
    controllers: ControllerSettings | None = None  # None: only what the API itself does
    token_file: Path | None = None
    admin: bool = False  # serve /sim/
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    manifests: tuple[Path, ...] = ()  # JSON files whose objects exist from the start
    first_version: int | None = None  # None: derived from the time, so that a restart never goes back

    def problem(self) -> str:
        """What is wrong, naming the setting; empty if nothing."""
        if not 0 <= self.port <= 65535:
            return "port: must be between 0 and 65535"
        if not 1 <= self.history <= 10_000_000:
            return "history: must be between 1 and 10000000"
        if not 0.01 <= self.bookmark_s <= 3600:
            return "bookmark_s: must be between 0.01 and 3600"
        if self.first_version is not None and not 1 <= self.first_version < 1 << 53:
            return "first_version: must be between 1 and 2^53"
        for name, part in (("kubelet", self.kubelet), ("controllers", self.controllers)):
            problem = part.problem() if part is not None else ""
            if problem:
                return f"{name}.{problem}"
        return ""
