"""One operation for a whole step.

A step of every element-wise optimizer is one call over all parameters of a group: the operator gets the
lists of parameters, gradients and state, and updates them in one parallel pass.  Where such an operator
cannot be used (recorded steps, sparse, complex or half parameters, capturable options, other devices) or is
missing, the optimizers do the same arithmetic with plain tensor operations.

Schemas.  The first four are ATen's; the others are of the same style.  `state_steps` are float tensors that
have been incremented already; lists of state that an option does not need are empty.  With `grad_scale`
gradients are divided by it first; when `found_inf` holds 1 nothing changes.

    _fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs,
        Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2,
        float weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None,
        Tensor? found_inf=None) -> ()
    _fused_adamw_       as _fused_adam_, weight decay decoupled
    _fused_sgd_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay,
        float momentum, float lr, float dampening, bool nesterov, bool maximize, bool is_first_step,
        Tensor? grad_scale=None, Tensor? found_inf=None) -> ()
    _fused_adagrad_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, Tensor(d!)[] state_steps, *,
        float lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None,
        Tensor? found_inf=None) -> ()
    _fused_rmsprop_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] square_avgs, Tensor(c!)[] grad_avgs,
        Tensor(d!)[] momentum_buffer_list, *, float lr, float alpha, float eps, float weight_decay,
        float momentum, bool centered, bool maximize) -> ()
    _fused_adadelta_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] square_avgs, Tensor(c!)[] acc_deltas, *,
        float lr, float rho, float eps, float weight_decay, bool maximize) -> ()
    _fused_adamax_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_infs,
        Tensor[] state_steps, *, float lr, float beta1, float beta2, float eps, float weight_decay,
        bool maximize) -> ()
    _fused_nadam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs,
        Tensor(d!)[] mu_products, Tensor[] state_steps, *, float lr, float beta1, float beta2, float eps,
        float weight_decay, float momentum_decay, bool decoupled_weight_decay, bool maximize) -> ()
    _fused_radam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs,
        Tensor[] state_steps, *, float lr, float beta1, float beta2, float eps, float weight_decay,
        bool decoupled_weight_decay, bool maximize) -> ()
    _fused_rprop_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] prevs, Tensor(c!)[] step_sizes, *,
        float step_size_min, float step_size_max, float etaminus, float etaplus, bool maximize) -> ()
    _fused_asgd_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] axs, Tensor(c!)[] mus, Tensor(d!)[] etas,
        Tensor[] state_steps, *, float lr, float lambd, float t0, float alpha, float weight_decay,
        bool maximize) -> ()

Arithmetic, per element, in the tensors' dtype (float16 and bfloat16 through float), scalars in double.  It is
that of the plain path (`_single_tensor_*` beside each optimizer), operation by operation:

    every one    g = -g if maximize;  g = g + weight_decay * p, or if decoupled p = p * (1 - lr * weight_decay)
    adam         m = m + (1-b1) * (g-m);  v = v*b2 + (1-b2)*g*g;  vmax = max(vmax, v)
                 p = p + (-(lr/(1-b1^t)) * m) / (sqrt(v or vmax) / sqrt(1-b2^t) + eps)
    sgd          first step: b = g, after: b = b*momentum + (1-dampening)*g;
                 g = g + momentum*b if nesterov else b;  p = p - lr*g
    adagrad      s = s + g*g;  p = p + (-(lr / (1 + (t-1)*lr_decay)) * g) / (sqrt(s) + eps)
    rmsprop      s = s*alpha + (1-alpha)*g*g;  centered: a = a + (1-alpha)*(g-a), d = sqrt(s - a*a) else sqrt(s);
                 d = d + eps;  momentum > 0: b = b*momentum + g/d, p = p - lr*b;  else p = p + (-lr*g)/d
    adadelta     s = s*rho + (1-rho)*g*g;  x = sqrt(acc + eps) / sqrt(s + eps) * g;
                 acc = acc*rho + (1-rho)*x*x;  p = p - lr*x
    adamax       m = m + (1-b1)*(g-m);  u = max(u*b2, |g| + eps);  p = p + (-(lr/(1-b1^t)) * m) / u
    nadam        mu = b1*(1 - 0.5*0.96^(t*md)), mu' the same for t+1;  product = product*mu (a float tensor);
                 m, v as adam;  d = sqrt(v / (1-b2^t)) + eps;
                 p = p + (-lr*(1-mu)/(1-product) * g) / d;  p = p + (-lr*mu'/(1-product*mu') * m) / d
    radam        m, v as adam;  c = m / (1-b1^t);  rho_inf = 2/(1-b2) - 1;  rho = rho_inf - 2*t*b2^t/(1-b2^t);
                 rho > 5: p = p - c*lr*(sqrt(1-b2^t) / (sqrt(v) + eps))*rect, rect = sqrt((rho-4)*(rho-2)*rho_inf
                 / ((rho_inf-4)*(rho_inf-2)*rho));  else p = p - c*lr
    rprop        s = sign(g*prev): factor etaplus, etaminus or 1;  z = clamp(z*factor, min, max);
                 g = 0 where the factor is etaminus;  p = p - sign(g)*z;  prev = g
    asgd         p = p * (1 - lambd*eta);  p = p - eta*g;  ax = p if mu is 1 else ax + (p-ax)*mu;
                 eta = lr / (1 + lambd*lr*t)^alpha;  mu = 1 / max(1, t-t0)   (both 0-dim tensors)
"""
import functools

