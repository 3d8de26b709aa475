// This process and the thread that asks, as findings name them. Asked only when there is something to say.
#pragma once

#include <cstdint>
#include <string>

namespace gpufence::observe {

// Nanoseconds since this process was started, in the kernel's resolution of 10 ms; 0 if /proc is not there.
[[nodiscard]] std::uint64_t process_age_ns();

// "+3.1 s": an age as findings write it.
[[nodiscard]] std::string age_text(std::uint64_t ns);

// The calling thread's name as the kernel knows it ("worker-2"), and its id.
[[nodiscard]] std::string thread_name();
[[nodiscard]] int thread_id();

}  // namespace gpufence::observe
