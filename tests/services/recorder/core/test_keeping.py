"""Which segments stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.recorder.core.keeping import File, is_full, name_of, next_name, number_of, segments, to_delete

OTHER = File("notes.txt", 10)


def test_names_go_on_behind_what_is_there() -> None:
    assert next_name([]) == name_of(1)
    assert next_name([OTHER, File(name_of(9), 1), File(name_of(10), 1)]) == name_of(11)
    assert number_of("berth-1.rec") is None


def test_a_segment_is_not_full_before_it_holds_as_much_again_as_its_checkpoint() -> None:
    assert not is_full(99, 10, 800)
    assert is_full(100, 10, 800)
    assert not is_full(100, 60, 800)


@given(st.lists(st.integers(0, 100), max_size=12), st.integers(0, 500))
def test_the_oldest_go_and_no_more_than_have_to(sizes: list[int], bytes_max: int) -> None:
    files = [File(name_of(number), size) for number, size in enumerate(sizes, 1)]
    gone = to_delete([OTHER, *reversed(files)], bytes_max)
    assert gone == [each.name for each in files[: len(gone)]]
    left = sum(each.size for each in files[len(gone) :])
    assert left <= bytes_max or len(gone) == max(len(files) - 1, 0)
    if gone:
        assert left + files[len(gone) - 1].size > bytes_max
    assert OTHER not in segments([OTHER])
