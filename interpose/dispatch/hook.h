// How to add an entry point: write its body in the chapter's file under hooks/. That is all; thunk, export,
// routing and the coverage tests are made from the record that the macro leaves.
//
//   HOOK(cuMemAlloc_v2, kMemory, (CUdeviceptr * out, size_t bytes)) { … real<&::cuMemAlloc_v2>(out, bytes) …
//   }
//
// How it works: the program's call reaches the gate's thunk, which jumps through its slot. A slot starts at
// "arm, then call again"; arming fills it with the body if the policy wants it (its Need), else with the
// driver's own pointer, so that a call no policy cares about costs a load and a jump. A body runs with the
// program's return address, and real<> is always the driver's function, never a hook. Records are found
// through pointers in an ELF section: an array of structs would be padded by g++.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "abi/driver.h"
#include "gate/gate.h"

namespace gpufence::dispatch {

// What a policy can want of a process; a hook is bound if it serves any of them.
enum Need : unsigned {
  kFence = 1,      // always: the way in, the view
  kMemory = 2,     // a cap, or a report of memory
  kCap = 4,        // a cap alone: what is told must agree with it
  kFindings = 8,   // wrong-device diagnosis
  kReport = 32,    // the exit report: launches and copies are counted
  kPointers = 64,  // diagnosis of every launch's pointer arguments
  kView = 16,      // numbering view: NVML shows the view alone, and changes nothing
  kRemap = 128,    // a remap: the runtime's calls that take or return an ordinal
};

// How a look-up through the driver names one of its exports: what cuGetProcAddress is asked for.
struct Asked {
  const char* base = nullptr;       // cuMemAlloc for cuMemAlloc_v2; null: no export of the driver
  int version = 0;                  // CUDA version to ask for: 3020
  bool per_thread_default = false;  // flag CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
};

// Found while compiling, so that the table of exports and its pointers, to be set at each start, are no part
// of the core.
consteval Asked asked_for(std::string_view symbol) {
  const auto* entry = std::lower_bound(
      std::begin(abi::kDriverExports), std::end(abi::kDriverExports), symbol,
      [](const abi::DriverExport& e, std::string_view name) { return std::string_view(e.symbol) < name; });
  if (entry == std::end(abi::kDriverExports) || entry->symbol != symbol) return {};
  return {entry->base, entry->version, entry->per_thread_default};
}

struct Record {
  const char* name;            // exported name
  int node;                    // gpufence_node: whose name
  unsigned needs;              // Need bits
  void* body;                  // the hook; null: a call that hooks make themselves
  std::atomic<void*>* target;  // the driver's or NVML's function, filled at bind; null for runtime hooks
  Asked asked;
  // Of a runtime hook that is bound only where it is wanted: forwards to the caller's runtime. Null: bound
  // always.
  void* plain = nullptr;
};

// Set at bind, before any slot leads to a body. Never null from then on: where the library lacks the entry
// point it is a function that answers CUDA_ERROR_NOT_FOUND, or NVML's own word for it.
template <auto Function>
inline constinit std::atomic<void*> target{nullptr};

template <auto Function, class... Arguments>
auto real(Arguments... arguments) {
  return reinterpret_cast<decltype(Function)>(target<Function>.load(std::memory_order_relaxed))(arguments...);
}

template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> {
  using Result = R;
};
template <auto Function>
using Result = typename Signature<decltype(Function)>::Result;

// The runtime of a call is the one that its caller was linked to, not the first in scope.
struct RuntimeCall {
  const Record* record;
  const void* caller;  // return address
};
void* runtime_function(const RuntimeCall& call);
// Another function of that runtime; null if it has none of that name. Looks up at each call.
void* runtime_symbol(const RuntimeCall& call, const char* name);

// The last argument is the declaration that the real function has: nvcc's headers rename between releases.
template <class F, class... Arguments>
auto real_runtime(const RuntimeCall& call, Arguments... arguments) {
  return reinterpret_cast<F>(runtime_function(call))(arguments...);
}

// What a hook says of itself to those who read the linked core's section instead of its records, make_gate.py
// and `gpufence hooks`: "cuMemAlloc_v2:0:memory:cap,report". Name, node, chapter (its file's name), and when
// it is bound, in words, so that no reader must know the bits.
template <std::size_t Symbol, std::size_t File>
consteval auto exported(const char (&symbol)[Symbol], int node, unsigned needs, const char (&file)[File]) {
  std::array<char, Symbol + File + 48> text{};
  std::size_t end = 0;
  const auto add = [&](std::string_view part) {
    for (const char c : part) text[end++] = c;
  };
  add({symbol, Symbol - 1});
  add(":");
  if (node >= 10) text[end++] = static_cast<char>('0' + node / 10);
  text[end++] = static_cast<char>('0' + node % 10);
  add(":");
  const std::string_view path(file, File - 1);
  const std::string_view base = path.substr(path.rfind('/') + 1);
  add(base.substr(0, base.find('.')));
  add(":");
  if ((needs & kFence) != 0) {
    add("always");
  } else {
    if ((needs & (kCap | kMemory)) != 0) add("cap,");
    if ((needs & (kMemory | kReport)) != 0) add("report,");
    if ((needs & kFindings) != 0) add("findings,");
    if ((needs & kPointers) != 0) add("pointers,");
    if ((needs & kView) != 0) add("view,");
    if ((needs & kRemap) != 0) add("remap,");
    if (end > 0 && text[end - 1] == ',') text[--end] = '\0';
  }
  return text;
}

}  // namespace gpufence::dispatch

