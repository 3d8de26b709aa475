// The runtime annotates: while a runtime call runs, what the driver hooks below it find is told in its name
// and place.
#pragma once

#include <cuda_runtime_api.h>

#include "hooks/finding.h"

namespace gpufence::hooks {

template <class F, class... Arguments>
auto annotated(const dispatch::RuntimeCall& call, Arguments... arguments) noexcept {
  const observe::InCall in(call.record->name, call.caller);
  note_use(call.record->name, call.caller);
  return dispatch::real_runtime<F>(call, arguments...);
}

// An ordinal argument that the runtime refuses by itself. `asked` is what the program said; what it means,
// and is handed on, stands among the arguments.
template <class F, class... Arguments>
cudaError_t with_ordinal(const dispatch::RuntimeCall& call, int asked, int real,
                         Arguments... arguments) noexcept {
  const auto result = annotated<F>(call, arguments...);
  if (result == cudaErrorInvalidDevice && (rules().needs & dispatch::kFindings) != 0) {
    say_no_such_ordinal(asked, {call.record->name, call.caller}, real);
  }
  return result;
}

}  // namespace gpufence::hooks
