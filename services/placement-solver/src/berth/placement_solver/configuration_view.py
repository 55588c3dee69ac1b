"""The KubeSchedulerConfiguration as the solver sees it: from a text, or from a ConfigMap that STATE shows."""

from __future__ import annotations

from collections.abc import Callable

from berth.contracts import subjects
from berth.contracts.base import Problem
from berth.contracts.codec import decode
from berth.contracts.state import ConfigMap
from berth.placement_solver.core.profiles import Configuration
from berth.placement_solver.core.state_keys import tombstone_version
from berth.rules.scheduler_config import SchedulerConfig
from berth.transaction.completeness import Completeness


class ConfigurationView:
    """What holds for the pods of `schedulers`.

    `is_configured`: a text will be read; `config_map` is the namespace and name of the one that STATE will show.
    """

    def __init__(self, schedulers: frozenset[str], config_map: tuple[str, str] | None, *, is_configured: bool) -> None:
        self._schedulers = schedulers
        self._configuration = Configuration()
        # Where nothing is to be read, the defaults are what holds.
        self._configuration.is_known = not is_configured and config_map is None
        self._key = subjects.namespaced_key("configmap", *config_map) if config_map else ""
        self._data: dict[str, str] | None = None
        self._complete = Completeness()
        self._reported = ""
        self.text: str | None = None
        """The text that was read last and could be used; a ConfigMap is none."""
        self.on_use: Callable[[SchedulerConfig], None] = lambda config: None
        """Called when another configuration holds."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when what is known of it is another thing: one was read, refused or taken away."""

    # --- what holds --------------------------------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether it is known by which profiles to place."""
        return self._configuration.is_known

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the one that was read last."""
        return self._configuration.problems

    @property
    def broken(self) -> int:
        """How many could not be used."""
        return self._configuration.broken

    @property
    def foreign(self) -> list[str]:
        """Profiles of scheduler names that are not ours: nobody is placed by them."""
        return sorted(self._configuration.config.profiles.keys() - self._schedulers)

    @property
    def idle(self) -> str:
        """That the configuration holds for nobody, and why; empty where it does, or there is none."""
        foreign = self.foreign
        if not foreign or len(foreign) < len(self._configuration.config.profiles):
            return ""
        ours = " or ".join(sorted(self._schedulers))
        theirs = ", ".join(foreign)
        return f"NOBODY is placed by this configuration: it has no profile for schedulerName {ours}, only for {theirs}"

    @property
    def state(self) -> str:
        """What holds, in one line for people; what is wrong with it comes first."""
        parts = (self._configuration.state, self.idle)
        return "; ".join(filter(None, parts if self.problems else reversed(parts)))

    # --- what is read ------------------------------------------------------------------------------------------------

    def read(self, text: str | None) -> bool:
        """Read a text, None where there is none; whether another configuration holds from now on."""
        is_another = self._configuration.read(text)
        if not self.problems:
            self.text = text
        return self._use(is_another)

    def refuse(self, source: str, message: str) -> None:
        """It cannot be had where it should be."""
        self._configuration.refuse((Problem(field=source, message=message),))
        self._report()

    @property
    def trackers(self) -> dict[str, Completeness]:
        """By the key under which STATE marks the ConfigMap as complete."""
        return {self._key: self._complete} if self._key else {}

    def reset(self) -> None:
        """STATE is read anew. What held holds on until it is known better."""
        self._data = None
        self._complete.reset()

    def read_config_map(self, key: str, value: bytes, deleted: bool) -> None:
        """A ConfigMap of STATE, which may be another one. Raises InvalidMessage."""
        if key != self._key:
            return
        if deleted:
            self._complete.seen(tombstone_version(value))
            self._data = None
            self.look()
            return
        found = decode(value, ConfigMap)
        self._complete.seen(found.version)
        self._data = found.data
        self._use(self._configuration.read_config_map(found.data))

    def look(self) -> None:
        """One that is not there in a complete view does not exist: the defaults hold."""
        if self._key and self._data is None and self._complete.is_known:
            self._use(self._configuration.read_config_map(None))

    def _use(self, is_another: bool) -> bool:
        if is_another:
            self.on_use(self._configuration.config)
        self._report()
        return is_another

    def _report(self) -> None:
        state = self.state
        if state != self._reported:
            self._reported = state
            self.on_change()
