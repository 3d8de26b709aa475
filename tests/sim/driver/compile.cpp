#include "compile.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpufence::sim {

std::string ptxas_says(const ptx::Error& error) {
  if (error.line == 0) return "ptxas fatal   : " + error.text;
  return "ptxas application ptx input, line " + std::to_string(error.line) + "; error   : " + error.text +
         "\nptxas fatal   : Ptx assembly aborted due to errors";
}

namespace {

using Made = tl::expected<std::shared_ptr<const ptx::Module>, NoCode>;

tl::unexpected<NoCode> refused(CUresult answer, std::string log, std::string told = {}) {
  return tl::unexpected(NoCode{answer, std::move(log), std::move(told)});
}

// The PTX version that came with a driver: 13.0 knows 9.0, 12.x what its toolkit's release notes say.
bool version_known(int major, int minor, int driver_version) {
  const int release = driver_version / 1000, update = driver_version % 1000 / 10;
  constexpr int k12[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
  int newest = 0;
  if (release >= 13)
    newest = 90 + (release - 13) * 10 + update;
  else if (release == 12)
    newest = k12[std::min(update, 9)];
  else
    newest = 70 + std::min(update, 8);
  return major * 10 + minor <= newest;
}

tl::unexpected<NoCode> refused_by(const ptx::Error& error) {
  switch (error.kind) {
    case ptx::Error::Kind::unsupported:
      return refused(CUDA_ERROR_NOT_SUPPORTED, ptxas_says(error),
                     "the simulator cannot read a kernel module: " + error.what() +
                         ": it answered CUDA_ERROR_NOT_SUPPORTED");
    case ptx::Error::Kind::too_large:
      return refused(CUDA_ERROR_OUT_OF_MEMORY, ptxas_says(error));
    case ptx::Error::Kind::invalid:
    case ptx::Error::Kind::undefined:
      break;
  }
  return refused(CUDA_ERROR_INVALID_PTX, ptxas_says(error));
}

Made compile_member(const Binary& binary, uint32_t wanted, int driver_version) {
  for (const PtxImage* image : candidates(binary, wanted)) {
    const auto text = image->text();
    if (!text) return refused(CUDA_ERROR_INVALID_IMAGE, text.error());
    if (!target_fits(*text, wanted)) {
      if (!binary.is_text) continue;
      return refused(CUDA_ERROR_INVALID_PTX,
                     "ptxas fatal   : the .target is higher than, or another than, the GPU's sm_" +
                         std::to_string(wanted));
    }
    auto parsed = ptx::parse(*text);
    if (!parsed) return refused_by(parsed.error());
    if (!version_known((*parsed)->version_major, (*parsed)->version_minor, driver_version))
      return refused(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "ptxas fatal   : unsupported .version");
    return *std::move(parsed);
  }
  const std::string why = why_none(binary, wanted);
  return refused(CUDA_ERROR_NO_BINARY_FOR_GPU, why, why);
}

}  // namespace

Made compile_for(const CodeImage& image, uint32_t capability, int driver_version) {
  std::vector<std::shared_ptr<const ptx::Module>> parts;
  for (const Binary& binary : image.members) {
    auto part = compile_member(binary, capability, driver_version);
    if (!part) return part;
    parts.push_back(*std::move(part));
  }
  auto linked = ptx::link(parts);
  if (!linked) return refused_by(linked.error());
  // Of PTX that stands for itself ptxas knows that a function is missing. A fatbin's may be in a library that
  // has no PTX (libcudadevrt): only its kernels that need it can't run.
  const bool all_text = std::all_of(image.members.begin(), image.members.end(),
                                    [](const Binary& binary) { return binary.is_text; });
  for (const ptx::Function& function : (*linked)->functions) {
    if (!all_text || !function.is_entry || function.unsupported.rfind("undefined function ", 0) != 0)
      continue;
    return refused(CUDA_ERROR_INVALID_PTX, "ptxas fatal   : " + function.unsupported);
  }
  return *std::move(linked);
}

}  // namespace gpufence::sim
