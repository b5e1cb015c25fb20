# syntax=docker/dockerfile:1

FROM rust:1.95-slim-bookworm AS build
ARG TARGETPLATFORM
WORKDIR /src
COPY . .
# Symbols would double the size of the image.
ENV CARGO_PROFILE_RELEASE_DEBUG=none CARGO_PROFILE_RELEASE_STRIP=symbols
# The embedded API server (feature `sandbox`) stays out. The mounts outlive the build, the image does
# not see them: so the binary is moved out of there.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,id=loadmaster-target-$TARGETPLATFORM,sharing=locked \
    cargo build --locked --release --no-default-features --bin loadmaster \
    && install -D target/release/loadmaster /image/usr/local/bin/loadmaster \
    && install -D --mode=644 LICENSE /image/usr/share/doc/loadmaster/LICENSE

FROM gcr.io/distroless/cc-debian12:nonroot
LABEL org.opencontainers.image.title="Loadmaster" \
      org.opencontainers.image.description="A Kubernetes scheduler that considers every node and can always say why" \
      org.opencontainers.image.source="https://github.com/loadmaster/loadmaster" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image /
# The user `nonroot` by number: the kubelet can check runAsNonRoot on numbers only.
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/usr/local/bin/loadmaster"]
