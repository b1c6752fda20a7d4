#!/usr/bin/env bash
# Builds quic-go's endpoints; $1 is where to.
set -euo pipefail
cd "$(dirname "$0")"
GOFLAGS="-mod=readonly -buildvcs=false" go build -o "$1/" tool
