/* io.h - files: safetensors, NumPy's npy, PNG pictures. Writing is atomic: a file is there whole or as it was. */
#ifndef RUSHLIGHT_IO_H
#define RUSHLIGHT_IO_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

RUSH_API int rush_safetensors_save(const char *path, rush_state);
/* Tensors are read when they are used: their memory is the file's, mapped, copied on writing. n is -1 on error. */
RUSH_API rush_state rush_safetensors_load(const char *path);
RUSH_API int rush_npy_save(const char *path, const rush_tensor *);
RUSH_API rush_tensor *rush_npy_load(const char *path); /* either byte order, rows or columns first */
RUSH_API int rush_npz_save(const char *path, rush_state);
RUSH_API rush_state rush_npz_load(const char *path);   /* stored or compressed; n is -1 on error */
/* uint8, (height, width) or (channels, height, width) with 1 to 4 channels: grey, grey and alpha, RGB, RGBA. */
RUSH_API int rush_png_save(const char *path, const rush_tensor *);
RUSH_API rush_tensor *rush_png_load(const char *path);

#ifdef __cplusplus
}
#endif
#endif
