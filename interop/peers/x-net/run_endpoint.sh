#!/usr/bin/env bash
# The program says itself which test cases it does not know.
case $ROLE in
server)
    exec "$BUILT/interop" -cert=/certs/cert.pem -key=/certs/priv.key -qlog="${QLOGDIR:-}" \
        -listen=:443 -root=/www
    ;;
client)
    # shellcheck disable=SC2086 # URLs are words.
    exec "$BUILT/interop" -output=/downloads -qlog="${QLOGDIR:-}" $REQUESTS
    ;;
esac
