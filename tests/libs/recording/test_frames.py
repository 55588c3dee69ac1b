"""Segments as bytes: what was written is read, and a broken end is left out and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.contracts.round import Ground
from berth.recording.frames import BLOCK_BYTES, MARK, Frames, frame, framed, sound
from berth.recording.records import AnyRecord, Began, Ended, Entered, Missed, Told, Whole

RECORDS: list[AnyRecord] = [
    Began("run", 1.5, {"berth_state": "2026"}),
    Told(Ground(id="g", nodes="x")),
    Entered("berth_state", 7, "pod.a.b", b"{}", True, 2.5, "00-1-2-01"),
    Whole(),
    Missed("berth_state", 8, 9),
    Ended("berth_state", 10),
]
ENTERED = st.builds(Entered, st.just("berth_state"), st.integers(0, 2**40), st.text(max_size=5), st.binary(max_size=50))


def of(data: bytes) -> list[AnyRecord]:
    return [record for block in Frames(data) for record in block]


def test_every_kind_of_record_comes_back() -> None:
    assert of(MARK + frame(RECORDS)) == RECORDS


def test_large_values_make_frames_of_their_own() -> None:
    values: list[AnyRecord] = [Entered("b", at, "k", bytes(BLOCK_BYTES)) for at in range(3)]
    assert len(list(framed(values))) == 3


@given(st.lists(st.lists(ENTERED, min_size=1, max_size=4), max_size=4), st.data())
def test_whatever_is_cut_off_or_flipped_the_sound_frames_before_it_stay(
    blocks: list[list[AnyRecord]], data: st.DataObject
) -> None:
    frames = [frame(block) for block in blocks]
    whole = MARK + b"".join(frames)
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        broken = whole[:at]
    else:
        broken = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    ends, place = [], len(MARK)
    for each in frames:
        place += len(each)
        ends.append(place)
    expected = [block for block, end in zip(blocks, ends, strict=True) if end <= at] if at >= len(MARK) else []
    assert of(broken) == [record for block in expected for record in block]
    assert sound(broken) == ((len(MARK) + sum(map(len, frames[: len(expected)]))) if at >= len(MARK) else 0)


@pytest.mark.parametrize("data", [b"", b"berth", b"something else entirely"])
def test_what_is_no_segment_has_nothing_sound(data: bytes) -> None:
    assert (of(data), sound(data)) == ([], 0)
