/* sound.c - WAV and FLAC by libsndfile, in memory or in files. */
#include "config.h"
#include "io/picture.h"
#include "tensor/backend.h"
#include <strings.h>

#if RUSH_HAS_SNDFILE
#include <sndfile.h>

/* A file in memory, as libsndfile's callbacks see it. */
typedef struct memory {
    uint8_t *p;
    sf_count_t n, at, room;
    bool failed;
} memory;

static sf_count_t length(void *m) { return ((memory *)m)->n; }
static sf_count_t tell(void *m) { return ((memory *)m)->at; }

static sf_count_t seek(sf_count_t by, int from, void *arg)
{
    memory *m = arg;
    sf_count_t to = (from == SEEK_SET ? 0 : from == SEEK_CUR ? m->at : m->n) + by;
    return to < 0 ? -1 : (m->at = to);
}

static sf_count_t take(void *p, sf_count_t n, void *arg)
{
    memory *m = arg;
    n = RUSH_MAX(RUSH_MIN(n, m->n - m->at), 0);
    if (n) memcpy(p, m->p + m->at, (size_t)n);
    m->at += n;
    return n;
}

static sf_count_t give(const void *p, sf_count_t n, void *arg)
{
    memory *m = arg;
    if (m->at + n > m->room) {
        sf_count_t room = RUSH_MAX(m->room * 2, m->at + n);
        uint8_t *more = rush_realloc(m->p, (size_t)room);
        if (!more) return m->failed = true, 0;
        memset(more + m->room, 0, (size_t)(room - m->room));
        m->p = more;
        m->room = room;
    }
    memcpy(m->p + m->at, p, (size_t)n);
    m->at += n;
    m->n = RUSH_MAX(m->n, m->at);
    return n;
}

static SF_VIRTUAL_IO in_memory = {length, seek, take, give, tell};

rush_tensor *rush_sound_decode(const void *bytes, size_t n, int *rate)
{
    RUSH_CHECK_NULL(bytes || !n, RUSH_TYPE_ERROR, "there are no bytes to decode");
    if (rush_failed()) return NULL;
    memory m = {.p = (uint8_t *)bytes, .n = (sf_count_t)n};
    SF_INFO info = {0};
    SNDFILE *f = sf_open_virtual(&in_memory, SFM_READ, &info, &m);
    RUSH_CHECK_NULL(f, RUSH_RUNTIME_ERROR, "sound: %s", sf_strerror(NULL));
    /* Of a header that lies, only what is there is read. */
    int64_t limit = (int64_t)n * 64 / RUSH_MAX(info.channels, 1), frames = RUSH_MIN(info.frames, limit);
    rush_tensor *t = rush_tensor_new(RUSH_F32, (rush_device){RUSH_CPU, -1}, 2, (int64_t[]){frames, info.channels});
    sf_count_t got = t ? sf_readf_float(f, rush_ptr(t), frames) : 0;
    sf_close(f);
    if (!t) return NULL;
    if (got < frames) t = T("narrow", V(t), V(0), V(0), V((int64_t)RUSH_MAX(got, 0)));
    if (rate) *rate = info.samplerate;
    t = t ? T("transpose.int", V(t), V(0), V(1)) : NULL;
    return t ? rush_contiguous_copy(t) : NULL;
}

/* What libsndfile calls the format of a name ("wav") for samples of a dtype; 0 and an error. */
static int format_of(const char *name, int dtype)
{
    bool flac = !strcasecmp(name, "flac");
    if (!flac && strcasecmp(name, "wav")) return rush_fail(RUSH_VALUE_ERROR, "sound is written as wav or flac, not as '%s'", name), 0;
    switch (dtype) {
    case RUSH_I16: return flac ? SF_FORMAT_FLAC | SF_FORMAT_PCM_16 : SF_FORMAT_WAV | SF_FORMAT_PCM_16;
    case RUSH_I32: return flac ? SF_FORMAT_FLAC | SF_FORMAT_PCM_24 : SF_FORMAT_WAV | SF_FORMAT_PCM_32;
    case RUSH_F32: return flac ? SF_FORMAT_FLAC | SF_FORMAT_PCM_24 : SF_FORMAT_WAV | SF_FORMAT_FLOAT;
    case RUSH_F64: return flac ? SF_FORMAT_FLAC | SF_FORMAT_PCM_24 : SF_FORMAT_WAV | SF_FORMAT_DOUBLE;
    default: return rush_fail(RUSH_TYPE_ERROR, "sound is float32, float64, int16 or int32, not %s", rush_dtype_name((rush_dtype)dtype)), 0;
    }
}

