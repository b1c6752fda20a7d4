#!/usr/bin/env bash
# Chromium comes from the system; $1, where others are built, stays empty.
set -euo pipefail
command -v chromium >/dev/null || command -v chromium-browser >/dev/null
