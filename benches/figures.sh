#!/usr/bin/env bash
# Measures the figures of docs/figures.md, in less than 30 minutes. Writes tables and plots into the
# given folder. Use a quiet machine with at least two cores, and run nothing else on it.
set -euo pipefail
out=$(mkdir -p "${1:?give a folder for the tables}" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo build --release -p tokio-wheel-benches --bins
programs=${CARGO_TARGET_DIR:-target}/release
failed=0
part() {
    local name=$1
    shift
    echo "== $name: $*"
    "$programs/$1" "${@:2}" --json "$out/$name.json" | tee "$out/$name.txt" || failed=1
}
part compare compare --svg "$out"
part storm sockets storm --svg "$out"
part calm sockets calm
exit $failed
