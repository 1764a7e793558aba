/* c_helpers.c - functions that are written into a program's C file when a line of it calls them: C99, plain loops, no memory.
 *
 * All tensors are without gaps unless strides are said; sizes are of elements.
 */
#include "graph/c_text.h"

const char rush_c_words[] =
    "#define K(v) ((T)(v))\n"
    "#define product(x, y) ((x) * (y))\n#define times(x, y) ((x) * (y))\n#define plus_times(x, a, y) ((x) + (a) * (y))\n#define less_times(x, a, y) ((x) - (a) * (y))\n#define plus_product(x, y, z) ((x) + (y) * (z))\n#define is_nan(x) ((x) != (x))\n#define is_inf(x) (fabs(x) == INFINITY)\n#define is_finite(x) (fabs(x) < INFINITY)\n"
    "#define finite_of(x, n, h, l) (is_nan(x) ? (n) : is_finite(x) ? (x) : (x) > 0 ? (h) : (l))\n#define conjugate(x) (x)\n#define absolute(x) ((x) < 0 ? -(x) : (x))\n#define abs_square(x) ((x) * (x))\n"
    "#define sign_of(x) (T)(((x) > 0) - ((x) < 0))\n#define larger(x, y) ((x) > (y) || is_nan(x) ? (x) : (y))\n#define smaller(x, y) ((x) < (y) || is_nan(x) ? (x) : (y))\n"
    "#define at_least(x, y) ((x) < (y) ? (T)(y) : (x))\n#define at_most(x, y) ((x) > (y) ? (T)(y) : (x))\n#define round_even(x) rint(x)\n#define rsqrt_of(x) (1 / sqrt(x))\n"
    "#define one_less_square(x) (1 - (x) * (x))\n#define odds(x) ((x) / (1 - (x)))\n#define trunc_div(x, y) trunc((x) / (y))\n#define trunc_mod(x, y) fmod(x, y)\n"
    "#define floor_mod(x, y) ((x) - (y) * floor((x) / (y)))\n#define floor_div(x, y) floor((x) / (y))\n#define power(x, y) pow(x, y)\n#define one_and_exp(x) (1 + exp(x))\n#define erf_quick(x) erf(x)\n#define complement(x) (!(x))\n"
    "#define log_add_exp(x, y) (larger(x, y) + log1p(exp(-absolute((x) - (y)))))\n"
    "#define gelu_tanh_slope(y, t) (K(0.5) * (1 + (t)) + K(0.5) * (y) * (1 - (t) * (t)) * K(0.79788456080286535588) * (1 + 3 * K(0.044715) * (y) * (y)))\n"
    "#define mish_slope(y, t, s) ((t) + (y) * (s) * (1 - (t) * (t)))\n";

enum { DOT, PRODUCT, SOFTMAX };

