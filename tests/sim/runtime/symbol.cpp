// __device__, __constant__ and __managed__ variables by their host symbols: an address on the current device,
// and copies to and from it.
#include "tests/sim/runtime/program.h"

using namespace gpufence::sim::runtime;

namespace {

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// The place `offset` bytes into the variable, if `count` bytes from there are within it.
cudaError_t place(const void* symbol, size_t count, size_t offset, void** out) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    const cudaError_t found = find_symbol(driver, symbol, &address, &bytes);
    if (found != cudaSuccess) return found;
    if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
    *out = pointer(address + offset);
    return cudaSuccess;
  });
}

bool to_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}
bool from_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

template <typename Copy>
cudaError_t copy_to(const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind, Copy copy) {
  if (!to_device(kind)) return note(cudaErrorInvalidMemcpyDirection);
  void* at = nullptr;
  const cudaError_t placed = place(symbol, count, offset, &at);
  return placed != cudaSuccess ? placed : copy(at);
}

template <typename Copy>
cudaError_t copy_from(const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind, Copy copy) {
  if (!from_device(kind)) return note(cudaErrorInvalidMemcpyDirection);
  void* at = nullptr;
  const cudaError_t placed = place(symbol, count, offset, &at);
  return placed != cudaSuccess ? placed : copy(at);
}

}  // namespace

cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    CUdeviceptr address = 0;
    if (out == nullptr) return cudaErrorInvalidValue;
    const cudaError_t found = find_symbol(driver, symbol, &address, nullptr);
    if (found == cudaSuccess) *out = pointer(address);
    return found;
  });
}

cudaError_t cudaGetSymbolSize(size_t* out, const void* symbol) {
  return in_context([&](const Driver& driver) -> cudaError_t {
    if (out == nullptr) return cudaErrorInvalidValue;
    return find_symbol(driver, symbol, nullptr, out);
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t count, size_t offset,
                               cudaMemcpyKind kind) {
  return copy_to(symbol, count, offset, kind, [&](void* at) { return cudaMemcpy(at, from, count, kind); });
}
cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t count, size_t offset,
                                    cudaMemcpyKind kind) {
  return copy_to(symbol, count, offset, kind,
                 [&](void* at) { return cudaMemcpy_ptds(at, from, count, kind); });
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t count, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to(symbol, count, offset, kind,
                 [&](void* at) { return cudaMemcpyAsync(at, from, count, kind, stream); });
}
cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void* symbol, const void* from, size_t count, size_t offset,
                                         cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to(symbol, count, offset, kind,
                 [&](void* at) { return cudaMemcpyAsync_ptsz(at, from, count, kind, stream); });
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t count, size_t offset,
                                 cudaMemcpyKind kind) {
  return copy_from(symbol, count, offset, kind, [&](void* at) { return cudaMemcpy(to, at, count, kind); });
}
cudaError_t cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind) {
  return copy_from(symbol, count, offset, kind,
                   [&](void* at) { return cudaMemcpy_ptds(to, at, count, kind); });
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_from(symbol, count, offset, kind,
                   [&](void* at) { return cudaMemcpyAsync(to, at, count, kind, stream); });
}
cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void* to, const void* symbol, size_t count, size_t offset,
                                           cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_from(symbol, count, offset, kind,
                   [&](void* at) { return cudaMemcpyAsync_ptsz(to, at, count, kind, stream); });
}
