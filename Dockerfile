# The exporter's image: an environment is built in the first stage and copied whole, so that no compiler, cache or pip
# of the build is in the second. The user has no name that a chart would have to know: 65532, as distroless images have.
#
#   docker build -t runwatch .
#   docker run --rm --read-only --tmpfs /tmp --cap-drop ALL -p 9877:9877 -v "$PWD/runwatch.yaml:/etc/runwatch/runwatch.yaml:ro" runwatch

ARG PYTHON_IMAGE=python:3.12.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
WORKDIR /build
# First what seldom changes. Every file is the one whose hash was locked.
COPY deploy/image/build.txt deploy/image/requirements.txt deploy/image/
RUN python -m venv /opt/build \
  && /opt/build/bin/pip install --require-hashes --only-binary :all: -r deploy/image/build.txt \
  && python -m venv --without-pip /opt/runwatch \
  && /opt/build/bin/uv pip install --python /opt/runwatch/bin/python --require-hashes --only-binary :all: \
    -r deploy/image/requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY exporter exporter
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
  && /opt/build/bin/uv pip install --python /opt/runwatch/bin/python --no-deps wheels/*.whl

FROM ${PYTHON_IMAGE}
# For sites that are reached by `command_prefix: [ssh, …]`.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install --yes --no-install-recommends openssh-client \
  && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 65532 runwatch \
  && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin runwatch \
  && install --directory --owner 65532 --group 65532 --mode 0750 /var/lib/runwatch
COPY --from=build /opt/runwatch /opt/runwatch
# What Python would write beside the modules has no place on a read-only file system. wandb and Kubernetes' client look
# into HOME for credentials that were mounted, and write there nothing but temporary files.
ENV PATH=/opt/runwatch/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
USER 65532:65532
WORKDIR /var/lib/runwatch
EXPOSE 9877
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9877/-/healthy', timeout=4)"]
ENTRYPOINT ["runwatch"]
CMD ["serve", "--config", "/etc/runwatch/runwatch.yaml"]
