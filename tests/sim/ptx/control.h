// Handlers that are compiled once: control flow, exchange between lanes, atomics, special registers,
// device-side library calls. Their operands are in the order of the PTX text unless said otherwise.
#pragma once
#include "exec.h"
#include "isa.h"

namespace gpufence::sim::ptx {

// control.cpp
const Op* op_branch(Warp& warp, const Op* op);        // jump, merge; always
const Op* op_branch_if(Warp& warp, const Op* op);     // guard
const Op* op_branch_table(Warp& warp, const Op* op);  // r0: index; imm: table
const Op* op_join(Warp& warp, const Op* op);
const Op* op_call(Warp& warp, const Op* op);           // imm: call site
const Op* op_call_indirect(Warp& warp, const Op* op);  // r0: addresses
const Op* op_ret(Warp& warp, const Op* op);
const Op* op_exit(Warp& warp, const Op* op);
const Op* op_trap(Warp& warp, const Op* op);
const Op* op_nop(Warp& warp, const Op* op);
// r0: address, r1: size, r2, r4: bytes in use, r3: where they begin; imm: alignment
const Op* op_alloca(Warp& warp, const Op* op);
constexpr uint32_t kAllocaBytes = 16 << 10;  // that one call of a function may take, a thread
const Op* op_nanosleep(Warp& warp, const Op* op);
const Op* op_end_of_code(Warp& warp, const Op* op);  // running off the end of a function
// small[0]: 0 sync, 1 arrive, 2 red.popc, 3 red.and, 4 red.or; small[1]: has a count; small[2]: predicate
// negated r0: result, r1: barrier, r2: count, r3: predicate
const Op* op_barrier(Warp& warp, const Op* op);

// exchange.cpp. r0: d, r1: p (or the sink), r2: a, r3: b, r4: c, r5: member mask; small[0]: 0 up, 1 down, 2
// bfly, 3 idx
const Op* op_shfl(Warp& warp, const Op* op);
const Op* op_vote(
    Warp& warp,
    const Op* op);  // r0, r1: predicate, r5: mask; small[0]: 0 all, 1 any, 2 uni, 3 ballot; small[1]: negated
const Op* op_match(Warp& warp, const Op* op);       // r0, r1: p, r2: a, r5; small[0]: 1 all; small[1]: bytes
const Op* op_redux(Warp& warp, const Op* op);       // r0, r2: a, r5; small[0]: AtomicKind; small[1]: signed
const Op* op_warp_sync(Warp& warp, const Op* op);   // r5
const Op* op_activemask(Warp& warp, const Op* op);  // r0
const Op* op_elect(Warp& warp, const Op* op);       // r0, r1: p, r5

// mbarrier.cpp. r0: the state or predicate that results, r1: count, bytes or parity, r2: state, r4: address;
// imm: its offset. small[0]: which; small[1]: the address is wide; small[2]: in .shared; small[3]: wants the
// state.
enum class Mbarrier : uint8_t {
  init,
  inval,
  arrive,
  arrive_no_complete,
  arrive_expect,
  drop,
  drop_no_complete,
  drop_expect,
  expect,
  complete,
  test,
  test_parity
};
const Op* op_mbarrier(Warp& warp, const Op* op);
const Op* op_mbarrier_pending(Warp& warp, const Op* op);  // r0, r1: state

// video.cpp. r0: d, r1: a, r2: b, r3: c; imm: in Code::videos
const Op* op_video(Warp& warp, const Op* op);

// Keeps rows for the Op that follows: r0…, in Worker::staged; small[0]: how many; imm: four bits for each,
// which of these it becomes.
const Op* op_stage(Warp& warp, const Op* op);
// texture.cpp. Staged: 0 layer, 1 to 3 coordinates, 4 to 6 level or dP/dx, 7 to 9 dP/dy, 10 to 12 offsets.
// r0…: results, r4: whether all of it is in memory, r5: handle; imm: in Code::lookups
const Op* op_lookup(Warp& warp, const Op* op);
// surface.cpp. Staged: 0 layer, 1 to 3 coordinates. r0…: results or sources, r5: handle; imm: in
// Code::surface_accesses
const Op* op_surface(Warp& warp, const Op* op);
// r0, r1: handle, r2: level; small[0]: Query; small[1]: of a surface
enum class Query : uint8_t {
  width,
  height,
  depth,
  array_size,
  levels,
  samples,
  normalized_coordinates,
  filter_mode,
  address_mode_0,
  address_mode_1,
  address_mode_2
};
const Op* op_query(Warp& warp, const Op* op);

// atomic.cpp
const Op* op_fence(Warp& warp, const Op* op);
enum class AtomicKind : uint8_t { add, min, max, inc, dec, exch, cas, and_, or_, xor_ };
// A reduction on aligned memory that the GPU may write: add, min, max, and, or of integers.
void reduce(AtomicKind kind, Type type, uint64_t address, uint64_t value);
// r0: d (or 0: none), r1: b, r2: c of cas, r4: address. small[3]: what the alignment of a vector adds to the
// mask.
Handler atomic_handler(AtomicKind kind, Type type, Where where, bool wide_address);

// special.cpp
enum class Special : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clock,
  clock_hi,
  clock64,
  globaltimer,
  globaltimer_lo,
  globaltimer_hi,
  dynamic_smem_size,
  total_smem_size,
  aggr_smem_size,
  reserved_smem_offset,
  reserved_smem_cap,
  current_graph_exec,
  cluster_id_x,
  cluster_id_y,
  cluster_id_z,
  ncluster_x,
  ncluster_y,
  ncluster_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  envreg,
  pm
};
// None: not a special register. *number: of %envreg and %pm.
bool special_named(std::string_view name, Special* special, uint32_t* number);
const Op* op_special(Warp& warp, const Op* op);     // r0; small[0]: Special; small[1]: bytes; imm: number
const Op* op_to_generic(Warp& warp, const Op* op);  // r0, r1; imm: window; small[0]: bytes of both
const Op* op_from_generic(Warp& warp, const Op* op);
const Op* op_isspacep(Warp& warp, const Op* op);  // r0: p, r1: a; imm: window, 0: global
// mov between a vector and a scalar. small[0]: parts; small[1]: bytes of a part; pack: r0, r1…; unpack: r0…,
// r5
const Op* op_pack(Warp& warp, const Op* op);
const Op* op_unpack(Warp& warp, const Op* op);
// cp.async as the copy it comes to. r0: shared address, r1: global; imm: bytes; small[0,1]: addresses are
// wide; r2: source bytes or 0; small[2]: has r2
const Op* op_copy_async(Warp& warp, const Op* op);

}  // namespace gpufence::sim::ptx
