"""Modules that only hold names: PyTorch has a module of that name, and what programs look up in it lives elsewhere or is not there.

They have no files. A row of the table says what a module holds, and a finder on sys.meta_path makes it when it is imported:

    home: a b c=d       of the module `home` what it calls a, b and d; d is called c here; * is all that it offers
    = a=True            values
    ! reason: a b       functions that raise NotImplementedError with that reason
    ? home.function     whatever is asked for is what function(module's name, name) returns

A semicolon stands between two of them; a module without a row here and without a file does not exist. A dot behind a name: a package.
"""
import importlib
import importlib.machinery
import sys

_PIPES, _MAPS = "utils.data.datapipes.iter", "utils.data.datapipes.map"
_GPU_RANDOM = "get_rng_state get_rng_state_all set_rng_state set_rng_state_all manual_seed manual_seed_all seed seed_all initial_seed"
_BUNDLED = "bundled inputs belong to TorchScript files, which rushlight does not write"

TABLE = {
    "_higher_order_ops.associative_scan": "_higher_order_ops: associative_scan",
    "_higher_order_ops.cond": "_higher_order_ops: cond",
    "_higher_order_ops.map": "_higher_order_ops: map",
    "_higher_order_ops.scan": "_higher_order_ops: scan",
    "_higher_order_ops.while_loop": "_higher_order_ops: while_loop",
    "_prims.": "",
    "accelerator.memory": "accelerator: empty_cache get_memory_info max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats "
                          "reset_accumulated_memory_stats reset_peak_memory_stats",
    "ao.nn.quantizable.": "? _absent.of_module",
    "ao.nn.quantized.reference.": "",
    "ao.pruning.scheduler.": "",
    "ao.pruning.scheduler.base_scheduler": "ao.pruning: BaseScheduler",
    "ao.pruning.scheduler.cubic_scheduler": "ao.pruning: CubicSL",
    "ao.pruning.scheduler.lambda_scheduler": "ao.pruning: LambdaSL",
    "ao.pruning.sparsifier.": "",
    "ao.pruning.sparsifier.base_sparsifier": "ao.pruning: BaseSparsifier",
    "ao.pruning.sparsifier.nearly_diagonal_sparsifier": "ao.pruning: NearlyDiagonalSparsifier",
    "ao.pruning.sparsifier.utils": "ao.pruning: FakeSparsity fqn_to_module get_arg_info_from_tensor_fqn module_to_fqn",
    "ao.pruning.sparsifier.weight_norm_sparsifier": "ao.pruning: WeightNormSparsifier",
    "autograd.profiler_legacy": "autograd.profiler: profile",
    "backends.coreml.": "",
    "backends.cudnn.rnn": "",
    "backends.xeon.": "",
    "backends.xnnpack.": "= enabled=False",
    "compiler.config": "= job_id=None cache_key_tag='' dynamic_sources='' unbacked_sources='' force_disable_caches=False "
                       "dynamic_shapes=True assume_static_by_default=True automatic_dynamic_shapes=True recompile_limit=8 accumulated_recompile_limit=256 verbose=False "
                       "capture_scalar_outputs=False capture_dynamic_output_shape_ops=False log_file_name=None fail_on_recompile_limit_hit=False "
                       "allow_unspec_int_on_nn_module=False skip_tensor_guards_with_matching_dict_tags=True enable_cpp_symbolic_shape_guards=False wrap_top_frame=False "
                       "reorderable_logging_functions=set()",
    "cuda.gds": "",
    "cuda.random": "cuda: " + _GPU_RANDOM,
    "cuda.sparse": "",
    "export._trace": "export._export: _export=export",
    "fx.config": "= disable_progress=True verbose_progress=False",
    "fx.experimental._config": "= translation_validation=False skip_dtype_check_in_meta_registrations=False",
    "fx.experimental.const_fold": "! it is not supported: split_const_subgraphs",
    "fx.passes.param_fetch": "! it is not supported: lift_lowering_attrs_to_nodes",
    "jit._script": "jit: RecursiveScriptModule ScriptFunction ScriptModule interface script script_method",
    "jit._trace": "jit: ScriptFunction TopLevelTracedModule TracedModule TracerWarning TracingCheckError is_tracing script_if_tracing trace trace_module "
                  "_get_trace_graph _script_if_tracing",
    "mps.event": "mps: Event",
    "nn.quantized.functional": "ao.nn.quantized.functional: *",
    "onnx.utils": "onnx: export is_in_onnx_export",
    "nn.modules.linear_cross_entropy": "nn: LinearCrossEntropyLoss",
    "signal.windows.windows": "signal.windows: *",
    "sparse.semi_structured": "sparse: SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS to_sparse_semi_structured",
    "testing._internal.inductor_utils": "= HAS_CPU=False HAS_CUDA=False HAS_GPU=False HAS_XPU=False HAS_TRITON=False HAS_MPS=False "
                                        "HAS_CUDA_AND_TRITON=False HAS_GPU_AND_TRITON=False HAS_MULTIGPU=False GPU_TYPE='cuda'; "
                                        "! there is no code generator: clone_preserve_strides_offset",
    "utils._cxx_pytree": "utils._pytree: *",
    "utils.bundled_inputs": "! " + _BUNDLED + ": augment_model_with_bundled_inputs bundle_inputs bundle_randn",
    _PIPES + ".callable": _PIPES + ": CollatorIterDataPipe MapperIterDataPipe",
    _PIPES + ".combinatorics": _PIPES + ": SamplerIterDataPipe ShufflerIterDataPipe",
    _PIPES + ".combining": _PIPES + ": ConcaterIterDataPipe DemultiplexerIterDataPipe ForkerIterDataPipe MultiplexerIterDataPipe ZipperIterDataPipe",
    _PIPES + ".filelister": _PIPES + ": FileListerIterDataPipe",
    _PIPES + ".fileopener": _PIPES + ": FileOpenerIterDataPipe",
    _PIPES + ".grouping": _PIPES + ": BatcherIterDataPipe GrouperIterDataPipe UnBatcherIterDataPipe",
    _PIPES + ".selecting": _PIPES + ": FilterIterDataPipe",
    _PIPES + ".sharding": _PIPES + ": SHARDING_PRIORITIES ShardingFilterIterDataPipe",
    _PIPES + ".streamreader": _PIPES + ": StreamReaderIterDataPipe",
    _PIPES + ".utils": _PIPES + ": IterableWrapperIterDataPipe",
    _MAPS + ".callable": _MAPS + ": MapperMapDataPipe",
    _MAPS + ".combinatorics": _MAPS + ": ShufflerIterDataPipe",
    _MAPS + ".combining": _MAPS + ": ConcaterMapDataPipe ZipperMapDataPipe",
    _MAPS + ".grouping": _MAPS + ": BatcherMapDataPipe",
    _MAPS + ".utils": _MAPS + ": SequenceWrapperMapDataPipe",
    "xpu.memory": "xpu: empty_cache max_memory_allocated memory_allocated memory_stats",
    "xpu.random": "xpu: " + _GPU_RANDOM,
}
# Quantized layers have many addresses: the file that PyTorch has them in, their package's, and the same in the former home.
for _old in ("ao.nn.", "nn."):
    for _home, _files in (("intrinsic", "fused"), ("intrinsic.qat", "conv_fused linear_fused linear_relu"), ("intrinsic.quantized.dynamic", "linear_relu"),
                          ("intrinsic.quantized", "bn_relu conv_add conv_relu linear_relu"), ("qat", "conv embedding_ops linear"),
                          ("quantized.dynamic", "conv linear rnn"),
                          ("quantized", "activation batchnorm conv dropout embedding_ops functional_modules linear normalization rnn utils")):
        _row = "ao.nn.%s: *; ? ao.nn.part" % _home if _home != "quantized" else "ao.nn.quantized: *; ? ao.nn.quantized.layer"
        TABLE.update(dict.fromkeys((_old + _home + ".modules." + _file for _file in ("", *_files.split())), _row))
        if _old == "nn." and _home != "quantized":
            TABLE["nn.%s." % _home] = _row
