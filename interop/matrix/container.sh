#!/bin/sh
# Runs a command where the folders of the QUIC interop runner's containers are:
#   unshare --mount container.sh FOLDER COMMAND...
# FOLDER has www, downloads, certs and logs, which the command sees as /www and so on; a file hosts,
# its /etc/hosts; and an empty folder root. All else is the system's own.
set -eu
folder=$1
shift
root=$folder/root
mount -t tmpfs -o size=1m tmpfs "$root"
for entry in /*; do
    name=${entry#/}
    case $name in www | downloads | certs | logs) continue ;; esac
    if [ -L "$entry" ]; then
        cp -P "$entry" "$root/$name"
    elif [ -d "$entry" ]; then
        mkdir "$root/$name"
        mount --rbind "$entry" "$root/$name"
    fi
done
for name in www downloads certs logs; do
    mkdir "$root/$name"
    mount --rbind "$folder/$name" "$root/$name"
done
mount --bind "$folder/hosts" "$root/etc/hosts"
exec chroot "$root" "$@"
