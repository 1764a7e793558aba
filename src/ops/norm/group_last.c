/* group_last.c - group norm of images whose channels lie side by side, by the channel kernels of kernels/cpu/norm.c.
 *
 * An image is read in pieces of whole pixels, which fit the processor's cache: each gives its sums per channel, those of a
 * group's channels and of all pieces are joined in double, and with numbers per image and channel the pieces are read again.
 */
#include "kernels/cpu/norm.h"
#include "ops/norm/norm.h"
#include <math.h>

typedef struct job {
    rush_norm_channels a; /* of one piece; its arrays are of all */
    int64_t images, pixels, piece, pieces; /* an image's, a piece's, pieces of an image */
    size_t item;
} job;

static double number(const void *p, int64_t i, size_t item) { return item == 8 ? ((const double *)p)[i] : (double)((const float *)p)[i]; }

static void put(void *p, int64_t i, size_t item, double v)
{
    if (item == 8) ((double *)p)[i] = v;
    else ((float *)p)[i] = (float)v;
}

static void *room(const job *j, int64_t of, size_t item) { return rush_scope_alloc((size_t)RUSH_MAX(of * j->a.channels, 1) * item); }

static job plan(const rush_pixel_groups *g, size_t item)
{
    job j = {.a = {.x = g->x, .dy = g->dy, .y = g->y, .channels = g->channels, .inner = 1}, .images = g->images, .pixels = g->pixels, .item = item};
    j.piece = 1 + 16384 / j.a.channels;
    j.pieces = (j.pixels + j.piece - 1) / j.piece;
    return j;
}

static int64_t length(const job *j, int64_t piece) { return RUSH_MIN(j->piece, j->pixels - piece * j->piece); }

/* What a kernel reads and writes for one piece of all: elements, numbers of its image, numbers of its own. */
static rush_norm_channels piece_of(const job *j, int64_t i)
{
    rush_norm_channels a = j->a;
    const size_t row = (size_t)a.channels * j->item, at = (size_t)(i / j->pieces * j->pixels + i % j->pieces * j->piece) * row, image = (size_t)(i / j->pieces) * row;
    const void **element[] = {&a.x, &a.dy}, **of_image[] = {&a.center, &a.scale, &a.shift, &a.slope};
    for (int k = 0; k < RUSH_COUNT(element); ++k)
        if (*element[k]) *element[k] = (const char *)*element[k] + at;
    for (int k = 0; k < RUSH_COUNT(of_image); ++k)
        if (*of_image[k]) *of_image[k] = (const char *)*of_image[k] + image;
    if (a.y) a.y = (char *)a.y + at;
    if (a.mean) a.mean = (char *)a.mean + (size_t)i * row, a.spread = (char *)a.spread + (size_t)i * row;
    if (a.sum) a.sum += i * a.channels, a.dot += i * a.channels;
    a.batch = length(j, i % j->pieces);
    return a;
}

#define EACH_PIECE(name, end_of, kernel)                                                                    \
    static void name(void *arg, int64_t begin, int64_t end)                                                 \
    {                                                                                                       \
        const job *j = arg;                                                                                 \
        for (; begin < end; ++begin) {                                                                      \
            rush_norm_channels a = piece_of(j, begin);                                                      \
            rush_k_norm->kernel[j->item == 8](&a, 0, a.end_of);                                             \
        }                                                                                                   \
    }
EACH_PIECE(run_moments, channels, moments)
EACH_PIECE(run_sums, channels, sums)
EACH_PIECE(run_apply, batch, apply)
EACH_PIECE(run_apply_back, batch, apply_back)

static void each_piece(job *j, void (*run)(void *, int64_t, int64_t)) { rush_parallel_for(j->images * j->pieces, 1, run, j); }

int rush_group_last(const rush_pixel_groups *g, double eps, size_t item)
{
    job j = plan(g, item);
    const int64_t channels = g->channels, each = channels / g->groups;
    void *scale = room(&j, j.images, item), *shift = room(&j, j.images, item);
    j.a.mean = room(&j, j.images * j.pieces, item);
    j.a.spread = room(&j, j.images * j.pieces, item);
    if (!scale || !shift || !j.a.mean || !j.a.spread) return -1;
    each_piece(&j, run_moments);
    for (int64_t r = 0; r < j.images * g->groups; ++r) {
        int64_t image = r / g->groups, first = r % g->groups * each;
        double mean = 0, square = 0, n = (double)(each * j.pixels);
        for (int64_t p = 0; p < j.pieces; ++p)
            for (int64_t c = 0; c < each; ++c) mean += number(j.a.mean, (image * j.pieces + p) * channels + first + c, item) * (double)length(&j, p);
        mean /= n;
        for (int64_t p = 0; p < j.pieces; ++p)
            for (int64_t c = 0; c < each; ++c) {
                int64_t at = (image * j.pieces + p) * channels + first + c;
                double off = number(j.a.mean, at, item) - mean;
                square += number(j.a.spread, at, item) + off * off * (double)length(&j, p);
            }
        double rstd = 1 / sqrt(square / n + eps);
        put(g->mean, r, item, mean);
        put(g->rstd, r, item, rstd);
        for (int64_t c = first; c < first + each; ++c) {
            double k = g->w ? rstd * number(g->w, c, item) : rstd;
            put(scale, image * channels + c, item, k);
            put(shift, image * channels + c, item, (g->b ? number(g->b, c, item) : 0) - mean * k);
        }
    }
    j.a.mean = j.a.spread = NULL;
    j.a.scale = scale, j.a.shift = shift;
    each_piece(&j, run_apply);
    return 0;
}

int rush_group_last_back(const rush_pixel_groups *g, size_t item)
{
    job j = plan(g, item);
    const int64_t channels = g->channels, each = channels / g->groups;
    void *center = room(&j, j.images, item), *scale = room(&j, j.images, item), *shift = room(&j, j.images, item), *slope = room(&j, j.images, item);
    double *sums = room(&j, j.images * j.pieces, 8), *dots = room(&j, j.images * j.pieces, 8);
    if (!center || !scale || !shift || !slope || !sums || !dots) return -1;
    for (int64_t i = 0; i < j.images * channels; ++i) put(center, i, item, number(g->mean, i / each, item));
    j.a.center = center, j.a.sum = sums, j.a.dot = dots;
    each_piece(&j, run_sums);
    for (int64_t r = 0; r < j.images * g->groups; ++r) {
        int64_t first = r / g->groups * channels + r % g->groups * each, w = r % g->groups * each;
        double sum = 0, dot = 0, k = number(g->rstd, r, item), n = (double)(each * j.pixels);
        for (int64_t c = 0; c < each; ++c) {
            double s = 0, d = 0, f = g->w ? number(g->w, w + c, item) : 1;
            for (int64_t p = 0; p < j.pieces; ++p) {
                int64_t at = (r / g->groups * j.pieces + p) * channels + w + c;
                s += sums[at];
                d += dots[at];
            }
            if (g->db) put(g->db, first + c, item, s);
            if (g->dw) put(g->dw, first + c, item, d * k);
            sum += s * f;
            dot += d * f;
            put(scale, first + c, item, f * k);
        }
        for (int64_t c = first; c < first + each; ++c) {
            put(shift, c, item, sum / n * k);
            put(slope, c, item, dot / n * k * k * k);
        }
    }
    j.a.sum = j.a.dot = NULL;
    j.a.scale = scale, j.a.shift = shift, j.a.slope = slope;
    if (j.a.y) each_piece(&j, run_apply_back);
    return 0;
}
