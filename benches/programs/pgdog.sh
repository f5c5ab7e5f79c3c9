#!/usr/bin/env bash
# Loads PgDog, a proxy for PostgreSQL, with pgbench:
#
#     benches/programs/pgdog.sh EXECUTABLE
#
# The script starts a PostgreSQL of its own, sends short selects through PgDog, and stops everything when it exits.
# It needs PostgreSQL's server and pgbench (Debian: postgresql), and the ports PORT and PORT + 1. With more than two
# workers, PgDog turns on tokio's alternative timer: delete `enable_alt_timer` from its main.rs to compare timers.
set -euo pipefail
program=$(realpath "${1:?give the executable of PgDog}")
workers=${WORKERS:-2}
clients=${CLIENTS:-64}
port=${PORT:-16432}
# By default, PgDog limits only the wait for a server connection. These limits are from its example.pgdog.toml.
limits=${LIMITS-query_timeout = 60_000, client_idle_timeout = 60_000}
# RUNNER and REQUESTS, which replaces the seconds, are for instructions.sh.
load=(-T "${SECONDS_OF_LOAD:-10}")
warm_up=(-T 2)
if [ -n "${REQUESTS:-}" ]; then
    load=(-t $((REQUESTS / clients)))
    warm_up=(-t $((REQUESTS / clients / 10)))
fi
read -ra runner <<<"${RUNNER:-}"
read -ra query <<<"${QUERY:--S}" # `-f FILE` for another

servers=(/usr/lib/postgresql/*/bin)
PATH=${servers[-1]}:$PATH
dir=$(mktemp -d)
pids=()
stop() {
    for pid in "${pids[@]}"; do
        kill "$pid" || true
        wait "$pid" || true
    done
    rm -r "$dir"
}
trap stop EXIT

# PostgreSQL refuses to run as root.
user=()
if [ "$(id -u)" = 0 ]; then
    user=(setpriv --reuid postgres --regid postgres --clear-groups)
    chown postgres "$dir"
fi
"${user[@]}" initdb --no-sync --auth trust --username postgres "$dir/data" >"$dir/initdb.log"
"${user[@]}" postgres -D "$dir/data" -F -h 127.0.0.1 -p $((port + 1)) -k "$dir" 2>"$dir/postgres.log" &
pids=($!)
until pg_isready --quiet --host "$dir" --port $((port + 1)); do kill -0 $!; sleep 0.1; done
pgbench --initialize --quiet --host "$dir" --port $((port + 1)) --username postgres postgres 2>"$dir/pgbench.log"

cat >"$dir/pgdog.toml" <<END
[general]
host = "127.0.0.1"
port = $port
workers = $workers
default_pool_size = ${POOL:-10}
auth_type = "trust"
${limits//, /$'\n'}
[[databases]]
name = "postgres"
host = "127.0.0.1"
port = $((port + 1))
END
cat >"$dir/users.toml" <<END
[[users]]
name = "postgres"
database = "postgres"
password = "postgres"
END
"${runner[@]}" "$program" --config "$dir/pgdog.toml" --users "$dir/users.toml" >"$dir/pgdog.log" 2>&1 &
pgdog=$!
pids=("$pgdog" "${pids[@]}")
bench() {
    pgbench --no-vacuum --protocol prepared --client "$clients" --jobs $((($(nproc) + 3) / 4)) "${query[@]}" \
        --host 127.0.0.1 --port "$port" --username postgres "$@" postgres
}
until psql -qt -h 127.0.0.1 -p "$port" -U postgres -c "SELECT" postgres &>"$dir/psql.log"; do
    kill -0 "$pgdog"
    sleep 0.1
done
# User and system time of PgDog, in microseconds.
cpu() { awk -v tick="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / tick * 1000000 }' "/proc/$pgdog/stat"; }

bench "${warm_up[@]}" >"$dir/warm.txt" 2>&1
before=$(cpu)
bench "${load[@]}" --log --log-prefix "$dir/latency" >"$dir/bench.txt" 2>"$dir/bench.err"
after=$(cpu)
# The third column is the latency in microseconds.
cat "$dir"/latency.* | awk '{ print $3 }' | sort -n |
    awk '{ us[NR] = $1 } END { printf "p50 ms: %.3f\np99 ms: %.3f\n", us[int(NR * 0.5) + 1] / 1000, us[int(NR * 0.99) + 1] / 1000 }'
awk -v cpu="$after $before" '
    /^number of transactions actually processed/ { sub(/\/.*/, ""); split(cpu, us, " "); printf "cpu us/request: %.3f\n", (us[1] - us[2]) / $NF }
    /^tps/ { printf "requests/s: %.0f\n", $3 }' "$dir/bench.txt"
