#!/usr/bin/env bash
# Measures the figures of docs/figures.md, in less than 30 minutes. Writes tables and plots into the
# given folder. Use a quiet machine with at least two cores, and run nothing else on it.
set -euo pipefail
out=$(mkdir -p "${1:?give a folder for the tables}" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v redis-server >/dev/null || {
    echo 'redis-server is not installed: apt-get install redis-server' >&2
    exit 2
}
cargo build --release -p tokio-wheel-benches --bins
programs=${CARGO_TARGET_DIR:-target}/release
failed=0
part() {
    local name=$1 program=$2
    shift 2
    echo "== $name: $program $*"
    "$programs/$program" "$@" | tee "$out/$name.txt" || failed=1
}
part compare compare --json "$out/compare.json" --svg "$out"
part storm sockets storm --json "$out/storm.json" --svg "$out"
part saturated sockets saturated --json "$out/saturated.json"
part calm sockets calm --json "$out/calm.json"
part redis redis --minutes 5 --json "$out/redis.json"
exit $failed
