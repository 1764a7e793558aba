/* nn.h - modules: networks made of layers, with named parameters, buffers and children.
 *
 * A constructor parks the module in the current scope, like a tensor; a module holds its children, so only the
 * outermost one matters. Names in a state are PyTorch's ("0.weight", "encoder.self_attn.in_proj_weight"), and
 * the same seed gives the weights that PyTorch's modules start with.
 *
 *     rush_module *net = rush_nn_sequential(rush_nn_linear(64, 32), rush_nn_relu(), rush_nn_linear(32, 10));
 *     rush_tensor *y = rush_forward(net, x);
 *
 * Options that are left out are PyTorch's defaults, so are all where NULL stands for them. In C++ options are a struct,
 * rush_nn_linear(32, 10, {.no_bias = true}) since C++20, and calls without them end before it: rush_nn_linear(32, 10).
 */
#include <rushlight.h> /* before the guard: it includes this header, and those that need it after */
#ifndef RUSHLIGHT_NN_H
#define RUSHLIGHT_NN_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_module rush_module;

/* ---- using modules ---- */

RUSH_API rush_tensor *rush_forward(rush_module *, rush_tensor *x);
/* Of modules with several inputs or results: recurrent ones (x, h, c) -> (y, h, c), attention (query, key, value, mask).
 * Missing inputs are NULL. Returns the number of results written to out (at most 8), -1 and an error. */
RUSH_API int rush_forward_all(rush_module *, int n, rush_tensor *const *in, rush_tensor **out);
RUSH_API void rush_module_train(rush_module *, bool on); /* all below it too; false: as rush_module_eval() */
RUSH_API void rush_module_eval(rush_module *);
RUSH_API bool rush_module_training(const rush_module *);
RUSH_API const char *rush_module_name(const rush_module *); /* "Linear" */
RUSH_API rush_module *rush_module_keep(rush_module *);
RUSH_API void rush_module_drop(rush_module *);

RUSH_API rush_tensors rush_parameters(rush_module *);          /* of it and all below; the array lives in the scope */
RUSH_API int64_t rush_parameter_count(rush_module *);          /* numbers in them */
RUSH_API void rush_module_zero_grad(rush_module *);
RUSH_API void rush_module_requires_grad(rush_module *, bool);  /* false freezes */
RUSH_API rush_tensor *rush_module_tensor(rush_module *, const char *name); /* "0.weight"; NULL when there is none */
RUSH_API rush_module *rush_module_child(rush_module *, const char *name);  /* "0"; NULL when there is none */
RUSH_API int rush_data_set(rush_tensor *, rush_tensor *from); /* x.data = from: the memory, sizes, dtype and device of another, unrecorded */
RUSH_API int rush_module_to(rush_module *, rush_dtype);        /* floating parameters and buffers become this dtype */

/* Named tensors: parameters and buffers of a module, contents of a file. Arrays and names live in the scope. */
typedef struct rush_state {
    int n;
    const char **name;
    rush_tensor **tensor;
} rush_state;
RUSH_API rush_state rush_module_state(rush_module *);
/* Copies values by name. strict: every name of both sides must be there, in the same size. */
RUSH_API int rush_module_load_state(rush_module *, rush_state, bool strict);
RUSH_API rush_tensor *rush_state_find(rush_state, const char *name);
RUSH_API int rush_module_save(rush_module *, const char *path); /* as safetensors */
RUSH_API int rush_module_load(rush_module *, const char *path);

/* ---- making modules of one's own ---- */

typedef struct rush_module_kind {
    const char *name;
    size_t size;                 /* bytes of its settings, which rush_module_data() points to */
    int (*forward)(rush_module *, int n, rush_tensor *const *in, rush_tensor **out); /* as rush_forward_all */
    void (*end)(void *data);     /* frees what the settings point to, or NULL                 */
} rush_module_kind;

RUSH_API rush_module *rush_module_new(const rush_module_kind *);
RUSH_API void *rush_module_data(rush_module *);
/* Gives the module a parameter (which will require gradients) or a buffer. NULL is fine: then it has none. Both return t. */
RUSH_API rush_tensor *rush_module_parameter(rush_module *, const char *name, rush_tensor *t);
RUSH_API rush_tensor *rush_module_buffer(rush_module *, const char *name, rush_tensor *t, bool persistent);
RUSH_API rush_module *rush_module_add(rush_module *, const char *name, rush_module *child); /* returns child */

