// See inside.h.
#include "inside.h"

#include "access.h"
#include "queue.h"

namespace gpufence::sim {

constinit const InsideTable kInside = {
    sizeof(InsideTable),
    [](void* stream, int code) {
      enqueue(*static_cast<Stream*>(stream), [code] { return static_cast<CUresult>(code); });
    },
    [](void* context, uint64_t address) {
      for (const ptx::Region& region : regions_of(*static_cast<Context*>(context)))
        if (address >= region.begin && address < region.end) return region.writable ? 2 : 1;
      return 0;
    },
};

}  // namespace gpufence::sim
