/* A library with demo:plug, guarded by its semaphore. */
#include "usdt.h"

USDT_SEMAPHORE(demo, plug) = 0;

__attribute__((visibility("default"), noinline)) int plug_run(long value)
{
    if (USDT_ENABLED(demo, plug))
        USDT1_GUARDED(demo, plug, value);
    return USDT_ENABLED(demo, plug);
}

__attribute__((visibility("default"), noinline)) int plug_is_up(void)
{
    return USDT_ENABLED(demo, plug);
}
