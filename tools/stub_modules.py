"""Stubs of what is written in Python: names and arguments from the modules themselves, types from names and defaults.

tools/stubs prints with this the modules below torch. A parameter's type is told by its default or, where that says nothing, by its name:
an `input` is a Tensor wherever it occurs. What neither tells is Any. So a checker finds every misspelt name and argument, and most wrong types.
"""
import ast
import importlib
import inspect
import keyword
import re
import textwrap

MODULES = """nn.parameter nn nn.functional nn.init nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations nn.utils.prune nn.parallel nn.attention optim optim.lr_scheduler
optim.swa_utils utils.data linalg fft special func autograd autograd.functional autograd.forward_ad autograd.profiler autograd.graph amp distributions distributions.kl
distributions.constraints distributions.transforms utils.checkpoint utils.tensorboard utils.dlpack utils.cpp_extension utils.mobile_optimizer jit onnx export fx profiler random
cuda cpu testing backends backends.cudnn backends.mkldnn backends.openmp compiler distributed multiprocessing sparse masked nested signal signal.windows
ao.quantization quantization storage futures hub library overrides types functional serialization""".split()
HEAD = """from typing import Any, Callable, ContextManager, Generic, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union, overload

from typing_extensions import Self
"""
FROM_ROOT = ("Tensor", "RemovableHandle", "Generator as _Generator", "Number as _Number", "Size as _Size", "_Device", "_Sizes", "_bool", "_dtype", "_float", "_int",
             "_layout", "_memory_format", "_str", "_Params")

ONE_OR_MORE = "Union[_int, Sequence[_int]]"
BY_NAME = {  # whatever the default
    **dict.fromkeys("kernel_size dilation output_padding normalized_shape".split(), ONE_OR_MORE),
    "stride": "Union[_int, Sequence[_int], None]", "padding": "Union[_str, _int, Sequence[_int]]", "output_size": "Any", "size": "Any", "scale_factor": "Any", "pad": "Sequence[_int]",
    "dtype": "Optional[_dtype]", "device": "_Device", "generator": "Optional[_Generator]", "size_average": "Optional[_bool]", "reduce": "Optional[_bool]",
    "params": "_Params", "lr": "Union[_float, Tensor]", "betas": "tuple[_float, _float]", "closure": "Optional[Callable[[], Any]]", "optimizer": "_Optimizer",
    "module": "_Module", "model": "_Module", "activation": "Union[_str, Callable[[Tensor], Tensor]]", "parameters": "_Tensors", "tensors": "Any", "milestones": "Iterable[_int]",
    "foreach": "Optional[_bool]", "fused": "Optional[_bool]", "seed": "_int", "max_norm": "Optional[_float]", "padding_idx": "Optional[_int]", "p": "_float", "cutoffs": "Sequence[_int]",
    "labels": "Any", "args": "Any", "kwargs": "Any", "memo": "Any", "alpha": "_float", "dropout": "_float"}
TENSORS = set("""input target weight bias tensor other running_mean running_var input1 input2 query key value attn_mask key_padding_mask anchor positive negative log_probs targets
input_lengths target_lengths logits pos_weight x x1 x2 grid theta src tgt memory indices hx src_mask tgt_mask memory_mask src_key_padding_mask tgt_key_padding_mask
memory_key_padding_mask mask offsets per_sample_weights linear_weight linear_bias var""".split())
WHOLE = re.compile(r"(\w+_)?(features|channels|classes|layers|heads?|groups|size|dim|dims|embeddings|parameters|chunks|workers|epochs|steps?|iters?|iter)|num_.*|dim\d?|n_\w+|groups|N|n|d_model|nhead"
                   r"|T_max|T_0|T_mult|.*_factor_r|patience|cooldown|last_epoch|rank|world_size|ndim|dim_feedforward|kdim|vdim|embedding_dim|upscale_factor|downscale_factor|blank|ignore_index")
