# One recipe per gate. `.ci/run` holds the commands, so a machine without `just` runs the very same.

# Everything, as the continuous build runs it.
all:
    .ci/run

# Formatting.
fmt:
    .ci/run fmt

# Clippy over all targets, warnings denied.
lint:
    .ci/run lint

# The documentation, warnings denied.
doc:
    .ci/run doc

# All tests: on every backend, then on uring and on epoll alone, at one shard and at the default.
tests:
    .ci/run tests

# The README's own command for the main example.
readme:
    .ci/run readme

# The loom models: the graph is built with `--cfg loom` into target/loom.
loom:
    .ci/run loom

# AddressSanitizer with leak check: nightly, `-Zsanitizer=address --target HOST`, into target/asan; std is not rebuilt.
asan:
    .ci/run asan

# ThreadSanitizer: nightly with rust-src, `-Zsanitizer=thread -Zbuild-std --target HOST`, into target/tsan.
tsan:
    .ci/run tsan

# Miri over the cells of fibers and the programs that use them hardest: nightly with the component `miri`, into
# target/miri. Not one of `all`.
miri:
    .ci/run miri

# The database's fuzzers, a minute each: nightly, in a workspace of their own.
fuzz:
    .ci/run fuzz

# The example `chat`, with a thousand connections, on both backends, at one shard and at the default.
chat:
    .ci/run chat

# The example `db-actor`: actors on every shard share a database; answers compared at several numbers of shards, on every
# backend and in simulation.
db-actor:
    .ci/run db-actor

# The example `echo`, on both backends, at one shard and at the default, answers compared.
echo:
    .ci/run echo

# The example `fibers`, likewise.
fibers:
    .ci/run fibers

# The example `walk`, likewise, with several numbers of threads, against a plain walk.
walk:
    .ci/run walk
