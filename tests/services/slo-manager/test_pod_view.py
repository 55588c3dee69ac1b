"""What agents are told of their pods, from pods and their namespaces."""

from berth.bus.port import Entry
from berth.contracts import state
from berth.contracts.codec import encode
from berth.contracts.names import LABEL_LOW_OOM_SCORES
from berth.slo_manager.views import PodView


def entry(key, message=None):
    return Entry(
        key=key,
        value=b"" if message is None else encode(message),
        deleted=message is None,
        sequence=1,
        pending=0,
        gap=False,
        traceparent="",
    )


def test_a_namespace_lets_its_pods_have_others_die_before_them():
    marked = []
    view = PodView(lambda node: None, lambda: marked.append(True))
    for name in ("a", "b"):
        pod = state.Pod(namespace=name, name="p", uid=f"u-{name}", version=1, node="n", phase="Running")
        view.apply(entry(f"pod.{name}.p", pod))
    view.apply(entry("synced.pods", state.Synced(kind="pods", version=1, complete=True)))
    view.end(1)
    marked.clear()

    def lenient():
        return {uid for uid, each in view.tenants("n").items() if each.pod.low_oom_scores}

    assert lenient() == set()
    allowed = state.Namespace(name="a", version=1, labels={LABEL_LOW_OOM_SCORES: "true"})
    view.apply(entry("namespace.a", allowed))
    view.apply(entry("namespace.b", state.Namespace(name="b", version=1, labels={LABEL_LOW_OOM_SCORES: "yes"})))
    assert (lenient(), marked) == ({"u-a"}, [True])
    view.apply(entry("namespace.a"))
    assert (lenient(), len(marked)) == (set(), 2)


def test_folders_of_volumes_are_those_of_bound_claims_whatever_comes_first():
    marked = []
    view = PodView(marked.append, lambda: None)
    volumes = {"data": "a-data", "cache": "p-cache", "inline": ""}
    pod = state.Pod(namespace="a", name="p", uid="u", version=1, node="n", phase="Running", limited_volumes=volumes)

    def folders():
        return view.tenants("n")["u"].pod.volumes

    def claim(name, volume=""):
        return state.PersistentVolumeClaim(namespace="a", name=name, uid="c", version=1, volume=volume)

    view.apply(entry("persistentvolumeclaim.a.a-data", claim("a-data", "pv-1")))
    view.apply(entry("pod.a.p", pod))
    assert folders() == {"data": "pv-1", "inline": "inline"}
    marked.clear()
    view.apply(entry("persistentvolumeclaim.a.p-cache", claim("p-cache")))
    view.apply(entry("persistentvolumeclaim.b.p-cache", claim("p-cache", "pv-9")))
    assert marked == []
    view.apply(entry("persistentvolumeclaim.a.p-cache", claim("p-cache", "pv-2")))
    assert marked == ["n"]
    assert folders() == {"data": "pv-1", "cache": "pv-2", "inline": "inline"}
    view.apply(entry("persistentvolumeclaim.a.a-data"))
    assert folders() == {"cache": "pv-2", "inline": "inline"}
    view.apply(entry("pod.a.p"))
    marked.clear()
    view.apply(entry("persistentvolumeclaim.a.p-cache"))
    assert marked == []
