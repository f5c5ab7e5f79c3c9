#!/usr/bin/env bash
# proxy.sh EXECUTABLE [OPTION..]: a reverse proxy of hyper between wrk and nginx, with $WORKERS worker threads
# (2), $CONNECTIONS connections (256), for $DURATION seconds (10).
set -euo pipefail
program=$1 port=${PORT:-9144} folder=$(mktemp -d)
export WORKERS=${WORKERS:-2}
trap 'kill ${proxy:-} ${nginx:-} 2>/dev/null || true; wait; rm -r "$folder"' EXIT
cat >"$folder/nginx.conf" <<END
daemon off; pid $folder/pid; worker_processes 1; error_log stderr;
events { worker_connections 8192; }
http {
    access_log off; keepalive_requests 1000000000;
    server { listen 127.0.0.1:$((port + 1)); location / { return 200 hello; } }
}
END
nginx -p "$folder" -c "$folder/nginx.conf" 2>/dev/null &
nginx=$!
${RUNNER:-} "$program" "127.0.0.1:$port" "127.0.0.1:$((port + 1))" "${@:2}" &
proxy=$!
load() { wrk --threads 1 --connections "${CONNECTIONS:-256}" --latency --duration "$1" "http://127.0.0.1:$port/"; }
# User and system time in clock ticks.
cpu() { awk '{ print $14 + $15 }' "/proc/$proxy/stat"; }
until (: </dev/tcp/127.0.0.1/"$port") 2>/dev/null; do kill -0 $proxy; sleep 0.1; done
load 2 >/dev/null
before=$(cpu)
load "${DURATION:-10}" >"$folder/wrk"
awk -v ticks=$(($(cpu) - before)) -v tick="$(getconf CLK_TCK)" '
    $1 == "99%" { p99 = $2 * ($2 ~ /us$/ ? 1e-3 : $2 ~ /ms$/ ? 1 : 1e3) }
    $2 == "requests" { requests = $1 }
    $1 == "Requests/sec:" { rate = $2 }
    /errors:|Non-2xx/ { print; failed = 1 }
    END {
        printf "requests/s: %.0f\np99 ms: %.3f\ncpu us/request: %.3f\n", rate, p99, ticks / tick / requests * 1e6
        exit failed
    }
' "$folder/wrk"
