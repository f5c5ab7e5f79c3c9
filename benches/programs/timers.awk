# Returns whether a function belongs to timers, as facade/try/src/perf.rs, whose test compares both. The compiler inlines
# the program's futures into the methods of `Timeout`, so these do not count.
function is_timer(symbol) {
    sub(/^core::ptr::drop_in_place(::)?/, "", symbol)
    sub(/^</, "", symbol)
    sub(/^core::option::Option/, "", symbol)
    sub(/^</, "", symbol)
    return symbol ~ /^(tokio::(runtime::(scheduler::util::time|time|Timer)|time::)|(tokio|bounded)_wheel::)/ &&
        symbol !~ /^(tokio::time|tokio_wheel::futures)::timeout::Timeout/
}
