"""`berth submit` and `berth delete`: objects of one's own into a cluster and out of it, without kubectl."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from berth.cli.cluster.rights import Need, granting, refused, user_of
from berth.cli.cluster.target import Target
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.manifests import Item, named, read
from berth.cli.program import program
from berth.cli.runfile import chosen
from berth.kube import Kube
from berth.kube.answer import Answer

FORBIDDEN = 403
VERBS = "create,delete,get"


async def submit(files: list[Path], *, namespace: str | None, target: Target | None, run: str) -> int:
    """Create every object of the files; EXIT_BAD when one is refused."""
    items = [item for file in files for item in read(file, namespace)]
    if not items:
        raise CliError("name a file with -f, or - for standard input")
    where, shown = _where(target, run)
    pods: list[Item] = []
    code = EXIT_OK
    async with where.client() as kube:
        print(f"asking {shown}", file=sys.stderr)
        for item in items:
            answer = await kube.create(item.resource, item.namespace, item.manifest, field_manager="berth")
            if not answer.ok:
                code = await _refused(kube, item, "create", answer)
                continue
            made = item._replace(name=_name_of(answer, item.name))
            print(f"{made.shown} created")
            pods += [made] if item.kind == "Pod" else []
    for pod in pods[:1]:
        print(f"where is it?  {program()} why {pod.namespace}/{pod.name}", file=sys.stderr)
    return code


async def delete(about: list[str], files: list[Path], *, namespace: str | None, target: Target | None, run: str) -> int:
    """Delete objects by name, and every object of the files; EXIT_BAD when one is not there or refused."""
    items = [named(each, namespace) for each in about]
    items += [item for file in files for item in reversed(read(file, namespace))]
    if not items:
        raise CliError("name a pod, a KIND/NAME, or a file with -f")
    where, shown = _where(target, run)
    code = EXIT_OK
    async with where.client() as kube:
        print(f"asking {shown}", file=sys.stderr)
        for item in items:
            code = max(code, await _delete(kube, item))
    return code


async def _delete(kube: Kube, item: Item) -> int:
    answer = await kube.delete(item.resource, item.namespace, item.name)
    if not answer.ok:
        return await _refused(kube, item, "delete", answer)
    print(f"{item.shown} deleted")
    return EXIT_OK


async def _refused(kube: Kube, item: Item, verb: str, answer: Answer) -> int:
    print(f"{item.shown}: {answer.status or 'no answer'} {answer.message}", file=sys.stderr)
    need = Need(item.resource.group, item.resource.plural, verb, item.namespace)
    if answer.status == FORBIDDEN and await refused(kube, [need]):  # and not an admission policy's word
        commands = granting(await user_of(kube), item.resource, item.namespace, VERBS)
        print("an administrator of that cluster grants it by", *commands, sep="\n  ", file=sys.stderr)
    return EXIT_BAD


def _where(target: Target | None, number: str) -> tuple[Target, str]:
    """The cluster that was named, or that of a run of this machine; and its name for people. Raises CliError."""
    if target is not None:
        return target, target.shown
    run = chosen(number)
    if run is None:
        raise CliError(
            f"nothing is running here: start it with `{program()} up`, "
            "or name a cluster with --kubeconfig or --kube-url"
        )
    own = Target(url=run.kube_url, kubeconfig=run.kubeconfig, context=run.context)
    return own, f"berth {run.command}, run {run.pid}, Kubernetes API {own.shown}"


def _name_of(answer: Answer, name: str) -> str:
    """The name that the server gave, where it was left to it."""
    try:
        return str(msgspec.json.decode(answer.body)["metadata"]["name"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return name
