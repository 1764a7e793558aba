/* picture.c - pictures of either format: files, grids, and the operations by which Python reads them.
 *
 * The operations have the names that torchvision registers (image::decode_jpeg and the like), so that package's io
 * functions find them. Decoders hand over rows of pixels; what leaves is the (channels, height, width) view of them.
 */
#include "io/picture.h"
#include "tensor/backend.h"
#include <rushlight/data.h>
#include <stdio.h>
#include <strings.h>

rush_tensor *rush_bytes_tensor(const void *p, size_t n)
{
    rush_tensor *t = rush_tensor_new(RUSH_U8, (rush_device){RUSH_CPU, -1}, 1, (int64_t[]){(int64_t)n});
    if (t && n) memcpy(rush_ptr(t), p, n);
    return t;
}

rush_tensor *rush_picture_rows(const rush_tensor *given, int max_channels)
{
    RUSH_CHECK_NULL(given && given->device.type == RUSH_CPU && given->layout == RUSH_STRIDED, RUSH_RUNTIME_ERROR, "Input tensor should be on CPU");
    RUSH_CHECK_NULL(given->dtype == RUSH_U8 || rush_dtype_is_float((rush_dtype)given->dtype), RUSH_RUNTIME_ERROR, "Input tensor dtype should be uint8");
    RUSH_CHECK_NULL(given->ndim == 2 || given->ndim == 3, RUSH_RUNTIME_ERROR, "Input data should be a 3-dimensional tensor, got %s", rush_shape_of(given));
    rush_tensor *t = (rush_tensor *)given;
    if (t->ndim == 2) t = T("unsqueeze", V(t), V(0));
    RUSH_CHECK_NULL(t && t->size[0] >= 1 && t->size[0] <= max_channels && t->numel > 0, RUSH_RUNTIME_ERROR,
                    "The number of channels should be 1 or 3, got: %s", rush_shape_of(given));
    if (t->dtype != RUSH_U8) { /* as save_image rounds */
        t = T("clamp", V(T("add.Tensor", V(T("mul.Tensor", V(t), V(255))), V(0.5))), V(0), V(255));
        t = t ? T("_to_dtype", V(t), rush_v_dtype(RUSH_U8)) : NULL;
    }
    t = t ? T("permute", V(t), INTS(1, 2, 0)) : NULL;
    return t ? rush_contiguous_copy(t) : NULL;
}

rush_tensor *rush_picture_turned(rush_tensor *rows, int orientation)
{
    /* as EXIF counts: 2 to 4 mirrored and turned over, 5 to 8 lying on a side */
    rush_tensor *t = rows ? T("permute", V(rows), INTS(2, 0, 1)) : NULL;
    if (t && orientation >= 5) t = T("transpose.int", V(t), V(1), V(2));
    if (t && (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7)) t = T("flip", V(t), INTS(2));
    if (t && (orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8)) t = T("flip", V(t), INTS(1));
    return t;
}

int rush_exif_orientation(const uint8_t *p, size_t n)
{
    if (n < 8 || (memcmp(p, "II*\0", 4) && memcmp(p, "MM\0*", 4))) return 1;
    bool little = p[0] == 'I';
#define NUMBER16(at) (uint32_t)(little ? p[at] | p[(at) + 1] << 8 : p[at] << 8 | p[(at) + 1])
#define NUMBER32(at) (little ? NUMBER16(at) | NUMBER16((at) + 2) << 16 : NUMBER16(at) << 16 | NUMBER16((at) + 2))
    size_t at = NUMBER32(4);
    if (at > n - 2) return 1;
    uint32_t count = NUMBER16(at);
    at += 2;
    for (uint32_t i = 0; i < count && n - at >= 12; i++, at += 12)
        if (NUMBER16(at) == 0x112 && NUMBER16(at + 2) == 3) {
            uint32_t turn = NUMBER16(at + 8);
            return turn >= 1 && turn <= 8 ? (int)turn : 1;
        }
#undef NUMBER16
#undef NUMBER32
    return 1;
}