/* ---- initialisers: change a tensor, unrecorded; return it ---- */

RUSH_API rush_tensor *rush_init_constant(rush_tensor *, double);
RUSH_API rush_tensor *rush_init_uniform(rush_tensor *, double from, double to);
RUSH_API rush_tensor *rush_init_normal(rush_tensor *, double mean, double std);
RUSH_API rush_tensor *rush_init_truncated_normal(rush_tensor *, double mean, double std, double low, double high);
RUSH_API rush_tensor *rush_init_xavier_uniform(rush_tensor *, double gain);
RUSH_API rush_tensor *rush_init_xavier_normal(rush_tensor *, double gain);
/* a: slope of the leaky relu that follows (0: relu); fan_out: keeps the gradients' size instead of the values'. */
RUSH_API rush_tensor *rush_init_kaiming_uniform(rush_tensor *, double a, bool fan_out);
RUSH_API rush_tensor *rush_init_kaiming_normal(rush_tensor *, double a, bool fan_out);
RUSH_API rush_tensor *rush_init_orthogonal(rush_tensor *, double gain);

/* ---- containers ---- */

RUSH_API rush_module *rush_nn_sequential_of(int n, rush_module *const *);
RUSH_API int rush_sequential_append(rush_module *sequential, rush_module *);
#ifndef __cplusplus
#define rush_nn_sequential(...)                                                                             \
    rush_nn_sequential_of((int)(sizeof((rush_module *[]){__VA_ARGS__}) / sizeof(rush_module *)), (rush_module *[]){__VA_ARGS__})
#endif
/* Any operation as a module: op(x, args...). What array arguments point to is copied. */
RUSH_API rush_module *rush_nn_call(const char *op, int n, const rush_value *args);

/* ---- layers ---- */

typedef struct rush_nn_linear_options { bool no_bias RUSH_ZERO; rush_dtype dtype RUSH_ZERO; } rush_nn_linear_options; /* dtype 0 (bool): the default */
RUSH_API rush_module *rush_nn_linear_with(int64_t in, int64_t out, const rush_nn_linear_options *);

typedef struct rush_nn_conv_options {
    rush_ints stride RUSH_ZERO, padding RUSH_ZERO, dilation RUSH_ZERO, output_padding RUSH_ZERO; /* RUSH_INTS(2): one number counts for all dimensions */
    int64_t groups RUSH_ZERO;
    bool no_bias RUSH_ZERO;
    const char *padding_mode RUSH_ZERO; /* "zeros", "reflect", "replicate", "circular" */
    bool same RUSH_ZERO;                /* padding that keeps the size                 */
} rush_nn_conv_options;
/* dims 1 to 3; kernel has as many entries, or one that counts for all. By name it is a number or RUSH_INTS(3, 5). */
RUSH_API rush_module *rush_nn_conv_with(int dims, bool transposed, int64_t in, int64_t out, rush_ints kernel,
                                        const rush_nn_conv_options *);

typedef struct rush_nn_norm_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    double eps RUSH_OTHERWISE(RUSH_DEFAULT), momentum RUSH_OTHERWISE(RUSH_DEFAULT); /* momentum below 0: a cumulative average (batch norm) */
    bool no_affine RUSH_ZERO, no_bias RUSH_ZERO;
    bool no_track RUSH_ZERO;         /* batch norm without running averages */
    bool track RUSH_ZERO;            /* instance norm with them             */
    bool affine RUSH_ZERO;           /* instance norm with weight and bias  */
} rush_nn_norm_options;
RUSH_API rush_module *rush_nn_batch_norm_with(int64_t features, const rush_nn_norm_options *);
RUSH_API rush_module *rush_nn_instance_norm_with(int64_t features, const rush_nn_norm_options *);
RUSH_API rush_module *rush_nn_group_norm_with(int64_t groups, int64_t channels, const rush_nn_norm_options *);
RUSH_API rush_module *rush_nn_layer_norm_with(rush_ints shape, const rush_nn_norm_options *);
RUSH_API rush_module *rush_nn_rms_norm_with(rush_ints shape, const rush_nn_norm_options *);

