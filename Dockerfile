# The image: one static binary without a base, so there is no shell, no package and no dynamic linker in it.
# docs/release.md has its size, its checks, and how a release signs it.

# The compiler runs on the platform of the builder and cross-compiles.
FROM --platform=$BUILDPLATFORM rust:1.95.0-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082 AS build

# Writes the list of crates into the binary, where scanners of images look for it.
RUN cargo install --locked --root /usr/local cargo-auditable@0.7.7

ARG BUILDARCH
ARG TARGETARCH
# `debug` serves CPU and heap profiles below /debug/pprof/: it has frame pointers, the allocator that samples, and the
# symbols that would double the size of the other image.
ARG VARIANT=release
# The linker and the C library of the target, and `make` for the allocator of the variant `debug`. Packages are not
# pinned, so that a build has the security updates of Debian 12; the image names the version of the C library.
# hadolint ignore=DL3008,SC2086
RUN case $TARGETARCH in \
        amd64) cpu=x86_64 compiler=gcc-x86-64-linux-gnu ;; \
        arm64) cpu=aarch64 compiler=gcc-aarch64-linux-gnu ;; \
        *) echo "no image is built for '$TARGETARCH'" >&2; exit 1 ;; \
    esac \
    && echo "$cpu" > /cpu \
    && rustup target add "$cpu-unknown-linux-gnu" \
    && packages="" \
    && if [ "$VARIANT" = debug ]; then packages=make; fi \
    && if [ "$TARGETARCH" != "$BUILDARCH" ]; then \
        dpkg --add-architecture "$TARGETARCH" \
        && packages="$packages $compiler libc6-dev:$TARGETARCH"; \
    fi \
    && if [ -n "$packages" ]; then \
        apt-get update \
        && apt-get install --yes --no-install-recommends $packages \
        && rm -rf /var/lib/apt/lists/*; \
    fi

WORKDIR /src
COPY . .
# The features `sandbox` and `simulator` stay out. The mounts outlive the build and are not part of the
# image, so the binary is copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,id=loadmaster-target-$TARGETARCH-$VARIANT,sharing=locked \
    cpu=$(cat /cpu) \
    && target=$cpu-unknown-linux-gnu \
    && export RUSTFLAGS="-C target-feature=+crt-static -C linker=$cpu-linux-gnu-gcc" \
    && features="" \
    && case $VARIANT in \
        release) export CARGO_PROFILE_RELEASE_DEBUG=none CARGO_PROFILE_RELEASE_STRIP=symbols ;; \
        debug) \
            export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_STRIP=none \
            && RUSTFLAGS="$RUSTFLAGS -C force-frame-pointers=yes" \
            && features=profiling ;; \
        *) echo "VARIANT is release or debug, not '$VARIANT'" >&2; exit 1 ;; \
    esac \
    && cargo auditable build --locked --release --no-default-features --features "$features" \
        --bin loadmaster --target "$target" \
    && install -D "target/$target/release/loadmaster" /image/usr/local/bin/loadmaster

# Certificates for servers whose certificate a public authority signed, the order in which host names are
# looked up, and for scanners the version of the C library in the binary, as distroless images name it.
RUN install -D --mode=644 LICENSE /image/usr/share/doc/loadmaster/LICENSE \
    && install -D --mode=644 /usr/share/doc/libc6/copyright /image/usr/share/doc/libc6/copyright \
    && install -D --mode=644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt \
    && install -D --mode=644 /etc/os-release /image/etc/os-release \
    && echo "hosts: files dns" > /image/etc/nsswitch.conf \
    && mkdir -p /image/var/lib/dpkg/status.d \
    && dpkg-query --status "libc6:$TARGETARCH" > /image/var/lib/dpkg/status.d/libc6

FROM scratch
LABEL org.opencontainers.image.title="Loadmaster" \
      org.opencontainers.image.description="A Kubernetes scheduler that considers every node and can always say why" \
      org.opencontainers.image.source="https://github.com/loadmaster/loadmaster" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image /
# The only folder of a container with a read-only root that a process may write to: heap profiles need a file.
ENV TMPDIR=/dev/shm
# A number, because the kubelet cannot check runAsNonRoot on a name.
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/usr/local/bin/loadmaster"]
