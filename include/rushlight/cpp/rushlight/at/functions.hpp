/* functions.hpp - the functions of namespace at that methods do not need (tensor.hpp has the others): all that make tensors, take
 * lists of them, or write into given ones.
 */
#ifndef RUSHLIGHT_AT_FUNCTIONS_HPP
#define RUSHLIGHT_AT_FUNCTIONS_HPP

#include "tensor.hpp"

namespace at {
#include <rushlight/at/functions.inc>
} // namespace at

#endif
