"""Reading and exchanging the tensors of a module by dotted name."""
import rushlight as torch

_MISSING = object()


def set_tensor(module, name, tensor):
    """Set one tensor that the module itself owns."""
    _check(module, name)
    if name in module._parameters:
        module._parameters[name] = tensor
    elif name in module._buffers:
        module._buffers[name] = tensor
    else:
        setattr(module, name, tensor)


def _check(module, name):
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')


def swap_tensor(module, name, tensor, allow_missing=False):
    """Put `tensor` (or nothing) in place of the module's; returns what was there."""
    _check(module, name)
    if tensor is not _MISSING and not isinstance(tensor, torch.Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    for held in (module._parameters, module._buffers):
        if name in held:
            before = held[name]
            if tensor is _MISSING:
                del held[name]
            else:
                held[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING:
        if not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    elif not isinstance(before, torch.Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif hasattr(module, name):
        delattr(module, name)
    return before


def swap_submodule(module, name, submodule):
    """Put `submodule` in place of the module's own; returns what was there."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if not isinstance(submodule, torch.nn.Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    _check(module, name)
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """Tensors of a module by dotted name; remembers the way to submodules."""

    def __init__(self, module):
        self.module = module
        self.memo = {}

    def get_submodule(self, name):
        """The submodule of this name."""
        if name not in self.memo:
            found = self.module
            if name:
                prefix, _, leaf = name.rpartition(".")
                owner = self.get_submodule(prefix)
                try:
                    found = getattr(owner, leaf)
                except AttributeError as problem:
                    raise AttributeError(f"{owner._get_name()} has no attribute `{leaf}`") from problem
                if not isinstance(found, torch.nn.Module):
                    raise TypeError(f"submodule `{name}`: {found} is not an instance of torch.nn.Module")
            self.memo[name] = found
        return self.memo[name]

    def _place(self, name):
        prefix, _, leaf = name.rpartition(".")
        return self.get_submodule(prefix), leaf

    def swap_submodule(self, path, value):
        """Exchange a submodule."""
        owner, leaf = self._place(path)
        return swap_submodule(owner, leaf, value)

    def get_tensor(self, name):
        """The tensor of this name."""
        owner, leaf = self._place(name)
        try:
            tensor = getattr(owner, leaf)
        except AttributeError as problem:
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`") from problem
        if not isinstance(tensor, torch.Tensor) and tensor is not None:
            raise TypeError(f"{tensor} is not an instance of torch.Tensor")
        return tensor

    def set_tensor(self, name, value):
        """Set a tensor."""
        set_tensor(*self._place(name), value)

    def del_tensor(self, name):
        """Remove a tensor."""
        owner, leaf = self._place(name)
        swap_tensor(owner, leaf, _MISSING)

    def swap_tensor(self, name, value, allow_missing=False):
        """Exchange a tensor."""
        owner, leaf = self._place(name)
        return swap_tensor(owner, leaf, value, allow_missing=allow_missing)

    def get_tensors(self, names):
        """Several tensors."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names, values):
        """Set several tensors."""
        names, values = list(names), list(values)
        if len(names) != len(values):
            raise ValueError("names and values must have the same length")
        for name, value in zip(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors):
        """Set tensors from a dictionary."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names):
        """Remove several tensors."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names, values, allow_missing=False):
        """Exchange several tensors."""
        names, values = list(names), list(values)
        if len(names) != len(values):
            raise ValueError("names and values must have the same length")
        return [self.swap_tensor(name, value, allow_missing) for name, value in zip(names, values)]

    def swap_tensors_dict(self, named_tensors, allow_missing=False):
        """Exchange tensors from a dictionary; on failure everything is put back."""
        before, missing = {}, []
        try:
            for name, tensor in named_tensors.items():
                before[name] = self.swap_tensor(name, tensor, allow_missing=True)
                if before[name] is _MISSING:
                    missing.append(name)
        except Exception as problem:
            for name, tensor in before.items():
                self.swap_tensor(name, tensor, allow_missing=True)
            raise RuntimeError(f"Failed to swap tensors: {problem}.") from problem
        if missing and not allow_missing:
            for name, tensor in before.items():
                self.swap_tensor(name, tensor, allow_missing=True)
            raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        return before, missing

    def check_keys(self, keys):
        """(missing, unexpected) names."""
        keys, own = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(own - keys), sorted(keys - own)

    def named_parameters(self, remove_duplicate=True):
        """The parameters with their names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate=True):
        """The buffers with their names."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate=True):
        """Parameters and buffers with their names."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate=True):
        """The modules with their names."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
