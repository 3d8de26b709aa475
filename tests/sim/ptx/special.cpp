// Special registers, conversions between address windows, and moves between vectors and scalars.
#include <cstring>
#include <ctime>

#include "control.h"

#include <algorithm>
#include <unordered_map>

namespace gpufence::sim::ptx {

bool special_named(std::string_view name, Special* special, uint32_t* number) {
  static const auto& kNames = *new std::unordered_map<std::string_view, Special>{
      // never destroyed: threads outlive exit()

      {"%tid.x", Special::tid_x},
      {"%tid.y", Special::tid_y},
      {"%tid.z", Special::tid_z},
      {"%ntid.x", Special::ntid_x},
      {"%ntid.y", Special::ntid_y},
      {"%ntid.z", Special::ntid_z},
      {"%ctaid.x", Special::ctaid_x},
      {"%ctaid.y", Special::ctaid_y},
      {"%ctaid.z", Special::ctaid_z},
      {"%nctaid.x", Special::nctaid_x},
      {"%nctaid.y", Special::nctaid_y},
      {"%nctaid.z", Special::nctaid_z},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%nwarpid", Special::nwarpid},
      {"%smid", Special::smid},
      {"%nsmid", Special::nsmid},
      {"%gridid", Special::gridid},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_ge", Special::lanemask_ge},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%clock", Special::clock},
      {"%clock_hi", Special::clock_hi},
      {"%clock64", Special::clock64},
      {"%globaltimer", Special::globaltimer},
      {"%globaltimer_lo", Special::globaltimer_lo},
      {"%globaltimer_hi", Special::globaltimer_hi},
      {"%dynamic_smem_size", Special::dynamic_smem_size},
      {"%total_smem_size", Special::total_smem_size},
      {"%aggr_smem_size", Special::aggr_smem_size},
      {"%current_graph_exec", Special::current_graph_exec},
      {"%clusterid.x", Special::cluster_id_x},
      {"%clusterid.y", Special::cluster_id_y},
      {"%clusterid.z", Special::cluster_id_z},
      {"%nclusterid.x", Special::ncluster_x},
      {"%nclusterid.y", Special::ncluster_y},
      {"%nclusterid.z", Special::ncluster_z},
      {"%cluster_ctaid.x", Special::cluster_ctaid_x},
      {"%cluster_ctaid.y", Special::cluster_ctaid_y},
      {"%cluster_ctaid.z", Special::cluster_ctaid_z},
      {"%cluster_nctaid.x", Special::cluster_nctaid_x},
      {"%cluster_nctaid.y", Special::cluster_nctaid_y},
      {"%cluster_nctaid.z", Special::cluster_nctaid_z},
      {"%cluster_ctarank", Special::cluster_ctarank},
      {"%cluster_nctarank", Special::cluster_nctarank},
      {"%is_explicit_cluster", Special::is_explicit_cluster}};
  *number = 0;
  const auto found = kNames.find(name);
  if (found != kNames.end()) {
    *special = found->second;
    return true;
  }
  // Of the region of kReservedShared bytes, the second half is what cooperative groups take for larger tiles.
  static constexpr std::pair<std::string_view, uint32_t> kReserved[] = {
      {"begin", 0}, {"0", 0}, {"1", kReservedShared / 2}, {"end", kReservedShared}};
  constexpr std::string_view kReservedName = "%reserved_smem_offset_";
  if (name.starts_with(kReservedName)) {
    name.remove_prefix(kReservedName.size());
    *special = name == "cap" ? Special::reserved_smem_cap : Special::reserved_smem_offset;
    for (const auto& [tail, offset] : kReserved) {
      if (name == tail) *number = offset;
    }
    return name == "cap" || std::any_of(std::begin(kReserved), std::end(kReserved),
                                        [&](const auto& known) { return known.first == name; });
  }
  for (const auto& [prefix, kind, count] : {std::tuple{std::string_view("%envreg"), Special::envreg, 32U},
                                            std::tuple{std::string_view("%pm"), Special::pm, 8U}}) {
    if (name.substr(0, prefix.size()) != prefix) continue;
    const std::string_view digits = name.substr(prefix.size());
    if (digits.empty() || digits.size() > 2) continue;
    uint32_t value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') return false;
      value = value * 10 + static_cast<uint32_t>(c - '0');
    }
    if (value >= count) return false;
    *special = kind;
    *number = value;
    return true;
  }
  return false;
}

