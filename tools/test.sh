#!/bin/bash
# Everything that has to hold before a change goes in: both compilers without warnings, the tests of every module and of the
# whole under the sanitizers, the parsers fuzzed for a bounded time, the sources formatted and analysed, the static program
# serving in an empty root. Each gate counts as one test. The last line is "N passed, N failed"; status 1 on any failure.
#
# Usage: tools/test.sh [tests]     tests: the test programs alone, without compilers' and analysers' gates
#   BUILD          the build tree (build)
#   FUZZ_SECONDS   for each parser (10)
#   ONLY           a shell pattern: run only test programs with such a name (test_ring*)
set -u
cd "$(dirname "$0")/.." || exit 1
export BUILD=${BUILD:-build}
mkdir -p "$BUILD"
bin=$(cd "$BUILD" && pwd)
TALLY=$(mktemp) || exit 1
export TALLY
log=$(mktemp)
trap 'rm -f "$TALLY" "$log"' EXIT
jobs=$(nproc)

# Runs a command as one test; its output is shown only when it fails.
gate() {
	local name=$1 begin=$SECONDS
	shift
	if "$@" >"$log" 2>&1; then
		echo "ok    $name, $((SECONDS - begin)) s"
		echo "1 0" >>"$TALLY"
	else
		echo "FAIL  $name: $*"
		# The line to look at first, on its own, then everything.
		grep -m 1 -E '(error|warning): |\*\*\* |FAIL' "$log" | sed 's/^/FAIL      /'
		sed 's/^/    | /' "$log"
		echo "0 1" >>"$TALLY"
		return 1
	fi
}

build() {
	gate "build/$1${2:+ with $2}" make --no-print-directory -j"$jobs" VARIANT="$1" ${2:+CC=$2} ${4:+BUILD=$4} $3
}

# Test programs below $1 of variant $2, as group $3.
programs() {
	local src name
	for src in $1; do
		name=$(basename "$src" .c)
		[[ $name == ${ONLY:-*} ]] && [ -e "$src" ] && echo "$BUILD/$2/${src%.c}"
	done
}
run() {
	local label=$1
	shift
	[ $# = 0 ] || tools/run-tests.sh "$label" "$@"
}

# A stack that grows to a random place can meet the sanitizers' shadow where the kernel randomises more than they expect.
if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ] && setarch -R true 2>/dev/null; then
	[ -n "${RINGSIDE_NO_ASLR:-}" ] || RINGSIDE_NO_ASLR=1 exec setarch -R "$0" "$@"
fi
export ASAN_OPTIONS=detect_stack_use_after_return=1:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}

# TSan where there are threads: the ledger's writer, the sandboxes' jobs.
threaded='tests/unit/ledger/test_*.c tests/unit/sandboxes/test_*.c'

whole=1
[ "${1:-}" != tests ] || whole=

# debug: what the tests put between a program and its C library can stand in neither a static nor a sanitizer's program.
if build release '' all && build debug '' 'programs preloads' && build asan '' tests; then
	if [ -n "$whole" ]; then
		build release clang objects "$BUILD/clang"
		gate lint tools/lint.sh
	fi
	run '' $(programs 'tests/unit/*/test_*.c' asan)
	if build tsan '' "$(programs "$threaded" tsan | tr '\n' ' ')"; then
		run ', tsan' $(programs "$threaded" tsan)
	fi
	if [ -n "$whole" ] && build fuzz clang fuzzers; then
		tools/fuzz.sh "${FUZZ_SECONDS:-10}"
	fi
	RINGSIDE_BIN=$bin/asan/bin RINGSIDE_RELEASE_BIN=$bin/release/bin \
		run '' $(programs 'tests/integration/test_*.c' asan)
fi

awk '{ passed += $1; failed += $2 } END { printf "%d passed, %d failed\n", passed, failed; exit failed != 0 }' "$TALLY"
