/* sound.c - what a network hears: spectrograms, mel bands, cepstral coefficients, as torchaudio defines them. */
#include "op/op.h"
#include <math.h>

static rush_tensor *as_float(rush_tensor *t)
{
    return t && !rush_dtype_is_float((rush_dtype)t->dtype) ? T("_to_dtype", V(t), rush_v_dtype(RUSH_F32)) : t;
}

/* ---- mel bands ---- */

static double mel_of(double hz, bool slaney)
{
    if (!slaney) return 2595 * log10(1 + hz / 700);
    return hz < 1000 ? hz * 3 / 200 : 15 + log(hz / 1000) * 27 / log(6.4);
}

static double hz_of(double mel, bool slaney)
{
    if (!slaney) return 700 * (pow(10, mel / 2595) - 1);
    return mel < 15 ? mel * 200 / 3 : 1000 * exp(log(6.4) / 27 * (mel - 15));
}

static int filters_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t bins = I_(in[0]), bands = I_(in[3]), rate = I_(in[4]);
    double low = D_(in[1]), high = D_(in[2]);
    const char *norm = HAS(in[5]) ? in[5].s : "", *scale = in[6].s;
    bool slaney = !strcmp(scale, "slaney");
    RUSH_CHECK(slaney || !strcmp(scale, "htk"), RUSH_VALUE_ERROR, "mel_scale should be one of \"htk\" or \"slaney\".");
    RUSH_CHECK(!*norm || !strcmp(norm, "slaney"), RUSH_VALUE_ERROR, "norm must be one of None or \"slaney\"");
    RUSH_CHECK(bins > 0 && bands > 0 && rate > 0 && low <= high, RUSH_VALUE_ERROR, "no mel bands: %lld bins, %lld bands, %g to %g Hz", (long long)bins,
               (long long)bands, low, high);
    return rush_out(out, 0, RUSH_F32, (rush_device){RUSH_CPU, -1}, 2, (int64_t[]){bins, bands}) ? 0 : -1;
}

static void filters_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t bins = I_(in[0]), bands = I_(in[3]), rate = I_(in[4]);
    double low = D_(in[1]), high = D_(in[2]);
    const char *norm = HAS(in[5]) ? in[5].s : "";
    bool slaney = !strcmp(in[6].s, "slaney");
    float *w = rush_ptr(out[0].t);
    double from = mel_of(low, slaney), to = mel_of(high, slaney), step = (to - from) / (double)(bands + 1);
    for (int64_t b = 0; b < bands; b++) {
        double left = hz_of(from + step * (double)b, slaney), middle = hz_of(from + step * (double)(b + 1), slaney), right = hz_of(from + step * (double)(b + 2), slaney);
        double area = *norm ? 2 / (right - left) : 1;
        for (int64_t k = 0; k < bins; k++) {
            double hz = bins > 1 ? (double)(rate / 2) * (double)k / (double)(bins - 1) : 0;
            double up = (hz - left) / (middle - left), down = (right - hz) / (right - middle), v = fmin(up, down);
            w[k * bands + b] = (float)(v > 0 ? v * area : 0);
        }
    }
}

static rush_op op_filters = {
    .schema = "audio_mel_filters(int n_freqs, float f_min, float f_max, int n_mels, int sample_rate, str? norm=None, str mel_scale='htk') -> Tensor",
    .doc = "Triangles that sum n_freqs bins of a spectrogram up to n_mels bands: (n_freqs, n_mels).", .shape = filters_shape, .cpu = filters_cpu,
};

/* ---- spectrograms ---- */

