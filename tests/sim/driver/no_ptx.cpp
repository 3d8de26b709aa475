// Where the interpreter is not built in: every module is one that the simulator cannot read.
#include "ptx/run.h"

namespace gpufence::sim::ptx {

std::string Error::what() const {
  return text;
}
const Function* Module::function(std::string_view) const {
  return nullptr;
}
const Global* Module::global(std::string_view) const {
  return nullptr;
}
std::vector<uint8_t> Module::image(size_t, const std::vector<uint64_t>&) const {
  return {};
}
tl::expected<std::shared_ptr<const Module>, Error> parse(std::string_view) {
  return tl::unexpected(Error{Error::Kind::unsupported, "the interpreter is not built in", 0});
}
tl::expected<std::shared_ptr<const Module>, Error> link(const std::vector<std::shared_ptr<const Module>>&) {
  return tl::unexpected(Error{Error::Kind::unsupported, "the interpreter is not built in", 0});
}
AccessMap::AccessMap(std::vector<Region> regions) : regions_(std::move(regions)) {}
Fault run(const Launch&) {
  return {Fault::Kind::unsupported, 0, {}, {}, "the interpreter is not built in"};
}
uint32_t blocks_per_multiprocessor(const Function&, uint32_t, uint32_t, const DeviceTraits&) {
  return 0;
}

}  // namespace gpufence::sim::ptx
