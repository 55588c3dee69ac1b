"""The sizes that virtual NPUs may have, as ConfigMaps of STATE list them.

A ConfigMap that is not there, or of which nothing can be read, has no sizes: pods that ask for one wait until it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.rules.devices.templates import KEY, Templates, read_templates, without_twins
from berth.rules.scheduler_config import DeviceShareArgs
from berth.transaction.claims import Name


class Table(NamedTuple):
    """What a ConfigMap lists, and what of it cannot be used."""

    templates: Templates = {}
    problems: tuple[Problem, ...] = ()


NOTHING: Final = Table()


def place_of(args: DeviceShareArgs) -> Name:
    """The ConfigMap that a profile takes them from."""
    return args.templates.config_map_namespace, args.templates.config_map_name


class NpuTemplates:
    """Tables by namespace and name of their ConfigMap. Only those that were asked for are read."""

    def __init__(self) -> None:
        self._data: dict[Name, Mapping[str, str]] = {}
        self._tables: dict[Name, Table] = {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What cannot be used now, of all that was asked for."""
        return tuple(problem for name in sorted(self._tables) for problem in self._tables[name].problems)

    def reset(self) -> None:
        """STATE starts over. What was read holds on until it is known better."""
        self._data.clear()

    def see(self, name: Name, data: Mapping[str, str] | None) -> bool:
        """A ConfigMap as STATE shows it, None: it is gone; whether somebody who asked would be told otherwise now."""
        if data is None:
            self._data.pop(name, None)
        else:
            self._data[name] = data
        return self._look(name)

    def end(self) -> bool:
        """The end of STATE was reached: what it does not show is gone; whether that changes something."""
        changed = [name for name in list(self._tables) if name not in self._data and self._look(name)]
        return bool(changed)

    def of(self, name: Name) -> Templates:
        """The sizes by model."""
        if name not in self._tables:
            self._tables[name] = _table(self._data.get(name))
        return self._tables[name].templates

    def _look(self, name: Name) -> bool:
        before = self._tables.get(name)
        if before is None:
            return False
        self._tables[name] = found = _table(self._data.get(name))
        return found != before


def _table(data: Mapping[str, str] | None) -> Table:
    if data is None:
        return NOTHING
    if KEY not in data:
        return Table(problems=(Problem(field=f"data[{KEY}]", message="is missing"),))
    read, unreadable = read_templates(data[KEY])
    templates, twins = without_twins(read)
    return Table(templates, unreadable + twins)
