#!/usr/bin/env bash
# Measures the figures of docs/figures.md, in less than 30 minutes. Use a quiet machine with two cores or more, and
# nothing else that runs. Writes the tables into the folder that is given, and plots into docs/img.
set -euo pipefail
out=$(mkdir -p "${1:?give a folder for the tables}" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo build --release -p tokio-wheel-benches --bins
part() {
    local name=$1
    shift
    echo "== $name: $*"
    "target/release/$@" | tee "$out/$name.txt"
}
part compare compare --json "$out/compare.json" --svg docs/img
part storm sockets storm --json "$out/storm.json" --svg docs/img
part saturated sockets saturated --json "$out/saturated.json"
part calm sockets calm --json "$out/calm.json"
part redis redis --minutes 5 --json "$out/redis.json"
