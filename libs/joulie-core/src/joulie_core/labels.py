"""Keys of every label and annotation that Joulie reads or writes.

Guarantees one spelling for all services. Source: docs/decisions/0013-conventions.md.
"""

from typing import Final

PREFIX: Final = "joulie.io/"

MANAGED: Final = "joulie.io/managed"
RESERVED: Final = "joulie.io/reserved"
POWER_PROFILE: Final = "joulie.io/power-profile"
DRAINING: Final = "joulie.io/draining"
#: State of a node that is put to sleep or woken, such as `asleep`; absent while it is awake.
SLEEP_STATE: Final = "joulie.io/sleep-state"
#: Key of the taint of such a node.
ASLEEP_TAINT: Final = "joulie.io/asleep"
#: Annotation: what the operator remembers of a node that sleeps or has slept.
SLEEP_RECORD: Final = "joulie.io/sleep-record"
#: Annotation of a Node: until then (RFC 3339) it is woken and stays awake.
AWAKE_UNTIL: Final = "joulie.io/awake-until"
#: Annotation of a NodeBMC: the desired power that the operator has written.
REQUESTED_POWER: Final = "joulie.io/requested-power"
#: Annotation of a NodeBMC: the power-off that the operator has requested and after which On was not confirmed.
SWITCHED_OFF: Final = "joulie.io/switched-off"
#: Annotation of a Node: a person works on the server, why and who. Joulie leaves its power alone.
MAINTENANCE: Final = "joulie.io/maintenance"
#: The group of nodes whose container policy applies; the second is read where the first is absent.
CONTAINER_POLICY_GROUP: Final = "joulie.io/container-policy-group"
NRI_POLICY_GROUP: Final = "config.nri/group"
RACK: Final = "joulie.io/rack"
COOLING_ZONE: Final = "joulie.io/cooling-zone"

HW_CPU_MODEL: Final = "joulie.io/hw.cpu-model"
HW_CPU_SOCKETS: Final = "joulie.io/hw.cpu-sockets"
HW_CPU_CORES: Final = "joulie.io/hw.cpu-cores"
HW_GPU_MODEL: Final = "joulie.io/hw.gpu-model"
HW_GPU_COUNT: Final = "joulie.io/hw.gpu-count"
HW_KIND: Final = "joulie.io/hw.kind"

GPU_PRODUCT: Final = "joulie.io/gpu.product"
NVIDIA_GPU_PRODUCT: Final = "nvidia.com/gpu.product"
AMD_GPU_PRODUCT: Final = "amd.com/gpu.product"
#: Physical GPUs, written by NVIDIA's feature discovery; the extended resource counts shares where GPUs are time-sliced.
#: Where all GPUs are cut alike and the partitions go by the name of GPUs (MIG strategy single), it counts partitions.
NVIDIA_GPU_COUNT: Final = "nvidia.com/gpu.count"
#: Shares of each GPU, or of each of its partitions; 1 without time-slicing and MPS.
NVIDIA_GPU_REPLICAS: Final = "nvidia.com/gpu.replicas"
#: Written by GKE: shares of each GPU, and the MIG profile that all GPUs of the node are cut into.
GKE_SHARES: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"
#: Written by AMD's node labeller: the mode that all GPUs of the node are cut by, such as `cpx_nps4`.
AMD_PARTITION_KEYS: Final = ("amd.com/compute-memory-partition", "amd.com/gpu.compute-memory-partition")
#: Physical GPUs, written by NFD with the rules of Intel's device plugins.
INTEL_GPU_COUNT: Final = "gpu.intel.com/device.count"

NFD_CPU_MODEL_PREFIX: Final = "feature.node.kubernetes.io/cpu-model."
NFD_PCI_PREFIX: Final = "feature.node.kubernetes.io/pci-"

#: By which a kubelet marks the API server's copy of a static pod, with what it has for the pod's UID.
MIRROR: Final = "kubernetes.io/config.mirror"

WORKLOAD_CLASS: Final = "joulie.io/workload-class"
#: Annotation of a Pod or a Namespace: how much longer a standard pod may run, `0%`, `10%`, `25%` or `50%`.
MAX_SLOWDOWN: Final = "joulie.io/max-slowdown"
#: Annotation of a Pod: how long it is expected to run from its start, a Go duration such as `1h30m`.
EXPECTED_DURATION: Final = "joulie.io/expected-duration"

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY_AGENT: Final = "joulie-agent"
