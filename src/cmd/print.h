/* print.h - what the printer of generated text consists of beside print.c. */
#ifndef RUSH_PRINT_H
#define RUSH_PRINT_H

#include "op/op.h"

void print_stable(void); /* the functions of AOTInductor's programs */
void print_at(void); /* ATen's functions and methods for C++ */

#endif
