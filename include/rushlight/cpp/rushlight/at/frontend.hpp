/* frontend.hpp - what programs in C++ train with: torch::nn, torch::optim, torch::data, files. */
#ifndef RUSHLIGHT_AT_FRONTEND_HPP
#define RUSHLIGHT_AT_FRONTEND_HPP

#include "all.hpp"
#include "data.hpp"
#include "functional.hpp"
#include "lbfgs.hpp"
#include "rnn.hpp"

#endif
