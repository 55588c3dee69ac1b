"""Reports what is on the node: look every few seconds, judge health over time, publish when something is new.

The first report takes up what the last process published: its version goes on, and a device that was ill is not well
because the agent was started again. Where nothing is to be reported, a report of before is withdrawn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol

from berth.bus.port import OwnedPort
from berth.contracts import buckets
from berth.contracts.codec import encode
from berth.contracts.node_report import HeldByContainer, NodeReport
from berth.contracts.subjects import named_key
from berth.node_qos_enforcer import figures
from berth.node_qos_enforcer.core.device_health import DeviceKey, Health, followed, remembered
from berth.node_qos_enforcer.core.node_report import Findings, report_of
from berth.node_qos_enforcer.looking import Looker
from berth.node_qos_enforcer.pods_of_node import PodsOfNode
from berth.node_qos_enforcer.settings import Settings
from berth.node_qos_enforcer.views import ReportView
from berth.runtime import Context, Moment, Periodic

LOOKING: Final = "looking at what is on the node"
STUCK_S: Final = 120.0
"""NVIDIA's library answers late while a driver is in trouble; longer than this, and it does not answer at all."""


class Holders(Protocol):
    """Who says what containers hold."""

    @property
    def gives_cpus(self) -> bool:
        """Whether they say that kubelet gives out CPUs itself."""
        ...

    async def added_to(self, findings: Findings) -> Findings:
        """The findings with that."""


class Reporter:
    """What was reported last, and the health of each device over time."""

    def __init__(self, node: str, last: NodeReport | None) -> None:
        """Take up the report of a former process, if there is one."""
        self.last = last
        self._node = node
        self._healths: dict[DeviceKey, Health] = remembered(last.devices) if last is not None else {}

    def report(self, findings: Findings, at: Moment) -> NodeReport:
        """The report after a look."""
        devices = findings.devices.devices if findings.devices is not None else ()
        self._healths = followed(self._healths, devices, now_s=at.now, monotonic_s=at.monotonic)
        self.last = report_of(self._node, findings, self._healths, self.last, version_min=at.ms)
        return self.last


class Reporting:
    """One node's reports on the bus."""

    def __init__(
        self,
        ctx: Context[Settings],
        node: str,
        hold: Callable[[tuple[HeldByContainer, ...], bool], None],
        pods: PodsOfNode,
    ) -> None:
        """Nothing is looked at before `run`. `hold` gets what containers hold, and whether kubelet gives out CPUs,
        whenever kubelet has said it. `pods` tells which pods bear which names."""
        self._ctx = ctx
        self._hold = hold
        self._pods = pods
        self._node = node
        self._key = named_key("report", node)
        self._reporter: Reporter | None = None
        self._bucket: OwnedPort
        self._known: set[str] = set()

    async def run(self) -> None:
        """Look and publish until cancelled; without anything to look at, withdraw what was published."""
        ctx = self._ctx
        view = ReportView(self._key)
        self._bucket = ctx.bus.owned(
            buckets.METRICS, keys=self._key, sink=view, on_conflict=lambda _: self._again(), on_reset=self._again
        )
        await self._bucket.ready()
        looker = Looker(ctx.settings, ctx.clock.monotonic)
        if not looker.is_needed:
            self._bucket.delete(self._key)
            return
        self._reporter = Reporter(self._node, view.report)
        ctx.health.watch(LOOKING, STUCK_S)
        try:
            async with contextlib.AsyncExitStack() as stack:
                holders: Holders | None = None
                if socket := ctx.settings.podresources_socket:
                    # gRPC is megabytes, which an agent that asks nobody does without.
                    from berth.node_qos_enforcer.pod_resources import PodResources

                    holders = await stack.enter_async_context(
                        PodResources(socket, ctx.clock.monotonic, reports_cpus=ctx.settings.cpus, pods=self._pods.names)
                    )
                await self._look_for_ever(looker, holders, self._reporter)
        finally:
            looker.close()

    async def _look_for_ever(self, looker: Looker, holders: Holders | None, reporter: Reporter) -> None:
        ctx = self._ctx
        async for _ in Periodic(ctx.clock, ctx.settings.report_interval_s).ticks(at_once=True):
            with figures.REPORT_SECONDS.time():
                findings = await asyncio.to_thread(looker.look)
                if holders is not None:
                    findings = await holders.added_to(findings)
                    if findings.held is not None:
                        self._hold(findings.held, holders.gives_cpus)
            at = Moment(ctx.clock.now(), ctx.clock.monotonic())
            self._publish(reporter.report(findings, at))
            ctx.health.beat(LOOKING)

    def facts(self) -> dict[str, str | int | float]:
        """For the question for the status."""
        report = self._reporter.last if self._reporter is not None else None
        if report is None:
            return {}
        ill = [f"{each.kind}/{each.minor} {each.reason}" for each in report.devices if not each.healthy]
        return {
            "devices": len(report.devices),
            "unhealthy_devices": ", ".join(ill[:16]) or "none",
            "report": report.version,
            "report_problems": len(report.problems),
        }

    def _publish(self, report: NodeReport) -> None:
        if self._bucket.put(self._key, encode(report)):
            figures.REPORTS.inc()
        figures.observe_report(report)
        for problem in report.problems:
            if problem.field not in self._known:
                self._ctx.log.warning("cannot report all of the node", field=problem.field, problem=problem.message)
        self._known = {problem.field for problem in report.problems}

    def _again(self) -> None:
        """The bucket lost the report, or somebody else wrote it."""
        if self._reporter is not None and self._reporter.last is not None:
            self._bucket.put(self._key, encode(self._reporter.last))
