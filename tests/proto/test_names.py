"""Labels, annotations and resource names: each once, each with a sentence, each legal and where it belongs."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from berth.contracts import names

ROOT = Path(__file__).parents[2]
CONSTANTS: dict[str, str] = {
    name: value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
}
PREFIXES = {name: value for name, value in CONSTANTS.items() if name.endswith("_PREFIX")}
FULL = {name: value for name, value in CONSTANTS.items() if name not in PREFIXES}
METADATA = {name: value for name, value in FULL.items() if name.startswith(("LABEL_", "ANNOTATION_"))}
RESOURCES = {
    name: value
    for name, value in FULL.items()
    if name not in METADATA and name not in ("SCHEDULER_NAME", "WEBHOOKS", "SLO_CONFIG_MAP_TYPE")
}
OWN = "scheduling.berth.sh/"
DOMAINS = (
    "berth.sh",
    "koordinator.sh",
    "sigs.k8s.io",
    "kubernetes.io",
    "nvidia.com",
    "amd.com",
    "dcu.com",
    "huawei.com",
    "hadoop.apache.org",
)
QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
"""A qualified name of Kubernetes."""
OF_THE_PROTOCOL_ONLY = {
    "ANNOTATION_QUOTA_UNSCHEDULABLE",
    "ANNOTATION_RESOURCE_STATUS",
}
"""Names that users of the protocol write and that nothing of Berth reads yet. This list may only become shorter."""

FIELDS_OF_STATE = {
    *("ANNOTATION_BIND_COMPLETED", "ANNOTATION_SELECTED_NODE"),
    *("ANNOTATION_STORAGE_CLASS", "ANNOTATION_MIGRATED_PLUGINS"),
    "ANNOTATION_MIRROR",
}
"""Annotations that the watcher turns into fields of their own instead of carrying them."""

ONLY_WRITTEN = {"ANNOTATION_BOUND_BY_CONTROLLER"}
"""Annotations of others' objects that cluster-writer sets and nothing of Berth reads."""


def sentences() -> dict[str, str]:
    """The text below each assignment."""
    body = ast.parse(inspect.getsource(names)).body
    found: dict[str, str] = {}
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Assign):
            (target,) = statement.targets
            assert isinstance(target, ast.Name)
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            found[target.id] = str(following.value.value) if is_text else ""  # type: ignore[union-attr]
    return found


def test_every_constant_has_a_sentence() -> None:
    found = sentences()
    assert found.keys() == {name for name in vars(names) if name.isupper()}
    assert [name for name, text in found.items() if not text.rstrip().endswith(".")] == []


def test_no_value_stands_twice() -> None:
    assert len(CONSTANTS) == len(set(CONSTANTS.values()))


@pytest.mark.parametrize(("name", "value"), sorted(FULL.items()))
def test_a_value_is_a_qualified_name_of_a_known_domain(name: str, value: str) -> None:
    assert QUALIFIED.fullmatch(value)
    prefix, slash, _ = value.partition("/")
    if slash or name in METADATA:
        assert any(prefix == domain or prefix.endswith("." + domain) for domain in DOMAINS)


@pytest.mark.parametrize(("name", "value"), sorted(PREFIXES.items()))
def test_a_prefix_ends_where_a_name_begins_and_is_used(name: str, value: str) -> None:
    assert value.endswith("/")
    assert any(full.startswith(value) for full in FULL.values()), name


@pytest.mark.parametrize(("name", "value"), sorted(METADATA.items()))
def test_the_watcher_carries_every_annotation_and_nothing_else_is_named_so(name: str, value: str) -> None:
    if name.startswith("ANNOTATION_"):
        assert value.startswith(names.READ_PREFIXES) == (name not in FIELDS_OF_STATE | ONLY_WRITTEN)


def test_names_say_what_they_name() -> None:
    own = {name for name, value in FULL.items() if value.startswith(OWN)}
    assert own == {
        "ANNOTATION_ATTEMPT",
        "ANNOTATION_PLAN",
        "ANNOTATION_PROFILES",
        "ANNOTATION_EPOCH",
        "ANNOTATION_QUOTA",
        "ANNOTATION_QUOTA_STATE",
        "ANNOTATION_QUOTA_SURCHARGE",
        "LABEL_QUOTA_GUARANTEE",
        "LABEL_QUOTA_FIXED_MIN",
        "ANNOTATION_BORROWED",
        "ANNOTATION_NOMINATED",
        "ANNOTATION_DISPLACED",
        "ANNOTATION_EVICTED_FOR",
        "ANNOTATION_NODE_EVICTION",
        "ANNOTATION_LET_GO",
        "ANNOTATION_REFUSED",
        "ANNOTATION_REVISION",
        "ANNOTATION_WINDOW",
        "ANNOTATION_CONTAINER_DEVICES",
        "ANNOTATION_GPU_SPLIT",
        "ANNOTATION_REPORT",
        "LABEL_GPU_ISOLATION_BY",
        "ANNOTATION_DEVICE_CORDON",
        "ANNOTATION_KUBELET_CARDS",
    }
    assert all("GANG" in name for name, value in METADATA.items() if value.startswith(names.GANG_PREFIX))
    assert all("QUOTA" in name for name, value in METADATA.items() if value.startswith(names.QUOTA_PREFIX))
    assert all("RESERV" in name for name, value in METADATA.items() if "/reserv" in value)


def test_resources_of_the_kubelet_have_no_prefix() -> None:
    plain = {value for value in RESOURCES.values() if "/" not in value}
    assert plain == {"cpu", "memory", "pods", "ephemeral-storage"}


def test_read_prefixes_are_all_needed() -> None:
    for prefix in names.READ_PREFIXES:
        others = [other for other in names.READ_PREFIXES if other != prefix]
        assert not any(prefix.startswith(other) for other in others)


def test_every_constant_is_used() -> None:
    used: set[str] = set()
    for folder in ("libs", "services"):
        for path in (ROOT / folder).glob("*/src/**/*.py"):
            used |= set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", path.read_text()))
    assert set(FULL) - used <= OF_THE_PROTOCOL_ONLY


def test_no_name_of_the_protocol_is_spelled_out_elsewhere() -> None:
    """Whoever writes a name by hand does not follow when it is corrected here. The simulated world is no reader."""
    values = "|".join(map(re.escape, sorted(METADATA.values(), key=len, reverse=True)))
    quoted = re.compile(rf"[\"'](?:{values})[\"']")
    found = []
    for folder in ("libs", "services"):
        for path in (ROOT / folder).glob("*/src/**/*.py"):
            if "simcluster" not in path.parts:
                found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in quoted.finditer(path.read_text())]
    assert found == []
