"""Operators written in Python: kernels by device, a fake for the meta device, a derivative.

PyOp is one overload. A call goes through the derivative if an input needs one, then to the kernel of the inputs'
device, then to a kernel for all devices.
"""
import collections
import contextlib
import functools
import inspect
import logging
import sys
import warnings

import rushlight as torch
from rushlight import _C
from rushlight._library import fake_impl
from rushlight._library.convert import Refused, converter
from rushlight._library.schema import parse_schema
from rushlight.utils import _python_dispatch

_log = logging.getLogger("torch._library.custom_ops")  # by the name that programs listen to
OPDEFS = {}
Fallback = collections.namedtuple("Fallback", "call where")     # call None: fallthrough_kernel
FALLBACKS = {}      # dispatch key -> Fallback, of operators without a kernel for it
_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "mps": "MPS", "xpu": "XPU"}


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _memory(t):
    return t.untyped_storage().data_ptr() if t.layout is torch.strided and type(t) in (torch.Tensor, torch.nn.Parameter) else id(t)


_PLAIN = frozenset({type(None), bool, int, float, str, torch.Tensor, torch.nn.Parameter})


def _foreign(values):
    """Those with a __torch_function__: tensors of subclasses, the proxies of fx."""
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            continue
        if isinstance(value, (list, tuple)):
            yield from _foreign(value)
        elif hasattr(kind, "__torch_function__"):
            yield value


def who_answers(args, kwargs):
    """The arguments that torch.overrides.handle_torch_function is to ask about a call, or None: the call is made."""
    plain = _PLAIN.issuperset(map(type, args)) and _PLAIN.issuperset(map(type, kwargs.values()))
    foreign = () if plain else (*_foreign(args), *_foreign(kwargs.values()))
    if (foreign or _C._len_torch_function_stack()) and torch.overrides.has_torch_function(foreign or (None,)):
        return foreign or (None,)
    return None


def bound(schema, takes, name, call, args, kwargs):
    """The arguments of a call in the schema's order, defaults filled in; what does not fit is a RuntimeError."""
    spec = schema.arguments
    values, given = [], dict(kwargs)
    positional = [a for a in spec if not a.kwarg_only]
    most, got = (len(positional), len(args)) if len(args) > len(positional) else (len(spec), len(args) + len(kwargs))
    if got > most and len(args) + len(kwargs.keys() & {a.name for a in spec}) >= len([a for a in spec if not a.has_default_value()]):
        raise RuntimeError("%s expected at most %d argument(s) but received %d argument(s). Declaration: %s" % (call, most, got, schema))
    for i, argument in enumerate(spec):
        if not argument.kwarg_only and i < len(args):
            if argument.name in given:
                raise RuntimeError("%s got multiple values for argument '%s'" % (call, argument.name))
            value = args[i]
        elif argument.name in given:
            value = given.pop(argument.name)
        elif argument.has_default_value():
            values.append(argument.default_value)
            continue
        else:
            raise RuntimeError("%s is missing value for argument '%s'. Declaration: %s" % (call, argument.name, schema))
        try:
            values.append(takes[i](value))
        except Refused as why:
            raise RuntimeError("%s Expected a value of type '%s' for argument '%s' but instead found type '%s'.\nPosition: %d\nValue: %r\nDeclaration: %s\n%s"
                               % (call, argument.written.annotation(), argument.name, type(value).__name__, i, value, schema, why)) from None
    if given:
        raise RuntimeError("Unknown keyword argument '%s' for operator '%s'. Schema: %s"
                           % (next(iter(given)), name, schema))
    return values


def refuse(text, args, kwargs):
    """The error of a call that an operator of the library does not take, as operators of Python would say it."""
    method = text.partition("(")[0].count("::") == 2     # of a registered class
    schema = parse_schema(text.partition("::")[2] if method else text)
    name = schema.name if "::" in schema.name else "aten::" + schema.name
    takes = [converter(a.written, a.N) for a in schema.arguments]
    bound(schema, takes, name, (name.partition("::")[2] if method else name) + "()", args, kwargs or {})


