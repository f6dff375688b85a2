# A shipped check as a static program on an image that has nothing but certificates:
#   docker build --build-arg PROGRAM=budget-check .
FROM docker.io/library/rust:1.95-alpine@sha256:606fd313a0f49743ee2a7bd49a0914bab7deedb12791f3a846a34a4711db7ed2 AS build
ARG PROGRAM
RUN apk add --no-cache musl-dev
# The program carries the list of its crates, which scanners and SBOMs read.
RUN cargo install --locked --version 0.7.7 cargo-auditable
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo auditable build --release --locked --package "kueue-check-${PROGRAM%-check}" --features otel \
    && cp "target/release/$PROGRAM" /program

FROM gcr.io/distroless/static:nonroot@sha256:963fa6c544fe5ce420f1f54fb88b6fb01479f054c8056d0f74cc2c6000df5240
COPY --from=build /program /check
USER 65532:65532
EXPOSE 8081 8443
ENTRYPOINT ["/check"]
CMD ["run"]
