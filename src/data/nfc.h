/* nfc.h - texts in Unicode's normal form C: what can be written as one character is. */
#ifndef RUSH_DATA_NFC_H
#define RUSH_DATA_NFC_H

#include "base/base.h"

/* The n bytes in that form, freed by rush_free(); bytes that are no UTF-8 stay as they are. NULL without an error: they have it already. */
char *rush_nfc(const char *text, size_t n, size_t *made);

#endif
