/* program.h - networks that were captured elsewhere, as modules: run and trained without Python.
 *
 *     rush_module *net = rush_program_load("net.pt2");        written by torch.export.save, or net.onnx
 *     rush_tensor *y = rush_forward(net, x);
 *     rush_optim *opt = rush_adam(rush_parameters(net));      and so on, as with a module made here
 *
 * Sizes that were captured as dynamic may vary from call to call. A program holds no code: what it may call are operations of
 * the library; a file that asks for others is refused, with all of their names.
 */
#ifndef RUSHLIGHT_PROGRAM_H
#define RUSHLIGHT_PROGRAM_H

#include <rushlight/library.h>
#include <rushlight/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A module "Program", with the parameters and buffers that the file names. NULL and an error. */
RUSH_API rush_module *rush_program_load(const char *path);
RUSH_API int rush_program_inputs(const rush_module *);  /* how many tensors it is given; -1 and an error */
RUSH_API int rush_program_results(const rush_module *); /* how many it gives: rush_forward_all() takes up to 8 */
/* What the file says of input or result i; name and sizes live as long as the module. 0; -1 and an error. */
typedef struct rush_program_value {
    const char *name;          /* NULL: it has none     */
    int dtype, ndim;           /* -1: any, or not known */
    int64_t size[RUSH_MAXDIM]; /* -1: any               */
    bool text;                 /* of texts or files: rush_texts() makes them, rush_text_at() reads them */
} rush_program_value;
RUSH_API int rush_program_input_at(const rush_module *, int i, rush_program_value *);
RUSH_API int rush_program_result_at(const rush_module *, int i, rush_program_value *);
/* As rush_forward_all(), with room for as many results as there are. */
RUSH_API int rush_program_run(rush_module *, int n, rush_tensor *const *in, int room, rush_tensor **out);
/* 1: a run may change the module (buffers that count, programs of TorchScript), so that one thread at a time may run it; 0: several may; -1 and an error. */
RUSH_API int rush_program_changes(const rush_module *);
/* For inference alone from now on: what follows from its tensors is computed once, batch normalisation joins convolutions, weights
 * are kept once more in the form in which kernels read them, and sums may be made in another order. Parameters that change later are not
 * looked at again. 0; -1 and an error. */
RUSH_API int rush_program_freeze(rush_module *);
RUSH_API const char *rush_program_text(const rush_module *); /* its graph, a line for each call; lives in the scope */
RUSH_API const char *rush_program_picture(const rush_module *, bool svg); /* the same as an SVG picture, or in the language of Graphviz */

/* A program of TorchScript as an archive again, with its tensors as they are now: for torch.jit.load, here and in PyTorch. 0; -1 and an error. */
RUSH_API int rush_program_save(const rush_module *, const char *path);
/* The same with files of the caller's beside it, for _extra_files there. */
typedef struct rush_program_file { const char *name; const void *data; size_t n; } rush_program_file;
RUSH_API int rush_program_save_files(const rush_module *, const char *path, size_t n, const rush_program_file *);
/* Such a file of an archive, in the scope; data NULL: it has none of this name. 0; -1 and an error. */
RUSH_API int rush_program_load_file(const char *path, const char *name, rush_program_file *);

/* ---- what a program of TorchScript consists of: methods and attributes of any type ----
 *
 *     rush_value text = rush_v_string("a torch"), ids;
 *     rush_object_call(rush_program_object(net), "encode", 1, &text, NULL, &ids);
 *
 * Values cross by copy, but tensors, modules and objects are the same ones. Lists are RUSH_V_VALUES (those of ints, floats and tensors are taken in arrays, too),
 * tuples RUSH_V_TUPLE, dicts RUSH_V_DICT; modules and objects RUSH_V_OBJECT, which live in the scope. Objects of classes that C or C++ registered are taken by all of these, too. */
RUSH_API rush_object *rush_program_object(const rush_module *); /* of the module of such a program; NULL and an error */
RUSH_API rush_module *rush_object_module(const rush_object *);  /* with its tensors; NULL: it is no module's. In the scope */
RUSH_API const char *rush_object_type(const rush_object *);     /* "__torch__.Net" */
/* Calls a method; names, which may be NULL, has NULL for arguments by position. -1 and an error. */
RUSH_API int rush_object_call(rush_object *, const char *method, int n, const rush_value *in, const char *const *names, rush_value *out);
RUSH_API int rush_object_get(rush_object *, const char *attribute, rush_value *out);
RUSH_API int rush_object_set(rush_object *, const char *attribute, rush_value);
/* The i-th method or attribute of a program's object, by name; NULL: there are no more. */
RUSH_API const char *rush_object_method_at(const rush_object *, int i);
RUSH_API const char *rush_object_attribute_at(const rush_object *, int i);

RUSH_API int rush_object_inputs(const rush_object *, const char *method); /* how many arguments it takes, self among them; -1 and an error */

RUSH_API const char *rush_object_method_text(const rush_object *, const char *method); /* as it was written, in the scope; NULL and an error */

/* ---- programs made of text ----
 *
 *     rush_module *net = rush_program_new("Net");
 *     rush_program_add(net, "weight", NULL, rush_v_tensor(w), RUSH_PROGRAM_PARAMETER);
 *     rush_program_define(net, "def forward(self, x):\n    return x.mm(self.weight)\n");
 */
