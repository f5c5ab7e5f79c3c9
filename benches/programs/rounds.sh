#!/usr/bin/env bash
# Compares builds of a program, without cargo, for several numbers of workers (WORKERS_LIST):
#
#     benches/programs/rounds.sh benches/programs/scylla.sh EXECUTABLE...
#
# In each of ROUNDS rounds (6), the executables take turns. If the script is stopped, it prints the rounds before. Use
# `cargo on-wheel compare` where cargo can build the program.
set -euo pipefail
load=${1:?give the load test}
shift
programs=("$@")
dir=$(mktemp -d)
# Prints a table of lines `WORKERS ROUND EXECUTABLE FIGURE: VALUE`.
table() {
    awk -v list="$*" '
        # Sorts list[1..n]. Not each awk has a function for that.
        function sort(list, n,    i, j, one) {
            for (i = 2; i <= n; i++) {
                one = list[i]
                for (j = i - 1; j > 0 && list[j] > one; j--) list[j + 1] = list[j]
                list[j + 1] = one
            }
        }
        function median(list, n) { sort(list, n); return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2 }
        {
            name = $0
            sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", name)
            sub(/: [^:]*$/, "", name)
            row = $1 " workers, " name
            if (!(row in seen)) { seen[row] = 1; rows[++count] = row }
            value[row, $3, $2] = $NF
            if ($2 > rounds) rounds = $2
        }
        END {
            programs = split(list, program, " ")
            print "The median, and the ratio to the first: the median and the range of the ratios of each round. After six"
            print "rounds, the range has the true median in it with a probability of 97%. A range with 1 in it shows no difference."
            for (i = 1; i <= count; i++) {
                print rows[i]
                for (p = 1; p <= programs; p++) {
                    n = m = 0
                    for (r = 1; r <= rounds; r++) {
                        if (!((rows[i], program[p], r) in value)) continue
                        of[++n] = value[rows[i], program[p], r]
                        first = value[rows[i], program[1], r]
                        if (first > 0) ratio[++m] = of[n] / first
                    }
                    printf "  %-20s %12.2f", program[p], n ? median(of, n) : 0
                    if (p > 1 && m) printf "  %.3fx", median(ratio, m)
                    if (p > 1 && m > 1) printf " (%.3f to %.3f)", ratio[1], ratio[m]
                    printf "  %d rounds\n", n
                }
            }
        }' "$dir/figures"
}
trap 'table "${programs[@]##*/}"; rm -r "$dir"' EXIT
touch "$dir/figures"

# Prints the share of the samples of a program that are in functions of timers.
share() {
    perf record --quiet --freq 499 --output "$dir/perf" -- "$load" "$1" >"$dir/log"
    perf script --fields pid,period,ip,sym,dso --input "$dir/perf" 2>"$dir/log" |
        awk -v file="($(realpath "$1"))" "$(cat "$(dirname "$0")/timers.awk")"'
        { all[$1] += $2; symbol = $0; sub(/^ *[0-9]+ +[0-9]+ +[0-9a-f]+ +/, "", symbol) }
        index($0, file) { is_program[$1] = 1 }
        is_timer(symbol) { timers[$1] += $2 }
        END {
            for (pid in is_program) { sum += all[pid]; part += timers[pid] }
            if (sum) printf "samples in timers %%: %.2f\n", 100 * part / sum
        }'
}
record() { # ROUND EXECUTABLE
    sed "s|^|$WORKERS $1 ${2##*/} |" >>"$dir/figures"
}
if perf record --quiet --output - -- true &>"$dir/log"; then
    for WORKERS in $WORKERS_LIST; do
        export WORKERS
        for program in "${programs[@]}"; do share "$program" | record 1 "$program" || cat "$dir/log"; done
    done
else
    echo "No shares of samples in timers, because perf is missing, or kernel.perf_event_paranoid is above 2."
fi
for ((round = 1; round <= ${ROUNDS:-6}; round++)); do
    for WORKERS in $WORKERS_LIST; do
        export WORKERS
        for ((place = 0; place < ${#programs[@]}; place++)); do
            program=${programs[(place + round) % ${#programs[@]}]}
            "$load" "$program" | record $round "$program"
        done
    done
done
