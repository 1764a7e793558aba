/* names.c - which operations are functions, which are methods of Tensor, and where they live.
 *
 * The rule: an operation is a function of the main namespace; linalg_, fft_ and special_ have namespaces of their own.
 * The lists are PyTorch's exceptions to it, as one string of words each: what is a method too ("add/" stands for add
 * and add_), what is only a method, what belongs to torch._C._nn. A word without an operation is passed over, so the
 * lists name what PyTorch has and the registry decides what is there.
 */
#include "call.h"

static const char method_words[] =
    "_addmm_activation _autocast_to_full_precision _autocast_to_reduced_precision _coalesced_ _conj "
    "_conj_physical _dimI _dimV _indices _is_all_true _is_any_true _is_zerotensor _lazy_clone _neg_view "
    "_nested_tensor_size _nested_tensor_storage_offsets _nested_tensor_strides _nnz _philox_normal_ "
    "_philox_uniform_ _sparse_mask_projection _to_dense _to_sparse _to_sparse_bsc _to_sparse_bsr "
    "_to_sparse_csc _to_sparse_csr _values abs/ absolute/ acos/ acosh/ add/ addbmm/ addcdiv/ addcmul/ "
    "addmm/ addmv/ addr/ adjoint all allclose amax amin aminmax angle any arccos/ arccosh/ arcsin/ "
    "arcsinh/ arctan/ arctan2/ arctanh/ argmax argmin argsort argwhere as_strided/ as_strided_scatter "
    "asin/ asinh/ atan/ atan2/ atanh/ baddbmm/ bernoulli/ bincount bitwise_and/ bitwise_left_shift/ "
    "bitwise_not/ bitwise_or/ bitwise_right_shift/ bitwise_xor/ bmm broadcast_to cauchy_ ccol_indices "
    "ceil/ chalf cholesky cholesky_inverse cholesky_solve chunk clamp/ clamp_max/ clamp_min/ clip/ clone "
    "coalesce col_indices conj conj_physical/ contiguous copy_ copysign/ corrcoef cos/ cosh/ "
    "count_nonzero cov cross crow_indices cummax cummin cumprod/ cumsum/ deg2rad/ dense_dim dequantize "
    "det detach/ diag diag_embed diagflat diagonal diagonal_scatter diff digamma/ dim dist div/ divide/ "
    "dot dsplit eq/ equal erf/ erfc/ erfinv/ exp/ exp2/ expand expand_as expm1/ exponential_ fill_ "
    "fill_diagonal_ fix/ flatten flip fliplr flipud float_power/ floor/ floor_divide/ fmax fmin fmod/ "
    "frac/ frexp gather gcd/ ge/ geometric_ geqrf ger get_device greater/ greater_equal/ gt/ hardshrink "
    "hash_tensor heaviside/ histc histogram hsplit hypot/ i0/ igamma/ igammac/ index_add/ index_copy/ "
    "index_fill/ index_put/ index_reduce/ index_select indices inner int_repr inverse is_coalesced "
    "is_complex is_conj is_contiguous is_distributed is_floating_point is_inference is_neg is_nonzero "
    "is_pinned is_same_size is_set_to is_signed isclose isfinite isinf isnan isneginf isposinf isreal "
    "istft item kron kthvalue lcm/ ldexp/ le/ lerp/ less/ less_equal/ lgamma/ log/ log10/ log1p/ log2/ "
    "log_normal_ log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and/ logical_not/ "
    "logical_or/ logical_xor/ logit/ logsumexp lt/ lu_solve masked_fill/ masked_scatter/ masked_select "
    "matmul matrix_exp matrix_power max maximum mean median min minimum mm mode moveaxis movedim msort "
    "mul/ multinomial multiply/ mv mvlgamma/ nan_to_num/ nanmean nanmedian nanquantile nansum narrow "
    "narrow_copy ne/ neg/ negative/ new_empty new_empty_strided new_full new_ones new_zeros nextafter/ "
    "nonzero nonzero_static norm normal_ not_equal/ numel orgqr ormqr outer permute pin_memory pinverse "
    "positive pow/ prelu prod put/ q_per_channel_axis q_per_channel_scales "
    "q_per_channel_zero_points q_scale q_zero_point qr qscheme quantile rad2deg/ random_ ravel "
    "reciprocal/ record_stream relu/ remainder/ renorm/ repeat repeat_interleave requires_grad_ reshape "
    "reshape_as resize_ resize_as_ resize_as_sparse_ resolve_conj resolve_neg retain_grad roll rot90 "
    "round/ row_indices rsqrt/ scatter/ scatter_add/ scatter_reduce/ select select_scatter set_ sgn/ "
    "sigmoid/ sign/ signbit sin/ sinc/ sinh/ size slice_inverse slice_scatter slogdet smm softmax sort "
    "sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ split split_with_sizes sqrt/ square/ "
    "squeeze/ sspaddmm std stft storage_offset stride sub/ subtract/ sum sum_to_size svd swapaxes/ "
    "swapdims/ t/ take take_along_dim tan/ tanh/ tensor_split tile to to_dense to_mkldnn to_padded_tensor "
    "to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr topk trace transpose/ "
    "triangular_solve tril/ triu/ true_divide/ trunc/ type_as unbind unflatten unfold uniform_ "
    "unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze/ values var vdot view view_as vsplit "
    "xlogy/ zero_ ";

