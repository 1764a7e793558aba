"""grad, vjp, jvp and the Jacobians as functions of functions, over the ordinary backward engine.

A transform detaches its inputs, runs the function under recording and asks the engine, with create_graph so that
transforms nest. Inside vmap the differentiated inputs are expanded to the batch first: each example gets its own gradient.
"""
import functools

import rushlight as torch
from .. import _pending
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from . import depth, forward, levels, pushing
from .batched import BatchedTensor, by_example, in_vmap, refuse_draws, top_level, whole
from .vmap import check_randomness, vmap

Tensor = torch.Tensor


_leaves = []  # made by the transforms that are running, which nothing outside wants gradients for


def _leaf(x):
    _leaves.append(x.detach().requires_grad_())
    return _leaves[-1]


def _fresh(x):
    """A new leaf of x's value that requires gradients; the graph behind x stays connected through view_as."""
    if not isinstance(x, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    top = len(levels) - 1
    x = _full(x, top)
    # Part of an outer transform's graph: differentiate through it.
    return _wrapped(x.view_as(x) if x.requires_grad else _leaf(x), top)


def _full(x, top):
    """The plain tensor behind x with the batches of all levels up to `top` in front, outermost first."""
    for level in range(top, -1, -1):
        x = whole(x, level)
    return x


def _wrapped(x, top):
    for level in range(top + 1):
        x = BatchedTensor(x, level)
    return x


def _raw(x):
    while isinstance(x, BatchedTensor):
        x = x.value
    return x


def _like(raw, example):
    """raw, wrapped as `example` is."""
    if not isinstance(example, BatchedTensor):
        return raw
    return BatchedTensor(_like(raw, example.value), example.level)


def _gradients(outputs, inputs, grad_outputs=None, retain=True):
    """Engine call on wrapped tensors; zeros where an input had no influence."""
    outs, weights = [], []
    for k, out in enumerate(outputs):
        raw = _raw(out)
        if not raw.requires_grad:
            continue
        g = None if grad_outputs is None else grad_outputs[k]
        top = top_level((out, g), {})
        if g is not None and top is not None:
            raw, g = _full(out, top), _full(g, top)
        outs.append(raw)
        weights.append(torch.ones_like(raw) if g is None else g)
    raws = [_raw(x) for x in inputs]
    if outs:
        given = {"retain_graph": retain, "create_graph": True, "allow_unused": True}
        found = _pending.library("gradients of a function", torch.autograd.grad, (outs, raws, weights), given)
    else:
        found = [None] * len(raws)
    return [_like(torch.zeros_like(r) if g is None else g, x) for g, r, x in zip(found, raws, inputs)]


def _below(g, top):
    """g for the plain tensors behind results that are batched up to `top`: of its batches only those of higher levels are left."""
    if isinstance(g, BatchedTensor) and g.level > top:
        return BatchedTensor(_below(g.value, top).movedim(top + 1, 0), g.level)
    return _full(g, top)


def _above(g, top, example):
    """The way back: a gradient of the plain tensor behind `example`, wrapped as that is."""
    if isinstance(g, BatchedTensor):
        return BatchedTensor(_above(g.value.movedim(0, top + 1), top, example), g.level)
    return _like(g, example)


def _at_once(outputs, inputs, grad_outputs):
    """Gradients by grad_outputs that belong to more vmaps than the outputs: one walk with all of the batch. There is no graph of it."""
    top = top_level(outputs, {})
    top = -1 if top is None else top
    raws, moving = [_raw(x) for x in inputs], [k for k, o in enumerate(outputs) if _raw(o).requires_grad]
    found = [None] * len(raws)
    if moving:
        given = [_full(outputs[k], top) for k in moving], raws, [_below(grad_outputs[k], top) for k in moving]
        found = _pending.library("gradients of a function", torch.autograd.grad, given, {"retain_graph": True, "allow_unused": True})
    return [_above(torch.zeros_like(r) if g is None else g, top, x) for g, r, x in zip(found, raws, inputs)]


def _settle(tree, recording):
    """Results leave the outermost transform without a graph, unless one was being recorded around it."""
    if recording:
        return tree
    return tree_map(lambda t: _like(_raw(t).detach(), t) if isinstance(t, Tensor) else t, tree)


def leads_beyond(results, own):
    """Whether the graph behind results has leaves that are not `own`: something that the function captured wants gradients."""
    own = {id(_raw(x)) for x in (*own, *_leaves)}
    nodes = [t.grad_fn for t in map(_raw, results) if t.grad_fn is not None]
    if any(t.requires_grad and t.grad_fn is None and id(t) not in own for t in map(_raw, results)):
        return True
    seen = set(nodes)
    while nodes:
        for node, _ in nodes.pop().next_functions:
            if node is None or node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if leaf is None:
                nodes.append(node)
            elif id(leaf) not in own:
                return True
    return False


class _Inside:
    """Counts running transforms; the outermost detaches what it returns, if nothing around it wants gradients."""

    def __init__(self, *trees):
        self.nested, self.outer_grad = depth[0] > 0, torch.is_grad_enabled()
        self.wanted = any(isinstance(t, Tensor) and t.requires_grad for tree in trees for t in tree_flatten(tree)[0])

    @property
    def recording(self):
        return self.nested and (self.outer_grad or forward[0] > 0) or self.outer_grad and self.wanted  # no_grad() stops all but tangents

    def notice(self, results, own):
        """After the function ran: results may hang on tensors that it captured."""
        if not self.nested and self.outer_grad and not self.wanted:
            self.wanted = leads_beyond([t for t in tree_flatten(results)[0] if isinstance(t, Tensor)], own)

    def goes_on(self, tensors):
        """Whether what is made of these later, by a function that the transform gave, is recorded."""
        return self.nested or depth[0] > 0 or torch.is_grad_enabled() and (self.wanted or any(t.requires_grad for t in tensors))

    def __enter__(self):
        depth[0] += 1
        self.always = torch._C._record_always(False)
        self.mode = torch.enable_grad()
        self.mode.__enter__()
        return self

    def __exit__(self, *what):
        depth[0] -= 1
        if not depth[0]:
            _leaves.clear()
        torch._C._record_always(self.always)
        self.mode.__exit__(*what)


def _picks(argnums, args):
    """The positions that argnums names, as a tuple."""
    if not isinstance(argnums, (int, tuple)) or isinstance(argnums, tuple) and not all(isinstance(k, int) for k in argnums):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    picks = (argnums,) if isinstance(argnums, int) else argnums
    if not picks:
        raise RuntimeError("argnums must be non-empty")
    for k in picks:
        if not -len(args) <= k < len(args):
            raise RuntimeError(f"Got argnum={k}, but only {len(args)} positional inputs")
    picks = tuple(k % len(args) for k in picks)
    if len(set(picks)) != len(picks):
        raise RuntimeError(f"argnums elements must be unique, got {picks}")
    return picks


def _output(out, has_aux, who):
    """(output, aux) of what a function returned; `who` is the call as messages name it."""
    aux = None
    if has_aux:
        if not (isinstance(out, tuple) and len(out) == 2):
            raise RuntimeError(f"{who}: output of function f should be a tuple: (output, aux) if has_aux is True")
        out, aux = out
        for x in tree_flatten(aux)[0]:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
    if not who.startswith("grad"):
        for x in tree_flatten(out)[0]:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"{who}: expected f(*primals) to return only tensors, got unsupported type {type(x)}")
    return out, aux


