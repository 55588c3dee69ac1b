"""A recorded stretch, played through by another profile."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
from tests.services.worlds.solver.site import Site

from berth.cli.commands.shadow import shadow
from berth.cli.errors import EXIT_OK, CliError
from berth.cli.recorded.segments import heads
from berth.cli.shadow.comparing import Compared, compared
from berth.cli.shadow.report import lines, report
from berth.contracts import names, subjects
from berth.recording.frames import MARK, framed
from berth.recording.records import Began, Missed, Whole
from berth.testing.builders import gpu_slots, pod

DEFAULT = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: {}\n"
)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """The defaults."""
    path = tmp_path / "profile.yaml"
    path.write_text(DEFAULT.format(names.SCHEDULER_NAME))
    return path


def with_scores(path: Path, *enabled: str, args: str = "") -> Path:
    """A profile by these scores alone."""
    listed = "".join(f"      - {{name: {each}, weight: 1}}\n" for each in enabled)
    path.write_text(
        f"{DEFAULT.format(names.SCHEDULER_NAME)}  plugins:\n    score:\n      disabled:\n      - {{name: '*'}}\n"
        f"      enabled:\n{listed}{args}"
    )
    return path


def shadowed(site: Site, folder: Path, profile: Path, since_s: float | None = None) -> Compared:
    return compared(heads(site.put(folder)), profile, since_s, None)


async def busy(seed: int, turns: int = 40) -> Site:
    """Pods of several kinds come, run and end; some go while they wait."""
    rng = random.Random(seed)
    site = Site()
    for at in range(4):
        site.node(f"n{at}", cpu=16_000)
        site.devices(f"n{at}", gpu_slots(4))
    here: list[str] = []
    for turn in range(turns):
        for at in range(rng.randint(0, 4)):
            name = f"p{turn}-{at}"
            made = pod(name).requests(cpu=rng.choice((500, 2000, 4000))).template(priority=rng.choice((0, 0, 9)))
            site.pod(made.share(rng.choice((30, 50))) if rng.random() < 0.4 else made)
            here.append(name)
        await site.wait(rng.uniform(0.5, 5.0))
        while len(here) > 18:
            site.delete_pod(here.pop(rng.randrange(len(here))))
    return site


@pytest.mark.parametrize("seed", range(2))
async def test_the_same_profile_decides_about_the_same(seed: int, profile: Path, tmp_path: Path) -> None:
    """Where nodes are as good as each other, who came while somebody went may get another one."""
    found = shadowed(await busy(seed), tmp_path, profile)
    assert found.recorded.came > 30
    assert abs(len(found.recorded.nodes) - len(found.shadow.nodes)) <= 1 + found.recorded.came // 20
    assert found.differences.count <= found.recorded.came * 2 // 3
    assert len(found.recorded.packings) == len(found.shadow.packings) == 100


async def test_a_pod_ends_after_the_time_that_it_ran(profile: Path, tmp_path: Path) -> None:
    """Two that need the node whole: the second one waits until the first one has run for as long as it did."""
    site = Site()
    site.node("n0", cpu=1000)
    site.pod(pod("first").requests(cpu=1000))
    await site.wait(10.0)
    site.pod(pod("second").requests(cpu=1000))
    await site.wait(30.0)
    site.ends("first")
    await site.wait(50.0)
    site.ends("second")
    await site.wait(5.0)
    found = shadowed(site, tmp_path, profile)
    assert found.differences.count == 0
    assert sorted(found.shadow.waited_s.values()) == pytest.approx(sorted(found.recorded.waited_s.values()), abs=0.2)
    assert sorted(found.recorded.waited_s.values())[1] > 29.0
    busy_at = [[each.allocated["cpu"][0] for each in side.packings] for side in (found.shadow, found.recorded)]
    assert sum(one != other for one, other in zip(*busy_at, strict=True)) <= 2


async def test_another_policy_spreads_what_was_packed(tmp_path: Path) -> None:
    site = Site()
    for at in range(4):
        site.node(f"n{at}", cpu=8000, memory=8 << 30)
    for at in range(4):
        site.pod(pod(f"p{at}").requests(cpu=1000, memory=1 << 30))
        await site.wait(1.0)
    args = (
        "  pluginConfig:\n  - name: Berth\n    args: {decides: kube-scheduler}\n  - name: NodeResourcesFit\n    args:\n"
        "      scoringStrategy: {type: %s, resources: [{name: cpu, weight: 1}]}\n"
    )
    spread = shadowed(
        site, tmp_path, with_scores(tmp_path / "s.yaml", "NodeResourcesFit", args=args % "LeastAllocated")
    )
    packed = shadowed(site, tmp_path, with_scores(tmp_path / "p.yaml", "NodeResourcesFit", args=args % "MostAllocated"))
    assert len(set(spread.shadow.nodes.values())) == 4
    assert len(set(packed.shadow.nodes.values())) == 1
    assert spread.recorded.nodes == packed.recorded.nodes
    assert packed.differences.count + spread.differences.count > 0


async def test_who_has_to_leave_is_counted_on_both_sides(profile: Path, tmp_path: Path) -> None:
    site = Site()
    site.node("n0", cpu=1000)
    site.pod(pod("low").requests(cpu=1000))
    await site.wait(5.0)
    site.pod(pod("high").requests(cpu=1000).template(priority=100))
    await site.wait(5.0)
    found = shadowed(site, tmp_path, profile)
    assert sum(found.recorded.victims.values()) == sum(found.shadow.victims.values()) == 1
    assert len(found.shadow.nodes) == 2


async def test_what_was_bound_before_stays_where_it_is(profile: Path, tmp_path: Path) -> None:
    site = Site()
    for at in range(2):
        site.node(f"n{at}", cpu=2000)
    site.pod(pod("before").requests(cpu=1500))
    site.pod(pod("other").requests(cpu=1500))
    await site.wait(60.0)
    since_s = site.now_s - 30.0
    site.pod(pod("after").requests(cpu=500))
    await site.wait(1.0)
    found = shadowed(site, tmp_path, profile, since_s)
    assert found.recorded.came == 1
    assert [found.lives.of[uid].name for uid in found.shadow.nodes] == [("default", "after")]
    assert found.shadow.packings[0].allocated["cpu"] == (3000, 4000)


async def test_pods_of_a_node_that_goes_are_gone_with_it(profile: Path, tmp_path: Path) -> None:
    site = Site()
    site.node("n0", cpu=1000)
    site.pod(pod("p").requests(cpu=1000))
    await site.wait(5.0)
    site.delete(subjects.named_key("node", "n0"))
    await site.wait(5.0)
    site.delete_pod("p")
    await site.wait(5.0)
    found = shadowed(site, tmp_path, profile)
    assert len(found.shadow.nodes) == found.shadow.lost == 1
    assert "gone with their node" in "\n".join(lines(found, "p.yaml"))


def test_what_is_shown(profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shadowed(asyncio.run(busy(1, 15)), tmp_path, profile)
    text = "\n".join(lines(found, "p.yaml"))
    for each in ("RECORDED", "decisions differ", "GPUs allocated", "idle GPUs of no use", "waited, p99", "victims"):
        assert each in text
    said = report(found, "p.yaml")
    assert said["recorded"]["placed"] == len(found.recorded.nodes)
    assert shadow(profile=profile, folder=tmp_path, output="json") == EXIT_OK
    printed = capsys.readouterr()
    assert json.loads(printed.out)["shadow"] == said["shadow"]
    assert "pods placed" in printed.err or "reading" in printed.err


def test_profiles_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "berth-0000000001.rec").write_bytes(MARK + b"".join(framed([Began("a", 10.0, {}), Whole()])))
    listed = heads(tmp_path)
    with pytest.raises(CliError, match="cannot be read"):
        compared(listed, tmp_path / "missing.yaml", None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("profiles: [", "cannot be used"),
        (DEFAULT.format("x") + "  plugins:\n    score:\n      enabled:\n      - {name: Nonsense}\n", "Nonsense"),
        (DEFAULT.format("somebody-else"), "NOBODY is placed"),
    ],
)
async def test_bad_profiles_are_named(text: str, said: str, tmp_path: Path) -> None:
    site = Site()
    site.node("n0", cpu=1000)
    site.pod(pod("p").requests(cpu=100))
    await site.wait(1.0)
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(CliError, match=said):
        shadowed(site, tmp_path, path)


def put(folder: Path, number: int, *records: Began | Missed | Whole) -> None:
    data = MARK + b"".join(framed([*records, Whole()]))
    (folder / f"berth-{number:010d}.rec").write_bytes(data)


@pytest.mark.parametrize(
    ("since_s", "until_s", "said"),
    [
        (5.0, None, "nothing is recorded of"),
        (15.0, 45.0, "there is a gap"),
        (45.0, 44.0, "nothing lies between"),
        (45.0, None, "nothing is recorded that happened after"),
    ],
)
def test_what_was_not_recorded(since_s: float, until_s: float | None, said: str, profile: Path, tmp_path: Path) -> None:
    for number, (run, at_s) in enumerate([("a", 10.0), ("a", 20.0), ("b", 40.0)], 1):
        put(tmp_path, number, Began(run, at_s, {}))
    with pytest.raises(CliError, match=said):
        compared(heads(tmp_path), profile, since_s, until_s)
