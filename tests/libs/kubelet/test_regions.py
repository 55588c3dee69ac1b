"""What HAMi-core's files say, and what is said of those that cannot be true."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.libs.kubelet.regions import RegionV0, RegionV1, a_region, content, use

from berth.contracts.base import Problem
from berth.contracts.codec import encode
from berth.contracts.metrics import NodeMetrics
from berth.kubelet import region_files
from berth.kubelet.core.regions import BYTES_MAX, DeviceUse, NotReady, Region, read_region
from berth.kubelet.region_files import look

LAYOUTS = (0, 1)
GPU_A = DeviceUse(0, "GPU-a", 1000, 30, 100, 10, 20, 60, 5, 7)


def read(region: Any) -> Region | NotReady | Problem:
    return read_region(content(region), "f")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_is_read(layout: int) -> None:
    found = read(a_region(layout, ("GPU-a", "GPU-b")))
    assert found == Region(
        layout,
        1,
        (GPU_A, GPU_A._replace(place=1, uuid="GPU-b", limit_bytes=1001, sm_limit_percent=31)),
        1_000 if layout else 0,
        1,
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_sixteen_gpus_and_all_slots(layout: int) -> None:
    region = a_region(layout, [f"GPU-{at}" for at in range(16)])
    region.proc_num = 1024
    for slot in range(1024):
        region.procs[slot].pid = slot + 1
        use(region, slot, 15)
    found = read(region)
    assert isinstance(found, Region)
    assert found.processes == 1024
    last = found.devices[15]
    assert (last.total_bytes, last.data_bytes, last.sm_percent) == (102_400, 61_440, 7_168)
    assert found.devices[14].total_bytes == 100


@pytest.mark.parametrize("layout", LAYOUTS)
def test_processes_that_ended_do_not_count(layout: int) -> None:
    region = a_region(layout)
    region.proc_num = 3
    region.procs[1].pid = 0
    region.procs[2].pid = 9
    region.procs[3].pid = 10
    for slot in (1, 2, 3):
        use(region, slot, 0)
    found = read(region)
    assert isinstance(found, Region)
    assert (found.processes, found.devices[0].total_bytes) == (2, 200)


def test_a_file_without_its_last_byte_is_whole() -> None:
    for layout in LAYOUTS:
        assert isinstance(read_region(bytes(a_region(layout)), "f"), Region)


def test_a_gpu_without_its_id_yet_is_left_out() -> None:
    region = a_region(1, ("", "GPU-b"))
    found = read(region)
    assert isinstance(found, Region)
    assert [(each.place, each.uuid) for each in found.devices] == [(1, "GPU-b")]


def test_an_id_may_fill_its_field() -> None:
    found = read(a_region(1, ("G" * 96,)))
    assert isinstance(found, Region)
    assert found.devices[0].uuid == "G" * 96


@pytest.mark.parametrize("raw", [b"", bytes(1), bytes(16), bytes(5_000), bytes(BYTES_MAX)])
def test_a_file_that_is_not_filled_in_is_no_fault(raw: bytes) -> None:
    found = read_region(raw, "f")
    assert isinstance(found, NotReady) or (len(raw) < 16 and isinstance(found, Problem))


Break = Callable[[Any], None]


def setting(field: str, value: int) -> Break:
    return lambda region: setattr(region, field, value)


def in_slot(field: str, value: int) -> Break:
    return lambda region: setattr(region.procs[0], field, value)


def in_use(field: str, value: int) -> Break:
    return lambda region: setattr(region.procs[0].used[0], field, value)


def utilised(value: int) -> Break:
    return lambda region: setattr(region.procs[0].util[0], "sm", value)


def named(raw: bytes) -> Break:
    return lambda region: setattr(region.uuids[0], "value", raw)


@pytest.mark.parametrize(
    ("break_it", "field"),
    [
        (setting("initialized_flag", 1), "f.initialized_flag"),
        (setting("device_num", 17), "f.device_num"),
        (setting("device_num", 2**64 - 1), "f.device_num"),
        (setting("proc_num", 1025), "f.proc_num"),
        (setting("proc_num", -1), "f.proc_num"),
        (in_slot("pid", -5), "f.procs[0].pid"),
        (in_use("total", 2**64 - 10), "f.procs[].used[0]"),
        (in_use("data", 2**64 - 10), "f.procs[].used[0]"),
        (in_use("total", 89), "f.procs[].used[0]"),
        (utilised(2**63), "f.device_util[0]"),
        (named(b"\xff\xfe"), "f.uuids[0]"),
        (named(b"GPU\n"), "f.uuids[0]"),
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_cannot_be_true_is_named(layout: int, break_it: Break, field: str) -> None:
    region = a_region(layout)
    break_it(region)
    found = read(region)
    assert isinstance(found, Problem)
    assert found.field == field


@pytest.mark.parametrize(
    ("break_it", "field"),
    [
        (in_slot("seqlock", 3), "f.procs[0]"),
        (setting("last_kernel_time", 2**63), "f.last_kernel_time"),
        (setting("major_version", 2), "f"),
    ],
)
def test_what_only_layout_1_has_is_named(break_it: Break, field: str) -> None:
    region = a_region(1)
    break_it(region)
    found = read(region)
    assert isinstance(found, Problem)
    assert found.field == field


@pytest.mark.parametrize("layout", LAYOUTS)
@given(st.data())
def test_a_torn_file_is_never_read(layout: int, data: st.DataObject) -> None:
    whole = bytes(a_region(layout))
    cut = data.draw(st.integers(4, len(whole) - 1) | st.just(len(bytes(RegionV0())) - 1))
    found = read_region(whole[: min(cut, len(whole) - 1)], "f")
    assert isinstance(found, Problem) or (layout == 1 and cut in (len(bytes(RegionV0())), len(bytes(RegionV0())) + 1))


@given(st.binary(max_size=200), st.integers(0, 2_008_000), st.sampled_from(LAYOUTS))
def test_no_content_breaks_the_reading(noise: bytes, at: int, layout: int) -> None:
    raw = bytearray(content(a_region(layout)))
    at = min(at, len(raw) - len(noise))
    raw[at : at + len(noise)] = noise
    assert isinstance(read_region(bytes(raw), "f"), Region | NotReady | Problem)


def test_the_structures_have_the_sizes_of_the_library() -> None:
    assert [len(bytes(each())) + 1 for each in (RegionV0, RegionV1)] == [1_197_897, 2_008_953]


# --- files -----------------------------------------------------------------------------------------------------------


def put(root: Path, folder: str, file: str, raw: bytes) -> Path:
    (root / folder).mkdir(parents=True, exist_ok=True)
    path = root / folder / file
    path.write_bytes(raw)
    return path


def test_the_files_of_all_containers(tmp_path: Path) -> None:
    put(tmp_path, "uid-1_train", "uid-1_train.cache", content(a_region(1)))
    put(tmp_path, "uid-1_train", "libvgpu.so", b"library")
    put(tmp_path, "uid-2_serve", "x.cache", content(a_region(0)))
    put(tmp_path, "uid-3_new", "x.cache", b"")
    (tmp_path / "uid-4_empty").mkdir()
    put(tmp_path, "stranger", "x.cache", content(a_region(1)))
    (tmp_path / "file_of").write_text("no folder")
    found = look(tmp_path)
    assert not found.problems
    assert [(each.pod_uid, each.container, each.region.layout) for each in found.found] == [
        ("uid-1", "train", 1),
        ("uid-2", "serve", 0),
    ]


def test_a_root_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert look(tmp_path / "no") == region_files.Look()


def test_bad_files_are_named_and_cost_only_themselves(tmp_path: Path) -> None:
    put(tmp_path, "a_torn", "x.cache", content(a_region(1))[:5000])
    put(tmp_path, "b_noise", "x.cache", b"x" * 100)
    with put(tmp_path, "c_huge", "x.cache", b"").open("r+b") as huge:
        huge.truncate(BYTES_MAX + 1)
    secret = put(tmp_path, "secret", "region", content(a_region(1)))
    (tmp_path / "d_link").mkdir()
    (tmp_path / "d_link" / "x.cache").symlink_to(secret)
    (tmp_path / "e_pipe").mkdir()
    os.mkfifo(tmp_path / "e_pipe" / "x.cache")
    (tmp_path / "f_folder" / "x.cache").mkdir(parents=True)
    (tmp_path / "g_away").symlink_to(tmp_path / "secret")
    put(tmp_path, "h_good", "x.cache", content(a_region(1)))
    found = look(tmp_path)
    assert [each.container for each in found.found] == ["good"]
    assert [each.field for each in found.problems] == [
        "a_torn/x.cache",
        "b_noise/x.cache.initialized_flag",
        "c_huge/x.cache",
        "d_link/x.cache",
        "e_pipe/x.cache",
        "f_folder/x.cache",
    ]


def test_a_name_that_is_no_text_is_told_as_text(tmp_path: Path) -> None:
    """A container may call its file whatever it likes; the problem goes into a message."""
    (tmp_path / "uid_c").mkdir()
    (tmp_path / "uid_c" / os.fsdecode(b"\xff.cache")).write_bytes(b"x" * 100)
    [problem] = look(tmp_path).problems
    assert problem.field == "uid_c/\\udcff.cache.initialized_flag"
    assert b"udcff" in encode(NodeMetrics(node="n", measured_at=1.0, problems=[problem]))


def test_a_file_that_was_being_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torn = a_region(1)
    torn.procs[0].seqlock = 1
    path = put(tmp_path, "uid_c", "x.cache", content(torn))
    reads: list[int] = []
    pread = os.pread

    def settles(descriptor: int, count: int, offset: int) -> bytes:
        reads.append(count)
        if len(reads) == 2:
            path.write_bytes(content(a_region(1)))
        return pread(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", settles)
    found = look(tmp_path)
    assert not found.problems
    assert found.found[0].region.devices == (GPU_A,)
    assert len(reads) == 2


def test_nothing_is_written(tmp_path: Path) -> None:
    path = put(tmp_path, "uid_c", "x.cache", content(a_region(1)))
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert look(tmp_path).found
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