namespace {

uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

// The same for all lanes of a warp.
uint64_t uniform(const Warp& warp, Special special, uint32_t number) {
  const Launch& launch = *warp.launch->launch;
  const uint32_t* ctaid = warp.block->ctaid;
  const auto& cluster = launch.cluster;
  switch (special) {
    case Special::ntid_x:
      return launch.block[0];
    case Special::ntid_y:
      return launch.block[1];
    case Special::ntid_z:
      return launch.block[2];
    case Special::ctaid_x:
      return ctaid[0];
    case Special::ctaid_y:
      return ctaid[1];
    case Special::ctaid_z:
      return ctaid[2];
    case Special::nctaid_x:
      return launch.grid[0];
    case Special::nctaid_y:
      return launch.grid[1];
    case Special::nctaid_z:
      return launch.grid[2];
    case Special::warpid:
      return warp.index;
    case Special::nwarpid:
      return launch.device.max_warps_per_multiprocessor;
    case Special::smid:
      return (ctaid[0] + uint64_t{launch.grid[0]} * (ctaid[1] + uint64_t{launch.grid[1]} * ctaid[2])) %
             std::max(1U, launch.device.multiprocessors);
    case Special::nsmid:
      return launch.device.multiprocessors;
    case Special::gridid:
      return launch.grid_id;
    // One tick a nanosecond, as of a device of 1 GHz.
    case Special::clock:
    case Special::clock64:
      return nanoseconds(CLOCK_MONOTONIC);
    case Special::clock_hi:
      return nanoseconds(CLOCK_MONOTONIC) >> 32;
    case Special::globaltimer:
    case Special::globaltimer_lo:
      return nanoseconds(CLOCK_REALTIME);
    case Special::globaltimer_hi:
      return nanoseconds(CLOCK_REALTIME) >> 32;
    case Special::dynamic_smem_size:
      return launch.dynamic_shared_bytes;
    case Special::total_smem_size:
    case Special::aggr_smem_size:
      return warp.launch->user_shared_bytes;
    case Special::reserved_smem_offset:
      return warp.launch->shared_bytes - kReservedShared + number;
    case Special::reserved_smem_cap:
      return kReservedShared;
    case Special::cluster_id_x:
      return ctaid[0] / cluster[0];
    case Special::cluster_id_y:
      return ctaid[1] / cluster[1];
    case Special::cluster_id_z:
      return ctaid[2] / cluster[2];
    case Special::ncluster_x:
      return launch.grid[0] / cluster[0];
    case Special::ncluster_y:
      return launch.grid[1] / cluster[1];
    case Special::ncluster_z:
      return launch.grid[2] / cluster[2];
    case Special::cluster_ctaid_x:
      return ctaid[0] % cluster[0];
    case Special::cluster_ctaid_y:
      return ctaid[1] % cluster[1];
    case Special::cluster_ctaid_z:
      return ctaid[2] % cluster[2];
    case Special::cluster_nctaid_x:
      return cluster[0];
    case Special::cluster_nctaid_y:
      return cluster[1];
    case Special::cluster_nctaid_z:
      return cluster[2];
    case Special::cluster_ctarank:
      return ctaid[0] % cluster[0] +
             cluster[0] * (ctaid[1] % cluster[1] + uint64_t{cluster[1]} * (ctaid[2] % cluster[2]));
    case Special::cluster_nctarank:
      return uint64_t{cluster[0]} * cluster[1] * cluster[2];
    case Special::is_explicit_cluster:
      return uint64_t{cluster[0]} * cluster[1] * cluster[2] > 1 ? 1 : 0;
    // Cooperative groups find the grid's workspace there: the upper half in 1, the lower in 2.
    case Special::envreg:
      return number == 1   ? warp.launch->workspace.begin >> 32
             : number == 2 ? warp.launch->workspace.begin & 0xffffffffU
                           : 0;
    default:
      return 0;
  }
}

}  // namespace

const Op* op_special(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const auto special = static_cast<Special>(op->small[0]);
  alignas(64) uint64_t value[kLanes];
  const uint32_t* of_lane = special == Special::tid_x   ? warp.tid[0]
                            : special == Special::tid_y ? warp.tid[1]
                            : special == Special::tid_z ? warp.tid[2]
                                                        : nullptr;
  if (of_lane != nullptr) {
    if (op->small[1] == 4 && lanes == ~0U) {
      std::memcpy(row<uint32_t>(warp, op->r[0]), of_lane, kLanes * sizeof(uint32_t));
      return op + 1;
    }
    for (unsigned i = 0; i < kLanes; ++i) value[i] = of_lane[i];
  } else if (special >= Special::lanemask_eq && special <= Special::lanemask_gt) {
    for (unsigned i = 0; i < kLanes; ++i) {
      const uint32_t bit = 1U << i;
      switch (special) {
        case Special::lanemask_eq:
          value[i] = bit;
          break;
        case Special::lanemask_lt:
          value[i] = bit - 1;
          break;
        case Special::lanemask_le:
          value[i] = bit | (bit - 1);
          break;
        case Special::lanemask_gt:
          value[i] = ~(bit | (bit - 1));
          break;
        default:
          value[i] = ~(bit - 1);
          break;
      }
    }
  } else if (special == Special::laneid) {
    for (unsigned i = 0; i < kLanes; ++i) value[i] = i;
  } else {
    const uint64_t same = uniform(warp, special, static_cast<uint32_t>(op->imm));
    if (op->small[1] == 4 && lanes == ~0U) {
      auto* d = row<uint32_t>(warp, op->r[0]);
      for (unsigned i = 0; i < kLanes; ++i) d[i] = static_cast<uint32_t>(same);
      return op + 1;
    }
    for (uint64_t& each : value) each = same;
  }
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    switch (op->small[1]) {
      case 2:
        row<uint16_t>(warp, op->r[0])[i] = static_cast<uint16_t>(value[i]);
        break;
      case 4:
        row<uint32_t>(warp, op->r[0])[i] = static_cast<uint32_t>(value[i]);
        break;
      default:
        row<uint64_t>(warp, op->r[0])[i] = value[i];
        break;
    }
  }
  return op + 1;
}