const c_helper rush_c_helpers[] = {
    {"dot",
     "/* of n numbers; eight sums, so that it becomes vectors */\n"
     "static float dot(const float *a, const float *b, long n)\n{\n"
     "    float s[8] = {0}, sum = 0;\n    long i = 0;\n    int k;\n"
     "    for (; i + 8 <= n; i += 8)\n        for (k = 0; k < 8; ++k) s[k] += a[i + k] * b[i + k];\n"
     "    for (i = n - n % 8; i < n; ++i) sum += a[i] * b[i];\n    for (k = 0; k < 8; ++k) sum += s[k];\n    return sum;\n}\n", 0},
    {"product_of",
     "/* o[n, m] (without gaps) = a[n, k] b[k, m] + bias[m]; strides ai, ak, bk, bj */\n"
     "static void product_of(float *o, const float *a, long ai, long ak, const float *b, long bk, long bj, const float *bias, long n, long k, long m)\n{\n"
     "    long i, j, l;\n"
     "    for (i = 0; i < n; ++i) {\n"
     "        if (ak == 1 && bk == 1) {\n            for (j = 0; j < m; ++j) o[i * m + j] = dot(a + i * ai, b + j * bj, k) + (bias ? bias[j] : 0);\n            continue;\n        }\n"
     "        for (j = 0; j < m; ++j) o[i * m + j] = bias ? bias[j] : 0;\n"
     "        for (l = 0; l < k; ++l) {\n            const float f = a[i * ai + l * ak];\n            for (j = 0; j < m; ++j) o[i * m + j] += f * b[l * bk + j * bj];\n        }\n"
     "    }\n}\n", 1u << DOT},
    {"softmax_of",
     "/* of [outer, n, inner] along n; logs: its logarithm */\n"
     "static void softmax_of(float *o, const float *x, long outer, long n, long inner, int logs)\n{\n"
     "    long a, i, j;\n"
     "    for (a = 0; a < outer * inner; ++a) {\n"
     "        const float *p = x + a / inner * n * inner + a % inner;\n        float *q = o + (p - x), most = p[0], sum = 0;\n"
     "        for (i = 1; i < n; ++i) if (p[i * inner] > most) most = p[i * inner];\n"
     "        for (i = 0; i < n; ++i) sum += expf(p[i * inner] - most);\n"
     "        for (j = 0; j < n; ++j) q[j * inner] = logs ? p[j * inner] - most - logf(sum) : expf(p[j * inner] - most) / sum;\n"
     "    }\n}\n", 0},
    {"softmax_back",
     "static void softmax_back(float *o, const float *g, const float *y, long outer, long n, long inner, int logs)\n{\n"
     "    long a, i;\n"
     "    for (a = 0; a < outer * inner; ++a) {\n"
     "        const long at = a / inner * n * inner + a % inner;\n        float sum = 0;\n"
     "        for (i = 0; i < n; ++i) sum += logs ? g[at + i * inner] : g[at + i * inner] * y[at + i * inner];\n"
     "        for (i = 0; i < n; ++i) {\n            const long k = at + i * inner;\n            o[k] = logs ? g[k] - expf(y[k]) * sum : y[k] * (g[k] - sum);\n        }\n"
     "    }\n}\n", 0},
    {"convolve",
     "/* s: batch, channels, height, width; out channels, height, width; kernel height, width; strides, paddings, dilations of both; groups */\n"
     "static void convolve(float *o, const float *x, const float *w, const float *bias, const long *s)\n{\n"
     "    const long cg = s[1] / s[15], og = s[4] / s[15];\n    long n, c, k, i, j, y, u;\n"
     "    for (n = 0; n < s[0]; ++n)\n        for (c = 0; c < s[4]; ++c) {\n"
     "            float *q = o + (n * s[4] + c) * s[5] * s[6];\n"
     "            for (u = 0; u < s[5] * s[6]; ++u) q[u] = bias ? bias[c] : 0;\n"
     "            for (k = 0; k < cg; ++k)\n                for (i = 0; i < s[7]; ++i)\n                    for (j = 0; j < s[8]; ++j) {\n"
     "                        const float f = w[((c * cg + k) * s[7] + i) * s[8] + j];\n"
     "                        const float *p = x + (n * s[1] + c / og * cg + k) * s[2] * s[3];\n"
     "                        const long off = j * s[14] - s[12];\n"
     "                        const long from = off < 0 ? (-off + s[10] - 1) / s[10] : 0, most = (s[3] - 1 - off) < 0 ? 0 : (s[3] - 1 - off) / s[10] + 1, to = most < s[6] ? most : s[6];\n"
     "                        for (y = 0; y < s[5]; ++y) {\n                            const long row = y * s[9] - s[11] + i * s[13];\n                            if (row < 0 || row >= s[2]) continue;\n"
     "                            for (u = from; u < to; ++u) q[y * s[6] + u] += f * p[row * s[3] + u * s[10] + off];\n                        }\n"
     "                    }\n        }\n}\n", 0},
    {"convolve_back",
     "/* Gradients of the input, the weight and the bias; NULL: not asked for. s as convolve has it */\n"
     "static void convolve_back(float *gx, float *gw, float *gb, const float *g, const float *x, const float *w, const long *s)\n{\n"
     "    const long cg = s[1] / s[15], og = s[4] / s[15];\n    long n, c, k, i, j, y, u;\n"
     "    if (gx) for (u = 0; u < s[0] * s[1] * s[2] * s[3]; ++u) gx[u] = 0;\n"
     "    if (gw) for (u = 0; u < s[4] * cg * s[7] * s[8]; ++u) gw[u] = 0;\n"
     "    if (gb) for (u = 0; u < s[4]; ++u) gb[u] = 0;\n"
     "    for (n = 0; n < s[0]; ++n)\n        for (c = 0; c < s[4]; ++c) {\n"
     "            const float *q = g + (n * s[4] + c) * s[5] * s[6];\n"
     "            if (gb) for (u = 0; u < s[5] * s[6]; ++u) gb[c] += q[u];\n"
     "            for (k = 0; k < cg; ++k)\n                for (i = 0; i < s[7]; ++i)\n                    for (j = 0; j < s[8]; ++j) {\n"
     "                        const long at = ((c * cg + k) * s[7] + i) * s[8] + j, plane = (n * s[1] + c / og * cg + k) * s[2] * s[3];\n                        float sum = 0;\n"
     "                        for (y = 0; y < s[5]; ++y) {\n                            const long row = y * s[9] - s[11] + i * s[13];\n                            if (row < 0 || row >= s[2]) continue;\n"
     "                            for (u = 0; u < s[6]; ++u) {\n                                const long col = u * s[10] - s[12] + j * s[14];\n                                if (col < 0 || col >= s[3]) continue;\n"
     "                                sum += q[y * s[6] + u] * x[plane + row * s[3] + col];\n                                if (gx) gx[plane + row * s[3] + col] += q[y * s[6] + u] * w[at];\n"
     "                            }\n                        }\n                        if (gw) gw[at] += sum;\n                    }\n        }\n}\n", 0},
    {"largest_of",
     "/* s: planes, height, width; out height, width; kernel, strides, paddings, dilations of both. at: where each stood, or NULL */\n"
     "static void largest_of(float *o, int64_t *at, const float *x, const long *s)\n{\n"
     "    long n, y, u, i, j;\n"
     "    for (n = 0; n < s[0]; ++n)\n        for (y = 0; y < s[3]; ++y)\n            for (u = 0; u < s[4]; ++u) {\n"
     "                float most = -INFINITY;\n                long best = -1;\n"
     "                for (i = 0; i < s[5]; ++i)\n                    for (j = 0; j < s[6]; ++j) {\n"
     "                        const long row = y * s[7] - s[9] + i * s[11], col = u * s[8] - s[10] + j * s[12];\n"
     "                        if (row < 0 || row >= s[1] || col < 0 || col >= s[2]) continue;\n"
     "                        if (best < 0 || x[(n * s[1] + row) * s[2] + col] > most) most = x[(n * s[1] + row) * s[2] + col], best = row * s[2] + col;\n"
     "                    }\n                o[(n * s[3] + y) * s[4] + u] = most;\n                if (at) at[(n * s[3] + y) * s[4] + u] = best;\n"
     "            }\n}\n", 0},
    {"to_places",
     "/* Adds g to where the largest stood; planes of n and m elements */\n"
     "static void to_places(float *o, const float *g, const int64_t *at, long planes, long n, long m)\n{\n"
     "    long p, i;\n    for (i = 0; i < planes * n; ++i) o[i] = 0;\n"
     "    for (p = 0; p < planes; ++p)\n        for (i = 0; i < m; ++i) o[p * n + at[p * m + i]] += g[p * m + i];\n}\n", 0},
    {"averages_of",
     "/* s as largest_of has it; all: padding counts too */\n"
     "static void averages_of(float *o, const float *x, const long *s, int all)\n{\n"
     "    long n, y, u, i, j;\n"
     "    for (n = 0; n < s[0]; ++n)\n        for (y = 0; y < s[3]; ++y)\n            for (u = 0; u < s[4]; ++u) {\n                float sum = 0;\n                long count = 0, whole = 0;\n"
     "                for (i = 0; i < s[5]; ++i)\n                    for (j = 0; j < s[6]; ++j) {\n                        const long row = y * s[7] - s[9] + i, col = u * s[8] - s[10] + j;\n"
     "                        whole += row < s[1] + s[9] && col < s[2] + s[10];\n                        if (row < 0 || row >= s[1] || col < 0 || col >= s[2]) continue;\n"
     "                        sum += x[(n * s[1] + row) * s[2] + col];\n                        ++count;\n                    }\n"
     "                o[(n * s[3] + y) * s[4] + u] = sum / (float)(all ? whole : count);\n            }\n}\n", 0},
    {"adaptive_averages",
     "/* planes of h, w to planes of oh, ow; back: the other way, gradients of o to x */\n"
     "static void adaptive_averages(float *o, float *gx, const float *x, long planes, long h, long w, long oh, long ow)\n{\n"
     "    long n, y, u, i, j;\n    if (gx) for (i = 0; i < planes * h * w; ++i) gx[i] = 0;\n"
     "    for (n = 0; n < planes; ++n)\n        for (y = 0; y < oh; ++y)\n            for (u = 0; u < ow; ++u) {\n"
     "                const long top = y * h / oh, end = ((y + 1) * h + oh - 1) / oh, left = u * w / ow, right = ((u + 1) * w + ow - 1) / ow, at = (n * oh + y) * ow + u;\n"
     "                const float count = (float)((end - top) * (right - left));\n                float sum = 0;\n"
     "                for (i = top; i < end; ++i)\n                    for (j = left; j < right; ++j) {\n                        if (gx) gx[(n * h + i) * w + j] += x[at] / count;\n                        else sum += x[(n * h + i) * w + j];\n                    }\n"
     "                if (o) o[at] = sum / count;\n            }\n}\n", 0},
    {"normalize_rows",
     "static void normalize_rows(float *o, float *means, float *slopes, const float *x, const float *w, const float *b, long rows, long n, float eps)\n{\n"
     "    long r, i;\n    for (r = 0; r < rows; ++r) {\n        const float *p = x + r * n;\n        float mean = 0, var = 0, k;\n"
     "        for (i = 0; i < n; ++i) mean += p[i];\n        mean /= (float)n;\n        for (i = 0; i < n; ++i) var += (p[i] - mean) * (p[i] - mean);\n        k = 1 / sqrtf(var / (float)n + eps);\n"
     "        for (i = 0; i < n; ++i) o[r * n + i] = (p[i] - mean) * k * (w ? w[i] : 1) + (b ? b[i] : 0);\n        if (means) means[r] = mean, slopes[r] = k;\n    }\n}\n", 0},
    {"normalize_rows_back",
     "static void normalize_rows_back(float *gx, float *gw, float *gb, const float *g, const float *x, const float *means, const float *slopes, const float *w, long rows, long n)\n{\n"
     "    long r, i;\n    if (gw) for (i = 0; i < n; ++i) gw[i] = 0;\n    if (gb) for (i = 0; i < n; ++i) gb[i] = 0;\n"
     "    for (r = 0; r < rows; ++r) {\n        const float *p = x + r * n, *q = g + r * n, k = slopes[r];\n        float one = 0, two = 0;\n"
     "        for (i = 0; i < n; ++i) {\n            const float h = (p[i] - means[r]) * k, f = q[i] * (w ? w[i] : 1);\n            one += f;\n            two += f * h;\n            if (gw) gw[i] += q[i] * h;\n            if (gb) gb[i] += q[i];\n        }\n"
     "        if (gx) for (i = 0; i < n; ++i) gx[r * n + i] = k * (q[i] * (w ? w[i] : 1) - one / (float)n - (p[i] - means[r]) * k * two / (float)n);\n    }\n}\n", 0},
    {"normalize_channels",
     "/* [batch, channels, inner]; training: by its own mean and variance, which go to saved and, in part, into running */\n"
     "static void normalize_channels(float *o, float *saved, float *slopes, const float *x, const float *w, const float *b, float *mean_of, float *var_of, long batch, long channels, long inner, int training, float part, float eps)\n{\n"
     "    long n, c, i;\n    for (c = 0; c < channels; ++c) {\n        float mean = mean_of ? mean_of[c] : 0, var = var_of ? var_of[c] : 1, k, f, t;\n        const float count = (float)(batch * inner);\n"
     "        if (training) {\n            mean = var = 0;\n            for (n = 0; n < batch; ++n) for (i = 0; i < inner; ++i) mean += x[(n * channels + c) * inner + i];\n            mean /= count;\n"
     "            for (n = 0; n < batch; ++n) for (i = 0; i < inner; ++i) t = x[(n * channels + c) * inner + i] - mean, var += t * t;\n            var /= count;\n"
     "            if (mean_of) mean_of[c] += part * (mean - mean_of[c]);\n            if (var_of) var_of[c] += part * (var * count / (count - 1) - var_of[c]);\n        }\n"
     "        k = 1 / sqrtf(var + eps);\n        f = w ? w[c] * k : k;\n        if (saved && training) saved[c] = mean, slopes[c] = k;\n"
     "        for (n = 0; n < batch; ++n) for (i = 0; i < inner; ++i) {\n            const long at = (n * channels + c) * inner + i;\n            o[at] = (x[at] - mean) * f + (b ? b[c] : 0);\n        }\n    }\n}\n", 0},
    {"normalize_channels_back",
     "static void normalize_channels_back(float *gx, float *gw, float *gb, const float *g, const float *x, const float *saved, const float *slopes, const float *w, long batch, long channels, long inner)\n{\n"
     "    long n, c, i;\n    for (c = 0; c < channels; ++c) {\n        const float count = (float)(batch * inner), k = slopes[c];\n        float one = 0, two = 0;\n"
     "        for (n = 0; n < batch; ++n) for (i = 0; i < inner; ++i) {\n            const long at = (n * channels + c) * inner + i;\n            one += g[at];\n            two += g[at] * (x[at] - saved[c]) * k;\n        }\n"
     "        if (gx) for (n = 0; n < batch; ++n) for (i = 0; i < inner; ++i) {\n            const long at = (n * channels + c) * inner + i;\n            gx[at] = (w ? w[c] : 1) * k * (g[at] - one / count - (x[at] - saved[c]) * k * two / count);\n        }\n"
     "        if (gw) gw[c] = two;\n        if (gb) gb[c] = one;\n    }\n}\n", 0},
    {"attend",
     "/* s: heads (batches times heads), queries, keys, width of q and k, of v; then for q, k, v, o and the mask strides of batch, head, row, element; then heads of a batch */\n"
     "static void attend(float *o, float *sums, float *scores, const float *q, const float *k, const float *v, const float *mask, const long *s, float scale, int causal)\n{\n"
     "    const long *sq = s + 5, *sk = s + 9, *sv = s + 13, *so = s + 17, *sm = s + 21;\n    long h, i, j, d;\n"
     "    for (h = 0; h < s[0]; ++h)\n        for (i = 0; i < s[1]; ++i) {\n            const long a = h / s[25], b = h % s[25], n = causal && i + 1 < s[2] ? i + 1 : s[2];\n            float most = -INFINITY, sum = 0;\n"
     "            for (j = 0; j < n; ++j) {\n                float t = 0;\n                for (d = 0; d < s[3]; ++d) t += q[a * sq[0] + b * sq[1] + i * sq[2] + d * sq[3]] * k[a * sk[0] + b * sk[1] + j * sk[2] + d * sk[3]];\n"
     "                t = t * scale + (mask ? mask[a * sm[0] + b * sm[1] + i * sm[2] + j * sm[3]] : 0);\n                scores[j] = t;\n                if (t > most) most = t;\n            }\n"
     "            for (j = 0; j < n; ++j) scores[j] = most == -INFINITY ? 0 : expf(scores[j] - most), sum += scores[j];\n"
     "            if (sums) sums[h * s[1] + i] = most + logf(sum);\n"
     "            for (d = 0; d < s[4]; ++d) {\n                float t = 0;\n                for (j = 0; j < n; ++j) t += scores[j] * v[a * sv[0] + b * sv[1] + j * sv[2] + d * sv[3]];\n"
     "                o[a * so[0] + b * so[1] + i * so[2] + d * so[3]] = sum > 0 ? t / sum : 0;\n            }\n        }\n}\n", 0},
    {"attend_back",
     "/* s: as attend has it, then strides of the result's gradient, and of the gradients of q, k and v, which are added to */\n"
     "static void attend_back(float *gq, float *gk, float *gv, const float *g, const float *q, const float *k, const float *v, const float *o, const float *sums, const float *mask, const long *s, float scale, int causal)\n{\n"
     "    const long *sq = s + 5, *sk = s + 9, *sv = s + 13, *so = s + 17, *sm = s + 21, *sg = s + 26, *tq = s + 30, *tk = s + 34, *tv = s + 38;\n    long h, i, j, d;\n"
     "    for (h = 0; h < s[0]; ++h) {\n        const long a = h / s[25], b = h % s[25];\n"
     "        for (i = 0; i < s[1]; ++i) for (d = 0; d < s[3]; ++d) gq[a * tq[0] + b * tq[1] + i * tq[2] + d * tq[3]] = 0;\n"
     "        for (j = 0; j < s[2]; ++j) {\n            for (d = 0; d < s[3]; ++d) gk[a * tk[0] + b * tk[1] + j * tk[2] + d * tk[3]] = 0;\n            for (d = 0; d < s[4]; ++d) gv[a * tv[0] + b * tv[1] + j * tv[2] + d * tv[3]] = 0;\n        }\n"
     "        for (i = 0; i < s[1]; ++i) {\n            const long n = causal && i + 1 < s[2] ? i + 1 : s[2];\n            float all = 0;\n"
     "            for (d = 0; d < s[4]; ++d) all += g[a * sg[0] + b * sg[1] + i * sg[2] + d * sg[3]] * o[a * so[0] + b * so[1] + i * so[2] + d * so[3]];\n"
     "            for (j = 0; j < n; ++j) {\n                float t = 0, p, u = 0;\n                for (d = 0; d < s[3]; ++d) t += q[a * sq[0] + b * sq[1] + i * sq[2] + d * sq[3]] * k[a * sk[0] + b * sk[1] + j * sk[2] + d * sk[3]];\n"
     "                p = expf(t * scale + (mask ? mask[a * sm[0] + b * sm[1] + i * sm[2] + j * sm[3]] : 0) - sums[h * s[1] + i]);\n"
     "                for (d = 0; d < s[4]; ++d) {\n                    const float f = g[a * sg[0] + b * sg[1] + i * sg[2] + d * sg[3]];\n                    gv[a * tv[0] + b * tv[1] + j * tv[2] + d * tv[3]] += p * f;\n                    u += f * v[a * sv[0] + b * sv[1] + j * sv[2] + d * sv[3]];\n                }\n"
     "                u = p * (u - all) * scale;\n"
     "                for (d = 0; d < s[3]; ++d) {\n                    gq[a * tq[0] + b * tq[1] + i * tq[2] + d * tq[3]] += u * k[a * sk[0] + b * sk[1] + j * sk[2] + d * sk[3]];\n                    gk[a * tk[0] + b * tk[1] + j * tk[2] + d * tk[3]] += u * q[a * sq[0] + b * sq[1] + i * sq[2] + d * sq[3]];\n                }\n            }\n        }\n    }\n}\n", 0},
    {"rows_of",
     "/* Rows of w by number; a number beyond gives zeros */\n"
     "static void rows_of(float *o, const float *w, const int64_t *at, long n, long rows, long width)\n{\n"
     "    long i, j;\n    for (i = 0; i < n; ++i)\n        for (j = 0; j < width; ++j) o[i * width + j] = at[i] >= 0 && at[i] < rows ? w[at[i] * width + j] : 0;\n}\n", 0},
    {"rows_back",
     "static void rows_back(float *gw, const float *g, const int64_t *at, long n, long rows, long width, long skip)\n{\n"
     "    long i, j;\n    for (i = 0; i < rows * width; ++i) gw[i] = 0;\n    for (i = 0; i < n; ++i)\n        for (j = 0; at[i] >= 0 && at[i] < rows && at[i] != skip && j < width; ++j) gw[at[i] * width + j] += g[i * width + j];\n}\n", 0},
    {"nll_of",
     "/* The mean of -x[row, its number], rows of `skip` left out */\n"
     "static void nll_of(float *o, float *count, const float *x, const int64_t *at, long n, long m, long skip)\n{\n"
     "    float sum = 0, k = 0;\n    long i;\n    for (i = 0; i < n; ++i)\n        if (at[i] != skip && at[i] >= 0 && at[i] < m) sum -= x[i * m + at[i]], k += 1;\n    *o = sum / k;\n    *count = k;\n}\n", 0},
    {"nll_back",
     "static void nll_back(float *o, const float *g, const int64_t *at, const float *count, long n, long m, long skip)\n{\n"
     "    long i;\n    for (i = 0; i < n * m; ++i) o[i] = 0;\n    for (i = 0; i < n; ++i)\n        if (at[i] != skip && at[i] >= 0 && at[i] < m) o[i * m + at[i]] = -*g / *count;\n}\n", 0},
    {"squares_of",
     "static void squares_of(float *o, const float *x, const float *y, long n, float part)\n{\n    float sum = 0;\n    long i;\n    for (i = 0; i < n; ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);\n    *o = sum * part;\n}\n", 0},
    {"unpack",
     "/* Weights of 8 bits, a scale for each row */\n"
     "static void unpack(float *o, const signed char *w, const float *scale, long rows, long n)\n{\n"
     "    long r, i;\n    for (r = 0; r < rows; ++r)\n        for (i = 0; i < n; ++i) o[r * n + i] = scale[r] * (float)w[r * n + i];\n}\n", 0},
    {"sgd_step",
     "static void sgd_step(float *w, const float *g, long n, float lr)\n{\n    long i;\n    for (i = 0; i < n; ++i) w[i] -= lr * g[i];\n}\n", 0},
    {"adam_step",
     "/* m, v: means of the gradients and of their squares; t counts the steps from 1 */\n"
     "static void adam_step(float *w, float *m, float *v, const float *g, long n, float lr, long t)\n{\n"
     "    const float one = 1 - powf(0.9f, (float)t), two = sqrtf(1 - powf(0.999f, (float)t));\n    long i;\n"
     "    for (i = 0; i < n; ++i) {\n        m[i] += 0.1f * (g[i] - m[i]);\n        v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];\n        w[i] -= lr / one * m[i] / (sqrtf(v[i]) / two + 1e-8f);\n    }\n}\n", 0},
};
const int rush_c_helpers_count = (int)RUSH_COUNT(rush_c_helpers);
