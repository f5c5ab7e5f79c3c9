#!/usr/bin/env bash
# redis.sh EXECUTABLE [OPTION..]: redis' client against redis-server, with $WORKERS worker threads (2),
# $TASKS operations at a time (256) and $REQUESTS in all (1,000,000).
set -euo pipefail
program=$1 port=${PORT:-9143}
redis-server --port "$port" --save '' --loglevel warning >/dev/null &
server=$!
trap 'kill $server || true; wait $server || true' EXIT
until redis-cli -p "$port" set key 1 2>/dev/null >&2; do kill -0 $server; sleep 0.1; done
${RUNNER:-} "$program" redis "127.0.0.1:$port" "${@:2}"
