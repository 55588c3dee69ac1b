"""Volumes of pods, as far as they say where a pod may run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.watcher.pod_items import fields, pod, read

from berth.contracts import names
from berth.contracts.state import VolumeUse


def test_volumes_of_a_pod_that_limits_their_disks() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "a-data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "inline", "csi": {"driver": "d"}},
        {"name": "none", "emptyDir": {}},
        {"name": 7, "csi": {"driver": "d"}},
        {"name": "odd", "persistentVolumeClaim": "x"},
    ]
    spec = {"containers": [{"name": "c"}], "volumes": volumes}
    assert read(pod(spec)).limited_volumes == {}
    limited = read(pod(spec, annotations={names.ANNOTATION_BLKIO_QOS: "{}"})).limited_volumes
    assert limited == {"data": "a-data", "scratch": "a-scratch", "inline": ""}


def test_volumes_that_may_tie_it_to_nodes() -> None:
    seen = read(
        pod(
            {
                "volumes": [
                    {"name": "a", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
                    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                    {"name": "b", "gcePersistentDisk": {"pdName": "disk-1", "readOnly": True}},
                    {"name": "c", "awsElasticBlockStore": {"volumeID": "vol-1"}},
                    {"name": "d", "iscsi": {"iqn": "iqn.2001-04.com:x", "targetPortal": "1.2.3.4", "lun": 0}},
                    {"name": "e", "rbd": {"monitors": ["m1", "m2"], "image": "img"}},
                    {"name": "f", "emptyDir": {}},
                ]
            }
        )
    )
    assert (fields(seen), seen.template.constraints) == ([], [])
    assert seen.template.volumes == [
        VolumeUse(source="persistentVolumeClaim", claim="data", read_only=True),
        VolumeUse(source="ephemeral", claim="scratch"),
        VolumeUse(source="gcePersistentDisk", disk=["disk-1"], read_only=True),
        VolumeUse(source="awsElasticBlockStore", disk=["vol-1"]),
        VolumeUse(source="iscsi", disk=["iqn.2001-04.com:x"]),
        VolumeUse(source="rbd", disk=["rbd", "img", "m1", "m2"]),
    ]


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"persistentVolumeClaim": {}}, "persistentVolumeClaim.claimName"),
        ({"persistentVolumeClaim": {"claimName": 7}}, "persistentVolumeClaim.claimName"),
        ({"persistentVolumeClaim": {"claimName": "c" * 254}}, "persistentVolumeClaim.claimName"),
        ({"persistentVolumeClaim": "c"}, "persistentVolumeClaim"),
        ({"ephemeral": {}}, "name"),
        ({"gcePersistentDisk": {}}, "gcePersistentDisk.pdName"),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": "no"}}, "gcePersistentDisk.readOnly"),
        ({"awsElasticBlockStore": {"volumeID": "v" * 1025}}, "awsElasticBlockStore.volumeID"),
        ({"iscsi": {}}, "iscsi.iqn"),
        ({"rbd": {"image": "i"}}, "rbd.monitors"),
        ({"rbd": {"image": "i", "monitors": ["m"] * 65}}, "rbd.monitors"),
        ({"rbd": {"image": "i", "monitors": ["m", ""]}}, "rbd.monitors[1]"),
        ({"rbd": {"image": "i", "monitors": ["m"], "pool": ""}}, "rbd.pool"),
    ],
)
def test_a_volume_that_does_not_say_which_it_is(source: dict[str, Any], field: str) -> None:
    seen = read(pod({"volumes": [source, {"name": "ok", "persistentVolumeClaim": {"claimName": "c"}}]}))
    assert fields(seen) == [f"spec.volumes[0].{field}"]
    assert [use.claim for use in seen.template.volumes] == ["c"]


def test_too_many_volumes_are_left_out() -> None:
    seen = read(pod({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}] * 1025}))
    assert (fields(seen), seen.template.volumes, seen.template.constraints) == (["spec.volumes"], [], [])