typedef struct rush_nn_embedding_options { int64_t padding_idx RUSH_ZERO; bool has_padding RUSH_ZERO; } rush_nn_embedding_options;
RUSH_API rush_module *rush_nn_embedding_with(int64_t count, int64_t features, const rush_nn_embedding_options *);

RUSH_API rush_module *rush_nn_dropout(double p);
RUSH_API rush_module *rush_nn_dropout2d(double p); /* whole channels, of any number of dimensions */
RUSH_API rush_module *rush_nn_alpha_dropout(double p);
RUSH_API rush_module *rush_nn_flatten(void);       /* all but the first dimension */
RUSH_API rush_module *rush_nn_identity(void);
RUSH_API rush_module *rush_nn_softmax(int dim);
RUSH_API rush_module *rush_nn_log_softmax(int dim);

typedef struct rush_nn_pool_options {
    rush_ints stride RUSH_ZERO, padding RUSH_ZERO, dilation RUSH_ZERO; /* no stride: the window's size */
    bool ceil_mode RUSH_ZERO, exclude_padding RUSH_ZERO;
} rush_nn_pool_options;
RUSH_API rush_module *rush_nn_max_pool_with(int dims, rush_ints window, const rush_nn_pool_options *);
RUSH_API rush_module *rush_nn_avg_pool_with(int dims, rush_ints window, const rush_nn_pool_options *);
RUSH_API rush_module *rush_nn_adaptive_avg_pool(int dims, rush_ints size);
RUSH_API rush_module *rush_nn_adaptive_max_pool(int dims, rush_ints size);

typedef struct rush_nn_recurrent_options {
    int layers RUSH_ZERO;
    double dropout RUSH_ZERO;
    bool no_bias RUSH_ZERO, batch_first RUSH_ZERO, bidirectional RUSH_ZERO, relu RUSH_ZERO; /* relu: of rush_nn_rnn, instead of tanh */
} rush_nn_recurrent_options;
RUSH_API rush_module *rush_nn_rnn_with(int64_t in, int64_t hidden, const rush_nn_recurrent_options *);
RUSH_API rush_module *rush_nn_lstm_with(int64_t in, int64_t hidden, const rush_nn_recurrent_options *);
RUSH_API rush_module *rush_nn_gru_with(int64_t in, int64_t hidden, const rush_nn_recurrent_options *);

typedef struct rush_nn_attention_options {
    double dropout RUSH_ZERO;
    bool no_bias RUSH_ZERO, batch_first RUSH_ZERO, causal RUSH_ZERO;
    int64_t kdim RUSH_ZERO, vdim RUSH_ZERO;    /* features of key and value where they differ */
} rush_nn_attention_options;
/* (query, key, value, mask): mask is added to the scores, or bool with true where attention is forbidden. One input x: (x, x, x). */
RUSH_API rush_module *rush_nn_attention_with(int64_t features, int64_t heads, const rush_nn_attention_options *);

typedef struct rush_nn_transformer_options {
    rush_exact exact RUSH_OTHERWISE(rush_exact::yes);
    int64_t feedforward RUSH_ZERO;   /* 0: 2048 */
    double dropout RUSH_OTHERWISE(RUSH_DEFAULT), eps RUSH_OTHERWISE(RUSH_DEFAULT);
    bool gelu RUSH_ZERO, norm_first RUSH_ZERO, batch_first RUSH_ZERO, causal RUSH_ZERO;
} rush_nn_transformer_options;
RUSH_API rush_module *rush_nn_encoder_layer_with(int64_t features, int64_t heads, const rush_nn_transformer_options *); /* (x, mask) */
RUSH_API rush_module *rush_nn_decoder_layer_with(int64_t features, int64_t heads, const rush_nn_transformer_options *); /* (x, memory, mask, memory mask) */

