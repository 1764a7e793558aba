"""CommDebugMode: which collectives run, and for which module of a model."""
import collections
import json

import rushlight as torch
from rushlight.distributed import distributed_c10d
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_leaves
from rushlight.utils.module_tracker import ModuleTracker

from .._api import DTensor

__all__ = ["CommDebugMode"]

# a collective's name: what changes its arguments, what is a function; in torch.ops.c10d and torch.ops.c10d_functional
_NAMES = {
    "all_reduce": ("allreduce_", "all_reduce"), "all_reduce_coalesced": ("allreduce_coalesced_", "all_reduce_coalesced"),
    "broadcast": ("broadcast_", "broadcast"), "reduce": ("reduce_", None), "gather": ("gather_", None), "scatter": ("scatter_", None),
    "all_gather": ("allgather_", "all_gather_into_tensor"), "all_gather_into_tensor": ("_allgather_base_", "all_gather_into_tensor"),
    "all_gather_coalesced": ("allgather_coalesced_", None),
    "reduce_scatter": ("reduce_scatter_", "reduce_scatter_tensor"), "reduce_scatter_tensor": ("_reduce_scatter_base_", "reduce_scatter_tensor"),
    "all_to_all": ("alltoall_", "all_to_all_single"), "all_to_all_single": ("alltoall_base_", "all_to_all_single"),
}
_TRIVIAL = {"aten.detach.default", "aten.t.default", "aten.view.default", "aten._to_copy.default", "aten.transpose.int"}
_YELLOW, _RED, _END = "\033[1;33m", "\033[1;31m", "\033[0m"
_PASSES = (("forward", "FORWARD PASS"), ("backward", "BACKWARD PASS"))


class _Tracker(ModuleTracker):
    """Besides which modules run: which was entered last, and what is known of each."""

    def __init__(self):
        super().__init__()
        self.stack, self.modules = [], {}  # modules: in the order of their first call, name -> (depth, class, [(parameter's name, parameter)])

    def _get_append_fn(self, module, name, is_bw):
        enter = super()._get_append_fn(module, name, is_bw)
        if name not in self.modules:
            self.modules[name] = name.count(".") + 1, type(module), list(module.named_parameters(recurse=False))

        def entered(*args):
            enter(*args)
            self.stack.append(name)
        return entered

    def _get_pop_fn(self, module, name, is_bw):
        leave = super()._get_pop_fn(module, name, is_bw)

        def left(*args):
            leave(*args)
            if name in self.stack:
                self.stack.remove(name)
        return left

    def _fw_pre_hook(self, module, args):
        """What a module's own hooks do after its forward, as those of parallelize_module, is the module's: it is left after them."""
        super()._fw_pre_hook(module, args)

        def leave(module, args, output):
            handle.remove()
            super(_Tracker, self)._fw_post_hook(module, args, output)
        handle = module.register_forward_hook(leave, always_call=True)

    def _fw_post_hook(self, module, args, output):
        pass

    @property
    def innermost(self):
        """The deepest of those that run, the last one of several: backward passes meet a module and its last part at once, and do not see all ends."""
        running = [name for name in self.stack if name in self.parents]
        return max(reversed(running), key=lambda name: self.modules[name][0], default="Global")


def _class_of(kind):
    return f"class '{kind.__module__}.{kind.__qualname__}'".replace("'rushlight.", "'torch.")


class _Operations(TorchDispatchMode):
    def __init__(self, told):
        super().__init__()
        self.told = told

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.told(func, args, kwargs or {})
        return NotImplemented if any(t is DTensor for t in types) else func(*args, **(kwargs or {}))


