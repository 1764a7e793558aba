/* special.c - special functions of real numbers, in double.
 *
 * Each is put together from a few sure means: power series where they do not cancel, asymptotic series where their
 * smallest term is below the rounding error, the trapezoidal rule where the integrand falls off double exponentially,
 * recurrences towards these regions, and Halley steps for inverses. Formula numbers are those of the NIST Digital
 * Library of Mathematical Functions (dlmf.nist.gov).
 */
#include "base/special.h"
#include <math.h>
#include <stdint.h>
#include <stdbool.h>

#define PI 3.14159265358979323846
#define SQRT2 1.41421356237309504880
#define SQRT_PI 1.77245385090551602730
#define EULER 0.57721566490153286061
#define EPS 1e-17 /* sums end where a term no longer counts */

/* ---- error function and normal distribution ---- */

RUSH_WORD double rush_erfcx(double x)
{
    if (x < 0) return x < -26.7 ? INFINITY : 2 * exp(x * x) - rush_erfcx(-x);
    if (x < 26) {
        double high = x * x, low = fma(x, x, -high); /* exp(x^2) suffers from the rounding of x^2 */
        return exp(high) * (1 + low) * erfc(x);
    }
    double r = 1 / (2 * x * x), term = 1, sum = 1; /* 7.12.1 */
    for (int k = 1; k < 12; k++) sum += term *= -(2 * k - 1) * r;
    return sum / (x * SQRT_PI);
}

RUSH_WORD double rush_erfinv(double y)
{
    double a = fabs(y);
    if (!(a < 1)) return a == 1 ? y * INFINITY : NAN;
    /* Winitzki's closed form is good to 2e-3; Halley's steps triple the digits */
    double l = log1p(-y * y), m = 2 / (PI * 0.147) + l / 2;
    double x = sqrt(sqrt(m * m - l / 0.147) - m);
    if (a < 1e-8) return y * (SQRT_PI / 2);
    for (int i = 0; i < 2; i++) {
        double off = a > 0.5 ? (1 - a) - erfc(x) : erf(x) - a;
        double u = off * (SQRT_PI / 2) * exp(x * x);
        x -= u / (1 + x * u);
    }
    return copysign(x, y);
}

RUSH_WORD double rush_normal_quantile(double p)
{
    if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    if (fabs(p - 0.5) < 0.25) return SQRT2 * rush_erfinv(2 * p - 1);
    double q = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(q));
    /* Abramowitz and Stegun 26.2.23, then Halley's steps on the upper tail */
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int i = 0; i < 2; i++) {
        double u = SQRT_PI * SQRT2 * (0.5 * rush_erfcx(x / SQRT2) - q * exp(x * x / 2));
        if (!isfinite(u)) break;
        x += u / (1 - u * x / 2);
    }
    return p < 0.5 ? -x : x;
}

