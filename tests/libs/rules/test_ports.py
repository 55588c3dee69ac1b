"""Host port conflicts."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.kube import Pod
from berth.contracts.state import HostPort
from berth.rules.ports import REASON, UsedPorts, host_ports
from berth.testing.vectors import cases


def ports_of(pod: dict[str, Any]) -> list[HostPort]:
    spec = msgspec.convert(pod, Pod).spec
    return host_ports(spec.containers, spec.init_containers or ())


@pytest.mark.parametrize("case", cases("kube-scheduler/node_ports"))
def test_vector(case: dict[str, Any]) -> None:
    for name, expect in case["expect"]["nodes"].items():
        used = UsedPorts()
        for pod in case["given"].get("pods", []):
            if pod["spec"]["nodeName"] == name:
                for port in ports_of({"metadata": {"name": "e"}, **pod}):
                    used.add(port)
        conflict = used.conflict(ports_of(case["given"]["pod"]))
        assert (conflict is None) == (expect["code"] == "Success")
        assert expect.get("reasons", []) == ([] if conflict is None else [REASON])


def test_ordinary_init_containers_do_not_count() -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [], "initContainers": [{"ports": [{"hostPort": 80}]}]},
    }
    assert ports_of(pod) == []


def test_another_protocol_is_another_port() -> None:
    used = UsedPorts([HostPort(port=53, protocol="UDP")])
    assert used.conflict([HostPort(port=53)]) is None
    assert used.conflict([HostPort(port=53, protocol="UDP", host_ip="10.0.0.1")]) is not None


ports = st.lists(
    st.builds(
        HostPort,
        port=st.integers(1, 3),
        protocol=st.sampled_from(["TCP", "UDP"]),
        host_ip=st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    ),
    max_size=6,
)


@given(ports, ports)
def test_conflicts_are_mutual(some: list[HostPort], others: list[HostPort]) -> None:
    assert (UsedPorts(some).conflict(others) is None) == (UsedPorts(others).conflict(some) is None)


@given(ports, ports, ports)
def test_removing_undoes_adding(kept: list[HostPort], passing: list[HostPort], wanted: list[HostPort]) -> None:
    used = UsedPorts(kept)
    for port in passing:
        used.add(port)
    for port in passing:
        used.remove(port)
    assert used.conflict(wanted) == UsedPorts(kept).conflict(wanted)


def test_removing_what_nobody_holds_changes_nothing() -> None:
    used = UsedPorts([HostPort(port=1)])
    used.remove(HostPort(port=2))
    used.remove(HostPort(port=1, host_ip="10.0.0.1"))
    assert used.conflict([HostPort(port=1)]) is not None
