"""Sparsifiers: parameters under masks that a rule of its own sets anew at each step."""
import abc
import copy
from collections import defaultdict

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import parametrize

__all__ = ["BaseSparsifier", "WeightNormSparsifier", "NearlyDiagonalSparsifier", "BaseScheduler", "LambdaSL", "CubicSL", "FakeSparsity", "fqn_to_module", "module_to_fqn",
           "get_arg_info_from_tensor_fqn"]


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


class WeightNormSparsifier(BaseSparsifier):
    """Zeros in the blocks of the smallest norms.

    Of all blocks of sparse_block_shape the part sparsity_level is taken (by the mean of their elements' shares), and zeros_per_block elements of each (None: all) become zero, the
    smallest ones. norm: 1, 2 (squares; None is 2), or a function of the tensor that gives each element's share. A matrix's last blocks may
    be cut off; leading dimensions of tensors are so many matrices.
    """

    def __init__(self, sparsity_level=0.5, sparse_block_shape=(1, 4), zeros_per_block=None, norm=None):
        if zeros_per_block is None:
            zeros_per_block = sparse_block_shape[0] * sparse_block_shape[1]
        super().__init__({"sparsity_level": sparsity_level, "sparse_block_shape": sparse_block_shape, "zeros_per_block": zeros_per_block})
        norm = 2 if norm is None else norm
        if not callable(norm) and norm not in (1, 2):
            raise NotImplementedError("L-%s is not yet implemented." % norm)
        self.norm_fn = norm if callable(norm) else torch.abs if norm == 1 else torch.square

    def update_mask(self, module, tensor_name, sparsity_level, sparse_block_shape, zeros_per_block, **kwargs):
        rows, columns = sparse_block_shape
        if zeros_per_block > rows * columns:
            raise ValueError("Number of zeros per block cannot be more than the total number of elements in that block.")
        if zeros_per_block < 0:
            raise ValueError("Number of zeros per block should be positive.")
        parametrization = module.parametrizations[tensor_name]
        mask, share = parametrization[0].mask, self.norm_fn(parametrization.original.detach())
        matrices = share.reshape(-1, *share.shape[-2:]) if share.dim() > 1 else share.reshape(1, 1, -1)
        n, height, width = matrices.shape
        down, across = -(-height // rows), -(-width // columns)
        padded = nn.functional.pad(matrices, (0, across * columns - width, 0, down * rows - height), value=torch.nan)
        blocks = padded.reshape(n, down, rows, across, columns).transpose(2, 3).reshape(-1, rows * columns)
        inside = ~blocks.isnan()
        kept = torch.ones_like(blocks)
        taken = blocks.nanmean(1).argsort()[:round(len(blocks) * sparsity_level)]
        # Where a block is cut off, elements that there are not are neither kept nor count as zeros.
        order = torch.where(inside[taken], blocks[taken], torch.inf).argsort(1)[:, :zeros_per_block]
        kept[taken] = kept[taken].scatter(1, order, 0)
        whole = kept.reshape(n, down, across, rows, columns).transpose(2, 3).reshape(n, down * rows, across * columns)[:, :height, :width]
        mask.data = whole.reshape(mask.shape).to(mask.dtype)


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Zeros off the diagonal: nearliness (odd) diagonals of a matrix are kept, those next to the main one."""

    def __init__(self, nearliness=1):
        super().__init__({"nearliness": nearliness})

    def update_mask(self, module, tensor_name, nearliness, **kwargs):
        if nearliness % 2 != 1 and nearliness:
            raise ValueError("nearliness can only be an odd number")
        mask, tensor = module.parametrizations[tensor_name][0].mask, getattr(module, tensor_name)
        height, width = tensor.shape
        if nearliness // 2 >= min(height, width):
            raise ValueError("nearliness cannot be larger than the dimensions of tensor.")
        apart = (torch.arange(height).unsqueeze(1) - torch.arange(width)).abs()
        mask.data = (apart <= (nearliness - 1) // 2).to(mask.dtype) if nearliness else torch.zeros_like(mask)


class BaseScheduler:
    """Sets the sparsity levels of a sparsifier's groups from step to step. A class of it says in get_sl() what they are at last_epoch."""

    def __init__(self, sparsifier, last_epoch=-1, verbose=False):
        self.sparsifier, self.base_sl = sparsifier, [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch, self.verbose, self._step_count, self._get_sl_called_within_step = last_epoch, verbose, 0, False
        self.sparsifier._step_count = 0
        self.step()

    def state_dict(self):
        """All of it but the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "sparsifier"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)

    def get_last_sl(self):
        """The levels that were set last."""
        return self._last_sl

    def get_sl(self):
        if not self._get_sl_called_within_step:
            import warnings
            warnings.warn("To get the last sparsity level computed by the scheduler, please use `get_last_sl()`.", stacklevel=2)
        raise NotImplementedError

    def print_sl(self, is_verbose, group, sl, epoch=None):
        if is_verbose:
            print("Adjusting sparsity level of group %s to %.4e." % (group, sl) if epoch is None else "Epoch %5d: adjusting sparsity level of group %s to %.4e." % (epoch, group, sl))

    def __repr__(self):
        return "%s (\nSparsifier %s\n    base_sl: %s\n)" % (type(self).__name__, self.sparsifier, self.base_sl)

    def step(self, epoch=None):
        """To be called after sparsifier.step()."""
        self._step_count += 1
        self.last_epoch += 1
        self._get_sl_called_within_step = True
        try:
            values = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for i, (group, sl) in enumerate(zip(self.sparsifier.groups, values)):
            group["sparsity_level"] = sl
            self.print_sl(self.verbose, i, sl, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var):
        """One value for each group."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError("Expected variable of length %d, but got %d" % (count, len(var)))
        return list(var)


class LambdaSL(BaseScheduler):
    """The levels of the beginning times sl_lambda(epoch); a list has a function for each group."""

    def __init__(self, sparsifier, sl_lambda, last_epoch=-1, verbose=False):
        groups = sparsifier.groups
        if not isinstance(sl_lambda, (list, tuple)):
            sl_lambda = [sl_lambda] * len(groups)
        elif len(sl_lambda) != len(groups):
            raise ValueError("Expected %d lr_lambdas, but got %d" % (len(groups), len(sl_lambda)))
        self.sl_lambdas = list(sl_lambda)
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self):
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_sl, self.sl_lambdas)]


class CubicSL(BaseScheduler):
    """From init_sl at epoch init_t to the groups' levels, by s_f + (s_i - s_f) (1 - (t - t_0) / (n dt))^3 (Zhu and Gupta, 2017).

    total_t: n, the number of steps of delta_t epochs. initially_zero: levels are 0 before init_t, else init_sl. Numbers, or lists with one for each group.
    """

    def __init__(self, sparsifier, init_sl=0.0, init_t=0, delta_t=10, total_t=100, initially_zero=False, last_epoch=-1, verbose=False):
        self.sparsifier = sparsifier
        self.init_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero = map(self._make_sure_a_list, (init_sl, init_t, delta_t, total_t, initially_zero))
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(s_0, s_f, t, t_0, dt, n, initially_zero=False):
        if initially_zero and t < t_0:
            return 0
        return s_f + (s_0 - s_f) * (1 - min(max((t - t_0) / (dt * n), 0), 1)) ** 3

    def get_sl(self):
        return [self.sparsity_compute_fn(s_0, s_f, self.last_epoch, *rest) for s_0, s_f, *rest in
                zip(self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero)]
