"""What the writer reads of objects that nobody should have written."""

from __future__ import annotations

import pytest

from berth.cluster_writer.cluster_view import ClusterView
from berth.contracts import names, state
from berth.contracts.codec import encode
from berth.contracts.subjects import pod_key

DEEP = '{"uid":"u","x":' + "[" * 2000 + "]" * 2000 + "}"


@pytest.mark.parametrize(
    ("name", "text"),
    [(names.ANNOTATION_RESERVATION_ALLOCATED, DEEP), (names.ANNOTATION_DEVICE_ALLOCATED, f'{{"gpu":[{DEEP}]}}')],
)
def test_a_pod_whose_annotation_is_nested_too_deeply_is_read(name: str, text: str) -> None:
    cluster = ClusterView(lambda *_: None)
    template = state.PodTemplate(annotations={name: text})
    pod = state.Pod(namespace="ns", name="p", uid="p", version=1, template=template, node="n")
    assert cluster.read_state(pod_key("ns", "p"), encode(pod), deleted=False, gap=False) == ("ns", "p")
