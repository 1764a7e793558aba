"""Utilities. Submodules are imported when they are first looked at."""
import importlib as _importlib
import weakref as _weakref

import rushlight as torch

_SUBMODULES = frozenset((
    "_contextlib", "_cxx_pytree", "_device", "_foreach_utils", "_import_utils", "_mode_utils", "_python_dispatch",
    "_pytree", "_triton", "_typing_utils", "backcompat", "backend_registration", "benchmark",
    "bundled_inputs", "checkpoint", "collect_env", "cpp_extension", "data", "deterministic", "dlpack", "file_baton",
    "flop_counter", "hooks", "mobile_optimizer", "model_zoo", "module_tracker", "show_pickle", "tensorboard",
    "throughput_benchmark", "weak"))


def __getattr__(name):
    if name in _SUBMODULES:
        return _importlib.import_module("rushlight.utils." + name)
    if name == "ThroughputBenchmark":
        from rushlight.utils.throughput_benchmark import ThroughputBenchmark
        return ThroughputBenchmark
    if name in ("rename_privateuse1_backend", "generate_methods_for_privateuse1_backend"):
        from rushlight.utils import backend_registration
        return getattr(backend_registration, name)
    if name == "cmake_prefix_path":
        return _importlib.import_module("rushlight.utils.cpp_extension")._cmake_folder()
    raise AttributeError("module 'torch.utils' has no attribute '%s'" % name)


def set_module(obj, mod):
    """Say that obj belongs to the module named mod."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def _swapped(grads):
    raise RuntimeError("Trying to execute AccumulateGrad node that was poisoned by swap_tensors: a tensor of this graph was swapped since")


def swap_tensors(t1, t2):
    """Exchange two tensors: data, attributes and class. All references see the exchange."""
    if t1 is t2:
        return
    for name, t in (("t1", t1), ("t2", t2)):
        if _weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if getattr(t, "__slots__", None) and type(t) is not torch.Tensor:
            raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, t in (("t1", t1), ("t2", t2)):
        if t._use_count() > 1:
            # A leaf that a graph leads to may go, if backward never comes there.
            node = torch.autograd.graph.get_gradient_edge(t).node if t._use_count() == 2 and t.is_leaf else None
            if node is None or t._use_count() != 2:
                raise RuntimeError(f"Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node but got {t._use_count()}: make sure you are not holding "
                                   "references to the tensor in other places.")
            node.register_prehook(_swapped)
    torch._C._swap_tensor_impl(t1, t2)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__


def get_cpp_backtrace(frames_to_skip=0, maximum_number_of_frames=64):
    """The stack of the calling Python code; C frames are not recorded."""
    import traceback
    return "".join(traceback.format_stack(limit=maximum_number_of_frames + frames_to_skip)[:-1 - frames_to_skip])
