"""Which quota a pod belongs to."""

from itertools import permutations

import pytest

from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, QuotaClaim, QuotaMap, parse_namespaces
from berth.testing.vectors import cases

LABEL = "quota.scheduling.koordinator.sh/name"


@pytest.mark.parametrize("case", cases("quota/quota_of_pod"))
def test_reference_cases(case):
    given = case["given"]
    claims = [QuotaClaim(quota["name"], quota["namespace"], tuple(quota["namespaces"])) for quota in given["quotas"]]
    quota_map = QuotaMap(claims, uses_default=not given["disableDefaultQuota"])
    assert quota_map.group_of(given["podLabels"].get(LABEL), given["podNamespace"]) == case["expect"]["quota"]


def test_the_smaller_name_gets_a_namespace_that_two_claim():
    claims = [QuotaClaim("b", "x", ("ns",)), QuotaClaim("a", "y", ("ns", "other")), QuotaClaim("c", "z", ("ns",))]
    for order in permutations(claims):
        assert QuotaMap(order).group_of(None, "ns") == "a"


def test_built_in_groups_are_always_known_and_the_root_never_holds_pods():
    quota_map = QuotaMap([QuotaClaim(ROOT_GROUP, "ns", ("ns",))])
    assert quota_map.group_of(SYSTEM_GROUP, "ns") == SYSTEM_GROUP
    assert quota_map.group_of(ROOT_GROUP, "ns") == DEFAULT_GROUP
    assert quota_map.group_of(None, "ns") == DEFAULT_GROUP
    assert quota_map.group_of("", "ns") == DEFAULT_GROUP


def test_a_map_made_from_published_groups_answers_alike():
    claims = [QuotaClaim("b", "b", ("x", "y")), QuotaClaim("a", "q", ("b", "y"))]
    original = QuotaMap(claims)
    assert {name: original.served_by(name) for name in ("a", "b")} == {"a": ["y"], "b": ["b", "x"]}
    copy = QuotaMap(QuotaClaim(name, "", tuple(original.served_by(name))) for name in ("a", "b"))
    for label in (None, "a", "b", "gone"):
        for namespace in ("b", "x", "y", "z"):
            assert copy.group_of(label, namespace) == original.group_of(label, namespace)


@pytest.mark.parametrize(
    ("annotation", "names", "is_wrong"),
    [
        (None, (), False),
        ("", (), False),
        ('["a","b","a"]', ("a", "b"), False),
        ('["a",""]', ("a",), True),
        ("oops", (), True),
        ('{"a":1}', (), True),
        ("[1]", (), True),
        ("[" * 100_000, (), True),
        (f'["{"n" * 254}"]', (), True),
        (f'["{"n" * 300_000}"]', (), True),
        ("\ud800", (), True),
    ],
)
def test_annotations_are_read_with_care(annotation, names, is_wrong):
    name = "quota.scheduling.koordinator.sh/namespaces"
    found, problem = parse_namespaces({} if annotation is None else {name: annotation})
    assert found == names
    assert bool(problem) is is_wrong
