#!/bin/sh
# Installs what a build (and a test) of Ringside needs and this machine lacks, and nothing else. Silent when nothing is
# missing. Works as root or through sudo; otherwise it says in one line what somebody with those rights has to run.
#
# Usage: tools/deps.sh build [test]
set -eu

build='gcc libc6-dev pkg-config protobuf-c-compiler libprotobuf-c-dev libuv1-dev libpcre2-dev libsqlite3-dev libjansson-dev'
# The programs that people run in a console come with the tests, since the tests run them.
test='libcmocka-dev libvterm-dev clang libclang-rt-dev clang-format cppcheck dtach tmux vim htop less python3 procps file'

if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system: make sure that the packages named in $0 are installed" >&2
	exit 0
fi

present() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=
for group in "$@"; do
	case $group in
	build) wanted=$build ;;
	test) wanted=$test ;;
	*) echo "usage: $0 build [test]" >&2; exit 2 ;;
	esac
	for p in $wanted; do
		present "$p" || missing="$missing $p"
	done
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	as_root=
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
	as_root=sudo
else
	echo "deps: missing packages, and neither root nor sudo to install them. Run: apt-get install$missing" >&2
	exit 1
fi

echo "deps: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >"$log" 2>&1
}
# The package lists may be absent or old: fetched only when they are.
if ! install; then
	$as_root apt-get update -qq >/dev/null 2>&1 || true
	if ! install; then
		echo "deps: apt-get install failed:" >&2
		tail -n 20 "$log" >&2
		exit 1
	fi
fi
