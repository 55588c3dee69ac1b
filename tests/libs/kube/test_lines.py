import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.lines import LineSplitter, LineTooLongError


@given(
    lines=st.lists(st.binary(min_size=1, max_size=30).filter(lambda b: b"\n" not in b and not b.isspace())),
    data=st.data(),
)
def test_however_a_stream_is_cut_the_lines_are_the_same(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    edges = [0, *cuts, len(stream)]
    splitter = LineSplitter(100)
    got = [line for a, b in itertools.pairwise(edges) for line in splitter.feed(stream[a:b])]
    assert got == lines


def test_a_line_without_its_end_is_kept_back() -> None:
    splitter = LineSplitter(100)
    assert splitter.feed(b'{"a"') == []
    assert splitter.feed(b":1}") == []
    assert splitter.feed(b"\n\n  \nnext") == [b'{"a":1}']


@pytest.mark.parametrize(
    "chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x" * 11 + b"\n"], [b"x" * 6, b"x" * 5 + b"\n"]]
)
def test_a_line_that_is_too_long_is_an_error_even_before_its_end(chunks: list[bytes]) -> None:
    splitter = LineSplitter(10)
    *before, last = chunks
    assert [splitter.feed(chunk) for chunk in before] == [[] for _ in before]
    with pytest.raises(LineTooLongError):
        splitter.feed(last)


def test_the_longest_allowed_line_passes() -> None:
    assert LineSplitter(10).feed(b"x" * 10 + b"\n") == [b"x" * 10]
