#!/usr/bin/env bash
# Installs aioquic; $1 is where to.
set -euo pipefail
cd "$(dirname "$0")"
python3 -m venv --clear "$1/python"
"$1/python/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps \
    --requirement requirements.lock
