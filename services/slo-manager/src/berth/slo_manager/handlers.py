"""From what the buckets show to what has to be published, asked for and told. Sends nothing, waits for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from berth.contracts.base import Problem
from berth.contracts.command import ApplyObject
from berth.contracts.kube import OwnerReference
from berth.contracts.slo import NodeSLO
from berth.contracts.state import Node
from berth.contracts.subjects import named_key
from berth.slo_manager.core.config import Config, read_config
from berth.slo_manager.core.render import render
from berth.slo_manager.views import NODE, Shelf, StateView

API: Final = "slo.koordinator.sh/v1alpha1/nodeslos"


@dataclass(kw_only=True, slots=True)
class Outcome:
    """What one look at a node comes to; all of it is empty when everything is as it should be.

    `published`: what the bucket showed.
    """

    published: NodeSLO | None = None
    strategy: NodeSLO | None = None
    withdraw: bool = False
    apply: ApplyObject | None = None


class Desk:
    """Decides about one node at a time."""

    def __init__(self, view: StateView, shelf: Shelf, *, sync_objects: bool) -> None:
        self.view = view
        self.shelf = shelf
        self.config = Config({})
        self._sync_objects = sync_objects
        self._read: dict[str, str] | None = None
        self._told: Sequence[Problem] = ()

    def names(self) -> set[str]:
        """Every node that may need something."""
        return self.view.nodes.keys() | set(self.shelf.names.values())

    def forget_texts(self) -> None:
        """Another replica was active meanwhile: what it read of keys that cannot be used now is in SLO alone."""
        self.config, self._read = Config({}), None

    def refresh(self) -> list[Problem]:
        """Read the ConfigMap if it changed. Returns what is wrong with it when that is news."""
        texts = self.view.texts or {}
        if texts != self._read:
            self._read = texts
            self.config = read_config(texts, self.config.sections)
        if self.config.problems == self._told:
            return []
        self._told = self.config.problems
        return list(self.config.problems)

    def decide(self, name: str, now_ms: int) -> Outcome:
        """Bring SLO and the NodeSLO object in line with the strategies.

        A request for the object is numbered by the clock, but above the one before it as long as SLO tells which that
        was, whatever clocks do.
        The shelf is changed at once, as if the write had happened: should it be refused, the bucket shows the other
        value and the node is looked at again. Nothing is decided before the view proves what is not there.
        """
        published = self.shelf.strategies.get(name)
        outcome = Outcome(published=published)
        if not self.view.is_complete:
            return outcome
        node = self.view.nodes.get(name)
        if node is None:
            outcome.withdraw = named_key(NODE, name) in self.shelf.names
            self.shelf.put(name, None)
            return outcome
        before = published.revision if published is not None else 0
        wanted = replace(render(node, self.config, published), configured=self.view.texts is not None, revision=before)
        asks = self._sync_objects and _shows_otherwise(published, wanted)
        if wanted == published and not asks:
            return outcome
        if asks:
            wanted = replace(wanted, revision=max(now_ms, before + 1))
            outcome.apply = _object(node, wanted)
        outcome.strategy = wanted
        self.shelf.put(name, wanted)
        return outcome

    def stands(self, name: str, outcome: Outcome) -> bool:
        """Whether the bucket has shown nothing else since the outcome was decided."""
        return self.shelf.strategies.get(name) is outcome.strategy

    def take_back(self, name: str, outcome: Outcome) -> None:
        """The outcome is not carried out: the shelf shows what it showed before, unless the bucket has told more."""
        if (outcome.strategy is not None or outcome.withdraw) and self.stands(name, outcome):
            self.shelf.put(name, outcome.published)
            if outcome.withdraw:  # also of a key whose value nobody can read
                self.shelf.names[named_key(NODE, name)] = name


def _shows_otherwise(published: NodeSLO | None, wanted: NodeSLO) -> bool:
    """Whether the node's object has to be written.

    Where nobody has configured us an object may be that of another manager, and ours would only repeat the defaults.
    What we showed under a ConfigMap that is gone is brought to the defaults once. What was published while objects were
    not ours to keep has no revision, and its object is still to be written.
    """
    if published is None:
        return wanted.configured
    shown, due = ((each.uid, each.configured, each.spec) for each in (published, wanted))
    was_asked = bool(published.revision) or not wanted.configured
    return (published.configured or wanted.configured) and (shown != due or not was_asked)


def _object(node: Node, strategy: NodeSLO) -> ApplyObject:
    """Ask for the node's object; it goes with its node."""
    owner = OwnerReference(api_version="v1", kind="Node", name=node.name, uid=node.uid)
    return ApplyObject(api=API, name=node.name, spec=strategy.spec, owner=owner, revision=strategy.revision)
