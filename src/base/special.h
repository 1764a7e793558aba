/* special.h - special functions of real numbers, in double. Outside their domain they are NaN, at poles infinite. */
#ifndef RUSH_SPECIAL_H
#define RUSH_SPECIAL_H

double rush_erfinv(double x);
double rush_erfcx(double x);              /* exp(x^2) erfc(x)                       */
double rush_normal_quantile(double p);    /* inverse of the normal distribution     */
double rush_log_normal_cdf(double x);

double rush_log_gamma(double x);          /* log |gamma(x)|, from any thread        */
double rush_digamma(double x);
double rush_polygamma(double n, double x); /* n-th derivative of digamma            */
double rush_zeta(double s, double q);     /* Hurwitz: sum of (k + q)^-s, k >= 0     */
double rush_gamma_p(double a, double x);  /* regularised incomplete gamma, lower    */
double rush_gamma_q(double a, double x);  /* and upper                              */

double rush_bessel_j0(double x);
double rush_bessel_j1(double x);
double rush_bessel_y0(double x);
double rush_bessel_y1(double x);
double rush_bessel_i0(double x);
double rush_bessel_i1(double x);
double rush_bessel_i0e(double x);         /* exp(-|x|) i0(x)                        */
double rush_bessel_i1e(double x);
double rush_bessel_k0(double x);
double rush_bessel_k1(double x);
double rush_bessel_k0e(double x);         /* exp(x) k0(x)                           */
double rush_bessel_k1e(double x);
double rush_spherical_j0(double x);       /* sin(x) / x                             */
double rush_airy_ai(double x);

/* Orthogonal polynomials of degree trunc(n); 0 for negative degrees. */
double rush_chebyshev_polynomial_t(double x, double n);
double rush_chebyshev_polynomial_u(double x, double n);
double rush_chebyshev_polynomial_v(double x, double n);
double rush_chebyshev_polynomial_w(double x, double n);
double rush_shifted_chebyshev_polynomial_t(double x, double n); /* at 2x - 1 */
double rush_shifted_chebyshev_polynomial_u(double x, double n);
double rush_shifted_chebyshev_polynomial_v(double x, double n);
double rush_shifted_chebyshev_polynomial_w(double x, double n);
double rush_hermite_polynomial_h(double x, double n);
double rush_hermite_polynomial_he(double x, double n);
double rush_laguerre_polynomial_l(double x, double n);
double rush_legendre_polynomial_p(double x, double n);

#endif
