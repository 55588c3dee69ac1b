#!/usr/bin/env bash
# Fills the folder of Kubernetes binaries that the tests against a real API server use, and prints it on the last line
# of standard output (progress goes to standard error). The first way that works is taken, and named:
#   1. KUBEBUILDER_ASSETS is set and has what is asked for;
#   2. setup-envtest is on PATH: it downloads the folder (API server, etcd and kubectl only);
#   3. Go: the modules below modules/ are built, once per version, outside the checkout.
#
#   assets.sh            kube-apiserver, etcd, kubectl
#   assets.sh --all      and scheduler, controller-manager, kubelet, kube-proxy, CoreDNS, containerd, pause
#   assets.sh --print    the folder if it is filled already, else exit status 3: builds and downloads nothing
#   assets.sh NAME...    just these binaries
set -euo pipefail

readonly KUBE=v1.34.10
readonly KUBE_SERIES=1.34
readonly MODULES="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/modules"
readonly CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/berth/kube/$KUBE/bin"
readonly MINIMUM_GO=24
readonly BASE=(kube-apiserver etcd kubectl)
readonly NODE=(kube-scheduler kube-controller-manager kubelet kube-proxy coredns containerd containerd-shim-runc-v2 ctr
  pause)

say() { echo "e2e-assets: $*" >&2; }

has_all() {
  local folder=$1 name
  shift
  for name in "$@"; do [[ -x $folder/$name ]] || return 1; done
}

# Where a binary's main package is: the module's folder, then the package.
source_of() {
  case $1 in
    kube-* | kubelet | kubectl) echo "kubernetes k8s.io/kubernetes/cmd/$1" ;;
    etcd) echo "etcd go.etcd.io/etcd/server/v3" ;;
    coredns) echo "coredns github.com/coredns/coredns" ;;
    containerd | containerd-shim-runc-v2 | ctr) echo "containerd github.com/containerd/containerd/v2/cmd/$1" ;;
    pause) echo "pause ." ;;
    *)
      say "no such binary: $1"
      exit 2
      ;;
  esac
}

# Kubernetes takes its version from the linker; without it the server calls itself v0.0.0 and kubelet refuses it.
linker_flags() {
  local package flags="-s -w"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$KUBE -X $package.gitMajor=1 -X $package.gitMinor=34 -X $package.gitTreeState=clean"
  done
  case $1 in
    containerd*) flags+=" -X github.com/containerd/containerd/v2/version.Version=v2.1.4" ;;
    coredns) flags+=" -X github.com/coredns/coredns/coremain.GitCommit=release" ;;
  esac
  echo "$flags"
}

go_is_new_enough() {
  command -v go >/dev/null || return 1
  local version
  version=$(GOTOOLCHAIN=local go env GOVERSION)
  version=${version#go1.}
  ((${version%%[.a-z]*} >= MINIMUM_GO))
}

# kubectl works within one minor version of its server; one that the machine has already need not be built.
link_kubectl() {
  local own minor
  own=$(command -v kubectl) || return 1
  minor=$("$own" version --client 2>/dev/null | sed -n 's/^Client Version: v1\.\([0-9]*\).*/\1/p')
  [[ $minor =~ ^(33|34|35)$ ]] || return 1
  say "kubectl 1.$minor from PATH"
  ln -sf "$own" "$CACHE/kubectl"
}

build() {
  local name=$1 module package began=$SECONDS
  [[ -x $CACHE/$name ]] && return
  [[ $name == kubectl ]] && link_kubectl && return
  read -r module package <<<"$(source_of "$name")"
  say "building $name"
  (cd "$MODULES/$module" && CGO_ENABLED=0 GOWORK=off nice -n "${NICE:-0}" \
    go build -trimpath -buildvcs=false -mod=readonly -ldflags "$(linker_flags "$name")" -o "$CACHE/.$name.$$" "$package") >&2
  mv "$CACHE/.$name.$$" "$CACHE/$name"
  say "built $name in $((SECONDS - began)) s"
}

# Prints the folder that setup-envtest keeps; downloads it unless this is only a question.
from_envtest() {
  local asked=$1 version folder
  command -v setup-envtest >/dev/null || return 1
  for version in "${KUBE#v}" "${KUBE_SERIES}.x"; do
    folder=$(setup-envtest use ${asked:+-i} -p path "$version" 2>/dev/null) || continue
    has_all "$folder" "${BASE[@]}" || continue
    say "taken from setup-envtest"
    echo "$folder"
    return
  done
  say "setup-envtest could not fill the folder"
  return 1
}

main() {
  local wanted=() print="" name
  for name in "$@"; do
    case $name in
      --all) wanted=("${BASE[@]}" "${NODE[@]}") ;;
      --print) print=1 ;;
      *) wanted+=("$name") ;;
    esac
  done
  ((${#wanted[@]})) || wanted=("${BASE[@]}")

  # Ours, and built in a second: one of an older source does not count.
  [[ -n $print || ! -e $CACHE/pause || -z $(find "$MODULES/pause" -newer "$CACHE/pause") ]] || rm -f "$CACHE/pause"
  if [[ -n ${KUBEBUILDER_ASSETS:-} ]] && has_all "$KUBEBUILDER_ASSETS" "${wanted[@]}"; then
    say "taken from KUBEBUILDER_ASSETS"
    echo "$KUBEBUILDER_ASSETS"
    return
  fi
  if has_all "$CACHE" "${wanted[@]}"; then
    say "already built"
    echo "$CACHE"
    return
  fi
  if [[ "${wanted[*]}" == "${BASE[*]}" ]] && from_envtest "$print"; then return; fi
  [[ -z $print ]] || return 3

  if ! go_is_new_enough; then
    say "cannot fill the folder: KUBEBUILDER_ASSETS is not set to a folder with ${wanted[*]}, setup-envtest is not on PATH" \
      "or failed, and there is no Go >= 1.$MINIMUM_GO to build from modules. Install one of them."
    return 1
  fi
  say "building from Go modules into $CACHE (the first time takes minutes and 6 GB of Go caches)"
  mkdir -p "$CACHE"
  exec 9>"$CACHE/.lock"
  flock 9
  rm -f "$CACHE"/.*."[0-9]"*
  for name in "${wanted[@]}"; do build "$name"; done
  echo "$CACHE"
}

# On one line: whoever changes this file while it runs changes nothing for that run.
main "$@"; exit
