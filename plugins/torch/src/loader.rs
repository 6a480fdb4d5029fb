//! Batches of pictures, made by threads ahead of whoever trains. Knows files and transforms, and nothing of networks.
//!
//! A batch is one tensor that the threads fill together, a picture each. How far they run ahead is the caller's choice:
//! with 0 they work only while the caller waits, which is right where both share the same CPUs.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flow_plugin::Error;
use tch::{Kind, TchError, Tensor};

use crate::dataset::Dataset;
use crate::native;
use crate::pixels::Pixels;
use crate::random;
use crate::transform::{Tools, Transform};

/// The threads, and what they need to know.
pub(crate) struct Loader {
    shared: Arc<LoaderState>,
    threads: Vec<JoinHandle<()>>,
    ahead: usize,
    pinned: bool,
}

struct LoaderState {
    data: Dataset,
    transform: Transform,
    jobs: Mutex<Jobs>,
    work: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

/// One picture to be made.
struct Job {
    batch: Arc<BatchInProgress>,
    slot: usize,
    sample: usize,
    augment: Option<u64>,
}

/// A batch in the making.
struct BatchInProgress {
    pixels: Pixels,
    state: Mutex<Progress>,
    done: Condvar,
}

struct Progress {
    missing: usize,
    error: Option<String>,
}

/// A batch: the bytes of its pictures, N×H×W×3, and their classes.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) pixels: Tensor,
    pub(crate) labels: Tensor,
}

/// The batches of one pass over samples, in order.
pub(crate) struct Pass<'a> {
    loader: &'a Loader,
    /// With a seed the pictures are augmented.
    augment: Option<u64>,
    samples: std::vec::IntoIter<usize>,
    batch: usize,
    started: VecDeque<(Arc<BatchInProgress>, Tensor)>,
    waited: Duration,
}

impl Loader {
    /// Starts `threads` threads that run up to `ahead` batches ahead; `pinned` for a GPU to copy from.
    pub(crate) fn new(
        data: Dataset,
        transform: Transform,
        threads: usize,
        ahead: usize,
        pinned: bool,
    ) -> Result<Self, Error> {
        let shared = Arc::new(LoaderState { data, transform, jobs: Mutex::default(), work: Condvar::new() });
        let mut loader = Self { shared: Arc::clone(&shared), threads: Vec::new(), ahead, pinned };
        for number in 0..threads {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name(format!("loader {number}")).spawn(move || shared.serve())?;
            loader.threads.push(thread);
        }
        Ok(loader)
    }

    /// One pass over `samples` in batches of `batch`, the last one possibly smaller; augmented if there is a seed.
    pub(crate) fn pass(&self, samples: Vec<usize>, batch: usize, augment: Option<u64>) -> Pass<'_> {
        let samples = samples.into_iter();
        Pass { loader: self, augment, samples, batch, started: VecDeque::new(), waited: Duration::ZERO }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        lock(&self.shared.jobs).closed = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // Its work is caught, so there is nothing that it could have died of.
            let _ = thread.join();
        }
    }
}

impl Pass<'_> {
    /// How long the caller has waited for data so far.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// The next batch, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, Error> {
        while self.started.len() <= self.loader.ahead && self.start_one()? {}
        let Some((filling, labels)) = self.started.pop_front() else { return Ok(None) };
        let asked = Instant::now();
        let mut state = lock(&filling.state);
        while state.missing > 0 {
            state = filling.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.waited += asked.elapsed();
        if let Some(error) = state.error.take() {
            return Err(Error::failed(error));
        }
        Ok(Some(Batch { pixels: filling.pixels.tensor()?, labels }))
    }

    fn start_one(&mut self) -> Result<bool, Error> {
        let samples: Vec<usize> = self.samples.by_ref().take(self.batch).collect();
        if samples.is_empty() {
            return Ok(false);
        }
        let (shared, pinned) = (&self.loader.shared, self.loader.pinned);
        let classes: Vec<i64> = samples.iter().map(|&sample| shared.data.samples[sample].class as i64).collect();
        let filling = Arc::new(BatchInProgress {
            pixels: Pixels::new(samples.len(), shared.data.size, pinned)?,
            state: Mutex::new(Progress { missing: samples.len(), error: None }),
            done: Condvar::new(),
        });
        let jobs = samples.into_iter().enumerate().map(|(slot, sample)| {
            let augment = self.augment.map(|seed| random::seed([seed, sample as u64]));
            Job { batch: Arc::clone(&filling), slot, sample, augment }
        });
        lock(&shared.jobs).waiting.extend(jobs);
        shared.work.notify_all();
        self.started.push_back((filling, labels(&classes, pinned)?));
        Ok(true)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // Nobody will ask for what was started, after an error.
        lock(&self.loader.shared.jobs).waiting.clear();
    }
}

impl LoaderState {
    /// The life of one thread.
    fn serve(&self) {
        let (mut bytes, mut tools) = (Vec::new(), None);
        while let Some(job) = self.take() {
            let made = catch_unwind(AssertUnwindSafe(|| self.make(&job, &mut bytes, &mut tools)))
                .unwrap_or_else(|_| Err("the decoder panicked; the log says where".to_owned()));
            let mut state = lock(&job.batch.state);
            if let Err(error) = made {
                // A decoder that failed may stand in the middle of that file.
                tools = None;
                let file = self.data.samples[job.sample].file.display();
                state.error.get_or_insert(format!("{file}: {error}"));
            }
            state.missing -= 1;
            if state.missing == 0 {
                job.batch.done.notify_all();
            }
        }
    }

