// See finding.h. Everything here runs after a call has failed, or once.
#include "hooks/finding.h"

#include <unistd.h>

#include "hooks/charge.h"
#include "journal/stack.h"
#include "journal/write.h"
#include "observe/backtrace.h"
#include "observe/process.h"
#include "observe/python.h"

namespace gpufence::hooks {
namespace {

USES(cuCtxGetDevice);

// All of Python's calls come from one place in libffi: there it is the line that makes a place.
std::string place_key(const observe::Call& call) {
  std::string key = std::to_string(reinterpret_cast<std::uintptr_t>(call.caller));
  if (rules().backtrace == 0 || !journal::is_foreign_call_library(observe::object_text(call.caller)))
    return key;
  for (const journal::PythonFrame& line : observe::python_stack(1))
    key += '@' + line.file + ':' + std::to_string(line.line);
  return key;
}

// The call, its place and the thread, as records have them. Of a call that was made before, by another thread
// or this one, there is no stack any more.
void fill_in(journal::Finding& finding, const observe::Call& call, const std::optional<Thread>& before = {}) {
  const Thread thread = before ? *before : this_thread_named();
  finding.api = observe::api_text(call);
  finding.site = observe::site_of(call.caller);
  finding.tid = thread.id;
  finding.thread = thread.name;
  if (!before) add_stacks(finding, call.caller);
}

}  // namespace

Thread this_thread_named() {
  return {observe::thread_id(), observe::thread_name()};
}

journal::Gpu record_of(const Visible& seen, int ordinal) {
  if (!seen.has(ordinal)) return {};
  const observe::Device& device = seen.devices[static_cast<std::size_t>(ordinal)];
  return {device.ordinal, device.host_index, device.uuid, device.pci, device.name};
}

journal::Gpu record_of(const Rules& to, const std::string& uuid) {
  journal::Gpu gpu;
  for (std::size_t i = 0; i < to.host_gpus.size(); ++i) {
    if (to.host_gpus[i] == uuid) gpu = {-1, static_cast<int>(i), uuid, {}, {}};
  }
  return gpu;
}

std::string place_text(const void* caller, const std::vector<journal::PythonFrame>& python) {
  const std::string place = observe::site_text(caller);
  if (python.empty()) return place;
  const std::string line = journal::text(python.front());
  return journal::is_foreign_call_library(place) ? line : place + " from " + line;
}

void add_stacks(journal::Finding& finding, const void* caller) {
  if (rules().backtrace == 0) return;
  finding.stack = observe::native_stack(rules().backtrace, caller);
  finding.python = observe::python_stack(rules().backtrace);
}

std::string gpu_text(const Visible& seen, int ordinal) {
  return seen.has(ordinal) ? full_name(seen.devices[static_cast<std::size_t>(ordinal)])
                           : "CUDA " + std::to_string(ordinal);
}

std::string made_text(const char* how, const observe::Call& made) {
  if (made.caller == nullptr) return {};
  return std::string(", ") + how + " at " + observe::site_text(made.caller);
}

void explain(Fault fault, const std::function<std::string(const Visible&)>& words) noexcept {
  const Visible* seen = visible();
  if (seen == nullptr) return;
  observe::outermost.explained = true;
  const journal::WithoutCancellation whole;
  try {
    fault.call = observe::outside_cuda(fault.call);
    const std::string once = !fault.once.empty()
                                 ? fault.once
                                 : place_key(fault.call) + "/" + std::to_string(fault.device) + "/" +
                                       std::to_string(fault.other_device) + "/" + fault.subject;
    journal::Journal& journal = *rules().journal;
    if (journal.counted_again(fault.code, once)) return;
    // What was done there is no work that is counted, but not nothing either.
    const std::string_view code = fault.code;
    if ((code == "GF201" || code == "GF202") && seen->tally != nullptr) seen->tally->touch(fault.device);
    journal::Finding finding;
    finding.code = fault.code;
    finding.severity = fault.severity;
    finding.once = once;
    fill_in(finding, fault.call, fault.thread);
    finding.bytes = fault.bytes;
    finding.device = record_of(*seen, fault.device);
    finding.other_device = record_of(*seen, fault.other_device);
    finding.message = words(*seen);
    if (fault.call.caller != nullptr)
      finding.message += "; " + finding.api + " at " + place_text(fault.call.caller, finding.python) +
                         ", thread \"" + finding.thread + "\"";
    journal.say(finding);
  } catch (...) {
    // A finding that can't be worded is lost; the program is not.
  }
}

void say_of(journal::Finding finding, const observe::Call& call) noexcept {
  const journal::WithoutCancellation whole;
  try {
    fill_in(finding, observe::outside_cuda(call));
    rules().journal->say(finding);
  } catch (...) {
    // A finding that can't be worded is lost; the program is not.
  }
}

void say_no_such_ordinal(int ordinal, const observe::Call& call, int real) noexcept {
  const Visible* seen = visible();
  // "Invalid device" is also what CUDA says where two GPUs are no peers.
  if (seen == nullptr || seen->has(real)) return;
  try {
    // A program that was written for the whole machine means the host's GPU of that number.
    int meant = -1;
    for (const observe::Device& device : seen->devices) {
      if (ordinal >= 0 && device.host_index == ordinal) meant = device.ordinal;
    }
    const observe::Call made = observe::outside_cuda(call);
    explain({.code = "GF101",
             .call = made,
             .device = meant,
             .once = std::to_string(ordinal) + "/" + place_key(made)},
            [&](const Visible& to) {
              std::string message = "ordinal " + std::to_string(ordinal) + " asked for, ";
              if (real != ordinal) message += "which the remap makes " + std::to_string(real) + ", ";
              message += observe::list_text(to.devices);
              if (to.started.mask) message += " (CUDA_VISIBLE_DEVICES=\"" + *to.started.mask + "\")";
              if (meant >= 0)
                message += "; host GPU " + std::to_string(ordinal) + " is ordinal " + std::to_string(meant) +
                           " here";
              return message;
            });
  } catch (...) {
  }
}

std::string started_text(const Started& started) {
  return "cuInit at " + observe::age_text(started.age_ns) + " (called from " +
         observe::object_text(started.call.caller) + ")";
}

void say_used_in_dead_child(const observe::Call& call) noexcept {
  // A runtime call says it once, not once more for each driver call below it. Destructors and exit handlers
  // that give back what the parent had do no harm.
  if (observe::outermost.explained || observe::exiting()) return;
  explain({"GF302", journal::Severity::warning, call}, [](const Visible& seen) {
    return "CUDA used in a forked child (pid " + std::to_string(getpid()) +
           ") of a process that had CUDA live since its " + started_text(seen.started) +
           ": it can't work here; fork before the first CUDA call, or start the child as a program of its "
           "own "
           "(Python: the start method \"spawn\")";
  });
}

void remember_made(observe::Kind kind, const void* handle, const char* api, const void* caller,
                   const void* parent, const char* name) noexcept {
  observe::Owners* known = owners();
  if (known == nullptr) return;
  const std::optional<Place> place = place_of_current_context();
  if (!place) return;
  observe::Owner owner;
  owner.device = static_cast<int>(place->row);
  owner.context = place->context;
  owner.parent = parent;
  owner.made = observe::current(api, caller);
  owner.name = name;
  known->remember(kind, handle, owner);
}

void remember_on(observe::Kind kind, const void* handle, int device, const observe::Call& made) noexcept {
  observe::Owners* known = owners();
  if (known == nullptr) return;
  observe::Owner owner;
  owner.device = device;
  owner.made = made;
  known->remember(kind, handle, owner);
}

int current_device() noexcept {
  CUdevice device = -1;
  return real<&::cuCtxGetDevice>(&device) == CUDA_SUCCESS ? device : -1;
}

StreamPlace place_of_stream(CUstream stream) noexcept {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
    return {current_device(), true, {}};
  const observe::Owners* known = owners();
  const std::optional<observe::Owner> owner =
      known != nullptr ? known->find(observe::Kind::stream, stream) : std::nullopt;
  return owner ? StreamPlace{owner->device, false, owner->made} : StreamPlace{};
}

}  // namespace gpufence::hooks
