#!/usr/bin/env bash
# Gets what `make e2e-kernel` boots: Debian's kernel with its modules, and qemu. Prints the kernel's folder on the last
# line of standard output (progress goes to standard error). As root on Debian; packages are installed once, the kernel's
# is only unpacked, outside the checkout.
#
#   assets.sh            get what is missing
#   assets.sh --print    the folder if everything is there, else exit status 3: installs and downloads nothing
set -euo pipefail

readonly CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/berth/kernel"
readonly PROGRAMS=(qemu-system-x86_64 busybox depmod nft tc)
readonly PACKAGES=(qemu-system-x86 busybox-static kmod nftables iproute2)

say() { echo "e2e-kernel: $*" >&2; }

folder() {
  local found
  found=$(ls -d "$CACHE"/linux-image-*/ 2>/dev/null | sort -V | tail -n 1)
  [[ -n $found && -e $found/lib/modules ]] && echo "${found%/}"
}

has_programs() {
  local name
  for name in "${PROGRAMS[@]}"; do command -v "$name" >/dev/null || return 1; done
}

if [[ ${1:-} == --print ]]; then
  has_programs && folder || exit 3
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  say "needs Debian's packages: ${PACKAGES[*]} and linux-image-amd64"
  exit 3
fi
if ! has_programs; then
  say "installing ${PACKAGES[*]}"
  apt-get update -q >&2
  apt-get install -y -q --no-install-recommends "${PACKAGES[@]}" >&2
fi
if ! folder >/dev/null; then
  mkdir -p "$CACHE"
  work=$(mktemp -d -p "$CACHE")
  trap 'rm -rf "$work"' EXIT
  package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
  if [[ -z $package ]]; then
    apt-get update -q >&2
    package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
  fi
  say "unpacking $package"
  (cd "$work" && apt-get download -q "$package" >&2 && dpkg-deb -x ./*.deb unpacked)
  for modules in "$work"/unpacked/lib/modules/*; do depmod -b "$work/unpacked" "$(basename "$modules")"; done
  mv "$work/unpacked" "$CACHE/$package"
fi
folder
