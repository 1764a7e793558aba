"""Operators written in Python: kernels by device, a fake for the meta device, a derivative.

PyOp is one overload. A call goes through the derivative if an input needs one, then to the kernel of the inputs'
device, then to a kernel for all devices.
"""
import collections
import functools
import sys

import rushlight as torch
from rushlight._library import fake_impl
from rushlight._library.schema import parse_schema

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


class PyOp:
    """One overload: its schema and what is registered for it."""

    def __init__(self, namespace, schema, tags=()):
        self.namespace, self.schema, self.tags = namespace, schema, tags
        self.kernels = {}           # dispatch key -> function
        self.fake = None
        self.backward = self.setup_context = None
        self.vmap = None
        self.disabled = set()
        self.autocast = {}
        self.torch_dispatch = {}

    @property
    def name(self):
        full = "%s::%s" % (self.namespace, self.schema.name.split("::")[-1])
        return full + ("." + self.schema.overload_name if self.schema.overload_name else "")

    def bind(self, args, kwargs):
        """All arguments in the schema's order, defaults filled in."""
        spec = self.schema.arguments
        values, given = [], dict(kwargs)
        positional = [a for a in spec if not a.kwarg_only]
        if len(args) > len(positional):
            raise RuntimeError("%s() expected at most %d argument(s) but received %d argument(s). Declaration: %s"
                               % (self.name, len(positional), len(args), self.schema))
        for i, argument in enumerate(spec):
            if not argument.kwarg_only and i < len(args):
                if argument.name in given:
                    raise RuntimeError("%s() got multiple values for argument '%s'" % (self.name, argument.name))
                values.append(args[i])
            elif argument.name in given:
                values.append(given.pop(argument.name))
            elif argument.has_default_value():
                values.append(argument.default_value)
            else:
                raise RuntimeError("%s() is missing value for argument '%s'. Declaration: %s"
                                   % (self.name, argument.name, self.schema))
        if given:
            raise RuntimeError("Unknown keyword argument '%s' for operator '%s'. Schema: %s"
                               % (next(iter(given)), self.name, self.schema))
        return values

    def spread(self, values):
        """Values as the Python function takes them: positional ones and keywords."""
        args = [v for v, a in zip(values, self.schema.arguments) if not a.kwarg_only]
        return args, {a.name: v for v, a in zip(values, self.schema.arguments) if a.kwarg_only}

    def __call__(self, *args, **kwargs):
        values = self.bind(args, kwargs)
        overloaded = [t for t in _tensors(values) if type(t) not in (torch.Tensor, torch.nn.Parameter)]
        if (overloaded or torch.overrides._is_torch_function_mode_enabled()) and \
                torch.overrides.has_torch_function(tuple(_tensors(values)) or (None,)):
            return torch.overrides.handle_torch_function(self.overload(), tuple(_tensors(values)), *args, **kwargs)
        capture = sys.modules.get("rushlight.export._capture")
        return self.run(values) if capture is None else capture.whole(self.overload(), lambda: self.run(values), args, kwargs)

    def overload(self):
        packet = getattr(getattr(torch.ops, self.namespace), self.schema.name.split("::")[-1])
        return getattr(packet, self.schema.overload_name or "default")

    def run(self, values):
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in _tensors(values))
        if needs_grad:
            if self.backward is not None:
                return self._recorded(values)
            for key in ("Autograd", "AutogradCPU", "AutogradCUDA"):
                if key in self.kernels:
                    args, kwargs = self.spread(values)
                    return self.kernels[key](*args, **kwargs)
            if "CompositeImplicitAutograd" in self.kernels:
                args, kwargs = self.spread(values)
                return self.kernels["CompositeImplicitAutograd"](*args, **kwargs)
            with torch.no_grad():
                result = self.compute(values)
            return self._not_differentiable(result, values)
        return self.compute(values)

    def _not_differentiable(self, result, values):
        """Results of an operator without a derivative: using their gradient is an error that names it."""
        name = self.name
        inputs = [t for t in _tensors(values) if t.requires_grad]

        class NoDerivative(torch.autograd.Function):
            @staticmethod
            def forward(ctx, out, *tensors):
                return out.view_as(out)

            @staticmethod
            def backward(ctx, *grads):
                raise RuntimeError("Trying to backward through %s but no autograd formula was registered. Please use "
                                   "register_autograd to add one." % name)

        if self.schema.is_mutable:
            return result
        return torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda t: NoDerivative.apply(t, *inputs) if t.is_floating_point() else t, result)

    def compute(self, values):
        """Without derivative: what a mode or a tensor's class answers, else the kernel for the device."""
        args, kwargs = self.spread(values)
        if set(self.kernels) != {"CompositeImplicitAutograd"}:       # such a one is seen by the operators that it calls
            answer = torch._C._dispatch(self.overload(), tuple(args), kwargs)
            if answer is not NotImplemented:
                return answer
        devices = {t.device.type for t in _tensors(values)}
        device = "meta" if "meta" in devices else next((d for d in sorted(devices) if d != "cpu"), "cpu")
        key = "PrivateUse1" if device == torch._C._get_privateuse1_backend_name() else _KEYS.get(device, device.upper())
        if device == "meta" and "Meta" not in self.kernels and self.fake is not None:
            before, fake_impl.current = fake_impl.current, fake_impl.FakeImplCtx(self)
            try:
                return self.fake(*args, **kwargs)
            finally:
                fake_impl.current = before
        order = [key, "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional",
                 "CompositeImplicitAutograd", "Autograd", "Autograd" + key, "BackendSelect"]
        for name in order:
            if name in self.kernels and name not in self.disabled:
                return self.kernels[name](*args, **kwargs)
        if device == "meta" and self.schema.is_mutable and not self.schema.returns:
            return None     # it only writes its arguments: without data there is nothing to do
        if key in FALLBACKS and FALLBACKS[key].call is not None:
            return FALLBACKS[key].call(self.overload(), *args, **kwargs)
        raise NotImplementedError("Could not run '%s' with arguments from the '%s' backend: there is no kernel registered for "
                                  "it. Registered are: %s" % (self.name, key, sorted(self.kernels) or "none"))

    def _recorded(self, values):
        """Through an autograd.Function around the kernel."""
        op = self
        flat, spec = torch.utils._pytree.tree_flatten(values, is_leaf=lambda x: isinstance(x, list) and not any(
            isinstance(v, torch.Tensor) for v in x))

        class Recorded(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *leaves):
                inputs = torch.utils._pytree.tree_unflatten(leaves, spec)
                with torch.no_grad():
                    output = op.compute(inputs)
                written = [v for v, a in zip(inputs, op.schema.arguments) if a.is_write]
                dirty = list(_tensors(written))
                if dirty:
                    ctx.mark_dirty(*dirty)
                if op.setup_context is not None:
                    args, kwargs = op.spread(inputs)
                    if kwargs:
                        op.setup_context(ctx=ctx, inputs=tuple(args), keyword_only_inputs=kwargs, output=output)
                    else:
                        op.setup_context(ctx=ctx, inputs=tuple(args), output=output)
                ctx._op_count = len(inputs)
                ctx._op_output_is_list = isinstance(output, list)
                return tuple(output) if isinstance(output, list) else output

            @staticmethod
            def backward(ctx, *grads):
                if ctx._op_output_is_list:
                    grads = (list(grads),)
                result = op.backward(ctx, *grads)
                result = list(result) if isinstance(result, (tuple, list)) else [result]
                keyword = [a for a in op.schema.arguments if a.kwarg_only]
                result += [None] * len(keyword) if len(result) == len(op.schema.arguments) - len(keyword) else []
                # One gradient per argument; lists of tensors give lists of gradients.
                leaves = []
                for child, grad in zip(spec.children_specs, result):
                    if child.is_leaf():
                        leaves.append(grad)
                    elif grad is None:
                        leaves += [None] * child.num_leaves
                    else:
                        leaves += list(grad)
                return tuple(leaves)

        Recorded.__name__ = Recorded.__qualname__ = "GeneratedBackwardFor_%s" % self.name.replace("::", "_").replace(
            ".", "_")
        return Recorded.apply(*flat)


