/* png.c - PNG pictures by libpng. Errors of the library come back by longjmp to the function that called it. */
#include "config.h"
#include "io/picture.h"

#if RUSH_HAS_PNG
#include <png.h>
#include <setjmp.h>

typedef struct source {
    const uint8_t *p;
    size_t left;
} source;

typedef struct sink {
    uint8_t *p;
    size_t n, room;
} sink;

static void take(png_structp png, png_bytep out, size_t n)
{
    source *s = png_get_io_ptr(png);
    if (n > s->left) png_error(png, "the data ends too early");
    memcpy(out, s->p, n);
    s->p += n;
    s->left -= n;
}

static void give(png_structp png, png_bytep p, size_t n)
{
    sink *s = png_get_io_ptr(png);
    if (s->room - s->n < n) {
        size_t room = RUSH_MAX(s->room * 2, s->n + n);
        uint8_t *more = rush_realloc(s->p, room);
        if (!more) png_error(png, "out of memory");
        s->p = more;
        s->room = room;
    }
    memcpy(s->p + s->n, p, n);
    s->n += n;
}

static void flush(png_structp png) {}

static void on_error(png_structp png, png_const_charp message)
{
    rush_fail(RUSH_RUNTIME_ERROR, "PNG: %s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp message) {} /* what can be read in spite of it is read */

static int orientation_of(png_structp png, png_infop info)
{
#ifdef PNG_eXIf_SUPPORTED
    png_bytep exif;
    png_uint_32 n;
    if (png_get_eXIf_1(png, info, &n, &exif)) return rush_exif_orientation(exif, n);
#endif
    return 1;
}

/* Asks libpng for the channels of a mode; returns how many there are after that. */
static int convert(png_structp png, png_infop info, int mode)
{
    int colour = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    bool clear = png_get_valid(png, info, PNG_INFO_tRNS), has_colour = colour & PNG_COLOR_MASK_COLOR;
    bool alpha = colour & PNG_COLOR_MASK_ALPHA || clear;
    if (colour == PNG_COLOR_TYPE_PALETTE && mode == RUSH_PICTURE_UNCHANGED) { /* the indices, which masks are made of */
        png_set_packing(png);
        return 1;
    }
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (colour == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
    if (clear) png_set_tRNS_to_alpha(png);
    if (depth == 16) png_set_swap(png); /* numbers in files are big-endian */
    bool want_colour = mode == RUSH_PICTURE_UNCHANGED ? has_colour : mode >= RUSH_PICTURE_RGB;
    bool want_alpha = mode == RUSH_PICTURE_UNCHANGED ? alpha : mode == RUSH_PICTURE_GRAY_ALPHA || mode == RUSH_PICTURE_RGB_ALPHA;
    if (want_colour && !has_colour) png_set_gray_to_rgb(png);
    if (!want_colour && has_colour) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.2989, 0.587);
    if (want_alpha && !alpha) png_set_add_alpha(png, depth == 16 ? 65535 : 255, PNG_FILLER_AFTER);
    if (!want_alpha && alpha) png_set_strip_alpha(png);
    return (want_colour ? 3 : 1) + want_alpha;
}

rush_tensor *rush_png_decode(const void *bytes, size_t n, int mode, bool oriented)
{
    if (rush_failed()) return NULL;
    source s = {bytes, n};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    rush_tensor *volatile t = NULL;
    png_bytep *volatile row = NULL;
    volatile int turn = 1;
    if (!info) {
        rush_fail(RUSH_MEMORY_ERROR, "PNG: no memory to begin with");
    } else if (!setjmp(png_jmpbuf(png))) {
        png_set_read_fn(png, &s, take);
        png_read_info(png, info);
        /* Data compresses to a thousandth at best: what claims more is not read, so sizes that lie cost no memory. */
        if (png_get_rowbytes(png, info) * png_get_image_height(png, info) / 1100 > n) png_error(png, "the data ends too early");
        int channels = convert(png, info, mode);
        rush_dtype d = png_get_bit_depth(png, info) == 16 ? RUSH_U16 : RUSH_U8;
        int64_t size[3] = {png_get_image_height(png, info), png_get_image_width(png, info), channels};
        png_set_interlace_handling(png);
        png_read_update_info(png, info);
        size_t stride = (size_t)size[1] * (size_t)channels * rush_dtypes[d].size;
        if (png_get_rowbytes(png, info) != stride) png_error(png, "rows are of an unexpected length");
        t = rush_tensor_new(d, (rush_device){RUSH_CPU, -1}, 3, size);
        row = t ? rush_malloc((size_t)size[0] * sizeof *row) : NULL;
        if (row) {
            for (int64_t i = 0; i < size[0]; i++) row[i] = (png_bytep)rush_ptr(t) + stride * (size_t)i;
            png_read_image(png, row);
            png_read_end(png, info);
            if (oriented) turn = orientation_of(png, info);
        }
    }
    png_destroy_read_struct(&png, &info, NULL);
    rush_free(row);
    return rush_failed() ? NULL : rush_picture_turned(t, turn);
}

rush_tensor *rush_png_encode(const rush_tensor *picture, int compression)
{
    if (!rush_tensor_given(picture)) return NULL;
    static const int kinds[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(compression >= 0 && compression <= 9, RUSH_RUNTIME_ERROR, "Compression level should be between 0 and 9");
    rush_tensor *t = rush_picture_rows(picture, 4);
    if (!t) return NULL;
    sink out = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        rush_fail(RUSH_MEMORY_ERROR, "PNG: no memory to begin with");
    } else if (!setjmp(png_jmpbuf(png))) {
        png_set_write_fn(png, &out, give, flush);
        png_set_compression_level(png, compression);
        png_set_IHDR(png, info, (png_uint_32)t->size[1], (png_uint_32)t->size[0], 8, kinds[t->size[2]], PNG_INTERLACE_NONE,
                     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
        png_write_info(png, info);
        for (int64_t i = 0; i < t->size[0]; i++) png_write_row(png, (png_bytep)rush_ptr(t) + i * t->size[1] * t->size[2]);
        png_write_end(png, info);
    }
    png_destroy_write_struct(&png, &info);
    rush_tensor *result = rush_failed() ? NULL : rush_bytes_tensor(out.p, out.n);
    rush_free(out.p);
    return result;
}

#else

rush_tensor *rush_png_decode(const void *bytes, size_t n, int mode, bool oriented)
{
    return rush_lacks("PNG"), NULL;
}

rush_tensor *rush_png_encode(const rush_tensor *picture, int compression)
{
    return rush_png_decode(NULL, 0, 0, false);
}

#endif
