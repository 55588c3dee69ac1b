"""What kubelet says that containers hold: in order, bounded, what cannot be is left out and named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.node_report import HeldByContainer
from berth.kubelet.podresources_pb2 import ContainerDevices, ContainerResources, ListPodResourcesResponse, PodResources
from berth.node_qos_enforcer.core.held import CONTAINERS_MAX, IDS_MAX, held_of


def container(name: str, cpus: tuple[int, ...] = (), **devices: list[str]) -> ContainerResources:
    listed = [ContainerDevices(resource_name=name, device_ids=ids) for name, ids in devices.items()]
    return ContainerResources(name=name, devices=listed, cpu_ids=cpus)


def answer(*pods: tuple[str, list[ContainerResources]]) -> ListPodResourcesResponse:
    return ListPodResourcesResponse(
        pod_resources=[PodResources(name=name, namespace="ns", containers=listed) for name, listed in pods]
    )


def test_who_holds_what() -> None:
    two = container("b", (4, 5, 9))
    two.devices.extend([ContainerDevices(resource_name="x/gpu", device_ids=[each]) for each in ("g2", "g1")])
    held, problems = held_of(answer(("q", [two, container("a")]), ("p", [container("c", gpu=["g0"])])))
    assert problems == ()
    assert held == (
        HeldByContainer(namespace="ns", pod="p", container="c", devices={"gpu": ["g0"]}),
        HeldByContainer(namespace="ns", pod="q", container="b", devices={"x/gpu": ["g1", "g2"]}, cpus="4-5,9"),
    )


def test_whose_it_is_where_one_pod_bears_the_name() -> None:
    pods = {"u1": ("ns", "p"), "u2": ("ns", "q"), "u3": ("ns", "q"), "u4": ("other", "r")}
    says = answer(*((name, [container("c", gpu=["g0"])]) for name in ("p", "q", "r")))
    assert {each.pod: each.uid for each in held_of(says, pods)[0]} == {"p": "u1", "q": "", "r": ""}


def test_what_cannot_be_is_named_and_the_rest_is_told() -> None:
    held, problems = held_of(answer(("p", [container("a", (-1, 2, 10**9), gpu=["", "x" * 300, "g0"])])))
    assert held == (HeldByContainer(namespace="ns", pod="p", container="a", devices={"gpu": ["g0"]}, cpus="2"),)
    assert [problem.field for problem in problems] == ["held[ns/p/a].devices", "held[ns/p/a].cpus"]


def test_too_many_are_cut_and_named() -> None:
    many = [(f"p{number:05}", [container("c", (1,))]) for number in range(CONTAINERS_MAX + 1)]
    held, problems = held_of(answer(*many))
    assert (len(held), [problem.field for problem in problems]) == (CONTAINERS_MAX, ["held"])
    ids = [str(number) for number in range(IDS_MAX + 1)]
    held, problems = held_of(answer(("p", [container("a", gpu=ids), container("b", gpu=["g"])])))
    assert [each.devices for each in held] == [{}, {"gpu": ["g"]}]
    assert [problem.field for problem in problems] == ["held[ns/p/a].devices"]


@given(
    st.lists(
        st.tuples(
            st.text(max_size=5),
            st.lists(st.text(max_size=9), max_size=4),
            st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
        ),
        max_size=4,
    )
)
def test_no_answer_raises(entries: list[tuple[str, list[str], list[int]]]) -> None:
    made = [container(name, tuple(cpus), gpu=ids) for name, ids, cpus in entries]
    assert len(held_of(answer(("p", made)))[0]) <= len(made)
