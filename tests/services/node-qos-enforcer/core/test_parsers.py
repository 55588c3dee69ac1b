"""No text makes a parser do anything but answer or say Malformed."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.node_qos_enforcer.core import cgroup_files, cgroup_paths, proc
from berth.node_qos_enforcer.core.cpuset import parse_cpuset
from berth.node_qos_enforcer.core.malformed import Malformed
from berth.node_qos_enforcer.core.pressure import parse_pressure

PARSERS = [
    proc.parse_cpu_ticks,
    proc.parse_meminfo,
    proc.parse_key_values,
    parse_pressure,
    parse_cpuset,
    cgroup_files.parse_bandwidth,
    lambda text: cgroup_files.parse_bandwidth_v1(text, text),
    *(
        (lambda text, parse=parse, version=version: parse(text, version))
        for parse in (
            cgroup_files.parse_cpu_usage_ns,
            cgroup_files.parse_memory_stat,
        )
        for version in (1, 2)
    ),
]
WORDS = [
    "cpu",
    "cpu0",
    "some",
    "full",
    "avg10=1",
    "avg60=nan",
    "total=-1",
    "MemTotal:",
    "kB",
    "usage_usec",
    "N0=1",
    "max",
    "1",
    "-1",
    "(",
    ")",
    "S",
    "-",
    "yes",
    "²",
    "\x00",
    "99999999999999999999999",
    "total",
    "anon",
    "file",
    "0:0:0:0",
    "0-3",
    "nr_periods",
    "total_rss",
]
words = st.sampled_from(WORDS)
texts = st.one_of(st.text(max_size=80), st.lists(words, max_size=24).map(" ".join), st.lists(words).map("\n".join))


@pytest.mark.parametrize("parse", PARSERS)
@settings(max_examples=40)
@given(text=texts)
def test_any_text_is_parsed_or_refused(parse, text):
    with contextlib.suppress(Malformed):
        parse(text)


def test_ticks_leave_out_waiting_and_stolen_time():
    text = "cpu  1 2 4 1000 2000 8 16 4000 0 0\ncpu0 1 2 4 0 0 8 16 0\ncpu7 1 0 0 0 0 0 0 0\n"
    assert proc.parse_cpu_ticks(text) == 31


def test_meminfo_of_a_numa_node_has_the_same_form():
    text = "Node 0 MemTotal: 100 kB\nNode 0 MemFree: 40 kB\nNode 0 MemAvailable: 50 kB\n"
    assert proc.parse_meminfo(text) == (102_400, 40_960, 51_200)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MemTotal: 1 kB\nMemFree: 1 kB\n", "MemAvailable is missing"),
        ("MemTotal: -1 kB\nMemFree: 1 kB\n", "MemTotal is not a number"),
        ("MemTotal: 1 MB\n", "MemTotal is not a number of kB"),
        ("MemTotal: 1 kB\nMemFree: 2 kB\nMemAvailable: 1 kB\n", "more memory free"),
    ],
)
def test_meminfo_refusals_name_the_key(text, words):
    with pytest.raises(Malformed, match=words):
        proc.parse_meminfo(text)


def test_pressure_without_full_is_told_apart_from_no_pressure():
    assert parse_pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n").full is None


@pytest.mark.parametrize("qos", cgroup_paths.KUBE_QOS)
@given(uid=st.uuids().map(str))
def test_a_uid_survives_its_directory(qos, uid):
    prefix = "" if qos == "Guaranteed" else f"{qos.lower()}-"
    assert cgroup_paths.pod_uid_of("systemd", f"kubepods-{prefix}pod{uid.replace('-', '_')}.slice") == uid
    assert cgroup_paths.pod_uid_of("cgroupfs", f"pod{uid}") == uid


@pytest.mark.parametrize("name", ["pod", "pod..%2f", "podé", "pod" + "x" * 200, "other"])
def test_other_names_are_no_pods(name):
    assert cgroup_paths.pod_uid_of("cgroupfs", name) is None


@pytest.mark.parametrize("text", ["a 1\nb 2\na 3\n", "aa 4\na 1 2\n", "b a\n", "a\nb 1", "a  7\n", "a 5", "", "x\na 9"])
@pytest.mark.parametrize("key", ["a", "b", "aa"])
def test_one_value_is_that_of_all_values(text, key):
    assert proc.value_of(text, key) == proc.parse_key_values(text).get(key)


@pytest.mark.parametrize("version", [1, 2])
def test_memory_in_use_is_part_of_all_of_it(version):
    prefix = "total_" if version == 1 else ""
    names = ("cache", "rss") if version == 1 else ("file", "anon")
    others = ("inactive_file", "active_file", "inactive_anon", "active_anon", "unevictable")
    text = "".join(f"{prefix}{name} {1 << at}\n" for at, name in enumerate((*names, *others)))
    whole = cgroup_files.parse_memory_stat(text, version)
    assert cgroup_files.parse_memory_in_use(text, version) == whole.usage_without_page_cache == 112
