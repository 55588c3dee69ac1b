"""What is written on a node: resources, labels, annotations, and what it lends."""

from __future__ import annotations

import json

import pytest

from berth.contracts import names
from berth.contracts.command import AnnotateNode, OfferNode, PatchNode
from berth.contracts.errors import InvalidMessage
from berth.simcluster.store import Path


async def test_a_node_gets_resources_and_labels(desk, api):
    node = api.node("n")
    await desk.send(PatchNode(name="n", uid=node.uid, resources={"x/gpu": "2"}, labels={"a": "b"}))
    path = Path("", "v1", "nodes", "", "n")
    raw = api.store.get(path).body.decode()
    assert '"x/gpu":"2"' in raw
    assert '"a":"b"' in raw
    await desk.send(PatchNode(name="n", uid=node.uid, resources={"x/gpu": None}))
    assert "x/gpu" not in api.store.get(path).body.decode()
    await desk.send(PatchNode(name="n", uid="another", labels={"a": "c"}))
    assert '"a":"b"' in api.store.get(path).body.decode()


async def test_a_node_shows_what_it_lends_in_one_write(desk, api):
    node = api.node("n")
    path = Path("", "v1", "nodes", "", "n")
    note, batch = names.ANNOTATION_ORIGIN_ALLOCATABLE, names.BATCH_CPU

    def shown():
        found = json.loads(api.store.get(path).body)
        status, meta = found["status"], found["metadata"]
        version = int(meta["resourceVersion"])
        return (
            status["capacity"].get(batch),
            status["allocatable"].get(batch),
            (meta.get("annotations") or {}).get(note),
            version,
        )

    version = shown()[-1]
    await desk.send(OfferNode(name="n", uid=node.uid, resources={batch: "5k"}, annotations={note: "{}"}))
    assert shown() == ("5k", "5k", "{}", version + 1)
    await desk.send(OfferNode(name="n", uid="another", resources={batch: "6k"}))
    await desk.send(OfferNode(name="gone", uid=node.uid, resources={batch: "6k"}))
    assert shown()[0] == "5k"
    for wrong in ({"resources": {"cpu": "100"}}, {"annotations": {names.ANNOTATION_RAW_ALLOCATABLE: "{}"}}):
        with pytest.raises(InvalidMessage, match=next(iter(wrong))):
            await desk.send(OfferNode(name="n", uid=node.uid, **wrong))
    await desk.send(OfferNode(name="n", uid=node.uid, resources={batch: None}, annotations={note: None}))
    assert shown()[:3] == (None, None, None)


async def test_a_node_gets_the_annotations_that_are_listed(desk, api):
    node = api.node("n")
    ratio, amplified = names.ANNOTATION_CPU_NORMALIZATION_RATIO, names.ANNOTATION_AMPLIFICATION_RATIO

    def shown():
        annotations = json.loads(api.store.get(Path("", "v1", "nodes", "", "n")).body)["metadata"].get("annotations")
        return annotations or {}

    await desk.send(AnnotateNode(name="n", uid=node.uid, annotations={ratio: "1.20", amplified: '{"cpu":1.20}'}))
    assert shown() == {ratio: "1.20", amplified: '{"cpu":1.20}'}
    await desk.send(AnnotateNode(name="n", uid=node.uid, annotations={amplified: None}))
    assert shown() == {ratio: "1.20"}
    await desk.send(AnnotateNode(name="n", uid="another", annotations={ratio: "2.00"}))
    await desk.send(AnnotateNode(name="n", uid=node.uid))
    await desk.send(AnnotateNode(name="gone", uid=node.uid, annotations={ratio: "2.00"}))
    assert shown() == {ratio: "1.20"}
    for other in (names.ANNOTATION_RAW_ALLOCATABLE, "example.com/x"):
        with pytest.raises(InvalidMessage, match="annotations"):
            await desk.send(AnnotateNode(name="n", uid=node.uid, annotations={ratio: "2.00", other: "x"}))
    assert shown() == {ratio: "1.20"}
