// --remap, which the runtime level carries where the runtime is shared: each call that takes an ordinal hands
// on the one that it means, each that returns one gives back what the program asked for. Driver calls keep
// the true ordinals, so that findings, caps and the report speak of GPUs as they are. cudaGetDeviceCount
// stays true: a program that asks how many GPUs there are, and stays below that, needs no remap.
#pragma once

#include <cuda_runtime_api.h>

#include "hooks/finding.h"

namespace gpufence::hooks {

// Both ways between the program's ordinals and CUDA's, for one call of the program. Without a remap each is
// the other.
class Ordinals {
 public:
  // May ask the runtime for the number of GPUs, which starts CUDA: only where the map is "wrap".
  explicit Ordinals(const dispatch::RuntimeCall& call) noexcept;

  // CUDA's ordinal of what the program calls `asked`.
  [[nodiscard]] int real(int asked) const noexcept;
  // What the program calls CUDA's ordinal `real`: the name by which this thread chose that GPU last, if it
  // did.
  [[nodiscard]] int told(int real) const noexcept;

  // The same for memory's locations, of which only those on a GPU hold an ordinal. A place that this thread
  // named in a location goes back by that name.
  [[nodiscard]] cudaMemLocation real(cudaMemLocation asked) const noexcept;
  [[nodiscard]] cudaMemLocation told(cudaMemLocation real) const noexcept;
  // An ordinal that stands for a location (CUDA 11 and 12); the host is -1.
  [[nodiscard]] int real_place(int asked) const noexcept;
  [[nodiscard]] int told_place(int real) const noexcept;

  // This thread chose `asked` successfully. GF107, if that means another GPU.
  void chose(int asked, const observe::Call& call) const noexcept;

 private:
  const policies::Remap* map_;  // null: none
  int gpus_ = 0;                // counted for "wrap" alone
};

// A driver call that takes an ordinal, from an object that is no shared runtime: with a remap on, GF107 says
// once an object that its ordinals are not remapped. A runtime that is linked statically comes to the driver
// in this way too.
void note_not_remapped(const char* api, const void* caller) noexcept;

}  // namespace gpufence::hooks
