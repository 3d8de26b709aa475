// Whose memory an address is, and which GPU may reach which. The driver knows both and is asked seldom:
// device memory is handed out in blocks of 2 MiB that belong to one GPU, so an answer holds for the block.
// Freed blocks may go to another GPU; so whoever finds a mismatch asks again before it says so.
#pragma once

#include "hooks/finding.h"

namespace gpufence::hooks {

// The GPU of device memory, interior addresses too; -1: host, managed or no memory at all. May be out of
// date.
[[nodiscard]] int device_of(CUdeviceptr address) noexcept;
// The same, asked of the driver.
[[nodiscard]] int device_of_now(CUdeviceptr address) noexcept;

// Other memory may lie there from now on.
void forget_owners_of(CUdeviceptr address, std::size_t bytes) noexcept;

// Peer access, as contexts enabled it: may `device` touch the memory of `owner`?
[[nodiscard]] bool reaches(int device, int owner) noexcept;
void note_peers(int device, int owner, bool enabled) noexcept;

// Whether kernels of the current context may use the memory, as the driver says: also of a pool or a mapping
// that was opened to this GPU alone.
[[nodiscard]] bool usable_here(CUdeviceptr address) noexcept;

// "peer access 1→0 not enabled (possible)", "… (impossible)"
[[nodiscard]] std::string peer_text(int device, int owner);

// ", allocated at app+0x1a2b (load)", where allocations are counted; else empty.
[[nodiscard]] std::string allocation_text(const Visible& seen, CUdeviceptr address);

}  // namespace gpufence::hooks
