"""CPUs, NUMA nodes and kubelet on a machine of files: what is read, and what stays as it was when something is torn."""

from __future__ import annotations

import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berth.node_qos_enforcer.core.node_report import CPUS, KUBELET, Findings
from berth.node_qos_enforcer.cpu_reading import AGAIN_S
from berth.node_qos_enforcer.kubelet_reading import ASK_EVERY_S
from berth.node_qos_enforcer.looking import Looker
from berth.node_qos_enforcer.reporting import Reporter
from berth.node_qos_enforcer.settings import Settings
from berth.rules.cpus.kubelet import CHECKPOINT
from berth.runtime import Moment

STATE = {"policyName": "static", "defaultCpuSet": "0,4-7", "entries": {"u": {"c": "1-3"}}, "checksum": 1}


class Machine:
    """Two NUMA nodes with ids 0 and 2, of four CPUs each; kubelet's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        self.write("sys/devices/system/cpu/online", "0-7\n")
        self.write("sys/devices/system/node/online", "0,2\n")
        for cpu in range(8):
            self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/core_id", f"{cpu // 2}\n")
            self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", f"{cpu // 4}\n")
        for zone, cpus in ((0, "0-3"), (2, "4-7")):
            folder = f"sys/devices/system/node/node{zone}"
            self.write(f"{folder}/cpulist", f"{cpus}\n")
            self.write(f"{folder}/meminfo", f"Node {zone} MemTotal: 1048576 kB\n")
            self.write(f"{folder}/hugepages/hugepages-2048kB/nr_hugepages", "4\n")
            self.write(f"{folder}/distance", "10 21\n")
        self.write("proc/cpuinfo", "vendor_id : AuthenticAMD\nmodel name : AMD EPYC 9654\n" + "x" * 2_000_000)
        self.write("proc/meminfo", "MemTotal: 2097152 kB\n")

    def write(self, path: str, text: str) -> str:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return str(file)

    def looker(self, **settings: Any) -> Looker:
        chosen: dict[str, Any] = {
            "cpus": True,
            "sys_root": str(self.root / "sys"),
            "proc_root": str(self.root / "proc"),
            "kubelet_root": str(self.root / "kubelet"),
        }
        return Looker(Settings(**chosen | settings), lambda: self.now)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def fields(findings: Findings) -> list[str]:
    return [problem.field for problem in findings.problems]


def test_cores_zones_and_model_are_read(machine: Machine) -> None:
    found = machine.looker().look()
    assert (fields(found), found.kubelet, found.unread) == ([], None, frozenset())
    assert found.cpus is not None
    assert [(core.socket, core.zone, core.cpus) for core in found.cpus.cores] == [
        (0, 0, "0-1"),
        (0, 0, "2-3"),
        (1, 2, "4-5"),
        (1, 2, "6-7"),
    ]
    assert [(zone.zone, zone.memory, zone.hugepages, zone.distances) for zone in found.cpus.zones] == [
        (zone, 1 << 30, {"hugepages-2Mi": 8 << 20}, [10, 21]) for zone in (0, 2)
    ]
    assert (found.cpus.cpu.model, found.cpus.cpu.vendor) == ("AMD EPYC 9654", "AuthenticAMD")


def test_nodes_without_memory_of_their_own_are_no_zones(machine: Machine) -> None:
    machine.write("sys/devices/system/node/has_generic_initiator", "2\n")
    cpus = machine.looker().look().cpus
    assert cpus is not None
    assert [zone.zone for zone in cpus.zones] == [0]


def test_a_kernel_without_numa_has_one_zone(machine: Machine) -> None:
    machine.write("sys/devices/system/node/online", "")
    cpus = machine.looker().look().cpus
    assert cpus is not None
    assert [(zone.zone, zone.memory) for zone in cpus.zones] == [(0, 2 << 30)]


def test_kubelets_checkpoint_says_policy_and_pins(machine: Machine) -> None:
    machine.write("kubelet/cpu_manager_state", json.dumps(STATE))
    kubelet = machine.looker().look().kubelet
    assert kubelet is not None
    assert (kubelet.cpu_manager, [(pin.uid, pin.cpus) for pin in kubelet.pinned]) == ("static", [("u", "1-3")])


@pytest.mark.parametrize(
    ("path", "text", "field", "unread"),
    [
        ("sys/devices/system/cpu/online", "0-99999999", "devices/system/cpu/online", {CPUS, KUBELET}),
        ("sys/devices/system/cpu/online", "", "devices/system/cpu/online", {CPUS, KUBELET}),
        (
            "sys/devices/system/cpu/cpu3/topology/core_id",
            "-7",
            "devices/system/cpu/cpu3/topology/core_id",
            {CPUS, KUBELET},
        ),
        ("sys/devices/system/node/node2/cpulist", "4-x", "devices/system/node/node2/cpulist", {CPUS, KUBELET}),
        ("sys/devices/system/node/node2/meminfo", "torn", "devices/system/node/node2/meminfo", {CPUS, KUBELET}),
        ("kubelet/cpu_manager_state", '{"policyName":"sta', "cpu_manager_state", {KUBELET}),
        (
            "kubelet/cpu_manager_state",
            '{"policyName":"static","entries":{"u":{"c":"0-99999999"}}}',
            "cpu_manager_state.entries[u][c]",
            {KUBELET},
        ),
    ],
)
def test_what_is_torn_is_named_and_the_part_stays_what_it_was(
    machine: Machine, path: str, text: str, field: str, unread: set[str]
) -> None:
    machine.write("kubelet/cpu_manager_state", json.dumps(STATE))
    looker, reporter = machine.looker(), Reporter("n", None)
    before = reporter.report(looker.look(), Moment(1.0, 1.0))
    assert set(before.parts) == {CPUS, KUBELET}
    machine.write(path, text)
    machine.now += AGAIN_S
    found = looker.look()
    assert (fields(found), found.unread) == ([field], unread)
    after = reporter.report(found, Moment(2.0, 2.0))
    assert (after.parts, after.cores, after.zones, after.kubelet) == (
        before.parts,
        before.cores,
        before.zones,
        before.kubelet,
    )
    assert [problem.field for problem in after.problems] == [field]
    fresh = Reporter("n", None).report(found, Moment(2.0, 2.0))
    assert fresh.parts == {}, "CPUs whose pins were never read would pass for free"


def test_a_cpu_that_is_offline_is_seen_at_once_and_another_place_of_one_after_a_while(machine: Machine) -> None:
    looker = machine.looker()

    def cores() -> list[tuple[int, str]]:
        found = looker.look().cpus
        assert found is not None
        return [(each.core, each.cpus) for each in found.cores]

    assert cores() == [(0, "0-1"), (1, "2-3"), (2, "4-5"), (3, "6-7")]
    machine.write("sys/devices/system/cpu/online", "0-5,7\n")
    assert cores() == [(0, "0-1"), (1, "2-3"), (2, "4-5"), (3, "7")]
    machine.write("sys/devices/system/cpu/cpu7/topology/core_id", "9\n")
    assert cores()[-1] == (3, "7")
    machine.now += AGAIN_S
    assert cores()[-1] == (9, "7")


CONFIG_FILE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0-1
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
"""


