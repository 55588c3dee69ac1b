"""How a node looks: on a terminal of 80 columns, and whatever it holds."""

from __future__ import annotations

import string
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from berth.cli.node_drawing import PODS_SHOWN, Beside, drawn
from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.grants import device, function
from berth.contracts.question import Holding, NodeAnswer, NodeDevice, NodeFunction, NodePartition, NodePod, NodeZone

ROOT = Path(__file__).resolve().parents[3]
GI = 1 << 30
WHOLE = {names.GPU_CORE: 100, names.GPU_MEMORY_RATIO: 100, names.GPU_MEMORY: 80 * GI}


def held(holder: str, percent: int = 100) -> Holding:
    return Holding(holder=holder, amounts={names.GPU_CORE: percent, names.GPU_MEMORY_RATIO: percent})


def node(**more: object) -> NodeAnswer:
    fields = {
        "name": "gpu-07.rack-1",
        "outcome": "known",
        "ready": True,
        "taints": ["dedicated=ml:NoSchedule"],
        "allocatable": {"cpu": 32_000, "memory": 256 * GI, "pods": 110},
        "free": {"cpu": 22_000, "memory": 200 * GI, "pods": 106},
        "devices": [
            NodeDevice(kind="gpu", minor=0, numa_node=0, amounts=WHOLE, holdings=[held("ml/train-0")]),
            NodeDevice(kind="gpu", minor=1, amounts=WHOLE, holdings=[held("ml/a", 40), held("ml/b", 20)]),
            NodeDevice(kind="gpu", minor=2, healthy=False, reason="Xid79", numa_node=1, amounts=WHOLE),
            NodeDevice(kind="gpu", minor=3, healthy=False, reason="Cordoned", numa_node=1, amounts=WHOLE),
            NodeDevice(kind="gpu", minor=9, healthy=False, reported=False, holdings=[held("ml/old")]),
            NodeDevice(
                kind="rdma",
                minor=0,
                numa_node=0,
                amounts={names.RDMA: 100},
                holdings=[Holding(holder="ml/train-0", amounts={names.RDMA: 1})],
                functions=[NodeFunction(bus="0000:1f:00.1", holder="ml/train-0"), NodeFunction(bus="0000:1f:00.2")],
            ),
        ],
        "partition_policy": "Honor",
        "partitions": [
            NodePartition(minors=[0]),
            NodePartition(minors=[0, 1], link="NVLink"),
            NodePartition(minors=[2, 3], link="NVLink"),
        ],
        "numa_policy": "Restricted",
        "cpu_manager": "static",
        "zones": [
            NodeZone(
                id=zone,
                amounts={"cpu": 16_000, "memory": 128 * GI},
                free={"cpu": 12_000 if not zone else 16_000, "memory": (127 if not zone else 128) * GI},
                holdings=[Holding(holder="ml/lsr", amounts={"cpu": 4000, "memory": GI})] if not zone else [],
                cores=[[core, core + 16] for core in range(8 * zone, 8 * zone + 8)],
            )
            for zone in (0, 1)
        ],
        "own_cpus": {"ml/lsr": "0-1,16-17", "x/static": "8,24"},
        "kept_cpus": "15,31",
        "pods": [
            NodePod(
                holder="ml/train-0",
                state="bound",
                amounts={"cpu": 4000, names.NVIDIA_GPU: 1},
                grants=[device("gpu", 0, WHOLE), function("0000:1f:00.1", "rdma", 0)],
            ),
            NodePod(holder="ml/lsr", state="bound", amounts={"cpu": 4000}, cpus="0-1,16-17", zones=[0]),
            NodePod(holder="ml/next", state="decided", amounts={"cpu": 2000}),
            NodePod(holder="ml/big", state="nominated", message="waits for ml/train-0 to leave"),
        ],
        "problems": [Problem(field="spec.devices[2]", message="is odd")],
    }
    return NodeAnswer(**{**fields, **more})


