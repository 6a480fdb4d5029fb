//! One look at all cards, on a thread of its own, with a limit to how long it may take.

use std::{sync::mpsc, thread, time::Duration};

use flow_core::{
    GpuFacts,
    reason::{Fault, GpuFault},
};
use serde::Serialize;

use super::{
    Look,
    library::{Closed, Handle, Library, Query},
};

/// Cards that nobody keeps awake take seconds each to come up.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that the library says of this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    pub driver: Option<String>,
    /// The newest CUDA that the driver can do.
    pub cuda: Option<String>,
    /// Cards that there are.
    pub count: u32,
    /// The cards that can be used, in the library's order.
    pub cards: Vec<Card>,
    /// What stands in the way of using GPUs. Empty where there is simply no NVIDIA driver.
    pub troubles: Vec<Fault>,
}

/// A card, as it is and as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Card {
    /// What is always so of it.
    #[serde(flatten)]
    pub facts: GpuFacts,
    pub now: Look,
    /// The PCIe generation and width that card and slot can do together.
    pub pcie_largest: Option<(u32, u32)>,
}

/// Asks the library for everything.
pub fn survey() -> Survey {
    let (tell, told) = mpsc::channel();
    let asked = thread::Builder::new().name("nvml".into()).spawn(move || {
        let library = Library::open();
        // Nobody listens any more if it took too long.
        let _ = tell.send(ask(library.as_ref()));
    });
    let trouble = |fault: GpuFault| Survey { troubles: vec![fault.into()], ..Survey::default() };
    match asked {
        Ok(_) => told
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| trouble(GpuFault::DriverSilent { seconds: PATIENCE.as_secs() })),
        Err(error) => trouble(GpuFault::NotAsked { error: Box::new(error.into()) }),
    }
}

fn ask(library: Result<&Library, &Closed>) -> Survey {
    let library = match library {
        Ok(library) => library,
        Err(Closed::Absent) => return Survey::default(),
        Err(Closed::Trouble(fault)) => return Survey { troubles: vec![fault.clone().into()], ..Survey::default() },
    };
    let mut survey = Survey { driver: library.driver(), cuda: library.cuda(), ..Survey::default() };
    let count = match library.count() {
        Ok(0) => {
            survey.troubles.push(GpuFault::NoCard.into());
            0
        }
        Ok(count) => count,
        Err(error) => {
            survey.troubles.push(GpuFault::CardsNotCounted { said: error }.into());
            0
        }
    };
    survey.count = count;
    for index in 0..count {
        match library.card(index).and_then(|handle| card(&handle)) {
            Ok(card) => survey.cards.push(card),
            Err(fault) => survey.troubles.push(fault.into()),
        }
    }
    survey
}

fn card(handle: &Handle<'_>) -> Result<Card, GpuFault> {
    let facts = handle.facts()?;
    if handle.is_divided() {
        return Err(GpuFault::Divided { gpu: facts.index, model: facts.name });
    }
    let looked = handle.look(Query::EVERYTHING).and_then(|now| {
        let processes = handle.processes(now.memory)?;
        Ok(Look { processes, ..now })
    });
    let now = looked.map_err(|_| GpuFault::CardLost { gpu: facts.index })?;
    Ok(Card { facts, now, pcie_largest: handle.largest_link() })
}
