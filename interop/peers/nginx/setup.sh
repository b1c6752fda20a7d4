#!/usr/bin/env bash
# Builds nginx with the system's OpenSSL (libssl-dev); $1 is where to.
#
# The source is Debian's copy of the release. OpenSSL before 3.5 has no interface for QUIC: nginx
# brings one of its own, without 0-RTT.
set -euo pipefail
source=https://deb.debian.org/debian/pool/main/n/nginx/nginx_1.26.3.orig.tar.gz
sha256=69ee2b237744036e61d24b836668aad3040dda461fe6f570f1787eab570c75aa
cd "$1"
curl --fail --silent --show-error --location --retry 3 --output nginx.tar.gz "$source"
echo "$sha256  nginx.tar.gz" | sha256sum --check --quiet
rm -rf source
mkdir source
tar --extract --file nginx.tar.gz --directory source --strip-components 1
cd source
./configure --prefix="$1" --with-http_v3_module --with-http_dav_module \
    --without-http_rewrite_module --without-http_gzip_module
make --silent --jobs "$(nproc)"
cp objs/nginx "$1/nginx"
rm -rf "$1/source" "$1/nginx.tar.gz"
