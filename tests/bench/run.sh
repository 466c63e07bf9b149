#!/bin/sh
# run.sh - the benchmarks, one after another: a line for the machine, then a row for each figure (see bench.h).
#
#   BUILD=DIR tests/bench/run.sh [NAME]…     NAME: ring_read, flood, echo, memory, start, scale; none: all
set -u
cd "$(dirname "$0")/../.."
dir=${BUILD:-build}/release/tests/bench

printf '# machine: %s, %s cores, Linux %s\n' \
	"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -r)"

names=${*:-ring_read flood echo memory start scale}
status=0
for name in $names; do
	if [ ! -x "$dir/bench_$name" ]; then
		echo "run.sh: no benchmark '$name' in $dir" >&2
		exit 2
	fi
	"$dir/bench_$name" || { echo "$name failed" >&2; status=1; }
done
exit $status
