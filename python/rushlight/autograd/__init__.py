"""Automatic differentiation: backward and grad, gradient modes, custom functions, checks."""
import rushlight as torch
from rushlight import _C, _functorch, _pending
from rushlight.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from rushlight.autograd.function import Function, NestedIOFunction
from rushlight.autograd.grad_mode import (_force_original_view_tracking, _unsafe_preserve_version_counter,
                                          enable_grad, enforce_grad_layout_policy, inference_mode, no_grad,
                                          set_grad_enabled, set_multithreading_enabled)
from rushlight.autograd import forward_ad, function, functional, grad_mode, graph, profiler
from rushlight.autograd.graph import _engine_run_backward
from rushlight.autograd.gradcheck import gradcheck, gradgradcheck
from rushlight.autograd.variable import Variable, variable  # noqa: F401

__all__ = ["Variable", "Function", "backward", "grad_mode", "NestedIOFunction", "detect_anomaly", "enable_grad",
           "grad", "gradcheck", "gradgradcheck", "inference_mode", "no_grad", "set_detect_anomaly",
           "set_grad_enabled", "set_multithreading_enabled", "variable"]


def _is_edge(output):
    return isinstance(output, graph.GradientEdge)


def _output_shape(output):
    if _is_edge(output):
        return output.node._input_metadata[output.output_nr].shape
    return output.shape


def _make_grads(outputs, grads, is_grads_batched):
    """The gradients to start from: given ones checked, missing ones 1 for scalars."""
    made = []
    for i, (output, grad) in enumerate(zip(outputs, grads)):
        if isinstance(grad, torch.Tensor):
            shape, given = _output_shape(output), grad.shape
            if is_grads_batched:
                given = given[1:]
            if not output_is_nested(output) and tuple(shape) != tuple(given):
                if is_grads_batched:
                    raise RuntimeError("If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                                       "as the batch dimension. The sizes of the remaining dimensions are expected to "
                                       "match the shape of corresponding output, but a mismatch was detected: "
                                       "grad_output[%d] has a shape of %s and output[%d] has a shape of %s. If you only "
                                       "want some tensors in `grad_output` to be considered batched, consider using "
                                       "vmap." % (i, grad.shape, i, shape))
                raise RuntimeError("Mismatch in shape: grad_output[%d] has a shape of %s and output[%d] has a shape of %s."
                                   % (i, grad.shape, i, shape))
            dtype = output.node._input_metadata[output.output_nr].dtype if _is_edge(output) else output.dtype
            if dtype.is_complex != grad.dtype.is_complex:
                raise RuntimeError("For complex Tensors, both grad_output and output are required to have the same dtype. "
                                   "Mismatch in dtype: grad_output[%d] has a dtype of %s and output[%d] has a dtype of %s."
                                   % (i, grad.dtype, i, dtype))
            made.append(grad)
        elif grad is None:
            if _is_edge(output):
                meta = output.node._input_metadata[output.output_nr]
                if torch.Size(meta.shape).numel() != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                made.append(torch.ones(meta.shape, dtype=meta.dtype, device=meta.device))
            elif output.requires_grad:
                if output.numel() != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if not output.dtype.is_floating_point:
                    raise RuntimeError("grad can be implicitly created only for real scalar outputs but got %s"
                                       % output.dtype)
                made.append(torch.ones_like(output, memory_format=torch.preserve_format))
            else:
                made.append(None)
        else:
            raise TypeError("gradients can be either Tensors or None, but got " + type(grad).__name__)
    return tuple(made)


def output_is_nested(output):
    return isinstance(output, torch.Tensor) and output.is_nested


def _tensor_or_tensors_to_tuple(tensors, length):
    if tensors is None:
        return (None,) * length
    return (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)


