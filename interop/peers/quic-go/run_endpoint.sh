#!/usr/bin/env bash
# The programs know the contract; the client takes URLs as arguments.
case $ROLE in
server) exec "$BUILT/server" ;;
client)
    # shellcheck disable=SC2086 # URLs are words.
    exec "$BUILT/client" $REQUESTS
    ;;
esac