// `target`, and for a runtime hook its `plain` way.
#define GPUFENCE_RECORD(symbol, id, node, needs, body, target, ...)                                     \
  static ::gpufence::dispatch::Record                                                                   \
      gpufence_record_##id{symbol, node,                                                                \
                           needs,  body,                                                                \
                           target, ::gpufence::dispatch::asked_for(symbol) __VA_OPT__(, ) __VA_ARGS__}; \
  [[gnu::used, gnu::retain,                                                                             \
    gnu::section("gpufence_hooks")]] static ::gpufence::dispatch::Record* const gpufence_pointer_##id = \
      &gpufence_record_##id

#define GPUFENCE_EXPORTED(symbol, id, node, needs)                                                      \
  [[gnu::used, gnu::retain, gnu::section("gpufence_names")]] static constexpr auto gpufence_name_##id = \
      ::gpufence::dispatch::exported(symbol, node, needs, __FILE__)

#define GPUFENCE_HOOK(function, node, needs, parameters)                                                \
  static ::gpufence::dispatch::Result<&::function> gpufence_hook_##function parameters noexcept;        \
  static_assert(std::is_convertible_v<decltype(&gpufence_hook_##function), decltype(&::function)>,      \
                "the hook's signature is not that of " #function);                                      \
  GPUFENCE_RECORD(#function, function, node, needs, reinterpret_cast<void*>(&gpufence_hook_##function), \
                  &::gpufence::dispatch::target<&::function>);                                          \
  GPUFENCE_EXPORTED(#function, function, node, needs);                                                  \
  static ::gpufence::dispatch::Result<&::function> gpufence_hook_##function parameters noexcept

// Inside the body the caller is the program: __builtin_return_address(0) is its call.
#define HOOK(function, needs, parameters) GPUFENCE_HOOK(function, 0, needs, parameters)
// A driver function that hooks call themselves and that nobody needs to hook.
#define USES(function) \
  GPUFENCE_RECORD(#function, use_##function, 0, 0, nullptr, &::gpufence::dispatch::target<&::function>)

// The same two for NVML, a library of its own: bound when it is first called, from the copy that the program
// loaded.
#define NVML_HOOK(function, needs, parameters) GPUFENCE_HOOK(function, 1, needs, parameters)
#define NVML_USES(function) \
  GPUFENCE_RECORD(#function, use_##function, 1, 0, nullptr, &::gpufence::dispatch::target<&::function>)
// A family that has one answer, whatever its arguments: body is a function template over the entry point.
#define NVML_HOOK_BY(function, needs, body)                                                  \
  GPUFENCE_RECORD(#function, function, 1, needs, reinterpret_cast<void*>(body<&::function>), \
                  &::gpufence::dispatch::target<&::function>);                               \
  GPUFENCE_EXPORTED(#function, function, 1, needs)

// A runtime call: one record, slot and thunk for each major version of the runtime. The body gets `call`
// besides the parameters. `type` is the function's pointer type.
#define RUNTIME_HOOK(function, type, parameters, arguments) \
  GPUFENCE_RUNTIME_HOOK(ALWAYS, ALL, 0, function, type, parameters, arguments)

// The same for a name that only the CUDA 13 runtime exports, or only the CUDA 12 one.
#define RUNTIME_13_HOOK(function, type, parameters, arguments) \
  GPUFENCE_RUNTIME_HOOK(ALWAYS, ONLY_13, 0, function, type, parameters, arguments)
#define RUNTIME_12_HOOK(function, type, parameters, arguments) \
  GPUFENCE_RUNTIME_HOOK(ALWAYS, ONLY_12, 0, function, type, parameters, arguments)

// The same, bound only for `needs`; else its slots lead to the runtime's own function. `majors` says which
// runtimes have the name, or have it with this signature: ALL, UNTIL_12, SINCE_12, ONLY_12 or ONLY_13. One
// name may stand once a signature.
#define RUNTIME_HOOK_FOR(needs, majors, function, type, parameters, arguments) \
  GPUFENCE_RUNTIME_HOOK(WANTED, majors, needs, function, type, parameters, arguments)

#define GPUFENCE_UNWRAP(...) __VA_ARGS__
#define GPUFENCE_AND(...) __VA_OPT__(, ) __VA_ARGS__
#define RUNTIME_HOOK_BODY(function, type, parameters)                                     \
  static typename ::gpufence::dispatch::Signature<type>::Result gpufence_body_##function( \
      const ::gpufence::dispatch::RuntimeCall& call GPUFENCE_AND parameters) noexcept

#define GPUFENCE_RUNTIME_HOOK(when, majors, needs, function, type, parameters, arguments)         \
  RUNTIME_HOOK_BODY(function, type, parameters);                                                  \
  GPUFENCE_MAJORS_##majors(GPUFENCE_RUNTIME_##when, needs, function, type, parameters, arguments) \
      RUNTIME_HOOK_BODY(function, type, parameters)
#define GPUFENCE_MAJORS_ONLY_12(entry, ...) entry(12, __VA_ARGS__)
#define GPUFENCE_MAJORS_ONLY_13(entry, ...) entry(13, __VA_ARGS__)
#define GPUFENCE_MAJORS_UNTIL_12(entry, ...) entry(11, __VA_ARGS__) entry(12, __VA_ARGS__)
#define GPUFENCE_MAJORS_SINCE_12(entry, ...) entry(12, __VA_ARGS__) entry(13, __VA_ARGS__)
#define GPUFENCE_MAJORS_ALL(entry, ...) entry(11, __VA_ARGS__) entry(12, __VA_ARGS__) entry(13, __VA_ARGS__)

#define GPUFENCE_RUNTIME_ALWAYS(node, needs, function, type, parameters, arguments)             \
  GPUFENCE_RUNTIME_FRAME(node, function, type, parameters, arguments, gpufence_body_##function, \
                         ::gpufence::dispatch::kFence, nullptr)
#define GPUFENCE_RUNTIME_WANTED(node, needs, function, type, parameters, arguments)                    \
  static typename ::gpufence::dispatch::Signature<type>::Result gpufence_plain_##function##_##node     \
      parameters noexcept;                                                                             \
  GPUFENCE_RUNTIME_FRAME(node, function, type, parameters, arguments, gpufence_body_##function, needs, \
                         reinterpret_cast<void*>(&gpufence_plain_##function##_##node))                 \
  GPUFENCE_RUNTIME_CALL(plain, node, function, type, parameters, arguments,                            \
                        ::gpufence::dispatch::real_runtime<type>)

#define GPUFENCE_RUNTIME_FRAME(node, function, type, parameters, arguments, body, needs, plain)   \
  static typename ::gpufence::dispatch::Signature<type>::Result gpufence_hook_##function##_##node \
      parameters noexcept;                                                                        \
  GPUFENCE_RECORD(#function, function##_##node, node, needs,                                      \
                  reinterpret_cast<void*>(&gpufence_hook_##function##_##node), nullptr, plain);   \
  GPUFENCE_EXPORTED(#function, function##_##node, node, (needs));                                 \
  GPUFENCE_RUNTIME_CALL(hook, node, function, type, parameters, arguments, body)

// Not a tail call: its own frame is what __builtin_return_address reads.
#define GPUFENCE_RUNTIME_CALL(name, node, function, type, parameters, arguments, to)                  \
  static typename ::gpufence::dispatch::Signature<type>::Result gpufence_##name##_##function##_##node \
      parameters noexcept {                                                                           \
    const ::gpufence::dispatch::RuntimeCall call{&gpufence_record_##function##_##node,                \
                                                 __builtin_return_address(0)};                        \
    return to(call GPUFENCE_AND arguments);                                                           \
  }