static rush_tensor *decode(const void *bytes, size_t n, int mode, bool oriented)
{
    const uint8_t *p = bytes;
    if (rush_failed()) return NULL;
    if (n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) return rush_jpeg_decode(p, n, mode, oriented);
    if (n >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8)) return rush_png_decode(p, n, mode, oriented);
    if (n >= 6 && (!memcmp(p, "GIF87a", 6) || !memcmp(p, "GIF89a", 6))) return rush_fail(RUSH_NOT_IMPLEMENTED, "GIF pictures are not read: only PNG and JPEG are"), NULL;
    if (n >= 12 && !memcmp(p + 8, "WEBP", 4)) return rush_fail(RUSH_NOT_IMPLEMENTED, "WebP pictures are not read: only PNG and JPEG are"), NULL;
    return rush_fail(RUSH_RUNTIME_ERROR, "Unsupported image file. Only jpeg and png are currently supported."), NULL;
}

rush_tensor *rush_picture_decode(const void *bytes, size_t n, rush_picture_mode mode)
{
    RUSH_CHECK_NULL(bytes || !n, RUSH_TYPE_ERROR, "there are no bytes to decode");
    return decode(bytes, n, mode, false);
}

rush_tensor *rush_picture_load(const char *path, rush_picture_mode mode)
{
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    rush_mapping *m = rush_failed() ? NULL : rush_map(path);
    if (!m) return NULL;
    size_t mark = rush_scope_open();
    rush_tensor *t = decode(m->data, m->size, mode, true);
    if (!t) rush_error_in("'%s'", path);
    t = rush_keep(t ? rush_contiguous_copy(t) : NULL);
    rush_scope_close(mark);
    rush_unmap(m);
    return t ? rush_park(t) : NULL;
}

rush_tensor *rush_png_load(const char *path)
{
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    return rush_picture_load(path, RUSH_PICTURE_UNCHANGED);
}

static int write_bytes(const char *path, const rush_tensor *t)
{
    rush_writing w;
    if (!t || rush_write_begin(&w, path)) return -1;
    int failed = rush_write(&w, rush_ptr(t), (size_t)t->numel);
    return rush_write_end(&w, !failed) || failed ? -1 : 0;
}

int rush_png_save(const char *path, const rush_tensor *t)
{
    if (!rush_tensor_given(t)) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    rush_scope() return write_bytes(path, rush_png_encode(t, 6));
    return -1;
}

int rush_picture_save(const char *path, const rush_tensor *t)
{
    if (!rush_tensor_given(t)) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return -1;
    const char *dot = strrchr(path, '.');
    if (dot && !strcasecmp(dot, ".png")) return rush_png_save(path, t);
    RUSH_CHECK(dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg")), RUSH_VALUE_ERROR,
               "'%s': the name of a picture ends with .png, .jpg or .jpeg", path);
    rush_scope() return write_bytes(path, rush_jpeg_encode(t, 75));
    return -1;
}

rush_tensor *rush_picture_grid(rush_tensor *t, int columns, int padding)
{
    if (!rush_tensor_given(t)) return NULL;
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(t->ndim == 4, RUSH_TYPE_ERROR, "a grid is made of pictures (n, channels, height, width)");
    RUSH_CHECK_NULL(columns > 0 && padding >= 0, RUSH_VALUE_ERROR, "a grid of %d columns and padding %d", columns, padding);
    int64_t n = t->size[0], wide = RUSH_MIN((int64_t)columns, RUSH_MAX(n, 1)), rows = (n + wide - 1) / wide, h = t->size[2] + padding, w = t->size[3] + padding;
    rush_tensor *grid = T("zeros", INTS(t->size[1], rows * h + padding, wide * w + padding), rush_v_dtype(t->dtype));
    size_t mark = rush_scope_open();
    for (int64_t i = 0; grid && i < n; i++) {
        rush_tensor *cell = T("narrow", V(grid), V(1), V(i / wide * h + padding), V(t->size[2]));
        cell = cell ? T("narrow", V(cell), V(2), V(i % wide * w + padding), V(t->size[3])) : NULL;
        rush_tensor *one = T("select.int", V(t), V(0), V(i));
        if (!cell || !one || rush_copy_into(cell, one)) grid = NULL;
    }
    rush_scope_close(mark);
    return grid;
}