SCREEN = """\
node/gpu-07.rack-1  ready
  taints      dedicated=ml:NoSchedule
  cpus        NUMA policy Restricted, kubelet's CPU manager is static
     22 free of    32 cpu
  200Gi free of 256Gi memory
    106 free of   110 pods

  GPU  HEALTH      ZONE   HELD  BY
    0  ok          0     100 %  ml/train-0
    1  ok          -      60 %  ml/a 40 %, ml/b 20 %
    2  ill: Xid79  1       0 %  -
    3  cordoned    1       0 %  -
    9  gone        -         -  ml/old

  NIC  HEALTH  ZONE  HELD     VFS  BY
    0  ok      0      1 %  1 of 2  ml/train-0
    vf 0000:1f:00.1 of 0  ml/train-0

  PARTITIONS  whole cards are given out in these groups alone
    gpu 0-1  NVLink  2 of 2 held by ml/train-0, ml/a, ml/b
    gpu 2-3  NVLink  2 out of use

  ZONE 0  cpu 12 free of 16, memory 127Gi free of 128Gi
    cpus  0-7,16-23
    aaaa.... ........
  ZONE 1  cpu 16 free of 16, memory 128Gi free of 128Gi
    cpus  8-15,24-31
    bb...... ......##
    a  ml/lsr           cpus 0-1,16-17
    b  x/static         cpus 8,24
    #  given to nobody  cpus 15,31
    .  shared           the others

  PODS
    ml/train-0  cpu 4, gpu 0, vf 0000:1f:00.1
    ml/lsr      cpu 4, cpus 0-1,16-17, zone 0

  IN FLIGHT
    ml/next  decided    cpu 2
    ml/big   nominated  waits for ml/train-0 to leave
  problem     spec.devices[2]: is odd"""


def test_a_node_on_80_columns() -> None:
    assert "\n".join(drawn(node(), 80)) == SCREEN


def test_the_readme_shows_what_is_drawn() -> None:
    devices = [each for each in node().devices if each.reported]
    devices[1] = replace(devices[1], numa_node=0)
    shown = drawn(node(name="gpu-07", taints=[], devices=devices, problems=[]), 80)
    assert "\n".join(shown) in (ROOT / "README.md").read_text()


def test_a_node_that_nobody_knows() -> None:
    unknown = NodeAnswer(name="x", outcome="unknown", message="no node of this name is known")
    assert drawn(unknown, 80) == ["node/x  unknown", "              no node of this name is known"]


def test_a_cordoned_node_says_so() -> None:
    assert drawn(node(ready=False, cordoned=True), 80)[0] == "node/gpu-07.rack-1  not ready, cordoned"


def test_of_many_pods_some_are_shown_and_the_others_counted() -> None:
    pods = [NodePod(holder=f"a/{number}", state="bound") for number in range(PODS_SHOWN + 5)]
    lines = drawn(node(pods=pods, pods_left_out=7, problems=[]), 80)
    assert lines[-2:] == ["    and 5 more: --json has them", "    and 7 more"]


def test_more_holders_than_letters_are_drawn_alike() -> None:
    own = {f"a/{number}": str(number) for number in range(60)}
    zones = [NodeZone(id=0, cores=[[number] for number in range(64)])]
    lines = drawn(node(zones=zones, own_cpus=own, kept_cpus=""), 80)
    cells = "".join(line.replace(" ", "") for line in lines if set(line) <= set(string.ascii_letters + "+.# ") and line)
    assert string.ascii_letters + "+" * 8 + "...." in cells


def test_uneven_cores_stand_by_themselves() -> None:
    zone = NodeZone(id=900, cores=[[0, 1], [2], [5, 6, 7]])
    lines = drawn(node(zones=[zone], own_cpus={"a/b": "2,6"}, kept_cpus=""), 80)
    assert lines[lines.index("  ZONE 900") :][:3] == ["  ZONE 900", "    cpus  0-2,5-7", "    .. a .a."]


def test_a_zone_without_cores_and_cores_without_amounts() -> None:
    zones = [NodeZone(id=0, amounts={"memory": GI}, free={}), NodeZone(id=7, cores=[[3]])]
    lines = drawn(node(zones=zones, own_cpus={}, kept_cpus=""), 80)
    assert lines[lines.index("  ZONE 0  memory 0 free of 1Gi") :][:5] == [
        "  ZONE 0  memory 0 free of 1Gi",
        "  ZONE 7",
        "    cpus  3",
        "    .",
        "    .  shared  the others",
    ]


