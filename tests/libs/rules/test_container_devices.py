"""How a pod's devices are divided among its containers, and what the bind writes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import OWN_ROOT, VF, device, function
from berth.contracts.ledger import Grant
from berth.contracts.state import DeviceContainer, PodTemplate
from berth.kubelet.core.allocated import devices_of_containers
from berth.rules.records import divided as dividing
from berth.rules.records.binds import annotations_of, written_over
from berth.rules.records.divided import divided
from berth.rules.records.seam import Bound
from berth.vendors.given import given_to

GIB = 1 << 30
CARD = 80 * GIB
NONE: Mapping[str, dict[str, int]] = {}


def card(minor: int, percent: int = 100, memory: int | None = None, core: bool = True) -> Grant:
    """A share of a card, with its memory in both units."""
    amounts = {names.GPU_MEMORY_RATIO: percent, names.GPU_MEMORY: CARD * percent // 100 if memory is None else memory}
    return device("gpu", minor, ({names.GPU_CORE: percent} if core else {}) | amounts)


def nic(minor: int, percent: int = 100) -> Grant:
    return device("rdma", minor, {names.RDMA: percent})


def ratio(percent: int, cards: int = 0) -> dict[str, int]:
    shared = {names.GPU_SHARED: cards} if cards else {}
    return {names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent} | shared


def cards(number: int) -> dict[str, int]:
    return {names.NVIDIA_GPU: number}


def pod_of(asks: Mapping[str, dict[str, int]], init: Mapping[str, dict[str, int]] = NONE, **notes: Any) -> PodTemplate:
    """A pod whose request follows from its containers as Kubernetes has it."""
    total: dict[str, int] = {}
    for requests in asks.values():
        for name, amount in requests.items():
            total[name] = total.get(name, 0) + amount
    for requests in init.values():
        total |= {name: max(amount, total.get(name, 0)) for name, amount in requests.items()}
    containers = [DeviceContainer(name=name, requests=requests) for name, requests in asks.items()]
    containers += [DeviceContainer(name=name, requests=requests, init=True) for name, requests in init.items()]
    annotations = {getattr(names, f"ANNOTATION_{key}"): json.dumps(value) for key, value in notes.items()}
    return PodTemplate(requests=total, device_containers=containers, annotations=annotations)


def briefly(parts: dict[str, tuple[Grant, ...]]) -> dict[str, list[str]]:
    """Each device as `KIND MINOR PERCENT`, virtual functions by their address."""
    return {
        name: [each.id if each.kind == VF else f"{each.kind} {each.id} {_percent(each)}" for each in part]
        for name, part in parts.items()
    }


def _percent(grant: Grant) -> int:
    return grant.amounts.get(names.GPU_MEMORY_RATIO, grant.amounts.get(names.RDMA, 0))


HINT = {"rdma": {"vfSelector": {}}}
JOINT = {"deviceTypes": ["gpu", "rdma"]}
WHOLE = [card(0), card(1)]


@pytest.mark.parametrize(
    ("template", "grants", "expected"),
    [
        pytest.param(pod_of({"a": cards(1)}), [card(3)], {}, id="one-container"),
        pytest.param(pod_of({"a": {}, "b": {}}), [], {}, id="no-device"),
        pytest.param(pod_of({"a": cards(1)}, {"i": {}}), [card(3)], {}, id="init-has-what-the-only-one-has"),
        pytest.param(pod_of({"a": cards(1), "log": {}}), [card(3)], {"a": ["gpu 3 100"]}, id="who-asks-nothing"),
        pytest.param(
            pod_of({"a": cards(1), "b": cards(2)}, {"i": {}}),
            [card(10), card(2), card(7)],
            {
                "a": ["gpu 2 100"],
                "b": ["gpu 7 100", "gpu 10 100"],
                "i": ["gpu 2 100", "gpu 7 100", "gpu 10 100"],
            },
            id="whole-cards-in-order-of-minors",
        ),
        pytest.param(
            pod_of({"a": ratio(30), "b": ratio(70)}), [card(4)], {"a": ["gpu 4 30"], "b": ["gpu 4 70"]}, id="shares"
        ),
        pytest.param(
            pod_of({"a": ratio(50), "b": ratio(100), "c": ratio(50)}),
            WHOLE,
            {"a": ["gpu 1 50"], "b": ["gpu 0 100"], "c": ["gpu 1 50"]},
            id="whole-cards-first",
        ),
        pytest.param(
            pod_of({name: ratio(part) for name, part in zip("abcdef", (50, 30, 20, 40, 40, 20), strict=True)}),
            WHOLE,
            {
                "a": ["gpu 0 50"],
                "b": ["gpu 0 30"],
                "c": ["gpu 0 20"],
                "d": ["gpu 1 40"],
                "e": ["gpu 1 40"],
                "f": ["gpu 1 20"],
            },
            id="not-as-the-largest-first-would-have-it",
        ),
        pytest.param(
            pod_of({"a": ratio(60), "b": ratio(60), "c": ratio(80), "log": {}}),
            WHOLE,
            {name: ["gpu 0 100", "gpu 1 100"] for name in "abc"},
            id="does-not-come-out",
        ),
        pytest.param(
            pod_of({"a": ratio(150), "b": ratio(50), "log": {}}),
            WHOLE,
            {name: ["gpu 0 100", "gpu 1 100"] for name in "ab"},
            id="no-request-of-its-own",
        ),
        pytest.param(pod_of({"a": ratio(60), "b": ratio(60), "c": ratio(80)}), WHOLE, {}, id="all-have-all"),
        pytest.param(
            pod_of({"a": ratio(50, 1), "b": ratio(100, 2)}),
            [card(minor, 50) for minor in range(3)],
            {"a": ["gpu 0 50"], "b": ["gpu 1 50", "gpu 2 50"]},
            id="shares-of-several-cards",
        ),
        pytest.param(
            pod_of({"a": ratio(60, 1)}, {"i": ratio(100, 2)}), [card(0, 50), card(1, 50)], {}, id="init-asks-otherwise"
        ),
        pytest.param(
            pod_of({"a": cards(1), "b": {}}, {"i": cards(2)}),
            WHOLE,
            {"a": ["gpu 0 100"], "i": ["gpu 0 100", "gpu 1 100"]},
            id="init-asks-for-more",
        ),
        pytest.param(
            pod_of({"a": {names.RDMA: 50}, "b": {names.RDMA: 50} | cards(1)}, DEVICE_HINT=HINT),
            [card(0), nic(2), function("x", "rdma", 2)],
            {"a": ["rdma 2 50", "x"], "b": ["gpu 0 100", "rdma 2 50", "x"]},
            id="functions-go-with-their-device",
        ),
        pytest.param(
            pod_of(
                {"a": {names.RDMA: 1}, "b": {names.RDMA: 2}}, DEVICE_HINT={"rdma": {"allocateStrategy": "ApplyForAll"}}
            ),
            [nic(0, 3), nic(1, 3)],
            {"a": ["rdma 0 1", "rdma 1 1"], "b": ["rdma 0 2", "rdma 1 2"]},
            id="so-much-of-every-one",
        ),
        pytest.param(
            pod_of(
                {"a": {names.RDMA: 1}, "b": {names.RDMA: 2}},
                DEVICE_HINT={"rdma": {"allocateStrategy": "RequestsAsCount"}},
            ),
            [nic(0, 1), nic(1, 1), nic(2, 1)],
            {"a": ["rdma 0 1"], "b": ["rdma 1 1", "rdma 2 1"]},
            id="so-many",
        ),
        pytest.param(
            pod_of({"a": cards(1) | {names.RDMA: 50}, "b": cards(1), "log": {}}, DEVICE_JOINT=JOINT),
            [*WHOLE, nic(0, 50)],
            {"a": ["gpu 0 100", "gpu 1 100", "rdma 0 50"], "b": ["gpu 0 100", "gpu 1 100"]},
            id="side-by-side",
        ),
        pytest.param(
            pod_of({"a": cards(1), "b": cards(1)}, DEVICE_HINT={"gpu": {"exclusivePolicy": "PCIeLevel"}}),
            [device("gpu", 0, card(0).amounts, OWN_ROOT), device("gpu", 1, card(1).amounts, OWN_ROOT)],
            {"a": ["gpu 0 100"], "b": ["gpu 1 100"]},
            id="own-roots",
        ),
        pytest.param(
            pod_of({"a": ratio(60, 1), "b": ratio(60, 2)}),
            [card(0, 40), card(1, 40), card(2, 40)],
            {},
            id="uneven-by-containers",
        ),
    ],
)
def test_what_each_container_has(template: PodTemplate, grants: list[Grant], expected: dict[str, list[str]]) -> None:
    assert briefly(divided(grants, template)) == expected
    assert divided(tuple(reversed(grants)), template) == divided(grants, template)


def test_an_uneven_share_is_not_divided() -> None:
    template = pod_of({"a": ratio(60, 1), "b": ratio(60, 1), "log": {}})
    template.annotations[names.ANNOTATION_GPU_SPLIT] = "uneven"
    both = ["gpu 0 100", "gpu 1 20"]
    assert briefly(divided([card(0), card(1, 20)], template)) == {"a": both, "b": both}


def test_memory_follows_in_the_other_unit() -> None:
    asks = {name: {names.GPU_MEMORY: part} for name, part in (("a", 10 * GIB), ("b", 7 * GIB))}
    grant = card(0, 21, 17 * GIB, core=False)
    parts = divided([grant], pod_of(asks))
    assert [parts[name][0].amounts for name in "ab"] == [
        {names.GPU_MEMORY: 10 * GIB, names.GPU_MEMORY_RATIO: 12},
        {names.GPU_MEMORY: 7 * GIB, names.GPU_MEMORY_RATIO: 9},
    ]
    tiny = {name: {names.GPU_MEMORY: 1 << 20} for name in ("a", "b")} | {"log": {}}
    parts = divided([card(0, 1, 2 << 20, core=False)], pod_of(tiny))
    assert briefly(parts) == {name: ["gpu 0 1"] for name in "ab"}, "nobody has nothing of a device that it asks for"


@given(st.data())
def test_parts_of_containers_together_are_the_grant(data: st.DataObject) -> None:
    """Whole cards and shares of cards, so put together that they come out."""
    count = data.draw(st.integers(1, 4))
    asks: dict[str, dict[str, int]] = {}
    for minor in range(count):
        cut = sorted(data.draw(st.sets(st.integers(1, 99), max_size=3)))
        for at, (low, high) in enumerate(zip([0, *cut], [*cut, 100], strict=True)):
            asks[f"c{minor}-{at}"] = ratio(high - low)
    order = data.draw(st.permutations(sorted(asks)))
    memory = data.draw(st.integers(10**6, CARD))
    grants = [card(minor, 100, memory) for minor in range(count)]
    parts = divided(grants, pod_of({name: asks[name] for name in order}))
    assume(len(asks) > 1)
    given_out: dict[str, dict[str, int]] = {}
    for name, part in parts.items():
        (one,) = part
        assert {key: one.amounts[key] for key in asks[name]} == asks[name]
        sums = given_out.setdefault(one.id, {})
        for key, amount in one.amounts.items():
            sums[key] = sums.get(key, 0) + amount
    assert given_out == {each.id: each.amounts for each in grants}
    assert list(parts) == order


def test_a_search_that_takes_too_long_divides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    template = pod_of({"a": ratio(30), "b": ratio(70), "log": {}})
    monkeypatch.setattr(dividing, "TRIES_MAX", 0)
    assert briefly(divided([card(0)], template)) == {name: ["gpu 0 100"] for name in "ab"}
    monkeypatch.undo()
    many = pod_of({f"c{at}": ratio(1) for at in range(100)} | {"log": {}})
    assert len(divided([card(0)], many)) == 100
    assert {len(each[0].amounts) for each in divided([card(0)], many).values()} == {3}
    assert _percent(divided([card(0)], many)["c0"][0]) == 100, "among so many it is not divided"


# --- what is written, and read ----------------------------------------------------------------------------------------


def test_a_bind_writes_it_only_where_containers_differ() -> None:
    grants = (card(0), card(1), nic(3, 1), function("0000:03:00.1", "rdma", 3))
    template = pod_of({"a": cards(1) | {names.RDMA: 1}, "b": cards(1), "log": {}}, {"i": {}}, DEVICE_HINT=HINT)
    bound = Bound("p", grants, template=template, uuids={("gpu", "0"): "GPU-0", ("gpu", "1"): "GPU-1"})
    notes = annotations_of(bound)
    told = json.loads(notes[names.ANNOTATION_CONTAINER_DEVICES])
    whole = json.loads(notes[names.ANNOTATION_DEVICE_ALLOCATED])
    assert told == {
        "a": {"gpu": whole["gpu"][:1], "rdma": whole["rdma"]},
        "b": {"gpu": whole["gpu"][1:]},
        "i": whole,
    }
    same = Bound("p", grants, template=PodTemplate(requests=template.requests))
    assert names.ANNOTATION_CONTAINER_DEVICES not in annotations_of(same)
    forged = {names.ANNOTATION_CONTAINER_DEVICES: '{"log":{"gpu":[{"minor":0}]}}'}
    assert written_over({}, forged) == {names.ANNOTATION_CONTAINER_DEVICES: ""}


def test_both_readers_give_each_container_its_part() -> None:
    template = pod_of({"a": ratio(30), "b": ratio(70), "log": {}}, {"i": {}})
    notes = annotations_of(Bound("p", (card(5),), template=template, uuids={("gpu", "5"): "GPU-5"}))
    read = {name: given_to(notes, name) for name in ("a", "b", "log", "i")}
    assert not any(isinstance(each, Problem) for each in read.values()), read
    figures = {
        name: [(each.minor, each.id, each.amounts) for each in part if not isinstance(part, Problem)]
        for name, part in read.items()
        if not isinstance(part, Problem)
    }
    assert figures == {
        "a": [(5, "GPU-5", card(5, 30).amounts)],
        "b": [(5, "GPU-5", card(5, 70).amounts)],
        "log": [],
        "i": [(5, "GPU-5", card(5).amounts)],
    }
    listed = devices_of_containers(notes, ["a", "b", "log"])
    assert not isinstance(listed, Problem)
    assert {name: [each.id for each in part] for name, part in listed.items()} == {name: ["GPU-5"] for name in "abi"}


def test_one_that_no_object_could_carry_is_left_out() -> None:
    template = pod_of({"a": cards(8), "log": {}}, {f"init-{at}": {} for at in range(200)})
    bound = Bound("p", tuple(card(minor) for minor in range(8)), template=template)
    assert set(annotations_of(bound)) == {names.ANNOTATION_PLAN, names.ANNOTATION_DEVICE_ALLOCATED}
