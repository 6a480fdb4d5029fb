//! Updates of growing lists that are sometimes thinned out, for readers that keep a copy while the list grows.

/// A reader's position in a list: the number of samples noted so far, and the list's length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    noted: u32,
    kept: usize,
}

impl Known {
    /// Marks the present list as known. Returns the index of the first new sample, if any; 0 if the list was thinned out
    /// since.
    pub(super) fn catch_up(&mut self, noted: u32, kept: usize) -> Option<usize> {
        let new = noted.checked_sub(self.noted).map(|new| new as usize).filter(|new| *new > 0)?;
        let from = if kept == self.kept + new { self.kept } else { 0 };
        *self = Known { noted, kept };
        Some(from)
    }
}

/// Replaces everything after the `first` items. Returns whether those items are present.
pub(super) fn go_on<T>(all: &mut Vec<T>, first: usize, rest: Vec<T>) -> bool {
    let are_there = first <= all.len();
    all.truncate(first);
    all.extend(rest);
    are_there
}

#[cfg(test)]
mod tests {
    use super::{
        super::{GpuLook, GpuSamples, HostSamples, Looks, Used},
        *,
    };

    #[test]
    fn who_takes_in_all_news_has_the_whole() {
        let uuids = || ["a", "b"].map(str::to_owned);
        let (mut host, mut gpus, mut looks) =
            (HostSamples::since(0.0), GpuSamples::since(0.0, uuids()), Looks::default());
        let (mut their_host, mut their_gpus, mut their_looks) =
            (HostSamples::default(), GpuSamples::default(), Looks::default());
        let (mut of_host, mut of_gpus, mut of_looks) = (Known::default(), Vec::new(), 0);
        assert_eq!((host.news(&mut of_host), gpus.news(&mut of_gpus)), (None, None));
        for n in 1..=20_000_u32 {
            let at = f64::from(n);
            host.push(at, Some(1.0), &Used { rss: u64::from(n), ..Used::default() }, Some((0.5, 0.0)));
            let look = GpuLook { at, memory: u64::from(n), ..GpuLook::default() };
            gpus.push((n % 3 == 0).into(), look);
            looks.push(u64::from(n) * 10, u64::from(n) * 10 + 9, at);
            // Even if so much was added since that the whole list was thinned out.
            if n.is_multiple_of(if n < 9_000 { 7 } else { 3_500 }) {
                let (news, of) = (host.news(&mut of_host).unwrap(), gpus.news(&mut of_gpus).unwrap());
                assert!(their_host.take_in(news) && their_gpus.take_in(of));
                assert!(their_looks.take_in(looks.news(&mut of_looks).unwrap()));
                assert_eq!((&their_host, &their_looks), (&host, &looks), "after {n}");
                assert_eq!(their_gpus, gpus, "after {n}");
            }
        }
        assert_eq!(looks.last(), Some((200_009, 20_000.0)));
        assert!(!HostSamples::default().take_in((1, host)), "what comes before it is missing");
    }
}