/* ---- operations ---- */

static const rush_tensor *bytes_of(rush_value v)
{
    const rush_tensor *t = T_(v);
    RUSH_CHECK_NULL(t && t->dtype == RUSH_U8 && t->ndim == 1 && t->numel > 0, RUSH_RUNTIME_ERROR, "Expected a non empty 1-dimensional uint8 tensor");
    t = rush_on_host(t); /* files are the host's */
    return t ? rush_contiguous_copy(t) : NULL;
}

static int decode_image_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = bytes_of(in[0]);
    return t ? rush_result(out, decode(rush_ptr(t), (size_t)t->numel, (int)I_(in[1]), I_(in[2]))) : -1;
}

static int decode_png_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = bytes_of(in[0]);
    return t ? rush_result(out, rush_png_decode(rush_ptr(t), (size_t)t->numel, (int)I_(in[1]), I_(in[2]))) : -1;
}

static int decode_jpeg_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = bytes_of(in[0]);
    return t ? rush_result(out, rush_jpeg_decode(rush_ptr(t), (size_t)t->numel, (int)I_(in[1]), I_(in[2]))) : -1;
}

/* Height times width as the file's head says; 0: it does not, and decoding will tell. */
static int64_t pixels_of(const uint8_t *p, size_t n)
{
    if (n >= 24 && p[0] == 0x89) return ((int64_t)p[16] << 24 | p[17] << 16 | p[18] << 8 | p[19]) * ((int64_t)p[20] << 24 | p[21] << 16 | p[22] << 8 | p[23]);
    for (size_t at = 2; at + 9 < n && p[0] == 0xff && p[at] == 0xff;) {
        if (p[at + 1] >= 0xc0 && p[at + 1] <= 0xcf && p[at + 1] != 0xc4 && p[at + 1] != 0xc8 && p[at + 1] != 0xcc) return (int64_t)(p[at + 5] << 8 | p[at + 6]) * (p[at + 7] << 8 | p[at + 8]);
        at += p[at + 1] == 0xff ? 1 : 2 + (size_t)(p[at + 2] << 8 | p[at + 3]); /* bytes that fill up stand before a marker */
    }
    return 0;
}

/* Half of what is cut away or added, as torchvision rounds it. */
static int64_t half(int64_t d) { return d < 0 ? -(-d / 2) : d / 2 + (d % 4 == 3); }

/* One file as uint8 (channels, *size): its shorter side resized, then the middle; or all of it resized. */
static rush_tensor *picture_of(const uint8_t *p, size_t n, const int64_t *size, int64_t resize, int mode)
{
    enum { MOST = 1 << 26 }; /* a small file can stand for any number of pixels */
    RUSH_CHECK_NULL(pixels_of(p, n) <= MOST, RUSH_VALUE_ERROR, "pictures: a picture of more than %d pixels", MOST);
    rush_tensor *t = decode(p, n, mode, true);
    if (t && t->dtype != RUSH_U8) t = T("_to_dtype", V(T("div.Scalar", V(T("_to_dtype", V(t), rush_v_dtype(RUSH_F32))), V(257))), rush_v_dtype(RUSH_U8));
    if (!t) return NULL;
    if (!resize) return T("vision_resize", V(t), INTS(size[0], size[1]));
    int64_t h = t->size[1], w = t->size[2], least = RUSH_MIN(h, w), high = h == least ? resize : resize * h / least, wide = w == least ? resize : resize * w / least;
    RUSH_CHECK_NULL(high <= MOST / wide, RUSH_VALUE_ERROR, "pictures: %lld x %lld pixels are too many for one whose shorter side is %lld", (long long)h, (long long)w, (long long)resize);
    t = T("vision_resize", V(t), INTS(high, wide));
    return T("vision_crop", V(t), V(half(high - size[0])), V(half(wide - size[1])), V(size[0]), V(size[1]));
}

