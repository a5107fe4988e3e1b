/* The events of the provider; its name takes the place of `bench_provider`. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench_provider

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"

#if !defined(BENCH_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_PROVIDER_H

#include <stdint.h>
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench_provider, three,
	LTTNG_UST_TP_ARGS(uint64_t, one, uint64_t, two, uint64_t, three),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint64_t, one, one)
		lttng_ust_field_integer(uint64_t, two, two)
		lttng_ust_field_integer(uint64_t, three, three)))

LTTNG_UST_TRACEPOINT_EVENT(bench_provider, text,
	LTTNG_UST_TP_ARGS(const char *, text),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)))

LTTNG_UST_TRACEPOINT_EVENT(bench_provider, empty, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

LTTNG_UST_TRACEPOINT_EVENT(bench_provider, entry,
	LTTNG_UST_TP_ARGS(uint64_t, id),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, id, id)))

LTTNG_UST_TRACEPOINT_EVENT(bench_provider, exit, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
