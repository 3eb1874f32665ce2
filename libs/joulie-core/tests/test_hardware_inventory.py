import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.inventory import Inventory, words
from joulie_core.kinds.node_hardware import Exactness

INVENTORY = Inventory.load()


@pytest.mark.parametrize(
    ("raw", "key", "exactness", "model"),
    [
        ("AMD EPYC 9654 96-Core Processor", "amd-epyc-9654", "exact", "AMD EPYC 9654"),
        ("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763", "exact", "AMD EPYC 7763"),
        ("AMD EPYC 7713P 64-Core Processor", "amd-epyc-7713", "exact", "AMD EPYC 7713"),
        ("AMD_EPYC_7H12", "amd-epyc-7h12", "exact", "AMD EPYC 7H12"),
        ("AMD EPYC 9965 192-Core Processor", "amd-epyc-9965", "exact", "AMD EPYC 9965"),
        ("AMD EPYC 8534P", "amd-epyc-8534p", "exact", "AMD EPYC 8534P"),
        ("AMD EPYC 7B13", "amd-epyc-7713", "proxy", "AMD EPYC 7B13"),
        ("AMD EPYC 9R14", "amd-epyc-9554", "proxy", "AMD EPYC 9R14"),
        ("AMD EPYC-Milan Processor", "amd-epyc-7713", "proxy", "AMD EPYC milan"),
        ("AMD EPYC 7551 32-Core Processor", "amd-epyc-7551", "exact", "AMD EPYC 7551"),
        ("AMD EPYC 4584PX 16-Core Processor", "generic-amd-cpu", "generic", "amd epyc 4584px 16 core"),
        ("Intel(R) Xeon(R) Platinum 8380HL CPU @ 2.90GHz", "intel-xeon-8380hl", "exact", "Intel Xeon 8380HL"),
        ("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", "intel-xeon-8380", "exact", "Intel Xeon 8380"),
        ("Intel(R) Xeon(R) Gold 6348H CPU @ 2.30GHz", "intel-xeon-6348h", "exact", "Intel Xeon 6348H"),
        ("Intel(R) Xeon(R) Platinum 8480+", "intel-xeon-8480", "exact", "Intel Xeon 8480"),
        ("Intel-Xeon-Platinum-8480", "intel-xeon-8480", "exact", "Intel Xeon 8480"),
        ("INTEL(R) XEON(R) PLATINUM 8592+", "intel-xeon-8592", "exact", "Intel Xeon 8592"),
        ("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", "intel-xeon-6338", "exact", "Intel Xeon 6338"),
        ("Intel(R) Xeon(R) 6980P", "intel-xeon-6980p", "exact", "Intel Xeon 6980P"),
        ("Intel(R) Xeon(R) 6780E", "intel-xeon-6780e", "exact", "Intel Xeon 6780E"),
        ("Intel(R) Xeon(R) Platinum 8488C", "intel-xeon-8470", "proxy", "Intel Xeon 8488C"),
        ("Intel(R) Xeon(R) 6521P", "intel-xeon-6960p", "proxy", "Intel Xeon 6521P"),
        ("Intel Xeon Processor (Icelake)", "intel-xeon-8358", "proxy", "Intel Xeon ice-lake"),
        ("Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", "generic-intel-cpu", "generic", "intel xeon e5 2690 v4"),
        ("GenuineIntel", "generic-intel-cpu", "generic", "genuineintel"),
        ("9654", "amd-epyc-9654", "exact", "AMD EPYC 9654"),
    ],
)
def test_cpu_strings_are_recognised(raw, key, exactness, model):
    match = INVENTORY.find_cpu(raw)
    assert (match.spec.key, match.exactness, match.model) == (key, exactness, model)


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ("Intel(R) Core(TM) i7-8559U CPU @ 2.70GHz", "generic-intel-desktop-cpu"),
        ("11th Gen Intel(R) Core(TM) i5-11400 @ 2.60GHz", "generic-intel-desktop-cpu"),
        ("Intel(R) Core(TM) i9-9480XE", "generic-intel-desktop-cpu"),
        ("Intel(R) Core(TM) Ultra 7 165H", "generic-intel-desktop-cpu"),
        ("Intel(R) Pentium(R) Gold 8505", "generic-intel-desktop-cpu"),
        ("Intel(R) Atom(TM) CPU C3558", "generic-intel-desktop-cpu"),
        ("AMD Ryzen 7 7745HX with Radeon Graphics", "generic-amd-desktop-cpu"),
        ("AMD Ryzen 9 9955HX3D", "generic-amd-desktop-cpu"),
        ("AMD Ryzen 5 9645 6-Core Processor", "generic-amd-desktop-cpu"),
        ("AMD Ryzen Threadripper 3970X 32-Core Processor", "generic-amd-cpu"),
        ("AMD Ryzen Threadripper PRO 9945WX", "generic-amd-cpu"),
        ("AMD Opteron(tm) Processor 6282 SE", "generic-amd-cpu"),
        ("Intel(R) Xeon(R) w9-3495X", "generic-intel-cpu"),
        ("Intel(R) Xeon(R) W-3245 CPU @ 3.20GHz", "generic-intel-cpu"),
        ("Intel(R) Xeon(R) D-2796TE CPU @ 2.00GHz", "generic-intel-cpu"),
        ("Intel(R) Xeon(R) E-2388G CPU @ 3.20GHz", "generic-intel-cpu"),
        ("Intel(R) Xeon(R) CPU E5-4650 v2 @ 2.40GHz", "generic-intel-cpu"),
    ],
)
def test_a_server_never_stands_in_for_a_desktop_or_another_segment(raw, key):
    match = INVENTORY.find_cpu(raw)
    assert (match.spec.key, match.exactness) == (key, Exactness.GENERIC)
    assert match.other_segment


