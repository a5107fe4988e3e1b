/* LTTng-UST's way to have the events that the benches measure: loops that Rust calls. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider.h"

/* Whether a session wants the events. */
int is_enabled(void)
{
	return lttng_ust_tracepoint_enabled(bench_provider, three);
}

void three(uint64_t rounds, uint64_t two, uint64_t three)
{
	for (uint64_t one = 0; one < rounds; one++)
		lttng_ust_tracepoint(bench_provider, three, one, two, three);
}

void text(uint64_t rounds, const char *text)
{
	for (uint64_t round = 0; round < rounds; round++)
		lttng_ust_tracepoint(bench_provider, text, text);
}

void empty(uint64_t rounds)
{
	for (uint64_t round = 0; round < rounds; round++)
		lttng_ust_tracepoint(bench_provider, empty);
}

void pair(uint64_t rounds)
{
	for (uint64_t id = 0; id < rounds; id++) {
		lttng_ust_tracepoint(bench_provider, entry, id);
		lttng_ust_tracepoint(bench_provider, exit);
	}
}
