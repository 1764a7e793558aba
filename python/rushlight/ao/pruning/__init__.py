"""Sparsifiers: parameters under masks that a rule of its own sets anew at each step."""
import abc
import copy
from collections import defaultdict

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import parametrize

__all__ = ["BaseSparsifier", "FakeSparsity", "fqn_to_module", "module_to_fqn", "get_arg_info_from_tensor_fqn"]


def module_to_fqn(model, module, prefix=""):
    """The name of a module in a model, or None."""
    return next((prefix + name for name, child in model.named_modules() if child is module), None)


def fqn_to_module(model, path):
    """The module of that name, or None."""
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def get_arg_info_from_tensor_fqn(model, tensor_fqn):
    """What a sparsifier knows of a parameter: its module and name, and both names together."""
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {"module_fqn": module_fqn, "module": fqn_to_module(model, module_fqn), "tensor_name": tensor_name, "tensor_fqn": tensor_fqn}


class FakeSparsity(nn.Module):
    """The parametrization: elements under the mask's zeros are zero."""

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):
        if self.mask.shape != x.shape:
            raise AssertionError("mask shape %s does not match input shape %s" % (self.mask.shape, x.shape))
        return self.mask * x

    def state_dict(self, *args, **kwargs):
        """Nothing: the sparsifier saves masks."""
        return {}


class BaseSparsifier(abc.ABC):
    """Knows parameters of a model (`groups`) and their masks. A class of it says in update_mask() which elements go."""

    def __init__(self, defaults=None):
        super().__init__()
        self.defaults = defaults or {}
        self.state, self.groups, self.enable_mask_update = defaultdict(dict), [], True

    @abc.abstractmethod
    def update_mask(self, module, tensor_name, **kwargs):
        """Sets module.parametrizations[tensor_name][0].mask."""

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __repr__(self):
        parts = []
        for i, group in enumerate(self.groups):
            parts.append("\n\tGroup %d\n\t    module: %s\n" % (i, group["module"]))
            parts += ["\t    %s: %s\n" % (key, group[key]) for key in sorted(group) if key != "module"]
        return type(self).__name__ + " (" + "".join(parts) + ")"

    def make_config_from_model(self, model, SUPPORTED_MODULES=frozenset({nn.Linear})):
        """The weights of the model's linear layers, as configurations."""
        self.config = [{"tensor_fqn": name + ".weight" if name else "weight"} for name, module in model.named_modules() if type(module) in SUPPORTED_MODULES]

    def prepare(self, model, config):
        """Puts masks on the parameters that `config` names (dicts with a tensor_fqn, and what differs from the defaults); None: weights of linear layers."""
        self.model, self.config = model, config
        if config is None:
            self.make_config_from_model(model)
        for module_config in self.config:
            if not isinstance(module_config, dict):
                raise AssertionError("config elements should be dicts not modules i.e.:[{`tensor_fqn`: `foo.bar.weight`}, {`tensor_fqn`: ... }, ...]")
            if not isinstance(self.defaults, dict):
                raise AssertionError("defaults should be a dict")
            local = {**copy.deepcopy(self.defaults), **module_config}
            tensor_fqn = local.get("tensor_fqn")
            if tensor_fqn is None:
                raise AssertionError("tensor_fqn is a required argument in the sparsity config which replaces previous `module` and [module]`fqn` arguments")
            found = get_arg_info_from_tensor_fqn(model, tensor_fqn.lstrip("."))
            for key, value in found.items():
                if key in local and key not in ("tensor_fqn",) and local[key] != value:
                    raise AssertionError("Given both `%s` and `tensor_fqn` in the config, it is expected them to agree!" % key)
            local.update(found)
            self.groups.append(local)
        self._prepare()

    def _prepare(self, *args, **kwargs):
        for group in self.groups:
            mask = torch.ones_like(getattr(group["module"], group["tensor_name"]))
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrize.register_parametrization(group["module"], group["tensor_name"], group.get("parametrization", FakeSparsity)(mask))

    def step(self, use_path=True):
        """Sets all masks anew."""
        if self.enable_mask_update:
            with torch.no_grad():
                for group in self.groups:
                    self.update_mask(**group)

    def squash_mask(self, params_to_keep=None, params_to_keep_per_layer=None, *args, **kwargs):
        """Parameters as their masks leave them; modules keep what is named of their settings in `sparse_params`."""
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)
            kept = {key: group[key] for key in params_to_keep or ()}
            kept.update({key: group[key] for key in (params_to_keep_per_layer or {}).get(group["module_fqn"], ())})
            if kept:
                module.sparse_params = kept

    def convert(self, module, mapping=None, inplace=False, parameterization=FakeSparsity):
        """The model with what the mapping has for modules whose parameters are under masks."""
        if mapping is None:
            raise NotImplementedError("Need to auto generate mapping ")
        if not inplace:
            module = copy.deepcopy(module)
        for name, child in list(module.named_children()):
            masked = parametrize.is_parametrized(child) and any(isinstance(p, parameterization) for ps in child.parametrizations.values() for p in ps)
            kind = parametrize.type_before_parametrizations(child)
            if masked and kind in mapping:
                setattr(module, name, mapping[kind].from_dense(child))
            else:
                self.convert(child, mapping=mapping, inplace=True, parameterization=parameterization)
        return module

    def state_dict(self):
        """Masks and settings; parameters by their names alone."""
        derived = ("module", "module_fqn", "tensor_name")
        return {"state": self.state, "groups": [{key: value for key, value in group.items() if key not in derived} for group in self.groups]}

    def load_state_dict(self, state_dict, strict=True):
        """Takes over masks and settings for the model that is prepared."""
        state, groups = state_dict["state"], copy.deepcopy(state_dict["groups"])
        for tensor_fqn, kept in state.items():
            found = get_arg_info_from_tensor_fqn(self.model, tensor_fqn)
            module, name = found["module"], found["tensor_name"]
            if strict and module is None:
                raise RuntimeError("Error loading %s into the model" % tensor_fqn)
            masks = [p for p in module.parametrizations[name] if isinstance(p, FakeSparsity)] if parametrize.is_parametrized(module, name) else []
            if not masks:
                masks = [FakeSparsity(torch.ones(getattr(module, name).shape))]
                parametrize.register_parametrization(module, name, masks[0])
            masks[0].mask = kept["mask"]
        for group in groups:
            group.update(get_arg_info_from_tensor_fqn(self.model, group["tensor_fqn"]))
        self.__setstate__({"state": state, "groups": groups})
