//! One look at all GPUs, on a thread of its own, with a time limit.

use std::{sync::mpsc, thread, time::Duration};

use flow_core::{
    GpuFacts,
    reason::{Fault, GpuFault},
};
use serde::Serialize;

use super::{
    Look,
    library::{Handle, Library, NvmlUnavailable, Query},
};

/// GPUs that nothing keeps awake take seconds each to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that the library reports about this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    pub driver: Option<String>,
    /// The newest CUDA version that the driver supports.
    pub cuda: Option<String>,
    /// Number of installed GPUs.
    pub count: u32,
    /// The usable GPUs, in the library's order.
    pub gpus: Vec<GpuSurvey>,
    /// Reasons why GPUs cannot be used. Empty if there is simply no NVIDIA driver.
    pub troubles: Vec<Fault>,
}

/// The facts and the present state of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuSurvey {
    /// Its constant facts.
    #[serde(flatten)]
    pub facts: GpuFacts,
    pub now: Look,
    /// The maximum PCIe generation and width of GPU and slot together.
    pub pcie_max: Option<(u32, u32)>,
}

/// Queries everything.
pub fn survey() -> Survey {
    let (tell, told) = mpsc::channel();
    let asked = thread::Builder::new().name("nvml".into()).spawn(move || {
        let library = Library::open();
        // After the timeout, nobody receives this.
        let _ = tell.send(query(library.as_ref()));
    });
    let trouble = |fault: GpuFault| Survey { troubles: vec![fault.into()], ..Survey::default() };
    match asked {
        Ok(_) => told
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| trouble(GpuFault::DriverSilent { seconds: PATIENCE.as_secs() })),
        Err(error) => trouble(GpuFault::NoQueryThread { error: Box::new(error.into()) }),
    }
}

fn query(library: Result<&Library, &NvmlUnavailable>) -> Survey {
    let library = match library {
        Ok(library) => library,
        Err(NvmlUnavailable::Absent) => return Survey::default(),
        Err(NvmlUnavailable::Trouble(fault)) => {
            return Survey { troubles: vec![fault.clone().into()], ..Survey::default() };
        }
    };
    let mut survey = Survey { driver: library.driver(), cuda: library.cuda(), ..Survey::default() };
    match library.count() {
        Ok(0) => survey.troubles.push(GpuFault::NoGpu.into()),
        Ok(count) => survey.count = count,
        Err(message) => survey.troubles.push(GpuFault::GpusNotCounted { message }.into()),
    }
    for index in 0..survey.count {
        match library.gpu(index).and_then(|handle| survey_gpu(&handle)) {
            Ok(gpu) => survey.gpus.push(gpu),
            Err(fault) => survey.troubles.push(fault.into()),
        }
    }
    survey
}

fn survey_gpu(handle: &Handle<'_>) -> Result<GpuSurvey, GpuFault> {
    let facts = handle.facts()?;
    if handle.is_divided() {
        return Err(GpuFault::Divided { gpu: facts.index, model: facts.name });
    }
    let looked = handle.look(Query { memory: true, energy: true, link: true }).and_then(|now| {
        let processes = handle.processes(now.memory)?;
        Ok(Look { processes, ..now })
    });
    let now = looked.map_err(|_| GpuFault::GpuLost { gpu: facts.index })?;
    Ok(GpuSurvey { facts, now, pcie_max: handle.max_link() })
}
