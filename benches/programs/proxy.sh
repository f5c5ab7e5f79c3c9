#!/usr/bin/env bash
# proxy.sh EXECUTABLE [OPTION..]: a reverse proxy of hyper between h2load and nginx, with $WORKERS worker
# threads (2), $TASKS connections (256) and $REQUESTS in all (200,000).
set -euo pipefail
program=$1 port=${PORT:-9144} requests=${REQUESTS:-200000} folder=$(mktemp -d)
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
${RUNNER:-} "$program" proxy "127.0.0.1:$port" "127.0.0.1:$((port + 1))" "${@:2}" &
proxy=$!
load() { # REQUESTS [OPTION..]
    h2load --h1 --clients "${TASKS:-256}" --requests "$@" "http://127.0.0.1:$port/"
}
# User and system time in clock ticks.
cpu() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$proxy/stat"; }
until (: </dev/tcp/127.0.0.1/"$port") 2>/dev/null; do kill -0 $proxy; sleep 0.1; done

load $((requests / 10)) >"$folder/warm-up"
before=$(cpu)
# The columns of the log are a request's start, status and time in microseconds.
load "$requests" --log-file "$folder/log" >"$folder/out"
ticks=$(($(cpu) - before))
grep -q " $requests succeeded" "$folder/out" || { cat "$folder/out" && exit 1; }
p99=$(cut -f 3 "$folder/log" | sort -n | sed -n "$((requests * 99 / 100))p")
awk -v tick="$(getconf CLK_TCK)" -v ticks=$ticks -v p99="$p99" -v requests="$requests" '
    /^finished in/ {
        printf "requests/s: %.0f\np99 ms: %.3f\ncpu us/request: %.3f\n", $4, p99 / 1e3, ticks / tick / requests * 1e6
    }
' "$folder/out"
