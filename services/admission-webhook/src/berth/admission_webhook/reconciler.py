"""From what the buckets show to what the API server is asked to call the webhook for. No I/O, no clock."""

from __future__ import annotations

from typing import Final

from berth.admission_webhook.core.bundle import Bundle
from berth.admission_webhook.core.entries import PROFILES_MAX, Wanted, entries_of
from berth.admission_webhook.settings import SERVICE
from berth.admission_webhook.views import CertificateView, ClusterView, ConfigurationView
from berth.contracts.base import Problem
from berth.contracts.command import ConfigureWebhooks
from berth.contracts.event import ObjectRefused
from berth.contracts.subjects import command_subject, event_subject
from berth.rules.webhooks import KINDS, rendered
from berth.runtime import Command, Event, Moment, Outcome

AGAIN_S: Final = 5.0
"""What was asked for and is not shown is asked for again after so long, and then after twice as long each time."""
AGAIN_MAX_S: Final = 300.0


class Reconciler:
    """Decides about one configuration at a time, by its kind."""

    def __init__(
        self,
        cluster: ClusterView,
        configurations: ConfigurationView,
        certificates: CertificateView,
        *,
        schedulers: tuple[str, ...],
        doors: frozenset[str],
        url: str,
        silence_s: float,
    ) -> None:
        self.cluster = cluster
        self.configurations = configurations
        self.certificates = certificates
        self.problems: dict[str, Problem] = {}
        self._schedulers = schedulers
        self._doors = doors
        self._url = url
        self._bundle = Bundle(silence_s)
        self._asked: dict[str, tuple[ConfigureWebhooks, float, float]] = {}
        """By kind: what was asked for, when it is asked for again, and after how long then."""
        self._announced: dict[str, Problem] = {}

    @property
    def is_ready(self) -> bool:
        """Nothing is asked for before all profiles and all leases are known: entries must not come and go."""
        return self.cluster.is_complete and self.certificates.is_at_end

    def begin(self) -> None:
        """Another replica was active meanwhile."""
        self._asked.clear()
        self._announced.clear()

    def reconcile(self, kind: str, at: Moment) -> Outcome:
        """Have a configuration call for what there is to call for, and trust the replicas that there are."""
        wanted = entries_of(
            kind, self.cluster.profiles.values(), self.cluster.problems, schedulers=self._schedulers, doors=self._doors
        )
        events = self._refusals(wanted, at) if kind == KINDS[0] else []
        bundle = self._bundle.text(self.certificates.leases, at.monotonic)
        shown = self.configurations.configurations.get(kind)
        if shown is None or not bundle:
            return Outcome(events=events)
        entries = [rendered(entry, self._url) for entry in wanted.entries]
        if shown.ca_bundle == bundle and shown.webhooks == entries:
            self._asked.pop(kind, None)
            return Outcome(events=events)
        configure = ConfigureWebhooks(
            kind=kind, uid=shown.uid, version=str(shown.version), entries=list(wanted.entries), ca_bundle=bundle
        )
        if not self._is_time(configure, at.monotonic):
            return Outcome(events=events)
        command = Command(
            command_subject("configure", "webhooks", kind), configure, id=f"{SERVICE}.{kind}.{shown.version}.{at.ms}"
        )
        return Outcome(commands=[command], events=events)

    def _is_time(self, configure: ConfigureWebhooks, now: float) -> bool:
        before = self._asked.get(configure.kind)
        pause_s = AGAIN_S
        if before is not None and before[0] == configure:
            if now < before[1]:
                return False
            pause_s = min(before[2] * 2, AGAIN_MAX_S)
        self._asked[configure.kind] = (configure, now + pause_s, pause_s)
        return True

    def _refusals(self, wanted: Wanted, at: Moment) -> list[Event]:
        """What is wrong with profiles, told when that is news."""
        full = Problem(field="metadata.name", message=f"has no entry: {PROFILES_MAX} profiles come before it, by name")
        self.problems = {**self.cluster.problems, **dict.fromkeys(wanted.beyond, full)}
        news = {name: found for name, found in self.problems.items() if self._announced.get(name) != found}
        self._announced = self.problems
        return [
            Event(
                event_subject("object", "refused", "clustercolocationprofiles", name),
                ObjectRefused(kind="ClusterColocationProfile", name=name, problems=[found]),
                id=f"{SERVICE}.{name}.{at.ms}",
                level="warning",
                text="a ClusterColocationProfile has problems",
                fields={"name": name, "problem": f"{found.field}: {found.message}"},
            )
            for name, found in news.items()
        ]
