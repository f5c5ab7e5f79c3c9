#!/usr/bin/env bash
# Measures the figures of the pages, and writes what the programs print into docs/figures/NAME.txt:
#
#     benches/figures.sh            all records, in about 75 minutes
#     benches/figures.sh NAME...    some of them
#
# Use a quiet machine with at least two cores, and run nothing else on it. Commit the source before,
# because each record names its commit. Then run `python3 .ci/figures --write`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo build --release -p tokio-wheel-benches --bins --example scaling
# tokio's alternative timer is measured, too, if this build exists.
RUSTFLAGS="--cfg tokio_unstable" \
    cargo build --release -p tokio-wheel-benches --bins --target-dir "$target/alt"

mkdir -p target
PATH=$target/release:$target/release/examples:$PATH
machine=$(lscpu | sed -nE 's/^(Model name|CPU family|Model|CPU\(s\)|L2 cache|L3 cache|Hypervisor vendor): +/\1 /p' | paste -sd ,)
wanted=" $* "
failed=0
# record NAME MINUTES COMMAND...
record() {
    local name=$1 minutes=$2 file=docs/figures/$1.txt
    shift 2
    [[ -z ${wanted// /} || $wanted == *" $name "* ]] || return 0
    echo "== $name, about $minutes minutes: $*"
    SECONDS=0
    {
        echo "\$ $*"
        echo "commit $(git rev-parse HEAD), $(date -u +%F), Linux $(uname -r), $machine"
        "$@" || failed=1
    } >"$file.new"
    mv "$file.new" "$file"
    echo "   took $SECONDS s"
}
record shared 1 scaling shared
record moved 1 scaling moved
record scheduled 1 compare scheduled --rounds 3
record crowd 1 compare saturated --scene crowd --tasks 0 --workers 0,2
record ops 5 compare ops --workload schedule,schedule_limited,spawn,touch,insert_remove,replace,drain --rounds 3
record requests 3 compare ops --workload churn,own,nested,sequence,tasks --variant "solo armed,x2 armed" \
    --peer tokio_wheel,tokio,tokio_alt,pingora
record lateness 6 compare lateness --rounds 6
record storm 9 sockets storm --rounds 6 --svg docs/img
record blocked 9 sockets blocked --rounds 6 --svg docs/img
record serve 2 sockets serve --rounds 12
record tunnel 1 sockets tunnel --rounds 12
record calm 14 sockets calm --rounds 20
# `compare plot target/compare.json --requirements` prints what an interrupted run has measured.
record compare 22 compare --all --requirements --json target/compare.json --svg docs/img
exit $failed
