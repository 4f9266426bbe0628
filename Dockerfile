# nvshare-guard: one image with its four commands and the hook (target `run`, the default), and one for pods on
# machines without a GPU (target `simgpu`).
#
# BASE is any Debian with apt; where no image registry can be reached, `make image` gives it one made by mmdebstrap.
ARG BASE=docker.io/library/debian:bookworm-slim

# ---------------------------------------------------------------------------- compilers: nothing of them is kept
FROM ${BASE} AS compilers
RUN apt-get update -q \
 && apt-get install -qy --no-install-recommends ca-certificates gcc libc6-dev make python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src

# ---------------------------------------------------------------------------- what others wrote, hashed
FROM compilers AS dependencies
COPY requirements requirements
# A network with a package index or a CA of its own names them: PIP_CERT is a path inside of the build (see `--volume`).
ARG PIP_CERT PIP_INDEX_URL
# The venv is filled by another one's pip: the image has no installer.  Of the Kubernetes client only the synchronous
# half is used; the other would be a fifth of the image.
RUN python3 -m venv /installer && python3 -m venv --without-pip /opt/nvshare \
 && /installer/bin/pip --python /opt/nvshare/bin/python install --quiet --no-cache-dir \
        --require-hashes --only-binary :all: -r requirements/run.txt \
 && rm -r /opt/nvshare/lib/python3*/site-packages/kubernetes/aio \
 && awk '/^setuptools==/,!/\\$/' requirements/dev.txt > /tmp/setuptools.txt \
 && /installer/bin/pip install --quiet --no-cache-dir --require-hashes -r /tmp/setuptools.txt

# ---------------------------------------------------------------------------- what we wrote
FROM dependencies AS code
COPY pyproject.toml README.md LICENSE ./
COPY contract contract
COPY adapters adapters
COPY webhook webhook
COPY deviceplugin deviceplugin
COPY schedulerd schedulerd
# into a folder of its own: a change of our code is a layer of 2 MB, not of 150
RUN /installer/bin/pip wheel --quiet --no-cache-dir --no-deps --no-build-isolation --wheel-dir /tmp/wheels . \
 && /installer/bin/pip --python /opt/nvshare/bin/python install --quiet --no-cache-dir --no-deps --no-index \
        --root /ours /tmp/wheels/*.whl

# The hook is loaded into other people's images: built for glibc 2.17 and newer, harmless under musl.
FROM dependencies AS native
ARG PIP_CERT PIP_INDEX_URL
RUN awk '/^ziglang==/,!/\\$/' requirements/dev.txt > /tmp/zig.txt \
 && /installer/bin/pip install --quiet --no-cache-dir --require-hashes --only-binary :all: -r /tmp/zig.txt
COPY hook hook
RUN make -C hook portable PYTHON=/installer/bin/python && strip --strip-unneeded build/hook/portable/libnvshare.so

FROM dependencies AS native-simgpu
ARG PIP_CERT PIP_INDEX_URL
RUN awk '/^cuda-(bindings|pathfinder)==/,!/\\$/' requirements/dev.txt > /tmp/cuda.txt \
 && /installer/bin/pip install --quiet --no-cache-dir --no-deps --require-hashes --only-binary :all: \
        --target /opt/simgpu/python -r /tmp/cuda.txt
COPY simgpu simgpu
RUN make -C simgpu

# ---------------------------------------------------------------------------- the image
FROM ${BASE} AS run
RUN apt-get update -q \
 && apt-get install -qy --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/*.log /var/log/apt \
 # a user without a line here would get root's group from the kubelet
 && echo 'nvshare:x:65532:65532::/nonexistent:/usr/sbin/nologin' >> /etc/passwd && echo 'nvshare:x:65532:' >> /etc/group
COPY --from=dependencies /opt/nvshare /opt/nvshare
# where the hook lies in an application's container, too
COPY --from=native /src/build/hook/portable/libnvshare.so /usr/lib/nvshare/libnvshare.so
COPY --from=code /ours /
ENV PATH=/opt/nvshare/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1
# The webhook needs no rights; the DaemonSets ask for root by themselves, since the kubelet's folder and the control
# socket are root's.
USER 65532:65532
CMD ["nvshare-webhook", "serve"]

# ---------------------------------------------------------------------------- pods on a GPU made of software
FROM run AS simgpu
COPY --from=native-simgpu /opt/simgpu/python /opt/simgpu/python
# libcuda.so.1 and libnvidia-ml.so.1, as NVIDIA's runtime would have brought them
COPY --from=native-simgpu /src/build/simgpu/lib*.so.1 /opt/simgpu/lib/
COPY --from=native-simgpu /src/build/simgpu/simgpu /src/build/simgpu/burn /opt/simgpu/bin/
ENV LD_LIBRARY_PATH=/opt/simgpu/lib \
    PYTHONPATH=/opt/simgpu/python \
    PATH=/opt/nvshare/bin:/opt/simgpu/bin:/usr/sbin:/usr/bin:/sbin:/bin

# the default target is the last stage
FROM run
