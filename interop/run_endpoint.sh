#!/usr/bin/env bash
# An endpoint of the QUIC interop runner (https://github.com/quic-interop/quic-interop-runner).
#
# From the runner: ROLE, TESTCASE, REQUESTS, SERVER_PARAMS, CLIENT_PARAMS, SSLKEYLOGFILE, QLOGDIR,
# and the folders /www, /downloads and /certs. Of our own: CC is the congestion controller, QLOG the
# detail of traces. A flag in SERVER_PARAMS or CLIENT_PARAMS, such as --cc, overrides what is set
# here. WWW, DOWNLOADS, CERTS, LOGS, PORT and BIN are for use without the runner's containers.
set -euo pipefail

: "${ROLE:?client or server}" "${TESTCASE:?a test case of the runner}"
cc=${CC:-canter}
bin=${BIN:+$BIN/}
unsupported() {
    echo "test case $TESTCASE is not supported as $ROLE" >&2
    exit 127
}

# Flags that both take. The simulator carries no joined packets.
flags=(--cc "$cc" --no-gso)
if [[ -n ${QLOGDIR:-} ]]; then
    flags+=(--qlog-dir "$QLOGDIR" --qlog "${QLOG:-full}")
fi
# If 30 % of the packets are lost, probes can back off for longer than the usual 10 and 30 s. Other
# people's clients give up after 10 s, in which a server that takes the RTT for the usual 333 ms
# sends its flight four times, and one that takes it for 100 ms, six times. The path's is 30 ms.
case $TESTCASE in
multiconnect | handshakeloss | handshakecorruption)
    flags+=(--idle-timeout 120s --initial-rtt 100ms)
    if [[ $ROLE == server ]]; then flags+=(--handshake-timeout 120s); fi
    ;;
esac
if [[ -n ${SSLKEYLOGFILE:-} ]]; then
    flags+=(--keylog "$SSLKEYLOGFILE")
fi

serve() {
    case $TESTCASE in
    handshake | transfer | longrtt | chacha20 | multiplexing | resumption | zerortt | http3 | \
        blackhole | keyupdate | amplificationlimit | multiconnect | handshakeloss | \
        handshakecorruption | transferloss | transfercorruption | ipv6 | rebind-port | \
        rebind-addr | goodput | crosstraffic) ;;
    retry) flags+=(--retry) ;;
    # Not one of the runner's.
    upload) flags+=(--upload-dir "${LOGS:-/logs}") ;;
    # quiche sends and counts no ECN marks, knows version 1 alone, and has no preferred address.
    *) unsupported ;;
    esac
    local certs=${CERTS:-/certs} port=${PORT:-443}
    # What has not ended is killed one second after SIGTERM by the runner's `docker compose up
    # --timeout 1`, and after 10 by docker's default. SERVER_PARAMS are words.
    # shellcheck disable=SC2086
    exec "${bin}gallop-server" "${flags[@]}" --root "${WWW:-/www}" \
        --listen "0.0.0.0:$port" --listen "[::]:$port" \
        --cert "$certs/cert.pem" --key "$certs/priv.key" \
        --shutdown-timeout 500ms ${SERVER_PARAMS:-}
}

fetch() {
    # The runner's certificates are made for each run; nothing here depends on whose they are.
    # CLIENT_PARAMS are words.
    # shellcheck disable=SC2086
    "${bin}gallop-client" "${flags[@]}" --insecure --dir "${DOWNLOADS:-/downloads}" \
        --parallel 1000 --connect-timeout 60s ${CLIENT_PARAMS:-} "$@"
}

# Errors do not end a function that is called before ||: each fetch says so itself.
get() {
    local urls session
    read -ra urls <<<"${REQUESTS:-}"
    session=$(mktemp -d)/session
    case $TESTCASE in
    handshake | transfer | longrtt | multiplexing | retry | blackhole | amplificationlimit | \
        transferloss | transfercorruption | ipv6 | rebind-port | rebind-addr | goodput | \
        crosstraffic)
        fetch --hq "${urls[@]}"
        ;;
    http3) fetch "${urls[@]}" ;;
    # Not one of the runner's: a client's controller matters in uploads alone.
    upload) fetch --upload "${WWW:-/www}/upload" "${urls[@]}" ;;
    multiconnect | handshakeloss | handshakecorruption)
        for url in "${urls[@]}"; do
            fetch --hq "$url" || return
        done
        ;;
    resumption | zerortt)
        local early=()
        [[ $TESTCASE == zerortt ]] && early=(--early-data)
        fetch --hq --session "$session" "${urls[@]:0:1}" || return
        fetch --hq --session "$session" "${early[@]}" "${urls[@]:1}" || return
        ;;
    # As the server; and quiche starts no key update, BoringSSL has no way to offer ChaCha20 alone.
    *) unsupported ;;
    esac
}

case $ROLE in
server)
    [[ -x /setup.sh ]] && /setup.sh
    serve
    ;;
client)
    [[ -x /setup.sh ]] && /setup.sh
    [[ -x /wait-for-it.sh ]] && /wait-for-it.sh sim:57832 -s -t 30
    get || {
        status=$?
        [[ $status == 127 ]] && exit 127
        exit 1
    }
    ;;
*)
    echo "ROLE is client or server, not $ROLE" >&2
    exit 1
    ;;
esac
