#!/usr/bin/env bash
# Measures what more cores change, in less than eight minutes without the builds, and writes a report that you can send in:
#
#     benches/cores.sh [FOLDER]               builds, measures, and writes into FOLDER (target/cores/N-cores)
#     benches/cores.sh --build-only           only builds, into target/cores/bin
#     benches/cores.sh --no-build [FOLDER]    measures with target/cores/bin, which may be from another machine
#
# Use a quiet Linux machine with N cores, and attach FOLDER/all.tar.gz to an issue. It names neither host nor user. The
# shares of samples in timers need Linux's perf. BUDGET is the time in seconds (450): a shorter time has fewer rounds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=target/cores/bin
mode=
if [[ ${1:-} == --* ]]; then mode=$1 && shift; fi
[[ $mode =~ ^(|--build-only|--no-build)$ ]] || { sed -n '4,6s/^# *//p' "$0" && exit 2; }

if [[ $mode != --no-build ]]; then
    target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
    export CARGO_TARGET_DIR=$target
    cargo build --release -p tokio-wheel-benches --bins
    RUSTFLAGS="--cfg tokio_unstable" cargo build --release -p tokio-wheel-benches --bins --target-dir "$target/alt"
    cargo run -p cargo-on-wheel -- on-wheel --program benches/programs/driver compare --alternative --runs 1 --bin driver -- true {}
    mkdir -p $bin/release $bin/alt/release
    for program in release/compare release/sockets alt/release/compare alt/release/sockets; do
        strip -o "$bin/$program" "$target/$program"
    done
    # perf needs the names of functions.
    strip --strip-debug -o $bin/driver-tokio "$target/release/driver"
    for side in alternative wheel; do
        strip --strip-debug -o $bin/driver-$side "$target/on-wheel/target-$side/release/driver"
    done
    git rev-parse HEAD >$bin/commit
fi
[[ $mode != --build-only ]] || exit 0

budget=${BUDGET:-450} cores=$(nproc)
folder=$(realpath -m "${1:-target/cores/$cores-cores}")
mkdir -p "$folder"
for part in cores saturated; do : >"$folder/$part.json"; done
most=$((cores < 16 ? cores : 16)) bound=()
if ((cores > 16)); then bound=(taskset --cpu-list 0-15); fi
{
    echo "commit $(cat $bin/commit), $(date -u +%F), Linux $(uname -r), $cores cores, load $(cat /proc/loadavg)"
    echo "cgroup's limit of CPU: $(cat /sys/fs/cgroup/cpu.max 2>/dev/null || echo unknown)"
    lscpu
} >"$folder/machine.txt"
PATH=$PWD/$bin/release:$PATH

# Prints a part of a number that is for the whole budget, at least 1.
part_of() { echo $(($1 * budget / 450 > 0 ? $1 * budget / 450 : 1)); }
# measure NAME SECONDS COMMAND...
measure() {
    local name=$1 seconds json=$folder/$1.json
    seconds=$(part_of "$2")
    shift 2
    echo "== $name, at most $seconds s: $*"
    SECONDS=0
    {
        echo "\$ $*"
        timeout "$seconds" "$@" || {
            echo "ended with status $? after $SECONDS s"
            # `compare` has written the rounds before.
            if [[ -s $json ]]; then compare plot "$json"; fi
        }
    } >"$folder/$name.txt" 2>&1
    echo "   took $SECONDS s"
}
measure cores 75 "${bound[@]}" compare cores --rounds "$(part_of 8)" --json "$folder/cores.json"
measure saturated 110 "${bound[@]}" compare saturated --quick --rounds "$(part_of 6)" --json "$folder/saturated.json" \
    --scene sustained,crowd --workers "$most" --tasks $((100 * most))
measure storm 145 sockets storm --rounds "$(part_of 3)" --connections 5000 --timers 200000
WORKERS_LIST=$(for workers in 2 4 8 16; do if ((workers <= 2 * cores)); then echo $workers; fi; done)
REQUESTS=$(part_of 300000)
export WORKERS_LIST REQUESTS
measure programs 120 benches/programs/rounds.sh benches/programs/scylla.sh $bin/driver-{tokio,alternative,wheel}
tar -C "$folder" -czf "$folder/all.tar.gz" {machine,cores,saturated,storm,programs}.txt {cores,saturated}.json
echo "Please attach $folder/all.tar.gz to an issue."
