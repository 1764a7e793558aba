/* png.c - pictures by libpng: uint8 tensors (height, width) or (channels, height, width). */
#include "config.h"
#include "io/file.h"

#if RUSH_HAS_PNG
#include <png.h>

static const png_uint_32 formats[] = {0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};

int rush_png_save(const char *path, const rush_tensor *given)
{
    if (rush_failed()) return -1;
    RUSH_CHECK(given && given->dtype == RUSH_U8 && (given->ndim == 2 || given->ndim == 3), RUSH_TYPE_ERROR,
               "a picture is a uint8 tensor (height, width) or (channels, height, width)");
    int64_t channels = given->ndim == 3 ? given->size[0] : 1, high = given->size[given->ndim - 2], wide = given->size[given->ndim - 1];
    RUSH_CHECK(channels >= 1 && channels <= 4 && high > 0 && wide > 0, RUSH_VALUE_ERROR, "no picture has size %s", rush_shape_of(given));
    size_t mark = rush_scope_open();
    rush_tensor *last = given->ndim == 3 ? T("permute", V((rush_tensor *)given), INTS(1, 2, 0)) : (rush_tensor *)given;
    const rush_tensor *t = last ? rush_as_in_files(last) : NULL;
    png_image image = {.version = PNG_IMAGE_VERSION, .width = (png_uint_32)wide, .height = (png_uint_32)high, .format = formats[channels]};
    rush_writing w;
    int failed = !t || rush_write_begin(&w, path);
    if (!failed) {
        if (!png_image_write_to_stdio(&image, w.f, 0, rush_ptr(t), 0, NULL)) failed = rush_fail(RUSH_IO_ERROR, "can't write '%s': %s", path, image.message);
        failed = rush_write_end(&w, !failed) || failed;
    }
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

rush_tensor *rush_png_load(const char *path)
{
    if (rush_failed()) return NULL;
    png_image image = {.version = PNG_IMAGE_VERSION};
    RUSH_CHECK_NULL(png_image_begin_read_from_file(&image, path), RUSH_IO_ERROR, "can't read '%s': %s", path, image.message);
    bool colour = image.format & PNG_FORMAT_FLAG_COLOR, alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
    int64_t channels = (colour ? 3 : 1) + alpha, size[3] = {image.height, image.width, channels};
    image.format = formats[channels];
    rush_tensor *t = rush_tensor_new(RUSH_U8, (rush_device){RUSH_CPU, -1}, 3, size);
    if (!t || !png_image_finish_read(&image, NULL, rush_ptr(t), 0, NULL)) {
        rush_fail(RUSH_IO_ERROR, "can't read '%s': %s", path, image.message);
        png_image_free(&image);
        return NULL;
    }
    rush_tensor *first = T("permute", V(t), INTS(2, 0, 1));
    return first ? rush_contiguous_copy(first) : NULL;
}

#else

int rush_png_save(const char *path, const rush_tensor *t)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "'%s': this build has no libpng", path);
}

rush_tensor *rush_png_load(const char *path)
{
    return rush_fail(RUSH_NOT_IMPLEMENTED, "'%s': this build has no libpng", path), NULL;
}

#endif
