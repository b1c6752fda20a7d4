#!/usr/bin/env bash
exec "$BUILT/python/bin/python" "$(dirname "$0")/endpoint.py"
