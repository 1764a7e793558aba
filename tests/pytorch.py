#!/usr/bin/env python3
"""PyTorch's own test files under rushlight and under PyTorch: what passes there should pass here.

    tests/pytorch.py SOURCE [suites.py's options] FILE...

SOURCE holds a release of PyTorch's source as pytorch-vX (Debian's pytorch_2.6.0+dfsg.orig.tar.xz, unpacked, without test/conftest.py; in test_linalg.py
super(self.__class__, self) must be super(), as the classes of 2.13's harness are subclasses). A
FILE is test_nn for test/test_nn.py, nn__test_pooling for test/nn/test_pooling.py. The Python that runs this has PyTorch 2.13, pytest with
pytest-timeout, expecttest and hypothesis. Runs as `tests/suites.py --ours` does: what passes here is not run there.

The files need torch.testing._internal, which is PyTorch's inside: under rushlight, pytest loads this file too, and it lets PyTorch's own
files answer for what is missing, and puts classes that do nothing in the place of names that those files only mention.
"""
import ast
import collections.abc
import enum
import functools
import importlib
import importlib.util
import os
import pathlib
import re
import sys
import types

# Names that PyTorch's files mention and that are nobody's interface: classes of which nothing is made.
MENTIONED = {
    "torch._C": "_jit_clear_class_registry _get_custom_class_python_wrapper _SchemaArgument _SchemaInfo _enter_dual_level _exit_dual_level _register_opaque_type",
    "torch._C._functorch": "reshape_dim_into reshape_dim_outof _add_batch_dim _remove_batch_dim current_level dlevel _assert_wrapped_functional _func_decrement_nesting "
                           "_func_increment_nesting _grad_decrement_nesting _grad_increment_nesting _jvp_decrement_nesting _propagate_functional_input_mutation "
                           "_unwrap_functional_tensor _wrap_for_grad _wrap_functional_tensor get_inplace_requires_grad_allowed set_inplace_requires_grad_allowed "
                           "get_single_level_autograd_function_allowed set_single_level_autograd_function_allowed",
    "torch._dynamo.utils": "LazyString clone_input",
    "torch._export.utils": "node_inline_ nodes_count nodes_filter nodes_map sequential_split register_dataclass_as_pytree_node _is_cia_op _maybe_find_pre_dispatch_tf_mode_for_export",
    "torch._functorch.vmap": "restore_vmap _check_out_dims_is_int_or_int_pytree",
    "torch._functorch.aot_autograd": "aot_export_module",
    "torch._inductor.compile_fx": "split_const_gm",
    "torch.export._trace": "DEFAULT_EXPORT_DYNAMO_CONFIG _export_to_torch_ir _convert_ts_to_export_experimental",
    "torch.export.unflatten": "_disable_interpreter",
    "torch._guards": "CompileId TracingContext tracing",
    "torch._library.infer_schema": "tuple_to_list",
    "torch.fx.experimental.const_fold": "FoldedGraphModule",
    "torch.fx._symbolic_trace": "_ConstantAttributeType",
    "torch.fx.tensor_type": "is_consistent is_more_precise",
    "torch._jit_internal": "_get_model_id boolean_dispatched",
    "torch._ops": "DispatchKey",
    "torch._subclasses": "CrossRefFakeMode",
    "torch.masked.maskedtensor.core": "_map_mt_args_kwargs _wrap_result",
    "torch._subclasses.functional_tensor": "CppFunctionalizeAPI PythonFunctionalizeAPI FunctorchFunctionalizeAPI disable_functional_mode dispatch_functionalize",
    "torch._subclasses.meta_utils": "assert_metadata_eq is_sparse_any",
    "torch._utils_internal": "log_trace_structured_event log_torchscript_usage",
    "torch.ao.quantization": "quantize_dynamic_jit quantize_jit",
    "torch.autograd": "_calculate_shape",
    "torch.autograd.gradcheck": "_get_numerical_jacobian _iter_tensors",
    "torch.distributions.dirichlet": "_Dirichlet_backward",
    "torch.fx.experimental.proxy_tensor": "_temp_remove_metadata_torch_function_mode _temp_remove_pre_dispatch_torch_function_mode",
    "torch.fx.operator_schemas": "_normalize_function_or_error _torchscript_type_to_python_type",
    "torch.jit._recursive": "wrap_cpp_module",
    "torch.nested._internal.nested_tensor": "ViewNestedFromBuffer",
    "torch.utils.checkpoint": "_infer_device_type",
    "torch.utils.tensorboard.summary": "int_to_half tensor_proto",
    "functorch.compile": "compiled_function",
}
# Modules of which only names are mentioned.
HOLLOW = ("torch._refs torch._refs.nn torch._refs.nn.functional torch._refs.special torch._refs.linalg torch._refs.fft torch._refs._conversions torch._refs.signal "
          "torch._prims torch._prims.executor torch._prims.context torch._prims_common.wrappers torch._export.wrappers torch.jit._logging torch._C._lazy torch._functorch.predispatch torch._functorch.apis torch._functorch.eager_transforms torch._higher_order_ops.cond torch.nn.utils._expanded_weights torch.nn.utils._expanded_weights.expanded_weights_utils torch._functorch.autograd_function torch._functorch.utils "
          "torch._C._lazy_ts_backend torch._C._profiler torch._C._jit_tree_views torch.backends._nnapi.prepare torch.backends._nnapi.serializer torch._awaits torch.utils.tensorboard._convert_np torch.utils.tensorboard._pytorch_graph "
          "torch.utils.tensorboard._utils functorch.experimental.control_flow torch.utils.data.datapipes.dataframe "
          "torch._export.pass_base torch._export.verifier torch._export.non_strict_utils torch._export.passes torch._export.passes.replace_set_grad_with_hop_pass torch._export.passes.replace_view_ops_with_view_copy_ops_pass "
          "torch._higher_order_ops.hints_wrap torch._higher_order_ops.map torch._higher_order_ops.torchbind torch._higher_order_ops.auto_functionalize torch._dynamo.test_case "
          "torch.export.passes torch.export.experimental torch.export._swap torch.export._remove_auto_functionalized_pass torch.export._remove_effect_tokens_pass").split()