def grad_and_value(func, argnums=0, has_aux=False):
    """func's gradient by its arguments `argnums`, and its value: (gradients, value) or (gradients, (value, aux))."""
    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        picks = _picks(argnums, args)
        with _Inside(args, kwargs) as inside:
            args = list(args)
            for k in picks:
                args[k] = tree_map(_fresh, args[k])
            out, aux = _output(func(*args, **kwargs), has_aux, "grad_and_value(f)(*args)")
            if not isinstance(out, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(out)}")
            if out.dim() != 0:
                raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                                   f"{out.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?")
            leaves, spec = tree_flatten(tuple(args[k] for k in picks))
            at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
            if out.dtype.is_complex:
                raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {out.dtype}")
            inside.notice((out, aux), leaves)
            for i, g in zip(at, _gradients([out], [leaves[i] for i in at])):
                leaves[i] = g
            grads = tree_unflatten(leaves, spec)
            grads = grads[0] if isinstance(argnums, int) else grads
        grads, out, aux = _settle((grads, out, aux), inside.recording)
        return (grads, (out, aux)) if has_aux else (grads, out)
    return wrapped


def grad(func, argnums=0, has_aux=False):
    """func's gradient by its arguments `argnums`; with has_aux (gradients, aux)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads
    return wrapped


class _Star:
    def __repr__(self):
        return "*"


def _shown(spec):
    """A structure with stars for its leaves."""
    return repr(tree_unflatten([_Star()] * spec.num_leaves, spec))


def _apart(tensors, results):
    """The level at which tensors are batched and results, made before that vmap, are not; None if there is none."""
    level, known = top_level(tensors, {}), top_level(results, {})
    return level if level is not None and (known is None or level > known) else None


def vjp(func, *primals, has_aux=False):
    """(func(*primals), vjp_fn): vjp_fn takes cotangents shaped like the output, gives gradients of the primals."""
    inside = _Inside(primals)
    with inside:
        fresh = tree_map(_fresh, primals)
        out, aux = _output(func(*fresh), has_aux, "vjp(f, *primals)")
        inside.notice((out, aux), tree_flatten(fresh)[0])
    outs, shape = tree_flatten(out)
    if not outs:
        raise RuntimeError(f"vjp(f, *primals): Expected f to be a function that has non-empty output (got output = {outs})")
    leaves, spec = tree_flatten(fresh)

    def vjp_fn(cotangents, retain_graph=True, create_graph=None):
        weights, given = tree_flatten(cotangents)
        if given != shape:
            raise RuntimeError("Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                               f"cotangents: {_shown(given)}, primal output: {_shown(shape)}")
        recording = inside.goes_on(weights)
        level = _apart(weights, outs)
        if level is not None and recording:
            return by_example(vjp_fn, (cotangents,), {}, level)
        for i, (w, o) in enumerate(zip(weights, outs)):
            if w.shape != o.shape and _raw(w).shape != _raw(o).shape:
                raise RuntimeError(f"Mismatch in shape: grad_output[{i}] has a shape of {w.shape} and output[{i}] has a shape of {o.shape}.")
        with torch.enable_grad():
            found = _gradients(outs, leaves, weights) if level is None else _at_once(outs, leaves, weights)
        return _settle(tree_unflatten(found, spec), recording)
    shown = _settle(out, inside.recording)
    return (shown, vjp_fn, _settle(aux, inside.recording)) if has_aux else (shown, vjp_fn)


class _Linear:
    """A function's derivative at a point, for any number of directions.

    The gradients for a dummy cotangent are linear in it; the derivative of that linear map, in the direction of the
    tangents, is the tangent of the results.
    """

    def __init__(self, func, primals, has_aux, who):
        for x in tree_flatten(primals)[0]:
            if not (x.dtype.is_floating_point or x.dtype.is_complex):
                raise ValueError(f"Expected primal to be floating point or complex, but got: {x.dtype}")
        fresh = tree_map(_fresh, primals)
        forward[0] += 1
        always = torch._C._record_always(depth[0] <= forward[0])  # nothing but forward mode: no_grad does not stop tangents
        try:
            out, self.aux = _output(func(*fresh), has_aux, who)
        finally:
            forward[0] -= 1
            torch._C._record_always(always)
        self.outs, self.spec = tree_flatten(out)
        self.leaves = tree_flatten(fresh)[0]
        self.moving = [k for k, o in enumerate(self.outs) if o.dtype.is_floating_point or o.dtype.is_complex]
        moving = [self.outs[k] for k in self.moving]
        self.dummies = [_like(_leaf(torch.ones_like(_raw(o))), o) for o in moving]
        pushing[0] += 1
        try:
            self.pulled = _gradients(moving, self.leaves, self.dummies)
        finally:
            pushing[0] -= 1

    def push(self, directions, recording):
        """The results' tangents, of which integers have zeros. recording: whether derivatives of these are wanted."""
        level = _apart(directions, self.outs)
        if level is not None and recording:
            return by_example(self.push, (directions, True), {}, level)
        pushed = [torch.zeros_like(o) for o in self.outs]
        for k, t in zip(self.moving, (_gradients if level is None else _at_once)(self.pulled, self.dummies, directions)):
            pushed[k] = t
        return pushed


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), its derivative in the direction of tangents)"""
    who = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{who}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    (points, shape), (steps, given) = tree_flatten(primals), tree_flatten(tangents)
    if shape != given:
        raise RuntimeError(f"{who}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 "
                           f"tensors, tangents also must be. Got primals with structure {shape} and tangents with structure {given}")
    for what, leaves in (("primals", points), ("tangents", steps)):
        if not leaves:
            raise RuntimeError(f"{who}: Expected {what} to contain at least one Tensor.")
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"{who}: Expected {what} to only contain Tensors, got {type(x)}")
    for x, t in zip(points, steps):
        if x.shape != t.shape:
            raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. "
                               f"Tensor is of size {list(x.shape)} while the given forward gradient is of size {list(t.shape)}.")
    inside = _Inside(primals, tangents)
    with inside:
        linear = _Linear(func, primals, has_aux, who)
        if strict and not all(_raw(o).requires_grad for o in linear.outs):
            raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with "
                               "strict=True.")
        inside.notice((linear.outs, linear.aux), linear.leaves)
        pushed = linear.push(steps, inside.recording)
    result = (tree_unflatten(linear.outs, linear.spec), tree_unflatten(pushed, linear.spec))
    return _settle(result + ((linear.aux,) if has_aux else ()), inside.recording)


def linearize(func, *primals):
    """(func(*primals), jvp_fn): the derivative at primals as a linear function of tangents. func runs once."""
    points, shape = tree_flatten(primals)
    inside = _Inside(primals)
    with inside:
        linear = _Linear(func, primals, False, "linearize(f, *primals)")
        inside.notice(linear.outs, linear.leaves)

    def jvp_fn(*tangents):
        steps, given = tree_flatten(tangents)
        if given != shape:
            raise RuntimeError(f"Expected the tangents {given} to have the same argspec as the primals {shape}")
        for k, (t, x) in enumerate(zip(steps, points)):
            for what in ("shape", "dtype"):
                if getattr(t, what) != getattr(x, what):
                    raise RuntimeError(f"tangent:{k} with {what} {getattr(t, what)} in flattened pytree doesn't match the {what} "
                                       f"{getattr(x, what)} of the corresponding primal.")
        recording = inside.goes_on(steps)
        with torch.enable_grad():
            pushed = tree_unflatten(linear.push(steps, recording), linear.spec)
        return _settle(pushed, recording)
    return _settle(tree_unflatten(linear.outs, linear.spec), inside.recording), jvp_fn


def _real(who, tree, what="inputs"):
    for k, x in enumerate(tree_flatten(tree)[0]):
        if isinstance(x, Tensor) and x.dtype.is_complex:
            raise RuntimeError(f"{who}: Expected all {what} to be real but received complex tensor at flattened input idx: {k}")


def unit_vectors(points):
    """The unit vectors of all points together: for each point (total, *its shape), row by row however it lies."""
    total, start, parts = sum(x.numel() for x in points), 0, []
    for x in points:
        part = _raw(x).new_zeros(total, x.numel())
        part.diagonal(-start).fill_(1)
        parts.append(part.reshape(total, *x.shape))
        start += x.numel()
    return parts


def _by_points(rows, points):
    """Rows that belong to the elements of all points, (total, ...), as one piece per point."""
    return rows.split([x.numel() for x in points])


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """func's Jacobian by argument(s) argnums: one backward per element of the output. Shape: output's, then input's."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        picks = _picks(argnums, args)
        _real("jacrev", tuple(args[k] for k in picks))

        def partial(*chosen):
            full = list(args)
            for k, x in zip(picks, chosen):
                full[k] = x
            return func(*full, **kwargs)
        got = vjp(partial, *(args[k] for k in picks), has_aux=has_aux)
        out, pull = got[0], got[1]
        outs, spec = tree_flatten(out)
        _real("jacrev", outs, "outputs")
        for o in outs:
            if not (o.dtype.is_floating_point or o.dtype.is_complex):
                raise RuntimeError(f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {o.dtype}")
        primals = tuple(args[k] for k in picks)
        points, kind = tree_flatten(primals)
        if total := sum(o.numel() for o in outs):
            units = unit_vectors(outs)
            if total > 1:
                pulled = vmap(pull, chunk_size=chunk_size)(tree_unflatten(units, spec))
            else:
                pulled = tree_map(lambda g: g.unsqueeze(0), pull(tree_unflatten([u[0] for u in units], spec)))
            pieces = [_by_points(g, outs) for g in tree_flatten(pulled)[0]]
        else:
            pieces = [[x.new_zeros(0)] * len(outs) for x in points]
        rows = []
        for k, o in enumerate(outs):
            tree = tree_unflatten([piece[k].reshape((*o.shape, *x.shape)).contiguous() for piece, x in zip(pieces, points)], kind)
            rows.append(tree[0] if isinstance(argnums, int) else tree)
        jac = tree_unflatten(rows, spec)
        return (jac, got[2]) if has_aux else jac
    return wrapped


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """func's Jacobian, as jacrev; one directional derivative per element of the input. randomness: as in vmap, of the directions."""
    check_randomness(randomness)

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        picks = _picks(argnums, args)
        primals = tuple(args[k] for k in picks)
        _real("jacfwd", primals)
        points, kind = tree_flatten(primals)

        def partial(*chosen):
            full = list(args)
            for k, x in zip(picks, chosen):
                full[k] = x
            return func(*full, **kwargs)

        inside = _Inside(primals)
        with inside:
            state = torch.random._states()
            linear = _Linear(partial, primals, has_aux, "jvp(f, primals, tangents)")
            inside.notice((linear.outs, linear.aux), linear.leaves)
            if randomness == "error" and torch.random._drawn_since(state):
                torch.random._go_on_from(state)
                refuse_draws()
            _real("jacfwd", linear.outs, "outputs")
            units = unit_vectors(points)
            if not sum(x.numel() for x in points):
                columns = [o.new_zeros(0) for o in linear.outs]
            elif randomness == "different":  # the function draws anew for each direction
                pushed = []
                for k, step in enumerate(zip(*units)):
                    drawn = _Linear(partial, primals, has_aux, "jvp(f, primals, tangents)") if k else linear
                    pushed.append(drawn.push(step, inside.recording))
                columns = [torch.stack(column) for column in zip(*pushed)]
            else:
                columns = vmap(lambda *step: linear.push(step, inside.recording))(*units)
            rows = []
            for o, column in zip(linear.outs, columns):
                parts = [part.movedim(0, -1).reshape((*o.shape, *x.shape)) for part, x in zip(_by_points(column, points), points)]
                tree = tree_unflatten(parts, kind)
                rows.append(tree[0] if isinstance(argnums, int) else tree)
        jac = tree_unflatten(rows, linear.spec)
        jac, aux = _settle((jac, linear.aux), inside.recording)
        return (jac, aux) if has_aux else jac
    return wrapped


def hessian(func, argnums=0):
    """The second derivative of a scalar function: the Jacobian of its gradient."""
    return jacfwd(jacrev(func, argnums), argnums)


def debug_unwrap(tensor, *, recurse=True):
    """What a tensor inside vmap holds; all others as they are."""
    while isinstance(tensor, BatchedTensor):
        tensor = tensor.value
        if not recurse:
            break
    return tensor


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with these tensors in place of its parameters and buffers."""
    if isinstance(parameter_and_buffer_dicts, (list, tuple)):
        if not all(isinstance(part, dict) for part in parameter_and_buffer_dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        merged = {}
        for part in parameter_and_buffer_dicts:
            if repeated := merged.keys() & part.keys():
                raise ValueError(f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous")
            merged.update(part)
    elif isinstance(parameter_and_buffer_dicts, dict):
        merged = parameter_and_buffer_dicts
    else:
        raise ValueError(f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(parameter_and_buffer_dicts)}")
    return torch.nn.utils.stateless._functional_call(module, merged, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models):
    """(parameters, buffers) of models of one architecture, each stacked along a new first dimension."""
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(m) for m in models}) != 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    if len({m.training for m in models}) != 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")

    def stacked(named):
        every, found = [dict(named(m)) for m in models], {}
        for k, first in every[0].items():
            if len({tensors[k].requires_grad for tensors in every}) != 1:
                raise RuntimeError(f"Expected {k} from each model to have the same .requires_grad")
            found[k] = torch.stack([tensors[k].detach() for tensors in every]).requires_grad_(first.requires_grad)
        return found
    return stacked(lambda m: m.named_parameters()), stacked(lambda m: m.named_buffers())


def replace_all_batch_norm_modules_(root):
    """Switch off the running statistics of every batch norm below root, which vmap cannot update."""
    for module in root.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
