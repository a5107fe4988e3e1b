/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Filters of events with records of their own, which are made on the stack: the record is copied to where
 * bytes can be reached by a number.
 */
#ifndef TRACEBRAID_RECORDS_BPF_H
#define TRACEBRAID_RECORDS_BPF_H

struct filtered_record {
	__u8 bytes[ABI_RECORD_BYTES];
	struct walk walk;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ABI_SLOTS);
	__type(key, __u32);
	__type(value, struct filtered_record);
} filtered_records SEC(".maps");

#define FILTER_BYTES ABI_RECORD_BYTES
#define FILTER_WALK __builtin_offsetof(struct filtered_record, walk)
#include "filter.bpf.h"

static __always_inline bool is_record_wanted(enum abi_slot slot, const struct header *record,
					    const __u32 size)
{
	__u32 index = slot;
	struct filtered_record *copy = bpf_map_lookup_elem(&filtered_records, &index);

	_Static_assert(ABI_RECORD_BYTES >= sizeof(struct switch_record), "room for every record");
	if (!copy)
		return true;
	__builtin_memcpy(copy->bytes, record, size);
	return filter_code(copy, record->entry);
}

#endif
