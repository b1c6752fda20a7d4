#!/usr/bin/env bash
# Installs tquic's server and client with the versions of their lock file; $1 is where to.
set -euo pipefail
cd "$(dirname "$0")"
cargo install --quiet --locked --version 1.6.0 --root "$1" tquic_tools
