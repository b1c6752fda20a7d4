#!/usr/bin/env bash
# Builds the endpoint of x/net; $1 is where to.
set -euo pipefail
cd "$(dirname "$0")"
GOFLAGS="-mod=readonly -buildvcs=false" go build -o "$1/" tool
