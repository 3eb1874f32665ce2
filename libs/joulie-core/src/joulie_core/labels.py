"""Keys of every label and annotation that Joulie reads or writes.

Promises one spelling for all services. Source: contracts, section 2.
"""

from typing import Final

PREFIX: Final = "joulie.io/"

MANAGED: Final = "joulie.io/managed"
RESERVED: Final = "joulie.io/reserved"
POWER_PROFILE: Final = "joulie.io/power-profile"
DRAINING: Final = "joulie.io/draining"
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
NVIDIA_GPU_COUNT: Final = "nvidia.com/gpu.count"
#: Where the GPU model of a node may be found, most trusted first.
GPU_PRODUCT_KEYS: Final = (HW_GPU_MODEL, GPU_PRODUCT, NVIDIA_GPU_PRODUCT, AMD_GPU_PRODUCT)

NFD_CPU_MODEL_PREFIX: Final = "feature.node.kubernetes.io/cpu-model."
NFD_PCI_PREFIX: Final = "feature.node.kubernetes.io/pci-"

#: Extended resources that count whole GPUs.
GPU_RESOURCES: Final = ("nvidia.com/gpu", "amd.com/gpu")

WORKLOAD_CLASS: Final = "joulie.io/workload-class"

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY_AGENT: Final = "joulie-agent"
