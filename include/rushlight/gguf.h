/* gguf.h - llama.cpp's files: tensors, many of them in blocks of few bits, and what the file says about itself.
 *
 *     rush_state s = rush_gguf_load("model.gguf");
 *     const rush_content *layers = rush_content_get(rush_gguf_metadata("model.gguf"), "llama.block_count");
 */
#ifndef RUSHLIGHT_GGUF_H
#define RUSHLIGHT_GGUF_H

#include <rushlight/checkpoint.h>
#include <rushlight/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tensors of a dtype are the file's memory, mapped, copied on writing; blocks become the float32 that they stand for. n is -1 on error. */
RUSH_API rush_state rush_gguf_load(const char *path);
/* A dict of numbers, bools, texts, tensors of one dimension for lists of numbers, and lists; NULL on error. */
RUSH_API const rush_content *rush_gguf_metadata(const char *path);
/* What is in the file, a line for each value and tensor; lives in the scope. */
RUSH_API const char *rush_gguf_text(const char *path);
RUSH_API int64_t rush_gguf_block(const char *type); /* how many elements of such a type lie together, as rows must: 1 of a dtype; -1: there is none */
/* metadata: such a dict, or NULL. Integers are written as uint32, int32 if negative, else of 64 bits, floats as float32; a tensor without dimensions
 * is a number of its dtype. types: of each tensor NULL (as its dtype is), "F32", "F16", "BF16" or a
 * block type: "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K" to "Q6_K", "Q8_K"; or NULL for all. */
RUSH_API int rush_gguf_save(const char *path, rush_state, const rush_content *metadata, const char *const *types);

#ifdef __cplusplus
}
#endif
#endif
