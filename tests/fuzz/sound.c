/* sound.c - WAV and FLAC, by libsndfile. */
#include "fuzz.h"

FUZZ({
    int rate;
    fuzz_touch(rush_sound_decode(data, size, &rate));
})
