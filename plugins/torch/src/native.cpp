// What tch lacks of libtorch: precision, allocator statistics and limit, fused optimisers, pinned memory and copies beside the
// computation, CUDA graphs. Written against the device-neutral headers of libtorch alone, so that it builds and starts without
// CUDA; what only the CUDA half has is looked up by name. Knows tensors and devices, and nothing of networks or data.
//
// Every function returns null, or an error that the caller frees.

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/flat_hash_map.h>
#include <torch/headeronly/version.h>

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using at::Tensor;

namespace {

template <class Body>
char* guarded(Body&& body) {
  try {
    body();
    return nullptr;
  } catch (const c10::Error& error) {
    return strdup(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return strdup(error.what());
  }
}

c10::Device cuda(int device) {
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
}

c10::Stream new_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(device, false);
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(device);
}

// Whether two tensors of one shape have their numbers in the same order in memory. The stride of a single element says nothing.
bool same_order(const Tensor& a, const Tensor& b) {
  for (int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) != 1 && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

Tensor uninitialised_like(const Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().requires_grad(false));
}

// SGD with momentum, or Adam. All gradients lie in one tensor, in which several devices can add theirs up, and an update is one
// or two launches however many weights there are. The learning rate lies on the device, where a replayed graph finds it.
struct Optimizer {
  std::vector<Tensor> leaves, weights, gradients, first, second, steps;
  Tensor flat, rate;
  double momentum, decay;

  Optimizer(std::vector<Tensor> trained, bool adam, double momentum, double decay)
      : leaves(std::move(trained)), momentum(momentum), decay(decay) {
    c10::NoGradGuard no_grad;
    int64_t total = 0;
    for (const auto& leaf : leaves) total += leaf.numel();
    const auto options = leaves.at(0).options().requires_grad(false);
    flat = at::empty({total}, options).zero_();
    rate = at::empty({}, options).zero_();
    int64_t offset = 0;
    for (const auto& leaf : leaves) {
      const auto weight = leaf.detach();
      gradients.push_back(flat.as_strided(weight.sizes(), weight.strides(), offset));
      offset += weight.numel();
      first.push_back(uninitialised_like(weight).zero_());
      if (adam) {
        second.push_back(uninitialised_like(weight).zero_());
        steps.push_back(at::empty({}, options).zero_());
      }
      weights.push_back(weight);
    }
  }

  // Takes the gradients from the weights into the one tensor.
  void gather() {
    c10::NoGradGuard no_grad;
    std::vector<Tensor> pieces;
    pieces.reserve(leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i) {
      auto& gradient = leaves[i].mutable_grad();
      TORCH_CHECK(gradient.defined(), "weight ", i, " of the network has no gradient");
      auto piece = same_order(gradient, weights[i]) ? gradient : uninitialised_like(weights[i]).copy_(gradient);
      pieces.push_back(piece.as_strided({piece.numel()}, {1}));
      gradient.reset();
    }
    at::cat_out(flat, pieces);
  }

  void update() {
    c10::NoGradGuard no_grad;
    if (second.empty()) {
      at::_fused_sgd_(weights, gradients, first, decay, momentum, rate, 0.0, false, false, false);
    } else {
      at::_foreach_add_(steps, 1);
      at::_fused_adam_(weights, gradients, first, second, {}, steps, rate, momentum, 0.999, decay, 1e-8, false, false);
    }
  }
};

// Copies batches to the device beside the computation: two places there, filled in turn on a stream of their own. It waits
// until the place is free, so the host runs at most two batches ahead of the device.
struct Feed {
  struct Place {
    std::vector<Tensor> tensors;
    c10::Event filled{c10::kCUDA}, emptied{c10::kCUDA};
  };
  c10::Device device;
  c10::Stream side;
  std::array<Place, 2> places;
  size_t turn = 0;

  explicit Feed(c10::Device device) : device(device), side(new_stream(device)) {}

