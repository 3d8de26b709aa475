// The runtime calls that CUPTI tells of where the runtime is linked statically (level "all"): the observer
// (cupti/) is opened once CUDA is initialised, and what it tells means what the runtime hooks mean.
#pragma once

namespace gpufence::hooks {

// Once cuInit has succeeded; does nothing unless asked for. Opens libraries: under no lock, and not from a
// callback. One line of info where it is asked for and can't be had.
void watch_runtime() noexcept;

// Another wants CUPTI, whose function `name` it has looked up or calls, from `caller`: the observer leaves
// for good, or never comes.
void give_way_to_tool(const char* name, const void* caller) noexcept;

}  // namespace gpufence::hooks