static rush_tensor *spectrogram(rush_tensor *sound, int64_t n_fft, int64_t hop, int64_t window, double power, bool center)
{
    RUSH_CHECK_NULL(sound && sound->ndim >= 1, RUSH_TYPE_ERROR, "sound is a tensor (..., frames)");
    RUSH_CHECK_NULL(n_fft > 0 && hop > 0 && window > 0 && window <= n_fft, RUSH_VALUE_ERROR, "no spectrogram: n_fft %lld, hop %lld, window %lld", (long long)n_fft,
                    (long long)hop, (long long)window);
    sound = as_float(sound);
    if (!sound) return NULL;
    int64_t size[RUSH_MAXDIM];
    int lead = sound->ndim - 1;
    memcpy(size, sound->size, (size_t)lead * sizeof *size);
    rush_tensor *flat = T("reshape", V(sound), INTS(-1, sound->size[lead]));
    rush_tensor *hann = T("hann_window", V(window), rush_v_dtype(sound->dtype));
    rush_tensor *f = !flat || !hann ? NULL : T("stft.center", V(flat), V(n_fft), V(hop), V(window), V(hann), V(center), rush_v_string("reflect"), V(false), V(true), V(true));
    if (!f) return NULL;
    size[lead] = f->size[1];
    size[lead + 1] = f->size[2];
    f = T("reshape", V(f), rush_v_ints(size, (size_t)lead + 2));
    if (!f || power == 0) return f;
    f = T("abs", V(f));
    return f && power != 1 ? T("pow.Tensor_Scalar", V(f), V(power)) : f;
}

#define SPECTRUM "Tensor waveform, int sample_rate=16000, int n_fft=400, int? win_length=None, int? hop_length=None, float f_min=0.0, float? f_max=None"

static int64_t or_int(rush_value v, int64_t otherwise) { return HAS(v) ? I_(v) : otherwise; }

static int spectrogram_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n = I_(in[1]), window = or_int(in[2], n);
    return rush_result(out, spectrogram(T_(in[0]), n, or_int(in[3], window / 2), window, D_(in[4]), I_(in[5])));
}

static rush_op op_spectrogram = {
    .schema = "audio_spectrogram(Tensor waveform, int n_fft=400, int? win_length=None, int? hop_length=None, float power=2.0, bool center=True) -> Tensor",
    .doc = "|stft|^power under a Hann window, (..., bins, frames); power 0 gives the complex numbers.", .run = spectrogram_run,
};

/* in: the arguments of SPECTRUM, then the bands', norm's and scale's values */
static rush_tensor *mel_spectrogram(const rush_value *in, int64_t bands, double power, rush_value norm, rush_value scale)
{
    int64_t rate = I_(in[1]), n = I_(in[2]), window = or_int(in[3], n);
    rush_tensor *s = spectrogram(T_(in[0]), n, or_int(in[4], window / 2), window, power, true);
    rush_tensor *fb = !s ? NULL : T("audio_mel_filters", V(n / 2 + 1), in[5], HAS(in[6]) ? in[6] : V((double)(rate / 2)), V(bands), V(rate), norm, scale);
    if (!fb) return NULL;
    if (s->dtype != RUSH_F32) fb = T("_to_dtype", V(fb), rush_v_dtype(s->dtype));
    rush_tensor *m = fb ? T("matmul", V(T("transpose.int", V(s), V(-1), V(-2))), V(fb)) : NULL;
    return m ? T("transpose.int", V(m), V(-1), V(-2)) : NULL;
}

static int mel_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    return rush_result(out, mel_spectrogram(in, I_(in[7]), D_(in[8]), in[9], in[10]));
}

static rush_op op_mel = {
    .schema = "audio_mel_spectrogram(" SPECTRUM ", int n_mels=128, float power=2.0, str? norm=None, str mel_scale='htk') -> Tensor",
    .doc = "A spectrogram's bins summed up to bands of equal height to the ear, (..., n_mels, frames).", .run = mel_run,
};

/* 10 log10(max(x, amin)), at most top_db below the largest of each (channel, band, frame) block */
static rush_tensor *decibels(rush_tensor *x, double multiplier, double amin, double reference, bool has_top, double top)
{
    x = as_float(x);
    rush_tensor *d = x ? T("mul.Tensor", V(T("log10", V(T("clamp", V(x), V(amin))))), V(multiplier)) : NULL;
    d = d ? T("sub.Tensor", V(d), V(multiplier * log10(fmax(amin, reference)))) : NULL;
    if (!d || !has_top) return d;
    rush_tensor *high = d->ndim > 3 ? T("amax", V(d), INTS(-3, -2, -1), V(true)) : T("amax", V(d));
    return high ? T("maximum", V(d), V(T("sub.Tensor", V(high), V(top)))) : NULL;
}

