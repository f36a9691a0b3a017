"""Triton's interpreter as a backend for the CPU, in every Python process whose PYTHONPATH has this folder.

vLLM's V2 model runner needs Triton, whose packages on PyPI compile for GPUs alone; its interpreter runs the kernels in
numpy, slowly. Only for tests.
"""

import os
from types import SimpleNamespace
from typing import Any

if __name__ == "sitecustomize":  # not if pytest looks for doctests here
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        from triton.backends import backends
    except ImportError:  # a process without vLLM's packages
        backends = {}
    driver = SimpleNamespace(is_active=lambda: False)  # as a CPU's, which vLLM does not count
    cpu: Any = SimpleNamespace(compiler=None, driver=driver)
    backends["cpu"] = cpu