#ifndef __cplusplus
#define rush_nn_op(op, ...) rush_nn_call(op, (int)(sizeof((rush_value[]){__VA_ARGS__}) / sizeof(rush_value)), (rush_value[]){__VA_ARGS__})
#define rush_nn_relu() rush_nn_call("relu", 0, NULL)
#define rush_nn_sigmoid() rush_nn_call("sigmoid", 0, NULL)
#define rush_nn_tanh() rush_nn_call("tanh", 0, NULL)
#define rush_nn_gelu() rush_nn_call("gelu", 0, NULL)
#define rush_nn_silu() rush_nn_call("silu", 0, NULL)
#define rush_nn_mish() rush_nn_call("mish", 0, NULL)
#define rush_nn_elu() rush_nn_call("elu", 0, NULL)
#define rush_nn_selu() rush_nn_call("selu", 0, NULL)
#define rush_nn_softplus() rush_nn_call("softplus", 0, NULL)
#define rush_nn_hardswish() rush_nn_call("hardswish", 0, NULL)
#define rush_nn_leaky_relu(slope) rush_nn_op("leaky_relu", RUSH_V(slope))
#define rush_nn_linear(in, out, ...) rush_nn_linear_with(in, out, &(rush_nn_linear_options){__VA_ARGS__})
#define rush_nn_conv1d(in, out, kernel, ...) rush_nn_conv_with(1, false, in, out, RUSH_SIZES(kernel), &(rush_nn_conv_options){__VA_ARGS__})
#define rush_nn_conv2d(in, out, kernel, ...) rush_nn_conv_with(2, false, in, out, RUSH_SIZES(kernel), &(rush_nn_conv_options){__VA_ARGS__})
#define rush_nn_conv3d(in, out, kernel, ...) rush_nn_conv_with(3, false, in, out, RUSH_SIZES(kernel), &(rush_nn_conv_options){__VA_ARGS__})
#define rush_nn_conv_transpose1d(in, out, kernel, ...) rush_nn_conv_with(1, true, in, out, RUSH_SIZES(kernel), &(rush_nn_conv_options){__VA_ARGS__})
#define rush_nn_conv_transpose2d(in, out, kernel, ...) rush_nn_conv_with(2, true, in, out, RUSH_SIZES(kernel), &(rush_nn_conv_options){__VA_ARGS__})
#define rush_nn_conv_transpose3d(in, out, kernel, ...) rush_nn_conv_with(3, true, in, out, RUSH_SIZES(kernel), &(rush_nn_conv_options){__VA_ARGS__})
#define rush_nn_batch_norm(features, ...) RUSH_NAMED(rush_nn_norm_options, rush_nn_batch_norm_with(features, &rush_options_), .eps = RUSH_DEFAULT, .momentum = RUSH_DEFAULT, __VA_ARGS__)
#define rush_nn_instance_norm(features, ...) RUSH_NAMED(rush_nn_norm_options, rush_nn_instance_norm_with(features, &rush_options_), .eps = RUSH_DEFAULT, .momentum = RUSH_DEFAULT, __VA_ARGS__)
#define rush_nn_group_norm(groups, channels, ...) RUSH_NAMED(rush_nn_norm_options, rush_nn_group_norm_with(groups, channels, &rush_options_), .eps = RUSH_DEFAULT, .momentum = RUSH_DEFAULT, __VA_ARGS__)
#define rush_nn_layer_norm(features, ...) RUSH_NAMED(rush_nn_norm_options, rush_nn_layer_norm_with(RUSH_SIZES(features), &rush_options_), .eps = RUSH_DEFAULT, .momentum = RUSH_DEFAULT, __VA_ARGS__)
#define rush_nn_rms_norm(features, ...) RUSH_NAMED(rush_nn_norm_options, rush_nn_rms_norm_with(RUSH_SIZES(features), &rush_options_), .eps = RUSH_DEFAULT, .momentum = RUSH_DEFAULT, __VA_ARGS__)
#define rush_nn_embedding(count, features, ...) rush_nn_embedding_with(count, features, &(rush_nn_embedding_options){__VA_ARGS__})
#define rush_nn_max_pool1d(window, ...) rush_nn_max_pool_with(1, RUSH_SIZES(window), &(rush_nn_pool_options){__VA_ARGS__})
#define rush_nn_max_pool2d(window, ...) rush_nn_max_pool_with(2, RUSH_SIZES(window), &(rush_nn_pool_options){__VA_ARGS__})
#define rush_nn_max_pool3d(window, ...) rush_nn_max_pool_with(3, RUSH_SIZES(window), &(rush_nn_pool_options){__VA_ARGS__})
#define rush_nn_avg_pool1d(window, ...) rush_nn_avg_pool_with(1, RUSH_SIZES(window), &(rush_nn_pool_options){__VA_ARGS__})
#define rush_nn_avg_pool2d(window, ...) rush_nn_avg_pool_with(2, RUSH_SIZES(window), &(rush_nn_pool_options){__VA_ARGS__})
#define rush_nn_avg_pool3d(window, ...) rush_nn_avg_pool_with(3, RUSH_SIZES(window), &(rush_nn_pool_options){__VA_ARGS__})
#define rush_nn_adaptive_avg_pool2d(height, width) rush_nn_adaptive_avg_pool(2, RUSH_INTS(height, width))
#define rush_nn_rnn(in, hidden, ...) rush_nn_rnn_with(in, hidden, &(rush_nn_recurrent_options){__VA_ARGS__})
#define rush_nn_lstm(in, hidden, ...) rush_nn_lstm_with(in, hidden, &(rush_nn_recurrent_options){__VA_ARGS__})
#define rush_nn_gru(in, hidden, ...) rush_nn_gru_with(in, hidden, &(rush_nn_recurrent_options){__VA_ARGS__})
#define rush_nn_attention(features, heads, ...) rush_nn_attention_with(features, heads, &(rush_nn_attention_options){__VA_ARGS__})
#define rush_nn_encoder_layer(features, heads, ...) RUSH_NAMED(rush_nn_transformer_options, rush_nn_encoder_layer_with(features, heads, &rush_options_), .dropout = RUSH_DEFAULT, .eps = RUSH_DEFAULT, __VA_ARGS__)
#define rush_nn_decoder_layer(features, heads, ...) RUSH_NAMED(rush_nn_transformer_options, rush_nn_decoder_layer_with(features, heads, &rush_options_), .dropout = RUSH_DEFAULT, .eps = RUSH_DEFAULT, __VA_ARGS__)
#define rush_cross_entropy(logits, target, ...) rush_cross_entropy_loss(logits, target, __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif

