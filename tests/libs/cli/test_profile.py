"""`berth profile --dry-run`: which profiles match, what they change, and whether it is admitted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berth.bus import Bus, BusSettings
from berth.cli.__main__ import main
from berth.cli.commands.profile import of_bus
from berth.cli.errors import EXIT_BAD, EXIT_OK, EXIT_USAGE
from berth.contracts import names, state
from berth.contracts.buckets import STATE
from berth.contracts.codec import encode
from berth.contracts.subjects import named_key
from berth.testing.nats_server import NatsServer

PROFILES = """
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: batch-jobs}
spec:
  namespaceSelector: {matchLabels: {colocation: "on"}}
  selector: {matchLabels: {app: etl}}
  probability: "50%"
  qosClass: BE
  priorityClassName: CLASS
---
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: bad}
spec: {probability: 200}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {colocation: "on"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: etl-0, labels: {app: etl}}
spec:
  containers: [{name: main, image: i, resources: {requests: {cpu: 1500m}}}]
"""


def told(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str, named: str = "koord-batch") -> tuple[int, str]:
    files = {"pod": POD, "profiles": PROFILES.replace("CLASS", named)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    asked = ["--dry-run", "-f", str(tmp_path / "pod"), "--profiles", str(tmp_path / "profiles"), *more]
    code = main(["profile", *asked])
    return code, capsys.readouterr().out


def test_what_profiles_make_of_a_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(tmp_path, capsys)
    assert code == EXIT_OK
    lines = [line.split() for line in text.splitlines()]
    assert ["profile", "batch-jobs", "applies", "to", "50", "of", "100", "pods"] in lines
    assert ["change", "-", "spec/containers/0/resources/requests/cpu"] in lines
    assert "spec.probability" in text
    assert text.startswith("pod default/etl-0: BE, koord-batch, priority 5000\n")
    assert names.ANNOTATION_PROFILES not in text


def test_a_draw_passes_a_profile_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text = told(tmp_path, capsys, "--draw", "51", "--json")
    [pod] = json.loads(text)
    assert pod["profiles"]["batch-jobs"].endswith("but not with draw 51")
    assert pod["patch"] == []


def test_a_refusal_is_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(tmp_path, capsys, named="koord-prod")
    assert code == EXIT_BAD
    assert "cannot be used in combination" in text
    assert told(tmp_path, capsys, named="absent")[0] == EXIT_BAD


def test_there_is_only_a_dry_run(tmp_path: Path) -> None:
    assert main(["profile"]) == EXIT_USAGE
    assert main(["profile", "--dry-run", "--profiles", str(tmp_path / "none")]) == EXIT_USAGE
    (tmp_path / "x").write_text(PROFILES)
    assert main(["profile", "--dry-run", "-f", str(tmp_path / "x"), "--profiles", str(tmp_path / "x")]) == EXIT_USAGE


async def test_the_profiles_of_a_cluster_are_those_on_the_bus(nats_server: NatsServer) -> None:
    seen = {
        named_key("clustercolocationprofile", "a"): state.ClusterColocationProfile(
            name="a", uid="u", version=1, spec={"selector": {"matchLabels": {"app": "x"}}}
        ),
        named_key("clustercolocationprofile", "b"): state.ClusterColocationProfile(
            name="b", uid="u", version=1, spec={"probability": "many"}
        ),
        named_key("priorityclass", "koord-batch"): state.PriorityClass(name="koord-batch", version=1, value=5000),
        named_key("namespace", "d"): state.Namespace(name="d", version=1, labels={"team": "a"}),
        named_key("node", "n"): state.Node(name="n", uid="u", version=1),
    }
    bus = await Bus.connect(BusSettings(url=nats_server.url), service="tester")
    try:
        await bus.ensure()
        for key, message in seen.items():
            await bus._link.request(f"$KV.{STATE}.{key}", encode(message), timeout_s=5)
        known = await of_bus(bus)
    finally:
        await bus.close()
    assert [each.name for each in known.views.profiles] == ["a"]
    assert list(known.unusable) == ["b"]
    assert known.views.priority_classes["koord-batch"].value == 5000
    assert known.views.namespaces == {"d": {"team": "a"}}
