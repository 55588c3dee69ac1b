"""What is too large for a message is cut off and named."""

from __future__ import annotations

from tests.services.worlds.watcher.pod_items import container, fields, pod, read

from berth.cluster_watcher.core.packing import MESSAGE_BYTES_MAX, TEXT_LENGTH_MAX, pack
from berth.contracts import state
from berth.contracts.codec import decode
from berth.rules.reading.findings import NAME_LENGTH_MAX


def test_huge_texts_are_cut_off_and_named() -> None:
    huge = "x" * (1 << 20)
    seen = read(
        pod(
            {"containers": [container(requests={"cpu": "1"})], "nodeSelector": {"zone": huge}},
            labels={"l": huge},
            annotations={"scheduling.berth.sh/a": huge, "elsewhere/b": huge},
        )
    )
    value, cut = pack(seen)
    assert value is not None
    assert len(value) <= MESSAGE_BYTES_MAX
    assert {field for field, _ in cut} == {
        "metadata.labels[l]",
        "metadata.annotations[scheduling.berth.sh/a]",
        "spec.nodeSelector[zone]",
    }
    back = decode(value, state.Pod)
    assert back.template.requests == {"cpu": 1000}
    assert len(back.template.labels["l"]) == TEXT_LENGTH_MAX
    assert set(fields(back)) == {field for field, _ in cut}


def test_a_huge_name_becomes_a_short_one_that_stays_distinct() -> None:
    one, two = (read(pod(name="n" * (1 << 20) + end)) for end in "ab")
    assert max(len(one.name), len(two.name)) <= NAME_LENGTH_MAX
    assert one.name != two.name
    assert fields(one) == ["metadata.name"]


def test_what_cannot_be_made_to_fit_keeps_its_node_and_its_amounts() -> None:
    tolerations = [{"key": f"k{i}", "value": "v" * 1000} for i in range(2000)]
    seen = read(pod({"nodeName": "n1", "containers": [container(requests={"cpu": "1"})], "tolerations": tolerations}))
    value, cut = pack(seen)
    assert value is not None
    assert cut
    back = decode(value, state.Pod)
    assert (back.node, back.template.requests, back.template.tolerations) == ("n1", {"cpu": 1000}, [])
    assert fields(back) == [""]
