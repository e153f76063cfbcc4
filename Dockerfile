# syntax=docker/dockerfile:1
# The module in the official image of a server:
#
#   docker build --target valkey --tag lockstock-valkey .
#   docker build --target redis --tag lockstock-redis .
#
# --build-arg VALKEY=… or REDIS=… chooses another image. It must be built on Debian 12 or later, or on another system with glibc 2.34.
ARG REDIS=redis:8.0-bookworm
ARG VALKEY=valkey/valkey:8.1-bookworm

FROM rust:1.95-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends libclang-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /lockstock
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/lockstock/target \
    cargo build --release --locked && cargo build --release --locked -p lockstock-cli -p lockstock-outbox && scripts/package install

FROM ${REDIS} AS redis
COPY --from=build /usr/local/bin/lockstock /usr/local/bin/lockstock
COPY --from=build /usr/local/lib/lockstock /usr/local/lib/lockstock
COPY --from=build /usr/local/share/doc/lockstock /usr/local/share/doc/lockstock
CMD ["redis-server", "--loadmodule", "/usr/local/lib/lockstock/liblockstock.so"]

FROM ${VALKEY} AS valkey
COPY --from=build /usr/local/bin/lockstock /usr/local/bin/lockstock
COPY --from=build /usr/local/lib/lockstock /usr/local/lib/lockstock
COPY --from=build /usr/local/share/doc/lockstock /usr/local/share/doc/lockstock
CMD ["valkey-server", "--loadmodule", "/usr/local/lib/lockstock/liblockstock.so"]
