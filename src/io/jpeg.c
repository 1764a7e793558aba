/* jpeg.c - JPEG pictures by libjpeg-turbo. Errors of the library come back by longjmp to the function that called it. */
#include "config.h"
#include "io/picture.h"

#if RUSH_HAS_JPEG
#include <setjmp.h>
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>

typedef struct trouble {
    struct jpeg_error_mgr base;
    jmp_buf back;
} trouble;

static void on_error(j_common_ptr jpeg)
{
    char message[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, message);
    rush_fail(RUSH_RUNTIME_ERROR, "JPEG: %s", message);
    longjmp(((trouble *)jpeg->err)->back, 1);
}

static void on_message(j_common_ptr jpeg) {}

/* Warnings: what can be read in spite of them is read, except that a picture cut short is an error. */
static void on_note(j_common_ptr jpeg, int level)
{
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) on_error(jpeg);
}

/* A pass over the whole picture can take a few bytes: what asks for more passes than any encoder makes is not read. */
static void on_progress(j_common_ptr jpeg)
{
    enum { MAX_SCANS = 100 };
    if (!jpeg->is_decompressor || ((j_decompress_ptr)jpeg)->input_scan_number <= MAX_SCANS) return;
    rush_fail(RUSH_RUNTIME_ERROR, "JPEG: more than %d scans", MAX_SCANS);
    longjmp(((trouble *)jpeg->err)->back, 1);
}

/* Huffman coding takes at least a bit for the 64 pixels of a block, arithmetic coding less for blank pictures, so that sizes
 * which lie cost no memory. */
static void check_size(struct jpeg_decompress_struct *jpeg, size_t n)
{
    int64_t pixels = (int64_t)jpeg->image_width * jpeg->image_height;
    if (pixels / 1024 <= (int64_t)n + 4096) return;
    rush_fail(RUSH_RUNTIME_ERROR, "JPEG: %zu bytes are no picture of %u by %u", n, jpeg->image_width, jpeg->image_height);
    longjmp(((trouble *)jpeg->err)->back, 1);
}

static void errors_begin(trouble *e)
{
    jpeg_std_error(&e->base);
    e->base.error_exit = on_error;
    e->base.output_message = on_message;
    e->base.emit_message = on_note;
}

static int orientation_of(const struct jpeg_decompress_struct *jpeg)
{
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && !memcmp(m->data, "Exif\0", 6)) return rush_exif_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

/* Printers' colours, stored inverted as Adobe does, to RGB, or to grey when there is one channel. */
static void from_cmyk(const uint8_t *in, uint8_t *out, int64_t wide, int channels)
{
    for (int64_t i = 0; i < wide; i++, in += 4, out += channels) {
        int k = in[3], rgb[3];
        for (int c = 0; c < 3; c++) rgb[c] = (in[c] * k + 127) / 255;
        if (channels == 1) out[0] = (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 32768) >> 16);
        else for (int c = 0; c < 3; c++) out[c] = (uint8_t)rgb[c];
    }
}

static void read_rows(struct jpeg_decompress_struct *jpeg, rush_tensor *t, uint8_t *line)
{
    int64_t stride = t->size[1] * t->size[2];
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = (uint8_t *)rush_ptr(t) + jpeg->output_scanline * stride;
        JSAMPROW row = line ? line : to;
        if (jpeg_read_scanlines(jpeg, &row, 1) != 1) break;
        if (line) from_cmyk(line, to, t->size[1], (int)t->size[2]);
    }
}

rush_tensor *rush_jpeg_decode(const void *bytes, size_t n, int mode, bool oriented)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(mode == RUSH_PICTURE_UNCHANGED || mode == RUSH_PICTURE_GRAY || mode == RUSH_PICTURE_RGB, RUSH_RUNTIME_ERROR,
                    "The provided mode is not supported for JPEG files");
    struct jpeg_decompress_struct jpeg;
    trouble e;
    struct jpeg_progress_mgr progress = {.progress_monitor = on_progress};
    rush_tensor *volatile t = NULL;
    uint8_t *volatile line = NULL;
    volatile int turn = 1;
    errors_begin(&e);
    jpeg.err = &e.base;
    if (!setjmp(e.back)) {
        jpeg_create_decompress(&jpeg);
        jpeg_mem_src(&jpeg, bytes, (unsigned long)n);
        if (oriented) jpeg_save_markers(&jpeg, JPEG_APP0 + 1, 0xffff);
        jpeg_read_header(&jpeg, TRUE);
        check_size(&jpeg, n);
        jpeg.progress = &progress;
        if (oriented) turn = orientation_of(&jpeg);
        bool cmyk = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
        int channels = mode == RUSH_PICTURE_UNCHANGED ? jpeg.num_components : mode == RUSH_PICTURE_GRAY ? 1 : 3;
        bool converted = cmyk && channels != 4;
        jpeg.out_color_space = cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        jpeg_start_decompress(&jpeg);
        int64_t size[3] = {jpeg.output_height, jpeg.output_width, channels};
        t = rush_tensor_new(RUSH_U8, (rush_device){RUSH_CPU, -1}, 3, size);
        if (converted) line = rush_malloc((size_t)size[1] * 4);
        if (t && (line || !converted)) {
            read_rows(&jpeg, t, line);
            jpeg_finish_decompress(&jpeg);
        }
    }
    jpeg_destroy_decompress(&jpeg);
    rush_free(line);
    return rush_failed() ? NULL : rush_picture_turned(t, turn);
}

rush_tensor *rush_jpeg_encode(const rush_tensor *picture, int quality)
{
    if (!rush_tensor_given(picture)) return NULL;
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(quality >= 1 && quality <= 100, RUSH_RUNTIME_ERROR, "Image quality should be a positive number between 1 and 100");
    rush_tensor *t = rush_picture_rows(picture, 3);
    if (!t) return NULL;
    RUSH_CHECK_NULL(t->size[2] != 2, RUSH_RUNTIME_ERROR, "The number of channels should be 1 or 3, got: 2");
    struct jpeg_compress_struct jpeg;
    trouble e;
    unsigned char *out = NULL;
    unsigned long n = 0;
    errors_begin(&e);
    jpeg.err = &e.base;
    if (!setjmp(e.back)) {
        jpeg_create_compress(&jpeg);
        jpeg_mem_dest(&jpeg, &out, &n);
        jpeg.image_height = (JDIMENSION)t->size[0];
        jpeg.image_width = (JDIMENSION)t->size[1];
        jpeg.input_components = (int)t->size[2];
        jpeg.in_color_space = t->size[2] == 1 ? JCS_GRAYSCALE : JCS_RGB;
        jpeg_set_defaults(&jpeg);
        jpeg_set_quality(&jpeg, quality, TRUE);
        jpeg_start_compress(&jpeg, TRUE);
        while (jpeg.next_scanline < jpeg.image_height) {
            JSAMPROW row = (uint8_t *)rush_ptr(t) + jpeg.next_scanline * t->size[1] * t->size[2];
            jpeg_write_scanlines(&jpeg, &row, 1);
        }
        jpeg_finish_compress(&jpeg);
    }
    jpeg_destroy_compress(&jpeg);
    rush_tensor *result = rush_failed() ? NULL : rush_bytes_tensor(out, n);
    free(out);
    return result;
}

#else

rush_tensor *rush_jpeg_decode(const void *bytes, size_t n, int mode, bool oriented)
{
    return rush_lacks("JPEG"), NULL;
}

rush_tensor *rush_jpeg_encode(const rush_tensor *picture, int quality)
{
    return rush_jpeg_decode(NULL, 0, 0, false);
}

#endif