RETURNS = {  # by function, or by class.method; others are Tensor in TENSOR_SPACES, Any elsewhere
    "has_torch_function": "_bool", "assert_int_or_pair": "None", "calculate_gain": "_float", "clip_grad_norm_": "Tensor", "clip_grad_value_": "None", "parameters_to_vector": "Tensor",
    "vector_to_parameters": "None", "manual_seed": "_Generator", "seed": "_int", "initial_seed": "_int", "get_rng_state": "Tensor", "set_rng_state": "None", "save": "None", "einsum": "Tensor",
    "broadcast_tensors": "tuple[Tensor, ...]", "broadcast_shapes": "_Size", "meshgrid": "tuple[Tensor, ...]", "norm": "Tensor", "cdist": "Tensor", "tensordot": "Tensor", "split": "tuple[Tensor, ...]",
    "block_diag": "Tensor", "cartesian_prod": "Tensor", "chain_matmul": "Tensor", "stft": "Tensor", "istft": "Tensor", "multi_head_attention_forward": "tuple[Tensor, Optional[Tensor]]",
    "update_bn": "None", "is_available": "_bool", "device_count": "_int", "get_total_norm": "Tensor", "pad_sequence": "Tensor", "unpad_sequence": "list[Tensor]",
    "unpack_sequence": "list[Tensor]", "pad_packed_sequence": "tuple[Tensor, Tensor]", "pack_padded_sequence": "PackedSequence", "pack_sequence": "PackedSequence", "set_printoptions": "None",
    "set_default_dtype": "None", "is_tensor": "_bool", "is_storage": "_bool", "get_last_lr": "list[_float]", "get_lr": "list[_float]", "zero_grad": "None", "load_state_dict": "None",
    "state_dict": "dict[_str, Any]", "log_prob": "Tensor", "sample": "Tensor", "rsample": "Tensor", "entropy": "Tensor", "kl_divergence": "Tensor", "cdf": "Tensor", "icdf": "Tensor",
    "sample_n": "Tensor", "enumerate_support": "Tensor", "expand": "Self", "assert_close": "None", "synchronize": "None", "use_deterministic_algorithms": "None", "add_scalar": "None",
    "add_scalars": "None", "add_histogram": "None", "add_image": "None", "add_text": "None", "flush": "None", "close": "None", "update_parameters": "None", "default_collate": "Any",
    "LSTM.forward": "tuple[Tensor, tuple[Tensor, Tensor]]", "GRU.forward": "tuple[Tensor, Tensor]", "RNN.forward": "tuple[Tensor, Tensor]",
    "LSTMCell.forward": "tuple[Tensor, Tensor]", "MultiheadAttention.forward": "tuple[Tensor, Optional[Tensor]]", "AdaptiveLogSoftmaxWithLoss.forward": "Any",
    "scale": "Any", "unscale_": "None", "update": "None", "get_scale": "_float", "jit.save": "None", "extra_repr": "_str", "reset_parameters": "None",
    "set_float32_matmul_precision": "None", "get_float32_matmul_precision": "_str", "is_grad_enabled": "_bool", "gradcheck": "_bool", "gradgradcheck": "_bool", "_len": "_int",
    "__len__": "_int", "__contains__": "_bool", "__enter__": "Self", "__exit__": "None", "__repr__": "_str", "__str__": "_str", "__bool__": "_bool", "__int__": "_int", "__iter__": "Iterator[Any]",
    "__hash__": "_int", "__setitem__": "None", "__delitem__": "None", "__init__": "None"}
TENSOR_SPACES = ("nn.functional", "nn.init", "functional")
SPECIAL = ("__init__", "__len__", "__getitem__", "__setitem__", "__delitem__", "__iter__", "__next__", "__contains__", "__enter__", "__exit__", "__add__", "__iadd__", "__bool__", "__call__")


def is_operation(thing):
    return type(thing).__name__ in ("function", "method") and not inspect.isfunction(thing) and not inspect.ismethod(thing)


def default_text(value):
    return repr(value) if value is None or type(value) in (bool, int, str) or type(value) is float and abs(value) < 1e300 else "..."


def type_of(name, default, space):
    empty = default is inspect.Parameter.empty
    if isinstance(default, bool):
        return "_bool"
    if name == "value" and default is None:
        return "Optional[_float]"
    if name in BY_NAME and not (name == "p" and empty) and not (name == "padding" and space == "nn.functional" and empty):
        return BY_NAME[name] if default is not None or "Optional" in BY_NAME[name] or "None" in BY_NAME[name] or BY_NAME[name] in ("Any", "_Device") else "Optional[%s]" % BY_NAME[name]
    if name in TENSORS and (empty or default is None):
        return "Tensor" if empty else "Optional[Tensor]"
    if isinstance(default, str):
        return "_str"
    if WHOLE.fullmatch(name) and (empty or default is None or isinstance(default, int)):
        return "_int" if not default is None else "Optional[_int]"
    return "_float" if isinstance(default, (int, float)) else "Any"


