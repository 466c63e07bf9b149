#!/bin/sh
# Puts a built Ringside below DESTDIR PREFIX: the command in bin, the daemons in libexec/ringside (nobody types them), the
# library with its header and pkg-config file, the user unit, the documents. Called by `make install`, which sets
# BIN LIB VERSION PREFIX DESTDIR.
set -eu
to=${DESTDIR:-}$PREFIX
put() { # mode, file, folder
	install -d "$to/$3"
	install -m "$1" "$2" "$to/$3/"
}
put 755 "$BIN/ringside" bin
put 755 "$BIN/ringsided" libexec/ringside
put 755 "$BIN/ringside-consoled" libexec/ringside
put 755 "$LIB/libringside.so.0" lib
ln -sf libringside.so.0 "$to/lib/libringside.so"
put 644 client/ringside.h include
install -d "$to/lib/pkgconfig" "$to/lib/systemd/user"
sed -e "s|@PREFIX@|$PREFIX|g" -e "s|@VERSION@|$VERSION|g" client/ringside.pc.in >"$to/lib/pkgconfig/ringside.pc"
# KillMode and Delegate: a stop of the control daemon must leave the sandboxes alone, each in a cgroup of its own.
cat >"$to/lib/systemd/user/ringsided.service" <<UNIT
[Unit]
Description=Ringside control daemon
Documentation=file://$PREFIX/share/doc/ringside/README.md

[Service]
ExecStart=$PREFIX/libexec/ringside/ringsided --foreground
KillMode=process
Delegate=yes
Restart=on-failure

[Install]
WantedBy=default.target
UNIT
for f in README.md docs/*; do
	[ ! -f "$f" ] || put 644 "$f" share/doc/ringside
done