static int pictures_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    enum { MOST = 1 << 14 };
    const rush_tensor *files = T_(in[0]);
    RUSH_CHECK(in[1].n == 1 || in[1].n == 2, RUSH_VALUE_ERROR, "pictures: a size is a number or two, not %lld", (long long)in[1].n);
    int64_t height = in[1].ints[0], width = in[1].ints[in[1].n - 1], resize = I_(in[2]), channels = I_(in[3]);
    int dtype = HAS(in[6]) ? (int)in[6].i : RUSH_F32;
    bool normal = HAS(in[4]) || HAS(in[5]);
    RUSH_CHECK(files && files->dtype == RUSH_U8 && files->ndim == 2 && files->numel, RUSH_TYPE_ERROR, "pictures: files are uint8 (n, bytes), one at least, not %s", files ? rush_shape_of(files) : "nothing");
    RUSH_CHECK(height > 0 && height <= MOST && width > 0 && width <= MOST && resize >= 0 && resize <= MOST, RUSH_VALUE_ERROR, "pictures: sizes are from 1 to %d", MOST);
    RUSH_CHECK(channels == 1 || channels == 3, RUSH_VALUE_ERROR, "pictures: 1 channel or 3, not %lld", (long long)channels);
    RUSH_CHECK(dtype == RUSH_U8 ? !normal : rush_dtype_is_float((rush_dtype)dtype), RUSH_TYPE_ERROR, "pictures: uint8 as it is, or floats");
    for (int k = 4; k < 6; k++) RUSH_CHECK(!HAS(in[k]) || in[k].n == channels || in[k].n == 1, RUSH_VALUE_ERROR, "pictures: a mean and a deviation for each of %lld channels", (long long)channels);
    files = rush_on_host(files);
    files = files ? rush_contiguous_copy(files) : NULL;
    rush_tensor **made = files ? rush_scope_alloc((size_t)files->size[0] * sizeof *made) : NULL;
    for (int64_t i = 0; made && i < files->size[0]; i++) {
        size_t n;
        const char *file = rush_text_at(files, i, &n);
        made[i] = !file ? NULL : picture_of((const uint8_t *)file, n, (int64_t[]){height, width}, resize, channels == 1 ? RUSH_PICTURE_GRAY : RUSH_PICTURE_RGB);
        if (!made[i]) return -1;
    }
    rush_tensor *x = made ? T("stack", rush_v_tensors(made, (size_t)files->size[0]), V(0)) : NULL;
    if (!x || dtype == RUSH_U8) return rush_result(out, x);
    x = T("div.Scalar", V(T("_to_dtype", V(x), rush_v_dtype(dtype))), V(255));
    static const double zero, one = 1;
    return rush_result(out, x && normal ? T("vision_normalize", V(x), HAS(in[4]) ? in[4] : rush_v_floats(&zero, 1), HAS(in[5]) ? in[5] : rush_v_floats(&one, 1)) : x);
}

static int encode_png_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, rush_png_encode(T_(in[0]), (int)I_(in[1]))); }
static int encode_jpeg_run(const rush_op *op, const rush_value *in, rush_value *out) { return rush_result(out, rush_jpeg_encode(T_(in[0]), (int)I_(in[1]))); }

static int read_file_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_mapping *m = rush_map(in[0].s);
    if (!m) return -1;
    int failed = m->size ? rush_result(out, rush_bytes_tensor(m->data, m->size)) : rush_fail(RUSH_RUNTIME_ERROR, "Expected a non empty file: '%s'", in[0].s);
    rush_unmap(m);
    return failed;
}

static int write_file_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *t = bytes_of(in[1]);
    return t && !write_bytes(in[0].s, t) ? rush_result(out, T_(in[1])) : -1;
}

