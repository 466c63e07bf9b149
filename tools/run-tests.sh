#!/bin/bash
# Runs cmocka test programs, each with a time limit and in a process group and a temporary directory of its own, and adds up what
# they say. A test that began and never ended (a crash, a timeout), a program that failed outside its tests, a skipped test and a
# process left behind all count as failures.
#
# Usage: tools/run-tests.sh LABEL PROGRAM…     LABEL follows each program's name; may be empty
#   TEST_SECONDS   time limit of one program (300)
#   TEST_JOBS      how many run at once (one a processor)
#   TALLY          file to which one line "PASSED FAILED" is added (none: the sum is printed)
# Output: one line a program, when it has ended, and the whole output of those that failed. Status 1 when anything failed.
set -u
label=$1
shift
limit=${TEST_SECONDS:-300}
jobs=${TEST_JOBS:-$(nproc)}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ringside-tests.XXXXXX") || exit 1
chmod 711 "$scratch" # a daemon of another user may be part of a test
trap 'rm -rf "$scratch"' EXIT

# Processes that still speak of directory $1, by pid: in their environment, arguments or working directory.
left_behind() {
	local pid
	{
		grep -lsF -e "$1" /proc/[0-9]*/environ /proc/[0-9]*/cmdline
		find /proc/[0-9]*/cwd -maxdepth 0 -lname "$1*" 2>/dev/null
	} | cut -d/ -f3 | sort -u | while read -r pid; do
		# The searchers found themselves, and are gone.
		[ ! -d "/proc/$pid" ] || [ "$pid" = $$ ] || echo "$pid"
	done
}

# Runs $2 in the folder $1: leaves its report in report and "PASSED FAILED" in tally.
run_one() {
	local mine=$1 program=$2 name log dir status begun ok bad skipped reason seconds pid
	name=${program##*/tests/}
	log=$mine/log
	dir=$mine/home
	mkdir -p "$dir"
	seconds=$SECONDS
	{ TMPDIR=$dir timeout --kill-after=10 "$limit" "$program" >"$log" 2>&1 </dev/null; } 2>/dev/null
	status=$?
	seconds=$((SECONDS - seconds))

	# A test's own output may stand before cmocka's on the same line, so these are not anchored.
	begun=$(grep -ac '\[ RUN      \]' "$log")
	ok=$(grep -ac '\[       OK \]' "$log")
	skipped=$(grep -aoE '\[  SKIPPED \] [a-zA-Z_0-9]+$' "$log" | sort -u | wc -l)
	bad=$((begun - ok))
	reason=
	if [ "$status" = 124 ] || [ "$status" = 137 ]; then
		reason="did not end within $limit s"
	elif [ "$status" -gt 128 ]; then
		reason="killed by signal $((status - 128))"
	elif [ "$status" != 0 ] && [ "$bad" = 0 ]; then
		reason="exit status $status"
	elif [ "$begun" = 0 ]; then
		reason="ran no test"
	fi
	[ "$skipped" = 0 ] || reason="${reason:+$reason, }$skipped skipped"

	for pid in $(left_behind "$dir"); do
		echo "left behind: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)" >>"$log"
		kill -9 "$pid" 2>/dev/null
		reason="${reason:+$reason, }left process $pid behind"
	done

	[ -z "$reason" ] || [ "$bad" -gt 0 ] || bad=1
	echo "$ok $bad" >"$mine/tally"
	if [ "$bad" = 0 ]; then
		echo "ok    $name$label: $ok tests, $seconds s" >"$mine/report"
		return
	fi
	{
		echo "FAIL  $name$label: $bad of $begun failed${reason:+ ($reason)}, $seconds s"
		# Each promise that was not kept: what began and is not said to be fine.
		grep -aoE '\[ RUN      \] .*|\[       OK \]' "$log" |
			awk '/OK \]/ { last = ""; next } { if (last) print last; last = "FAIL      " $4 } END { if (last) print last }'
		sed 's/^/    | /' "$log"
	} >"$mine/report"
}

# Reports come whole and in the order of the ends; folders go at once, since tests may leave much.
report_ended() {
	local mine
	for mine in "$scratch"/*/; do
		[ -e "$mine/ended" ] || continue
		cat "$mine/report"
		cat "$mine/tally" >>"$scratch/tally"
		rm -rf "$mine"
	done
}

number=0
for program in "$@"; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
		wait -n
		report_ended
	done
	number=$((number + 1))
	mine=$scratch/$number
	mkdir "$mine"
	{ run_one "$mine" "$program"; : >"$mine/ended"; } &
done
wait
report_ended

touch "$scratch/tally"
read -r passed failed < <(awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }' "$scratch/tally")
if [ -n "${TALLY:-}" ]; then
	echo "$passed $failed" >>"$TALLY"
else
	echo "$passed passed, $failed failed"
fi
[ "$failed" = 0 ]
