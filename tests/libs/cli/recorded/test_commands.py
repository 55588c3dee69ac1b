"""`berth audit` and `berth replay-decision` over a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.services.worlds.solver.recorded import Arrivals, RecordedRun

from berth.cli.errors import EXIT_OK, CliError
from berth.cli.recorded import moment, replaying
from berth.cli.recorded.segments import heads, since
from berth.cli.recorded.times import point, told
from berth.recording.frames import MARK, framed
from berth.recording.records import AnyRecord, Began
from berth.testing.builders import pod

pytestmark = pytest.mark.asyncio


def put(folder: Path, number: int, records: list[AnyRecord]) -> Path:
    path = folder / f"berth-{number:010d}.rec"
    path.write_bytes(MARK + b"".join(framed(records)))
    return path


@pytest.fixture
async def run() -> RecordedRun:
    made = RecordedRun()
    await Arrivals(made, 3).some(20)
    return made


async def test_all_is_well(run: RecordedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, 1, run.recorded())
    assert replaying.audit(tmp_path, 0.0, as_json=True) == EXIT_OK
    said = json.loads(capsys.readouterr().out)
    assert (said["different"], said["not_replayable"], said["decisions"] >= 20) == ([], {}, True)


async def test_one_decision_by_its_pod_and_by_its_plan(
    run: RecordedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, 1, run.recorded())
    (namespace, name), held = next(iter(run.cluster.book.ledger.decisions.items()))
    for about in (f"{namespace}/{name}", held.decision.plan):
        assert replaying.replay_decision(tmp_path, about, as_json=False) == EXIT_OK
        assert f"{namespace}/{name} to {held.decision.node}" in capsys.readouterr().out
    with pytest.raises(CliError, match="nothing is recorded"):
        replaying.replay_decision(tmp_path, "default/nobody", as_json=False)


async def test_a_torn_end_is_told_and_left_out(
    run: RecordedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = run.recorded()
    path = put(tmp_path, 1, records[:-30])
    path.write_bytes(path.read_bytes() + next(framed(records[-30:]))[:-3])
    replaying.audit(tmp_path, 0.0, as_json=False)
    found = capsys.readouterr()
    assert "0 different" in found.out
    assert "its end is broken" in found.err


async def test_the_cluster_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RecordedRun()
    run.node("n0", cpu=1000)
    run.quota("team", max={"cpu": 4000})
    for name, priority in (("late", 0), ("first", 10)):
        run.pod(pod(name).requests(cpu=600).quota("team").template(priority=priority))
    before_s = run.relay.now_s
    run.relay.now_s = before_s + 10.0
    await run.bench.until_idle()
    put(tmp_path, 1, run.recorded())
    assert moment.at(tmp_path, before_s + 1.0, as_json=True) == EXIT_OK
    seen = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in seen["waiting"]] == ["default/first", "default/late"]
    assert seen["nodes"][0]["used"]["cpu"] == 0
    assert moment.at(tmp_path, before_s + 20.0, as_json=True) == EXIT_OK
    seen = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in seen["waiting"]] == ["default/late"]
    assert (seen["nodes"][0]["used"]["cpu"], seen["quotas"][0]["used"]["cpu"]) == (600, 600)
    assert moment.at(tmp_path, before_s + 20.0, as_json=False) == EXIT_OK
    assert "n0    600m/1" in capsys.readouterr().out
    with pytest.raises(CliError, match="it begins at"):
        moment.at(tmp_path, -5.0, as_json=False)


async def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="holds no segments"):
        replaying.audit(tmp_path, 0.0, as_json=False)
    (tmp_path / "berth-0000000001.rec").write_bytes(b"something else")
    with pytest.raises(CliError, match="holds no segments"):
        replaying.audit(tmp_path, 0.0, as_json=False)


async def test_which_segments_are_read(tmp_path: Path) -> None:
    for number, (name, at_s) in enumerate([("a", 10.0), ("a", 20.0), ("b", 30.0), ("b", 40.0)], 1):
        put(tmp_path, number, [Began(name, at_s, {})])
    listed = heads(tmp_path)

    def at(at_s: float) -> list[float]:
        return [each.began.at_s for each in since(listed, at_s)]

    assert at(0.0) == at(15.0) == at(25.0) == [10.0, 20.0, 30.0, 40.0]
    assert at(35.0) == at(45.0) == [30.0, 40.0]


@pytest.mark.parametrize(
    ("text", "found"),
    [("90s", 910.0), ("15m", 100.0), ("12.5", 12.5), ("1970-01-01T00:01:00Z", 60.0), ("1970-01-02", 86400.0)],
)
async def test_times(text: str, found: float) -> None:
    assert point(text, 1000.0) == found


async def test_no_time() -> None:
    with pytest.raises(CliError, match="is no time"):
        point("yesterday", 0.0)
    assert told(60.0) == "1970-01-01T00:01:00Z"
