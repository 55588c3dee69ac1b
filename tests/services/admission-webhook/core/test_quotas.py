from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.admission_webhook.core.quotas import PodBook, PodLabels, PodTemplate, PodView, QuotaBook
from berth.contracts import names
from berth.contracts.state import ElasticQuota
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP


def quota(name: str, namespace: str = "a", **annotations: str) -> ElasticQuota:
    return ElasticQuota(namespace=namespace, name=name, uid=name, version=1, max={"cpu": 1000}, annotations=annotations)


def pod(namespace: str, cpu: int, label: str = "", phase: str = "Running") -> PodView:
    return PodView(namespace, PodTemplate({"cpu": cpu}, PodLabels(label)), phase)


def test_pods_are_counted_for_the_quota_that_they_belong_to() -> None:
    quotas = QuotaBook(uses_default=True)
    quotas.put(quota("team", **{names.ANNOTATION_QUOTA_NAMESPACES: '["web"]'}))
    pods = PodBook(quotas.map)
    pods.put("1", pod("web", 100))
    pods.put("2", pod("other", 200, "team"))
    pods.put("3", pod("other", 400))
    pods.put("4", pod("web", 800, phase="Failed"))
    assert (pods.count("team"), pods.booked("team")) == (2, {"cpu": 300})
    assert pods.count("koordinator-default-quota") == 1
    pods.put("1", pod("web", 50))
    pods.remove("2")
    assert (pods.count("team"), pods.booked("team")) == (1, {"cpu": 50})
    quotas.remove("a", "team")
    assert pods.count("team") == 0


NAMES = st.sampled_from(("a", "b", ROOT_GROUP, DEFAULT_GROUP))
PODS = st.tuples(st.sampled_from("123"), NAMES, st.just("") | NAMES, st.booleans())


@given(st.booleans(), st.lists(st.tuples(NAMES, NAMES, st.booleans()) | PODS, max_size=12))
def test_each_pod_is_counted_for_the_quota_that_pays_for_it(
    uses_default: bool, steps: list[tuple[object, ...]]
) -> None:
    quotas = QuotaBook(uses_default=uses_default)
    book = PodBook(quotas.map)
    pods: dict[str, tuple[str, str]] = {}
    for step in steps:
        match step:
            case (str(key), str(namespace), str(label), True):
                book.put(key, pod(namespace, 1, label))
                pods[key] = label, namespace
            case (str(key), _, _, False):
                book.remove(key)
                pods.pop(key, None)
            case (str(name), str(served), True):
                quotas.put(quota(name, **{names.ANNOTATION_QUOTA_NAMESPACES: f'["{served}"]'}))
            case (str(name), _, False):
                quotas.remove("a", name)
    for name in ("a", "b", ROOT_GROUP, DEFAULT_GROUP):
        count = sum(quotas.map.group_of(*each) == name for each in pods.values())
        assert (book.count(name), book.booked(name)) == (count, {"cpu": count} if count else {})


def test_of_namesakes_the_first_counts_and_is_told() -> None:
    quotas = QuotaBook(uses_default=True)
    quotas.put(quota("q", "b"))
    quotas.put(quota("q", "a", **{names.ANNOTATION_QUOTA_ADMISSION: '{"cpu": "2"}'}))
    known = quotas.known.get("q")
    assert known is not None
    assert (known.namespace, quotas.namesakes, quotas.limits) == ("a", frozenset({"q"}), {"q": {"cpu": 2000}})
    quotas.remove("a", "q")
    known = quotas.known.get("q")
    assert known is not None
    assert (known.namespace, quotas.namesakes, quotas.limits) == ("b", frozenset(), {})
    quotas.remove("b", "q")
    quotas.remove("b", "q")
    assert quotas.known.get("q") is None
