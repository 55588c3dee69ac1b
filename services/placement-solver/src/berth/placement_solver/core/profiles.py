"""Profiles: by which rules the pods of each scheduler name are placed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from berth.contracts.base import Problem
from berth.placement_solver.core.facts import Facts
from berth.placement_solver.core.registry import Registry
from berth.rules.scheduler_config import DEFAULT, Profile, SchedulerConfig, read_scheduler_config

TEXT_KEYS: Final = ("config.yaml", "scheduler-config.yaml", "config")
"""The keys of a ConfigMap that are looked at, in this order; of a single key the name does not matter."""


def text_in(data: Mapping[str, str]) -> str | None:
    """The text in a ConfigMap; None where none of its keys is the one."""
    key = next((key for key in TEXT_KEYS if key in data), None) or (next(iter(data)) if len(data) == 1 else None)
    return None if key is None else data[key]


class Profiles:
    """The rules of each profile, compiled over the facts; a scheduler name without a profile has the default one."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.default = Registry(facts)
        self._by_name: dict[str, Registry] = {}

    def use(self, profiles: Mapping[str, Profile]) -> None:
        """From now on these profiles hold, and no others."""
        self._by_name = {name: Registry(self._facts, profile) for name, profile in profiles.items()}

    def in_force(self) -> Iterable[Profile]:
        """Those that were configured; none, where the default one holds for all."""
        return (each.profile for each in self._by_name.values())

    def list_plugin(self, name: str) -> bool:
        """Whether any of them rules nodes out, or rates them, by this plugin."""
        return any(name in each.profile.constraints or name in each.profile.weights for each in self._by_name.values())

    def of(self, scheduler: str) -> Registry:
        """The rules for pods that name this scheduler."""
        return self._by_name.get(scheduler, self.default)


class Configuration:
    """The configuration in force. One that cannot be used leaves the one before, and says what is wrong with it."""

    def __init__(self) -> None:
        self.config = SchedulerConfig({})
        self.problems: tuple[Problem, ...] = ()
        self.broken = 0
        """How many texts could not be used."""
        self.is_known = False
        """Whether one was read, or is known not to exist: until then nobody has said by which rules to place."""
        self._last: object = None
        """What was read, or refused, last."""

    def read(self, text: str | None, *, is_shared: bool = True) -> bool:
        """Read a text, None where there is none; whether another configuration holds from now on.

        `is_shared`: it is one that other services can read as well.
        """
        if self._last == ("text", text):
            return False
        found = SchedulerConfig({}) if text is None else read_scheduler_config(text, is_shared=is_shared)
        if not isinstance(found, SchedulerConfig):
            self.refuse(found)
            self._last = ("text", text)
            return False
        before, was_known = self.config, self.is_known
        self.config, self.problems, self.is_known, self._last = found, (), True, ("text", text)
        return found != before or not was_known

    def refuse(self, problems: tuple[Problem, ...]) -> None:
        """There is a configuration, and it cannot be used. The same thing again is not counted again."""
        if self._last != ("refused", problems):
            self.broken += 1
        self.problems, self._last = problems, ("refused", problems)

    def read_config_map(self, data: Mapping[str, str] | None) -> bool:
        """Read the text in a ConfigMap, None where it does not exist."""
        if data is None:
            return self.read(None)
        text = text_in(data)
        if text is not None:
            return self.read(text, is_shared=False)
        self.refuse((Problem(field="data", message=f"has none of the keys {', '.join(TEXT_KEYS)}"),))
        return False

    @property
    def state(self) -> str:
        """In one line, for people."""
        if self.problems:
            first = self.problems[0]
            more = f" and {len(self.problems) - 1} more" if len(self.problems) > 1 else ""
            held = "the one before holds" if self.is_known else "nothing is planned"
            message = " ".join(first.message.split())  # a parser of YAML writes several lines
            return f"refused, {held}: {first.field}: {message}{more}"[:500]
        if not self.is_known:
            return "not read yet"
        profiles = ", ".join(f"{name} ({each.decides})" for name, each in sorted(self.config.profiles.items()))
        return profiles or f"default ({DEFAULT.decides})"
