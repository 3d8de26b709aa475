// See watch.h. CUPTI admits one subscriber: whoever else may want to be it goes first. What a runtime hook
// does before and after the runtime's function, entered() and left() do at the two ends of the call; in a
// call that a hook is around already they do nothing, so that nothing is said twice.
#include "hooks/watch.h"

#include <dlfcn.h>
#include <link.h>

#include <cuda_runtime_api.h>

#include <cstring>

#include "dispatch/dispatch.h"
#include "hooks/choice.h"
#include "hooks/launch.h"
#include "hooks/mask.h"
#include "observe/watch.h"

namespace gpufence::hooks {
namespace {

USES(cuDriverGetVersion);

constinit std::atomic<bool> begun{false}, unwanted{false}, watching{false};
constinit std::atomic<const gpufence_watch*> observer{nullptr};

// ---- What a call means

bool is_same(const observe::Outermost& outer, const gpufence_watched_call& call) noexcept {
  return outer.watched != 0 && outer.call.api == call.name && outer.frame == call.frame;
}

void entered(const gpufence_watched_call* call) {
  if (observe::in_runtime_call()) return;  // a hook's, or one that this one runs in
  observe::outermost = {.call = {call->name, &observe::kOnTheStack},
                        .chooses = (call->does & GPUFENCE_WATCHED_CHOOSES) != 0,
                        .watched = observe::watch_generation.load(std::memory_order_relaxed),
                        .frame = call->frame};
  if ((call->does & GPUFENCE_WATCHED_GIVES_BACK) == 0) note_use(call->name, nullptr);
  if ((call->does & GPUFENCE_WATCHED_READS_MASK) != 0) check_mask(call->name, nullptr);
}

void left(const gpufence_watched_call* call, int code) {
  if (!observe::in_runtime_call() || !is_same(observe::outermost, *call)) return;
  const auto result = static_cast<cudaError_t>(code);
  const auto here = [&] { return observe::current(call->name, nullptr); };
  if ((call->does & GPUFENCE_WATCHED_CHOOSES) != 0 && result == cudaSuccess) {
    note_chosen(call->device, here());
    note_choice(call->device);
  }
  if ((call->does & GPUFENCE_WATCHED_ORDINAL) != 0 && result == cudaErrorInvalidDevice)
    say_no_such_ordinal(call->device, here());
  // The runtime may refuse a launch in a stream of another GPU without asking the driver to do it.
  if ((call->does & GPUFENCE_WATCHED_LAUNCHES) != 0 && !observe::outermost.explained &&
      (result == cudaErrorInvalidResourceHandle || result == cudaErrorInvalidValue ||
       result == cudaErrorDeviceUninitialized))
    explain_launch(call->function, static_cast<CUstream>(const_cast<void*>(call->stream)), here(),
                   call->kernel);
  observe::outermost = {};
}

const gpufence_watch_core* core_side() noexcept {
  static const gpufence_watch_core side{
      GPUFENCE_WATCH_VERSION, dispatch::gate()->dlopen, dispatch::gate()->dlsym, entered, left,
      give_way_to_tool};
  return &side;
}

// ---- Whether to come

// CUPTI itself, and tools of NVIDIA's that hold its place: Nsight Systems and Compute, compute-sanitizer,
// nvprof.
constexpr const char* kProfilers[] = {"libcupti.so",       "libcupti-",       "libToolsInjection",
                                      "libcuda-injection", "libTreeLauncher", "libInterceptor",
                                      "libsanitizer-",     "libcuinj64"};

std::string loaded_tool() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* out) {
        const char* name = object->dlpi_name != nullptr ? object->dlpi_name : "";
        if (const char* slash = std::strrchr(name, '/'); slash != nullptr) name = slash + 1;
        for (const char* tool : kProfilers) {
          if (std::strncmp(name, tool, std::strlen(tool)) != 0) continue;
          *static_cast<std::string*>(out) = journal::on_one_line(name);
          return 1;
        }
        return 0;
      },
      &found);
  return found;
}

// Empty: nobody else is there.
std::string reason_to_stay_out() {
  for (const char* name : {"CUDA_INJECTION64_PATH", "CUDA_INJECTION32_PATH", "NVTX_INJECTION64_PATH"}) {
    const std::optional<std::string> value = read_variable(name);
    if (value && !value->empty()) return std::string(name) + " is set, so a profiler has CUPTI";
  }
  if (const std::string tool = loaded_tool(); !tool.empty())
    return tool + " is loaded, and CUPTI is left to whom it belongs to";
  return unwanted.load() ? "the program looked CUPTI up, and is left it" : "";
}

// Beside the core, as the core is beside the gate.
std::string path_of_observer() {
  Dl_info info{};
  void* object = nullptr;
  if (dispatch::gate()->dladdr1(&observer, &info, &object, RTLD_DL_LINKMAP) == 0 || info.dli_fname == nullptr)
    return "libgpufence-cupti.so";
  std::string path = info.dli_fname;
  path.resize(path.rfind('/') + 1);
  return path + "libgpufence-cupti.so";
}

// Why not; empty: it watches.
std::string come() {
  if (std::string why = reason_to_stay_out(); !why.empty()) return why;
  const gpufence_gate& gate = *dispatch::gate();
  // RTLD_GLOBAL: what is loaded later and linked to libcupti is to find the observer's cuptiSubscribe first.
  void* library = gate.dlopen(path_of_observer().c_str(), RTLD_NOW | RTLD_GLOBAL);
  const auto entry = library != nullptr
                         ? reinterpret_cast<gpufence_watch_entry*>(gate.dlsym(library, GPUFENCE_WATCH_ENTRY))
                         : nullptr;
  if (entry == nullptr || entry()->version != GPUFENCE_WATCH_VERSION)
    return "libgpufence-cupti.so is not beside libgpufence-core.so (a build without cupti.h has none)";
  int version = 0;
  if (real<&::cuDriverGetVersion>(&version) != CUDA_SUCCESS) return "the driver does not tell its version";
  observer.store(entry());
  if (const char* why = entry()->start(core_side(), version); why != nullptr) return why;
  watching.store(true);
  if (unwanted.load()) give_way_to_tool("cuptiSubscribe", nullptr);  // meanwhile
  return {};
}

}  // namespace

void watch_runtime() noexcept {
  if ((rules().needs & dispatch::kPointers) == 0 || dispatch::gate() == nullptr || begun.exchange(true))
    return;
  try {
    const std::string why = come();
    if (why.empty()) return;
    say("GF501", journal::Severity::info, [&] {
      return "calls of a runtime that is linked statically have no names in findings, and an ordinal that it "
             "refuses is not seen: " +
             why;
    });
  } catch (...) {
    // Out of memory: no names, then.
  }
}

void give_way_to_tool(const char* name, const void* caller) noexcept {
  unwanted.store(true);
  if (!watching.exchange(false)) return;
  observe::watch_generation.fetch_add(1);
  observer.load()->stop();
  say("GF501", journal::Severity::info, [&] {
    return "CUPTI is left to the program (" + std::string(name) + " at " + observe::site_text(caller) +
           "): from here on calls of a runtime that is linked statically have no names in findings";
  });
}

}  // namespace gpufence::hooks
