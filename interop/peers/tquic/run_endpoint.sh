#!/usr/bin/env bash
# Maps the contract to the flags of tquic_server and tquic_client.
set -euo pipefail

# If 30 % of the packets are lost, a handshake can take longer than the usual 10 s, and probes back
# off for longer than the usual 30 s.
flags=(--handshake-timeout 120000 --idle-timeout 120000 --keylog-file "$SSLKEYLOGFILE"
    --qlog-dir "$QLOGDIR")
protocol=hq-interop
case $ROLE:$TESTCASE in
*:handshake | *:transfer | *:multiconnect | *:resumption | *:zerortt | client:retry) ;;
*:http3) protocol=h3 ;;
server:retry) flags+=(--enable-retry) ;;
# Neither program has a flag for one cipher alone, or for an update of keys.
*) exit 127 ;;
esac

fetch() {
    "$BUILT/bin/tquic_client" "${flags[@]}" --alpn "$protocol" --dump-dir /downloads \
        --max-concurrent-requests 100 "$@" || exit 1
}

if [[ $ROLE == server ]]; then
    exec "$BUILT/bin/tquic_server" "${flags[@]}" --listen '[::]:443' \
        --cert /certs/cert.pem --key /certs/priv.key --root /www
fi
read -ra urls <<<"$REQUESTS"
case $TESTCASE in
multiconnect)
    for url in "${urls[@]}"; do
        fetch "$url"
    done
    ;;
resumption | zerortt)
    flags+=(--session-file /logs/session)
    if [[ $TESTCASE == zerortt ]]; then flags+=(--enable-early-data); fi
    fetch "${urls[0]}"
    fetch "${urls[@]:1}"
    ;;
*) fetch "${urls[@]}" ;;
esac