def test_kubelets_policies_are_those_of_its_file(machine: Machine) -> None:
    path = machine.write("kubelet-config.yaml", CONFIG_FILE)
    told = machine.looker(kubelet_config_file=path, podresources_socket="s").look().kubelet
    assert told is not None
    assert (told.topology_manager, told.topology_scope) == ("single-numa-node", "pod")
    assert (told.cpu_manager, told.reserved_cpus) == ("static", "0-1")


@pytest.mark.parametrize("text", [None, "", "\n"])
def test_a_file_that_says_nothing_leaves_policies_unknown(machine: Machine, text: str | None) -> None:
    path = f"{machine.root}/none" if text is None else machine.write("kubelet-config.yaml", text)
    found = machine.looker(kubelet_config_file=path, podresources_socket="s").look()
    assert (found.kubelet, found.unread, fields(found)) == (None, frozenset(), [])


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("kind: Pod", "kubelet.config.kind"),
        ("a: [", "kubelet.config"),
        ("- 1", "kubelet.config"),
        ("x", "kubelet.config"),
    ],
)
def test_a_file_that_is_another_one_leaves_what_was_reported(machine: Machine, text: str, field: str) -> None:
    path = machine.write("kubelet-config.yaml", text)
    found = machine.looker(kubelet_config_file=path, podresources_socket="s").look()
    assert (fields(found), found.unread) == ([field], {KUBELET})


