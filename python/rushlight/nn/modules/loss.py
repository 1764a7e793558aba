"""Loss layers: each remembers its choices and calls the function of its name."""
import warnings

from rushlight.nn import _reduction, functional as F
from rushlight.nn.modules.module import Module

__all__ = ["L1Loss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "GaussianNLLLoss", "KLDivLoss", "MSELoss", "BCELoss",
           "BCEWithLogitsLoss", "HingeEmbeddingLoss", "MultiLabelMarginLoss", "SmoothL1Loss", "HuberLoss",
           "SoftMarginLoss", "CrossEntropyLoss", "LinearCrossEntropyLoss", "MultiLabelSoftMarginLoss",
           "CosineEmbeddingLoss", "MarginRankingLoss", "MultiMarginLoss", "TripletMarginLoss",
           "TripletMarginWithDistanceLoss", "CTCLoss"]


class _Loss(Module):
    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = _reduction.legacy_get_string(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """Absolute error.

    reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> nn.L1Loss()(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(1.5000)
    """
    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)

    def forward(self, input, target):
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Squared error.

    reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> nn.MSELoss()(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(2.5000)
    """
    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)

    def forward(self, input, target):
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared error below beta, absolute error above.

    beta: where the square ends; it is divided by beta there. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> nn.SmoothL1Loss(beta=0.5)(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(1.2500)
    """
    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input, target):
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared error below delta, absolute error above, times delta.

    delta: where the square ends. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> nn.HuberLoss(delta=0.5)(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(0.6250)
    """
    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction="mean", delta=1.0):
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input, target):
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Negative log likelihood of classes, from log probabilities.

    weight: a factor per class (C); ignore_index: a target that does not count. reduction: "mean", "sum" or "none".
    Shapes: input (N, C), (N, C, *) or (C), target (N), (N, *) or (), int64; result (), or like target without reduction.

    >>> nn.NLLLoss()(torch.tensor([[-1., -0.5], [-2., -0.1]]), torch.tensor([1, 0]))
    tensor(1.2500)
    """
    __constants__ = ["ignore_index", "reduction"]

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input, target):
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index,
                          reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images.

    weight, ignore_index, reduction: as of NLLLoss.
    Shapes: input (N, C, H, W), target (N, H, W), int64; result ().

    >>> nn.NLLLoss()(torch.zeros(1, 2, 3, 3), torch.zeros(1, 3, 3, dtype=torch.int64))
    tensor(0.)
    """

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
        warnings.warn("NLLLoss2d has been deprecated. Please use NLLLoss instead as a drop-in replacement and see "
                      "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.", FutureWarning,
                      stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Negative log likelihood of classes, from logits.

    weight: a factor per class (C); ignore_index: a target that does not count; label_smoothing: the share of the target that is spread over all
    classes. reduction: "mean", "sum" or "none".
    Shapes: input (N, C), (N, C, *) or (C), target (N), (N, *) or (), int64, or probabilities like input; result (), or like the targets without
    reduction.

    >>> nn.CrossEntropyLoss()(torch.tensor([[0., 2., 0.], [1., 0., 0.]]), torch.tensor([1, 2]))
    tensor(0.8955)
    """
    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                 label_smoothing=0.0):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input, target):
        return F.cross_entropy(input, target, weight=self.weight, ignore_index=self.ignore_index,
                               reduction=self.reduction, label_smoothing=self.label_smoothing)


