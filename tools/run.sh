#!/bin/sh
# Starts the control daemon, makes the first sandbox and a shell console in it, and leaves the user attached. Safe to run
# again: what exists is kept. Without a terminal on standard input it says how to attach instead of waiting for keys.
#
# Usage: tools/run.sh BINDIR
set -eu
ringside=$1/ringside

"$ringside" up
"$ringside" start default/shell >/dev/null

echo "The console default/shell is running. It outlives this terminal: Ctrl-] leaves it, and this comes back to it:"
echo "    $ringside attach default/shell"
if [ -t 0 ] && [ -t 1 ]; then
	exec "$ringside" attach default/shell
fi
