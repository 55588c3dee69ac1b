"""The wiring of admission-webhook.

Every replica answers, and is ready once the API server can trust its certificate. The one that holds the lease also has
cluster-writer keep the webhook configurations in line with the profiles and with the replicas that there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from berth.admission_webhook import keys
from berth.admission_webhook.core.bundle import Note, seal_keys
from berth.admission_webhook.core.entries import open_doors
from berth.admission_webhook.core.succession import Standing, wants_successor
from berth.admission_webhook.reconciler import Reconciler
from berth.admission_webhook.server import Server
from berth.admission_webhook.settings import SERVICE, Settings
from berth.admission_webhook.views import CERTIFICATE, CERTIFICATE_KEYS, CertificateView, ClusterView, ConfigurationView
from berth.contracts import buckets, subjects
from berth.contracts.base import Problem
from berth.contracts.errors import InvalidMessage
from berth.rules.admission.review import review
from berth.rules.admission.seam import DRAW_MAX
from berth.rules.admission.wire import read_review, write_answer
from berth.rules.webhooks import KINDS
from berth.runtime import ChangeSet, Context, Input, Replica
from berth.runtime.periodic import Periodic
from berth.runtime.shared_settings import read_config_map
from berth.telemetry import counter, gauge

WINDOW_S: Final = 0.2
TICK_S: Final = 1.0
SILENCE_TTLS: Final = 3
"""Times to live of a lease after which a replica that does not renew its own counts as gone."""
DAY_S: Final = 86_400.0
REQUESTED = counter("berth_admission_configurations_total", "Requests to write a webhook configuration.")
DONE = counter("berth_admission_done_total", "What was done to objects.", ["what"])
PROFILES = gauge("berth_admission_profiles", "ClusterColocationProfiles there are.")
PROBLEMS = gauge("berth_admission_profiles_with_problems", "ClusterColocationProfiles that cannot be used as they are.")
UNREADABLE = gauge("berth_admission_unreadable_messages", "Messages that could not be read since the start.")
CERTIFICATE_ENDS = gauge(
    "berth_admission_certificate_ends_seconds", "Unix time at which this replica's certificate ends."
)


class Shell(Replica[Settings]):
    """One replica."""

    def __init__(self, context: Context[Settings]) -> None:
        settings = context.settings
        self.changed: ChangeSet[str] = ChangeSet(context.clock)
        self._gates = settings.gates
        self._seal_key = keys.seal_key()
        self.cluster = ClusterView(
            self._gates, lambda: self.changed.mark_all(KINDS), read_config_map(settings.slo_config_map)
        )
        self.configurations = ConfigurationView(self.changed.mark)
        self.certificates = CertificateView(self._seal)
        self._seal()
        inputs = [
            Input(buckets.STATE, self.cluster, self.cluster.keys),
            Input(buckets.STATE, self.configurations, ConfigurationView.keys),
            Input(buckets.LEASE, self.certificates, CERTIFICATE_KEYS),
        ]
        super().__init__(SERVICE, context, inputs=inputs, lease_ttl_s=settings.lease_ttl_s)
        self.reconciler = Reconciler(
            self.cluster,
            self.configurations,
            self.certificates,
            schedulers=tuple(settings.scheduler_names),
            doors=open_doors(self._gates),
            url=settings.webhook_url,
            silence_s=SILENCE_TTLS * settings.lease_ttl_s,
        )
        self._tls = keys.server_context()
        self._certificate = self._make()
        self._successor: keys.Certificate | None = None
        self._succession = Standing()
        self._leases: dict[str, asyncio.Task[None]] = {}
        self.server = Server(self.answer)
        keys.serve_with(self._tls, self._certificate)

    @property
    def is_ready(self) -> bool:
        """See `Replica`."""
        return self.cluster.is_complete and self._is_trusted

    @property
    def missing(self) -> str:
        """See `Replica`."""
        if not self.cluster.is_complete:
            return self.cluster.missing
        if self.configurations.missing:
            return self.configurations.missing
        return "trusted" if self._is_trusted else "waiting for its certificate to stand in the webhook configurations"

    @property
    def facts(self) -> Mapping[str, str | int | float]:
        """See `Replica`."""
        return {
            "profiles": len(self.cluster.profiles),
            "profiles with problems": len(self.reconciler.problems),
            "replicas": len(self.certificates.leases),
            "certificate ends_at": self._certificate.ends_at,
            "unreadable messages": self._unreadable,
            "view": self.missing,
        }

    @property
    def _is_trusted(self) -> bool:
        certificate, bundles = self._certificate, self.configurations.bundles
        stands = bool(bundles) and all(certificate.pem in bundle for bundle in bundles)
        return stands and self.context.clock.now() < certificate.ends_at

    @property
    def _unreadable(self) -> int:
        return self.cluster.unreadable + self.configurations.unreadable + self.certificates.unreadable

    async def prepare(self) -> None:
        """See `Replica`. Raises OSError when the port cannot be had."""
        settings = self.context.settings
        await self.server.start(settings.http_host, settings.webhook_port, self._tls)
        self.context.log.info("answering the API server", port=self.server.port, host=settings.host)
        self._announce_certificate(self._certificate)
        self.context.spawn(self._tick(), name="tick")

    async def finish(self) -> None:
        """See `Replica`."""
        await self.server.close()

    async def work(self) -> None:
        """Keep the configurations."""
        self.context.log.info("active: keeping the webhook configurations")
        self.reconciler.begin()
        self.changed.mark_all(KINDS)
        async for kinds in self.changed.batches(WINDOW_S):
            if not self.reconciler.is_ready:
                continue
            for kind in kinds:
                await self._reconcile(kind)

    async def _reconcile(self, kind: str) -> None:
        outcome = self.reconciler.reconcile(kind, self.moment())
        for event in outcome.events:
            self.announce(event)
        for command in outcome.commands:
            try:
                await self.send(command)
            except (InvalidMessage, ValueError) as error:  # more than the bus takes
                self.context.log.error("webhook configuration cannot be asked for", kind=kind, error=str(error))
            else:
                REQUESTED.inc()

    async def _tick(self) -> None:
        async for _ in Periodic(self.context.clock, TICK_S).ticks():
            self.changed.mark_all(KINDS)
            self._succeed()
            PROFILES.set(len(self.cluster.profiles))
            PROBLEMS.set(len(self.reconciler.problems))
            UNREADABLE.set(self._unreadable)
            CERTIFICATE_ENDS.set(self._certificate.ends_at)

    def answer(self, path: str, body: bytes) -> tuple[bytes, str]:
        """See `berth.admission_webhook.server.Answer`."""
        request = read_review(body)
        if isinstance(request, Problem):
            raise InvalidMessage(request.field, request.message)
        draw = self.context.random.randint(1, DRAW_MAX)
        answer = review(path, request, self.cluster.reviewed, gates=self._gates, draw=draw)
        for name, count in answer.counts.items():
            DONE.labels(name).inc(count)
        outcome = "changed" if answer.patch else "admitted" if answer.is_allowed else "refused"
        return write_answer(request.uid, answer), outcome

    def _seal(self) -> None:
        self.cluster.seal_with(seal_keys(self._seal_key, self.certificates.leases))

    # --- certificates ------------------------------------------------------------------------------------------------

    @property
    def _lifetime_s(self) -> float:
        return self.context.settings.certificate_days * DAY_S

    def _make(self) -> keys.Certificate:
        return keys.make(self.context.settings.host, self.context.clock.now(), self._lifetime_s)

    def _succeed(self) -> None:
        """Make a successor when it is time, and show it once every API server can know it."""
        clock, bundles = self.context.clock, self.configurations.bundles
        if self._successor is None:
            if wants_successor(self._certificate.ends_at, self._lifetime_s, clock.now()):
                self._successor, self._succession = self._make(), Standing()
                self._announce_certificate(self._successor)
            return
        self._succession.look(self._successor.pem, bundles, clock.monotonic())
        if not self._succession.has_settled(clock.monotonic()):
            return
        keys.serve_with(self._tls, self._successor)
        self._leases.pop(self._certificate.fingerprint).cancel()
        self._certificate, self._successor = self._successor, None
        self.context.log.info("a new certificate is shown", fingerprint=self._certificate.fingerprint)

    def _announce_certificate(self, certificate: keys.Certificate) -> None:
        """Keep a certificate on the bus for as long as it is in use."""
        key = subjects.key(CERTIFICATE, certificate.fingerprint)
        ttl_s = self.context.settings.lease_ttl_s
        note = Note(pem=certificate.pem, seal=self._seal_key.hex())
        lease = self.context.bus.lease(key, self.context.instance, ttl_s=ttl_s, note=msgspec.json.encode(note).decode())
        self._leases[certificate.fingerprint] = self.context.spawn(lease.run(), name=f"certificate {key[:24]}")


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context).run()
