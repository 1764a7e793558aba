"""What PyTorch has and rushlight does not: the names are there, and calling them is a NotImplementedError that says why.

docs/not-supported.md has the same names for readers: page() writes them there.
"""

# what it is about -> (the reason, place: names)
_TABLE = {
    "quantized": ("weights in fbgemm's own layouts are not supported: torch.ops.quantized.linear_prepack keeps them with a bias", {
        "torch": "choose_qparams_optimized empty_quantized fbgemm_linear_fp16_weight "
                 "fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation "
                 "fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix quantized_gru_cell "
                 "quantized_lstm_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell",
    }),
    "quantization": ("it is not supported: quantize layer by layer, with torch.ao.quantization.prepare and convert", {
        "torch.ao.nn.quantized": "LSTM MultiheadAttention",
        "torch.ao.nn.quantizable": "LSTM LSTMCell MultiheadAttention",
        "torch.ao.quantization.quantize_fx": "convert_to_reference_fx _convert_to_reference_decomposed_fx",
    }),
    "oneDNN's layouts": ("tensors in oneDNN's own layouts are not supported: operations choose them inside of a call", {
        "torch": "mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d",
    }),
    "vendors' kernels": ("one vendor's kernel by its own name is not supported: the ordinary operation of torch or torch.nn.functional is", {
        "torch": "cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu "
                 "cudnn_convolution_transpose cudnn_grid_sampler miopen_batch_norm miopen_convolution "
                 "miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss "
                 "miopen_depthwise_convolution miopen_rnn batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt "
                 "batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats",
        "torch._C._nn": "conv_depthwise3d mkldnn_linear mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight",
    }),
    "float8": ("products of several float8 matrices with scales are not supported: convert to float32 or bfloat16 and multiply", {
        "torch": "_scaled_grouped_mm _scaled_grouped_mm_v2",
    }),
    "TorchScript": ("the compiler of TorchScript is not supported: functions and modules run as the Python they are", {
        "torch": "AliasDb Argument ArgumentSpec CallStack Capsule Code CompleteArgumentSpec ConcreteModuleType "
                 "ConcreteModuleTypeBuilder DeepCopyMemoTable DeserializationStorageContext EnumType ErrorReport ExecutionPlan "
                 "FileCheck FunctionSchema Gradient GraphExecutorState InferredType InterfaceType LiteScriptModule OperatorInfo "
                 "ScriptClass ScriptClassFunction ScriptDict ScriptList ScriptModuleSerializer "
                 "ScriptObjectProperty SerializationStorageContext StaticModule import_ir_module import_ir_module_from_buffer "
                 "merge_type_from_type_comment parse_ir parse_schema parse_type_comment unify_type_list",
    }),
    "devices": ("autocast for devices of kinds ipu and xla is not supported: there are none", {
        "torch": "get_autocast_ipu_dtype get_autocast_xla_dtype set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype "
                 "set_autocast_xla_enabled",
    }),
}
_MODULES = {place[6:]: (reason, names) for reason, places in _TABLE.values() for place, names in places.items() if "." in place}

_REMOVED = {"eig": "eig", "lstsq": "lstsq", "matrix_rank": "matrix_rank", "solve": "solve", "symeig": "eigh"}


def function(path, error, text):
    def absent(*args, **kwargs):
        raise error("%s: %s" % (path, text))
    absent.__name__ = path.rsplit(".", 1)[-1]
    absent.__qualname__ = path
    absent.__doc__ = text[0].upper() + text[1:] + "."
    return absent


def _class(path, text):
    """A class for isinstance, of which nothing is made."""
    def absent(cls, *args, **kwargs):
        raise NotImplementedError("%s: %s" % (path, text))
    name = path.rsplit(".", 1)[-1]
    return type(name, (), {"__new__": absent, "__module__": path[:-len(name) - 1], "__doc__": text[0].upper() + text[1:] + "."})


def _made(path, reason):
    return _class(path, reason) if path.rpartition(".")[2][0].isupper() else function(path, NotImplementedError, reason)


def removed(path, name):
    """A function that PyTorch removed, and that is an error there too."""
    return function(path, RuntimeError, "this function was deprecated since version 1.9 and is now removed; use torch.linalg." + _REMOVED[name])


def of_torch(name):
    """What torch.name is, None where PyTorch has no such name either."""
    if name in _REMOVED:
        return removed("torch." + name, name)
    for reason, places in _TABLE.values():
        if name in places.get("torch", "").split():
            return _made("torch." + name, reason)
    return None


def of_module(module, name):
    """What torch.module.name is; AttributeError where PyTorch has no such name either."""
    reason, names = _MODULES[module]
    if name not in names.split():
        raise AttributeError("module 'torch.%s' has no attribute '%s'" % (module, name))
    return _made("torch.%s.%s" % (module, name), reason)


def fill(Tensor):
    """Give Tensor the methods that say they are not there."""
    for reason, places in _TABLE.values():
        for name in places.get("Tensor", "").split():
            if not hasattr(Tensor, name):
                setattr(Tensor, name, function("Tensor." + name, NotImplementedError, reason))
    for name in _REMOVED:
        if name != "matrix_rank":
            setattr(Tensor, name, removed("Tensor." + name, name))


def listed():
    """All names, for the tests."""
    return [place + "." + name for _, places in _TABLE.values() for place, names in places.items() for name in names.split()]


def page(text):
    """docs/not-supported.md with the names in their places: behind a comment that says what it is about, up to the next empty line."""
    import re
    import textwrap

    def lists(found):
        lines = ("- of `%s`: %s" % (place, " ".join(names.split())) for place, names in _TABLE[found.group(1)][1].items())
        return found.group(0).split("\n")[0] + "\n" + "\n".join(textwrap.fill(line, 120, subsequent_indent="  ", break_on_hyphens=False) for line in lines)
    return re.sub(r"<!-- names: (.+) -->(?:\n.+)*", lists, text)


if __name__ == "__main__":    # python3 python/rushlight/_absent.py docs/not-supported.md
    import sys
    with open(sys.argv[1]) as file:
        new = page(file.read())
    with open(sys.argv[1], "w") as file:
        file.write(new)
