/* data.h - feeding data: datasets, a loader with threads, tokenisers.
 *
 *     rush_dataset *digits = rush_dataset_tensors(2, (rush_tensor *[]){images, labels});
 *     rush_loader *loader = rush_loader_new(digits, .batch = 64, .shuffle = true, .threads = 2);
 *     for (rush_tensor *batch[2]; rush_loader_next(loader, batch) > 0;)
 *         rush_scope() { train(batch[0], batch[1]); }
 *
 * For the same seed the batches are those of PyTorch's DataLoader, with any number of threads.
 */
#ifndef RUSHLIGHT_DATA_H
#define RUSHLIGHT_DATA_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- datasets: numbered samples, each of some tensors ---- */

typedef struct rush_dataset rush_dataset;

typedef struct rush_dataset_kind {
    const char *name;
    /* Fills sample[0..columns) with tensors parked in the scope; called from several threads at once. 0 or -1. */
    int (*read)(void *arg, int64_t index, rush_tensor **sample);
    /* The batch at once, or NULL: then samples are read one by one and stacked. */
    int (*read_batch)(void *arg, int64_t n, const int64_t *index, rush_tensor **batch);
    void (*end)(void *arg);
} rush_dataset_kind;

/* A dataset is counted like a tensor, but not parked: rush_dataset_drop() gives up the caller's reference. */
RUSH_API rush_dataset *rush_dataset_new(const rush_dataset_kind *, void *arg, int64_t size, int columns);
RUSH_API rush_dataset *rush_dataset_keep(rush_dataset *);
RUSH_API void rush_dataset_drop(rush_dataset *);
RUSH_API int64_t rush_dataset_size(const rush_dataset *);
RUSH_API int rush_dataset_columns(const rush_dataset *);
RUSH_API int rush_dataset_read(rush_dataset *, int64_t index, rush_tensor **sample);

/* Slices of tensors along their first dimension. */
RUSH_API rush_dataset *rush_dataset_tensors(int n, rush_tensor *const *);
/* The same of npy files, which are mapped, not read: they may be larger than the memory. */
RUSH_API rush_dataset *rush_dataset_npy(int n, const char *const *paths);

typedef struct rush_image_options {
    int mode RUSH_ZERO;              /* a rush_picture_mode; 0: RGB                                  */
    int64_t height RUSH_ZERO, width RUSH_ZERO; /* every picture is resized to this; 0: they all have one size  */
    bool bytes RUSH_ZERO;            /* uint8 as decoded, instead of floats from 0 to 1              */
} rush_image_options;
/* A folder with a folder of PNG and JPEG pictures for each class: (picture, int64 class). Classes are in the order
 * of their names, as are the pictures of each. */
RUSH_API rush_dataset *rush_dataset_images_with(const char *folder, const rush_image_options *);
#ifndef __cplusplus
#define rush_dataset_images(folder, ...) rush_dataset_images_with(folder, &(rush_image_options){__VA_ARGS__})
#endif
RUSH_API int rush_dataset_classes(const rush_dataset *);                  /* 0 for other kinds of datasets */
RUSH_API const char *rush_dataset_class_name(const rush_dataset *, int k);

/* ---- the loader ---- */

typedef struct rush_loader rush_loader;

typedef struct rush_loader_options {
    int64_t batch RUSH_ZERO;         /* 0: 1                                                          */
    bool shuffle RUSH_ZERO, drop_last RUSH_ZERO;
    int threads RUSH_ZERO;           /* that read ahead; 0: the caller reads                          */
    int prefetch RUSH_ZERO;          /* batches in work for each thread; 0: 2                         */
    rush_generator *generator RUSH_ZERO; /* NULL: the default one                                     */
    int shares RUSH_ZERO, share RUSH_ZERO;     /* for several processes: this one gets each shares-th sample    */
    /* Changes a batch before it is handed out, in the thread that read it; NULL: as it is. */
    int (*transform)(void *arg, int columns, rush_tensor **batch) RUSH_ZERO;
    void *transform_arg RUSH_ZERO;
} rush_loader_options;

/* Keeps the dataset. Threads begin with the first batch. */
RUSH_API rush_loader *rush_loader_new_with(rush_dataset *, const rush_loader_options *);
#ifndef __cplusplus
#define rush_loader_new(dataset, ...) rush_loader_new_with(dataset, &(rush_loader_options){__VA_ARGS__})
#endif
/* The next batch, parked in the scope of the call: 1; at the end of the epoch 0, and the next call begins another;
 * -1 and an error that names the sample. */
RUSH_API int rush_loader_next(rush_loader *, rush_tensor **batch);
RUSH_API int64_t rush_loader_batches(const rush_loader *); /* of an epoch */
RUSH_API void rush_loader_free(rush_loader *);

/* ---- files and texts as tensors ---- */

/* uint8 (n, longest): their bytes, zeros behind each. length NULL: each ends with a zero. */
RUSH_API rush_tensor *rush_texts(size_t n, const char *const *text, const size_t *length);
/* The i-th text of a contiguous tensor of uint8 whose last dimension is their bytes; without a zero at its end if it is the longest. length may be NULL. */
RUSH_API const char *rush_text_at(const rush_tensor *, int64_t i, size_t *length);

/* ---- text to numbers ---- */

typedef struct rush_tokenizer rush_tokenizer;

/* One number for each different character of a UTF-8 text, in the order of their code points. */
RUSH_API rush_tokenizer *rush_tokenizer_characters(const char *text, size_t n);
/* Byte pairs: the 256 bytes, then the most frequent pairs of what there is, until there are `size` tokens. Words,
 * with the space before them, numbers and signs are never merged with each other. */
RUSH_API rush_tokenizer *rush_tokenizer_learn(const char *text, size_t n, int64_t size);
/* GPT-2's merges.txt, and vocab.json for the numbers (NULL: 256 bytes in GPT-2's order, then the merges'); or Hugging Face's tokenizer.json of byte pairs, alone. */
RUSH_API rush_tokenizer *rush_tokenizer_load(const char *merges, const char *vocabulary);
RUSH_API int rush_tokenizer_save(const rush_tokenizer *, const char *merges); /* of byte pairs */
RUSH_API void rush_tokenizer_free(rush_tokenizer *);
RUSH_API int64_t rush_tokenizer_size(const rush_tokenizer *);
RUSH_API rush_tensor *rush_tokenizer_encode(const rush_tokenizer *, const char *text, size_t n); /* 1-d int64 */
/* The text of 1-d integers; at most size bytes go into buf, with a zero at the end; returns the whole length, -1 on error. */
RUSH_API int64_t rush_tokenizer_decode(const rush_tokenizer *, const rush_tensor *, char *buf, size_t size);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
inline rush_dataset *rush_dataset_images(const char *folder, const rush_image_options &options = {}) { return rush_dataset_images_with(folder, &options); }
inline rush_loader *rush_loader_new(rush_dataset *dataset, const rush_loader_options &options = {}) { return rush_loader_new_with(dataset, &options); }
#endif
#endif