class Kubelet(http.server.BaseHTTPRequestHandler):
    """Answers as the real one does, to whoever shows the token."""

    answer: dict[str, Any] = {}
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(f"{self.path} {self.headers.get('Authorization')}")
        body = json.dumps(self.answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


CONFIG = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "topologyManagerPolicy": "restricted"}


@pytest.fixture(params=["http", "https"])
def kubelet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Its address, and what its certificate is checked by."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Kubelet)
    authority = ""
    if request.param == "https":
        authority = str(tmp_path / "kubelet.crt")
        key = str(tmp_path / "kubelet.key")
        made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        subprocess.run(
            [*made, "-keyout", key, "-out", authority, "-subj", "/CN=node-1"], check=True, capture_output=True
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    Kubelet.answer, Kubelet.asked = {"kubeletconfig": CONFIG}, []
    yield f"{request.param}://127.0.0.1:{server.server_port}", authority
    server.shutdown()
    thread.join()
    server.server_close()


def test_kubelets_configuration_is_asked_for_now_and_then(
    machine: Machine, kubelet: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n")
    machine.write("kubelet/cpu_manager_state", json.dumps(STATE))
    url, authority = kubelet
    looker = machine.looker(kubelet_url=url, kubelet_token_file=str(tmp_path / "token"), kubelet_ca_file=authority)
    told = looker.look().kubelet
    assert told is not None
    assert (told.cpu_manager, told.reserved_cpus, told.topology_manager) == ("static", "0", "restricted")
    looker.look()
    assert Kubelet.asked == ["/configz Bearer secret"]
    machine.now += ASK_EVERY_S
    Kubelet.answer = {"kubeletconfig": CONFIG | {"topologyManagerPolicy": "none"}}
    told = looker.look().kubelet
    assert told is not None
    assert told.topology_manager == "none"


def test_kubelets_word_goes_before_its_file(machine: Machine, kubelet: tuple[str, str]) -> None:
    """Flags, which go before fields, show in its word alone."""
    path = machine.write("kubelet-config.yaml", CONFIG_FILE)
    url, authority = kubelet
    settings = {"kubelet_url": url, "kubelet_ca_file": authority, "kubelet_config_file": path}
    told = machine.looker(**settings, podresources_socket="s").look().kubelet
    assert told is not None
    assert told.topology_manager == "restricted"


def test_pins_that_nothing_says_are_not_taken_for_none(machine: Machine, kubelet: tuple[str, str]) -> None:
    """Kubelet gives out CPUs, and its checkpoint is not to be seen: only its PodResources could say which."""
    url, authority = kubelet
    found = machine.looker(kubelet_url=url, kubelet_ca_file=authority).look()
    assert (fields(found), found.unread) == ([CHECKPOINT], {KUBELET})
    asked = machine.looker(kubelet_url=url, kubelet_ca_file=authority, podresources_socket="s").look()
    assert (asked.unread, asked.kubelet is not None) == (set(), True)


def test_a_kubelet_that_is_not_who_it_should_be_is_not_believed(
    machine: Machine, kubelet: tuple[str, str], tmp_path: Path
) -> None:
    url, authority = kubelet
    if not authority:
        pytest.skip("plain HTTP has no certificate")
    found = machine.looker(kubelet_url=url).look()
    assert (fields(found), found.unread) == (["configz"], {KUBELET})
    assert Kubelet.asked == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://127.0.0.1:1"])
def test_a_kubelet_that_does_not_answer_is_named(machine: Machine, url: str) -> None:
    found = machine.looker(kubelet_url=url).look()
    assert (fields(found), found.unread) == (["configz"], {KUBELET})
    assert machine.looker(kubelet_url=url, kubelet_token_file="/none").look().unread == {KUBELET}