class CustomOpDef:
    """What @custom_op makes of a function: callable, and the place to register more."""

    def __init__(self, namespace, name, schema, fn, tags=None):
        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn = fn
        self._qualname = "%s::%s" % (namespace, name)
        self._tags = tags
        self._lib = torch.library.Library(namespace, "FRAGMENT")
        self._lib.define(name + schema)
        self._op = torch.ops._python_op(namespace, name, "")
        self._fn = {}
        functools.update_wrapper(self, fn, updated=())
        OPDEFS[self._qualname] = self

    def __repr__(self):
        return "<CustomOpDef(%s)>" % self._qualname

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
            for kind in kinds:
                key = "CompositeExplicitAutograd" if kind is None else torch.library._device_type_to_key(kind)
                self._op.kernels[key] = self._checked(fn)
            return fn
        return register if fn is None else register(fn)

    def _checked(self, fn):
        """The kernel, with a check that results are not inputs."""
        op = self._op

        @functools.wraps(fn)
        def kernel(*args, **kwargs):
            result = fn(*args, **kwargs)
            inputs = {id(t) for t in _tensors(list(args) + list(kwargs.values()))}
            for out in _tensors([result]):
                if id(out) in inputs:
                    raise RuntimeError("%s (with implementation in %s): The output of this custom operator (1) must not also be "
                                       "an input to this custom operator and (2) may not alias any inputs to this custom "
                                       "operator or other returns. The most common way to trigger this error is if we have y "
                                       "= custom_op(x) and y and x are the same Tensor. Please instead return a clone of the "
                                       "offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to "
                                       "not return y." % (op.name, fn.__module__))
            return result
        return kernel

    def register_fake(self, fn, /):
        """Decorator: shapes and dtypes of the results, without data."""
        self._op.fake = fn
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """backward(ctx, *gradients), and setup_context(ctx, inputs, output) that saves what it needs."""
        if self._op.schema.is_mutable and not self._op.schema.returns == []:
            raise RuntimeError("Cannot register autograd formula for non-functional operator %s. Please create a functional "
                               "operator and register an autograd formula for that." % self._qualname)
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

    def set_kernel_enabled(self, device_type, enabled=True):
        """Context manager: the kernel of a device is used, or not."""
        import contextlib

        @contextlib.contextmanager
        def switch():
            key = torch.library._device_type_to_key(device_type)
            before = set(self._op.disabled)
            (self._op.disabled.discard if enabled else self._op.disabled.add)(key)
            try:
                yield
            finally:
                self._op.disabled = before
        return switch()


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