rush_tensor *rush_sound_encode(const rush_tensor *given, int rate, const char *format)
{
    if (!rush_tensor_given(given)) return NULL;
    RUSH_CHECK_NULL(format, RUSH_TYPE_ERROR, "the format of a sound is missing (NULL)");
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(given->ndim == 1 || given->ndim == 2, RUSH_TYPE_ERROR, "sound is a tensor (channels, frames) or (frames)");
    rush_tensor *t = (rush_tensor *)rush_on_host(given); /* files are the host's */
    if (!t) return NULL;
    t = t->ndim == 1 ? T("unsqueeze", V(t), V(1)) : T("transpose.int", V(t), V(0), V(1));
    if (!t || !(t = rush_contiguous_copy(t))) return NULL;
    int kind = format_of(format, t->dtype);
    if (!kind) return NULL;
    RUSH_CHECK_NULL(t->size[1] >= 1 && t->size[1] <= 1024 && rate > 0, RUSH_VALUE_ERROR, "no sound has %lld channels at %d Hz", (long long)t->size[1], rate);
    memory m = {0};
    SF_INFO info = {.samplerate = rate, .channels = (int)t->size[1], .format = kind};
    SNDFILE *f = sf_open_virtual(&in_memory, SFM_WRITE, &info, &m);
    RUSH_CHECK_NULL(f, RUSH_RUNTIME_ERROR, "sound: %s", sf_strerror(NULL));
    sf_command(f, SFC_SET_CLIPPING, NULL, SF_TRUE);
    sf_count_t frames = t->size[0], done = t->dtype == RUSH_I16   ? sf_writef_short(f, rush_ptr(t), frames)
                                           : t->dtype == RUSH_I32 ? sf_writef_int(f, rush_ptr(t), frames)
                                           : t->dtype == RUSH_F32 ? sf_writef_float(f, rush_ptr(t), frames)
                                                                  : sf_writef_double(f, rush_ptr(t), frames);
    sf_close(f);
    if (done != frames || m.failed) rush_fail(RUSH_RUNTIME_ERROR, "sound: only %lld of %lld frames were encoded", (long long)done, (long long)frames);
    rush_tensor *result = rush_failed() ? NULL : rush_bytes_tensor(m.p, (size_t)m.n);
    rush_free(m.p);
    return result;
}

#else

rush_tensor *rush_sound_decode(const void *bytes, size_t n, int *rate)
{
    return rush_lacks("sndfile"), NULL;
}

rush_tensor *rush_sound_encode(const rush_tensor *t, int rate, const char *format)
{
    return rush_sound_decode(NULL, 0, NULL);
}

#endif

rush_tensor *rush_sound_load(const char *path, int *rate)
{
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    rush_mapping *m = rush_failed() ? NULL : rush_map(path);
    if (!m) return NULL;
    rush_tensor *t = rush_sound_decode(m->data, m->size, rate);
    rush_unmap(m);
    if (!t) rush_error_in("'%s'", path);
    return t;
}

int rush_sound_save(const char *path, const rush_tensor *t, int rate)
{
    if (!rush_tensor_given(t)) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return -1;
    const char *dot = strrchr(path, '.');
    RUSH_CHECK(dot, RUSH_VALUE_ERROR, "'%s': the name of a sound file ends with .wav or .flac", path);
    rush_scope() {
        rush_tensor *bytes = rush_sound_encode(t, rate, dot + 1);
        rush_writing w;
        if (!bytes || rush_write_begin(&w, path)) return -1;
        int failed = rush_write(&w, rush_ptr(bytes), (size_t)bytes->numel);
        return rush_write_end(&w, !failed) || failed ? -1 : 0;
    }
    return -1;
}

/* ---- operations: the rate travels as a 0-d tensor, as an operation's results are tensors ---- */

static int decode_sound_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *bytes = T_(in[0]);
    RUSH_CHECK(bytes && bytes->dtype == RUSH_U8 && bytes->ndim == 1, RUSH_TYPE_ERROR, "expected the bytes of a file as a 1-d uint8 tensor");
    if (!(bytes = rush_on_host(bytes)) || !(bytes = rush_contiguous_copy(bytes))) return -1;
    int rate = 0;
    rush_tensor *t = rush_sound_decode(rush_ptr(bytes), (size_t)bytes->numel, &rate);
    if (!t) return -1;
    out[0] = rush_v_tensor(t);
    return rush_result(out + 1, rush_tensor_of_number_typed(V(rate), RUSH_I64));
}

static int encode_sound_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, rush_sound_encode(T_(in[0]), (int)I_(in[1]), in[2].s));
}

static rush_op op_decode_sound = {
    .schema = "sound::decode(Tensor data) -> (Tensor samples, Tensor rate)",
    .doc = "The samples (channels, frames) in the bytes of a WAV or FLAC file, -1 to 1, and how many frames a second has.",
    .run = decode_sound_run, .flags = RUSH_NO_GRAD,
};
static rush_op op_encode_sound = {
    .schema = "sound::encode(Tensor samples, int rate, str format=\"wav\") -> Tensor",
    .doc = "The bytes of a WAV or FLAC file of samples (channels, frames).", .run = encode_sound_run, .flags = RUSH_NO_GRAD,
};

RUSH_FAMILY(sound, &op_decode_sound, &op_encode_sound)