class PyOp:
    """One overload: its schema and what is registered for it."""

    def __init__(self, namespace, schema, tags=()):
        self.namespace, self.schema, self.tags = namespace, schema, tags
        self.takes = [converter(a.written, a.N) for a in schema.arguments]
        self.gives = [converter(r.written, r.N) for r in schema.returns]
        self.base = schema.name.split("::")[-1]
        self.keywords = any(a.kwarg_only for a in schema.arguments)
        self.custom = False         # of custom_op: its kernels record no gradients, and what it writes is counted as written
        self.device_at = None       # without tensors among its arguments, but with kernels for devices: the place of the argument `device`
        self.kernels = {}           # dispatch key -> function
        self.covered = {}           # dispatch key -> the functions that were there before, each of another Library
        self.fake = None
        self.backward = self.setup_context = None
        self.vmap = None
        self.disabled = set()
        self.autocast = {}
        self.torch_dispatch = {}

    @property
    def name(self):
        full = "%s::%s" % (self.namespace, self.base)
        return full + ("." + self.schema.overload_name if self.schema.overload_name else "")

    def give(self, key, fn):
        if key in self.kernels:
            self.covered.setdefault(key, []).append(self.kernels[key])
        self.kernels[key] = fn

    def take_back(self, key, fn):
        """The kernel goes; what was there before it comes back."""
        covered = self.covered.get(key, [])
        if self.kernels.get(key) is not fn:
            covered[:] = [f for f in covered if f is not fn]
        elif covered:
            self.kernels[key] = covered.pop()
        else:
            del self.kernels[key]

    def bind(self, args, kwargs):
        """All arguments in the schema's order, as its types say, defaults filled in."""
        if not kwargs and len(args) == len(self.takes) and not self.keywords:
            try:
                return [take(value) for take, value in zip(self.takes, args)]
            except Refused:
                pass        # said below
        return bound(self.schema, self.takes, self.name, "%s::%s()" % (self.namespace, self.base), args, kwargs)

    def returned(self, result):
        """What a kernel returned, as the schema has it: a tuple of several results, a list for Tensor[]."""
        if not self.gives:
            if result is not None:
                raise RuntimeError("Expected PythonKernelHolder for %s to return None but it returned something else instead." % self.name)
            return None
        if len(self.gives) > 1 and not isinstance(result, (list, tuple)):
            raise TypeError("Object of type '%s' is not an instance of 'sequence'" % type(result).__name__)
        try:
            return self.gives[0](result) if len(self.gives) == 1 else tuple(take(x) for take, x in zip(self.gives, result))
        except Refused as why:
            raise RuntimeError(str(why).removeprefix("Cast error details: ")) from None

    def spread(self, values):
        """Values as the Python function takes them: positional ones and keywords."""
        if not self.keywords:
            return values, {}
        args = [v for v, a in zip(values, self.schema.arguments) if not a.kwarg_only]
        return args, {a.name: v for v, a in zip(values, self.schema.arguments) if a.kwarg_only}

    def __call__(self, *args, **kwargs):
        asked = who_answers(args, kwargs)
        if asked is not None:
            return torch.overrides.handle_torch_function(self.overload(), asked, *args, **kwargs)
        return self.call(args, kwargs)

    def call(self, args, kwargs):
        """A call that no __torch_function__ is asked about."""
        values = self.bind(args, kwargs)
        capture = sys.modules.get("rushlight.export._capture")
        if capture is None:
            return self._cast_and_run(values) if self.autocast else self.run(values)
        return capture.whole(self.overload(), lambda: self._cast_and_run(values), args, kwargs)

    def _cast_and_run(self, values):
        for device_type, dtype in self.autocast.items():
            if torch.is_autocast_enabled(device_type):
                values = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() and t.dtype != torch.float64 and
                                                           t.device.type == device_type else t, values)
                with torch.autocast(device_type, enabled=False):
                    return self.run(values)
        return self.run(values)

    def overload(self):
        packet = getattr(getattr(torch.ops, self.namespace), self.base)
        return getattr(packet, self.schema.overload_name or "default")

    def run(self, values):
        grad, device = _C._call_kind(values)
        if self.device_at is not None:
            device = values[self.device_at].type
        result = self._differentiated(values) if grad and _C.is_grad_enabled() else self.compute(values, device)
        if self.custom and self.schema.is_mutable:
            torch.autograd.graph.increment_version(list(_tensors(v for v, a in zip(values, self.schema.arguments) if a.is_write)))
        return result

    def has_meta(self):
        """Is there something to call for tensors of the meta device, be it to refuse them?"""
        return self.custom or self.fake is not None or "Meta" in self.kernels or any(key.startswith("Composite") for key in self.kernels) or \
            "Meta" in FALLBACKS or self.schema.is_mutable and not self.gives

    def _differentiated(self, values):
        if self.backward is not None:
            return self._recorded(values)
        for key in ("Autograd", "AutogradCPU", "AutogradCUDA", "CompositeImplicitAutograd"):
            if key in self.kernels:
                args, kwargs = self.spread(values)
                return self.returned(self.kernels[key](*args, **kwargs))
        if not self.custom:
            return self._warned(self.compute(values), values)
        with torch.no_grad():
            result = self.compute(values)

        def refuse(*grads):
            raise RuntimeError("Trying to backward through %s but no autograd formula was registered. Please use register_autograd to add one." % self.overload())
        return result if self.schema.is_mutable else self._behind(result, values, refuse)

    def _behind(self, result, values, backward):
        """The results as those of a node with this backward, which gives the inputs no gradient."""
        inputs = [t for t in _tensors(values) if t.requires_grad]

        class NoDerivative(torch.autograd.Function):
            @staticmethod
            def forward(ctx, out, *tensors):
                return out.view_as(out)

            @staticmethod
            def backward(ctx, *grads):
                backward(*grads)
                return (None,) * (1 + len(inputs))
        return torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda t: NoDerivative.apply(t, *inputs) if t.is_floating_point() and not t.requires_grad else t, result)

    def _warned(self, result, values):
        """Kernels below autograd that record themselves are followed, others give no gradient; either is said when it is gone through."""
        def warn(*grads):
            warnings.warn("%s: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through it. This may lead to silently "
                          "incorrect behavior. This behavior is deprecated and will be removed in a future version of PyTorch. If your operator is differentiable, "
                          "please ensure you have registered an autograd kernel to the correct Autograd key (e.g. DispatchKey::Autograd, "
                          "DispatchKey::CompositeImplicitAutograd). If your operator is not differentiable, or to squash this warning and use the previous "
                          "behavior, please register torch::CppFunction::makeFallthrough() to DispatchKey::Autograd." % self.name, stacklevel=2)
        inputs = {id(t) for t in _tensors(values)}
        for t in _tensors([result]):
            if t.requires_grad and id(t) not in inputs:
                t.register_hook(warn)
        return result if self.schema.is_mutable else self._behind(result, values, warn)

    def compute(self, values, device=None):
        """Without derivative: what a mode or a tensor's class answers, else the kernel for the device."""
        args, kwargs = self.spread(values)
        if len(self.kernels) != 1 or "CompositeImplicitAutograd" not in self.kernels:       # such a one is seen by the operators that it calls
            answer = self._ruled(args, kwargs) if self.torch_dispatch else NotImplemented
            if answer is NotImplemented:
                answer = _C._dispatch(self, tuple(args), kwargs)
            if answer is not NotImplemented:
                return answer
        device = device or _C._call_kind(values)[1]
        key = _KEYS.get(device) or ("PrivateUse1" if device == _C._get_privateuse1_backend_name() else device.upper())
        if device == "meta" and "Meta" not in self.kernels and self.fake is not None:
            before, fake_impl.current = fake_impl.current, fake_impl.FakeImplCtx(self)
            try:
                return self.returned(self.fake(*args, **kwargs))
            finally:
                fake_impl.current = before
        if self.custom and device == "meta" and "Meta" not in self.kernels and self.gives:
            raise RuntimeError("There was no fake impl registered for <CustomOpDef(%s)>. This is necessary for torch.compile/export/fx tracing to work. Please use "
                               "`%s.register_fake` to add an fake impl." % (self.name, OPDEFS[self.name].__name__))
        if self.device_at is not None and key not in self.kernels:
            raise RuntimeError("%s does not have a kernel registered for %s. Please use register_kernel to do so." % (self.base, device))
        for name in (key, "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd", "Autograd", "Autograd" + key, "BackendSelect"):
            if name in self.kernels and name not in self.disabled:
                return self.returned(self.kernels[name](*args, **kwargs))
        if device == "meta" and self.schema.is_mutable and not self.schema.returns:
            return None     # it only writes its arguments: without data there is nothing to do
        if key in FALLBACKS and FALLBACKS[key].call is not None:
            return FALLBACKS[key].call(self.overload(), *args, **kwargs)
        if device == "meta":
            raise NotImplementedError("%s: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel registered. You may have run "
                                      "into this message while using an operator with PT2 compilation APIs (torch.compile/torch.export); in order to use this "
                                      "operator with those APIs you'll need to add a fake impl." % self.name)
        raise NotImplementedError("Could not run '%s' with arguments from the '%s' backend: there is no kernel registered for "
                                  "it. Registered are: %s" % (self.name, key, sorted(self.kernels) or "none"))

    def _ruled(self, args, kwargs):
        """What a rule of register_torch_dispatch answers in place of a mode or of a tensor's class."""
        tensors = list(_tensors([*args, *kwargs.values()]))
        types = tuple({type(t): None for t in tensors if type(t) is not torch.Tensor})
        mode = _python_dispatch._get_current_dispatch_mode()
        if mode is not None:
            rule = self.torch_dispatch.get(type(mode))
            if rule is None:
                return NotImplemented
            with _python_dispatch._pop_mode_temporarily():
                return rule(mode, self.overload(), types, tuple(args), kwargs)
        cls = next((cls for cls in types if cls in self.torch_dispatch), None)
        return NotImplemented if cls is None else self.torch_dispatch[cls](cls, self.overload(), types, tuple(args), kwargs)

    def _recorded(self, values):
        """Through an autograd.Function around the kernel, which takes the leaves of the arguments and, last, how they are arranged."""
        leaves, spec = values, None
        if any(isinstance(v, (list, tuple, dict)) for v in values):
            leaves, spec = torch.utils._pytree.tree_flatten(values, is_leaf=lambda x: x is not values and isinstance(x, list) and not any(isinstance(v, torch.Tensor) for v in x))
        return self._node.apply(*leaves, spec)

    @functools.cached_property
    def _node(self):
        op = self

        def forward(ctx, *leaves_and_spec):
            *leaves, spec = leaves_and_spec
            inputs = leaves if spec is None else torch.utils._pytree.tree_unflatten(leaves, spec)
            with torch.no_grad():
                output = op.compute(inputs)
            dirty = list(_tensors(v for v, a in zip(inputs, op.schema.arguments) if a.is_write)) if op.schema.is_mutable else None
            if dirty:
                ctx.mark_dirty(*dirty)
            if op.setup_context is not None:
                args, kwargs = op.spread(inputs)
                if kwargs:
                    op.setup_context(ctx=ctx, inputs=tuple(args), keyword_only_inputs=kwargs, output=output)
                else:
                    op.setup_context(ctx=ctx, inputs=tuple(args), output=output)
            ctx._op_spec, ctx._op_output_is_list = spec, isinstance(output, list)
            return tuple(output) if ctx._op_output_is_list else output

        def backward(ctx, *grads):
            if ctx._op_output_is_list:
                grads = (list(grads),)
            result = op.backward(ctx, *grads)
            result = list(result) if isinstance(result, (tuple, list)) else [result]
            # Those of what defaults filled in, and of keywords, may be left out.
            rest = op.schema.arguments[len(result):]
            if all(a.kwarg_only or a.has_default_value() for a in rest):
                result += [None] * len(rest)
            if ctx._op_spec is None:
                return (*result, None)
            # One gradient per argument; lists of tensors give lists of gradients.
            leaves = []
            for child, grad in zip(ctx._op_spec.children_specs, result):
                if child.is_leaf():
                    leaves.append(grad)
                elif grad is None:
                    leaves += [None] * child.num_leaves
                else:
                    leaves += list(grad)
            return (*leaves, None)

        name = "GeneratedBackwardFor_%s_%s_%s" % (self.namespace, self.base, self.schema.overload_name or "default")
        return type(torch.autograd.Function)(name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def check_tensors_have_places(function, schema, written=None):
    if any(a.kwarg_only and str(a.written).startswith("Tensor") for a in schema.arguments):
        raise NotImplementedError("%s with kwarg-only Tensor args. %s make your tensors not kwarg-only. Got: %s"
                                  % (function, "Please" if written else "In the original definition of the op, please", written or schema))


def check_differentiable(operator, schema):
    if schema.is_mutable or any(r.alias_info is not None for r in schema.returns):
        raise RuntimeError("Cannot register autograd formula for non-functional operator %s with schema %s. Please create a functional operator and register "
                           "an autograd formula for that." % (operator, schema))


class CustomOpDef:
    """What @custom_op makes of a function: callable, and the place to register more."""

    def __init__(self, namespace, name, schema, fn, tags=None):
        before = OPDEFS.get("%s::%s" % (namespace, name))
        if before is not None:
            before._lib._destroy()
        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn = fn
        self._qualname = "%s::%s" % (namespace, name)
        self._tags = tags
        check_tensors_have_places("custom_op", parse_schema(name + schema), name + schema)
        self._lib = torch.library.Library(namespace, "FRAGMENT")
        self._lib.define(name + schema, tags=(torch.Tag.pt2_compliant_tag, *([tags] if isinstance(tags, torch.Tag) else tags or ())))
        self._op.custom = True
        functools.update_wrapper(self, fn, updated=())
        OPDEFS[self._qualname] = self

    def __repr__(self):
        return "<CustomOpDef(%s)>" % self._qualname

    @property
    def _op(self):
        """The operator of this name, which a later custom_op may have made."""
        name, _, overload = self._name.partition(".")
        return torch.ops._python_op(self._namespace, name, overload)

    @property
    def _opoverload(self):
        return self._op.overload()

    def __call__(self, *args, **kwargs):
        return self._op(*args, **kwargs)

    def register_kernel(self, device_types, fn=None, /):
        """Decorator: a kernel for these devices (None: for all)."""
        def register(fn):
            kinds = [None] if device_types is None else [device_types] if isinstance(device_types, str) \
                else list(device_types)
            if any(kind is not None for kind in kinds):
                self._op.device_at = self._place_of_device()
            for kind in kinds:
                key = "CompositeExplicitAutograd" if kind is None else torch.library._device_type_to_key(kind)
                self._op.kernels[key] = self._checked(fn)
            return fn
        return register if fn is None else register(fn)

    def _place_of_device(self):
        """None, where tensors tell the device."""
        arguments = self._op.schema.arguments
        if any(str(a.written).startswith("Tensor") for a in arguments):
            return None
        places = [i for i, a in enumerate(arguments) if a.name == "device" and str(a.written) == "Device"]
        if not places:
            raise ValueError("Functions without tensor inputs are required to have a `device: torch.device` argument")
        return places[0]

    def _checked(self, fn):
        """The kernel, with a check that results share no memory with inputs or each other."""
        name = self._name

        @functools.wraps(fn)
        def kernel(*args, **kwargs):
            result = fn(*args, **kwargs)
            seen = {_memory(t) for t in _tensors([*args, *kwargs.values()]) if t.numel()}
            for out in _tensors([result]):
                if _memory(out) in seen:
                    raise RuntimeError("%s (with implementation in %s): The output of this custom operator (1) must not also be "
                                       "an input to this custom operator and (2) may not alias any inputs to this custom "
                                       "operator or other returns. The most common way to trigger this error is if we have y "
                                       "= custom_op(x) and y and x are the same Tensor. Please instead return a clone of the "
                                       "offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to "
                                       "not return y." % (name, inspect.getmodule(fn)))
                if out.numel():
                    seen.add(_memory(out))
            return result
        return kernel

    def register_fake(self, fn, /):
        """Decorator: shapes and dtypes of the results, without data."""
        self._op.fake = fn
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """backward(ctx, *gradients), and setup_context(ctx, inputs, output) that saves what it needs."""
        check_differentiable(self, self._op.schema)
        self._op.backward, self._op.setup_context = backward, setup_context

    def register_vmap(self, func=None):
        """Decorator: func(info, in_dims, *args) -> (result, out_dims)"""
        def register(func):
            self._op.vmap = func
            return func
        return register if func is None else register(func)

    def register_autocast(self, device_type, cast_inputs):
        self._op.autocast[device_type] = cast_inputs

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        def register(fn):
            self._op.torch_dispatch[torch_dispatch_class] = fn
            return fn
        return register if fn is None else register(fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        """Context manager: the kernel of a device is used, or not."""
        key = {**torch.library._KEYS, torch._C._get_privateuse1_backend_name(): "PrivateUse1"}.get(device_type)
        action, op = "enable" if enabled else "disable", self._op
        before = frozenset(op.disabled)
        if key not in op.kernels:
            _log.warning("Attempted to %s kernel for %s but no kernel was registered for this device type.", action, device_type)
        elif enabled == (key not in before):
            _log.warning("Attempted to %s kernel for %s but it was already %sd.", action, device_type, action)
        else:
            (op.disabled.discard if enabled else op.disabled.add)(key)
        try:
            yield
        finally:
            op.disabled = set(before)


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Decorator: a function becomes the operator ns::name."""
    def make(fn):
        from rushlight._library.infer_schema import infer_schema
        text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
        namespace, _, opname = name.partition("::")
        if not opname:
            raise ValueError("custom_op: expected a name of the form namespace::name, but got %r" % name)
        if schema is not None and mutates_args != "unknown":
            written = {a.name for a in parse_schema(opname + schema).arguments if a.is_write}
            if written != set(mutates_args):
                raise ValueError("Attempted to create a custom op with `mutates_args=%s` and `schema=%s. The schema suggests "
                                 "that the op mutates %s which is different from what was provided to us in `mutates_args`. "
                                 "Please make these consistent." % (set(mutates_args), schema, written))
        made = CustomOpDef(namespace, opname, text, fn, tags)
        if device_types is None:
            made._op.kernels["CompositeExplicitAutograd"] = made._checked(fn)
        else:
            made.register_kernel(device_types)(fn)
        return made
    return make if fn is None else make(fn)
