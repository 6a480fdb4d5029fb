//! The calls of the library that flow uses, with their C interface. Each call reads the text file again.
#![expect(unsafe_code, reason = "a C interface: the caller hands over where answers go")]

use std::{
    ffi::{c_char, c_int, c_uint, c_ulonglong, c_void},
    fs,
    ptr::NonNull,
    thread,
    time::Duration,
};

use crate::state::{Gpu, Process, State};

type Code = c_uint;
type Device = *mut c_void;

const SUCCESS: Code = 0;
const INVALID_ARGUMENT: Code = 2;
const NOT_SUPPORTED: Code = 3;
const NOT_FOUND: Code = 6;
const INSUFFICIENT_SIZE: Code = 7;
const FUNCTION_NOT_FOUND: Code = 13;
const GPU_IS_LOST: Code = 15;

/// The first handle. Handles are numbers, not addresses.
const FIRST: usize = 0x1000;

fn answer(result: Result<(), Code>) -> Code {
    result.err().unwrap_or(SUCCESS)
}

fn state(call: &str) -> Result<State, Code> {
    let state = State::read();
    if state.has(call) { Ok(state) } else { Err(FUNCTION_NOT_FOUND) }
}

fn gpu(call: &str, device: Device) -> Result<(usize, Gpu), Code> {
    let index = (device as usize).wrapping_sub(FIRST);
    let gpu = state(call)?.gpus.get(index).cloned().ok_or(INVALID_ARGUMENT)?;
    if gpu.lost { Err(GPU_IS_LOST) } else { Ok((index, gpu)) }
}

/// Writes an answer where the caller wants it.
fn put<T>(to: *mut T, value: T) -> Result<(), Code> {
    let to = NonNull::new(to).ok_or(INVALID_ARGUMENT)?;
    // SAFETY: the caller of a C interface owns what it points to.
    unsafe { to.write(value) };
    Ok(())
}

