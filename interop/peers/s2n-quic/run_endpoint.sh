#!/usr/bin/env bash
exec "$BUILT/release/s2n-quic-endpoint"