# Settings of TorchScript's executor and compiler, which are not there: the harness turns them about every test.
SWITCHES = ("_jit_clear_class_registry _jit_get_inline_everything_mode _jit_set_inline_everything_mode _jit_get_tracer_state_warn _jit_set_tracer_state_warn _jit_get_te_must_use_llvm_cpu "
            "_jit_set_te_must_use_llvm_cpu _jit_override_can_fuse_on_cpu_legacy _debug_get_fusion_group_inlining _debug_set_autodiff_subgraph_inlining")
# What the files of an older release import and 2.13 has no longer, for both sides.
OF_OLD = {
    "functorch.experimental.control_flow": {"UnsupportedAliasMutationException": RuntimeError},
    "torch.autograd._functions.utils": {"check_onnx_broadcast": None}, "torch.export": {"export_for_training": lambda *a, **k: sys.modules["torch"].export.export(*a, **k)}, "torch.jit.frontend": {"_IS_ASTUNPARSE_INSTALLED": True},
    "torch.nn.attention.flex_attention": {"create_nested_block_mask": None}, "torch.testing._internal.common_cuda": {"tf32_is_not_fp32": lambda: False},
    "torch.testing._internal.common_mkldnn": {"bf32_on_and_off": lambda *a, **k: lambda f: f}, "torch.testing._internal.common_nn": {"new_module_tests": []},
}


def there(name):
    """PyTorch's file of a module, and its folder where it is a package."""
    for place in map(pathlib.Path, sys.path):
        module = place.joinpath(*name.split("."))
        if (place / "torch" / "testing" / "_internal").is_dir() and not (place / "rushlight").is_dir():
            if (module / "__init__.py").exists():
                return module / "__init__.py", [str(module)]
            if module.with_suffix(".py").exists():
                return module.with_suffix(".py"), None
    return None, None


class Theirs:
    """The last that is asked for a module: PyTorch's own file of it."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        file, folder = there(name.replace("rushlight", "torch", 1)) if name.partition(".")[0] in ("rushlight", "torch", "functorch") else (None, None)
        return file and importlib.util.spec_from_file_location(name, file, submodule_search_locations=folder)


class Hollow(types.ModuleType):
    """Any name is a class; words in capitals are enumerations of any member."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, _Members(name) if name.isupper() else mentioned(name))
        return getattr(self, name)


