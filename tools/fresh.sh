#!/bin/bash
# Proves the two commands of the README on a bare system: a minimal Debian in a scratch folder, in namespaces of its own, with a
# copy of this tree and make, and nothing else installed. Runs `make run </dev/null`, tries what it left running, then
# `make test`. Needs root and debootstrap. Packages come from where this machine's apt gets its own; nothing of that is written
# into the tree. Mounts end with the namespace, processes too, and the folder is removed.
#
# Usage: tools/fresh.sh     SUITE (bookworm), TMPDIR, KEEP=1 leaves the folder
set -eu
cd "$(dirname "$0")/.."
suite=${SUITE:-bookworm}

# The mirror that apt has for the suite: from a deb822 file or a one-line source.
mirror() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | awk -v suite="$suite" '
		/^[ \t]*#/ { next }
		/^URIs:/ { uri = $2 }
		/^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite && uri != "") { print uri; exit } }
		$1 == "deb" { for (i = 2; i < NF; i++) if ($i ~ /^(https?|file|ftp):/ && $(i + 1) == suite) { print $i; exit } }
		/^$/ { uri = "" }'
}

# ---- Inside the namespaces: $1 is the new root ----
inside() {
	local root=$1 d
	# A root is a mount point, which programs may count on.
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	mount -t tmpfs -o mode=755 tmpfs "$root/dev"
	for d in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
		IFS=: read -r name major minor <<<"$d"
		mknod -m 666 "$root/dev/$name" c "$major" "$minor"
	done
	mkdir "$root/dev/pts" "$root/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
	ln -s pts/ptmx "$root/dev/ptmx"
	ln -s /proc/self/fd "$root/dev/fd"
	mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	mount --rbind /sys "$root/sys"
	chroot "$root" /usr/bin/env -i HOME=/root TERM=xterm PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} sh -eu -c '
		cd /src
		apt-get update -qq
		apt-get install -y -qq --no-install-recommends make >/dev/null 2>&1
		echo "---- make run"
		make run </dev/null
		B=build/release/bin
		$B/ringside write default/shell "echo fresh-\$((40 + 2))" --enter >/tmp/at
		$B/ringside read default/shell --from "$(cat /tmp/at)" --wait 20s --until "fresh-42" 2>/dev/null
		echo
		echo "---- make run, again"
		make run </dev/null
		$B/ringside down --all
		echo "---- make test"
		make test'
}

if [ "${1:-}" = inside ]; then
	inside "$2"
	exit
fi

if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
	echo "fresh: needs root and debootstrap" >&2
	exit 1
fi
from=$(mirror)
[ -n "$from" ] || { echo "fresh: apt on this machine has no source for $suite" >&2; exit 1; }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/ringside-fresh.XXXXXX")
root=$scratch/root
# --one-file-system: should a mount have outlived its namespace after all, what it shows is left alone.
[ -n "${KEEP:-}" ] || trap 'rm -rf --one-file-system "$scratch"' EXIT

echo "---- a bare $suite"
debootstrap --variant=minbase "$suite" "$root" "$from" >"$scratch/debootstrap.log" 2>&1 || {
	tail -n 20 "$scratch/debootstrap.log" >&2
	exit 1
}

# How this machine reaches its mirror: proxies, checks that it does without, its own certificates, names.
apt-config dump | grep -E '^Acquire::(https?|Check|Retries|ForceIPv4)' >"$root/etc/apt/apt.conf.d/90host" || true
rm -f "$root"/etc/apt/sources.list
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
	if [ -f "$f" ] && grep -qF "$from" "$f"; then cp "$f" "$root/etc/apt/sources.list.d/"; fi
done
for f in /etc/resolv.conf /etc/hosts; do
	[ ! -e "$f" ] || cp -L "$f" "$root$f"
done
case $from in https:*) mkdir -p "$root/etc/ssl" && cp -rL /etc/ssl/certs "$root/etc/ssl/" ;; esac

mkdir "$root/src"
git ls-files -co --exclude-standard -z | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
	tar -c --null -T - | tar -x -C "$root/src"

unshare --mount --pid --fork --kill-child --propagation private "$0" inside "$root"
