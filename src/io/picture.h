/* picture.h - what the picture formats share. */
#ifndef RUSH_IO_PICTURE_H
#define RUSH_IO_PICTURE_H

#include "io/file.h"
#include <rushlight/media.h>

/* (channels, height, width), a view of rows of pixels. oriented: turned as the camera's note says. */
rush_tensor *rush_png_decode(const void *bytes, size_t n, int mode, bool oriented);
rush_tensor *rush_jpeg_decode(const void *bytes, size_t n, int mode, bool oriented);

/* The picture as contiguous uint8 rows of pixels (height, width, channels); parked. */
rush_tensor *rush_picture_rows(const rush_tensor *, int max_channels);
/* (height, width, channels) -> (channels, height, width), turned as an EXIF orientation (1 to 8) says. */
rush_tensor *rush_picture_turned(rush_tensor *rows, int orientation);
/* The orientation in EXIF data that begins with its byte order mark; 1 when there is none. */
int rush_exif_orientation(const uint8_t *, size_t n);
/* Bytes into a new 1-d uint8 tensor. */
rush_tensor *rush_bytes_tensor(const void *, size_t n);

#endif