class _Members(str):
    def __getattr__(self, name):
        return name


def mentioned(name):
    """As a decorator it gives back the function; else it is nothing."""
    def made(cls, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else object.__new__(cls)
    return type(name, (), {"__new__": made, "__enter__": lambda self: self, "__exit__": lambda self, *error: None})


def nested_map(where, function, *unused):
    """A function that gives what it is given, with `function` of every value for which `where` holds."""
    def over(x):
        if isinstance(x, dict):
            return {key: over(value) for key, value in x.items()}
        return function(x) if where(x) else type(x)(map(over, x)) if isinstance(x, (tuple, list)) else x
    return over


def put(name, module):
    sys.modules[name] = sys.modules[name.replace("torch", "rushlight", 1)] = module
    parent, _, last = name.rpartition(".")
    setattr(importlib.import_module(parent), last, module)


def give(module, names):
    module = importlib.import_module(module)
    for name, value in names.items():
        if not hasattr(module, name):
            setattr(module, name, value)


def mention(text):
    """Names that a table of PyTorch's functions has and nobody calls."""
    for path, name in sorted(set(re.findall(r"^    (torch[\w.]*)\.(\w+): \[", text, re.M))):
        place = functools.reduce(getattr, path.split(".")[1:], sys.modules["torch"])
        if not hasattr(place, name) and isinstance(place, (type, types.ModuleType)):
            setattr(place, name, mentioned(name))


def borrow(module, names, **more):
    """Functions of PyTorch's own file of a module, without the rest of the file."""
    file = there(module)[0]
    tree = ast.parse(file.read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", None) in names.split()]
    space = {"torch": sys.modules["torch"], "pytree": importlib.import_module("torch.utils._pytree"), "Any": object, "Callable": collections.abc.Callable, **more}
    exec(compile(tree, str(file), "exec"), space)
    give(module, {name: space[name] for name in names.split()})


def prepare(torch):
    """torch.testing._internal is PyTorch's from now on."""
    internal = importlib.import_module("torch.testing._internal")
    internal.__path__[:] = there("torch.testing._internal")[1]
    sys.meta_path.append(Theirs)
    flow = {name: getattr(importlib.import_module("torch._higher_order_ops"), name) for name in ("cond", "map", "while_loop")}
    for name in HOLLOW:
        put(name, Hollow(name))
    for name, function in flow.items():
        setattr(sys.modules["functorch.experimental.control_flow"], name, function)
        setattr(sys.modules["torch._higher_order_ops"], name, function)
    sys.modules["torch._C._profiler"].symbolize_tracebacks = lambda tracebacks: [[] for _ in tracebacks]
    for name in ("torch.testing._comparison", "torch.masked._ops"):
        own = importlib.util.module_from_spec(Theirs.find_spec(name))
        if name == "torch.testing._comparison":
            put(name, own)
        own.__spec__.loader.exec_module(own)
    give("torch.masked", {name: getattr(own, name) for name in ("_canonical_dim", "_combine_input_and_mask", "_input_mask", "_output_mask", "_reduction_identity", "_where")})
    masked = importlib.import_module("torch.masked.maskedtensor.core")
    borrow("torch.masked.maskedtensor.core", "_masks_match _tensors_match", is_masked_tensor=masked.is_masked_tensor)
    borrow("torch._higher_order_ops.scan", "_fake_scan")
    borrow("torch._higher_order_ops.associative_scan", "_fake_associative_scan", first_slice_copy=lambda t, dim=0: t.select(dim, 0).clone(),
           functools=functools, itertools=importlib.import_module("itertools"))
    abbreviations = types.ModuleType("torch.utils._dtype_abbrs")
    abbreviations.dtype_abbrs = {d: d.abbr for d in {getattr(torch, n) for n in dir(torch) if n[0].islower() and n[-1].isdigit() or n == "bool"} if isinstance(d, torch.dtype)}
    abbreviations.dtype_abbrs_parsing = {text: d for d, text in abbreviations.dtype_abbrs.items()}
    put("torch.utils._dtype_abbrs", abbreviations)
    for module, names in MENTIONED.items():
        give(module, {name: mentioned(name) for name in names.split()})
    mention(there("torch.testing._internal.generated.annotated_fn_args")[0].read_text())
    states = enum.Enum("_TorchFunctionState", "ENABLED SUBCLASSES_DISABLED ALL_DISABLED")
    give("torch._C", {"_TorchFunctionState": states, "_get_torch_function_state": lambda: states.ENABLED, "_set_torch_function_state": lambda state: None,
                      "_get_all_dtypes": lambda: list(abbreviations.dtype_abbrs), "_ConvBackend": _Members(), "_SchemaArgType": _Members(),
                      **{name: mentioned(name) for name in ("_DisablePythonDispatcher", "_EnablePythonDispatcher", "_EnablePreDispatch")}})
    give("torch._C", {"_debug_only_are_vmap_fallback_warnings_enabled": lambda: False, "_debug_only_display_vmap_fallback_warnings": lambda on: None})
    give("torch._C", {**{name: lambda *setting: False for name in SWITCHES.split()}, "_ivalue_tags_match": lambda a, b: True})
    give("torch.autograd.function", {"_nested_map": nested_map})
    give("torch._C._functorch", {"TransformType": _Members(), "peek_interpreter_stack": lambda: None, "_is_vmap_fallback_enabled": lambda: True, "_set_vmap_fallback_enabled": lambda on: None})
    give("torch._utils_internal", {"get_writable_path": lambda path: path, "get_file_path": os.path.join, "get_file_path_2": lambda *parts: parts[-1]})
    give("torch._inductor.utils", {"GPU_TYPES": ["cuda", "mps", "xpu", "mtia"]})
    give("torch._utils", {"_is_privateuse1_backend_available": lambda: False})
    give("torch.fx.experimental.symbolic_shapes", {"is_nested_int": lambda size: False})
    give("torch.fx.experimental.proxy_tensor", {"py_sym_types": (torch.SymInt, torch.SymFloat, torch.SymBool)})
    give("torch.backends", {"python_native": types.SimpleNamespace(available_dsls=[])})
    give("torch", {"_nnpack_available": lambda: False, "_running_with_deploy": lambda: False})
    torch.ops.aten._new_zeros_with_same_feature_meta = mentioned("_new_zeros_with_same_feature_meta")
    torch._foreach_zero = torch._foreach_copy = None  # only in place in PyTorch, which its lists of operations rely on
    torch.cuda.jiterator = types.SimpleNamespace(_create_jit_fn=lambda code, **options: lambda *args: None, _create_multi_output_jit_fn=lambda code, **options: lambda *args: None)
    for name in ("torch.ao.nn.qat.modules", "torch.ao.nn.quantized.modules", "torch.ao.nn.quantizable.modules", "torch.testing._utils"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            put(name, module := types.ModuleType(name))
        if not hasattr(module, "__all__"):
            module.__all__ = []


def pytest_configure(config):
    import torch
    sys.modules["torch._custom_op.functional"] = Hollow("torch._custom_op.functional")  # of 2.6, with one test
    sys.modules["export.testing"] = Hollow("export.testing")  # of export/test_export.py: what is expected to fail in its other forms
    if "rushlight" in torch.__file__:
        prepare(torch)
    for module, names in OF_OLD.items():
        give(module, names)
    common = importlib.import_module("torch.testing._internal.common_utils")
    if "rushlight" in torch.__file__:
        sys.modules["torch._dynamo.test_case"].TestCase = common.TestCase
    common.GRAPH_EXECUTOR = common.ProfilingMode.PROFILING  # else only a file's own command line sets it
    operations = importlib.import_module("torch.testing._internal.common_methods_invocations")
    give(operations.__name__, {"binary_ufuncs_and_refs": operations.binary_ufuncs})


def main():
    import suites

    class Files(dict):
        def __missing__(self, name):
            source = next(pathlib.Path(sys.argv[1]).glob("pytorch-v*"))
            return source.name, "test", ["-p", "pytorch", "-W", "ignore", "-o", "addopts=", name.replace("__", "/") + ".py"]

    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    suites.SUITES = Files()
    suites.PLUGINS.append(pathlib.Path(__file__))
    sys.argv.insert(2, "--ours")
    return suites.main()


if __name__ == "__main__":
    sys.exit(main())
