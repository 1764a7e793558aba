/* node_name.c - what graphs call an operation: "AddBackward0", as PyTorch prints it in grad_fn=<...>.
 *
 * The rule is the base name in camel case, a letter after a digit raised, and the overload's number in the order of
 * registration. The table is for what the rule does not give: overloads that ATen numbers otherwise, and operations that
 * PyTorch builds of other ones than we do, whose last node is the one that is seen.
 */
#include "op/op.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const exceptions[][2] = { /* in order of the names */
    {"_gru_layer", "StackBackward0"},
    {"_lstm_layer", "MkldnnRnnLayerBackward0"},
    {"adaptive_avg_pool1d", "SqueezeBackward1"},
    {"adaptive_max_pool1d", "SqueezeBackward1"},
    {"addr", "AddrBackward0"},
    {"avg_pool1d", "SqueezeBackward1"},
    {"binary_cross_entropy_with_logits", "BinaryCrossEntropyWithLogitsBackward0"},
    {"cdist", "CdistBackward0"},
    {"celu", "CeluBackward0"},
    {"cholesky", "CholeskyBackward0"},
    {"chunk", "SplitBackward0"},
    {"clamp", "ClampBackward1"},
    {"clamp.Tensor", "ClampBackward0"},
    {"clamp_max", "ClampMaxBackward0"},
    {"clamp_max.Tensor", "ClampMaxBackward1"},
    {"clamp_min", "ClampMinBackward0"},
    {"clamp_min.Tensor", "ClampMinBackward1"},
    {"copy_", "CopyBackwards"},
    {"cross", "LinalgCrossBackward0"},
    {"dist", "DistBackward0"},
    {"dropout", "MulBackward0"},
    {"fmod.Scalar", "FmodBackward0"},
    {"fmod.Tensor", "FmodBackward1"},
    {"glu", "GluBackward0"},
    {"huber_loss", "HuberLossBackward0"},
    {"ldexp.Tensor", "LdexpBackward0"},
    {"lerp.Scalar", "LerpBackward0"},
    {"lerp.Tensor", "LerpBackward1"},
    {"linalg_cross", "LinalgCrossBackward0"},
    {"linalg_inv", "LinalgInvExBackward0"},
    {"linalg_inv_ex", "LinalgInvExBackward0"},
    {"linalg_matrix_exp", "LinalgMatrixExpBackward0"},
    {"linalg_solve", "LinalgSolveExBackward0"},
    {"matrix_exp", "LinalgMatrixExpBackward0"},
    {"max", "MaxBackward1"},
    {"max.dim", "MaxBackward0"},
    {"max_pool1d", "SqueezeBackward1"},
    {"min", "MinBackward1"},
    {"min.dim", "MinBackward0"},
    {"mse_loss", "MseLossBackward0"},
    {"multi_margin_loss", "MultiMarginLossBackward0"},
    {"multilabel_margin_loss", "MultilabelMarginLossBackward0"},
    {"mvlgamma", "MvlgammaBackward0"},
    {"narrow_copy", "NarrowCopyBackward0"},
    {"nll_loss2d_forward", "NllLoss2DBackward0"},
    {"nll_loss_forward", "NllLossBackward0"},
    {"ormqr", "OrmqrBackward0"},
    {"pairwise_distance", "NormBackward1"},
    {"pixel_shuffle", "PixelShuffleBackward0"},
    {"pixel_unshuffle", "PixelUnshuffleBackward0"},
    {"polar", "PolarBackward0"},
    {"pow.Scalar", "PowBackward2"},
    {"pow.Tensor_Scalar", "PowBackward0"},
    {"pow.Tensor_Tensor", "PowBackward1"},
    {"remainder.Scalar", "RemainderBackward0"},
    {"remainder.Tensor", "RemainderBackward1"},
    {"renorm", "RenormBackward0"},
    {"rms_norm", "MulBackward0"},
    {"rot90", "Rot90Backward0"},
    {"rsub.Scalar", "RsubBackward1"},
    {"rsub.Tensor", "RsubBackward0"},
    {"smooth_l1_loss", "SmoothL1LossBackward0"},
    {"soft_margin_loss", "SoftMarginLossBackward0"},
    {"square", "PowBackward0"},
    {"tensor_split.indices", "SliceBackward0"},
    {"tensor_split.sections", "SliceBackward0"},
    {"trace", "TraceBackward0"},
    {"triangular_solve", "TriangularSolveBackward0"},
    {"unsafe_chunk", "UnsafeSplitBackward0"},
    {"vdot", "VdotBackward0"},
    {"where.ScalarOther", "WhereBackward0"},
};

static int by_name(const void *name, const void *row)
{
    return strcmp(name, *(const char *const *)row);
}

const char *rush_node_exception(const char *op)
{
    const char *const *row = bsearch(op, exceptions, RUSH_COUNT(exceptions), sizeof exceptions[0], by_name);
    return row ? row[1] : NULL;
}

const char *rush_node_name(const rush_op *op)
{
    size_t n = 0;
    bool up = true;
    if (op->node) return op->node;
    char *text = rush_words();
    for (const char *c = op->base; *c && n < RUSH_WORDS - 16; ++c) {
        if (*c != '_') text[n++] = up ? (char)toupper((unsigned char)*c) : *c;
        up = *c == '_' || isdigit((unsigned char)*c);
    }
    int overload = 0;
    for (const rush_op *other = rush_op_find(op->base); other && other->index != op->index; other = other->next) overload += other->grad != NULL;
    snprintf(text + n, RUSH_WORDS - n, "Backward%d", overload);
    return text;
}
