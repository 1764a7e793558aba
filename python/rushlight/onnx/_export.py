"""torch.onnx.export: captures a module with torch.export and writes the program as ONNX."""
import contextlib
import functools
import re

import rushlight as torch
from rushlight.export._export import captured
from rushlight.jit._recorder import own_inputs
from rushlight.utils import _pytree as pytree
from . import errors
from ._constants import TrainingMode
from ._program import ONNXProgram, write

DEFAULT_OPSET = 20
_running = False


def is_in_onnx_export():
    """Whether an export is running."""
    return _running


@contextlib.contextmanager
def select_model_mode_for_export(model, mode):
    """Inside, the model is in the mode that an export wants; afterwards as it was."""
    was = {part: part.training for part in model.modules()} if isinstance(model, torch.nn.Module) else {}
    if was and TrainingMode(int(mode)) != TrainingMode.PRESERVE:
        model.train(TrainingMode(int(mode)) == TrainingMode.TRAINING)
    try:
        yield
    finally:
        for part, training in was.items():
            part.training = training


def _shapes_of(dynamic_axes, names, args, kwargs):
    """dynamic_axes, which name inputs, as the dynamic_shapes of torch.export."""
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    dims, turn = {}, iter(names + [None] * len(tensors))

    def shape(x):
        axes = dynamic_axes.get(next(turn)) if isinstance(x, torch.Tensor) else None
        if not axes:
            return None
        if not isinstance(axes, dict):
            return {axis: torch.export.Dim.AUTO for axis in axes}
        return {axis % x.dim(): dims.setdefault(name, torch.export.Dim(re.sub(r"\W|^(?=\d)", "_", name))) for axis, name in axes.items()}
    return pytree.tree_map(shape, (tuple(args), kwargs))


def _wider(shapes, args, kwargs):
    """The same arguments, with two of what is one and may vary: a size of 1 would be taken for one that always is."""
    leaves, tree = pytree.tree_flatten((tuple(args), kwargs))
    each = tree.flatten_up_to(shapes) if hasattr(tree, "flatten_up_to") else pytree.tree_leaves(shapes, is_leaf=lambda x: x is None or isinstance(x, dict) and all(isinstance(k, int) for k in x))
    for i, (x, shape) in enumerate(zip(leaves, each)):
        for axis in shape or ():
            if isinstance(x, torch.Tensor) and x.shape[axis] == 1:
                x = leaves[i] = torch.cat([x, x], axis)
    return pytree.tree_unflatten(leaves, tree)


def _by_itself(shapes):
    """The same sizes vary, but the export finds their names."""
    return pytree.tree_map(lambda x: torch.export.Dim.AUTO if isinstance(x, torch.export.Dim) else x, shapes)


def _parameter_names(model):
    import inspect
    try:
        return [name for name, p in inspect.signature(model.forward).parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    except (ValueError, TypeError):
        return []


def _capture(model, args, kwargs, dynamic_shapes, dynamic_axes, input_names, as_traced):
    export = functools.partial(captured, as_traced=as_traced)
    if as_traced:
        args, kwargs = own_inputs(args, kwargs)
    if dynamic_shapes is None and dynamic_axes:
        shapes = positional, named = _shapes_of(dynamic_axes, input_names or _parameter_names(model), args, kwargs)
        args, kwargs = _wider(shapes, args, kwargs)
        names = _parameter_names(model)
        fits = len(names) >= len(positional) and not any(p.kind == p.VAR_POSITIONAL for p in _parameters(model))
        dynamic_shapes = {**dict(zip(names, positional)), **named} if fits and named else positional
        try:
            return export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
        except (RuntimeError, ValueError):
            return export(model, args, kwargs, dynamic_shapes=_by_itself(dynamic_shapes))
    return export(model, args, kwargs, dynamic_shapes=dynamic_shapes)


def _parameters(model):
    import inspect
    return inspect.signature(model.forward).parameters.values()


def _arguments(args, kwargs):
    """The older form: one tensor alone, and keyword arguments as a dict at the end."""
    if isinstance(args, torch.Tensor) or not isinstance(args, (tuple, list)):
        args = (args,)
    args = tuple(args)
    if kwargs is None and args and type(args[-1]) is dict:
        return args[:-1], args[-1]
    return args, dict(kwargs or {})


def _refused(options):
    """Options that would change the model and are not there."""
    wanted = {"custom_translation_table": None, "export_params": True, "keep_initializers_as_inputs": False, "custom_opsets": None, "export_modules_as_functions": False}
    for name, plain in wanted.items():
        if options[name] != plain and options[name]:
            raise NotImplementedError("torch.onnx.export: %s=%r is not supported" % (name, options[name]))
    if not options["export_params"]:
        raise NotImplementedError("torch.onnx.export: models are exported with their weights (export_params=False is not supported)")


def export(model, args=(), f=None, *, kwargs=None, verbose=None, input_names=None, output_names=None, opset_version=None, dynamo=True, external_data=True, dynamic_shapes=None,
           custom_translation_table=None, report=False, optimize=True, verify=False, profile=False, dump_exported_program=False, artifacts_dir=".", export_params=True,
           keep_initializers_as_inputs=False, dynamic_axes=None, training=TrainingMode.EVAL, operator_export_type=None, do_constant_folding=True, custom_opsets=None,
           export_modules_as_functions=False, autograd_inlining=True):
    """Exports a module, or a program of torch.export, as an ONNX model: written to f, and returned as an ONNXProgram (None where dynamo is false, as of old).

    Operator sets 18 to 23. One file holds model and weights. What has no form in ONNX is an error that names all of it, with the lines that call it.
    """
    global _running
    _refused(locals())
    opset = DEFAULT_OPSET if opset_version is None else int(opset_version)
    if opset < 18:
        opset = 18  # what an older set has, this one has, too
    args, kwargs = _arguments(args, kwargs)
    names = [str(x) for x in input_names or []]
    was, _running = _running, True
    try:
        if isinstance(model, torch.export.ExportedProgram):
            exported = model
        elif isinstance(model, torch.nn.Module):
            with select_model_mode_for_export(model, training), torch.no_grad():
                exported = _capture(model, args, kwargs, dynamic_shapes, dynamic_axes, names, not dynamo)
        else:
            raise TypeError("torch.onnx.export takes a Module or an ExportedProgram, not %s" % type(model).__name__)
        try:
            program = ONNXProgram(write(exported, opset, names, [str(x) for x in output_names or []]), exported)
        except NotImplementedError as error:
            raise errors.UnsupportedOperatorError(str(error)) from error
    finally:
        _running = was
    if f is not None:
        program.save(f)
    if verify:
        _verify(program, args, kwargs)
    if verbose:
        print("[torch.onnx] the model is exported for operator set %d: %d bytes" % (opset, len(program._bytes)))
    return program if dynamo else None


def _verify(program, args, kwargs):
    want = [x for x in pytree.tree_leaves(program.exported_program.module()(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    for ours, theirs in zip(want, program(*args, **kwargs)):
        torch.testing.assert_close(theirs, ours.detach(), check_device=False)
