"""Calling a module with other tensors in place of its own."""
import contextlib
import warnings

import rushlight as torch
from rushlight.nn.utils._named_member_accessor import NamedMemberAccessor

__all__ = ["functional_call"]


def _untie_named_tensors_map(module, parameters_and_buffers):
    """The same tensors, also under the other names by which the module knows tied ones."""
    names_of = {}
    for name, tensor in (*module.named_parameters(remove_duplicate=False),
                         *module.named_buffers(remove_duplicate=False)):
        names_of.setdefault(tensor, set()).add(name)
    tied = [names for names in names_of.values() if len(names) > 1]
    by_name = {name: names for names in tied for name in names}
    given = set(parameters_and_buffers)
    for names in tied:
        both = names & given
        if len(both) > 1 and len({id(parameters_and_buffers[name]) for name in both}) > 1:
            raise ValueError("functional_call got multiple values for keys " + str(sorted(both)) + ", which are tied. "
                             "Consider using tie_weights=False")
    untied = dict(parameters_and_buffers)
    for name, tensor in parameters_and_buffers.items():
        for other in by_name.get(name, ()):
            untied[other] = tensor
    return untied


@contextlib.contextmanager
def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False):
    """Inside the block the module's tensors are these."""
    tensors = (_untie_named_tensors_map(module, parameters_and_buffers) if tie_weights
               else dict(parameters_and_buffers))
    accessor = NamedMemberAccessor(module)
    if strict:
        missing, unexpected = accessor.check_keys(tensors)
        problems = []
        if unexpected:
            problems.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
        if missing:
            problems.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
        if problems:
            raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(),
                                                                                  "\n\t".join(problems)))
    before = {}
    try:
        try:
            before, _ = accessor.swap_tensors_dict(tensors, allow_missing=True)
        except RuntimeError as problem:  # what it was that failed
            raise problem.__cause__ or problem
        yield
    finally:
        names = list(before)
        if stack_weights:
            names.reverse()
        # What forward changed in place (buffers, say) goes back to the caller's dictionary.
        after, _ = accessor.swap_tensors_dict({name: before[name] for name in names}, allow_missing=True)
        parameters_and_buffers.update({name: after[name] for name in parameters_and_buffers if name in after})


def _functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    # These two hold their tensors elsewhere too, where the ones given would not be seen.
    for kind, word in ((torch.jit.ScriptModule, "Jitted modules"), (torch.nn.DataParallel, "nn.DataParallel module")):
        if isinstance(module, kind):
            raise RuntimeError("The stateless API can't be used with " + word)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """The old home of `torch.func.functional_call`."""
    warnings.warn("`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. "
                  "Please use `torch.func.functional_call` instead which is a drop-in replacement.",
                  FutureWarning, stacklevel=2)
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
