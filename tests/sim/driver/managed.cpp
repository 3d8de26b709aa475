// Hints about managed memory: advice, prefetches, and what is told of them. Managed memory is host memory
// here wherever it "lies", so that hints change nothing but what is told and what counts against its GPU:
// they are checked, kept by page, and a prefetch takes its place in its stream.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "batch.h"
#include "driver.h"
#include "queue.h"

namespace gpufence::sim {
namespace {

constexpr uintptr_t kPage = 4096;

bool operator==(const CUmemLocation& a, const CUmemLocation& b) {
  return a.type == b.type && a.id == b.id;
}
constexpr CUmemLocation kNowhere = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};

struct Advice {
  bool read_mostly = false;
  uint64_t accessed_by = 0;  // a bit an ordinal
  bool accessed_by_host = false;
  CUmemLocation preferred = kNowhere, prefetched = kNowhere;
};

// Of the allocations with any advice, by their buffer id: from each key on up to the next one.
using Pages = std::map<uintptr_t, Advice>;
struct Table {
  std::mutex lock;
  std::unordered_map<uint64_t, Pages> of;
};
Table& table() {
  static auto* made = new Table;  // leaked, as all state that exit handlers reach
  return *made;
}

struct Range {
  uint64_t id = 0;
  uintptr_t begin = 0, end = 0;  // whole pages
};

CUresult range_of(CUdeviceptr address, size_t count, Range* out) {
  Found found;
  if (count == 0 || !find(address, found) || !found.managed) return CUDA_ERROR_INVALID_VALUE;
  if (count > found.base + found.bytes - address) return CUDA_ERROR_INVALID_VALUE;
  *out = {found.id, address / kPage * kPage, (address + count + kPage - 1) / kPage * kPage};
  return CUDA_SUCCESS;
}

CUresult check(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return driver().device(location.id) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUmemLocation location_of(CUdevice device) {
  return device == CU_DEVICE_CPU ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
                                 : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device};
}

template <class Change>
void change(const Range& range, Change apply) {
  std::lock_guard<std::mutex> held(table().lock);
  Pages& pages = table().of[range.id];
  if (pages.empty()) pages[0] = Advice{};
  for (const uintptr_t cut : {range.begin, range.end})
    pages.emplace(cut, std::prev(pages.upper_bound(cut))->second);
  for (auto at = pages.find(range.begin); at != pages.end() && at->first < range.end; ++at) apply(at->second);
}

// Whether all pages of the range agree, and on what.
template <class Value, class Read>
bool agree(const Range& range, Read read, Value* out) {
  std::lock_guard<std::mutex> held(table().lock);
  const auto known = table().of.find(range.id);
  if (known == table().of.end()) {
    *out = read(Advice{});
    return true;
  }
  auto at = std::prev(known->second.upper_bound(range.begin));
  *out = read(at->second);
  for (++at; at != known->second.end() && at->first < range.end; ++at) {
    if (!(read(at->second) == *out)) return false;
  }
  return true;
}

CUresult advise(CUdeviceptr address, size_t count, CUmem_advise advice, CUmemLocation location) {
  Range range;
  if (const CUresult bad = range_of(address, count, &range); bad != CUDA_SUCCESS) return bad;
  const bool located = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                       advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (located)
    if (const CUresult bad = check(location); bad != CUDA_SUCCESS) return bad;
  const bool host = location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  const uint64_t bit = located && !host ? uint64_t{1} << (location.id & 63) : 0;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      change(range, [&](Advice& it) { it.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      change(range, [&](Advice& it) { it.preferred = location; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      change(range, [](Advice& it) { it.preferred = kNowhere; });
      return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      change(range, [&](Advice& it) {
        const bool set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
        if (host)
          it.accessed_by_host = set;
        else
          it.accessed_by = set ? it.accessed_by | bit : it.accessed_by & ~bit;
      });
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

struct Prefetch {
  CUdeviceptr address;
  size_t count;
  Range range;
  CUmemLocation location;
};

void start_prefetch(Stream& stream, const Prefetch& it) {
  change(it.range, [&](Advice& advice) { advice.prefetched = it.location; });
  const Device* to =
      it.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? driver().device(it.location.id) : nullptr;
  enqueue(stream, [address = it.address, count = it.count, to] {
    migrate(address, count, to);
    return CUDA_SUCCESS;
  });
}

CUresult prefetch(Context& context, bool per_thread, CUdeviceptr address, size_t count,
                  CUmemLocation location, unsigned flags, CUstream handle) {
  Range range;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = range_of(address, count, &range); bad != CUDA_SUCCESS) return bad;
  if (const CUresult bad = check(location); bad != CUDA_SUCCESS) return bad;
  Stream* stream = nullptr;
  if (const CUresult bad = stream_of(handle, per_thread, context, &stream); bad != CUDA_SUCCESS) return bad;
  start_prefetch(*stream, {address, count, range, location});
  return CUDA_SUCCESS;
}

// Each operation goes where the entry of `locations` says that is for it. A batch without prefetches only
// discards: what is discarded may be anything until it is written, also what it was.
CUresult batch(Context& context, bool per_thread, const CUdeviceptr* addresses, const size_t* sizes,
               size_t count, const CUmemLocation* locations, const size_t* first_of, size_t location_count,
               bool prefetches, unsigned long long flags, CUstream handle) {
  if (addresses == nullptr || sizes == nullptr || count == 0 || flags != 0 || is_legacy(handle, per_thread))
    return CUDA_ERROR_INVALID_VALUE;
  if (prefetches && (locations == nullptr || !in_steps(first_of, location_count, count)))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<Prefetch> all;
  size_t entry = 0;
  for (size_t i = 0; i < count; ++i) {
    Prefetch one{addresses[i], sizes[i], {}, kNowhere};
    if (const CUresult bad = range_of(addresses[i], sizes[i], &one.range); bad != CUDA_SUCCESS) return bad;
    if (prefetches) {
      if (entry + 1 < location_count && first_of[entry + 1] == i) ++entry;
      one.location = locations[entry];
      if (const CUresult bad = check(one.location); bad != CUDA_SUCCESS) return bad;
    }
    all.push_back(one);
  }
  Stream* stream = nullptr;
  if (const CUresult bad = stream_of(handle, per_thread, context, &stream); bad != CUDA_SUCCESS) return bad;
  if (!prefetches) enqueue(*stream, [] { return CUDA_SUCCESS; });
  if (prefetches)
    for (const Prefetch& one : all) start_prefetch(*stream, one);
  return CUDA_SUCCESS;
}

// Which streams may use the memory: on GPUs with concurrent managed access, as all are here, a promise of the
// program's without effect.
CUresult attach(Context& context, bool per_thread, CUstream handle, CUdeviceptr address, size_t length,
                unsigned flags) {
  Stream* stream = nullptr;
  if (const CUresult bad = stream_of(handle, per_thread, context, &stream); bad != CUDA_SUCCESS) return bad;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  Found found;
  if (!find(address, found) || !found.managed || found.base != address ||
      (length != 0 && length != found.bytes))
    return CUDA_ERROR_INVALID_VALUE;
  // "It is illegal to attach singly to the NULL stream, because the NULL stream is a virtual global stream
  // and not a specific stream."
  if (flags == CU_MEM_ATTACH_SINGLE && stream == &context.legacy) return CUDA_ERROR_INVALID_VALUE;
  enqueue(*stream, [] { return CUDA_SUCCESS; });
  return CUDA_SUCCESS;
}

CUresult attribute(void* data, size_t bytes, CUmem_range_attribute which, const Range& range) {
  if (data == nullptr || bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  int* out = static_cast<int*>(data);
  if (which == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
    int* const end = out + bytes / sizeof(int);
    std::fill(out, end, CU_DEVICE_INVALID);
    bool value = false;
    if (agree(
            range, [](const Advice& it) { return it.accessed_by_host; }, &value) &&
        value)
      *out++ = CU_DEVICE_CPU;
    for (int ordinal = 0; ordinal < 64 && out != end; ++ordinal) {
      if (agree(
              range, [&](const Advice& it) { return (it.accessed_by >> ordinal & 1) != 0; }, &value) &&
          value)
        *out++ = ordinal;
    }
    return CUDA_SUCCESS;
  }
  if (bytes != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) {
    bool value = false;
    *out = agree(
               range, [](const Advice& it) { return it.read_mostly; }, &value) &&
                   value
               ? 1
               : 0;
    return CUDA_SUCCESS;
  }
  const bool prefetched = which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION ||
                          which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE ||
                          which == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID;
  CUmemLocation location = kNowhere;
  if (!agree(
          range, [&](const Advice& it) { return prefetched ? it.prefetched : it.preferred; }, &location))
    location = kNowhere;
  switch (which) {
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      *out = location.type == CU_MEM_LOCATION_TYPE_HOST     ? CU_DEVICE_CPU
             : location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id
                                                            : CU_DEVICE_INVALID;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      *out = location.type;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      *out = location.id;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

void forget_advice(uint64_t id) {
  std::lock_guard<std::mutex> held(table().lock);
  table().of.erase(id);
}

}  // namespace gpufence::sim

using namespace gpufence::sim;

CUresult cuMemAdvise(CUdeviceptr address, size_t count, CUmem_advise advice, CUdevice device) {
  return in_context(__func__, [&](Context&) { return advise(address, count, advice, location_of(device)); });
}
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t count, CUmem_advise advice, CUmemLocation location) {
  return in_context(__func__, [&](Context&) { return advise(address, count, advice, location); });
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t count, CUdevice device, CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return prefetch(context, false, address, count, location_of(device), 0, stream);
  });
}
CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t count, CUdevice device, CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return prefetch(context, true, address, count, location_of(device), 0, stream);
  });
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return prefetch(context, false, address, count, location, flags, stream);
  });
}
CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t count, CUmemLocation location,
                                    unsigned int flags, CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return prefetch(context, true, address, count, location, flags, stream);
  });
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                 CUmemLocation* locations, size_t* first_of, size_t location_count,
                                 unsigned long long flags, CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return batch(context, false, addresses, sizes, count, locations, first_of, location_count, true, flags,
                 stream);
  });
}
CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count, unsigned long long flags,
                                CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return batch(context, false, addresses, sizes, count, nullptr, nullptr, 0, false, flags, stream);
  });
}
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                           CUmemLocation* locations, size_t* first_of, size_t location_count,
                                           unsigned long long flags, CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return batch(context, false, addresses, sizes, count, locations, first_of, location_count, true, flags,
                 stream);
  });
}
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t length, unsigned int flags) {
  return in_context(__func__,
                    [&](Context& context) { return attach(context, false, stream, address, length, flags); });
}
CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                      CUmemLocation* locations, size_t* first_of, size_t location_count,
                                      unsigned long long flags, CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return batch(context, true, addresses, sizes, count, locations, first_of, location_count, true, flags,
                 stream);
  });
}
CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                     unsigned long long flags, CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return batch(context, true, addresses, sizes, count, nullptr, nullptr, 0, false, flags, stream);
  });
}
CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr* addresses, size_t* sizes, size_t count,
                                                CUmemLocation* locations, size_t* first_of,
                                                size_t location_count, unsigned long long flags,
                                                CUstream stream) {
  return in_context(__func__, [&](Context& context) {
    return batch(context, true, addresses, sizes, count, locations, first_of, location_count, true, flags,
                 stream);
  });
}
CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address, size_t length,
                                     unsigned int flags) {
  return in_context(__func__,
                    [&](Context& context) { return attach(context, true, stream, address, length, flags); });
}

CUresult cuMemRangeGetAttribute(void* data, size_t bytes, CUmem_range_attribute which, CUdeviceptr address,
                                size_t count) {
  return in_context(__func__, [&](Context&) {
    Range range;
    const CUresult bad = range_of(address, count, &range);
    return bad != CUDA_SUCCESS ? bad : attribute(data, bytes, which, range);
  });
}
CUresult cuMemRangeGetAttributes(void** data, size_t* bytes, CUmem_range_attribute* which, size_t number,
                                 CUdeviceptr address, size_t count) {
  return in_context(__func__, [&](Context&) {
    Range range;
    if (data == nullptr || bytes == nullptr || which == nullptr || number == 0)
      return CUDA_ERROR_INVALID_VALUE;
    CUresult result = range_of(address, count, &range);
    for (size_t k = 0; k < number && result == CUDA_SUCCESS; ++k)
      result = attribute(data[k], bytes[k], which[k], range);
    return result;
  });
}
