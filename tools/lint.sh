#!/bin/sh
# Are the C sources formatted as .clang-format says, and does cppcheck find nothing? Lists what is wrong; status 1 then.
#
# Usage: tools/lint.sh [FILE…]     (all sources of the tree)
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
[ $# -gt 0 ] || set -- $(find . \( -path ./build -o -path "./$build" -o -path ./.git \) -prune -o -name '*.[ch]' -print | sort)
status=0

clang-format --dry-run -Werror "$@" || status=1

# One analysis per source, headers by way of them; what is suppressed stands with its reason in .cppcheck.
sources=$(printf '%s\n' "$@" | grep '\.c$')
mkdir -p "$build/cppcheck"
cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
	--suppressions-list=.cppcheck --error-exitcode=1 --template=gcc --cppcheck-build-dir="$build/cppcheck" \
	-j "$(nproc)" -D_GNU_SOURCE -D__linux__ -DRINGSIDE_VERSION='""' -I. $sources || status=1
exit $status