static rush_op op_decode_image = {
    .schema = "image::decode_image(Tensor data, int mode=0, bool apply_exif_orientation=False) -> Tensor",
    .doc = "The picture in the bytes of a PNG or JPEG file, (channels, height, width).",
    .run = decode_image_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_decode_png = {
    .schema = "image::decode_png(Tensor data, int mode=0, bool apply_exif_orientation=False) -> Tensor",
    .doc = "The picture in the bytes of a PNG file.", .run = decode_png_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_decode_jpeg = {
    .schema = "image::decode_jpeg(Tensor data, int mode=0, bool apply_exif_orientation=False) -> Tensor",
    .doc = "The picture in the bytes of a JPEG file.", .run = decode_jpeg_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_encode_png = {
    .schema = "image::encode_png(Tensor data, int compression_level=6) -> Tensor",
    .doc = "The bytes of a PNG file of a picture.", .run = encode_png_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_encode_jpeg = {
    .schema = "image::encode_jpeg(Tensor data, int quality=75) -> Tensor",
    .doc = "The bytes of a JPEG file of a picture.", .run = encode_jpeg_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_read_file = {
    .schema = "image::read_file(str filename) -> Tensor", .doc = "The bytes of a file.", .run = read_file_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_write_file = {
    .schema = "image::write_file(str filename, Tensor data) -> Tensor", .doc = "Writes bytes to a file.",
    .run = write_file_run, .flags = RUSH_NO_GRAD | RUSH_SIDE_EFFECT,
};
static rush_op op_pictures = {
    .schema = "rushlight::pictures(Tensor files, int[2] size, int resize=0, int channels=3, float[]? mean=None, float[]? std=None, ScalarType? dtype=None) -> Tensor",
    .doc = "The PNG and JPEG files (n, bytes), zeros behind each, as (n, channels, height, width): the shorter side resized and the middle cut out, or, without resize, all of it resized; "
           "floats from 0 to 1, then normalised, or uint8.",
    .run = pictures_run, .flags = RUSH_NO_GRAD | RUSH_WHOLE | RUSH_TAKES_TEXT,
};

/* torchvision's forms for lists on a GPU: the host does it, between two copies. */
static rush_tensor *moved(rush_tensor *t, rush_device d) { return t ? T("_to_copy", V(t), RUSH_NONE, RUSH_NONE, ((rush_value){.kind = RUSH_V_DEVICE, .device = d})) : NULL; }

static int jpegs_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const bool decodes = op->nargs == 3;
    rush_tensor **list = rush_out_list(out, 0, in[0].n);
    if (!list) return -1;
    for (uint32_t i = 0; i < in[0].n; ++i) {
        rush_tensor *from = moved(in[0].tensors[i], (rush_device){RUSH_CPU, -1});
        if (!from) return -1;
        list[i] = moved(decodes ? T("image::decode_jpeg", V(from), in[1]) : T("image::encode_jpeg", V(from), in[1]), decodes ? in[2].device : in[0].tensors[i]->device);
        if (!list[i]) return -1;
    }
    return 0;
}

static rush_op op_encode_jpegs = {
    .schema = "image::encode_jpegs_cuda(Tensor[] images, int quality) -> Tensor[]", .doc = "encode_jpeg() of each, where it lies.", .run = jpegs_run, .flags = RUSH_NO_GRAD};
static rush_op op_decode_jpegs = {
    .schema = "image::decode_jpegs_cuda(Tensor[] encoded, int mode, Device device) -> Tensor[]", .doc = "decode_jpeg() of each, to a device.", .run = jpegs_run, .flags = RUSH_NO_GRAD};

RUSH_FAMILY(picture, &op_encode_jpegs, &op_decode_jpegs, &op_pictures, &op_decode_image, &op_decode_png, &op_decode_jpeg, &op_encode_png, &op_encode_jpeg, &op_read_file, &op_write_file)
