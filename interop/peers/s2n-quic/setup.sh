#!/usr/bin/env bash
# Builds the endpoint; $1 is where to.
set -euo pipefail
cd "$(dirname "$0")"
cargo build --quiet --release --locked --target-dir "$1"
