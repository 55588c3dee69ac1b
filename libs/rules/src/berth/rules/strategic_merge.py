"""Strategic merge patch of the built-in kinds.

Lists of objects with a merge key are merged by it, all others are replaced. The table below is the `patchMergeKey` of
the upstream types; taints and tolerations are not in it because upstream they are atomic. Directives: `$patch`
(replace, delete, merge), `$deleteFromPrimitiveList/<field>`, `$retainKeys`; `$setElementOrder` is accepted and has no
effect on what is merged. Neither side is changed; what the patch does not name is shared with the target.
"""

from typing import Any

Json = dict[str, Any]


class PatchError(ValueError):
    """The patch cannot be applied. The message is that of the API server."""


MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "addresses": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "secrets": ("name",),
    "ownerReferences": ("uid",),
}
_SETS = frozenset({"finalizers", "podCIDRs"})


def strategic_merge(target: Any, patch: Any) -> Any:
    """The target with the patch merged in, as a new object. Raises PatchError."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(f"unable to apply patch: unknown $patch type: {directive}")
    result: Json = dict(target) if isinstance(target, dict) else {}
    retain = patch.get("$retainKeys")
    if isinstance(retain, list):
        result = {key: value for key, value in result.items() if key in retain}
    for key, value in patch.items():
        _merge_field(result, key, value)
    return result


def _merge_field(result: Json, key: str, value: Any) -> None:
    if key.startswith("$"):
        field = key.partition("/")[2]
        if key.startswith("$deleteFromPrimitiveList/") and isinstance(value, list):
            result[field] = [item for item in result.get(field) or () if item not in value]
    elif value is None:
        result.pop(key, None)
    elif isinstance(value, list):
        result[key] = _merge_list(key, result.get(key), value)
    elif isinstance(value, dict):
        result[key] = strategic_merge(result.get(key), value)
    else:
        result[key] = value


def _merge_list(field: str, old: Any, patch: list[Any]) -> list[Any]:
    old = old if isinstance(old, list) else []
    if field in _SETS:
        return [*old, *(item for item in patch if item not in old)]
    keys = MERGE_KEYS.get(field)
    if keys is None or not all(isinstance(item, dict) for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and item.get("$patch") == "replace")]
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    return _merge_by_key(field, keys, old, patch)


def _merge_by_key(field: str, keys: tuple[str, ...], old: list[Any], patch: list[Json]) -> list[Any]:
    result = list(old)
    for item in patch:
        key = next((name for name in keys if name in item), None)
        if key is None:
            raise PatchError(
                f"unable to apply patch: map: {item} does not contain declared merge key: {keys[0]} ({field})"
            )
        place = next(
            (i for i, each in enumerate(result) if isinstance(each, dict) and each.get(key) == item[key]), None
        )
        if item.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(strategic_merge({}, item))
        else:
            result[place] = strategic_merge(result[place], item)
    return result
