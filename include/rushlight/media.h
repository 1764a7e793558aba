/* media.h - pictures and sound: PNG, JPEG, WAV, FLAC to tensors and back.
 *
 * Each format is a library that the build may lack; then its functions fail with a message that names it.
 */
#ifndef RUSHLIGHT_MEDIA_H
#define RUSHLIGHT_MEDIA_H

#include <rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a picture is converted to while it is read. */
typedef enum rush_picture_mode {
    RUSH_PICTURE_UNCHANGED, RUSH_PICTURE_GRAY, RUSH_PICTURE_GRAY_ALPHA, RUSH_PICTURE_RGB, RUSH_PICTURE_RGB_ALPHA
} rush_picture_mode;

/* uint8 (channels, height, width), uint16 of 16-bit PNGs. PNG or JPEG is told by the first bytes. */
RUSH_API rush_tensor *rush_picture_load(const char *path, rush_picture_mode);
RUSH_API rush_tensor *rush_picture_decode(const void *bytes, size_t n, rush_picture_mode);
/* (channels, height, width) or (height, width): uint8, or floats from 0 to 1. The name's end decides: .png, .jpg, .jpeg. */
RUSH_API int rush_picture_save(const char *path, const rush_tensor *);
/* The bytes of a file, as a uint8 tensor. Compression is 0 to 9, quality 1 to 100. */
RUSH_API rush_tensor *rush_png_encode(const rush_tensor *, int compression);
RUSH_API rush_tensor *rush_jpeg_encode(const rush_tensor *, int quality);
/* Pictures of one size (n, channels, height, width) as one, `columns` beside each other with `padding` between. */
RUSH_API rush_tensor *rush_picture_grid(rush_tensor *, int columns, int padding);

/* float32 (channels, frames) from -1 to 1; *rate becomes the frames per second. */
RUSH_API rush_tensor *rush_sound_load(const char *path, int *rate);
RUSH_API rush_tensor *rush_sound_decode(const void *bytes, size_t n, int *rate);
/* (channels, frames) or (frames): floats, or int16 and int32 as they are. The name's end decides: .wav, .flac. */
RUSH_API int rush_sound_save(const char *path, const rush_tensor *, int rate);
RUSH_API rush_tensor *rush_sound_encode(const rush_tensor *, int rate, const char *format); /* "wav", "flac" */

#ifdef __cplusplus
}
#endif
#endif
