"""How the Kubernetes library is imported; each case in a process of its own, since imports cannot be undone."""

import subprocess
import sys

RSS_LIMIT_MB = 60


def run_python(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_the_models_are_not_imported():
    out = run_python(
        "import sys\n"
        "from joulie_api._kubernetes import load_library\n"
        "library = load_library()\n"
        "assert library.slim\n"
        "assert not any('models' in name for name in sys.modules if name.startswith('kubernetes_asyncio'))\n"
        "status = open('/proc/self/status').read().split('VmRSS:')[1].split()[0]\n"
        "print(int(status) // 1024)\n"
    )
    assert int(out) < RSS_LIMIT_MB


def test_importing_the_client_imports_nothing_of_the_library():
    run_python(
        "import sys, joulie_api.client, joulie_api.reflector, joulie_api.election, joulie_api.apply\n"
        "assert not any(name.startswith('kubernetes_asyncio') for name in sys.modules)\n"
    )


def test_the_full_library_can_still_be_imported_afterwards():
    run_python(
        "from joulie_api._kubernetes import load_library\n"
        "load_library()\n"
        "from kubernetes_asyncio import client\n"
        "assert client.V1Node(metadata=client.V1ObjectMeta(name='n1')).metadata.name == 'n1'\n"
    )


def test_a_library_already_imported_is_used_as_it_is():
    run_python(
        "import kubernetes_asyncio.client\n"
        "from joulie_api._kubernetes import load_library\n"
        "library = load_library()\n"
        "assert not library.slim\n"
        "assert library.api_client is kubernetes_asyncio.client.ApiClient\n"
    )


def test_a_library_laid_out_differently_is_imported_whole_and_that_is_logged(tmp_path):
    # A release whose api_client needs a model at import, which the slim import does not provide.
    package = tmp_path / "kubernetes_asyncio"
    (package / "client").mkdir(parents=True)
    (package / "config").mkdir()
    (package / "__init__.py").write_text("")
    (package / "client" / "__init__.py").write_text(
        "from kubernetes_asyncio.client.configuration import Configuration\n"
        "from kubernetes_asyncio.client.api_client import ApiClient\n"
    )
    (package / "client" / "configuration.py").write_text("class Configuration: pass\n")
    (package / "client" / "models.py").write_text("class V1Status: pass\n")
    (package / "client" / "api_client.py").write_text(
        "from kubernetes_asyncio.client.models import V1Status\nclass ApiClient: pass\n"
    )
    (package / "config" / "__init__.py").write_text("class ConfigException(Exception): pass\n")
    out = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from joulie_api._kubernetes import load_library\n"
        "library = load_library()\n"
        "assert not library.slim\n"
        "assert library.api_client.__name__ == 'ApiClient'\n"
    )
    assert "slim import failed" in out