  void put(const std::vector<Tensor>& from, std::vector<Tensor>& to) {
    c10::NoGradGuard no_grad;
    auto& place = places[turn++ % places.size()];
    // Asking now and then leaves the CPU to the loader; the driver's own waiting would keep it busy.
    while (!place.emptied.query()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    {
      c10::StreamGuard guard(side);
      if (place.tensors.empty()) {
        for (const auto& tensor : to) place.tensors.push_back(uninitialised_like(tensor));
      }
      for (size_t i = 0; i < from.size(); ++i) place.tensors[i].copy_(from[i], /*non_blocking=*/true);
      place.filled.record(side);
    }
    const auto stream = current_stream(device);
    place.filled.block(stream);
    for (size_t i = 0; i < to.size(); ++i) to[i].copy_(place.tensors[i], /*non_blocking=*/true);
    place.emptied.record(stream);
  }
};

// What at::cuda::CUDAGraph holds, for its size: its own header needs CUDA's. CUDA's handles are pointers.
struct GraphMembers {
  void *graph, *executable;
  bool has_graph, capture_ended, has_executable;
  unsigned long long capture;
  std::pair<unsigned long long, unsigned long long> pool;
  c10::Stream stream;
  ska::flat_hash_map<void*, uint64_t> generators;
  c10::DeviceIndex device;
  bool keeps_graph;
};
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11,
              "compare GraphMembers with ATen/cuda/CUDAGraph.h of this libtorch");

// at::cuda::CUDAGraph. Everything recorded between `begin` and `end` is launched as one by `replay`.
struct Graph {
  alignas(GraphMembers) unsigned char object[sizeof(GraphMembers)];
  c10::Stream stream, outer;

  template <class Function>
  static Function* symbol(const char* name) {
    auto* found = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
    TORCH_CHECK(found, "libtorch_cuda.so has no ", name);
    return found;
  }

  explicit Graph(c10::Device device) : stream(new_stream(device)), outer(current_stream(device)) {
    symbol<void(void*, bool)>("_ZN2at4cuda9CUDAGraphC1Eb")(object, false);
  }

  void begin() {
    // Memory that other allocations left cached is not for the graph to use.
    at::accelerator::synchronizeDevice(stream.device_index());
    at::getDeviceAllocator(c10::kCUDA)->emptyCache();
    c10::impl::VirtualGuardImpl(c10::kCUDA).exchangeStream(stream);
    constexpr int relaxed = 2;  // cudaStreamCaptureModeRelaxed: other threads may allocate meanwhile.
    symbol<void(void*, std::pair<unsigned long long, unsigned long long>, int)>(
        "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode")(object, {0, 0}, relaxed);
  }

  void end() {
    // Back to the usual stream also when what was recorded failed.
    struct Back {
      c10::Stream stream;
      ~Back() { c10::impl::VirtualGuardImpl(c10::kCUDA).exchangeStream(stream); }
    } back{outer};
    symbol<void(void*)>("_ZN2at4cuda9CUDAGraph11capture_endEv")(object);
  }

  void replay() { symbol<void(void*)>("_ZN2at4cuda9CUDAGraph6replayEv")(object); }

  ~Graph() {
    if (auto* destroy = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "_ZN2at4cuda9CUDAGraphD1Ev"))) destroy(object);
  }
};

std::vector<Tensor> tensors(Tensor* const* list, size_t count) {
  std::vector<Tensor> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) result.push_back(*list[i]);
  return result;
}

}  // namespace

