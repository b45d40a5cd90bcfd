#!/bin/sh
# Builds kiln's image with umoci, without Docker and without a base image.
#
# Usage: oci.sh KILN_TARBALL IMAGE_DIRECTORY
# The result is an OCI layout with the tag "kiln". To load it: skopeo copy oci:IMAGE_DIRECTORY:kiln docker-daemon:kiln:latest
set -eu

image=$2:kiln
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

"$(dirname "$0")/rootfs.sh" "$1" "$root"
umoci init --layout "$2"
umoci new --image "$image"
umoci insert --image "$image" "$root" /
umoci config --image "$image" \
  --config.user 65532:65532 \
  --config.entrypoint kiln --config.cmd serve \
  --config.env PATH=/usr/local/bin --config.env HOST=0.0.0.0 --config.env KILN_DATA_DIR=/data \
  --config.workingdir /data --config.volume /data --config.exposedports 8787/tcp \
  --config.label org.opencontainers.image.title=kiln \
  --config.label org.opencontainers.image.licenses=MIT
umoci gc --layout "$2"