class ModulePrinter:
    def __init__(self, printer, heads):
        self.printer, self.heads, self.where, self.things = printer, heads, {}, {}
        for name in re.findall(r"^class (\w+)", heads[""], re.M):
            self.where.setdefault(getattr(printer.torch, name, None), ("", name))
        self.where.pop(None, None)
        self.modules = [m for m in MODULES if self._imports(m)]
        for space in self.modules:
            for name, thing in self.public(space):
                if isinstance(thing, type) and self._ours(thing):
                    self.where.setdefault(thing, (space, name))

    def _imports(self, space):
        try:
            self.things[space] = importlib.import_module("rushlight." + space)
            return True
        except ImportError:     # what this build or machine lacks
            return False

    @staticmethod
    def _ours(thing):
        return (getattr(thing, "__module__", None) or "").partition(".")[0] in ("torch", "rushlight")

    def public(self, space):
        module = self.things[space]
        for name in sorted({*getattr(module, "__all__", ()), *dir(module)}):
            if not name.startswith("_") and not keyword.iskeyword(name) and name != "torch":
                try:
                    yield name, getattr(module, name)
                except (AttributeError, ImportError):
                    continue

    def file(self, space):
        """(path, text) of a module's stub."""
        head = self.heads.get(space, "")
        taken = set(re.findall(r"^(?:def|class) (\w+)", head, re.M))
        self.imports, body = {}, []
        for name, thing in self.public(space):
            if name not in taken:
                body += self.name(space, name, thing)
        text = "\n".join([head.rstrip()] + body) + "\n"
        for word in set(re.findall(r"\b_return_\w+", text)):
            self.imports.setdefault("rushlight", set()).add(word)
        lines = [HEAD, "from rushlight import " + ", ".join(FROM_ROOT)]
        for word, home, name in (("_Optimizer", "optim", "Optimizer"), ("_Module", "nn", "Module")):
            if re.search(r"\b%s\b" % word, text):
                lines.append("%s = %s" % (word, name) if space == home else "from rushlight.%s import %s as %s" % (home, name, word))
        lines += ["from %s import %s" % (home, ", ".join(sorted(names))) for home, names in sorted(self.imports.items())]
        package = hasattr(self.things[space], "__path__")
        return space.replace(".", "/") + ("/__init__.pyi" if package else ".pyi"), "\n".join(lines) + "\n_Tensors = Union[Tensor, Iterable[Tensor]]\n" + text

    def rest(self, names):
        """Lines for names of torch itself that are written in Python."""
        self.imports, body = {}, []
        self.things.setdefault("functional", self.printer.torch)
        for name in sorted(names):
            thing = getattr(self.printer.torch, name, None)
            if isinstance(thing, type) and thing not in self.where:
                self.where[thing] = ("", name)
            body += [line.replace("_Generator", "Generator").replace("_Size", "Size").replace("Sizes", "_Sizes") for line in self.name("", name, thing)]
        return ["from %s import %s" % (home, ", ".join(sorted(words))) for home, words in sorted(self.imports.items())] + body

    def name(self, space, name, thing):
        if inspect.ismodule(thing):
            home = re.sub(r"^torch\b", "rushlight", thing.__name__)
            if home.startswith("rushlight."):
                self.imports.setdefault(home.rpartition(".")[0], set()).add("%s as %s" % (home.rpartition(".")[2], name))
        elif isinstance(thing, type) and self._ours(thing):
            home, known = self.where[thing]
            if (home, known) == (space, name):
                yield from self.klass(space, name, thing)
            elif home == space:
                yield "%s = %s" % (name, known)
            else:
                self.imports.setdefault(("rushlight." + home).rstrip("."), set()).add("%s as %s" % (known, name))
        elif is_operation(thing) and list(self.printer.torch._C._schemas(thing.__name__)):
            yield from self.printer.callable(name, thing, False, "", thing.__name__)
        elif inspect.isroutine(thing):
            if self._ours(thing) or inspect.isbuiltin(thing):
                yield from self.function(space, name, thing, "")
        elif isinstance(thing, (str, int, float)) or self._ours(type(thing)):
            yield "%s: Any" % name

    def function(self, space, name, thing, indent, owner="", kind=""):
        try:
            parameters = list(inspect.signature(thing).parameters.values())
        except (ValueError, TypeError):
            parameters = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL), inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
        parts, star, first = [], False, bool(owner) and kind != "staticmethod"
        for p in parameters:
            if first:
                first, named = False, p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)
                parts.append(p.name if named else "self")
                if named:
                    continue
            if p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD:
                star = True
                parts.append("%s%s: Any" % ("*" if p.kind is p.VAR_POSITIONAL else "**", p.name))
                continue
            if p.kind is p.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            if keyword.iskeyword(p.name):
                continue
            parts.append("%s: %s%s" % (p.name, type_of(p.name, p.default, space), "" if p.default is p.empty else " = " + default_text(p.default)))
        seen, ordered = False, []       # an argument without a default cannot follow one that has it
        for part in parts:
            plain = part == "*" or part.startswith("*")
            if plain:
                seen = False
            elif " = " in part:
                seen = True
            elif seen:
                part += " = ..."
            ordered.append(part)
        answer = RETURNS.get("%s.%s" % (owner, name)) or RETURNS.get(name) or ("Tensor" if space in TENSOR_SPACES or name == "forward" and space == "nn" else "Any")
        if owner and name in ("__iadd__", "__enter__"):
            answer = "Self" if name == "__iadd__" else "Any"
        for line in ["@" + kind] if kind else []:
            yield indent + line
        yield "%sdef %s(%s) -> %s: ..." % (indent, name, ", ".join(ordered), answer)
        if owner and name == "forward":
            yield "%sdef __call__(%s) -> %s: ..." % (indent, ", ".join(ordered), answer)

    def klass(self, space, name, cls):
        bases, members = [], {}
        lined = [cls]
        for base in cls.__mro__[1:]:
            if base in self.where or not self._ours(base):
                continue
            if not any(base in known.__mro__ for known in cls.__mro__[1:] if known in self.where):
                lined.append(base)
        for base in cls.__mro__[1:]:
            if base in self.where and not any(base in done.__mro__ for done in bases):
                bases.append(base)
            elif issubclass(base, BaseException) and base.__module__ == "builtins" and not bases:
                bases.append(base)
        for one in reversed(lined):
            members.update(vars(one))
        words = []
        for base in bases:
            home, known = self.where.get(base, (space, base.__name__))
            if home != space:
                self.imports.setdefault(("rushlight." + home).rstrip("."), set()).add("%s as _%s" % (known, known))
                known = "_" + known
            words.append(known)
        yield "class %s%s:" % (name, "(%s)" % ", ".join(words) if words else "")
        lines = []
        for attribute, kind in self.assigned(space, lined).items():
            if attribute not in members:
                lines.append("    %s: %s" % (attribute, kind))
        for member, value in sorted(members.items()):
            if member.startswith("_") and member not in SPECIAL or keyword.iskeyword(member):
                continue
            kind = type(value).__name__ if isinstance(value, (staticmethod, classmethod)) else ""
            plain = value.__func__ if kind else value
            if isinstance(value, property):
                lines += ["    @property", "    def %s(self) -> Any: ..." % member]
            elif inspect.isroutine(plain) and not is_operation(plain) or inspect.isfunction(plain):
                lines += self.function(space, member, plain, "    ", name, kind)
            else:
                lines.append("    %s: Any" % member)
        yield from lines or ["    ..."]

    @staticmethod
    def assigned(space, classes):
        """What methods assign to self: name -> type."""
        found = {}
        for cls in classes:
            try:
                tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
            except (OSError, TypeError, SyntaxError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self" and not node.attr.startswith("_"):
                    kind = type_of(node.attr, inspect.Parameter.empty, space)
                    found[node.attr] = "Tensor" if node.attr == "weight" else kind if kind in ("_int", "_float", "_bool") else "Any"
        return found
