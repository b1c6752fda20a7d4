#!/usr/bin/env bash
# Writes the configuration for the test case and starts nginx in the foreground.
set -euo pipefail
[ "$ROLE" = server ] || exit 127
protocol="http3 off; http3_hq on;" retry=off
case $TESTCASE in
handshake | transfer | multiplexing | resumption | multiconnect | rebind-port | rebind-addr) ;;
http3 | upload) protocol="http3 on;" ;;
retry) retry=on ;;
# A server of nginx before 1.27 prefers no address; for 0-RTT it would need another TLS library.
*) exit 127 ;;
esac

work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
cat >"$work/nginx.conf" <<END
user root;
# One process, so that a client's new address needs no routing among several.
worker_processes 1;
pid $work/pid;
error_log /logs/nginx.log info;
events {}
http {
    access_log off;
    keepalive_requests 100000;
    types { text/html html; }
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    client_max_body_size 0;
    server {
        listen 443 quic reuseport;
        listen [::]:443 quic reuseport;
        $protocol
        quic_retry $retry;
        ssl_protocols TLSv1.3;
        ssl_certificate /certs/cert.pem;
        ssl_certificate_key /certs/priv.key;
        location / { root /www; }
        location = /upload {
            root /logs;
            dav_methods PUT;
        }
    }
}
END
"$BUILT/nginx" -e /logs/nginx.log -c "$work/nginx.conf" -g "daemon off;" &
nginx=$!
trap 'kill -QUIT "$nginx" 2>/dev/null' TERM INT
# A trapped signal ends the first wait.
wait "$nginx" || wait "$nginx"