static const char inplace_function_words[] =
    "_add_relu_ _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _fill_mem_eff_dropout_mask_ "
    "_foreach_abs_ _foreach_acos_ _foreach_add_ _foreach_addcdiv_ _foreach_addcmul_ _foreach_asin_ "
    "_foreach_atan_ _foreach_ceil_ _foreach_clamp_max_ _foreach_clamp_min_ _foreach_copy_ _foreach_cos_ "
    "_foreach_cosh_ _foreach_div_ _foreach_erf_ _foreach_erfc_ _foreach_exp_ _foreach_expm1_ "
    "_foreach_floor_ _foreach_frac_ _foreach_lerp_ _foreach_lgamma_ _foreach_log10_ _foreach_log1p_ "
    "_foreach_log2_ _foreach_log_ _foreach_maximum_ _foreach_minimum_ _foreach_mul_ _foreach_neg_ "
    "_foreach_pow_ _foreach_reciprocal_ _foreach_round_ _foreach_rsqrt_ _foreach_sigmoid_ _foreach_sign_ "
    "_foreach_sin_ _foreach_sinh_ _foreach_sqrt_ _foreach_sub_ _foreach_tan_ _foreach_tanh_ "
    "_foreach_trunc_ _foreach_zero_ _fused_adagrad_ _fused_adam_ _fused_adamw_ _fused_sgd_ "
    "_index_put_impl_ _mkldnn_transpose_ _philox_normal_ _philox_uniform_ _resize_output_ "
    "_sobol_engine_ff_ _sobol_engine_initialize_state_ _sobol_engine_scramble_ abs_ acos_ acosh_ addmv_ "
    "alpha_dropout_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_ "
    "atanh_ ceil_ celu_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ "
    "dropout_ embedding_renorm_ erf_ erfc_ exp2_ exp_ expm1_ feature_alpha_dropout_ feature_dropout_ "
    "fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ "
    "neg_ negative_ rad2deg_ reciprocal_ relu_ resize_as_ resize_as_sparse_ round_ rrelu_ rsqrt_ selu_ "
    "sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ threshold_ trunc_ xlogy_ zero_ ";

static const char nn_words[] =
    "_conv_depthwise2d _pad_circular _pad_enum _upsample_bicubic2d_aa _upsample_bilinear2d_aa "
    "_upsample_lanczos2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
    "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d avg_pool2d "
    "avg_pool3d binary_cross_entropy col2im conv_depthwise3d cross_entropy_loss elu elu_ "
    "flatten_dense_tensors fractional_max_pool2d fractional_max_pool3d gelu gelu_ glu hardsigmoid "
    "hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_ huber_loss im2col l1_loss leaky_relu "
    "leaky_relu_ linear log_sigmoid max_pool2d_with_indices max_pool3d_with_indices max_unpool2d "
    "max_unpool3d mish mish_ mkldnn_linear mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight "
    "mse_loss multi_margin_loss multilabel_margin_loss nll_loss nll_loss2d nll_loss_nd one_hot pad "
    "pad_sequence reflection_pad1d reflection_pad2d reflection_pad3d relu6 relu6_ replication_pad1d "
    "replication_pad2d replication_pad3d rrelu_with_noise rrelu_with_noise_ scaled_dot_product_attention "
    "silu silu_ slow_conv3d slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d "
    "slow_conv_transpose3d smooth_l1_loss soft_margin_loss softplus softshrink thnn_conv2d "
    "unflatten_dense_tensors upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d upsample_trilinear3d ";

/* No functions: methods only, or operations that the library has for itself. */
static const char not_function_words[] =
    "ccol_indices chalf coalesce col_indices contiguous crow_indices dense_dim dim expand expand_as indices is_coalesced "
    "is_contiguous is_pinned is_set_to item new_empty new_empty_strided new_full new_ones new_zeros pin_memory qscheme "
    "record_stream repeat reshape_as retain_grad row_indices size sparse_dim sparse_mask storage_offset stride sum_to_size to "
    "to_dense to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr type_as unfold values view "
    "view_as alias cauchy copy data exponential geometric index is_leaf lift lift_fresh log_normal mH mT matrix_H numpy_T "
    "output_nr random resize resize_as set set_data slice uniform zero _to_dtype _conj_if_complex _version ";

/* Written by hand: these keep the operation's method or function from being published under the name. */
static const char by_hand_words[] =
    "dim size stride storage_offset numel item is_contiguous to requires_grad_ retain_grad set_ record_stream is_pinned "
    "is_same_size is_set_to is_leaf output_nr nonzero pin_memory is_floating_point is_complex is_signed is_nonzero is_inference type_as cpu numpy tolist ";

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && at[n] == ' ') return true;
    return false;
}