RUSH_API rush_module *rush_program_new(const char *name); /* empty; NULL and an error */
enum { RUSH_PROGRAM_ATTRIBUTE, RUSH_PROGRAM_PARAMETER, RUSH_PROGRAM_BUFFER };
/* An attribute more, also of a program that was loaded; role: one of these. type: "Optional[int]", as annotations have it; tensors of the other roles and objects need none (NULL). 0; -1 and an error. */
RUSH_API int rush_program_add(rush_module *, const char *name, const char *type, rush_value, int role);
RUSH_API int rush_program_define(rush_module *, const char *methods); /* methods more, in TorchScript's language; 0, or none of them, -1 and an error */
RUSH_API rush_module *rush_program_compile(const char *functions);   /* functions as methods that have no self: see rush_object_call; NULL and an error */

/* Writes a program (.pt2, or ONNX, which a zip then holds) with what stands around it: files or texts as the first input, the likeliest classes and their labels as results.
 * One file, no code; rush_program_load() reads it, PyTorch a .pt2 of them without what was put around it. It is read once before it takes its place.
 * rush_program_archive("net.pt2", "cats.pt2", .picture = true, .resize = 256, .softmax = true, .top = 5, .labels = "labels.txt"). 0; -1 and an error. */
typedef struct rush_archive_options {
    bool picture RUSH_ZERO;                              /* the input is PNG and JPEG files, see rushlight::pictures: floats from 0 to 1, or uint8 if the program takes it */
    bool gray RUSH_ZERO;                                 /* of one channel */
    int64_t height RUSH_ZERO, width RUSH_ZERO;           /* 0: the program's own */
    int64_t resize RUSH_ZERO;                            /* the shorter side, of which the middle is taken; 0: all of it is resized */
    rush_floats mean RUSH_ZERO, std RUSH_ZERO;           /* of each channel */
    const char *merges RUSH_ZERO, *vocabulary RUSH_ZERO; /* the input is texts, in byte pairs: GPT-2's files, see rush_tokenizer_load(); NULL: it is not */
    int64_t length RUSH_ZERO, padding RUSH_ZERO;         /* tokens of a text, 0: the program's own; what short ones are filled with */
    bool softmax RUSH_ZERO;                              /* of the first result (n, classes) */
    int64_t top RUSH_ZERO;                               /* so many classes and their scores instead of it; 0: all */
    const char *labels RUSH_ZERO;                        /* a file with a line for each class: their names are a result, too */
} rush_archive_options;
RUSH_API int rush_program_archive_with(const char *model, const char *path, const rush_archive_options *); /* NULL: nothing is put around it */
#ifndef __cplusplus
#define rush_program_archive(model, path, ...) rush_program_archive_with(model, path, &(rush_archive_options){__VA_ARGS__})
#endif

/* Writes the program for ONNX's runtimes: rush_program_save_onnx(net, "net.onnx", .opset = 20). What cannot be written is an error, with all of its names. */
typedef struct rush_onnx_options {
    int64_t opset RUSH_ZERO;                   /* 18 to 23; 0: 18 */
    int ninputs RUSH_ZERO, noutputs RUSH_ZERO; /* names in order; those that are not given are the program's */
    const char *const *input RUSH_ZERO, *const *output RUSH_ZERO;
} rush_onnx_options;
RUSH_API int rush_program_save_onnx_with(rush_module *, const char *path, const rush_onnx_options *); /* NULL: as they are */
#ifndef __cplusplus
#define rush_program_save_onnx(module, path, ...) rush_program_save_onnx_with(module, path, &(rush_onnx_options){__VA_ARGS__})
#endif

/* Writes the program as one C99 file and a header beside it (path ends with .c): plain loops, static memory, the weights as numbers, no
 * library but libm. What has no such form is an error, with all of its names. Without training the program is frozen by it.
 * rush_program_save_c(net, "net.c", .train = "adam"). */
typedef struct rush_c_options {
    int64_t size RUSH_ZERO;      /* what sizes that vary become; they are kept within their ranges; 0: the least, or 1 */
    bool int8 RUSH_ZERO;         /* weights of two and more dimensions in 8 bits, with a scale for each row */
    const char *train RUSH_ZERO; /* "sgd" or "adam": a function that does one step, too; NULL: none */
    const char *loss RUSH_ZERO;  /* of that: "cross_entropy" of the last dimension (NULL stands for it), or "mse" */
} rush_c_options;
RUSH_API int rush_program_save_c_with(rush_module *, const char *path, const rush_c_options *); /* 0; -1 and an error */
#ifndef __cplusplus
#define rush_program_save_c(module, path, ...) rush_program_save_c_with(module, path, &(rush_c_options){__VA_ARGS__})
#endif

#ifdef __cplusplus
}
inline int rush_program_archive(const char *model, const char *path, const rush_archive_options &options = {}) { return rush_program_archive_with(model, path, &options); }
inline int rush_program_save_onnx(rush_module *module, const char *path, const rush_onnx_options &options = {}) { return rush_program_save_onnx_with(module, path, &options); }
inline int rush_program_save_c(rush_module *module, const char *path, const rush_c_options &options = {}) { return rush_program_save_c_with(module, path, &options); }
#endif
#endif