static int decibels_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    RUSH_CHECK(T_(in[0]), RUSH_TYPE_ERROR, "there is nothing to measure");
    return rush_result(out, decibels(T_(in[0]), D_(in[1]), D_(in[2]), D_(in[3]), HAS(in[4]), HAS(in[4]) ? D_(in[4]) : 0));
}

static rush_op op_decibels = {
    .schema = "audio_amplitude_to_db(Tensor x, float multiplier=10.0, float amin=1e-10, float reference=1.0, float? top_db=None) -> Tensor",
    .doc = "multiplier * log10(x / reference), not below top_db under the maximum.", .run = decibels_run,
};

static int dct_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n = I_(in[0]), bands = I_(in[1]);
    bool ortho = HAS(in[2]);
    RUSH_CHECK(n > 0 && bands > 0 && (!ortho || !strcmp(in[2].s, "ortho")), RUSH_VALUE_ERROR, "norm must be either 'ortho' or None");
    return rush_out(out, 0, RUSH_F32, (rush_device){RUSH_CPU, -1}, 2, (int64_t[]){bands, n}) ? 0 : -1;
}

static void dct_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n = I_(in[0]), bands = I_(in[1]);
    bool ortho = HAS(in[2]);
    float *w = rush_ptr(out[0].t);
    for (int64_t b = 0; b < bands; b++)
        for (int64_t k = 0; k < n; k++) {
            double c = cos(3.14159265358979323846 / (double)bands * ((double)b + 0.5) * (double)k);
            w[b * n + k] = (float)(ortho ? c * sqrt(2 / (double)bands) * (k ? 1 : sqrt(0.5)) : 2 * c);
        }
}

static rush_op op_dct = {
    .schema = "audio_create_dct(int n_mfcc, int n_mels, str? norm=None) -> Tensor",
    .doc = "The discrete cosine transform of the second kind as a matrix (n_mels, n_mfcc).", .shape = dct_shape, .cpu = dct_cpu,
};

static int mfcc_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t n = I_(in[8]), bands = I_(in[7]);
    RUSH_CHECK(n <= bands, RUSH_VALUE_ERROR, "Cannot select more MFCC coefficients than # mel bins");
    rush_tensor *m = mel_spectrogram(in, bands, 2, RUSH_NONE, rush_v_string("htk"));
    if (m) m = I_(in[9]) ? T("log", V(T("add.Tensor", V(m), V(1e-6)))) : decibels(m, 10, 1e-10, 1, true, 80);
    rush_tensor *dct = m ? T("audio_create_dct", V(n), V(bands), rush_v_string("ortho")) : NULL;
    if (dct && m->dtype != RUSH_F32) dct = T("_to_dtype", V(dct), rush_v_dtype(m->dtype));
    rush_tensor *r = dct ? T("matmul", V(T("transpose.int", V(m), V(-1), V(-2))), V(dct)) : NULL;
    return rush_result(out, r ? T("transpose.int", V(r), V(-1), V(-2)) : NULL);
}

static rush_op op_mfcc = {
    .schema = "audio_mfcc(" SPECTRUM ", int n_mels=128, int n_mfcc=40, bool log_mels=False) -> Tensor",
    .doc = "Mel-frequency cepstral coefficients: the cosine transform of a mel spectrogram in decibels, (..., n_mfcc, frames).", .run = mfcc_run,
};

/* ---- the loops that torchaudio has compiled: each sample needs the one before it ---- */

static int contiguous_float(rush_value v, const char *what, int ndim, int dtype)
{
    const rush_tensor *t = T_(v);
    RUSH_CHECK(t && t->ndim == ndim && (t->dtype == RUSH_F32 || t->dtype == RUSH_F64) && (dtype < 0 || t->dtype == dtype) && rush_contiguous(t),
               RUSH_RUNTIME_ERROR, "%s is not a contiguous tensor of %d dimensions, float32 or float64 like the others", what, ndim);
    return 0;
}

/* out[i + order - 1] = in[i] - sum_k out[i + k] a[k], for each channel; out begins with order - 1 zeros */
static void recur(const double *x, const double *a, double *y, int64_t n, int64_t order)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = x[i];
        for (int64_t k = 0; k < order; k++) sum -= y[i + k] * a[k];
        y[i + order - 1] = sum;
    }
}