class CommDebugMode:
    """Inside `with mode:` collectives are counted, also those of DTensors and of the backward pass, and operations are noted for each module."""

    def __init__(self):
        self.comm_counts, self.comm_module_counts, self.comm_module_operation_counts = self._counter(), {}, {}
        self.advanced_module_tracker = _Tracker()
        self._mode = _Operations(self._operation)

    @staticmethod
    def _counter():
        return collections.defaultdict(int)

    def __enter__(self):
        self.comm_counts = self._counter()
        self.comm_module_counts = {"Global": {"forward": self._counter(), "backward": self._counter()}}
        self.comm_module_operation_counts = {}
        self.advanced_module_tracker = _Tracker()
        distributed_c10d._watchers.append(self._collective)
        self.advanced_module_tracker.__enter__()
        self._mode.__enter__()
        return self

    def __exit__(self, *error):
        self._mode.__exit__(*error)
        self.advanced_module_tracker.__exit__(*error)
        distributed_c10d._watchers.remove(self._collective)

    # ---- what happens inside

    def _collective(self, name, functional):
        names = _NAMES.get(name)
        if names is None:
            return
        packet = getattr(torch.ops.c10d_functional, names[1]) if functional and names[1] else getattr(torch.ops.c10d, names[0])
        self.comm_counts[packet] += 1
        key = "backward" if self.advanced_module_tracker.is_bw else "forward"
        for module in self.advanced_module_tracker.parents:
            counts = self.comm_module_counts.setdefault(module, {"forward": self._counter(), "backward": self._counter()})
            counts[key][packet] += 1

    def _operation(self, func, args, kwargs):
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        spread = [t for t in tensors if isinstance(t, DTensor)]
        tracker = self.advanced_module_tracker
        self.comm_module_operation_counts.setdefault(tracker.innermost, []).append({
            "name": str(func), "input_shape": [t.shape for t in spread], "input_sharding": [t.placements for t in spread],
            "device_mesh": str(spread[0].device_mesh) if spread else "", "is_bw": tracker.is_bw})

    # ---- what is known then

    def get_comm_counts(self):
        """{operation of torch.ops.c10d or c10d_functional: how often}"""
        return self.comm_counts

    def get_total_counts(self):
        return sum(self.comm_counts.values())

    def get_parameter_info(self):
        """{module's name: {parameter's name: parameter}}"""
        return {name: {n: p.data for n, p in own} for name, (_, _, own) in self.advanced_module_tracker.modules.items() if own}

    def get_sharding_info(self):
        """{parameter's name: placements} of those that are DTensors"""
        return {f"{name}.{n}": p.placements for name, (_, _, own) in self.advanced_module_tracker.modules.items() for n, p in own if isinstance(p, DTensor)}

    def _modules(self):
        """(name, depth, class or None, parameters that are DTensors) of Global and of each module, a module before its parts."""
        known = self.advanced_module_tracker.modules
        order = {name: [list(known).index(".".join(name.split(".")[:k])) for k in range(1, depth + 1) if ".".join(name.split(".")[:k]) in known]
                 for name, (depth, _, _) in known.items()}
        yield "Global", 0, None, []
        for name in sorted(known, key=order.get):
            depth, kind, own = known[name]
            yield name, depth, kind, [(n, p) for n, p in own if isinstance(p, DTensor)]

    def _operations(self, name, key, noise_level=3):
        found = [o for o in self.comm_module_operation_counts.get(name, ()) if o["is_bw"] == (key == "backward")]
        if noise_level >= 3:
            return found
        return [o for o in found if o["name"] not in _TRIVIAL and (noise_level == 2 or noise_level == 1 and o["input_shape"])]

    def _collectives(self, name, key):
        return self.comm_module_counts.get(name, {}).get(key, {})

    def generate_comm_debug_tracing_table(self, noise_level=3):
        """The modules with their collectives (0), operations of DTensors (1), all but trivial operations (2), all (3)."""
        out = []
        for name, depth, kind, own in self._modules():
            pad = "    " * depth
            out.append(pad + name)
            if noise_level > 0 and kind is not None:
                out.append(f"{pad}*module type: {_class_of(kind)}")
                out += [pad + "*Parameter List"] * bool(own) + [f"{pad} *{n}: {p.placements}" for n, p in own]
            for key, title in _PASSES:
                counts = self._collectives(name, key)
                if counts or noise_level > 0 and self._operations(name, key):
                    out.append(f"{pad}  {title}")
                    out += [f"{_YELLOW}{pad}    *{packet}: {n}{_END}" for packet, n in counts.items()]
                    out += [line for o in self._operations(name, key, noise_level) for line in self._lines(o, pad)]
        return "\n".join(out) + "\n"

    @staticmethod
    def _lines(operation, pad):
        yield f"{_YELLOW}{pad}    **{operation['name']}{_END}"
        if operation["input_shape"]:
            yield f"{_RED}{pad}      shape: {operation['input_shape']}{_END}"
            yield f"{_RED}{pad}      sharding: {operation['input_sharding']}{_END}"
            yield f"{_RED}{pad}      device mesh: {operation['device_mesh']}{_END}"

    def log_comm_debug_tracing_table_to_file(self, file_name="comm_mode_log.txt", noise_level=3):
        """The table without colours, in a file."""
        table = self.generate_comm_debug_tracing_table(noise_level)
        for colour in (_YELLOW, _RED, _END):
            table = table.replace(colour, "")
        with open(file_name, "w") as file:
            file.write(table)

    def generate_json_dump(self, file_name="comm_mode_log.json", noise_level=3):
        """The same as a tree of modules."""
        made = {}
        for name, depth, kind, own in self._modules():
            made[name] = entry = {"fqn": name, "module_type": "" if kind is None else _class_of(kind), "parameters": [[n, str(p.placements)] for n, p in own],
                                  "children": []}
            for key, _ in _PASSES:
                entry["collectives_" + key] = [f"{packet}: {n}" for packet, n in self._collectives(name, key).items()]
                entry["operations_" + key] = [{**o, "input_shape": [str(s) for s in o["input_shape"]], "input_sharding": [str(s) for s in o["input_sharding"]]}
                                              for o in self._operations(name, key, noise_level)] if noise_level > 0 else []
            if kind is not None:
                made.get(name.rpartition(".")[0], made["Global"])["children"].append(entry)
        with open(file_name, "w") as file:
            json.dump(made["Global"], file, indent=4)

    def __repr__(self):
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"