def _as_tuple(x):
    return (x,) if isinstance(x, (torch.Tensor, graph.GradientEdge)) or torch.overrides.is_tensor_like(x) else tuple(x)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Add the gradients of tensors, weighted by grad_tensors, to the .grad of the leaves (or of inputs)."""
    if _pending.open and _pending.waits():
        return _pending.alone("backward() stands in no graph", backward, (tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs), {})
    if grad_variables is not None:
        import warnings
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                               "Please only use `grad_tensors`.")
        grad_tensors = grad_variables
    if isinstance(inputs, (torch.Tensor, graph.GradientEdge)):
        inputs = (inputs,)
    elif inputs is not None:
        inputs = tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    else:
        inputs = ()
    tensors = _as_tuple(tensors)
    if torch.overrides.has_torch_function(plain := [t for t in tensors if torch.overrides.is_tensor_like(t)]):
        return torch.overrides.handle_torch_function(backward, plain, tensors, grad_tensors=grad_tensors, retain_graph=retain_graph,
                                                     create_graph=create_graph, inputs=inputs or None)
    grads = _tensor_or_tensors_to_tuple(grad_tensors, len(tensors))
    if function._below is not None:  # nested tensors
        tensors, grads, inputs = map(function._below.dense, (tensors, grads, inputs))
    grads = _make_grads(tensors, grads, False)
    if retain_graph is None:
        retain_graph = create_graph
    _engine_run_backward(tensors, grads, retain_graph, create_graph, inputs, allow_unreachable=True,
                         accumulate_grad=True)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
         allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """The gradients of the outputs, weighted by grad_outputs, with respect to the inputs."""
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")
    if allow_unused is None:
        allow_unused = materialize_grads
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    tensors = [t for t in outputs + inputs if torch.overrides.is_tensor_like(t)]
    if _functorch.levels and create_graph:  # the graph is made for one example at a time
        tensors += _functorch.batched.batched_in(grad_outputs)
    if torch.overrides.has_torch_function(tensors):
        return torch.overrides.handle_torch_function(
            grad, tensors, outputs, inputs, grad_outputs=grad_outputs, retain_graph=retain_graph,
            create_graph=create_graph, only_inputs=only_inputs, allow_unused=allow_unused,
            is_grads_batched=is_grads_batched, materialize_grads=materialize_grads)
    if not only_inputs:
        import warnings
        warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient "
                      "for other parts of the graph, please use torch.autograd.backward.", FutureWarning, stacklevel=2)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    grads = _make_grads(outputs, _tensor_or_tensors_to_tuple(grad_outputs, len(outputs)), is_grads_batched)
    if forward_ad._duals:  # gradients have tangents, too, and the graph is how they are found
        create_graph = retain_graph = True
    if retain_graph is None:
        retain_graph = create_graph
    if is_grads_batched:
        def vjp(gO):
            return _engine_run_backward(outputs, gO, True, create_graph, inputs, allow_unused,
                                        accumulate_grad=False)
        result = _each(vjp, grads, recorded=create_graph)
    else:
        result = _engine_run_backward(outputs, grads, retain_graph, create_graph, inputs, allow_unused,
                                      accumulate_grad=False)
    if materialize_grads:
        if any(g is None and isinstance(i, graph.GradientEdge) for g, i in zip(result, inputs)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        result = tuple(torch.zeros_like(i, requires_grad=create_graph) if g is None else g
                       for g, i in zip(result, inputs))
    return result


def _each(vjp, grads, recorded):
    """vjp for every slice of the batched gradients, stacked: one walk with the whole batch, unless there is to be a graph of it."""
    given = [g for g in grads if g is not None]
    if not recorded and given[0].shape[0] > 1:
        there = []

        def walk(*rows):
            rows = iter(rows)
            found = vjp(tuple(None if g is None else next(rows) for g in grads))
            there[:] = [g is not None for g in found]
            return tuple(g for g in found if g is not None)
        from .._functorch.vmap import vmap
        columns = iter(vmap(walk)(*given))
        return tuple(next(columns) if is_there else None for is_there in there)
    rows = [vjp(tuple(None if g is None else g[i] for g in grads)) for i in range(given[0].shape[0])]
    return tuple(None if column[0] is None else torch.stack(column) for column in zip(*rows))


def _is_checkpoint_valid():
    """Whether backward (and not grad) is running: reentrant checkpoints need that."""
    return Variable._execution_engine.is_checkpoint_valid()


def _register_py_tensor_class_for_device(device, cls):
    raise NotImplementedError("tensor classes per device are not supported")


_profiler_enabled = profiler._profiler_enabled
_disable_profiler = profiler._disable_profiler
kineto_available = profiler.kineto_available
DeviceType = profiler.DeviceType
ProfilerActivity = profiler.ProfilerActivity