fn put_text(to: *mut c_char, length: c_uint, text: &str) -> Result<(), Code> {
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    let to = NonNull::new(to).ok_or(INVALID_ARGUMENT)?;
    // SAFETY: the caller owns `length` bytes there, and the text with its end is not longer.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(NonNull::from(text.as_bytes()).cast(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// Writes a list. If the caller has too little room, writes the number of places it needs.
fn put_list<T>(to: *mut T, count: *mut c_uint, list: Vec<T>) -> Result<(), Code> {
    let count = NonNull::new(count).ok_or(INVALID_ARGUMENT)?;
    // SAFETY: the caller owns the count, and as many places as it says.
    let room = unsafe { count.read() } as usize;
    unsafe { count.write(list.len() as c_uint) };
    if list.is_empty() {
        return Ok(());
    }
    let to = NonNull::new(to).filter(|_| room >= list.len()).ok_or(INSUFFICIENT_SIZE)?;
    for (at, item) in list.into_iter().enumerate() {
        // SAFETY: as above; `at` is below the room.
        unsafe { to.add(at).write(item) };
    }
    Ok(())
}

#[repr(C)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[repr(C)]
struct ProcessInfo {
    pid: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

#[repr(C)]
struct ProcessUtilization {
    pid: c_uint,
    timestamp: c_ulonglong,
    sm: c_uint,
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> Code {
    State::read().init
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> Code {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, length: c_uint) -> Code {
    answer(state("nvmlSystemGetDriverVersion").and_then(|s| put_text(to, length, &s.driver)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(to: *mut c_int) -> Code {
    answer(state("nvmlSystemGetCudaDriverVersion_v2").and_then(|_| put(to, 13000)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> Code {
    answer(state("nvmlDeviceGetCount_v2").and_then(|s| put(to, s.gpus.len() as c_uint)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut Device) -> Code {
    let handle = state("nvmlDeviceGetHandleByIndex_v2").and_then(|s| match s.gpus.get(index as usize) {
        Some(gpu) if gpu.lost => Err(GPU_IS_LOST),
        Some(_) => put(to, (FIRST + index as usize) as Device),
        None => Err(INVALID_ARGUMENT),
    });
    answer(handle)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(device: Device, to: *mut c_char, length: c_uint) -> Code {
    answer(gpu("nvmlDeviceGetName", device).and_then(|(_, g)| put_text(to, length, &g.name)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(device: Device, to: *mut c_char, length: c_uint) -> Code {
    answer(gpu("nvmlDeviceGetUUID", device).and_then(|(_, g)| put_text(to, length, &g.uuid)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, to: *mut MemoryV2) -> Code {
    let memory = gpu("nvmlDeviceGetMemoryInfo_v2", device).and_then(|(_, g)| {
        thread::sleep(Duration::from_millis(g.hang_ms));
        let free = g.total.saturating_sub(g.reserved + g.used);
        put(to, MemoryV2 { version: 2, total: g.total, reserved: g.reserved, free, used: g.used })
    });
    answer(memory)
}

/// The older call counts the driver's own memory as used.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, to: *mut Memory) -> Code {
    let memory = gpu("nvmlDeviceGetMemoryInfo", device).and_then(|(_, g)| {
        let used = g.reserved + g.used;
        put(to, Memory { total: g.total, free: g.total.saturating_sub(used), used })
    });
    answer(memory)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, to: *mut Utilization) -> Code {
    let rates = gpu("nvmlDeviceGetUtilizationRates", device);
    answer(rates.and_then(|(_, g)| put(to, Utilization { gpu: g.load, memory: g.memory_load })))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(device: Device, to: *mut c_uint) -> Code {
    answer(gpu("nvmlDeviceGetPowerUsage", device).and_then(|(_, g)| put(to, g.watts * 1000)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: Device, to: *mut c_ulonglong) -> Code {
    let energy = gpu("nvmlDeviceGetTotalEnergyConsumption", device).and_then(|(_, g)| {
        if g.no_energy {
            return Err(NOT_SUPPORTED);
        }
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let seconds: f64 = uptime.split(' ').next().and_then(|s| s.parse().ok()).unwrap_or(0.0);
        put(to, (seconds * f64::from(g.watts) * 1e3) as c_ulonglong)
    });
    answer(energy)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(device: Device, to: *mut c_uint) -> Code {
    answer(gpu("nvmlDeviceGetCurrPcieLinkGeneration", device).and_then(|(_, g)| put(to, g.pcie.0)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(device: Device, to: *mut c_uint) -> Code {
    answer(gpu("nvmlDeviceGetCurrPcieLinkWidth", device).and_then(|(_, g)| put(to, g.pcie.1)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(device: Device, to: *mut c_uint) -> Code {
    answer(gpu("nvmlDeviceGetMaxPcieLinkGeneration", device).and_then(|_| put(to, 3)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(device: Device, to: *mut c_uint) -> Code {
    answer(gpu("nvmlDeviceGetMaxPcieLinkWidth", device).and_then(|_| put(to, 16)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(device: Device, current: *mut c_uint, pending: *mut c_uint) -> Code {
    let mode = gpu("nvmlDeviceGetMigMode", device).and_then(|(_, g)| {
        if !g.mig {
            return Err(NOT_SUPPORTED);
        }
        put(current, 1)?;
        put(pending, 1)
    });
    answer(mode)
}

fn processes(
    call: &str,
    device: Device,
    count: *mut c_uint,
    to: *mut ProcessInfo,
    wanted: impl Fn(&Process) -> bool,
) -> Code {
    let list = gpu(call, device).and_then(|(_, g)| {
        let info = |p: &Process| ProcessInfo {
            pid: p.pid,
            used: p.memory,
            gpu_instance: c_uint::MAX,
            compute_instance: c_uint::MAX,
        };
        put_list(to, count, g.processes.iter().filter(|p| wanted(p)).map(info).collect())
    });
    answer(list)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(d: Device, count: *mut c_uint, to: *mut ProcessInfo) -> Code {
    processes("nvmlDeviceGetComputeRunningProcesses_v3", d, count, to, |p| p.computes)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(d: Device, count: *mut c_uint, to: *mut ProcessInfo) -> Code {
    processes("nvmlDeviceGetComputeRunningProcesses_v2", d, count, to, |p| p.computes)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(d: Device, count: *mut c_uint, to: *mut ProcessInfo) -> Code {
    processes("nvmlDeviceGetGraphicsRunningProcesses_v3", d, count, to, |p| p.draws)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Device,
    to: *mut ProcessUtilization,
    count: *mut c_uint,
    since: c_ulonglong,
) -> Code {
    let list = gpu("nvmlDeviceGetProcessUtilization", device).and_then(|(_, g)| {
        let timestamp = since + 1;
        let of = |p: &Process| ProcessUtilization {
            pid: p.pid,
            timestamp,
            sm: p.sm,
            memory: p.sm / 2,
            encoder: 0,
            decoder: 0,
        };
        let list: Vec<_> = g.processes.iter().filter(|p| p.sm > 0).map(of).collect();
        // The driver's answer if there is no process.
        if list.is_empty() { Err(NOT_FOUND) } else { put_list(to, count, list) }
    });
    answer(list)
}
