"""The answer to a container that is made, and what one lacks that began without it."""

from __future__ import annotations

import pytest
from tests.services.node_qos_builders import FACTS, GPU, container, gpu, pod
from tests.services.worlds.enforcer.inside import edits_of

from berth.contracts import names
from berth.node_qos_enforcer.core.inside.cpus import Wanted
from berth.node_qos_enforcer.core.inside.creation import adjustment
from berth.node_qos_enforcer.core.inside.lacking import lacking
from berth.node_qos_enforcer.core.inside.seen import BEFORE, Limits, container_seen, pod_seen
from berth.nri import api_pb2 as api
from berth.vendors.vendor import Edits


def test_what_a_container_says_itself_gives_way() -> None:
    of = pod(devices={"gpu": [gpu(0, ratio=50)]}, labels={names.LABEL_GPU_ISOLATION: "HAMi-core"})
    asked = container_seen(container(of, env={"NVIDIA_VISIBLE_DEVICES": "all", "LD_PRELOAD": "/own.so", "A": "b"}))
    found = edits_of(of)
    assert isinstance(found, Edits)
    answer = adjustment(asked, found, Wanted("0-1"), read_only=frozenset({FACTS.library}))
    assert answer.env["NVIDIA_VISIBLE_DEVICES"] == f"{GPU}0"
    assert answer.env["LD_PRELOAD"] == f"{FACTS.library}:/own.so"
    assert set(answer.replaced_env) == {"NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD"}
    assert [each.options for each in answer.mounts] == [("rbind", "ro"), ("rbind", "rw")]
    assert answer.resources.cpus == "0-1"


def test_the_limits_of_before_stay_with_the_container() -> None:
    asked = container_seen(container(pod(), quota_us=200_000))
    answer = adjustment(asked, Edits(), Wanted("0-1", -1), read_only=frozenset())
    again = container_seen(container(pod(), cpus="0-1", quota_us=-1, annotations=dict(answer.annotations)))
    assert again.before == Limits("", 200_000)
    assert adjustment(asked, Edits(), Wanted(), read_only=frozenset()).annotations == {}


@pytest.mark.parametrize("text", ["{", "[]", "x" * 10_000, '{"cpus":1}'])
def test_limits_of_before_that_cannot_be_read_are_none(text: str) -> None:
    assert container_seen(container(pod(), annotations={BEFORE: text})).before is None


def test_a_container_that_began_without_us_is_told_what_it_lacks() -> None:
    of = pod(devices={"gpu": [gpu(0, ratio=50)]}, labels={names.LABEL_GPU_ISOLATION: "HAMi-core"})
    found = edits_of(of)
    assert isinstance(found, Edits)
    early = lacking(pod_seen(of), container_seen(container(of, env={"NVIDIA_VISIBLE_DEVICES": "all"})), found)
    assert early is not None
    assert early.field == "pods[work/web].containers[main]"
    assert "env NVIDIA_VISIBLE_DEVICES" in early.message
    assert f"{GPU}0" not in early.message
    whole = container(of, env={**found.env, "LD_PRELOAD": f"{FACTS.library}:/own.so"})
    whole.mounts.extend(api.Mount(destination=each.destination) for each in found.mounts)
    assert lacking(pod_seen(of), container_seen(whole), found) is None
    assert lacking(pod_seen(of), container_seen(container(of)), Edits()) is None