/* ---- C++ ---- */

#ifdef __cplusplus
template <typename... M> rush_module *rush_nn_sequential(M... modules)
{
    rush_module *const list[] = {modules...};
    return rush_nn_sequential_of((int)sizeof...(modules), list);
}
template <typename... A> rush_module *rush_nn_op(const char *op, A... args)
{
    const rush_value list[] = {rush_v(args)...};
    return rush_nn_call(op, (int)sizeof...(args), list);
}
inline rush_module *rush_nn_relu() { return rush_nn_call("relu", 0, nullptr); }
inline rush_module *rush_nn_sigmoid() { return rush_nn_call("sigmoid", 0, nullptr); }
inline rush_module *rush_nn_tanh() { return rush_nn_call("tanh", 0, nullptr); }
inline rush_module *rush_nn_gelu() { return rush_nn_call("gelu", 0, nullptr); }
inline rush_module *rush_nn_silu() { return rush_nn_call("silu", 0, nullptr); }
inline rush_module *rush_nn_mish() { return rush_nn_call("mish", 0, nullptr); }
inline rush_module *rush_nn_elu() { return rush_nn_call("elu", 0, nullptr); }
inline rush_module *rush_nn_selu() { return rush_nn_call("selu", 0, nullptr); }
inline rush_module *rush_nn_softplus() { return rush_nn_call("softplus", 0, nullptr); }
inline rush_module *rush_nn_hardswish() { return rush_nn_call("hardswish", 0, nullptr); }
inline rush_module *rush_nn_leaky_relu(double slope) { return rush_nn_op("leaky_relu", slope); }
inline rush_module *rush_nn_linear(int64_t in, int64_t out, const rush_nn_linear_options &options = {}) { return rush_nn_linear_with(in, out, &options); }
inline rush_module *rush_nn_conv1d(int64_t in, int64_t out, const rush_int_list &kernel, const rush_nn_conv_options &options = {}) { return rush_nn_conv_with(1, false, in, out, kernel.list(), &options); }
inline rush_module *rush_nn_conv2d(int64_t in, int64_t out, const rush_int_list &kernel, const rush_nn_conv_options &options = {}) { return rush_nn_conv_with(2, false, in, out, kernel.list(), &options); }
inline rush_module *rush_nn_conv3d(int64_t in, int64_t out, const rush_int_list &kernel, const rush_nn_conv_options &options = {}) { return rush_nn_conv_with(3, false, in, out, kernel.list(), &options); }
inline rush_module *rush_nn_conv_transpose1d(int64_t in, int64_t out, const rush_int_list &kernel, const rush_nn_conv_options &options = {}) { return rush_nn_conv_with(1, true, in, out, kernel.list(), &options); }
inline rush_module *rush_nn_conv_transpose2d(int64_t in, int64_t out, const rush_int_list &kernel, const rush_nn_conv_options &options = {}) { return rush_nn_conv_with(2, true, in, out, kernel.list(), &options); }
inline rush_module *rush_nn_conv_transpose3d(int64_t in, int64_t out, const rush_int_list &kernel, const rush_nn_conv_options &options = {}) { return rush_nn_conv_with(3, true, in, out, kernel.list(), &options); }
inline rush_module *rush_nn_batch_norm(int64_t features, const rush_nn_norm_options &options = {}) { return rush_nn_batch_norm_with(features, &options); }
inline rush_module *rush_nn_instance_norm(int64_t features, const rush_nn_norm_options &options = {}) { return rush_nn_instance_norm_with(features, &options); }
inline rush_module *rush_nn_group_norm(int64_t groups, int64_t channels, const rush_nn_norm_options &options = {}) { return rush_nn_group_norm_with(groups, channels, &options); }
inline rush_module *rush_nn_layer_norm(const rush_int_list &features, const rush_nn_norm_options &options = {}) { return rush_nn_layer_norm_with(features.list(), &options); }
inline rush_module *rush_nn_rms_norm(const rush_int_list &features, const rush_nn_norm_options &options = {}) { return rush_nn_rms_norm_with(features.list(), &options); }
inline rush_module *rush_nn_embedding(int64_t count, int64_t features, const rush_nn_embedding_options &options = {}) { return rush_nn_embedding_with(count, features, &options); }
inline rush_module *rush_nn_max_pool1d(const rush_int_list &window, const rush_nn_pool_options &options = {}) { return rush_nn_max_pool_with(1, window.list(), &options); }
inline rush_module *rush_nn_max_pool2d(const rush_int_list &window, const rush_nn_pool_options &options = {}) { return rush_nn_max_pool_with(2, window.list(), &options); }
inline rush_module *rush_nn_max_pool3d(const rush_int_list &window, const rush_nn_pool_options &options = {}) { return rush_nn_max_pool_with(3, window.list(), &options); }
inline rush_module *rush_nn_avg_pool1d(const rush_int_list &window, const rush_nn_pool_options &options = {}) { return rush_nn_avg_pool_with(1, window.list(), &options); }
inline rush_module *rush_nn_avg_pool2d(const rush_int_list &window, const rush_nn_pool_options &options = {}) { return rush_nn_avg_pool_with(2, window.list(), &options); }
inline rush_module *rush_nn_avg_pool3d(const rush_int_list &window, const rush_nn_pool_options &options = {}) { return rush_nn_avg_pool_with(3, window.list(), &options); }
inline rush_module *rush_nn_adaptive_avg_pool2d(int64_t height, int64_t width) { return rush_nn_adaptive_avg_pool(2, rush_int_list{height, width}.list()); }
inline rush_module *rush_nn_rnn(int64_t in, int64_t hidden, const rush_nn_recurrent_options &options = {}) { return rush_nn_rnn_with(in, hidden, &options); }
inline rush_module *rush_nn_lstm(int64_t in, int64_t hidden, const rush_nn_recurrent_options &options = {}) { return rush_nn_lstm_with(in, hidden, &options); }
inline rush_module *rush_nn_gru(int64_t in, int64_t hidden, const rush_nn_recurrent_options &options = {}) { return rush_nn_gru_with(in, hidden, &options); }
inline rush_module *rush_nn_attention(int64_t features, int64_t heads, const rush_nn_attention_options &options = {}) { return rush_nn_attention_with(features, heads, &options); }
inline rush_module *rush_nn_encoder_layer(int64_t features, int64_t heads, const rush_nn_transformer_options &options = {}) { return rush_nn_encoder_layer_with(features, heads, &options); }
inline rush_module *rush_nn_decoder_layer(int64_t features, int64_t heads, const rush_nn_transformer_options &options = {}) { return rush_nn_decoder_layer_with(features, heads, &options); }
#endif
#endif
