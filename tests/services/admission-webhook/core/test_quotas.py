from __future__ import annotations

from berth.admission_webhook.core.quotas import PodBook, PodLabels, PodTemplate, PodView, QuotaBook
from berth.contracts import names
from berth.contracts.state import ElasticQuota


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
