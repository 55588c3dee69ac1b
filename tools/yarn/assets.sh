#!/usr/bin/env bash
# Gets what `make e2e-yarn` runs: the jars of Hadoop YARN, by Maven, as Maven is set up on this machine (90 MB, once).
# Prints their folder on the last line of standard output; progress goes to standard error.
#
#   assets.sh            get what is missing
#   assets.sh --print    the folder if everything is there, else exit status 3 and what is missing: downloads nothing
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
readonly CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/berth/yarn"
readonly JAVA_LEAST=17

say() { echo "e2e-yarn: $*" >&2; }

# One folder for each state of the pom.
folder="$CACHE/$(sha256sum "$here/pom.xml" | cut -c1-12)"

if ! command -v java >/dev/null; then
  say "needs java $JAVA_LEAST or newer"
  exit 3
fi
version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
if [[ ${version:-0} -lt $JAVA_LEAST ]]; then
  say "needs java $JAVA_LEAST or newer, this is ${version:-of no known version}"
  exit 3
fi
if [[ -d $folder ]]; then
  echo "$folder"
  exit 0
fi
if [[ ${1:-} == --print ]]; then
  say "the jars of YARN are not here: tools/yarn/assets.sh gets them"
  exit 3
fi
if ! command -v mvn >/dev/null; then
  say "needs mvn (Maven)"
  exit 3
fi
say "getting YARN with its dependencies"
mkdir -p "$CACHE"
work=$(mktemp -d -p "$CACHE")
trap 'rm -rf "$work"' EXIT
if ! mvn -B -q -C -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/jars" >&2; then
  say "Maven did not get the jars"
  exit 3
fi
mv "$work/jars" "$folder"
echo "$folder"
