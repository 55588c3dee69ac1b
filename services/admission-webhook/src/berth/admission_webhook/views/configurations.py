"""Berth's webhook configurations, as STATE shows them. A sink only records and marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.bus.port import Entry
from berth.contracts import names, state
from berth.contracts.codec import decode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import named_key, synced_key
from berth.rules.webhooks import KINDS, MUTATING, VALIDATING

_CONFIGURATIONS: Final = {named_key(f"{kind}webhookconfiguration", names.WEBHOOKS): kind for kind in KINDS}
_MARKERS: Final = {synced_key(key): kind for key, kind in _CONFIGURATIONS.items()}
Configuration = state.MutatingWebhookConfiguration | state.ValidatingWebhookConfiguration
_MESSAGES: Final[dict[str, type[Configuration]]] = {
    MUTATING: state.MutatingWebhookConfiguration,
    VALIDATING: state.ValidatingWebhookConfiguration,
}


class ConfigurationView:
    """Berth's two webhook configurations by kind; one that is not there does not exist."""

    keys: Final = (*_CONFIGURATIONS, *_MARKERS)

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.configurations: dict[str, Configuration] = {}
        self.unreadable = 0
        self._complete: set[str] = set()
        self._mark = mark

    @property
    def missing(self) -> str:
        """What is not known, or not there, for people; empty when both are there."""
        for kind in KINDS:
            if kind not in self.configurations:
                if kind not in self._complete:
                    return f"waiting for the {kind} webhook configuration of the cluster"
                return f"there is no {kind} webhook configuration {names.WEBHOOKS}: apply k8s/base/webhooks.yaml"
        return ""

    @property
    def bundles(self) -> list[str]:
        """What the API server checks replicas by, of each configuration; none while one of them is not known."""
        return [] if self.missing else [self.configurations[kind].ca_bundle for kind in KINDS]

    def reset(self) -> None:
        """The bucket begins anew."""
        self.configurations.clear()
        self._complete.clear()

    def apply(self, entry: Entry) -> None:
        """One message of STATE. One that cannot be read leaves what was known."""
        try:
            if entry.key in _CONFIGURATIONS:
                kind = _CONFIGURATIONS[entry.key]
                if entry.deleted:
                    self.configurations.pop(kind, None)
                else:
                    self.configurations[kind] = decode(entry.value, _MESSAGES[kind])
                self._mark(kind)
            elif entry.key in _MARKERS:
                kind = _MARKERS[entry.key]
                is_complete = not entry.deleted and decode(entry.value, state.Synced).complete
                (self._complete.add if is_complete else self._complete.discard)(kind)
        except (InvalidMessage, ValueError):
            self.unreadable += 1

    def end(self, sequence: int) -> None:
        """The end of the bucket."""
