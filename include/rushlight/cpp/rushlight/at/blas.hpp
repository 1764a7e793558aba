/* blas.hpp - at::native::cpublas::gemm: products of matrices in plain memory, column by column as BLAS has them. */
#ifndef RUSHLIGHT_AT_BLAS_HPP
#define RUSHLIGHT_AT_BLAS_HPP

#include "library.hpp"
#include "aten.hpp"

namespace at::native {

enum class TransposeType { NoTranspose, Transpose, ConjTranspose };

namespace cpublas {

/* c = alpha a b + beta c, of m rows and n columns; c is not read where beta is 0. */
template <class T>
void gemm(TransposeType transa, TransposeType transb, int64_t m, int64_t n, int64_t k, at::opmath_type<T> alpha, const T *a, int64_t lda, const T *b, int64_t ldb, at::opmath_type<T> beta, T *c,
          int64_t ldc)
{
    auto matrix = [](const T *data, TransposeType how, int64_t rows, int64_t columns, int64_t ld) {
        bool flat = how == TransposeType::NoTranspose;
        Tensor x = at::from_blob(const_cast<T *>(data), {rows, columns}, {flat ? 1 : ld, flat ? ld : 1}, CppTypeToScalarType<T>::value);
        return how == TransposeType::ConjTranspose ? x.conj() : x;
    };
    NoGradGuard unrecorded;
    matrix(c, TransposeType::NoTranspose, m, n, ldc).addmm_(matrix(a, transa, m, k, lda), matrix(b, transb, k, n, ldb), beta, alpha);
}

} // namespace cpublas
} // namespace at::native
#endif
