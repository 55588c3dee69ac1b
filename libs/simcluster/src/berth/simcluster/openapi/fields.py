"""`?fieldValidation=Strict`, which kubectl asks for: a field that nobody knows is a mistake."""

from berth.simcluster.openapi.schemas import OBJECT_META, REFERENCE, name_of, schemas, unknown_fields
from berth.simcluster.store.bodies import Path, parse
from berth.simcluster.store.objects import EMPTY, Json, section
from berth.simcluster.store.resource import CRDS, EVENTS_V1_GROUP, ResourceType
from berth.simcluster.store.state import State
from berth.simcluster.store.status import bad_request, bad_value, invalid


def check_fields(state: State, path: Path, body: bytes, verb: str) -> None:
    """Raise 400 for a body, 422 for a patch, with fields that its kind does not have."""
    found = state.find(path.group, path.version, path.plural)
    data = parse(body)
    if found is None or not isinstance(data, dict) or path.group == EVENTS_V1_GROUP:
        return
    unknown = unknown_fields(data, schema_of(state, found.resource, path.version))
    if not unknown:
        return
    text = "strict decoding error: " + ", ".join(f'unknown field "{field}"' for field in unknown)
    if verb == "patch":
        raise invalid("", "", "", [bad_value("patch", "", text)])
    kind = found.resource.kind
    raise bad_request(f'{kind} in version "{path.version}" cannot be handled as a {kind}: {text}')


def schema_of(state: State, resource: ResourceType, version: str) -> Json:
    """The schema of a kind, built in or of a definition; its `metadata` is that of every object."""
    if not resource.custom:
        return schemas().get(name_of(resource.group, resource.version, resource.kind), EMPTY)
    definition = state.of(CRDS).items.get(f"{resource.plural}.{resource.group}")
    versions = section(definition.data, "spec").get("versions", ()) if definition else ()
    for each in versions:
        if each.get("name") == version:
            spec = section(section(each, "schema"), "openAPIV3Schema")
            common = {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"allOf": [{"$ref": REFERENCE + OBJECT_META}]},
            }
            return {**spec, "type": "object", "properties": {**section(spec, "properties"), **common}}
    return EMPTY