import rushlight as torch
from rushlight.optim.optimizer import _get_value

# Tests switch this off to compare the two paths.
enabled = True


def operator(name, params, grads, differentiable=False, capturable=False, fused=None):
    """The fused operator if it can take these lists, or None.

    Plain operations round half types after each of them, and PyTorch's numbers are those: only fused=True may do with fewer.
    """
    op = getattr(torch, name, None)
    if op is None or not enabled or differentiable or capturable or (params and params[0].itemsize == 2 and not fused):
        return None
    # Sparse gradients never come here; a mixture of kinds or devices goes the plain way.
    return op if torch._C._lists_run(name, params, grads) else None


def advance(state_steps):
    """Count one more step for all parameters."""
    add = getattr(torch, "_foreach_add_", None)
    if add is not None:
        add(state_steps, 1)
    else:
        for step in state_steps:
            step += 1


def add_times(p, step, lr, capturable):
    """p - lr * step; a graph reads lr each time, so the host does not."""
    if capturable and isinstance(lr, torch.Tensor):
        p.add_(step * -lr)
    else:
        p.add_(step, alpha=-_get_value(lr))


def unless_infinite(step, grads, written, grad_scale, found_inf):
    """step(None, None), of plain operations, by gradients that are divided by grad_scale; where found_inf is 1 nothing changes. The host waits for nothing."""
    if grad_scale is not None:
        for grad in grads:
            grad.div_(grad_scale.to(grad.device))
    before = [t.clone() for t in written] if found_inf is not None else []
    step(None, None)
    for t, old in zip(written, before):
        t.copy_(torch.where(found_inf.to(t.device).reshape(()) == 1, old, t))


def evaluate(closure):
    """The loss that a closure computes, with gradients, or None."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def without_grad(step):
    """A step that records nothing."""
    @functools.wraps(step)
    def wrapped(*args, **kwargs):
        with torch.no_grad():
            return step(*args, **kwargs)

    return wrapped


def number(x):
    """lr and its like as a float."""
    return float(x)


def sparse_like(grad, indices, values):
    """A sparse tensor of the size of `grad`."""
    if indices.dim() == 0 or values.dim() == 0:
        return torch.empty_like(grad)
    return torch.sparse_coo_tensor(indices, values, grad.size())


def check_lr(lr, foreach, capturable):
    """A tensor as lr must be one number, and cannot go with foreach unless captured."""
    if isinstance(lr, torch.Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")


def fits(optimizer, fused, differentiable, foreach):
    """What a fused step cannot be together with; it can be scaled inside."""
    if not fused:
        return
    optimizer._step_supports_amp_scaling = True
    for other, text in ((differentiable, "`fused` does not support `differentiable`"), (foreach, "`fused` and `foreach` cannot be `True` together.")):
        if other:
            raise RuntimeError(text)


def can_step(group, params):
    """Complain about parameters that cannot take the fused step that their group asks for."""
    for p in params if group["fused"] else ():
        if not p.is_floating_point() or p.is_meta:
            raise RuntimeError(f"`fused=True` requires all the params to be floating point Tensors of supported devices, but got {p.dtype} and {p.device.type}")


def check(lr=0.0, betas=(), **bounds):
    """Complain about the first option that is out of range: each bound is name=(label, value, low[, below])."""
    if isinstance(lr, torch.Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    ranges = [("learning rate", lr, 0.0), *bounds.values()]
    ranges += [(f"beta parameter at index {place}", beta, 0.0, 1.0) for place, beta in enumerate(betas)]
    for label, value, low, *high in ranges:
        if not low <= value or (high and not value < high[0]):
            raise ValueError(f"Invalid {label}: {value}")


def collect(group, name):
    """(parameters with a gradient, the gradients) of a group; sparse gradients are refused."""
    params, grads = [], []
    for p in group["params"]:
        grad = p.grad
        if grad is None:
            continue
        if grad.is_sparse:
            raise RuntimeError(f"{name} does not support sparse gradients")
        params.append(p)
        grads.append(grad)
    return params, grads


def new_step(group, p):
    """A step counter at 0: on the parameter's device only when the step must not come back from it."""
    from rushlight.optim.optimizer import _get_scalar_dtype
    fused = group.get("fused")
    if group.get("capturable") or fused:
        return torch.zeros((), dtype=_get_scalar_dtype(is_fused=fused), device=p.device)
    return torch.tensor(0.0, dtype=_get_scalar_dtype())


def zeros_like(p):
    """State of a parameter, at 0."""
    return torch.zeros_like(p, memory_format=torch.preserve_format)


def numbers_to_tensors(optimizer, *names):
    """State that older files hold as numbers becomes 0-dim tensors."""
    from rushlight.optim.optimizer import _get_scalar_dtype
    for p, state in optimizer.state.items():
        for name in names:
            if name in state and not torch.is_tensor(state[name]):
                state[name] = torch.tensor(state[name], dtype=_get_scalar_dtype(), device=p.device)
