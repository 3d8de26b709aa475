// What is allowed: the answer to one request for device memory. Pure: the same request and the same caps give
// the same verdict, whoever asks and whenever.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gpufence::policies {

enum class Scope { process, run, job, user, group };

struct Cap {
  std::uint64_t bytes = UINT64_MAX;  // that may be held at most on one GPU
  Scope scope = Scope::run;          // whom it counts for
  std::string rule;                  // what said so: "--gpu-mem", "GPUFENCE_GPU_MEM"
};

struct Request {
  std::uint64_t bytes = 0;  // wanted
  std::uint64_t held = 0;   // by the scope on this GPU now
};

struct Verdict {
  bool allowed = true;
  const Cap* cap = nullptr;   // the cap that refuses
  std::uint64_t to_free = 0;  // bytes that must be freed for the request to fit; 0 if nothing would help
};

// The cap that allows least; the first of equals. Null if there is none.
[[nodiscard]] inline const Cap* tightest(std::span<const Cap> caps) {
  const Cap* least = nullptr;
  for (const Cap& cap : caps) {
    if (cap.bytes != UINT64_MAX && (least == nullptr || cap.bytes < least->bytes)) least = &cap;
  }
  return least;
}

[[nodiscard]] inline Verdict decide(const Request& request, const Cap* cap) {
  if (cap == nullptr) return {};
  const std::uint64_t left = cap->bytes > request.held ? cap->bytes - request.held : 0;
  if (request.bytes <= left) return {};
  // More than the whole cap: freeing does not help.
  return {false, cap, request.bytes > cap->bytes ? 0 : request.bytes - left};
}

}  // namespace gpufence::policies
