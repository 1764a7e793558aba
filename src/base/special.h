/* special.h - special functions of real numbers, in double. Outside their domain they are NaN, at poles infinite. */
#ifndef RUSH_SPECIAL_H
#define RUSH_SPECIAL_H

#ifndef RUSH_WORD /* what functions and numbers begin with: src/cuda compiles them for devices */
#define RUSH_WORD
#define RUSH_WORD_STATIC static
#endif

RUSH_WORD double rush_erfinv(double x);
RUSH_WORD double rush_erfcx(double x);              /* exp(x^2) erfc(x)                       */
RUSH_WORD double rush_normal_quantile(double p);    /* inverse of the normal distribution     */
RUSH_WORD double rush_log_normal_cdf(double x);

RUSH_WORD double rush_log_gamma(double x);          /* log |gamma(x)|, from any thread        */
RUSH_WORD double rush_digamma(double x);
RUSH_WORD double rush_polygamma(double n, double x); /* n-th derivative of digamma            */
RUSH_WORD double rush_zeta(double s, double q);     /* Hurwitz: sum of (k + q)^-s, k >= 0     */
RUSH_WORD double rush_gamma_p(double a, double x);  /* regularised incomplete gamma, lower    */
RUSH_WORD double rush_gamma_q(double a, double x);  /* and upper                              */

RUSH_WORD double rush_bessel_j0(double x);
RUSH_WORD double rush_bessel_j1(double x);
RUSH_WORD double rush_bessel_y0(double x);
RUSH_WORD double rush_bessel_y1(double x);
RUSH_WORD double rush_bessel_i0(double x);
RUSH_WORD double rush_bessel_i1(double x);
RUSH_WORD double rush_bessel_i0e(double x);         /* exp(-|x|) i0(x)                        */
RUSH_WORD double rush_bessel_i1e(double x);
RUSH_WORD double rush_bessel_k0(double x);
RUSH_WORD double rush_bessel_k1(double x);
RUSH_WORD double rush_bessel_k0e(double x);         /* exp(x) k0(x)                           */
RUSH_WORD double rush_bessel_k1e(double x);
RUSH_WORD double rush_spherical_j0(double x);       /* sin(x) / x                             */
RUSH_WORD double rush_airy_ai(double x);

/* Orthogonal polynomials of degree trunc(n); 0 for negative degrees. */
RUSH_WORD double rush_chebyshev_polynomial_t(double x, double n);
RUSH_WORD double rush_chebyshev_polynomial_u(double x, double n);
RUSH_WORD double rush_chebyshev_polynomial_v(double x, double n);
RUSH_WORD double rush_chebyshev_polynomial_w(double x, double n);
RUSH_WORD double rush_shifted_chebyshev_polynomial_t(double x, double n); /* at 2x - 1 */
RUSH_WORD double rush_shifted_chebyshev_polynomial_u(double x, double n);
RUSH_WORD double rush_shifted_chebyshev_polynomial_v(double x, double n);
RUSH_WORD double rush_shifted_chebyshev_polynomial_w(double x, double n);
RUSH_WORD double rush_hermite_polynomial_h(double x, double n);
RUSH_WORD double rush_hermite_polynomial_he(double x, double n);
RUSH_WORD double rush_laguerre_polynomial_l(double x, double n);
RUSH_WORD double rush_legendre_polynomial_p(double x, double n);

#endif
