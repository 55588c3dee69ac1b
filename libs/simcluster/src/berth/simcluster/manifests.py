"""Manifests in and out: JSON objects, Lists, and files with one object a line."""

from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath

import msgspec

from berth.simcluster.store import Path, Store
from berth.simcluster.store.objects import Json, decode, encode, section


def path_of(store: Store, manifest: Json) -> Path:
    """Where a manifest is created. Raises ValueError if nothing serves its kind."""
    version, kind = str(manifest.get("apiVersion", "")), manifest.get("kind")
    group, _, name = version.rpartition("/")
    for collection in store.state.collections.values():
        resource = collection.resource
        if resource.kind == kind and resource.group == group and name in resource.versions():
            namespace = section(manifest, "metadata").get("namespace") or "default"
            return Path(group, name, resource.plural, namespace if resource.namespaced else "")
    raise ValueError(f"no resource for apiVersion {version!r}, kind {kind!r}")


def load(store: Store, manifests: Iterable[Json]) -> int:
    """Create objects, with the namespaces they need.

    Returns how many. Raises ValueError naming the first one refused.
    """
    count = 0
    for manifest in manifests:
        path = path_of(store, manifest)
        if path.namespace:
            home = Path("", "v1", "namespaces")
            if store.get(home._replace(name=path.namespace)).status == 404:
                store.create(home, {"metadata": {"name": path.namespace}})
        reply = store.create(path, manifest)
        if reply.status >= 400:
            name = section(manifest, "metadata").get("name", "")
            raise ValueError(f"{manifest.get('kind')} {name!r}: {decode(reply.body)['message']}")
        count += 1
    return count


def read_manifests(file: FilePath) -> Iterator[Json]:
    """The objects in a JSON file.

    One object, a List, an array, or one object a line. Raises ValueError naming file and line.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from error
    try:
        yield from _flat(decode(data), str(file))
        return
    except msgspec.DecodeError:
        pass  # several documents: one a line
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield from _flat(decode(line), f"{file}:{number}")
            except msgspec.DecodeError as error:
                raise ValueError(f"{file}:{number}: {error}") from error


def _flat(document: object, where: str) -> Iterator[Json]:
    if isinstance(document, list):
        for item in document:
            yield from _flat(item, where)
    elif not isinstance(document, dict):
        raise ValueError(f"{where}: an object was expected")
    elif isinstance(document.get("items"), list):
        yield from _flat(document["items"], where)
    else:
        yield document


def write_manifests(file: FilePath, manifests: Iterable[Json]) -> int:
    """One object a line; returns how many."""
    count = 0
    with file.open("wb") as out:
        for manifest in manifests:
            out.write(encode(manifest) + b"\n")
            count += 1
    return count
