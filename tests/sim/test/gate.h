// What tests of asynchrony stand on: a host function that holds its stream until the test lets it go, and a
// list of who came when. Nothing here depends on how fast anything is.
#pragma once
#include <cuda.h>

#include <condition_variable>
#include <mutex>
#include <string>

namespace gpufence::sim {

class Gate {
 public:
  // Gives the stream a host function that waits for open().
  CUresult hold(CUstream stream) { return cuLaunchHostFunc(stream, wait, this); }
  // Returns once that function runs.
  void reached() {
    std::unique_lock<std::mutex> held(lock_);
    changed_.wait(held, [&] { return reached_; });
  }
  void open() {
    std::lock_guard<std::mutex> held(lock_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static void wait(void* self) {
    auto* gate = static_cast<Gate*>(self);
    std::unique_lock<std::mutex> held(gate->lock_);
    gate->reached_ = true;
    gate->changed_.notify_all();
    gate->changed_.wait(held, [&] { return gate->open_; });
  }

  std::mutex lock_;
  std::condition_variable changed_;
  bool reached_ = false, open_ = false;
};

// Letters, written by host functions as their turn comes.
class Diary {
 public:
  CUresult write(CUstream stream, char letter) {
    return cuLaunchHostFunc(stream, note, new Entry{this, letter});
  }
  std::string read() {
    std::lock_guard<std::mutex> held(lock_);
    return text_;
  }

 private:
  struct Entry {
    Diary* diary;
    char letter;
  };
  static void note(void* data) {
    auto* entry = static_cast<Entry*>(data);
    {
      std::lock_guard<std::mutex> held(entry->diary->lock_);
      entry->diary->text_ += entry->letter;
    }
    delete entry;
  }

  std::mutex lock_;
  std::string text_;
};

}  // namespace gpufence::sim