class LinearCrossEntropyLoss(_WeightedLoss):
    """A Linear layer and the cross entropy of what it gives.

    in_features, num_classes, out_features, bias: of the layer, whose result is (*, num_classes, *out_features); weight: a factor per class;
    ignore_index: a target that does not count; label_smoothing: the share of the target that is spread over all classes; options: a
    LinearCrossEntropyOptions. reduction: "mean", "sum" or "none".
    Shapes: input (N, in_features), target (N), int64; result (), or (N) without reduction.

    >>> nn.LinearCrossEntropyLoss(4, 3)(torch.zeros(2, 4), torch.tensor([0, 2]))
    tensor(1.0986, grad_fn=<NllLossBackward0>)
    """
    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None,
                 reduction="mean", weight=None, ignore_index=None, label_smoothing=0.0, options=None):
        super().__init__(weight, reduction=reduction)
        from rushlight.nn.modules.linear import Linear
        width = num_classes
        for extent in out_features:
            width *= extent
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        self.linear = Linear(in_features, width, bias=bias, device=device, dtype=dtype)

    def forward(self, input, target):
        shape = (self.num_classes, *self.out_features)
        weight = self.linear.weight.view(*shape, self.linear.in_features)
        bias = None if self.linear.bias is None else self.linear.bias.view(shape)
        return F.linear_cross_entropy(input, weight, target, linear_bias=bias, weight=self.weight,
                                      reduction=self.reduction, ignore_index=self.ignore_index,
                                      label_smoothing=self.label_smoothing, options=self.options)

    def extra_repr(self):
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
                f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
                f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}")


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts.

    log_input: input is the logarithm of the rate; full: add Stirling's term; eps: added to the rate before its logarithm is taken. reduction:
    "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> nn.PoissonNLLLoss()(torch.tensor([0., 1.]), torch.tensor([2., 3.]))
    tensor(0.3591)
    """
    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(self, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input, target):
        return F.poisson_nll_loss(log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
                                  reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Negative log likelihood under a normal distribution of given variance.

    full: add the constant term; eps: the least variance. reduction: "mean", "sum" or "none".
    Shapes: input (N, *), target (N, *), var (N, *) or with 1 in place of the last size; result (), or (N, *) without reduction.

    >>> nn.GaussianNLLLoss()(torch.tensor([1., 2.]), torch.tensor([0., 4.]), torch.tensor([1., 2.]))
    tensor(0.9233)
    """
    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full=False, eps=1e-6, reduction="mean"):
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input, target, var):
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence.

    log_target: target holds logarithms, as input does. reduction: "batchmean" (the divergence as it is defined), "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> nn.KLDivLoss(reduction="batchmean")(torch.tensor([[-1., -1.]]), torch.tensor([[0.5, 0.5]]))
    tensor(0.3069)
    """
    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean", log_target=False):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input, target):
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities.

    weight: a factor per element. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> nn.BCELoss()(torch.tensor([0.5, 0.25]), torch.tensor([1., 0.]))
    tensor(0.4904)
    """
    __constants__ = ["reduction"]

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)

    def forward(self, input, target):
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits.

    weight: a factor per element; pos_weight: a factor of the positive part, per class. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*); result (), or (*) without reduction.

    >>> nn.BCEWithLogitsLoss()(torch.tensor([0., -2.]), torch.tensor([1., 0.]))
    tensor(0.4100)
    """

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input, target):
        return F.binary_cross_entropy_with_logits(input, target, self.weight, pos_weight=self.pos_weight,
                                                  reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """The input for similar pairs, a hinge for others.

    margin: from where a dissimilar pair costs nothing. reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*) of 1 and -1; result (), or (*) without reduction.

    >>> nn.HingeEmbeddingLoss()(torch.tensor([0.2, 0.4]), torch.tensor([1., -1.]))
    tensor(0.4000)
    """
    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input, target):
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinge between labelled and other classes.

    reduction: "mean", "sum" or "none".
    Shapes: input (N, C), target (N, C), int64, the classes of a sample up to the first -1; result (), or (N) without reduction.

    >>> nn.MultiLabelMarginLoss()(torch.tensor([[0., 2., 0.], [1., 0., 0.]]), torch.tensor([[1, -1, 0], [0, 2, -1]]))
    tensor(0.1667)
    """
    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input)).

    reduction: "mean", "sum" or "none".
    Shapes: input (*), target (*) of 1 and -1; result (), or (*) without reduction.

    >>> nn.SoftMarginLoss()(torch.tensor([0., 2.]), torch.tensor([1., -1.]))
    tensor(1.4100)
    """
    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)

    def forward(self, input, target):
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean over classes of the binary cross entropy of logits.

    weight: a factor per class. reduction: "mean", "sum" or "none".
    Shapes: input (N, C), target (N, C) of 0 and 1; result (), or (N) without reduction.

    >>> nn.MultiLabelSoftMarginLoss()(torch.tensor([[0., 2., 0.], [1., 0., 0.]]), torch.tensor([[0., 1., 0.], [1., 0., 1.]]))
    tensor(0.5355)
    """
    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """Cosine distance for similar pairs, a hinge for others.

    margin: the cosine from which a dissimilar pair costs. reduction: "mean", "sum" or "none".
    Shapes: input1 and input2 (N, D) or (D), target (N) or () of 1 and -1; result (), or like target without reduction.

    >>> nn.CosineEmbeddingLoss()(torch.tensor([[1., 0.]]), torch.tensor([[1., 1.]]), torch.tensor([1]))
    tensor(0.2929)
    """
    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """Hinge on the order of two inputs.

    margin: by how much one input is to be larger. reduction: "mean", "sum" or "none".
    Shapes: input1, input2 and target (1: the first should be larger, -1: the second) (*); result (), or (*) without reduction.

    >>> nn.MarginRankingLoss()(torch.tensor([1., 2.]), torch.tensor([3., 0.]), torch.tensor([1., 1.]))
    tensor(1.)
    """
    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1, input2, target):
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Hinge between the target class and every other one.

    p: power of the hinge, 1 or 2; margin: by how much the target class is to win; weight: a factor per class. reduction: "mean", "sum" or
    "none".
    Shapes: input (N, C), target (N), int64; result (), or (N) without reduction.

    >>> nn.MultiMarginLoss(margin=0.5)(torch.tensor([[0., 2., 0.], [1., 0., 0.]]), torch.tensor([1, 2]))
    tensor(0.3333)
    """
    __constants__ = ["p", "margin", "reduction"]

    def __init__(self, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError("weight must be None or have 1 dimension")
        self.p = p
        self.margin = margin

    def forward(self, input, target):
        return F.multi_margin_loss(input, target, p=self.p, margin=self.margin, weight=self.weight,
                                   reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """Hinge on the distances to a positive and a negative example.

    margin: by how much the positive is to be nearer; p: which norm; eps: added to differences; swap: take the negative's distance to the
    positive where it is smaller. reduction: "mean", "sum" or "none".
    Shapes: anchor, positive, negative (N, D) or (D); result (), or (N) without reduction.

    >>> nn.TripletMarginLoss()(torch.zeros(1, 2), torch.tensor([[3., 4.]]), torch.tensor([[0., 1.]]))
    tensor(5.0000)
    """
    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(self, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps,
                                     swap=self.swap, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance of your own.

    distance_function: of two tensors, the 2-norm by default; margin: by how much the positive is to be nearer; swap: take the negative's
    distance to the positive where it is smaller. reduction: "mean", "sum" or "none".
    Shapes: anchor, positive, negative (N, *); result (), or (N) without reduction.

    >>> nn.TripletMarginWithDistanceLoss()(torch.zeros(1, 2), torch.tensor([[3., 4.]]), torch.tensor([[0., 1.]]))
    tensor(5.0000)
    """
    __constants__ = ["margin", "swap", "reduction"]

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__(size_average=None, reduce=None, reduction=reduction)
        if margin <= 0:
            raise ValueError("TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
                             f"{margin} instead")
        if distance_function is None:
            from rushlight.nn.modules.distance import PairwiseDistance
            distance_function = PairwiseDistance()
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_with_distance_loss(anchor, positive, negative,
                                                   distance_function=self.distance_function, margin=self.margin,
                                                   swap=self.swap, reduction=self.reduction)


class CTCLoss(_Loss):
    """Connectionist temporal classification.

    blank: the number of the blank class; zero_infinity: losses that are infinite, since the target is too long, count as 0. reduction: "mean",
    "sum" or "none".
    Shapes: log_probs (T, N, C) or (T, C), targets (N, S) or all in one row, int64, input_lengths and target_lengths (N); result (), or (N)
    without reduction.

    >>> log_probs = torch.zeros(4, 1, 3).log_softmax(2)
    >>> nn.CTCLoss()(log_probs, torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))
    tensor(0.8432)
    """
    __constants__ = ["blank", "reduction"]

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
                          self.zero_infinity)
