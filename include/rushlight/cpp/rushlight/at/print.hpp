/* print.hpp - tensors as text for C++ streams: numbers in columns of one width, and the type beneath. */
#ifndef RUSHLIGHT_AT_PRINT_HPP
#define RUSHLIGHT_AT_PRINT_HPP

#include "tensor.hpp"

#include <cmath>
#include <iomanip>

namespace at {
namespace detail {

/* How all numbers of a tensor are written: whole, fixed or with an exponent, this wide, and divided by a common scale. */
struct NumberFormat {
    double scale = 1;
    int width = 0;
    bool fixed = false, scientific = false;

    explicit NumberFormat(const Tensor &x) /* double, contiguous */
    {
        const double *p = x.const_data_ptr<double>(), *end = p + x.numel();
        if (p == end) return;
        bool whole = true, any = false;
        double least = 0, most = 0;
        for (; p < end; ++p) {
            if (!std::isfinite(*p)) continue;
            double size = std::fabs(*p);
            whole &= *p == std::ceil(*p);
            least = any ? std::min(least, size) : size;
            most = any ? std::max(most, size) : size;
            any = true;
        }
        int low = digits(least), high = digits(most);
        if (whole) {
            scientific = high > 9;
            width = scientific ? 11 : high + 1;
        } else if (high - low > 4) {
            scientific = true;
            width = std::abs(high) > 99 || std::abs(low) > 99 ? 12 : 11;
        } else {
            fixed = true;
            if (high > 5 || high < 0) scale = std::pow(10, high - 1);
            width = high > 5 || high <= 0 ? 7 : high + 6;
        }
    }
    void put(std::ostream &out, double number) const
    {
        out.unsetf(std::ios::floatfield);
        if (fixed) out << std::fixed << std::setprecision(4);
        if (scientific) out << std::scientific << std::setprecision(4);
        out << std::setw(width) << number / scale;
    }
    void put_scale(std::ostream &out) const
    {
        out.unsetf(std::ios::floatfield);
        out << std::setprecision(std::numeric_limits<double>::max_digits10) << scale << " *\n";
    }

private:
    static int digits(double size) { return size ? static_cast<int>(std::floor(std::log10(size))) + 1 : 1; }
};

/* As many columns at a time as fit into a line. */
inline void print_matrix(std::ostream &out, const Tensor &x, int64_t line, int64_t indent)
{
    NumberFormat format(x);
    const double *p = x.const_data_ptr<double>();
    int64_t rows = x.size(0), columns = x.size(1), at_once = std::max<int64_t>(1, (line - indent) / (format.width + 1));
    std::string space(static_cast<size_t>(indent), ' ');
    for (int64_t from = 0; from < columns; from += at_once) {
        int64_t to = std::min(columns, from + at_once);
        if (at_once < columns) out << (from ? "\n" : "") << "Columns " << from + 1 << " to " << to << space;
        if (format.scale != 1) format.put_scale(out), out << space;
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = from; j < to; ++j) {
                format.put(out, p[i * columns + j]);
                if (j + 1 < to) out << ' ';
                else out << '\n' << (i + 1 < rows ? space + (format.scale != 1 ? " " : "") : "");
            }
    }
}

/* All matrices of the last two dimensions, the first index changing fastest. */
inline void print_matrices(std::ostream &out, const Tensor &x, int64_t line)
{
    size_t outer = static_cast<size_t>(x.dim() - 2);
    std::vector<int64_t> at(outer, 0);
    for (bool first = true; x.numel(); first = false) {
        Tensor part = x;
        out << (first ? "(" : "\n(");
        for (int64_t i : at) part = part.select(0, i), out << i + 1 << ',';
        out << ".,.) = \n";
        print_matrix(out, part.contiguous(), line, 1);
        size_t d = 0;
        while (d < outer && ++at[d] == x.size(static_cast<int64_t>(d))) at[d++] = 0;
        if (d == outer) return;
    }
}

} // namespace detail

inline std::ostream &print(std::ostream &out, const Tensor &x, int64_t line)
{
    if (!x.defined()) return out << "[ Tensor (undefined) ]";
    std::ios_base::fmtflags flags = out.flags();
    std::streamsize precision = out.precision();
    Tensor plain = x.detach(), dense = x.is_sparse() || x.is_sparse_csr() ? plain.to_dense() : plain;
    Tensor numbers = (dense.is_complex() ? at::real(dense) : dense).to(TensorOptions(kDouble).device(kCPU)).contiguous();
    if (x.dim() == 0) {
        out.unsetf(std::ios::floatfield);
        out << std::setprecision(std::numeric_limits<double>::max_digits10) << *numbers.const_data_ptr<double>() << "\n";
    } else if (x.dim() == 1) {
        detail::NumberFormat format(numbers);
        const double *p = numbers.const_data_ptr<double>();
        if (format.scale != 1) format.put_scale(out);
        for (int64_t i = 0; i < numbers.numel(); ++i) format.put(out, p[i]), out << "\n";
    } else if (x.dim() == 2) {
        if (numbers.numel()) detail::print_matrix(out, numbers, line, 0);
    } else {
        detail::print_matrices(out, numbers, line);
    }
    out.flags(flags);
    out.precision(precision);
    out << "[ " << x.toString() << "{";
    for (int64_t i = 0; i < x.dim(); ++i) out << (i ? "," : "") << x.size(i);
    return out << "} ]";
}
inline std::ostream &operator<<(std::ostream &out, const Tensor &x) { return print(out, x, 80); }
inline void print(const Tensor &x, int64_t line = 80) { print(std::cout, x, line); }

} // namespace at
#endif