for _file in "fake_quantize fuse_modules observer qconfig quant_type quantization_mappings quantize quantize_fx stubs".split():
    TABLE["quantization." + _file] = "ao.quantization.%s: *" % _file
TABLE.update(dict.fromkeys(("onnx.symbolic_opset%d" % n for n in range(7, 21)), "? onnx._symbolic.missing"))

_OWN = __name__.rpartition(".")[0] + "."
_NAMES = {_OWN + name.rstrip("."): name for name in TABLE}


def _fill(module, short, part):
    """What one part of a row gives the module."""
    things = vars(module)
    if part[0] == "=":
        import ast
        pairs = (pair.split("=", 1) for pair in part[1:].split())
        things.update({name: ast.literal_eval(value) for name, value in pairs})
    elif part[0] == "!":
        from rushlight import _absent
        reason, names = part[1:].strip().rsplit(": ", 1)
        things.update({name: _absent.function("torch.%s.%s" % (short, name), NotImplementedError, reason) for name in names.split()})
    elif part[0] == "?":
        home, function = part[1:].strip().rsplit(".", 1)
        answer = getattr(importlib.import_module(_OWN + home), function)
        things["__getattr__"] = lambda name: answer(short, name)
    else:
        home, names = part.split(": ")
        home = importlib.import_module(_OWN + home)
        pairs = [name.partition("=") for name in (home.__all__ if names == "*" else names.split())]
        things.update({here: getattr(home, there or here) for here, _, there in pairs})
        things["__all__"] = sorted(here for here, _, _ in pairs if not here.startswith("_"))


class Finder:
    """Finds the modules of the table; it is asked before the folders, where a package without a file may have left one behind."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        name = _NAMES.get(fullname)
        if name is None:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, Finder, origin=__file__, is_package=name.endswith("."))
        spec.has_location = True    # for who looks for its source: this file, which says where the names live
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        row = TABLE[_NAMES[module.__spec__.name]]
        module.__doc__ = "Names of PyTorch's module; rushlight/_modules.py says where they live."
        for part in row.split("; ") if row else ():
            _fill(module, module.__spec__.name[len(_OWN):], part)

    @staticmethod
    def get_code(fullname):
        return compile("import importlib; importlib.import_module(%r)" % fullname, __file__, "exec")

    @staticmethod
    def get_source(fullname):
        return TABLE[_NAMES[fullname]]


sys.meta_path.insert(0, Finder)