extern "C" {

// The device of the calling thread.
char* flow_use_device(int device) {
  return guarded([&] { at::accelerator::setDeviceIndex(cuda(device).index()); });
}

char* flow_tf32(bool allowed) {
  return guarded([&] {
    at::globalContext().setAllowTF32CuDNN(allowed);
    at::globalContext().setAllowTF32CuBLAS(allowed);
  });
}

// bf16 for what gains by it, in the calling thread. Casts are not kept: each weight is used once.
char* flow_autocast(bool on) {
  return guarded([&] {
    at::autocast::set_autocast_dtype(c10::kCUDA, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(!on);
    at::autocast::set_autocast_enabled(c10::kCUDA, on);
  });
}

// The peaks of what tensors held and of what the allocator took from the driver; how often it had nothing left to give.
char* flow_memory(int device, int64_t* allocated, int64_t* reserved, int64_t* refused) {
  return guarded([&] {
    auto* allocator = at::getDeviceAllocator(c10::kCUDA);
    const auto index = cuda(device).index();
    const auto stats = allocator->getDeviceStats(index);
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    *allocated = stats.allocated_bytes[all].peak;
    *reserved = stats.reserved_bytes[all].peak;
    *refused = stats.num_ooms;
  });
}

char* flow_total_memory(int device, int64_t* total) {
  return guarded([&] {
    *total = static_cast<int64_t>(at::getDeviceAllocator(c10::kCUDA)->getMemoryInfo(cuda(device).index()).second);
  });
}

// Gives cached memory back, and begins the peaks anew.
char* flow_forget_memory(int device) {
  return guarded([&] {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    auto* allocator = at::getDeviceAllocator(c10::kCUDA);
    at::accelerator::synchronizeDevice(cuda(device).index());
    allocator->emptyCache();
    allocator->resetPeakStats(cuda(device).index());
  });
}

// The part of each device's memory that the allocator may take; before the first tensor on any.
char* flow_limit_memory(double part) {
  return guarded([&] {
    c10::CachingAllocator::setAllocatorSettings("per_process_memory_fraction:" + std::to_string(part));
  });
}

// Bytes in page-locked memory, from which the device can copy by itself.
char* flow_pinned(const int64_t* shape, size_t dimensions, Tensor** out) {
  return guarded([&] {
    *out = new Tensor(at::empty(at::IntArrayRef(shape, dimensions), at::TensorOptions(at::kByte).pinned_memory(true)));
  });
}

char* flow_optimizer_new(Tensor* const* weights, size_t count, bool adam, double momentum, double decay, Optimizer** out) {
  return guarded([&] { *out = new Optimizer(tensors(weights, count), adam, momentum, decay); });
}

char* flow_optimizer_gather(Optimizer* optimizer) {
  return guarded([&] { optimizer->gather(); });
}

char* flow_optimizer_gradient(Optimizer* optimizer, Tensor** out) {
  return guarded([&] { *out = new Tensor(optimizer->flat); });
}

// The tensor of this number among all that an optimiser remembers from step to step; past the end none.
char* flow_optimizer_state(Optimizer* optimizer, size_t number, Tensor** out) {
  return guarded([&] {
    for (const auto* list : {&optimizer->first, &optimizer->second, &optimizer->steps}) {
      if (number < list->size()) {
        *out = new Tensor((*list)[number]);
        return;
      }
      number -= list->size();
    }
  });
}

char* flow_optimizer_rate(Optimizer* optimizer, double rate) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    optimizer->rate.fill_(rate);
  });
}

char* flow_optimizer_update(Optimizer* optimizer) {
  return guarded([&] { optimizer->update(); });
}

void flow_optimizer_free(Optimizer* optimizer) {
  delete optimizer;
}

char* flow_feed_new(int device, Feed** out) {
  return guarded([&] { *out = new Feed(cuda(device)); });
}

char* flow_feed_put(Feed* feed, Tensor* const* from, Tensor* const* to, size_t count) {
  return guarded([&] {
    auto targets = tensors(to, count);
    feed->put(tensors(from, count), targets);
  });
}

void flow_feed_free(Feed* feed) {
  delete feed;
}

char* flow_graph_begin(int device, Graph** out) {
  return guarded([&] {
    auto graph = std::make_unique<Graph>(cuda(device));
    graph->begin();
    *out = graph.release();
  });
}

char* flow_graph_end(Graph* graph) {
  return guarded([&] { graph->end(); });
}

char* flow_graph_replay(Graph* graph) {
  return guarded([&] { graph->replay(); });
}

void flow_graph_free(Graph* graph) {
  delete graph;
}

}  // extern "C"
