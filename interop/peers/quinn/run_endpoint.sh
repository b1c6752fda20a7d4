#!/usr/bin/env bash
exec "$BUILT/release/quinn-endpoint"
