//! Measures the real memory bandwidth to and from each GPU: page-locked transfers through CUDA's driver library, loaded
//! on demand. The generation and width of a link are not a rate. Does not use NVML.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
};

use libloading::{Library, Symbol};
use serde::Serialize;

use crate::clock;

/// Size of a transfer, small enough for any GPU and large enough to hide the start-up time.
const BYTES: usize = 256 << 20;
/// Transfers in each direction; the median is reported.
const REPEATS: usize = 9;

/// Calls a function of the library by its name in cuda.h: `call!(cuda, cuInit(0 => c_uint))`.
macro_rules! call {
    ($cuda:expr, $name:ident($($argument:expr => $type:ty),*)) => {{
        let name = stringify!($name);
        #[expect(unsafe_code, reason = "CUDA is a C library")]
        // SAFETY: the types are those of cuda.h, and the pointers' targets outlive the call.
        let code = unsafe {
            let function: Result<Symbol<'_, unsafe extern "C" fn($($type),*) -> Code>, _> = $cuda.0.get(name.as_bytes());
            function.map(|function| function($($argument),*))
        };
        match code {
            Ok(0) => Ok(()),
            Ok(code) => Err($cuda.words(name, code)),
            Err(_) => Err(format!("this CUDA driver has no {name}")),
        }
    }};
}

/// Measured rates of one GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Its UUID, as NVML writes it.
    pub uuid: String,
    /// Host to device, GB/s (10⁹ bytes).
    pub to_device: f64,
    /// Device to host, GB/s.
    pub to_host: f64,
}

#[derive(Debug, Default)]
pub struct Probe {
    pub rates: Vec<Rate>,
    /// A sentence for each GPU, or for all, that could not be measured.
    pub troubles: Vec<String>,
}

/// Measures every GPU that CUDA shows to this process, one after the other.
pub fn probe() -> Probe {
    let mut probe = Probe::default();
    match cards() {
        Ok((cuda, count)) => (0..count).for_each(|index| match cuda.measure(index) {
            Ok(rate) => probe.rates.push(rate),
            Err(error) => probe.troubles.push(error),
        }),
        Err(error) => probe.troubles.push(error),
    }
    probe
}

fn cards() -> Result<(Cuda, c_int), String> {
    let cuda = Cuda::load()?;
    let mut count: c_int = 0;
    call!(cuda, cuDeviceGetCount(&mut count => *mut c_int))?;
    if count == 0 {
        return Err("CUDA sees no GPU".to_owned());
    }
    Ok((cuda, count))
}

type Code = c_uint;

struct Cuda(Library);

impl Cuda {
    #[expect(unsafe_code, reason = "loading a library runs its initialisers")]
    fn load() -> Result<Cuda, String> {
        // SAFETY: it is the library that every CUDA program loads.
        let library = unsafe { Library::new("libcuda.so.1") };
        let cuda = Cuda(library.map_err(|_| "there is no CUDA driver (libcuda.so.1) on this machine".to_owned())?);
        call!(cuda, cuInit(0 => c_uint)).map_err(|error| format!("CUDA cannot be used: {error}"))?;
        Ok(cuda)
    }

    fn measure(&self, index: c_int) -> Result<Rate, String> {
        let (mut device, mut uuid): (c_int, [u8; 16]) = (0, [0; 16]);
        call!(self, cuDeviceGet(&mut device => *mut c_int, index => c_int))?;
        call!(self, cuDeviceGetUuid(&mut uuid => *mut [u8; 16], device => c_int))?;
        let uuid = written(uuid);
        let mut context: *mut c_void = ptr::null_mut();
        let failed = |error| format!("{uuid}: {error}");
        call!(self, cuDevicePrimaryCtxRetain(&mut context => *mut *mut c_void, device => c_int)).map_err(failed)?;
        let rates = self.in_context(context).map_err(failed);
        call!(self, cuDevicePrimaryCtxRelease_v2(device => c_int)).map_err(failed)?;
        let (to_device, to_host) = rates?;
        Ok(Rate { uuid, to_device, to_host })
    }

    fn in_context(&self, context: *mut c_void) -> Result<(f64, f64), String> {
        call!(self, cuCtxSetCurrent(context => *mut c_void))?;
        let mut host: *mut c_void = ptr::null_mut();
        call!(self, cuMemAllocHost_v2(&mut host => *mut *mut c_void, BYTES => usize))?;
        let rates = self.with_host(host);
        call!(self, cuMemFreeHost(host => *mut c_void))?;
        rates
    }

    fn with_host(&self, host: *mut c_void) -> Result<(f64, f64), String> {
        let mut device: u64 = 0;
        call!(self, cuMemAlloc_v2(&mut device => *mut u64, BYTES => usize))?;
        let to_device =
            self.rate(|| call!(self, cuMemcpyHtoD_v2(device => u64, host => *const c_void, BYTES => usize)));
        let to_host = self.rate(|| call!(self, cuMemcpyDtoH_v2(host => *mut c_void, device => u64, BYTES => usize)));
        call!(self, cuMemFree_v2(device => u64))?;
        Ok((to_device?, to_host?))
    }

    /// The median of several transfers, without the first, which touches the memory.
    fn rate(&self, transfer: impl Fn() -> Result<(), String>) -> Result<f64, String> {
        let mut rates = Vec::with_capacity(REPEATS);
        for repeat in 0..=REPEATS {
            call!(self, cuCtxSynchronize())?;
            let begun = clock::steady();
            transfer()?;
            call!(self, cuCtxSynchronize())?;
            if repeat > 0 {
                rates.push(BYTES as f64 / clock::since(begun).as_secs_f64() / 1e9);
            }
        }
        rates.sort_by(f64::total_cmp);
        Ok(rates[REPEATS / 2])
    }

    fn words(&self, name: &str, code: Code) -> String {
        let mut text: *const c_char = ptr::null();
        #[expect(unsafe_code, reason = "CUDA is a C library")]
        // SAFETY: the types are those of cuda.h; the text is a constant of the library, which stays loaded.
        let text = unsafe {
            let function = self.0.get::<unsafe extern "C" fn(Code, *mut *const c_char) -> Code>(b"cuGetErrorName");
            let named = function.is_ok_and(|function| function(code, &mut text) == 0) && !text.is_null();
            named.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        match text {
            Some(text) => format!("{name} failed: {text}"),
            None => format!("{name} failed with CUDA error {code}"),
        }
    }
}

/// A UUID as NVML writes it: `GPU-3a05b1f2-…`.
fn written(uuid: [u8; 16]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let [a, b, c, d, e] = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]].map(hex);
    format!("GPU-{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_nvml_does() {
        let uuid: [u8; 16] = std::array::from_fn(|n| 0x10 * n as u8 + 1);
        assert_eq!(written(uuid), "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1");
    }

    #[test]
    fn no_driver_is_said() {
        // On a machine with one, there is something to measure, which is not for a test.
        if let Err(text) = Cuda::load() {
            assert!(text.contains("libcuda.so.1") || text.contains("cuInit"), "{text}");
        }
    }
}