    fn take(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        loop {
            if jobs.closed {
                return None;
            }
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            jobs = self.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn make(&self, job: &Job, bytes: &mut Vec<u8>, tools: &mut Option<Tools>) -> Result<(), String> {
        let tools = match tools {
            Some(tools) => tools,
            None => tools.insert(Tools::new()?),
        };
        bytes.clear();
        let read = File::open(&self.data.samples[job.sample].file).and_then(|mut file| file.read_to_end(bytes));
        read.map_err(|error| error.to_string())?;
        job.batch.pixels.fill(job.slot, |out| self.transform.apply(bytes, job.augment, tools, out))
    }
}

fn labels(classes: &[i64], pinned: bool) -> Result<Tensor, TchError> {
    let plain = Tensor::f_from_slice(classes)?;
    if !pinned {
        return Ok(plain);
    }
    let mut labels = native::pinned(&[8 * classes.len() as i64])?.f_view_dtype(Kind::Int64)?;
    labels.f_copy_(&plain)?;
    Ok(labels)
}

/// Poisoning says that a thread panicked; what it guarded is whole at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use fastrand::Rng;

    use super::*;
    use crate::dataset::{Sample, Version};

    const SIZE: u32 = 8;

    fn data(folder: &Path, count: usize) -> Dataset {
        let mut random = Rng::with_seed(4);
        let samples = (0..count).map(|index| {
            let file = folder.join(format!("{index}.png"));
            let mut encoder = png::Encoder::new(fs::File::create(&file).unwrap(), 20, 16);
            encoder.set_color(png::ColorType::Rgb);
            let pixels: Vec<u8> = (0..20 * 16 * 3).map(|_| random.u8(..)).collect();
            encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
            Sample { file, class: index % 2 }
        });
        let samples = samples.collect();
        let classes = vec!["a".to_owned(), "b".to_owned()];
        Dataset { version: Version::V7, size: SIZE, classes, mean: [0.5; 3], std: [0.25; 3], samples }
    }

    fn loader(folder: &Path, count: usize, threads: usize, ahead: usize) -> Loader {
        let data = data(folder, count);
        let transform = Transform::new(&data, true);
        Loader::new(data, transform, threads, ahead, false).unwrap()
    }

    fn all(loader: &Loader, order: &[usize], augment: Option<u64>) -> (Vec<u8>, Vec<i64>, Vec<i64>) {
        let (mut pixels, mut labels, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        let mut pass = loader.pass(order.to_vec(), 4, augment);
        while let Some(batch) = pass.next().unwrap() {
            assert_eq!(batch.pixels.size()[1..], [i64::from(SIZE), i64::from(SIZE), 3]);
            pixels.extend(Vec::<u8>::try_from(batch.pixels.view([-1])).unwrap());
            sizes.push(batch.labels.size()[0]);
            labels.extend(Vec::<i64>::try_from(batch.labels).unwrap());
        }
        (pixels, labels, sizes)
    }

    #[test]
    fn threads_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let order = [5, 0, 3, 9, 1, 7, 2, 2, 8, 6];
        // By hand: one picture after the other.
        let data = data(folder.path(), 10);
        let transform = Transform::new(&data, true);
        let mut reference = Vec::new();
        for sample in order {
            let bytes = fs::read(&data.samples[sample].file).unwrap();
            let mut out = vec![0; 3 * (SIZE * SIZE) as usize];
            let seed = random::seed([9, sample as u64]);
            transform.apply(&bytes, Some(seed), &mut Tools::new().unwrap(), &mut out).unwrap();
            reference.extend(out);
        }
        for (threads, ahead) in [(1, 0), (2, 0), (3, 2), (4, 100)] {
            let loader = loader(folder.path(), 10, threads, ahead);
            let (pixels, labels, sizes) = all(&loader, &order, Some(9));
            assert!(pixels == reference, "{threads} threads, {ahead} batches ahead");
            assert_eq!((labels, sizes), (vec![1, 0, 1, 1, 1, 1, 0, 0, 0, 0], vec![4, 4, 2]));
            assert!(all(&loader, &order, Some(10)).0 != reference, "another epoch, another crop");
            assert!(all(&loader, &order, None).0 == all(&loader, &order, None).0);
        }
    }

    #[test]
    fn a_broken_file_is_named_and_the_loader_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let loader = loader(folder.path(), 4, 2, 1);
        fs::remove_file(folder.path().join("2.png")).unwrap();
        let mut pass = loader.pass(vec![0, 1, 2, 3], 2, None);
        assert!(pass.next().unwrap().is_some());
        let error = format!("{:?}", pass.next().unwrap_err());
        assert!(error.contains("2.png: No such file"), "{error}");
        drop(pass);
        assert_eq!(all(&loader, &[0, 1, 3], None).1, [0, 1, 1]);
    }
}
