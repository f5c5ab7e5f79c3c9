#!/usr/bin/env python3
"""instructions.py SCRIPT NAME=EXECUTABLE..: the instructions of each request, counted by callgrind.

Runs a load test with few and with many requests, so that the start does not count, and then without timeouts. `timers`
are the instructions of the sources of timers, with all that the compiler inlined there. A function that these call
counts elsewhere. The counts depend little on the load of the machine.
"""
import os
import re
import subprocess
import sys
import tempfile

FEW, MANY = 5_000, 25_000
# Each load test adds a tenth of the requests as a warm-up.
COUNTED = (MANY - FEW) * 1.1
TIMERS = re.compile(r"/src/(runtime/time|runtime/time_alt|time)/|/tokio-wheel/src/|/on-wheel/tokio/src/")
# The program's own futures are inlined into `Timeout::poll`.
MIXED = re.compile(r"/timeout\.rs$")


def counts(profile):
    """Returns how many instructions a profile has in all, and in timers."""
    files, total, timers = {}, 0, 0
    of_function = source = ""
    of_call = False
    for line in profile:
        key, _, value = line.rstrip("\n").partition("=")
        if key in ("fl", "fi", "fe"):
            # A name is spelled out once.
            number, _, name = value.partition(" ")
            source = files.setdefault(number, name)
            if key == "fl":
                of_function = source
        elif key == "fn":
            source = of_function
        elif key in ("cfi", "cfl"):
            number, _, name = value.partition(" ")
            files.setdefault(number, name)
        elif key == "calls":
            of_call = True
        elif line[0] in "0123456789+-*":
            words = line.split()
            # The line after a call is the cost of the called function.
            if not of_call and len(words) == 2:
                total += int(words[1])
                if TIMERS.search(source) or TIMERS.search(of_function) and not MIXED.search(of_function):
                    timers += int(words[1])
            of_call = False
    return total, timers


def run(script, executable, requests, *options):
    with tempfile.NamedTemporaryFile("r") as profile:
        runner = f"valgrind --tool=callgrind --fair-sched=yes --quiet --callgrind-out-file={profile.name}"
        environment = dict(os.environ, RUNNER=runner, REQUESTS=str(requests), TASKS="64")
        command = [script, executable, *options]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        with open(profile.name, errors="replace") as lines:
            return counts(lines)


def per_request(*arguments):
    few, many = (run(*arguments[:2], requests, *arguments[2:]) for requests in (FEW, MANY))
    return [(b - a) / COUNTED for a, b in zip(few, many)]


script = os.path.abspath(sys.argv[1])
print(f"{'':12}{'all':>10}{'no timeouts':>14}{'difference':>12}{'timers':>10}")
for side in sys.argv[2:]:
    name, executable = side.split("=")
    (total, timers), (without, _) = per_request(script, executable), per_request(script, executable, "--no-timeout")
    print(f"{name:12}{total:10.0f}{without:14.0f}{total - without:12.0f}{timers:10.0f}", flush=True)
