"""`up`, `status`, `why` and `watch` against a control plane of processes."""

from __future__ import annotations

import json
import re
import signal
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth.cli.stack.services import RECORDER, SERVICES
from berth.simcluster.generate import PodRequest, pod_manifest

pytestmark = pytest.mark.e2e


def create_pod(url: str, name: str, request: PodRequest, **more: Any) -> None:
    body = json.dumps(pod_manifest(name, request, **more)).encode()
    headers = {"Content-Type": "application/json"}
    at = f"{url}/api/v1/namespaces/{more.get('namespace', 'default')}/pods"
    with urllib.request.urlopen(urllib.request.Request(at, body, headers)) as response:
        assert response.status == 201


def test_status_lists_every_service_and_both_solvers(up: Any, until: Callable[..., None]) -> None:
    until(lambda: up.berth("status").code == 0, "not every service is ready")
    answer = json.loads(up.berth("status", "--json").out)
    assert answer["problems"] == []
    assert {each["service"] for each in answer["services"]} == {spec.name for spec in SERVICES} - {RECORDER}
    assert len([each for each in answer["services"] if each["service"] == "placement-solver"]) == 2


def test_status_finds_the_bus_by_its_url_too(up: Any, berth: Any) -> None:
    assert berth("status").code == 2
    assert berth("status", "--nats", up.nats_url).code == 0
    assert berth("status", env={"BERTH_NATS_URL": up.nats_url}).code == 0


def test_why_tells_node_and_devices_of_a_placed_pod(up: Any, until: Callable[..., None]) -> None:
    create_pod(up.kube_url, "share", PodRequest(1000, 1024, 1, 400), namespace="default")
    until(lambda: "bound" in up.berth("why", "share").out, "the pod is not bound")
    told = up.berth("why", "default/share")
    assert told.code == 0
    assert "node" in told.out
    assert "(40 %)" in told.out
    answer = json.loads(up.berth("why", "share", "--json").out)
    assert answer["outcome"] == "bound"
    assert answer["devices"][0]["amounts"]["koordinator.sh/gpu-core"] == 40


def test_why_tells_reasons_with_counts_and_the_repair_of_a_refused_pod(up: Any, until: Callable[..., None]) -> None:
    create_pod(up.kube_url, "huge", PodRequest(10_000_000, 1024))
    until(lambda: "refused" in up.berth("why", "huge").out, "the pod is not refused")
    told = up.berth("why", "huge")
    assert told.code == 1
    assert "6 nodes: Insufficient cpu" in told.out
    assert "repair" in told.out


def test_why_of_what_is_not_there_is_a_bad_answer(up: Any) -> None:
    told = up.berth("why", "nobody", "-n", "nowhere")
    assert told.code == 1
    assert "unknown" in told.out


def test_watch_shows_binds_as_lines_and_as_json(up: Any) -> None:
    plain = up.berth.start("watch", "placement.bound")
    raw = up.berth.start("watch", "placement", "--json")
    for process in (plain, raw):
        assert process.stderr is not None
        assert f"bus {up.nats_url}" in process.stderr.readline()
        assert "listening" in process.stderr.readline()
    timer = threading.Timer(60, lambda: [process.kill() for process in (plain, raw)])
    timer.start()
    create_pod(up.kube_url, "seen", PodRequest(100, 128))
    try:
        assert plain.stdout is not None
        assert "default/seen" in plain.stdout.readline()
        assert raw.stdout is not None
        assert json.loads(raw.stdout.readline())["type"].startswith("placement.")
    finally:
        timer.cancel()
        for process in (plain, raw):
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
    assert plain.returncode == 130


def test_a_pod_of_ones_own_from_its_file_to_its_past(up: Any, until: Callable[..., None], tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(pod_manifest("mine", PodRequest(100, 128), namespace="default")))
    made = up.berth("submit", "-f", str(file))
    assert (made.code, made.out) == (0, "pod/mine created\n"), made.err
    assert f"berth up, run {up.process.pid}" in made.err
    until(lambda: up.berth("why", "mine").code == 0, "the pod is not bound")
    node = json.loads(up.berth("why", "mine", "--json").out)["node"]
    held = up.berth("why", f"node/{node}")
    assert held.code == 0
    assert re.search(r"default/mine +bound", held.out), "names beside it may be longer"
    drawn = up.berth("node", node)
    assert drawn.code == 0, drawn.err
    assert f"node/{node}  ready" in drawn.out
    assert "default/mine" in drawn.out
    shown = json.loads(up.berth("node", node, "--json").out)
    assert "default/mine" in {pod["holder"] for pod in shown["pods"]}
    assert up.berth("node", "nowhere").code == 1
    assert up.berth("delete", "mine").code == 0
    until(lambda: "ended" in up.berth("why", "mine").out, "its end is not known")
    gone = up.berth("why", "mine")
    assert gone.code == 1
    assert "default/mine  gone" in gone.out
    answer = json.loads(up.berth("why", "mine", "--json").out)
    kinds = [each["event"]["type"].split(".")[1] for each in answer["past"]]
    assert kinds == ["decided", "bound", "ended"]
