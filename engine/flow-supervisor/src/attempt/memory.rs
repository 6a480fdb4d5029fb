//! Recognises out-of-memory errors by the words of programs. Knows no processes.

/// Messages of CUDA, frameworks, languages and the system about insufficient memory.
const WORDS: &[&str] = &[
    "CUDA out of memory",
    "HIP out of memory",
    "CUDA error: out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "NCCL WARN Cuda failure 'out of memory'",
    "OutOfMemoryError",
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "RESOURCE_EXHAUSTED: Out of memory",
    "OOM when allocating tensor",
    "ArrayMemoryError",
    "std::bad_alloc",
    "Cannot allocate memory",
    "oom-kill",
];

/// The last such line, if there is one.
pub(crate) fn out_of_memory_line<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> Option<&'a str> {
    lines.rev().find(|line| is_out_of_memory(line)).map(str::trim)
}

pub(super) fn is_out_of_memory(line: &str) -> bool {
    WORDS.iter().any(|words| line.contains(words))
        // Python's own, at the end of a traceback; Rust's; a loader killed by the kernel, as PyTorch reports it.
        || line.trim_start().starts_with("MemoryError")
        || (line.contains("memory allocation of") && line.contains("bytes failed"))
        || (line.contains("DataLoader worker") && line.contains("killed by signal: Killed"))
}

#[cfg(test)]
mod tests {
    use super::out_of_memory_line;

    #[test]
    fn the_words_of_the_field_are_known() {
        let yes = [
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB",
            "torch.cuda.OutOfMemoryError: CUDA out of memory.",
            "RuntimeError: CUDA error: out of memory",
            "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 80 bytes.",
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes.",
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 TiB for an array",
            "MemoryError",
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "memory allocation of 99999999999 bytes failed",
            "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. ",
            "OSError: [Errno 12] Cannot allocate memory",
        ];
        for line in yes {
            assert_eq!(out_of_memory_line([line, "done"].into_iter()), Some(line.trim()), "{line}");
        }
        let no =
            ["out of memory is a result", "memory: 3 GiB", "no MemoryError was raised", "Killed", "KeyError: 'oom'"];
        assert_eq!(out_of_memory_line(no.into_iter()), None);
    }
}
