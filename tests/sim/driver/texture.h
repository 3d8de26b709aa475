// Texture and surface objects: what a program said of memory that it has, and what a launch makes of it. An
// object holds no memory: what is freed under it is out of reach, and a kernel that looks there faults.
#pragma once
#include "driver.h"
#include "ptx/texture.h"

namespace gpufence::sim {

// The objects of one context, for a launch of its own.
class ObjectsOf : public ptx::Objects {
 public:
  explicit ObjectsOf(const Context& context) : context_(context) {}
  [[nodiscard]] const ptx::Texture* texture(uint64_t handle) const override;
  [[nodiscard]] const ptx::Surface* surface(uint64_t handle) const override;

 private:
  const Context& context_;
};

// With their context.
void destroy_objects_of(Context& context);

}  // namespace gpufence::sim
