# The image of each service. Build context: the repository's root; `just image SERVICE` builds one.
#
#   docker build --build-arg SERVICE=agent .
#
# Two optional BuildKit secrets reach the build and nothing of the image: `pip`, a pip.conf, and `ca`, a bundle of
# certificates in PEM.
# A base that was verified is pinned with its digest, --build-arg BASE=NAME@sha256:...: docs/security.md
ARG BASE=docker.io/library/debian:bookworm-slim
# operator, agent, containers, extender, outofband or ven.
ARG SERVICE

# The same in all images, so that a node stores it once. No program gets more privileges than its user has.
FROM ${BASE} AS runtime
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache /var/log/apt \
      /var/log/alternatives.log /var/log/dpkg.log \
 # Bytecode that says nothing of when its source was written: equal sources have equal images.
 && python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3* \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

FROM runtime AS tools
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv
COPY requirements/build.txt /src/requirements/
# The build back end is a program that is looked for on PATH.
ENV PATH=/build/bin:$PATH
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    [ ! -s /run/secrets/ca ] || export PIP_CERT=/run/secrets/ca; \
    /usr/bin/python3 -m venv /build \
 && pip install --no-cache-dir --require-hashes -r /src/requirements/build.txt \
 && /usr/bin/python3 -m venv --without-pip /opt/joulie

FROM tools AS build
ARG SERVICE
COPY requirements/${SERVICE}.txt /src/requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    --mount=type=cache,target=/root/.cache/pip,sharing=locked \
    [ ! -s /run/secrets/ca ] || export PIP_CERT=/run/secrets/ca; \
    pip --python /opt/joulie install --no-compile --require-hashes --only-binary :all: -r /src/requirements/${SERVICE}.txt
COPY libs /src/libs
COPY services/${SERVICE} /src/services/${SERVICE}
# Wheels first: pip lays a file into installed packages that says where they came from, and this names none of ours.
RUN pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /wheels \
      /src/libs/joulie-core /src/libs/joulie-api /src/libs/joulie-actuator /src/services/${SERVICE} \
 # Its libraries come with it; everything else is there already.
 && pip --python /opt/joulie install --no-compile --no-index --find-links /wheels joulie-${SERVICE}
# -f: pip has imported some of it. See above.
RUN ["/opt/joulie/bin/python", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash", "/opt/joulie/lib"]

FROM runtime AS service
COPY --from=build /opt/joulie /opt/joulie
# No shell: nothing starts one, and an attacker finds none. So all commands below are without one as well.
RUN ["rm", "/usr/bin/sh", "/usr/bin/dash", "/usr/bin/bash", "/usr/bin/rbash"]
# Bytecode is compiled by the build; the root filesystem may be read-only.
ENV PATH=/opt/joulie/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 65532:65532

# What the images differ in. A command in this form takes no variable.
FROM service AS operator
EXPOSE 8081
LABEL org.opencontainers.image.description="Decides which nodes supply full performance and publishes targets, labels and twins."
ENTRYPOINT ["joulie-operator"]

FROM service AS extender
EXPOSE 9876 9877
LABEL org.opencontainers.image.description="Scheduler extender: filters and scores nodes for kube-scheduler from watched twins."
ENTRYPOINT ["joulie-extender"]

FROM service AS outofband
EXPOSE 8084
LABEL org.opencontainers.image.description="Powers servers on and off, caps and measures them through their management controllers."
ENTRYPOINT ["joulie-outofband"]

FROM service AS ven
EXPOSE 8087
LABEL org.opencontainers.image.description="Follows the events of an OpenADR 3.1 VTN, and writes PowerEvents."
ENTRYPOINT ["joulie-ven"]

# One image for the controller (no arguments) and the actuator (argument `actuator`, run as root). The packages
# nvidia-ml-py and amdsmi are in it, the drivers' own libraries are not: they belong to the driver of the node.
# libnvidia-ml.so.1 is mounted by NVIDIA's container runtime where NVIDIA_VISIBLE_DEVICES and
# NVIDIA_DRIVER_CAPABILITIES=utility are set on the container; libamd_smi.so is found below a mounted /opt/rocm.
FROM service AS agent
# Mount points for a root filesystem that is read-only. Not /host-sys: that it is there says that the node's is mounted.
USER 0:0
RUN ["mkdir", "/run/joulie", "/var/lib/joulie"]
USER 65532:65532
EXPOSE 8080
LABEL org.opencontainers.image.description="Discovers node hardware, enforces power targets and reports what happened."
ENTRYPOINT ["joulie-agent"]

# One image for the resource manager (argument `manager`), the node agent (`node-agent`) and, where container resources are
# installed without power, the actuator (`actuator`, run as root).
FROM service AS containers
USER 0:0
RUN ["mkdir", "/run/joulie", "/var/lib/joulie", "/var/lib/joulie-resources"]
USER 65532:65532
EXPOSE 8082 8085
LABEL org.opencontainers.image.description="Places containers on CPUs and memory nodes, as a plugin of the container runtime."
ENTRYPOINT ["joulie-containers"]

FROM ${SERVICE}
ARG BASE
ARG SERVICE
ARG VERSION
LABEL org.opencontainers.image.title="joulie-${SERVICE}" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}"