/* Does `base` have an in-place form `base_`, derived from its record? */
bool py_has_inplace(const char *base)
{
    char name_[96], both[96];
    if (strlen(base) + 2 > sizeof name_) return false;
    snprintf(name_, sizeof name_, "%s_", base);
    snprintf(both, sizeof both, "%s/", base);
    return has_word(method_words, name_) || has_word(method_words, both) || has_word(inplace_function_words, name_) || has_word(nn_words, name_);
}

static int publish(PyObject *dict, const char *base, const char *name, const char *space, int flags)
{
    PyObject *f = py_function(base, name, space, flags);
    int failed = f ? PyDict_SetItem(dict, ((py_function_object *)f)->name, f) : -1;
    Py_XDECREF(f);
    return failed;
}

static char *keep(const char *text, size_t n) /* lives as long as the callables */
{
    char *s = rush_malloc(n + 1);
    if (!s) return py_raise();
    memcpy(s, text, n);
    s[n] = 0;
    return s;
}

/* name_: an operation of that name, or the in-place form of `name`. */
static int publish_inplace(PyObject *dict, const char *name_, const char *space, int flags)
{
    if (rush_op_find(name_)) return publish(dict, name_, name_, space, flags);
    char *base = keep(name_, strlen(name_) - 1);
    if (!base) return -1;
    if (rush_op_find(base)) return publish(dict, base, name_, space, flags | PY_INPLACE);
    rush_free(base);
    return 0;
}

static int publish_methods(PyObject *dict)
{
    for (const char *at = method_words; *at;) {
        size_t n = strcspn(at, " /");
        bool both = at[n] == '/';
        char *name = keep(at, n);
        if (!name) return -1;
        at += n + both + 1;
        if (has_word(by_hand_words, name)) continue;
        if (name[n - 1] == '_' && publish_inplace(dict, name, "", PY_METHOD)) return -1;
        if (name[n - 1] != '_' && rush_op_find(name) && publish(dict, name, name, "", PY_METHOD)) return -1;
        if (!both) continue;
        char *name_ = keep(name, n + 1);
        if (!name_) return -1;
        name_[n] = '_';
        if (publish_inplace(dict, name_, "", PY_METHOD)) return -1;
    }
    return 0;
}

static int publish_list(PyObject *dict, const char *words, const char *space)
{
    for (const char *at = words; *at;) {
        size_t n = strcspn(at, " ");
        char *name = keep(at, n);
        if (!name) return -1;
        at += n + 1;
        if (name[n - 1] == '_' ? publish_inplace(dict, name, space, 0) : rush_op_find(name) && publish(dict, name, name, space, 0)) return -1;
    }
    return 0;
}

static const struct space {
    const char *prefix, *name;
} spaces[] = {{"linalg_", "_linalg"}, {"fft_", "_fft"}, {"special_", "_special"}};

static const char sparse_words[] = "_sparse_addmm _sparse_log_softmax _sparse_mm _sparse_mm_reduce_impl _sparse_softmax _spdiags _spsolve sparse_sampled_addmm ";

/* One more operation has been registered (by torch.library, by an extension): its function appears, too. */
static int publish_function(PyObject *main, PyObject **space, const rush_op *op)
{
    size_t n = strlen(op->base);
    for (size_t s = 0; s < RUSH_COUNT(spaces); ++s)
        if (!strncmp(op->base, spaces[s].prefix, strlen(spaces[s].prefix))) return publish(space[s], op->base, op->base, spaces[s].name, 0);
    if ((op->base[n - 1] == '_' && !op->args[0].list) || strchr(op->base, ':') || has_word(nn_words, op->base) || has_word(not_function_words, op->base)) return 0;
    return publish(main, op->base, op->base, "", 0);
}

static PyObject *add_space(PyObject *module, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "rushlight._C.%s", name);
    PyObject *space = PyModule_New(full), *modules = PyImport_GetModuleDict();
    if (!space || PyDict_SetItemString(modules, full, space) || PyModule_AddObject(module, name, space)) return NULL;
    return PyModule_GetDict(space);
}

int py_functions_fill(PyObject *module)
{
    PyObject *main = add_space(module, "_VariableFunctions"), *nn = add_space(module, "_nn"), *sparse = add_space(module, "_sparse"), *space[RUSH_COUNT(spaces)];
    if (!main || !nn || !sparse || !add_space(module, "_nested")) return -1;
    for (size_t s = 0; s < RUSH_COUNT(spaces); ++s)
        if (!(space[s] = add_space(module, spaces[s].name))) return -1;
    const char *last = "";
    for (const rush_op *op = rush_op_first(); op; op = rush_op_next(op)) {
        if (op->base == last || (rush_op_find(op->base) != op)) continue; /* once for all overloads */
        last = op->base;
        if (publish_function(main, space, op)) return -1;
    }
    if (publish_list(nn, nn_words, "_nn") || publish_list(main, inplace_function_words, "") || publish_list(sparse, sparse_words, "_sparse")) return -1;
    return publish_methods(py_type_TensorBase.tp_dict);
}
