"""torch.utils.benchmark: timing of small pieces of code, and tables of the results."""
from rushlight.utils.benchmark.utils.common import (Measurement, TaskSpec, ordered_unique, select_unit,
                                                    set_torch_threads, trim_sigfig, unit_to_english)
from rushlight.utils.benchmark.utils.compare import Colorize, Compare
from rushlight.utils.benchmark.utils.fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from rushlight.utils.benchmark.utils.sparse_fuzzer import FuzzedSparseTensor
from rushlight.utils.benchmark.utils.timer import Language, Timer, timer

__all__ = ["Colorize", "Compare", "FuzzedParameter", "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "Language", "Measurement", "ParameterAlias", "TaskSpec", "Timer", "ordered_unique", "select_unit",
           "set_torch_threads", "timer", "trim_sigfig", "unit_to_english"]
