#!/bin/bash
# Runs each fuzz target over its corpus (tests/fuzz/corpus/PARSER), then with new inputs for a bounded time. Each target is
# one test. An input that breaks something is left in BUILD/fuzz-findings, with the command that shows it again.
#
# Usage: tools/fuzz.sh SECONDS     BUILD, TALLY as in tools/test.sh
set -u
cd "$(dirname "$0")/.." || exit 1
seconds=$1
build=${BUILD:-build}
found=$build/fuzz-findings
mkdir -p "$found"
failed=0
passed=0
for target in "$build"/fuzz/tests/fuzz/fuzz_*; do
	[ -x "$target" ] && [ -f "$target" ] || continue
	case $target in *.o | *.d) continue ;; esac
	name=${target##*/fuzz_}
	corpus=tests/fuzz/corpus/$name
	# New inputs of interest go here, never into the tree.
	grown=$build/fuzz-corpus/$name
	log=$build/fuzz-$name.log
	mkdir -p "$grown"
	dirs=$grown
	[ ! -d "$corpus" ] || dirs="$grown $corpus"
	# Bounded from outside too: a target that hangs is a finding, not a wait.
	if timeout --kill-after=10 $((seconds + 120)) "$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$found/$name-" $dirs >"$log" 2>&1; then
		echo "ok    fuzz/$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, $seconds s"
		passed=$((passed + 1))
	else
		echo "FAIL  fuzz/$name: see $found; again with: $target $found/$name-…"
		tail -n 60 "$log" | sed 's/^/    | /'
		failed=$((failed + 1))
	fi
done
[ -z "${TALLY:-}" ] || echo "$passed $failed" >>"$TALLY"
[ "$failed" = 0 ]
