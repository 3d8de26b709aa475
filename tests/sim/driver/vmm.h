// Virtual memory management: addresses that are reserved, memory that is created, and which lies where. A
// mapping is host memory mapped at the reserved address, so that one allocation may stand at several.
#pragma once
#include <cstdint>
#include <vector>

#include "driver.h"

namespace gpufence::sim {

namespace ptx {
struct Region;
}  // namespace ptx

// The mapping that covers the address, as find() tells it; `beyond`: bytes mapped behind it without a gap.
bool find_mapped(uintptr_t address, Found& found);
// Whether that GPU's work may touch what is mapped there; nullptr: whether any GPU's may.
bool mapped_for(const Device* device, uintptr_t address);
void add_mapped_regions(const Context& context, std::vector<ptx::Region>& regions);
uint64_t mapping_changes();
// Of sparse arrays. Whether that is memory of the device for tiles (CU_MEM_CREATE_USAGE_TILE_POOL) that has
// these bytes; if so it is kept for `times` more mappings, which let_go_of_tiles() ends.
bool keep_tiles(CUmemGenericAllocationHandle memory, const Device* device, uint64_t offset, uint64_t bytes,
                unsigned times);
void let_go_of_tiles(CUmemGenericAllocationHandle memory, unsigned times);
// Lays these bytes of kept memory at an address of one's own; false: the host has no more mappings.
bool lay_tiles(CUmemGenericAllocationHandle memory, uint64_t offset, uintptr_t address, uint64_t bytes);
// Counts memory as given back that was released here and that no other process holds any longer.
void settle_lent_memory();

}  // namespace gpufence::sim
