"""The tuner: what it reads, what it plays, what it searches, and when it accepts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.cli.__main__ import main
from berth.cli.errors import EXIT_OK, EXIT_USAGE, CliError
from berth.cli.tuning import search as searching
from berth.cli.tuning import site as sites
from berth.cli.tuning.from_records import alone, from_records
from berth.cli.tuning.from_trace import from_trace
from berth.cli.tuning.measuring import Gain, Measuring, gain_of
from berth.cli.tuning.playing import Player, figures_of_churn
from berth.cli.tuning.report import Report, as_json, lines
from berth.cli.tuning.settings import (
    BOTH,
    FILLING,
    TURNING_OVER,
    Settings,
    changed,
    configuration_with,
    current,
    moved,
)
from berth.cli.tuning.site import Arrival, parted
from berth.cli.tuning.verdict import Compared, judged
from berth.cli.tuning.verdict import compared as comparing
from berth.contracts import buckets, names, subjects
from berth.contracts.codec import encode
from berth.contracts.kube import Affinity, NodeAffinity
from berth.contracts.kube import PodAffinity as Together
from berth.contracts.state import Node, PodTemplate
from berth.recording.frames import MARK, framed
from berth.recording.records import AnyRecord, Began, Entered, Whole
from berth.rules.scheduler_config import BerthArgs, SchedulerConfig, read_scheduler_config
from berth.testing.builders import PodBuilder, pod

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
OURS = names.SCHEDULER_NAME


def trace(folder: Path, pods: int = 700, *, nodes: int = 6, times: bool = True) -> Path:
    """Machines of eight cards, and pods that ask for a half, one, and now and then eight."""
    head = "sn,cpu_milli,memory_mib,gpu,model"
    lines = [f"n{at},96000,393216,8,G2" for at in range(nodes)]
    (folder / "openb_node_list_gpu_node.csv").write_text("\n".join([head, *lines]) + "\n")
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli" + (",creation_time,deletion_time" if times else "")
    asked = [(4000, 1, 500), (6000, 1, 1000), (8000, 1, 330), (64000, 8, 1000)]
    lines = []
    for at in range(pods):
        cpu, gpus, milli = asked[3 if at % 10 == 0 else at % 3]
        lines.append(f"p{at},{cpu},4096,{gpus},{milli}" + (f",{at * 10},{at * 10 + 500}" if times else ""))
    (folder / "openb_pod_list_default.csv").write_text("\n".join([head, *lines]) + "\n")
    return folder


# --- the settings ----------------------------------------------------------------------------------------------------


def cost_of(text: str, scheduler: str = OURS) -> Any:
    found = read_scheduler_config(text)
    assert isinstance(found, SchedulerConfig), found
    return found.profiles[scheduler].args_of("Berth", BerthArgs)


def test_settings_go_into_the_profile_beside_what_is_there() -> None:
    before = {
        **HEAD,
        "profiles": [
            {"schedulerName": "other"},
            {
                "schedulerName": OURS,
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
                    {
                        "name": "Berth",
                        "args": {"ownCpusBesideKubelet": True, "nodeCost": {"scarce": 7, "filling": {"step": 1}}},
                    },
                ],
            },
        ],
    }
    text = configuration_with({"filling.gpusLeft": 3.0, "wholeReserve": 0.1}, yaml.safe_dump(before), OURS)
    args = cost_of(text)
    assert (args.own_cpus_beside_kubelet, args.node_cost.scarce) == (True, 7)
    assert (args.node_cost.filling.gpus_left, args.node_cost.filling.step) == (3.0, 1.0)
    assert current(text, OURS)["wholeReserve"] == 0.1
    assert len(json.loads(text)["profiles"][1]["pluginConfig"]) == 2
    assert cost_of(configuration_with({"scarce": 4.0}, None, "mine"), "mine").node_cost.scarce == 4.0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), spread=st.floats(0.01, 3.0))
def test_whatever_is_tried_can_be_configured_and_is_what_is_printed(seed: int, spread: float) -> None:
    rng, start = np.random.default_rng(seed), current(None, OURS)
    tried: Settings = start
    for knobs in (FILLING, TURNING_OVER, BOTH, FILLING):
        tried = moved(tried, knobs, spread, rng)
    assert current(configuration_with(changed(tried, start), None, OURS), OURS) == tried
    assert current(yaml.safe_dump(json.loads(configuration_with(tried, None, OURS))), OURS) == tried


@pytest.mark.parametrize(
    ("text", "message"),
    [("kind: [", "cannot be used"), (json.dumps({**HEAD, "profiles": [{}], "x": 1}), "cannot be used")],
)
def test_a_configuration_that_cannot_be_used_is_said(text: str, message: str) -> None:
    with pytest.raises(CliError, match=message):
        current(text, OURS)


def test_where_scores_decide_nothing_is_tuned() -> None:
    profile = {"schedulerName": OURS, "pluginConfig": [{"name": "Berth", "args": {"decides": "kube-scheduler"}}]}
    with pytest.raises(CliError, match="no weight matters"):
        current(json.dumps({**HEAD, "profiles": [profile]}), OURS)


# --- arrivals --------------------------------------------------------------------------------------------------------


def test_parts_are_split_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    template = PodTemplate(requests={names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100})
    listed = [Arrival(float(at), template, 1.0) for at in (3, 1, 4, 2, 0)]
    with pytest.raises(CliError, match="3 of the 3 seen arrivals ask for GPUs: 200 are needed"):
        parted(listed, 0.6)
    monkeypatch.setattr(sites, "GPUS_MIN", 2)
    parts = parted(listed, 0.6)
    assert [each.at_s for each in parts.seen] == [0, 1, 2]
    assert [each.at_s for each in parts.unseen] == [3, 4]


def test_a_sample_has_nodes_of_each_shape(tmp_path: Path) -> None:
    site, _ = from_trace(trace(tmp_path, nodes=30), "default", "", None, 1)
    site = site._replace(shapes={name: "rare" if name == "n7" else "usual" for name in site.nodes})
    some = site.sample(10, 3)
    assert "n7" in some.nodes
    assert len(some.nodes) == 11
    assert list(some.nodes) == sorted(some.nodes)
    assert site.sample(10, 3) == some != site.sample(10, 4)
    assert site.sample(30, 1) is site


def test_a_list_without_times_says_that_stays_are_drawn(tmp_path: Path) -> None:
    site, arrivals = from_trace(trace(tmp_path, times=False), "default", "", None, 1)
    assert "no times" in site.about[0]
    assert [each.at_s for each in arrivals[:3]] == [0.0, 1.0, 2.0]
    with pytest.raises(CliError, match="no such file"):
        from_trace(tmp_path, "nothing", "", None, 1)


class Recorded:
    """A segment that is written by hand."""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = [Began("r", 100.0, {}), Whole()]
        self._sequence = 0

    def state(self, at_s: float, key: str, value: bytes, *, deleted: bool = False) -> None:
        self._sequence += 1
        self.records.append(Entered(buckets.STATE, self._sequence, key, value, deleted, at_s))

    def pod(self, at_s: float, made: PodBuilder) -> None:
        found = made.build(1)
        self.state(at_s, subjects.pod_key(found.namespace, found.name), encode(found))

    def gone(self, at_s: float, name: str) -> None:
        self.state(at_s, subjects.pod_key("default", name), b"9", deleted=True)

    def put(self, folder: Path) -> Path:
        (folder / "berth-0000000001.rec").write_bytes(MARK + b"".join(framed(self.records)))
        return folder


def stamp(at_s: int) -> str:
    return f"1970-01-01T{at_s // 3600:02}:{at_s // 60 % 60:02}:{at_s % 60:02}Z"


def test_stays_are_what_was_recorded_and_drawn_for_who_still_runs(tmp_path: Path) -> None:
    run = Recorded()
    run.state(100.0, subjects.named_key("node", "n0"), encode(Node(name="n0", uid="u", version=1, ready=True)))
    for at in range(30):
        name, came = f"p{at}", 200 + at
        made = pod(name).gpus(1).set(created=stamp(came))
        run.pod(float(came), made)
        run.pod(float(came + 5), made.set(node="n0", scheduled=stamp(came + 5)))
        run.gone(came + 65.0, name)
    run.pod(400.0, pod("runs").gpus(1).set(created=stamp(400), node="n0", scheduled=stamp(410)))
    run.pod(401.0, pod("old").gpus(1).set(created=stamp(50), node="n0", scheduled=stamp(60)))
    run.pod(402.0, pod("theirs").gpus(1).template(scheduler="other").set(created=stamp(402)))
    run.pod(430.0, pod("last").gpus(1).set(created=stamp(430)))
    site, arrivals = from_records(run.put(tmp_path), "", None, 1)
    assert (list(site.nodes), site.scheduler, site.configuration) == (["n0"], OURS, None)
    assert len(arrivals) == 32
    assert {each.stay_s for each in arrivals[:30]} == {60.0}
    assert all(each.stay_s >= 20.0 for each in arrivals[30:])
    assert "2 of 32 pods had not ended" in site.about[0]
    assert "1 pods had come before" in site.about[1]
    assert from_records(tmp_path, "", None, 1)[1] == arrivals


def test_a_site_where_nobody_has_ended_is_refused(tmp_path: Path) -> None:
    run = Recorded()
    run.pod(200.0, pod("a").gpus(1).set(created=stamp(200)))
    with pytest.raises(CliError, match="how long pods stay"):
        from_records(run.put(tmp_path), "", None, 1)


def test_a_pod_by_itself_keeps_what_it_says_of_nodes() -> None:
    template = PodTemplate(
        affinity=Affinity(node_affinity=NodeAffinity(), pod_affinity=Together()), node_selector={"a": "b"}, gates=["g"]
    )
    assert alone(template) == PodTemplate(affinity=Affinity(node_affinity=NodeAffinity()), node_selector={"a": "b"})


# --- playing ---------------------------------------------------------------------------------------------------------


def test_the_same_order_is_the_same_run_and_nothing_is_given_twice(tmp_path: Path) -> None:
    site, arrivals = from_trace(trace(tmp_path), "default", "", None, 1)
    player = Player(site, None)
    found = player.fill(arrivals, 5)
    assert found == Player(site, None).fill(arrivals, 5) != player.fill(arrivals, 6)
    assert 80.0 < found["fill.100"] <= found["fill.130"] <= 100.0
    held, placed, whole = figures_of_churn(0.95)
    full = player.churn(arrivals, 0.95, 5)
    assert 50.0 < full[held] <= 100.0
    assert 0.0 <= full[whole] <= 100.0
    assert full[placed] < player.churn(arrivals, 0.3, 5)["churn.0.3.placed"] > 95.0


def test_without_gpus_there_is_nothing_to_tune(tmp_path: Path) -> None:
    site, arrivals = from_trace(trace(tmp_path), "default", "", None, 1)
    bare = {
        name: [each for each in messages if "device" not in each[1].key][:1] for name, messages in site.nodes.items()
    }
    with pytest.raises(CliError, match="no node has GPUs"):
        Player(site._replace(nodes=bare), None).fill(arrivals, 1)


# --- search and verdict ----------------------------------------------------------------------------------------------


class Known(Measuring):
    """Where it is known what helps: filling likes `cardBroken` near 9, churn likes `gpusLeft` near 80."""

    def __init__(self, noise: float, wrong: float = 1.0) -> None:
        super().__init__(sites.Site({}, {}, (), OURS), (), 0)
        self._noise, self._wrong = noise, wrong

    def figures(self, settings: Settings, what: str, order: int) -> dict[str, float]:
        path, best = ("filling.cardBroken", 9.0) if what == "fill" else ("turningOver.gpusLeft", 80.0)
        value = settings[path]
        assert isinstance(value, float)
        noise = np.random.default_rng([order, int(value * 1000) % 997]).standard_normal() * self._noise
        score = 90.0 - self._wrong * abs(value - best) / best + float(noise)
        if what == "fill":
            return {"fill.100": score, "fill.130": score}
        return {name: score for load in (0.95, 1.05, 1.2) for name in figures_of_churn(load)}


def searched(measuring: Measuring, turns: int = 24) -> tuple[Settings, list[searching.Turn]]:
    return searching.search(measuring, current(None, OURS), 3, lambda turn: turn >= turns, lambda _: None)


def test_the_search_finds_what_helps_and_says_the_same_again() -> None:
    found, turns = searched(Known(0.01))
    assert abs(float(np.asarray(found["filling.cardBroken"])) - 9.0) < 2.5
    assert abs(float(np.asarray(found["turningOver.gpusLeft"])) - 80.0) < 15.0
    assert searched(Known(0.01)) == (found, turns)
    assert {turn.block for turn in turns} == {"filling", "turning over", "both"}


def test_what_noise_alone_says_is_hardly_ever_kept() -> None:
    _, turns = searched(Known(1.0, wrong=0.0))
    assert sum(turn.is_kept for turn in turns) <= len(turns) // 3


def compared(**gains: tuple[float, float]) -> Compared:
    return Compared({}, {}, {name: Gain(*gain) for name, gain in gains.items()})


@pytest.mark.parametrize(
    ("gains", "is_accepted", "why"),
    [
        ({"fill": (0.3, 0.1), "churn": (0.2, 0.05)}, True, "better on arrivals"),
        ({"fill": (0.3, 0.2), "churn": (0.2, 0.05)}, False, "not surely better .* fill"),
        ({"fill": (0.3, 0.1), "churn": (0.0, 0.0)}, False, "not surely better .* churn"),
        ({"fill": (0.3, 0.1), "churn": (0.2, 0.05), "churn.0.95.whole": (-3.0, 1.0)}, False, "worse on .*whole"),
        ({"fill": (0.3, 0.1), "churn": (0.2, 0.05), "churn.0.95.whole": (-3.0, 2.0)}, True, "better"),
    ],
)
def test_the_verdict(gains: dict[str, tuple[float, float]], is_accepted: bool, why: str) -> None:
    found = judged(compared(**gains))
    assert found.is_accepted is is_accepted
    assert re.search(why, found.why)


def test_of_one_order_nothing_is_sure() -> None:
    assert not gain_of([5.0]).is_sure
    assert gain_of([1.0, 1.1, 0.9]).is_sure
    assert gain_of([-1.0, -1.1, -0.9]).is_loss


# --- the whole -------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "TRIED", 4)
    monkeypatch.setattr(searching, "ORDERS", (1, 2, 2))


def test_weights_that_draw_pods_to_emptier_nodes_are_found_to_be_worse(tmp_path: Path) -> None:
    """Both while pods only come and where they leave, since no node is left whole."""
    site, arrivals = from_trace(trace(tmp_path), "default", "", None, 1)
    own = current(None, OURS)
    bad: Settings = {**own, "filling.gpusLeft": -150.0, "turningOver.gpusLeft": -150.0, "turningOver.stranded": 0.0}
    found = comparing(Measuring(site, arrivals, 1), bad, own, 3, lambda _: None)
    assert found.gains["fill"].mean > 1.0
    assert found.gains["churn"].mean > 1.0
    assert found.gains["fill.130"].mean == pytest.approx(found.after["fill.130"][0] - found.before["fill.130"][0])


@pytest.mark.usefixtures("quick")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--turns", "1", "--orders", "3", "--seed", "2", "--search-nodes", "20", "--judge-nodes", "20"]
    assert main(["tune", "--trace", str(trace(tmp_path)), *options, "--json"]) == EXIT_OK
    out = capsys.readouterr()
    said = json.loads(out.out)
    assert said["arrivals"] == {"seen": 490, "unseen": 210}
    assert (said["repeat"], len(said["turns"])) == ("--seed 2 --turns 1", 1)
    assert "turn 1, filling" in out.err
    assert main(["tune"]) == EXIT_USAGE
    assert "--from" in capsys.readouterr().err
    assert main(["tune", "--trace", str(tmp_path), "--config", str(tmp_path / "none")]) == EXIT_USAGE


def test_the_report_has_both_tables_and_the_entry_for_the_configuration() -> None:
    names_of = ["fill.100", "churn.0.95.whole"]
    part = Compared(
        dict.fromkeys(names_of, (90.0, 0.5)),
        dict.fromkeys(names_of, (91.25, 0.25)),
        {name: Gain(1.25, 0.1) for name in [*names_of, "fill", "churn"]},
    )
    found: Settings = {"filling.gpusLeft": -3.5, "turningOver.coresShort": [1.0, 2.0, 3.0, 4.5], "wholeReserve": 0.05}
    turn = searching.Turn(0, "filling", 8, found, {"fill": 1.25}, is_kept=True)
    report = Report(
        scheduler=OURS,
        arrivals={"seen": 700, "unseen": 300},
        nodes={"all": 50, "search": 20, "judged": 50},
        about=["something was drawn"],
        repeat="--seed 1 --turns 1",
        orders={"seen": 6, "unseen": 8},
        turns=[turn],
        played=30,
        took_s=12.0,
        settings=found,
        seen=part,
        unseen=part,
        verdict=judged(part),
    )
    text = "\n".join(lines(report))
    assert "departures, load 0.95: asked whole nodes placed  90.00 ± 0.50  91.25 ± 0.25  +1.25" in text
    assert "filling, 100 % arrived" in text
    assert "filling.gpusLeft -3.5, turningOver.coresShort 1/2/3/4.5, wholeReserve 0.05" in text
    assert "accepted: better on arrivals that the search has not seen: fill +1.25 (within 0.20)" in text
    entry = yaml.safe_load(text.partition("configuration of the profile:\n")[2])
    document = {**HEAD, "profiles": [{"schedulerName": OURS, "pluginConfig": entry}]}
    assert changed(current(json.dumps(document), OURS), current(None, OURS)) == found
    said = as_json(report)
    assert (said["accepted"], said["settings"]) == (True, entry)
    assert said["unseen"]["scores"]["fill"] == {"mean": 1.25, "error": 0.1}
