// Kernels of the checks, as PTX, so that the driver's own compiler makes them for whatever GPU there is.
#pragma once

namespace conform {

inline constexpr char kKernels[] = R"(
.version 6.5
.target sm_75
.address_size 64

.visible .global .align 4 .u32 counter = 7;
.visible .const .align 4 .u32 factor = 3;

// out[i] = value, one thread a word
.visible .entry fill(.param .u64 out, .param .u32 value) {
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [value];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}

// out[i] = in[i] * factor + counter
.visible .entry scale(.param .u64 out, .param .u64 in) {
  .reg .b32 %r<6>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [in];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r2, [%rd5];
  ld.const.u32 %r3, [factor];
  ld.global.u32 %r4, [counter];
  mad.lo.u32 %r5, %r2, %r3, %r4;
  st.global.u32 [%rd4], %r5;
  ret;
}

// Every thread of the grid adds one to *out.
.visible .entry count(.param .u64 out) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  atom.global.add.u32 %r1, [%rd1], 1;
  ret;
}

// The grid as thread 0 of the last block sees it: nctaid.x y z, ntid.x y z.
.visible .entry extents(.param .u64 out) {
  .reg .b32 %r<10>;
  .reg .b64 %rd<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %nctaid.x;
  mov.u32 %r2, %nctaid.y;
  mov.u32 %r3, %nctaid.z;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %ntid.y;
  mov.u32 %r6, %ntid.z;
  mov.u32 %r7, %ctaid.z;
  add.u32 %r8, %r7, 1;
  setp.ne.u32 %p1, %r8, %r3;
  @%p1 ret;
  st.global.u32 [%rd1], %r1;
  st.global.u32 [%rd1+4], %r2;
  st.global.u32 [%rd1+8], %r3;
  st.global.u32 [%rd1+12], %r4;
  st.global.u32 [%rd1+16], %r5;
  st.global.u32 [%rd1+20], %r6;
  ret;
}

// Bytes of dynamic shared memory of a block.
.visible .entry dynamic(.param .u64 out) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %dynamic_smem_size;
  st.global.u32 [%rd1], %r1;
  ret;
}

// Parameters of several sizes; the sum goes to *out.
.visible .entry several(.param .u8 a, .param .u64 out, .param .u16 b, .param .u32 c) {
  .reg .b32 %r<6>;
  .reg .b64 %rd<2>;
  ld.param.u8 %r1, [a];
  ld.param.u64 %rd1, [out];
  ld.param.u16 %r2, [b];
  ld.param.u32 %r3, [c];
  add.u32 %r4, %r1, %r2;
  add.u32 %r5, %r4, %r3;
  st.global.u32 [%rd1], %r5;
  ret;
}

.visible .entry at_most_64() .maxntid 64, 1, 1 { ret; }

.visible .entry statically_shared(.param .u64 out) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  .shared .align 4 .b8 area[1024];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, 5;
  st.shared.u32 [area], %r1;
  ld.shared.u32 %r1, [area];
  st.global.u32 [%rd1], %r1;
  ret;
}

// Writes where nothing is.
.visible .entry astray() {
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  mov.u64 %rd1, 16;
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

}  // namespace conform
