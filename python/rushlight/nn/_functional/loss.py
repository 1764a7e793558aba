"""Losses: the old flags are translated, the reduction becomes a number, the operator does the rest."""
import warnings

import rushlight as torch
from rushlight.nn import _reduction
from rushlight.nn._override import handle, overridden


def _enum(size_average, reduce, reduction):
    if size_average is not None or reduce is not None:
        return _reduction.legacy_get_enum(size_average, reduce)
    return _reduction.get_enum(reduction)


def _name(size_average, reduce, reduction):
    if size_average is not None or reduce is not None:
        return _reduction.legacy_get_string(size_average, reduce)
    return reduction


def _reduce(values, reduction):
    """Apply a reduction by name to a loss made of plain tensor operations."""
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()


def _same_size_or_warn(input, target, stacklevel=3):
    if input.size() != target.size():
        warnings.warn(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
                      "This will likely lead to incorrect results due to broadcasting. Please ensure they have the "
                      "same size.", stacklevel=stacklevel)


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """Negative log likelihood of the softmax of `input`; `target` holds classes or probabilities.

    weight: a factor per class (C); ignore_index: a target that does not count; label_smoothing: the share of the target that is spread over all
    classes. reduction: "mean", "sum" or "none".
    Shapes: input (N, C), (N, C, *) or (C), target (N), (N, *) or (), int64, or probabilities like input; result (), or like the targets without
    reduction.

    >>> F.cross_entropy(torch.tensor([[0., 2., 0.], [1., 0., 0.]]), torch.tensor([1, 2]))
    tensor(0.8955)
    """
    if overridden(input, target, weight):
        return handle(cross_entropy, (input, target, weight), input, target, weight=weight,
                      size_average=size_average, ignore_index=ignore_index, reduce=reduce, reduction=reduction,
                      label_smoothing=label_smoothing)
    return torch._C._nn.cross_entropy_loss(input, target, weight, _enum(size_average, reduce, reduction),
                                           ignore_index, label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Negative of the entries of `input` (log probabilities) at the target classes.

    weight: a factor per class (C); ignore_index: a target that does not count. reduction: "mean", "sum" or "none".
    Shapes: input (N, C), (N, C, *) or (C), target (N), (N, *) or (), int64; result (), or like target without reduction.

    >>> F.nll_loss(torch.tensor([[-1., -0.5], [-2., -0.1]]), torch.tensor([1, 0]))
    tensor(1.2500)
    """
    if overridden(input, target, weight):
        return handle(nll_loss, (input, target, weight), input, target, weight=weight, size_average=size_average,
                      ignore_index=ignore_index, reduce=reduce, reduction=reduction)
    return torch._C._nn.nll_loss_nd(input, target, weight, _enum(size_average, reduce, reduction), ignore_index)


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
                         ignore_index=None, label_smoothing=0.0, options=None):
    """cross_entropy(linear(input, linear_weight, linear_bias), target).

    linear_weight, linear_bias: of the layer; weight: a factor per class; ignore_index: a target that does not count; label_smoothing: the share
    of the target that is spread over all classes; options: a LinearCrossEntropyOptions. reduction: "mean", "sum" or "none".
    Shapes: input (N, D), linear_weight (C, D), linear_bias (C), target (N), int64; result (), or (N) without reduction.

    >>> F.linear_cross_entropy(torch.zeros(2, 4), torch.ones(3, 4), torch.tensor([0, 2]))
    tensor(1.0986)
    """
    tensors = (input, linear_weight, target, linear_bias, weight)
    if overridden(*tensors):
        return handle(linear_cross_entropy, tensors, input, linear_weight, target, linear_bias=linear_bias,
                      weight=weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing,
                      options=options)
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
                           f"(N, {linear_weight.shape[-1]}), got unbatched input with shape {tuple(input.shape)}")
    classes, features = linear_weight.shape[0], linear_weight.shape[-1]
    logits = torch._C._nn.linear(input, linear_weight.reshape(-1, features),
                                 None if linear_bias is None else linear_bias.reshape(-1))
    if linear_weight.dim() > 2:
        logits = logits.unflatten(-1, linear_weight.shape[:-1])
        logits = logits.movedim(-(linear_weight.dim() - 1), 1) if logits.shape[1] != classes else logits
    return cross_entropy(logits, target, weight, None, -100 if ignore_index is None else ignore_index, None,
                         reduction, label_smoothing)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification: all alignments of `targets` with the sequence.

    blank: the number of the blank class; zero_infinity: losses that are infinite, since the target is too long, count as 0. reduction: "mean",
    "sum" or "none".
    Shapes: log_probs (T, N, C) or (T, C), targets (N, S) or all in one row, int64, input_lengths and target_lengths (N); result (), or (N)
    without reduction.

    >>> log_probs = torch.zeros(4, 1, 3).log_softmax(2)
    >>> F.ctc_loss(log_probs, torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))
    tensor(0.8432)
    """
    if overridden(log_probs, targets, input_lengths, target_lengths):
        return handle(ctc_loss, (log_probs, targets, input_lengths, target_lengths), log_probs, targets,
                      input_lengths, target_lengths, blank=blank, reduction=reduction, zero_infinity=zero_infinity)
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction.get_enum(reduction),
                          zero_infinity)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    """Negative log likelihood of counts under a Poisson distribution.

    log_input: input is the logarithm of the rate; full: add Stirling's term; eps: added to the rate before its logarithm is taken. reduction:
    "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> F.poisson_nll_loss(torch.tensor([0., 1.]), torch.tensor([2., 3.]))
    tensor(0.3591)
    """
    if overridden(input, target):
        return handle(poisson_nll_loss, (input, target), input, target, log_input=log_input, full=full,
                      size_average=size_average, eps=eps, reduce=reduce, reduction=reduction)
    reduction = _name(size_average, reduce, reduction)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not a valid value for reduction")
    return torch.poisson_nll_loss(input, target, log_input, full, eps, _reduction.get_enum(reduction))


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood under a normal distribution with the given variance.

    full: add the constant term; eps: the least variance. reduction: "mean", "sum" or "none".
    Shapes: input (N, *), target (N, *), var (N, *) or with 1 in place of the last size; result (), or (N, *) without reduction.

    >>> F.gaussian_nll_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]), torch.tensor([1., 2.]))
    tensor(0.9233)
    """
    if overridden(input, target, var):
        return handle(gaussian_nll_loss, (input, target, var), input, target, var, full=full, eps=eps,
                      reduction=reduction)
    if not isinstance(var, torch.Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    elif torch.any(var < 0):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        # One variance for all along one dimension, which the last may leave out; else a mistake.
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif var.dim() != input.dim() or [(v, 1) for n, v in zip(input.size(), var.size()) if n != v] != [(1, 1)]:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.9189385332046727  # log(2 pi) / 2
    return _reduce(loss, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """Kullback-Leibler divergence of `target` from exp(input).

    log_target: target holds logarithms, as input does. reduction: "batchmean" (the divergence as it is defined), "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> F.kl_div(torch.tensor([[-1., -1.]]), torch.tensor([[0.5, 0.5]]), reduction="batchmean")
    tensor(0.3069)
    """
    if overridden(input, target):
        return handle(kl_div, (input, target), input, target, size_average=size_average, reduce=reduce,
                      reduction=reduction, log_target=log_target)
    reduction = _name(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn("reduction: 'mean' divides the total loss by both the batch size and the support size."
                      "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
                      "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
                      stacklevel=2)
    number = _reduction.get_enum("sum" if reduction == "batchmean" else reduction)
    loss = torch.kl_div(input, target, number, log_target=log_target)
    return loss / input.size()[0] if reduction == "batchmean" and input.dim() != 0 else loss


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities with targets between 0 and 1.

    weight: a factor per element. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> F.binary_cross_entropy(torch.tensor([0.5, 0.25]), torch.tensor([1., 0.]))
    tensor(0.4904)
    """
    if overridden(input, target, weight):
        return handle(binary_cross_entropy, (input, target, weight), input, target, weight=weight,
                      size_average=size_average, reduce=reduce, reduction=reduction)
    number = _enum(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) "
                         "is deprecated. Please ensure they have the same size.")
    if weight is not None:
        weight = weight.expand(torch.broadcast_shapes(target.size(), weight.size()))
    return torch._C._nn.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    """binary_cross_entropy(sigmoid(input), target), computed in one stable step.

    weight: a factor per element; pos_weight: a factor of the positive part, per class. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> F.binary_cross_entropy_with_logits(torch.tensor([0., -2.]), torch.tensor([1., 0.]))
    tensor(0.4100)
    """
    if overridden(input, target, weight, pos_weight):
        return handle(binary_cross_entropy_with_logits, (input, target, weight, pos_weight), input, target,
                      weight=weight, size_average=size_average, reduce=reduce, reduction=reduction,
                      pos_weight=pos_weight)
    number = _enum(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


def _weighted(loss, weight, reduction):
    """Reduce an elementwise loss with weights: `mean` divides by the sum of the weights."""
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if reduction == "mean":
        return loss.sum() / weight.sum()
    return _reduce(loss, reduction)


def _distance(name, input, target, size_average, reduce, reduction, weight):
    """mse_loss or l1_loss."""
    if target.size() != input.size():
        _same_size_or_warn(input, target)
        input, target = torch.broadcast_tensors(input, target)
    reduction = _name(size_average, reduce, reduction)
    loss = getattr(torch._C._nn, name)
    if weight is not None:
        return _weighted(loss(input, target, 0), weight, reduction)
    return loss(input, target, _reduction.get_enum(reduction))


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squared error.

    weight: a factor per element, or None. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> F.mse_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(2.5000)
    """
    if overridden(input, target, weight):
        return handle(mse_loss, (input, target, weight), input, target, size_average=size_average, reduce=reduce,
                      reduction=reduction, weight=weight)
    return _distance("mse_loss", input, target, size_average, reduce, reduction, weight)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute error.

    weight: a factor per element, or None. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> F.l1_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(1.5000)
    """
    if overridden(input, target, weight):
        return handle(l1_loss, (input, target, weight), input, target, size_average=size_average, reduce=reduce,
                      reduction=reduction, weight=weight)
    return _distance("l1_loss", input, target, size_average, reduce, reduction, weight)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared error below beta, absolute error above.

    beta: where the square ends; it is divided by beta there. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> F.smooth_l1_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]), beta=0.5)
    tensor(1.2500)
    """
    if overridden(input, target):
        return handle(smooth_l1_loss, (input, target), input, target, size_average=size_average, reduce=reduce,
                      reduction=reduction, beta=beta)
    if target.size() != input.size():
        _same_size_or_warn(input, target)
    number = _enum(size_average, reduce, reduction)
    input, target = torch.broadcast_tensors(input, target)
    if beta == 0.0:
        return torch._C._nn.l1_loss(input, target, number)
    return torch._C._nn.smooth_l1_loss(input, target, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the squared error below delta, delta * (|error| - delta / 2) above.

    weight: a factor per element, or None. delta: where the square ends. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> F.huber_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]), delta=0.5)
    tensor(0.6250)
    """
    if overridden(input, target, weight):
        return handle(huber_loss, (input, target, weight), input, target, reduction=reduction, delta=delta,
                      weight=weight)
    if target.size() != input.size():
        _same_size_or_warn(input, target)
        input, target = torch.broadcast_tensors(input, target)
    if weight is not None:
        return _weighted(torch._C._nn.huber_loss(input, target, 0, delta), weight, reduction)
    return torch._C._nn.huber_loss(input, target, _reduction.get_enum(reduction), delta)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target * (input1 - input2) + margin).

    margin: by how much one input is to be larger. reduction: "mean", "sum" or "none".
    Shapes: input1, input2 and target (1: the first should be larger, -1: the second) (*); result (), or (*) without reduction.

    >>> F.margin_ranking_loss(torch.tensor([1., 2.]), torch.tensor([3., 0.]), torch.tensor([1., 1.]))
    tensor(1.)
    """
    if overridden(input1, input2, target):
        return handle(margin_ranking_loss, (input1, input2, target), input1, input2, target, margin=margin,
                      size_average=size_average, reduce=reduce, reduction=reduction)
    number = _enum(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension but got sizes: "
                           f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} ")
    return torch.margin_ranking_loss(input1, input2, target, margin, number)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """The input where the target is 1, max(0, margin - input) where it is -1.

    margin: from where a dissimilar pair costs nothing. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*) of 1 and -1; result (), or (*) without reduction.

    >>> F.hinge_embedding_loss(torch.tensor([0.2, 0.4]), torch.tensor([1., -1.]))
    tensor(0.4000)
    """
    if overridden(input, target):
        return handle(hinge_embedding_loss, (input, target), input, target, margin=margin,
                      size_average=size_average, reduce=reduce, reduction=reduction)
    return torch.hinge_embedding_loss(input, target, margin, _enum(size_average, reduce, reduction))


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Hinge between every labelled class and every other one.

    reduction: "mean", "sum" or "none".
    Shapes: input (N, C), target (N, C), int64, the classes of a sample up to the first -1; result (), or (N) without reduction.

    >>> F.multilabel_margin_loss(torch.tensor([[0., 2., 0.], [1., 0., 0.]]), torch.tensor([[1, -1, 0], [0, 2, -1]]))
    tensor(0.1667)
    """
    if overridden(input, target):
        return handle(multilabel_margin_loss, (input, target), input, target, size_average=size_average,
                      reduce=reduce, reduction=reduction)
    return torch._C._nn.multilabel_margin_loss(input, target, _enum(size_average, reduce, reduction))


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)).

    reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*) of 1 and -1; result (), or (*) without reduction.

    >>> F.soft_margin_loss(torch.tensor([0., 2.]), torch.tensor([1., -1.]))
    tensor(1.4100)
    """
    if overridden(input, target):
        return handle(soft_margin_loss, (input, target), input, target, size_average=size_average, reduce=reduce,
                      reduction=reduction)
    return torch._C._nn.soft_margin_loss(input, target, _enum(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Mean over classes of the binary cross entropy of logits.

    weight: a factor per class. reduction: "mean", "sum" or "none".
    Shapes: input (N, C), target (N, C) of 0 and 1; result (), or (N) without reduction.

    >>> F.multilabel_soft_margin_loss(torch.tensor([[0., 2., 0.], [1., 0., 0.]]), torch.tensor([[0., 1., 0.], [1., 0., 1.]]))
    tensor(0.5355)
    """
    if overridden(input, target, weight):
        return handle(multilabel_soft_margin_loss, (input, target, weight), input, target, weight=weight,
                      size_average=size_average, reduce=reduce, reduction=reduction)
    reduction = _name(size_average, reduce, reduction)
    log_sigmoid = torch._C._nn.log_sigmoid
    loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    return _reduce(loss, reduction)


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Hinge between the target class and every other one.

    p: power of the hinge, 1 or 2; margin: by how much the target class is to win; weight: a factor per class. reduction: "mean", "sum" or
    "none".
    Shapes: input (N, C), target (N), int64; result (), or (N) without reduction.

    >>> F.multi_margin_loss(torch.tensor([[0., 2., 0.], [1., 0., 0.]]), torch.tensor([1, 2]), margin=0.5)
    tensor(0.3333)
    """
    if overridden(input, target, weight):
        return handle(multi_margin_loss, (input, target, weight), input, target, p=p, margin=margin, weight=weight,
                      size_average=size_average, reduce=reduce, reduction=reduction)
    number = _enum(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return torch._C._nn.multi_margin_loss(input, target, p, margin, weight, number)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    margin: the cosine from which a dissimilar pair costs. reduction: "mean", "sum" or "none".
    Shapes: input1 and input2 (N, D) or (D), target (N) or () of 1 and -1; result (), or like target without reduction.

    >>> F.cosine_embedding_loss(torch.tensor([[1., 0.]]), torch.tensor([[1., 1.]]), torch.tensor([1]))
    tensor(0.2929)
    """
    if overridden(input1, input2, target):
        return handle(cosine_embedding_loss, (input1, input2, target), input1, input2, target, margin=margin,
                      size_average=size_average, reduce=reduce, reduction=reduction)
    return torch.cosine_embedding_loss(input1, input2, target, margin, _enum(size_average, reduce, reduction))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction="mean"):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin).

    margin: by how much the positive is to be nearer; p: which norm; eps: added to differences; swap: take the negative's distance to the
    positive where it is smaller. reduction: "mean", "sum" or "none".
    Shapes: anchor, positive, negative (N, D) or (D); result (), or (N) without reduction.

    >>> F.triplet_margin_loss(torch.zeros(1, 2), torch.tensor([[3., 4.]]), torch.tensor([[0., 1.]]))
    tensor(5.0000)
    """
    if overridden(anchor, positive, negative):
        return handle(triplet_margin_loss, (anchor, positive, negative), anchor, positive, negative, margin=margin,
                      p=p, eps=eps, swap=swap, size_average=size_average, reduce=reduce, reduction=reduction)
    number = _enum(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    """`triplet_margin_loss` with a distance of your own.

    distance_function: of two tensors, the 2-norm by default; margin: by how much the positive is to be nearer; swap: take the negative's
    distance to the positive where it is smaller. reduction: "mean", "sum" or "none".
    Shapes: anchor, positive, negative (N, *); result (), or (N) without reduction.

    >>> F.triplet_margin_with_distance_loss(torch.zeros(1, 2), torch.tensor([[3., 4.]]), torch.tensor([[0., 1.]]))
    tensor(5.0000)
    """
    if overridden(anchor, positive, negative):
        return handle(triplet_margin_with_distance_loss, (anchor, positive, negative), anchor, positive, negative,
                      distance_function=distance_function, margin=margin, swap=swap, reduction=reduction)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = torch.pairwise_distance if distance_function is None else distance_function
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of "
                           f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and negative "
                           f"{negative.dim()}D inputs")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return _reduce(torch.clamp_min(margin + near - far, 0), reduction)
