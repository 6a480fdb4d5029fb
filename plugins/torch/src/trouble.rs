//! Errors of libtorch and CUDA as outcomes and in words. Knows nothing of what was being done.

use std::panic::{AssertUnwindSafe, catch_unwind};

use flow_plugin::Error;

use crate::native::Memory;

/// Does some work with libtorch, whose binding tells most errors as panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::failed(format!("libtorch: {}", first_line(words))))
    })
}

/// The error in plain words. `gpus` is the number of GPUs: if an allocator was out of memory, that is why a library
/// found no algorithm.
pub(crate) fn explained(error: Error, gpus: usize) -> Error {
    let Error::Failed(words) = error else { return error };
    let words = first_line(&words);
    let said = ["out of memory", "can't allocate memory", "ALLOC_FAILED"].iter().any(|mark| words.contains(mark));
    let refused = || (0..gpus).any(|gpu| Memory::of(gpu as i32).is_ok_and(|memory| memory.refused > 0));
    if said
        || (words.contains("engine") || words.contains("CUDNN_STATUS") || words.contains("CUBLAS_STATUS")) && refused()
    {
        // What follows is about fragments and settings.
        let needed = words.split(" Of the allocated memory").next().unwrap_or(&words).trim_end_matches(['.', ';', ' ']);
        return Error::out_of_memory(format!("{needed}. A smaller `batch` or more `gpus` need less on each"));
    }
    if ["CUDA error", "CUDNN_STATUS", "CUBLAS_STATUS"].iter().any(|mark| words.contains(mark)) {
        return Error::failed(format!("{words} (nvidia-smi and the kernel's log say whether the card is well)"));
    }
    Error::Failed(words)
}

/// The rest, with the stack of C++, is in the log. In a panic of the binding line ends are written out.
fn first_line(words: &str) -> String {
    let line = words.split("\\n").next().unwrap_or(words).lines().next().unwrap_or(words);
    line.replace("called `Result::unwrap()` on an `Err` value: Torch(\"", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_memory_is_an_outcome() {
        let words = r#"called `Result::unwrap()` on an `Err` value: Torch("CUDA out of memory. Tried to allocate 20.00 MiB. 4.00 GiB allowed; Of the allocated memory 3 GiB is in use\nException raised from malloc")"#;
        let error = caught::<()>(|| panic!("{words}")).unwrap_err();
        let Error::OutOfMemory(said) = explained(error, 0) else { panic!("not out of memory") };
        insta::assert_snapshot!(said, @"libtorch: CUDA out of memory. Tried to allocate 20.00 MiB. 4.00 GiB allowed. A smaller `batch` or more `gpus` need less on each");
    }

    #[test]
    fn other_errors_keep_their_first_line() {
        let said = |words: &str| explained(Error::failed(words), 0).to_string();
        assert_eq!(said("expected 3 dimensions\nat frame #0"), "expected 3 dimensions");
        let lost = said("CUDA error: unspecified launch failure\nCUDA kernel errors might be");
        assert_eq!(
            lost,
            "CUDA error: unspecified launch failure (nvidia-smi and the kernel's log say whether the card is well)"
        );
    }
}
