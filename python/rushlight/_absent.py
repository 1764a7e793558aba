"""What PyTorch has and rushlight does not: the names are there, and calling them is a NotImplementedError that says why.

docs/not-supported.md is the same list for readers; a test compares the two.
"""

QUANTIZED = "quantized tensors are not supported: no dtype holds integers with a scale here"
VENDOR = "one vendor's kernel by its own name is not supported: the ordinary operation of torch or torch.nn.functional is"
SCRIPT = "the compiler of TorchScript is not supported: functions and modules run as the Python they are"

# reason -> (names of torch, names of Tensor)
_TABLE = {
    QUANTIZED: (
        "choose_qparams_optimized dequantize empty_quantized "
        "fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight "
        "fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 "
        "fbgemm_pack_quantized_matrix int_repr q_per_channel_axis q_per_channel_scales "
        "q_per_channel_zero_points q_scale q_zero_point quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic "
        "quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d "
        "quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell",
        "dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme"),
    "names of dimensions are not supported: dimensions are numbers": (
        "", "align_as align_to refine_names rename rename_"),
    "tensors in oneDNN's own layouts are not supported: operations choose them inside of a call": (
        "mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d "
        "mkldnn_rnn_layer", "to_mkldnn"),
    "nested tensors are not supported: pad the parts, or keep a list of tensors": ("", "to_padded_tensor"),
    VENDOR: (
        "cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu "
        "cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable miopen_batch_norm miopen_convolution "
        "miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss "
        "miopen_depthwise_convolution miopen_rnn batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt "
        "batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats", ""),
    "products of float8 matrices with scales are not supported: convert to float32 or bfloat16 and multiply": (
        "_scaled_mm _scaled_mm_v2 _scaled_grouped_mm _scaled_grouped_mm_v2", ""),
    SCRIPT: (
        "AliasDb AnyType Argument ArgumentSpec AwaitType Block BoolType CallStack Capsule ClassType Code CompleteArgumentSpec "
        "ComplexType ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable DeserializationStorageContext DeviceObjType "
        "DictType EnumType ErrorReport ExecutionPlan FileCheck FloatType FunctionSchema FutureType Gradient Graph "
        "GraphExecutorState InferredType IntType InterfaceType ListType LiteScriptModule Node NoneType NumberType OperatorInfo "
        "OptionalType PyObjectType RRefType ScriptClass ScriptClassFunction ScriptDict ScriptList ScriptMethod "
        "ScriptModuleSerializer ScriptObject ScriptObjectProperty SerializationStorageContext StaticModule StreamObjType "
        "StringType SymBoolType SymIntType TensorType TracingState TupleType Type UnionType Use Value import_ir_module "
        "import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema parse_type_comment unify_type_list", ""),
    "sizes that are symbols are not supported: a size is a number when it is looked at": (
        "sym_constrain_range sym_constrain_range_for_size sym_fresh_size", ""),
    "autocast for devices of kinds ipu and xla is not supported: there are none": (
        "get_autocast_ipu_dtype get_autocast_xla_dtype set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype "
        "set_autocast_xla_enabled", ""),
    "the iteration for a few eigenvalues of a large matrix is not supported: torch.linalg.eigh gives all of them": ("lobpcg", ""),
    "a helper of PyTorch's own tests and compilers, not supported": ("slice_inverse", "slice_inverse"),
}

# module -> (reason, names)
_MODULES = {
    "ao.quantization": (QUANTIZED, (
        "FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize FusedMovingAvgObsFakeQuantize HistogramObserver MinMaxObserver "
        "MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver ObserverBase PerChannelMinMaxObserver "
        "PlaceholderObserver QConfig QConfigMapping RecordingObserver default_dynamic_qconfig default_observer "
        "default_weight_observer disable_fake_quant disable_observer enable_fake_quant enable_observer float16_dynamic_qconfig "
        "get_default_qconfig_mapping get_default_qat_qconfig_mapping swap_module")),
    "nn.quantized": (QUANTIZED, (
        "BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d DeQuantize Embedding "
        "EmbeddingBag GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm Linear QFunctional Quantize ReLU6")),
    "_C._nn": (VENDOR, (
        "conv_depthwise3d mkldnn_linear mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight slow_conv3d "
        "slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d thnn_conv2d")),
}
_MODULES["ao.nn.quantized"] = (QUANTIZED, _MODULES["nn.quantized"][1] + " Dropout ELU Hardswish LSTM LeakyReLU MaxPool2d MultiheadAttention PReLU Sigmoid Softmax")
_MODULES["ao.nn.quantized.dynamic"] = (QUANTIZED, "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d GRU GRUCell LSTM LSTMCell Linear RNNCell")
_MODULES["ao.nn.qat"] = (QUANTIZED, "Conv1d Conv2d Conv3d Embedding EmbeddingBag Linear")
_MODULES["ao.nn.quantizable"] = (QUANTIZED, "LSTM LSTMCell MultiheadAttention")
_MODULES["ao.quantization.quantize_fx"] = (QUANTIZED, "convert_fx convert_to_reference_fx fuse_fx prepare_fx prepare_qat_fx")
_MODULES["quantization"] = _MODULES["ao.quantization"]

_REMOVED = {"eig": "eig", "lstsq": "lstsq", "matrix_rank": "matrix_rank", "solve": "solve", "symeig": "eigh"}


def _function(path, error, text):
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


def removed(path, name):
    """A function that PyTorch removed, and that is an error there too."""
    return _function(path, RuntimeError, "this function was deprecated since version 1.9 and is now removed; use torch.linalg." + _REMOVED[name])


def of_torch(name):
    """What torch.name is, None where PyTorch has no such name either."""
    if name in _REMOVED:
        return removed("torch." + name, name)
    for reason, (names, _) in _TABLE.items():
        if name in names.split():
            return _function("torch." + name, NotImplementedError, reason)
    return None


def of_module(module, name):
    """What torch.module.name is; AttributeError where PyTorch has no such name either."""
    reason, names = _MODULES[module]
    if name not in names.split():
        raise AttributeError("module 'torch.%s' has no attribute '%s'" % (module, name))
    path = "torch.%s.%s" % (module, name)
    return _class(path, reason) if name[0].isupper() else _function(path, NotImplementedError, reason)


def fill(Tensor):
    """Give Tensor the methods that say they are not there."""
    for reason, (_, names) in _TABLE.items():
        for name in names.split():
            if not hasattr(Tensor, name):
                setattr(Tensor, name, _function("Tensor." + name, NotImplementedError, reason))
    for name in _REMOVED:
        if name != "matrix_rank":
            setattr(Tensor, name, removed("Tensor." + name, name))


def listed():
    """All names, for the test of the documentation."""
    names = ["torch." + name for some, _ in _TABLE.values() for name in some.split()]
    names += ["Tensor." + name for _, some in _TABLE.values() for name in some.split()]
    return names + ["torch.%s.%s" % (module, name) for module, (_, some) in _MODULES.items() if module != "quantization" for name in some.split()]
