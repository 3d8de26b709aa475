// The module and library chapters: which GPU code was loaded on, and what kernels are called, for those who
// have only a handle when a launch has failed. A library's kernels belong to no GPU.
#include "hooks/mask.h"

namespace gpufence::hooks {
namespace {

constexpr unsigned kNeeds = dispatch::kFindings;
using observe::Kind;

CUresult loaded(CUresult result, const CUmodule* module, const char* api, const void* caller) noexcept {
  check_mask(api, caller);
  if (result == CUDA_SUCCESS && module != nullptr) remember_made(Kind::module, *module, api, caller);
  return result;
}

}  // namespace

HOOK(cuModuleLoad, kNeeds, (CUmodule * module, const char* fname)) {
  return loaded(real<&::cuModuleLoad>(module, fname), module, "cuModuleLoad", __builtin_return_address(0));
}
HOOK(cuModuleLoadData, kNeeds, (CUmodule * module, const void* image)) {
  return loaded(real<&::cuModuleLoadData>(module, image), module, "cuModuleLoadData",
                __builtin_return_address(0));
}
HOOK(cuModuleLoadDataEx, kNeeds,
     (CUmodule * module, const void* image, unsigned int numOptions, CUjit_option* options,
      void** optionValues)) {
  return loaded(real<&::cuModuleLoadDataEx>(module, image, numOptions, options, optionValues), module,
                "cuModuleLoadDataEx", __builtin_return_address(0));
}
HOOK(cuModuleLoadFatBinary, kNeeds, (CUmodule * module, const void* fatCubin)) {
  return loaded(real<&::cuModuleLoadFatBinary>(module, fatCubin), module, "cuModuleLoadFatBinary",
                __builtin_return_address(0));
}

HOOK(cuModuleUnload, kNeeds, (CUmodule hmod)) {
  observe::Owners* known = owners();
  const std::uint64_t mark = known != nullptr ? known->mark() : 0;
  const CUresult result = real<&::cuModuleUnload>(hmod);
  if (known != nullptr && result == CUDA_SUCCESS) known->forget_module(hmod, mark);
  return result;
}

HOOK(cuModuleGetFunction, kNeeds, (CUfunction * hfunc, CUmodule hmod, const char* name)) {
  const CUresult result = real<&::cuModuleGetFunction>(hfunc, hmod, name);
  observe::Owners* known = owners();
  if (result != CUDA_SUCCESS || known == nullptr) return result;
  std::optional<observe::Owner> owner = known->find(Kind::module, hmod);
  if (!owner) return result;
  if (owner->parent == nullptr) owner->parent = hmod;  // else of a library, which takes its modules along
  owner->name = known->interned(name);
  known->remember(Kind::function, *hfunc, *owner);
  return result;
}

HOOK(cuLibraryGetKernel, kNeeds, (CUkernel * pKernel, CUlibrary library, const char* name)) {
  const CUresult result = real<&::cuLibraryGetKernel>(pKernel, library, name);
  observe::Owners* known = owners();
  if (result != CUDA_SUCCESS || known == nullptr || pKernel == nullptr) return result;
  observe::Owner owner;
  owner.parent = library;
  owner.name = known->interned(name);
  known->remember(Kind::function, *pKernel, owner);
  return result;
}

// What a library's code is on the current GPU.
HOOK(cuKernelGetFunction, kNeeds, (CUfunction * pFunc, CUkernel kernel)) {
  const CUresult result = real<&::cuKernelGetFunction>(pFunc, kernel);
  const observe::Owners* known = owners();
  if (result != CUDA_SUCCESS || known == nullptr || pFunc == nullptr) return result;
  const std::optional<observe::Owner> of = known->find(Kind::function, kernel);
  remember_made(Kind::function, *pFunc, "cuKernelGetFunction", __builtin_return_address(0),
                of ? of->parent : nullptr, of ? of->name : nullptr);
  return result;
}
HOOK(cuLibraryGetModule, kNeeds, (CUmodule * pMod, CUlibrary library)) {
  const CUresult result = real<&::cuLibraryGetModule>(pMod, library);
  if (result == CUDA_SUCCESS && pMod != nullptr)
    remember_made(Kind::module, *pMod, "cuLibraryGetModule", __builtin_return_address(0), library);
  return result;
}

HOOK(cuLibraryUnload, kNeeds, (CUlibrary library)) {
  observe::Owners* known = owners();
  const std::uint64_t mark = known != nullptr ? known->mark() : 0;
  const CUresult result = real<&::cuLibraryUnload>(library);
  if (known != nullptr && result == CUDA_SUCCESS) known->forget_module(library, mark);
  return result;
}

}  // namespace gpufence::hooks
