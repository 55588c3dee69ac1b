"""The wiring of yarn-operator: ResourceManagers are asked, grants go to them, charges to cluster-writer.

It keeps nothing: what YARN is charged with stands on the nodes, what it has in its ResourceManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from berth.contracts import buckets
from berth.contracts.base import Problem
from berth.contracts.command import AnnotateNode
from berth.contracts.names import ANNOTATION_THIRD_PARTY_ALLOCATIONS
from berth.contracts.subjects import command_subject
from berth.runtime import Command, Context, Input, Periodic, Replica
from berth.telemetry import counter, gauge
from berth.yarn_operator.core.dividing import Dividing
from berth.yarn_operator.core.listing import Listing
from berth.yarn_operator.core.notes import read_note
from berth.yarn_operator.core.rounds import Charge, OnNode, plan_round
from berth.yarn_operator.core.units import Share
from berth.yarn_operator.resource_manager import RefusedError, ResourceManager, UnreachableError
from berth.yarn_operator.rest import Rest, by_http
from berth.yarn_operator.settings import SERVICE, Settings
from berth.yarn_operator.views import OFFER_KEYS, STATE_KEYS, OfferView, StateView

NODES: Final = gauge("berth_yarn_nodes", "NodeManagers that are granted a part of their node.", ["cluster"])
VCORES: Final = gauge("berth_yarn_vcores", "Virtual cores of YARN.", ["cluster", "what"])
MEMORY: Final = gauge("berth_yarn_memory_megabytes", "Memory of YARN.", ["cluster", "what"])
CHARGES: Final = counter("berth_yarn_charges_total", "Requests to charge YARN with another part of a node.")
GRANTS: Final = counter("berth_yarn_grants_total", "Grants that were sent to ResourceManagers.", ["outcome"])
REFUSED: Final = counter(
    "berth_yarn_refused_total", "Entries of ResourceManagers and notes of nodes that are of no use."
)
TROUBLE_MAX: Final = 300
Connect = Callable[[float], AbstractAsyncContextManager[Rest]]
"""Opens a way to ask that gives up after so many seconds."""


class Shell(Replica[Settings]):
    """One replica."""

    def __init__(self, context: Context[Settings], connect: Connect) -> None:
        self._connect = connect
        self.state = StateView()
        self.offers = OfferView()
        inputs = [Input(buckets.STATE, self.state, STATE_KEYS), Input(buckets.SLO, self.offers, OFFER_KEYS)]
        super().__init__(SERVICE, context, inputs=inputs, lease_ttl_s=context.settings.lease_ttl_s)
        self._trouble: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    @property
    def is_ready(self) -> bool:
        """See `Replica`."""
        return self.state.is_complete and self.offers.is_at_end

    @property
    def missing(self) -> str:
        """See `Replica`."""
        return "complete" if self.is_ready else "reading nodes, pods and offers"

    @property
    def facts(self) -> Mapping[str, str | int | float]:
        """See `Replica`."""
        return {
            "NodeManagers": sum(self._counts.values()),
            "trouble": "; ".join(f"{name}: {said}" for name, said in sorted(self._trouble.items())) or "none",
            "problems": len(self._problems),
        }

    async def work(self) -> None:
        """Look again and again."""
        context, settings = self.context, self.context.settings
        context.log.info("active: dividing what nodes lend between Kubernetes and YARN")
        writer = f"{context.instance}.{self.moment().ms}"
        dividing = Dividing(percent=settings.yarn_percent, writer=writer)
        async with self._connect(settings.yarn_timeout_s) as rest:
            clusters = {
                name: ResourceManager(rest, urls, user=settings.yarn_user) for name, urls in settings.clusters().items()
            }
            async for _ in Periodic(context.clock, settings.yarn_interval_s).ticks(at_once=True):
                for name, manager in clusters.items():
                    await self._round(name, manager, dividing)
                if self.is_ready:
                    dividing.keep(self.state.nodes, context.clock.monotonic())

    async def _round(self, cluster: str, manager: ResourceManager, dividing: Dividing) -> None:
        """One look at one cluster. While its ResourceManager is away all stays as it is."""
        try:
            listing = await manager.listing()
        except UnreachableError as error:
            self._tell(cluster, str(error))
            return
        if isinstance(listing, Problem):
            self._tell(cluster, str(listing))
            REFUSED.inc()
            return
        self._tell(cluster, "")
        problems = {f"{cluster}/{each.field}": each.message for each in listing.problems}
        if self.is_ready:
            problems |= await self._divide(cluster, manager, listing, dividing)
        self._note_problems(f"{cluster}/", problems)

    async def _divide(
        self, cluster: str, manager: ResourceManager, listing: Listing, dividing: Dividing
    ) -> dict[str, str]:
        """Charge and grant what is to be; what is wrong, by field."""
        problems = {}
        found = plan_round(self._nodes(cluster), listing, dividing, self.context.clock.monotonic())
        for charge in found.charges:
            await self.send(_command(charge, self.moment().ms))
            CHARGES.inc()
        for grant in found.grants:
            try:
                await manager.grant(
                    grant.manager,
                    grant.share,
                    over_commit_timeout_s=self.context.settings.yarn_over_commit_timeout_s,
                )
            except RefusedError as error:
                GRANTS.labels("refused").inc()
                problems[f"{cluster}/{grant.manager}"] = str(error)
            except UnreachableError as error:
                GRANTS.labels("failed").inc()
                self._tell(cluster, str(error))
                break
            else:
                GRANTS.labels("done").inc()
            dividing.answered(grant.node)
        self._measure(cluster, listing, found.wants)
        return problems

    def _nodes(self, cluster: str) -> list[OnNode]:
        """The nodes with a NodeManager of the cluster, or with a note of one."""
        found = []
        problems: dict[str, str] = {}
        for name, node in self.state.nodes.items():
            manager = self.state.manager(name)
            if manager is None and ANNOTATION_THIRD_PARTY_ALLOCATIONS not in node.annotations:
                continue
            noted = read_note(node.annotations)
            if isinstance(noted, Problem):
                problems[f"node {name}/{noted.field}"] = noted.message
                continue
            known = manager or noted.manager
            if known is not None and known.cluster == cluster:
                offer = self.offers.offers.get(name)
                found.append(OnNode(node, noted, offer, known, manager is not None, self.state.held(name)))
        self._note_problems("node ", problems)
        return found

    def _tell(self, cluster: str, trouble: str) -> None:
        """Say once that a ResourceManager is away, and once that it is back."""
        before = self._trouble.pop(cluster, "")
        if trouble:
            self._trouble[cluster] = trouble[:TROUBLE_MAX]
            if not before:
                self.context.log.warning("YARN cannot be asked: all stays as it is", cluster=cluster, reason=trouble)
        elif before:
            self.context.log.info("YARN answers again", cluster=cluster)

    def _note_problems(self, prefix: str, problems: Mapping[str, str]) -> None:
        for field, message in problems.items():
            if self._problems.get(field) != message:
                REFUSED.inc()
                self.context.log.warning("cannot be used", field=field[:TROUBLE_MAX], problem=message[:TROUBLE_MAX])
        for field in [each for each in self._problems if each.startswith(prefix) and each not in problems]:
            del self._problems[field]
        self._problems.update(problems)

    def _measure(self, cluster: str, listing: Listing, wants: Mapping[str, Share]) -> None:
        self._counts[cluster] = len(wants)
        NODES.labels(cluster).set(len(wants))
        managers = listing.managers.values()
        for what, shares in (
            ("granted", [each.granted for each in managers]),
            ("used", [each.used for each in managers]),
            ("wanted", list(wants.values())),
        ):
            VCORES.labels(cluster, what).set(sum(each.vcores for each in shares))
            MEMORY.labels(cluster, what).set(sum(each.memory_mb for each in shares))


def _command(charge: Charge, ms: int) -> Command:
    node, name = charge.node, ANNOTATION_THIRD_PARTY_ALLOCATIONS
    annotate = AnnotateNode(
        name=node.name, uid=node.uid, annotations={name: charge.text}, expects={name: charge.before or None}
    )
    subject = command_subject("annotate", "nodes", node.name)
    return Command(subject, annotate, id=f"{SERVICE}.{node.uid}.{ms}", may_drop=True)


async def main(context: Context[Settings], connect: Connect = by_http) -> None:
    """The service: runs until it is cancelled."""
    await Shell(context, connect).run()
