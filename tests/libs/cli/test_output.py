from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from berth.cli.output import WIDTH_MAX, columns, fitted, is_live, wrapped

text = st.text(max_size=400)


@given(text)
def test_a_fitted_line_is_one_printable_line_within_the_width(line: str) -> None:
    found = fitted(line)
    assert len(found) <= WIDTH_MAX
    assert found.isprintable()


@given(text, st.integers(0, 40))
def test_wrapped_lines_are_indented_bounded_and_few(line: str, indent: int) -> None:
    lines = wrapped(line, indent=" " * indent, lines_max=4)
    assert 1 <= len(lines) <= 4
    for each in lines:
        assert each.startswith(" " * indent)
        assert each.isprintable()


def test_a_text_that_is_cut_says_so() -> None:
    lines = wrapped("word " * 200, indent="  ", lines_max=2)
    assert len(lines) == 2
    assert lines[-1].endswith("…")


def test_columns_are_aligned() -> None:
    assert columns([("a", "1"), ("bbb", "22")], indent=" ", right=(1,)) == [" a     1", " bbb  22"]
    assert columns([]) == []


def test_one_long_name_pushes_no_column_out_of_sight() -> None:
    assert columns([("a", "1"), ("b" * 253, "22")]) == ["a  1", "b" * 253 + "  22"]


def test_a_pipe_is_not_live() -> None:
    assert not is_live(io.StringIO())