static int recur_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    if (contiguous_float(in[0], "the sound", 3, -1) || contiguous_float(in[1], "the coefficients", 2, T_(in[0])->dtype) ||
        contiguous_float(in[2], "the output", 3, T_(in[0])->dtype)) return -1;
    int64_t batch = in[0].t->size[0], channels = in[0].t->size[1], n = in[0].t->size[2], order = in[1].t->size[1];
    RUSH_CHECK(in[1].t->size[0] == channels && order > 0 && in[2].t->size[0] == batch && in[2].t->size[1] == channels && in[2].t->size[2] == n + order - 1,
               RUSH_RUNTIME_ERROR, "sound %s, coefficients %s and output %s do not fit", rush_shape_of(in[0].t), rush_shape_of(in[1].t), rush_shape_of(in[2].t));
    rush_version_bump(in[2].t);
    rush_out_view(out, 0, in[2].t);
    return 0;
}

static void recur_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    int64_t batch = in[0].t->size[0], channels = in[0].t->size[1], n = in[0].t->size[2], order = in[1].t->size[1];
    rush_tensor *x = rush_cast_copy(in[0].t, RUSH_F64), *a = rush_cast_copy(in[1].t, RUSH_F64), *y = rush_cast_copy(in[2].t, RUSH_F64);
    if (!x || !a || !y) return;
    for (int64_t row = 0; row < batch * channels; row++)
        recur((double *)rush_ptr(x) + row * n, (double *)rush_ptr(a) + row % channels * order, (double *)rush_ptr(y) + row * (n + order - 1), n, order);
    if (y != in[2].t) rush_copy_into(in[2].t, y);
}

static rush_op op_recur = {
    .schema = "torchaudio::_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeffs_flipped, Tensor padded_output_waveform) -> Tensor",
    .doc = "The recursive part of a filter, written into the padded output.", .shape = recur_shape, .cpu = recur_cpu, .flags = RUSH_NO_GRAD | RUSH_SIDE_EFFECT,
};

static int overdrive_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *t[5];
    for (int i = 0; i < 5; i++) {
        if (contiguous_float(in[i], "the sound", i == 2 || i == 3 ? 1 : 2, i ? T_(in[0])->dtype : -1)) return -1;
        t[i] = in[i].t;
    }
    int64_t channels = t[0]->size[0];
    RUSH_CHECK(rush_same_sizes(t[0], t[1]) && rush_same_sizes(t[0], t[4]) && t[2]->size[0] == channels && t[3]->size[0] == channels, RUSH_RUNTIME_ERROR,
               "sound %s and states %s do not fit", rush_shape_of(t[0]), rush_shape_of(t[2]));
    rush_version_bump(t[4]);
    rush_out_view(out, 0, t[4]);
    return 0;
}

static void overdrive_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *x[5];
    int64_t channels = in[0].t->size[0], n = in[0].t->size[1];
    for (int i = 0; i < 5; i++)
        if (!(x[i] = rush_cast_copy(in[i].t, RUSH_F64))) return;
    double *wave = rush_ptr(x[0]), *temp = rush_ptr(x[1]), *last_in = rush_ptr(x[2]), *last_out = rush_ptr(x[3]), *to = rush_ptr(x[4]);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = c * n; i < (c + 1) * n; i++) {
            last_out[c] = temp[i] - last_in[c] + 0.995 * last_out[c];
            last_in[c] = temp[i];
            to[i] = wave[i] * 0.5 + last_out[c] * 0.75;
        }
    if (x[4] != in[4].t) rush_copy_into(in[4].t, x[4]);
}

static rush_op op_overdrive = {
    .schema = "torchaudio::_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, Tensor output_waveform) -> Tensor",
    .doc = "The loop of the overdrive effect, written into the output.", .shape = overdrive_shape, .cpu = overdrive_cpu, .flags = RUSH_NO_GRAD | RUSH_SIDE_EFFECT,
};

RUSH_FAMILY(sound_features, &op_filters, &op_spectrogram, &op_mel, &op_decibels, &op_dct, &op_mfcc, &op_recur, &op_overdrive)
