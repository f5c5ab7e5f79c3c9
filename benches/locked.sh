#!/bin/sh
# Lists the locked instructions of one operation, each with its function:
#
#     benches/locked.sh PROGRAM WORKLOAD PEER [VARIANT]
#
# PROGRAM is the built example `scaling`. An instruction counts if it ran at least once per
# operation. The script needs valgrind, objdump and awk. It works on x86-64, where `lock` and `xchg`
# mark locked instructions.
set -eu
program=$1
shift
iters=20000
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
valgrind --tool=callgrind --dump-instr=yes --compress-pos=no --compress-strings=no \
    --callgrind-out-file="$out/calls" \
    "$program" count "$1" "$2" "${3:-solo}" "$iters" >"$out/log" 2>&1
objdump -d --demangle "$program" >"$out/code"
awk -v iters="$iters" -v program="/${program##*/}" '
    FNR == 1 { file++ }
    file == 1 && /^ob=/ { ours = index($0, program) }
    # The line after `calls=` counts the instructions of the callee.
    file == 1 && /^calls=/ { getline; next }
    file == 1 && ours && /^0x/ { times[substr($1, 3)] += $NF }
    file == 2 && /^[0-9a-f]+ <.*>:$/ { name = $0; sub(/^[0-9a-f]+ </, "", name); sub(/>:$/, "", name) }
    file == 2 && /\t(lock |xchg .*\()/ {
        address = $1
        sub(/:/, "", address)
        rate = times[address] / iters
        if (rate < 0.9) next
        total += rate
        code = $0
        sub(/^[^\t]*\t[^\t]*\t/, "", code)
        printf "%6.2f  %-44s %s\n", rate, code, name
    }
    END { printf "%6.2f  in all\n", total }
' "$out/calls" "$out/code"