def test_the_figures_of_a_desktop_are_those_of_a_small_processor():
    desktop, server = (INVENTORY.find_cpu(raw).spec for raw in ("Intel Core i7-8559U", "Intel Xeon"))
    assert desktop.max_watts <= 125 < server.max_watts
    assert INVENTORY.find_cpu("AMD Ryzen 9 9955HX3D").spec.max_watts <= 125


def test_a_number_without_a_brand_is_that_of_the_server():
    assert INVENTORY.find_cpu("8558").spec.key == "intel-xeon-8558"
    assert INVENTORY.find_cpu("Intel 8559").exactness is Exactness.PROXY


@pytest.mark.parametrize(
    ("raw", "key", "exactness"),
    [
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm", "exact"),
        ("NVIDIA-H100-80GB-HBM3", "nvidia-h100-sxm", "exact"),
        ("NVIDIA H100 PCIe", "nvidia-h100-pcie", "exact"),
        ("NVIDIA H100 NVL", "nvidia-h100-nvl", "exact"),
        ("H100", "nvidia-h100-sxm", "proxy"),
        ("NVIDIA H200", "nvidia-h200", "exact"),
        ("NVIDIA B200", "nvidia-b200", "exact"),
        ("NVIDIA GB200", "nvidia-gb200", "exact"),
        ("NVIDIA-A100-SXM4-80GB", "nvidia-a100-sxm4-80gb", "exact"),
        ("NVIDIA A100-SXM4-40GB", "nvidia-a100-sxm4-40gb", "exact"),
        ("NVIDIA A100 80GB PCIe", "nvidia-a100-pcie-80gb", "exact"),
        ("NVIDIA A100-PCIE-40GB", "nvidia-a100-pcie-40gb", "exact"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia-a100-sxm4-40gb", "exact"),
        ("A100", "nvidia-a100-sxm4-80gb", "proxy"),
        ("NVIDIA A10", "nvidia-a10", "exact"),
        ("NVIDIA A10G", "nvidia-a10", "proxy"),
        ("NVIDIA A30", "nvidia-a30", "exact"),
        ("NVIDIA A40", "nvidia-a40", "exact"),
        ("NVIDIA L4", "nvidia-l4", "exact"),
        ("NVIDIA L40", "nvidia-l40", "exact"),
        ("NVIDIA L40S", "nvidia-l40s", "exact"),
        ("Tesla T4", "nvidia-t4", "exact"),
        ("Tesla V100-SXM2-16GB", "nvidia-v100-sxm2-16gb", "exact"),
        ("Tesla V100-PCIE-32GB", "nvidia-v100-pcie", "exact"),
        ("Tesla P100-PCIE-16GB", "nvidia-p100-pcie", "exact"),
        ("AMD_Instinct_MI300X_OAM", "amd-instinct-mi300x", "exact"),
        ("AMD Instinct MI250X / MI250", "amd-instinct-mi250x", "exact"),
        ("AMD Instinct MI210", "amd-instinct-mi210", "exact"),
        ("AMD Instinct MI325X", "amd-instinct-mi325x", "exact"),
        ("NVIDIA GeForce RTX 4090", "generic-nvidia-gpu", "generic"),
        ("Radeon Pro W7900", "generic-amd-gpu", "generic"),
        # openb-2023
        ("V100M16", "nvidia-v100-sxm2-16gb", "exact"),
        ("V100M32", "nvidia-v100-sxm2-32gb", "exact"),
        ("T4", "nvidia-t4", "exact"),
        ("A10", "nvidia-a10", "exact"),
        ("P100", "nvidia-p100-pcie", "proxy"),
        ("G2", "nvidia-a10", "proxy"),
        ("G3", "nvidia-a100-sxm4-80gb", "proxy"),
    ],
)
def test_gpu_strings_are_recognised(raw, key, exactness):
    match = INVENTORY.find_gpu(raw)
    assert (match.spec.key, match.exactness) == (key, exactness)


@pytest.mark.parametrize("raw", ["", "-", "Ampere Altra", "qemu64", "12345678", "Cortex-A72"])
def test_what_names_no_known_vendor_is_not_guessed(raw):
    assert INVENTORY.find_cpu(raw) is None
    assert INVENTORY.find_gpu(raw) is None


@pytest.mark.parametrize(
    ("vendor", "family", "model", "key"),
    [
        ("AMD", 23, 49, "amd-epyc-7702"),
        ("AMD", 25, 17, "amd-epyc-9554"),
        ("Intel", 6, 106, "intel-xeon-8358"),
        ("Intel", 6, 143, "intel-xeon-8470"),
        ("Intel", 6, 175, "intel-xeon-6766e"),
        ("Intel", 6, 1, "generic-intel-cpu"),
    ],
)
def test_a_cpuid_gives_its_generation(vendor, family, model, key):
    assert INVENTORY.find_cpu_by_id(vendor, family, model).spec.key == key


def test_a_foreign_cpuid_is_not_guessed():
    assert INVENTORY.find_cpu_by_id("ARM", 8, 1) is None


@pytest.mark.parametrize("spec", INVENTORY.cpus.values(), ids=INVENTORY.cpus)
def test_every_cpu_is_found_by_its_own_name_and_plausible(spec):
    for raw in (
        spec.model,
        spec.key,
        spec.model.replace(" ", "_").upper(),
        f"{spec.model} {spec.cores}-Core Processor",
    ):
        match = INVENTORY.find_cpu(raw)
        assert match.spec is spec
        assert match.exactness is Exactness.EXACT
    assert 0 < spec.idle_watts < spec.max_watts
    assert 0 < spec.min_watts < spec.max_watts <= 500
    assert 1.5 < spec.base_ghz < spec.boost_ghz <= 5
    assert 4 <= spec.cores <= 192
    assert spec.source


@pytest.mark.parametrize("spec", INVENTORY.gpus.values(), ids=INVENTORY.gpus)
def test_every_gpu_is_found_by_its_own_name_and_plausible(spec):
    for raw in (spec.model, spec.key, spec.model.replace(" ", "-")):
        match = INVENTORY.find_gpu(raw)
        assert match.spec is spec
        assert match.exactness is Exactness.EXACT
    assert 0 < spec.idle_watts < spec.min_watts < spec.default_watts <= spec.max_watts
    assert spec.fp16_tflops > 0
    assert spec.source


@pytest.mark.parametrize("vendor", ["AMD", "Intel", None, "Phytium"])
def test_generic_entries_are_marked_as_generic(vendor):
    assert INVENTORY.generic_cpu(vendor).key.startswith("generic-")
    assert INVENTORY.generic_gpu(vendor).key.startswith("generic-")


def test_a_model_is_listed_once():
    numbers = [key.rpartition("-")[2] for key in INVENTORY.cpus]
    assert len(numbers) == len(set(numbers))


def test_every_proxy_pattern_covers_its_own_models():
    for generation in INVENTORY._generations:
        own = [spec for spec in INVENTORY.cpus.values() if spec.generation == generation.proxy.generation]
        unmatched = [spec.key for spec in own if not generation.pattern.fullmatch(spec.key.rpartition("-")[2].upper())]
        assert unmatched == []


@given(st.text(max_size=40))
def test_any_string_is_looked_up_without_failure_and_by_words_only(raw):
    for find in (INVENTORY.find_cpu, INVENTORY.find_gpu):
        match = find(raw)
        again = find(" ".join(words(raw)))
        assert (match and match.spec) == (again and again.spec)


def test_loading_twice_gives_the_same_inventory():
    assert Inventory.load() is Inventory.load()


def test_demanding_jobs_on_a_measured_gpu_draw_its_own_share_of_the_limit_and_others_the_typical_one():
    p100, h100 = INVENTORY.gpus["nvidia-p100-pcie"], INVENTORY.gpus["nvidia-h100-sxm"]
    assert p100.natural_watts / p100.default_watts == pytest.approx(0.68, abs=0.01)
    assert h100.natural_watts / h100.default_watts == pytest.approx(0.90, abs=0.01)
    assert 0.5 < h100.knee_watts / h100.natural_watts < 0.55
