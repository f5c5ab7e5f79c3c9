#!/usr/bin/env bash
# Measures the figures of the pages, and writes what the programs print into docs/figures/NAME.txt:
#
#     benches/figures.sh            all records, in about an hour
#     benches/figures.sh NAME...    some of them
#
# Use a quiet machine with at least two cores, and run nothing else on it. Then run `.ci/figures --write`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
programs=$CARGO_TARGET_DIR/release
cargo build --release -p tokio-wheel-benches --bins --examples
# tokio's alternative timer takes part if this build exists.
RUSTFLAGS="--cfg tokio_unstable" cargo build --release -p tokio-wheel-benches --bins --target-dir "$CARGO_TARGET_DIR/alt"

wanted=("$@")
failed=0
record() {
    local name=$1
    shift
    [[ ${#wanted[@]} -eq 0 || " ${wanted[*]} " == *" $name "* ]] || return 0
    local program=$programs/$1
    [[ $1 != scaling ]] || program=$programs/examples/scaling
    echo "== $name: $*"
    {
        printf '$ %s\n' "$*"
        echo "commit $(git rev-parse HEAD), $(date -u +%F), $(lscpu | sed -nE 's/^(Model name|CPU family|Model|CPU\(s\)): +/\1 /p' | paste -sd ';')"
        "$program" "${@:2}" || failed=1
    } >"docs/figures/$name.new"
    mv "docs/figures/$name.new" "docs/figures/$name.txt"
}
record shared scaling shared
record moved scaling moved
record ops compare ops --workload schedule,schedule_limited,spawn,touch,insert_remove,replace,drain
record scheduled compare scheduled
record crowd compare saturated --scene crowd --tasks 0 --workers 0,2 --rounds 6
record lateness compare lateness
record storm sockets storm --svg docs/img
record calm sockets calm
record compare compare --all --requirements --svg docs/img
exit $failed
