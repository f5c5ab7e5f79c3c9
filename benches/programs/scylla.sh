#!/usr/bin/env bash
# scylla.sh EXECUTABLE [OPTION..]: scylla's driver against a server that answers at once, with $WORKERS
# worker threads (2), $TASKS operations at a time (256) and $REQUESTS in all (1,000,000).
set -euo pipefail
program=$1 address=127.0.0.1:${PORT:-9142} copy=$(mktemp)
# A profile of the program must not contain the server, so the server is another executable.
cp "$program" "$copy"
chmod +x "$copy"
"$copy" server "$address" &
server=$!
trap 'kill $server || true; wait $server || true; rm "$copy"' EXIT
until (: </dev/tcp/"${address/://}") 2>/dev/null; do kill -0 $server; sleep 0.1; done
${RUNNER:-} "$program" scylla "$address" "${@:2}"
