#!/bin/sh
# A base image where no image registry can be reached: Debian with Python from Debian's packages, with the certificates
# that this machine trusts beside its own. Needs root, debootstrap and a Docker engine; takes about a minute.
#
# usage: offline_base.sh [NAME]      then: make images PYTHON_IMAGE=NAME
# DEBIAN_SUITE and DEBIAN_MIRROR choose another release (Python 3.11 or newer) and another source of packages.
set -eu
name=${1:-berth-base:offline}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv \
    "${DEBIAN_SUITE:-bookworm}" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
mkdir -p "$root/usr/local/share/ca-certificates"
find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates/" \;
chroot "$root" update-ca-certificates
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
# pip and uv carry certificates of their own, and would not know those of this machine.
tar -C "$root" -c . | docker import -c 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' \
    -c 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' -c 'CMD ["python3"]' - "$name"