RUSH_WORD double rush_log_normal_cdf(double x)
{
    double t = x / SQRT2;
    return x < -1 ? log(rush_erfcx(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}

/* ---- gamma and zeta ---- */

RUSH_WORD double rush_log_gamma(double x)
{
#if defined(__GLIBC__) && !defined(__CUDACC__) /* whose lgamma leaves the sign in a variable of all threads */
    int sign;
    return lgamma_r(x, &sign);
#else
    return lgamma(x);
#endif
}

/* Bernoulli numbers B(2k), k >= 1 */
RUSH_WORD_STATIC const double bernoulli[] = {1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66, -691. / 2730, 7. / 6, -3617. / 510, 43867. / 798, -174611. / 330};
enum { BERNOULLI = sizeof bernoulli / sizeof *bernoulli };

RUSH_WORD double rush_digamma(double x)
{
    if (x == 0) return copysign(INFINITY, -x);
    double r = 0;
    if (x < 0) {
        double f = x - trunc(x);
        if (f == 0) return NAN;
        r = -PI / tan(PI * f); /* 5.5.4 */
        x = 1 - x;
    }
    for (; x < 10; x++) r -= 1 / x;
    double s = 0, w = 1 / (x * x); /* 5.11.2 */
    for (int k = BERNOULLI; k >= 1; k--) s = w * (bernoulli[k - 1] / (2 * k) + s);
    return r + log(x) - 0.5 / x - s;
}

RUSH_WORD double rush_zeta(double s, double q)
{
    if (s == 1) return INFINITY;
    if (!(s > 1) || isnan(q)) return NAN;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        if (s != floor(s)) return NAN;
        /* the sum over all integers k of (k + q)^-s has the period 1 */
        double f = q - floor(q), sign = fmod(s, 2.) == 0 ? 1 : -1;
        return rush_zeta(s, f) + sign * (rush_zeta(s, 1 - f) - rush_zeta(s, 1 - q));
    }
    double sum = 0; /* Euler and Maclaurin, 25.11.5 */
    for (double far = 10 + s / 2; q < far; q++) {
        double term = pow(q, -s);
        sum += term;
        if (term <= sum * EPS) return sum; /* both may have become 0 */
    }
    double power = pow(q, -s), factor = s / q, w = 1 / (q * q);
    sum += power * (q / (s - 1) + 0.5);
    for (int k = 1; k <= BERNOULLI; k++) {
        double fact = 2; /* (2k)! */
        for (int j = 3; j <= 2 * k; j++) fact *= j;
        sum += power * factor * bernoulli[k - 1] / fact;
        factor *= (s + 2 * k - 1) * (s + 2 * k) * w;
    }
    return sum;
}

/* What second derivatives of lgamma ask for, ten times as fast as by zeta. */
RUSH_WORD_STATIC double trigamma(double x)
{
    if (x < 0) { /* 5.15.6 */
        double f = sin(PI * (x - rint(x)));
        return PI * PI / (f * f) - trigamma(1 - x);
    }
    double r = 0;
    for (; x < 8; x++) r += 1 / (x * x);
    double s = 0, w = 1 / (x * x); /* 5.15.8 */
    for (int k = BERNOULLI; k >= 1; k--) s = w * (bernoulli[k - 1] + s);
    return r + (1 + s) / x + w / 2;
}

RUSH_WORD double rush_polygamma(double n, double x)
{
    if (n == 0) return rush_digamma(x);
    if (n == 1) return trigamma(x);
    if (!(n > 0)) return NAN;
    return (fmod(n, 2.) == 0 ? -1 : 1) * tgamma(n + 1) * rush_zeta(n + 1, x);
}

/* x^a exp(-x) / gamma(a + 1) */
RUSH_WORD_STATIC double gamma_front(double a, double x)
{
    if (a < 10) return exp(a * log(x) - x - rush_log_gamma(a + 1));
    double mu = (x - a) / a, w = 1 / (a * a);
    double stirling = (1. / 12 - w * (1. / 360 - w * (1. / 1260 - w * (1. / 1680 - w / 1188)))) / a;
    double bend = fabs(mu) < 0.5 ? a * (log1p(mu) - mu) : a * log(x / a) - (x - a);
    return exp(bend - stirling) / sqrt(2 * PI * a);
}

/* Lower or upper incomplete gamma for large a: Temme's uniform expansion, first term (8.12) */
RUSH_WORD_STATIC double gamma_uniform(double a, double x, bool upper)
{
    double mu = (x - a) / a, eta = copysign(sqrt(2 * fmax(mu - log1p(mu), 0.)), mu);
    double c0 = fabs(mu) < 1e-3 ? -1. / 3 + mu / 12 - 7 * mu * mu / 135 : 1 / mu - 1 / eta;
    double rest = exp(-a * eta * eta / 2) / sqrt(2 * PI * a) * c0;
    return upper ? 0.5 * erfc(eta * sqrt(a / 2)) + rest : 0.5 * erfc(-eta * sqrt(a / 2)) - rest;
}

RUSH_WORD_STATIC double incomplete_gamma(double a, double x, bool upper)
{
    if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return NAN;
    if (x == 0 || isinf(a)) return upper;
    if (a == 0 || isinf(x)) return !upper;
    if (a > 1e5 && fabs(x - a) < 0.3 * a) return gamma_uniform(a, x, upper);
    double front = gamma_front(a, x);
    if (x < a + 1) {
        double term = 1, sum = 1; /* 8.11.4 */
        for (int k = 1; k < 100000 && term > sum * EPS; k++) sum += term *= x / (a + k);
        return upper ? 1 - front * sum : front * sum;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d; /* the continued fraction 8.9.2, by Lentz's method */
    for (int k = 1; k < 100000; k++) {
        double an = -k * (k - a);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        double step = c * d;
        h *= step;
        if (!(fabs(step - 1) > 3e-16)) break; /* also of NaN */
    }
    return upper ? front * a * h : 1 - front * a * h;
}

RUSH_WORD double rush_gamma_p(double a, double x)
{
    return incomplete_gamma(a, x, false);
}

RUSH_WORD double rush_gamma_q(double a, double x)
{
    return incomplete_gamma(a, x, true);
}

/* ---- Bessel functions ---- */

RUSH_WORD double rush_bessel_j0(double x)
{
    return isinf(x) ? 0 : j0(x);
}
RUSH_WORD double rush_bessel_j1(double x)
{
    return isinf(x) ? 0 : j1(x);
}
RUSH_WORD double rush_bessel_y0(double x)
{
    return x == 0 ? -INFINITY : x < 0 ? NAN : isinf(x) ? 0 : y0(x);
}
RUSH_WORD double rush_bessel_y1(double x)
{
    return x == 0 ? -INFINITY : x < 0 ? NAN : isinf(x) ? 0 : y1(x);
}

/* sum of a_k(v) (sign/x)^k, 10.17.1: for x >= 20 its smallest term is below the rounding error */
RUSH_WORD_STATIC double hankel_sum(double v, double x, double sign)
{
    double term = 1, sum = 1, before = INFINITY;
    for (int k = 1; k < 60; k++) {
        double odd = 2 * k - 1;
        term *= sign * (4 * v * v - odd * odd) / (8 * k * x);
        if (fabs(term) >= before || fabs(term) < EPS) break;
        sum += term;
        before = fabs(term);
    }
    return sum;
}

/* I_v for v = 0, 1 by its power series, 10.25.2 */
RUSH_WORD_STATIC double bessel_i_series(int v, double x)
{
    double w = x * x / 4, term = v ? x / 2 : 1, sum = term;
    for (int k = 1; fabs(term) > fabs(sum) * EPS; k++) sum += term *= w / ((double)k * (k + v));
    return sum;
}

RUSH_WORD double rush_bessel_i0e(double x)
{
    double a = fabs(x);
    if (isinf(a)) return 0;
    return a < 20 ? exp(-a) * bessel_i_series(0, a) : hankel_sum(0, a, -1) / sqrt(2 * PI * a);
}

RUSH_WORD double rush_bessel_i1e(double x)
{
    double a = fabs(x);
    if (isinf(a)) return 0;
    double r = a < 20 ? exp(-a) * bessel_i_series(1, a) : hankel_sum(1, a, -1) / sqrt(2 * PI * a);
    return x < 0 ? -r : r;
}

RUSH_WORD double rush_bessel_i0(double x)
{
    double a = fabs(x);
    if (a < 20) return bessel_i_series(0, a);
    return isinf(a) ? INFINITY : rush_bessel_i0e(a) * exp(a / 2) * exp(a / 2);
}

RUSH_WORD double rush_bessel_i1(double x)
{
    double a = fabs(x);
    if (a < 20) return bessel_i_series(1, x);
    return isinf(a) ? x : rush_bessel_i1e(x) * exp(a / 2) * exp(a / 2);
}

/* exp(x) K_v(x) for x > 2: the integral 10.32.9 by the trapezoidal rule, the asymptotic series beyond 20 */
RUSH_WORD_STATIC double bessel_k_scaled(double v, double x)
{
    if (x > 20) return hankel_sum(v, x, 1) * sqrt(PI / (2 * x));
    const double h = 0.125;
    double sum = 0.5;
    for (int i = 1; i < 200; i++) {
        double t = i * h, s = sinh(t / 2), f = exp(-2 * x * s * s) * cosh(v * t);
        sum += f;
        if (f < sum * EPS) break;
    }
    return sum * h;
}

/* K_0 and K_1 for x <= 2: 10.31.1, 10.31.2 */
RUSH_WORD_STATIC double bessel_k_series(int v, double x)
{
    double w = x * x / 4, l = log(x / 2), term = 1, psi = v ? 1 - 2 * EULER : -EULER, sum = psi;
    for (int k = 1; term > EPS; k++) {
        term *= w / ((double)k * (k + v));
        psi += v ? 1. / k + 1. / (k + 1) : 1. / k;
        sum += term * psi;
    }
    return v ? 1 / x + l * bessel_i_series(1, x) - x / 4 * sum : sum - l * bessel_i_series(0, x);
}

RUSH_WORD double rush_bessel_k0e(double x)
{
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    return x <= 2 ? exp(x) * bessel_k_series(0, x) : bessel_k_scaled(0, x);
}

RUSH_WORD double rush_bessel_k1e(double x)
{
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    return x <= 2 ? exp(x) * bessel_k_series(1, x) : bessel_k_scaled(1, x);
}

RUSH_WORD double rush_bessel_k0(double x)
{
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    return x <= 2 ? bessel_k_series(0, x) : exp(-x) * bessel_k_scaled(0, x);
}

RUSH_WORD double rush_bessel_k1(double x)
{
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    return x <= 2 ? bessel_k_series(1, x) : exp(-x) * bessel_k_scaled(1, x);
}

RUSH_WORD double rush_spherical_j0(double x)
{
    if (isinf(x)) return 0;
    double w = x * x;
    if (fabs(x) < 0.5) return 1 - w / 6 * (1 - w / 20 * (1 - w / 42 * (1 - w / 72 * (1 - w / 110))));
    return sin(x) / x;
}

/* Ai and its derivative at -8, -7, ... 2: their Taylor series, of y'' = xy, reach half a unit to either side and do not cancel. */
RUSH_WORD_STATIC double airy_ai_near(double x)
{
    static const double at[11][2] = {
        {-0.0527050503563862026, 0.935560938198306551}, {0.184280835250505637, -0.771008168410126548},
        {-0.329145173629823105, 0.345935487281342895}, {0.35076100902411432, 0.327192818554443137},
        {-0.0702655329492895151, -0.79062857536858138}, {-0.378814293677658074, 0.314583769216598814},
        {0.227407428201685576, 0.618259020741691041}, {0.535560883292352119, -0.0101605671166452094},
        {0.355028053887817239, -0.258819403792806798}, {0.135292416312881416, -0.159147441296793213},
        {0.0349241304232743791, -0.0530903844336536317}};
    const int nearest = (int)rint(x);
    double h = x - nearest, before = 0, a = at[nearest + 8][0], b = at[nearest + 8][1], sum = a + b * h, power = h;
    for (int k = 0; k < 24; k++) { /* coefficients k - 1, k, k + 1 give that of k + 2 */
        const double next = (nearest * a + before) / ((k + 1) * (k + 2));
        before = a, a = b, b = next;
        power *= h;
        sum += next * power;
    }
    return sum;
}

RUSH_WORD double rush_airy_ai(double x)
{
    double zeta = 2. / 3 * fabs(x) * sqrt(fabs(x));
    if (isnan(x)) return x;
    if (isinf(x)) return x > 0 ? 0 : NAN;
    if (x > 1.5) return sqrt(x / 3) / PI * exp(-zeta) * bessel_k_scaled(1. / 3, zeta); /* 9.6.2 */
    if (x > -8) return airy_ai_near(x);
    double even = 0, odd = 0, u = 1; /* 9.7.9 */
    for (int k = 0; k < 24; k++) {
        double sign = k & 2 ? -1 : 1, old = fabs(u);
        if (k & 1) odd += sign * u;
        else even += sign * u;
        u *= (6. * k + 1) * (6. * k + 3) * (6. * k + 5) / (216. * (k + 1) * (2. * k + 1)) / zeta;
        if (fabs(u) > old || fabs(u) < EPS) break;
    }
    return (sin(zeta + PI / 4) * even - cos(zeta + PI / 4) * odd) / (SQRT_PI * sqrt(sqrt(-x)));
}

/* ---- orthogonal polynomials, by their three-term recurrences (table 18.9.1) ---- */

/* Above this degree the recurrences would run for seconds, and asymptotic forms are as good. */
RUSH_WORD_STATIC const double HIGH = 1 << 20;

RUSH_WORD_STATIC bool even(double n) { return fmod(trunc(n), 2.) == 0; }
RUSH_WORD_STATIC int64_t degree(double n) { return (int64_t)fmin(n, 1e18); }

/* p1, then p(k+1) = 2 x p(k) - p(k-1) */
RUSH_WORD_STATIC double chebyshev(double x, double n, double p1)
{
    double before = 1, p = p1;
    int64_t m = degree(n);
    if (m < 0) return 0;
    if (m == 0) return 1;
    if (n > HIGH && fabs(x) > 1) { /* powers of the recurrence's two roots, exp(t) and exp(-t) for x = cosh(t) */
        double t = acosh(fabs(x)), sign = x > 0 || even(n) ? 1 : -1, a = ((x > 0 ? p1 : -p1) - exp(-t)) / (2 * sinh(t));
        return sign * (a * exp(trunc(n) * t) + (1 - a) * exp(-trunc(n) * t));
    }
    for (int64_t k = 1; k < m && isfinite(p); k++) {
        double next = 2 * x * p - before;
        before = p, p = next;
    }
    return p;
}

RUSH_WORD double rush_chebyshev_polynomial_t(double x, double n)
{
    if (isnan(x) || isnan(n)) return NAN;
    if (fabs(x) == 1 && n >= 0) return x > 0 || even(n) ? 1 : -1;
    return n > 6 && fabs(x) < 1 ? cos(trunc(n) * acos(x)) : chebyshev(x, n, x);
}

RUSH_WORD double rush_chebyshev_polynomial_u(double x, double n)
{
    if (isnan(x) || isnan(n)) return NAN;
    if (fabs(x) == 1 && n >= 0) return (x > 0 || even(n) ? 1 : -1) * (trunc(n) + 1);
    double t = acos(x);
    return n > 8 && fabs(x) < 1 && sin(t) != 0 ? sin((trunc(n) + 1) * t) / sin(t) : chebyshev(x, n, 2 * x);
}

RUSH_WORD double rush_chebyshev_polynomial_v(double x, double n)
{
    if (isnan(x) || isnan(n)) return NAN;
    if (fabs(x) == 1 && n >= 0) return x > 0 ? 1 : (even(n) ? 1 : -1) * (2 * trunc(n) + 1);
    double t = acos(x);
    return n > 8 && fabs(x) < 1 ? cos((trunc(n) + 0.5) * t) / cos(t / 2) : chebyshev(x, n, 2 * x - 1);
}

RUSH_WORD double rush_chebyshev_polynomial_w(double x, double n)
{
    if (isnan(x) || isnan(n)) return NAN;
    if (fabs(x) == 1 && n >= 0) return x > 0 ? 2 * trunc(n) + 1 : even(n) ? 1 : -1;
    double t = acos(x);
    return n > 8 && fabs(x) < 1 ? sin((trunc(n) + 0.5) * t) / sin(t / 2) : chebyshev(x, n, 2 * x + 1);
}

RUSH_WORD double rush_shifted_chebyshev_polynomial_t(double x, double n)
{
    return rush_chebyshev_polynomial_t(2 * x - 1, n);
}
RUSH_WORD double rush_shifted_chebyshev_polynomial_u(double x, double n)
{
    return rush_chebyshev_polynomial_u(2 * x - 1, n);
}
RUSH_WORD double rush_shifted_chebyshev_polynomial_v(double x, double n)
{
    return rush_chebyshev_polynomial_v(2 * x - 1, n);
}
RUSH_WORD double rush_shifted_chebyshev_polynomial_w(double x, double n)
{
    return rush_chebyshev_polynomial_w(2 * x - 1, n);
}

RUSH_WORD double rush_hermite_polynomial_h(double x, double n)
{
    if (isnan(x) || isnan(n)) return NAN;
    double before = 1, p = 2 * x;
    int64_t m = degree(n);
    if (m <= 0) return m == 0;
    for (int64_t k = 1; k < m && isfinite(p); k++) {
        double next = 2 * x * p - 2 * (double)k * before;
        before = p, p = next;
    }
    return p;
}

RUSH_WORD double rush_hermite_polynomial_he(double x, double n)
{
    if (isnan(x) || isnan(n)) return NAN;
    double before = 1, p = x;
    int64_t m = degree(n);
    if (m <= 0) return m == 0;
    for (int64_t k = 1; k < m && isfinite(p); k++) {
        double next = x * p - (double)k * before;
        before = p, p = next;
    }
    return p;
}

RUSH_WORD double rush_laguerre_polynomial_l(double x, double n)
{
    if (isnan(x) || isnan(n)) return NAN;
    double before = 1, p = 1 - x;
    int64_t m = degree(n);
    if (m <= 0) return m == 0;
    if (x == 0) return 1;
    double v = 4 * trunc(n) + 2, u = fabs(x) / v, root = sqrt(u);
    if (n > HIGH && x < v / 2) { /* 18.15.22 */
        double turn = x > 0 ? (root * sqrt(1 - u) + asin(root)) / 2 : (root * sqrt(1 + u) + asinh(root)) / 2;
        double front = sqrt(turn / (root * sqrt(x > 0 ? 1 - u : 1 + u))), y = v * turn;
        return x > 0 ? front * exp(x / 2) * rush_bessel_j0(y) : front * exp(x / 2 + y + log(rush_bessel_i0e(y)));
    }
    for (int64_t k = 1; k < m && isfinite(p); k++) {
        double next = ((2 * (double)k + 1 - x) * p - (double)k * before) / ((double)k + 1);
        before = p, p = next;
    }
    return p;
}

RUSH_WORD double rush_legendre_polynomial_p(double x, double n)
{
    if (isnan(x) || isnan(n)) return NAN;
    double before = 1, p = x;
    int64_t m = degree(n);
    if (m <= 0) return m == 0;
    if (fabs(x) == 1) return x > 0 || even(n) ? 1 : -1;
    if (n > HIGH) { /* Hilb's formula, 18.15.12, and the same beyond 1 */
        double t = fabs(x) < 1 ? acos(fabs(x)) : acosh(fabs(x)), y = (trunc(n) + 0.5) * t, sign = x > 0 || even(n) ? 1 : -1;
        return sign * (fabs(x) < 1 ? sqrt(t / sin(t)) * rush_bessel_j0(y) : sqrt(t / sinh(t)) * exp(y + log(rush_bessel_i0e(y))));
    }
    for (int64_t k = 1; k < m && isfinite(p); k++) {
        double next = ((2 * (double)k + 1) * x * p - (double)k * before) / ((double)k + 1);
        before = p, p = next;
    }
    return p;
}
