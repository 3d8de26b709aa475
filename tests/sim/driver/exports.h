// The ABI table as something to search: which export cuGetProcAddress means by name, version and flag.
#pragma once

namespace gpufence::sim {

struct Lookup {
  void* address;    // nullptr: none
  bool name_known;  // the name exists, though not at that version
};

// The newest export of that name at or below `version` and the driver's own version. per_thread: its
// per-thread twin where there is one.
Lookup look_up_export(const char* name, int version, int driver_version, bool per_thread);

}  // namespace gpufence::sim