const Op* op_to_generic(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const uint64_t* a = row<uint64_t>(warp, op->r[1]);
  uint64_t* d = row<uint64_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i)
    d[i] = (lanes >> i & 1) != 0 ? a[i] + static_cast<uint64_t>(op->imm) : d[i];
  return op + 1;
}

const Op* op_from_generic(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const uint64_t* a = row<uint64_t>(warp, op->r[1]);
  uint64_t* d = row<uint64_t>(warp, op->r[0]);
  for (unsigned i = 0; i < kLanes; ++i)
    d[i] = (lanes >> i & 1) != 0 ? a[i] - static_cast<uint64_t>(op->imm) : d[i];
  return op + 1;
}

const Op* op_isspacep(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const uint64_t* a = row<uint64_t>(warp, op->r[1]);
  uint32_t is = 0;
  for (unsigned i = 0; i < kLanes; ++i)
    is |= static_cast<uint32_t>((a[i] & kWindowMask) == static_cast<uint64_t>(op->imm)) << i;
  uint32_t& d = predicate(warp, op->r[0]);
  d = (d & ~lanes) | (is & lanes);
  return op + 1;
}

namespace {

uint64_t part(const Warp& warp, uint32_t at, unsigned bytes, unsigned lane) {
  switch (bytes) {
    case 1:
      return row<uint16_t>(warp, at)[lane] & 0xff;
    case 2:
      return row<uint16_t>(warp, at)[lane];
    case 4:
      return row<uint32_t>(warp, at)[lane];
    default:
      return row<uint64_t>(warp, at)[lane];
  }
}
void put(const Warp& warp, uint32_t at, unsigned bytes, unsigned lane, uint64_t value) {
  switch (bytes) {
    case 1:
      row<uint16_t>(warp, at)[lane] = static_cast<uint16_t>(value & 0xff);
      break;
    case 2:
      row<uint16_t>(warp, at)[lane] = static_cast<uint16_t>(value);
      break;
    case 4:
      row<uint32_t>(warp, at)[lane] = static_cast<uint32_t>(value);
      break;
    default:
      row<uint64_t>(warp, at)[lane] = value;
      break;
  }
}

}  // namespace

const Op* op_pack(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const unsigned parts = op->small[0], bytes = op->small[1];
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    uint64_t value = 0;
    for (unsigned k = 0; k < parts; ++k) value |= part(warp, op->r[1 + k], bytes, i) << 8 * bytes * k;
    put(warp, op->r[0], parts * bytes, i, value);
  }
  return op + 1;
}

const Op* op_unpack(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const unsigned parts = op->small[0], bytes = op->small[1];
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const uint64_t value = part(warp, op->r[5], parts * bytes, i);
    for (unsigned k = 0; k < parts; ++k) put(warp, op->r[k], bytes, i, value >> 8 * bytes * k);
  }
  return op + 1;
}

const Op* op_copy_async(Warp& warp, const Op* op) {
  const uint32_t lanes = exec_mask(warp, op);
  const auto bytes = static_cast<uint32_t>(op->imm);
  for (unsigned i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const uint64_t to =
        (op->small[0] != 0 ? row<uint64_t>(warp, op->r[0])[i] : row<uint32_t>(warp, op->r[0])[i]) +
        static_cast<uint64_t>(int64_t{static_cast<int32_t>(op->r[3])});
    const uint64_t from =
        (op->small[1] != 0 ? row<uint64_t>(warp, op->r[1])[i] : row<uint32_t>(warp, op->r[1])[i]) +
        static_cast<uint64_t>(int64_t{static_cast<int32_t>(op->r[4])});
    const uint32_t given = op->small[2] != 0 ? std::min(row<uint32_t>(warp, op->r[2])[i], bytes) : bytes;
    if (((to | from) & (bytes - 1)) != 0) {
      return fault(warp, op, Fault::Kind::misaligned_address, i, (to & (bytes - 1)) != 0 ? to : from);
    }
    std::byte piece[16] = {};
    if (given != 0 && ((from & kWindowMask) != 0 || !read_generic(warp, i, from, piece, given)))
      return fault(warp, op, Fault::Kind::illegal_address, i, from);
    if (!write_generic(warp, i, to | kSharedWindow, piece, bytes))
      return fault(warp, op, Fault::Kind::illegal_address, i, to | kSharedWindow);
  }
  return op + 1;
}

}  // namespace gpufence::sim::ptx
