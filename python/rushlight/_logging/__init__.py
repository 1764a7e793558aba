"""torch._logging: levels of the package's loggers."""
import functools
import logging
import warnings

_LOGGERS = {"all": ("torch",), "torch": ("torch",), "dynamo": ("torch._dynamo",), "aot": ("torch._functorch.aot_autograd",),
            "autograd": ("torch.autograd",), "inductor": ("torch._inductor",), "dynamic": ("torch.fx.experimental.symbolic_shapes",),
            "distributed": ("torch.distributed", "torch.nn.parallel.distributed"), "dtensor": ("torch.distributed.tensor",),
            "c10d": ("torch.distributed.distributed_c10d",), "ddp": ("torch.nn.parallel.distributed",), "fsdp": ("torch.distributed.fsdp",),
            "pp": ("torch.distributed.pipelining",), "onnx": ("torch.onnx",), "export": ("torch.export",), "caching": ("torch._inductor",),
            "cudagraphs": ("torch._inductor.cudagraph_trees",)}
# What a compiler would show of its work: asked for with True, and never made.
_ARTIFACTS = frozenset("""aot_graphs aot_joint_graph aot_graphs_effects autograd_cache_key autotuning benchmarking bytecode cache_hit_miss
compiled_autograd compiled_autograd_verbose compute_dependencies cudagraph_static_inputs ddp_graphs external fusion graph graph_breaks graph_code
graph_code_verbose graph_region_expansion graph_sizes guards hierarchical_compile ir_post_fusion ir_pre_fusion kernel_code loop_ordering
loop_tiling onnx_diagnostics output_code overlap perf_hints post_grad_graphs pre_grad_graphs recompiles recompiles_verbose schedule side_effects
simplification sym_node trace_bytecode trace_call trace_shape_events trace_source verbose_guards""".split())


def set_logs(*, modules=None, **levels):
    """Levels by the names of parts (dynamo=logging.DEBUG), of other loggers by `modules`; without any, all are as at the start."""
    for name in levels:
        if name not in _LOGGERS and name not in _ARTIFACTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
    asked = {path: (name, level) for name, level in levels.items() if name in _LOGGERS and level is not None for path in _LOGGERS[name]}
    asked.update({path: (path, level) for path, level in (modules or {}).items()})
    for name, level in asked.values():
        if level not in (50, 40, 30, 20, 10, 0):
            raise ValueError(f"Unrecognized log level for log {name}: {level}, valid level values are: 50,40,30,20,10,0")
    for paths in _LOGGERS.values():
        for path in paths:
            logging.getLogger(path).setLevel(logging.NOTSET)
    for path, (_, level) in asked.items():
        logging.getLogger(path).setLevel(level)


def getArtifactLogger(module_qname, artifact_name):
    """The logger of one kind of output of a module."""
    if artifact_name not in _ARTIFACTS:
        raise ValueError(f"Artifact name: {artifact_name!r} not registered, please call register_artifact({artifact_name!r}) in torch._logging.registrations.")
    return logging.getLogger(module_qname + ".__" + artifact_name)


@functools.lru_cache(None)
def warning_once(logger, *args, **kwargs):
    """logger.warning, the same only once."""
    logger.warning(*args, **kwargs)


class LazyString:
    """A text that is made when it is shown."""

    def __init__(self, func, *args, **kwargs):
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self):
        return self.func(*self.args, **self.kwargs)


def hide_warnings(filter_fn=lambda *args, **kwargs: False):
    """A context in which warnings for which the function holds are not shown."""
    return _Hidden(filter_fn)


class _Hidden(warnings.catch_warnings):
    def __init__(self, hides):
        super().__init__()
        self._hides = hides

    def __enter__(self):
        super().__enter__()
        show = warnings.showwarning
        warnings.showwarning = lambda *args, **kwargs: None if self._hides(*args, **kwargs) else show(*args, **kwargs)


def trace_structured(*args, **kwargs):
    """Nothing is traced."""


dtrace_structured = trace_structured
