#!/usr/bin/env bash
# Counts the instructions of a program for each request, in all and in functions of timers:
#
#     benches/programs/instructions.sh benches/programs/pgdog.sh EXECUTABLE [OPTION..]
#
# The load test must run the program under the command RUNNER, and send REQUESTS requests after a tenth of them. The
# difference between two runs leaves the start of the program out. The counts depend little on the machine's load.
# Needs valgrind.
set -euo pipefail
load=${1:?give the load test}
few=1280
many=12800
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT

for requests in $few $many; do
    RUNNER="valgrind --tool=callgrind --fair-sched=yes --callgrind-out-file=$dir/$requests" REQUESTS=$requests TASKS=64 \
        "$load" "${@:2}" >"$dir/log" 2>&1
    callgrind_annotate --auto=no --threshold=100 --show-percs=no "$dir/$requests" >"$dir/$requests.txt"
done
# Lines have the form `1,234  FILE:FUNCTION [OBJECT]`.
awk -v requests=$(((many - few) * 11 / 10)) "$(cat "$(dirname "$0")/timers.awk")"'
    FNR == 1 { sign = sign ? 1 : -1 }
    !/^ *[0-9,]+ / { next }
    { count = $1; gsub(",", "", count); count *= sign / requests }
    /PROGRAM TOTALS/ { all += count; next }
    {
        name = $0
        sub(/^ *[0-9,]+ +[^ ]*\.(rs|c|S|h):|^ *[0-9,]+ +\?\?\?:/, "", name)
    }
    is_timer(name) { timers += count }
    END {
        printf "instructions/request: %.0f\n", all
        printf "timer instructions/request: %.0f\n", timers
        printf "timer instructions %%: %.2f\n", 100 * timers / all
    }' "$dir/$few.txt" "$dir/$many.txt"
