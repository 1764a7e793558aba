/* checkpoint.h - PyTorch's .pt files from C: named tensors, or whatever else a checkpoint holds.
 *
 *     rush_save_state("net.pt", rush_module_state(net));       torch.load("net.pt") reads it
 *     rush_module_load_state(net, rush_load_state("net.pt"), true);
 *
 *     rush_content *epoch = rush_content_dict();
 *     rush_content_set(epoch, "step", rush_content_int(100));
 *     rush_content_set(epoch, "model", rush_content_state(rush_module_state(net)));
 *     rush_save("epoch.pt", epoch);
 *
 *     const rush_content *back = rush_load("epoch.pt", .mmap = true);
 *     int64_t step = rush_content_get(back, "step")->i;
 *
 * Nothing in a file is run. Contents live in the current scope, and the tensors in them for as long.
 */
#ifndef RUSHLIGHT_CHECKPOINT_H
#define RUSHLIGHT_CHECKPOINT_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rush_content_kind {
    RUSH_CONTENT_NONE, RUSH_CONTENT_BOOL, RUSH_CONTENT_INT, RUSH_CONTENT_FLOAT, RUSH_CONTENT_COMPLEX, RUSH_CONTENT_TEXT, RUSH_CONTENT_BYTES,
    RUSH_CONTENT_TENSOR, RUSH_CONTENT_LIST, RUSH_CONTENT_TUPLE, RUSH_CONTENT_SET, RUSH_CONTENT_DICT,
    RUSH_CONTENT_DTYPE, /* i: a rush_dtype */
    RUSH_CONTENT_NAME   /* s: a device, a layout, a class: what has no other kind here */
} rush_content_kind;

typedef struct rush_content rush_content;
struct rush_content {
    uint8_t kind;             /* a rush_content_kind                                              */
    bool parameter;           /* of a tensor: it was an nn.Parameter                              */
    size_t n, room;           /* values in items; bytes of text and bytes, which end with a zero beyond */
    const char *type;         /* the class of an object of TorchScript (a dict); else NULL, "" of rush_content_object() */
    union {
        int64_t i;            /* also bool, as 0 and 1                                            */
        double f;
        double c[2];          /* real, imaginary                                                  */
        const char *s;
        rush_tensor *t;
        rush_content **items; /* of a list, tuple or set; of a dict keys and values in turn       */
    };
};

/* ---- named tensors ---- */

RUSH_API int rush_save_state(const char *path, rush_state);
/* Every tensor of a file, nested names joined by dots: also of TorchScript archives. n is -1 on error. */
RUSH_API rush_state rush_load_state(const char *path);

/* ---- anything ---- */

typedef struct rush_load_options {
    bool mmap RUSH_ZERO;         /* tensors are the file's memory, copied when written to; checksums are not looked at */
    bool unchecked RUSH_ZERO;    /* do not compare checksums */
} rush_load_options;
RUSH_API const rush_content *rush_load_with(const char *path, rush_load_options); /* NULL and an error */
#ifndef __cplusplus
#define rush_load(path, ...) rush_load_with(path, (rush_load_options){__VA_ARGS__})
#endif
RUSH_API int rush_save(const char *path, const rush_content *);

RUSH_API rush_content *rush_content_none(void);
RUSH_API rush_content *rush_content_bool(bool);
RUSH_API rush_content *rush_content_int(int64_t);
RUSH_API rush_content *rush_content_float(double);
RUSH_API rush_content *rush_content_text(const char *);   /* of UTF-8; copied */
RUSH_API rush_content *rush_content_tensor(rush_tensor *);
RUSH_API rush_content *rush_content_list(void);
RUSH_API rush_content *rush_content_tuple(void);
RUSH_API rush_content *rush_content_dict(void);
RUSH_API rush_content *rush_content_state(rush_state);    /* a dict of tensors */
/* A dict that is written as an object with attributes. A file whose outermost value is one is what torch::save of libtorch writes, an
 * archive of TorchScript without functions; of its tensors those marked `parameter` are parameters, the others buffers. */
RUSH_API rush_content *rush_content_object(void);
RUSH_API int rush_content_append(rush_content *list, rush_content *);
RUSH_API int rush_content_set(rush_content *dict, const char *key, rush_content *);
RUSH_API int rush_content_pair(rush_content *dict, rush_content *key, rush_content *); /* a key of any kind, which is not there yet */
RUSH_API rush_content *rush_content_get(const rush_content *dict, const char *key); /* NULL: not there, no error */
RUSH_API rush_content *rush_content_at(const rush_content *list, size_t i);         /* also the i-th value of a dict */
RUSH_API rush_state rush_content_tensors(const rush_content *);                  /* all in it, names joined by dots */

/* ---- optimizers, as PyTorch's state_dict() has them: {"state": {0: {...}, ...}, "param_groups": [{"lr": ..., "params": [0, ...]}]} ---- */

typedef struct rush_optim rush_optim;
RUSH_API rush_content *rush_content_optim(rush_optim *);
/* State and options, PyTorch's or of rush_content_optim(); several groups are fine as long as their options are equal. */
RUSH_API int rush_optim_load_content(rush_optim *, const rush_content *);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
inline const rush_content *rush_load(const char *path, rush_load_options options = {}) { return rush_load_with(path, options); }
#endif
#endif
