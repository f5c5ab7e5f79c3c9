#!/usr/bin/env bash
# Measures the figures of the pages:
#
#     benches/figures.sh FOLDER [PART...]
#
# Without a part, runs all parts of docs/figures.md, in about an hour. The parts of the other pages
# run only if they are named. Writes tables, samples and plots into the folder. Use a quiet machine
# with at least two cores, and run nothing else on it.
set -euo pipefail
out=$(mkdir -p "${1:?give a folder for the tables}" && cd "$1" && pwd)
parts=" ${*:2} "
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
programs=$target/release
log=$out/parts.txt
: >"$log"

# part NAME MINUTES COMMAND...
part() {
    [[ -z ${parts// /} || $parts == *" $1 "* ]] || return 0
    local name=$1 minutes=$2 status=done
    shift 2
    echo "== $name, about $minutes minutes: $*"
    SECONDS=0
    "$@" | tee "$out/$name.txt" || status=FAILED
    echo "$name: $status after $SECONDS s, about $minutes minutes expected" >>"$log"
}
# A part of another page than docs/figures.md.
more() {
    [[ $parts != *" $1 "* ]] || part "$@"
}
compare() {
    "$programs/compare" "$@"
}
sockets() {
    "$programs/sockets" "$@"
}
scaling() {
    "$programs/examples/scaling" "$@"
}

{ date -u +%F && git describe --always --dirty && rustc -V && uname -srm && lscpu; } >"$out/machine.txt"
cargo build --release -p tokio-wheel-benches --bins --example scaling
RUSTFLAGS="--cfg tokio_unstable" \
    cargo build --release -p tokio-wheel-benches --bins --target-dir "$target/alt"

part compare 22 compare --all --requirements --json "$out/compare.json" --svg "$out"
part calm 11 sockets calm --rounds 24 --json "$out/calm.json"
part storm 9 sockets storm --rounds 8 --json "$out/storm.json" --svg "$out"
part fire 3 compare fire --peer tokio_wheel,tokio,tokio_alt --json "$out/fire.json"
part tasks 1 compare ops --workload schedule,schedule_limited,spawn --json "$out/tasks.json"
part scheduled 1 compare scheduled --rounds 3 --json "$out/scheduled.json"
part queues 3 compare ops --workload insert_remove,replace,drain --rounds 3 --json "$out/queues.json"
part touch 1 compare ops --workload touch --rounds 3 --json "$out/touch.json"
part instructions 1 .ci/instructions
part locked 1 benches/locked.sh "$programs/examples/scaling" churn tokio_wheel
part soak 1 .ci/soak 1

more lateness 3 compare lateness --json "$out/lateness.json"
more shared 1 scaling shared
more moved 1 scaling moved
more workers 3 compare ops --workload churn --json "$out/workers.json"
more saturated 12 compare saturated --quick --rounds 3 --json "$out/saturated.json"
more overload 20 compare saturated --scene sustained,crowd --workers 0,1,2 --rounds 5 --json "$out/overload.json"

cat "$log"
[[ -s $log ]] || { echo "no such part:$parts" >&2 && exit 1; }
! grep -q FAILED "$log"