def test_what_is_free_is_rounded_down_to_what_can_be_read() -> None:
    zone = NodeZone(id=0, amounts={"memory": 64 * GI}, free={"memory": 12 * GI - 1})
    lines = drawn(node(zones=[zone], allocatable={"memory": 2 * GI}, free={"memory": GI + 1}), 80)
    assert "  ZONE 0  memory 11Gi free of 64Gi" in lines
    assert "  1Gi free of 2Gi memory" in [line.replace("1024Mi", "1Gi") for line in lines]


def test_three_hundred_cpus_are_drawn_in_short_lines_of_whole_groups_even_where_lines_may_be_long() -> None:
    zone = NodeZone(id=0, cores=[[cpu, cpu + 150] for cpu in range(150)])
    for width in (80, 65_536):
        lines = drawn(node(zones=[zone], own_cpus={"a/b": "0-299"}, kept_cpus=""), width)
        cells = [line.strip() for line in lines if line.strip(" a") == "" and line]
        assert "".join(cells).replace(" ", "") == "a" * 300
        assert max(map(len, cells)) <= 72


def test_many_holders_of_one_card_are_wrapped_below_each_other() -> None:
    card = NodeDevice(kind="gpu", minor=0, amounts=WHOLE, holdings=[held(f"team/pod-{n}", 10) for n in range(9)])
    text = "\n".join(drawn(node(devices=[card]), 80))
    assert all(f"team/pod-{number} 10 %" in text for number in range(9))


TEXT = st.text(max_size=200)
AMOUNTS = st.dictionaries(st.sampled_from([names.GPU_CORE, names.RDMA, "cpu", "x" * 90]), st.integers(0, 2**60))
HOLDINGS = st.lists(st.builds(Holding, holder=TEXT, amounts=AMOUNTS), max_size=5)
ANSWERS = st.builds(
    NodeAnswer,
    name=TEXT,
    outcome=st.just("known"),
    taints=st.lists(TEXT, max_size=3),
    allocatable=AMOUNTS,
    free=AMOUNTS,
    devices=st.lists(
        st.builds(
            NodeDevice,
            kind=st.sampled_from(["gpu", "rdma", "mlu"]),
            minor=st.integers(0, 99),
            healthy=st.booleans(),
            amounts=AMOUNTS,
            holdings=HOLDINGS,
            reason=TEXT,
            functions=st.lists(st.builds(NodeFunction, bus=TEXT, holder=TEXT, reported=st.booleans()), max_size=3),
        ),
        max_size=20,
    ),
    zones=st.lists(
        st.builds(
            NodeZone,
            id=st.integers(0, 9),
            amounts=AMOUNTS,
            holdings=HOLDINGS,
            cores=st.lists(st.lists(st.integers(0, 500), max_size=4), max_size=100),
        ),
        max_size=4,
    ),
    numa_policy=TEXT,
    cpu_manager=TEXT,
    cpu_ratio=st.floats(),
    partition_policy=st.sampled_from(["", "Honor", "Prefer"]),
    partitions=st.lists(
        st.builds(NodePartition, minors=st.lists(st.integers(0, 9), max_size=4), link=TEXT), max_size=4
    ),
    own_cpus=st.dictionaries(TEXT, st.sampled_from(["0-3", "", "nonsense", "9-2"]), max_size=70),
    kept_cpus=st.sampled_from(["", "1-5", "?"]),
    pods=st.lists(
        st.builds(NodePod, holder=TEXT, state=st.sampled_from(["bound", "decided"]), message=TEXT), max_size=50
    ),
)


@settings(max_examples=40)
@given(ANSWERS, st.integers(40, 120))
def test_no_line_is_wider_than_the_terminal(answer: NodeAnswer, width: int) -> None:
    for line in drawn(answer, width):
        assert len(line) <= width
        assert "\n" not in line


def test_how_the_strategies_of_its_agent_stand():
    lines = drawn(node(), 100, Beside({"suppress": "2 values", "memory-qos": "off"}))
    at = lines.index("  STRATEGIES")
    assert lines[at + 1 : at + 3] == ["    suppress    2 values", "    memory-qos  off"]
