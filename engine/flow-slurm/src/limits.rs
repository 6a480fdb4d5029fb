//! Limits of the cluster, and how often flow asks it.

use std::time::Duration;

use crate::ParseError;

/// The arguments of `scontrol` whose answer [`parse_config`] reads.
pub const CONFIG: &[&str] = &["show", "config"];

/// The limits of `slurm.conf` that concern a sweep. The limit on jobs per user is not among them; `sbatch` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `MaxArraySize`, and how many tasks of one array may wait or run (`max_array_tasks`), whichever is less. 0: no arrays.
    pub array: u32,
    /// `MaxJobCount`: jobs and tasks of all users that the controller remembers, ended ones too.
    pub jobs: u32,
    /// `MinJobAge`: how long the queue still shows a job that has ended; none: always.
    pub remembered: Option<Duration>,
}

/// Reads what `scontrol show config` printed.
///
/// # Errors
/// A value is not there, or no number.
pub fn parse_config(text: &str) -> Result<Limits, ParseError> {
    let value = |name: &'static str| {
        let of = |line: &'_ str| {
            line.split_once('=').filter(|(key, _)| key.trim() == name).map(|(_, v)| v.trim().to_owned())
        };
        text.lines().find_map(of).ok_or_else(|| ParseError::new("scontrol show config", name, text.trim_start()))
    };
    let number = |name: &'static str| {
        let value = value(name)?;
        let digits = value.split(' ').next().unwrap_or_default();
        digits.parse::<u32>().map_err(|_| ParseError::new("scontrol show config", name, &value))
    };
    let parameters = value("SchedulerParameters").unwrap_or_default();
    let tasks = parameters.split(',').find_map(|p| p.trim().strip_prefix("max_array_tasks=")?.parse::<u32>().ok());
    let age = number("MinJobAge")?;
    Ok(Limits {
        array: number("MaxArraySize")?.min(tasks.unwrap_or(u32::MAX)),
        jobs: number("MaxJobCount")?,
        remembered: (age > 0).then(|| Duration::from_secs(age.into())),
    })
}

/// The arguments of `scontrol` whose answer [`parse_partitions`] reads.
pub const PARTITIONS: &[&str] = &["--oneliner", "show", "partition"];

/// Reads the names in what `scontrol --oneliner show partition` printed.
///
/// # Errors
/// A line has another form.
pub fn parse_partitions(text: &str) -> Result<Vec<String>, ParseError> {
    let name = |line: &str| line.split(' ').find_map(|word| word.strip_prefix("PartitionName=")).map(str::to_owned);
    let bad = |line| move || ParseError::new("scontrol show partition", "PartitionName=…", line);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| name(line).ok_or_else(bad(line))).collect()
}

/// The sizes of the arrays in which `tasks` equal attempts are submitted, as even as possible, if the queue has room
/// for `free` more jobs. The remaining attempts wait.
pub fn chunks(tasks: u32, limits: &Limits, free: u32) -> Vec<u32> {
    let tasks = tasks.min(free);
    let most = limits.array.max(1);
    let arrays = tasks.div_ceil(most);
    let Some(each) = tasks.checked_div(arrays) else { return Vec::new() };
    let larger = tasks % arrays;
    (0..arrays).map(|at| each + u32::from(at < larger)).collect()
}

/// The time until the next look at the queue if nothing has changed in it for `age`: a twentieth of the age, at least
/// `base`, at most eight times `base`.
pub fn poll_interval(age: Duration, base: Duration) -> Duration {
    (age / 20).clamp(base, base.saturating_mul(8))
}

/// Whole minutes, rounded up.
pub(crate) fn minutes(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).div_ceil(60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Lines of Slurm 22.05.8.
    const CONFIG_22_05: &str = "\
Configuration data as of 2026-11-22T20:17:33
KillOnBadExit           = 0
MaxArraySize            = 1001
MaxJobCount             = 10000
MaxJobId                = 67043328
MinJobAge               = 300 sec
SchedulerParameters     = batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_max_job_start=0
SchedulerTimeSlice      = 30 sec
SLURM_VERSION           = 22.05.8
";

    #[test]
    fn the_partitions_of_22_05() {
        // As Slurm 22.05.8 printed them, shortened; of the second line PreemptMode is that of a site.
        let text = "\
PartitionName=main AllowGroups=ALL Default=YES QoS=N/A GraceTime=0 Hidden=NO PriorityJobFactor=1 PriorityTier=1 PreemptMode=OFF State=UP
PartitionName=spare AllowGroups=ALL Default=NO QoS=N/A GraceTime=120 Hidden=NO PriorityJobFactor=1 PriorityTier=0 PreemptMode=CANCEL State=UP
";
        assert_eq!(parse_partitions(text), Ok(vec!["main".to_owned(), "spare".to_owned()]));
        assert!(parse_partitions("Default=YES\n").is_err());
    }

    #[test]
    fn the_partitions_and_the_configuration_of_24_11() {
        // As Slurm 24.11.5 printed them, shortened.
        let text = "\
PartitionName=short AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A DefaultTime=NONE DisableRootJobs=NO \
ExclusiveUser=NO ExclusiveTopo=NO GraceTime=30 Hidden=NO MaxNodes=UNLIMITED MaxTime=00:02:00 MaxCPUsPerSocket=UNLIMITED NodeSets=ALL \
Nodes=node[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO OverTimeLimit=NONE PreemptMode=CANCEL State=UP TotalCPUs=16 TotalNodes=2
PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE DisableRootJobs=NO \
ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MaxCPUsPerSocket=UNLIMITED NodeSets=ALL \
Nodes=node[1-2] PriorityJobFactor=1 PriorityTier=10 RootOnly=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=16 TotalNodes=2
";
        assert_eq!(parse_partitions(text), Ok(vec!["short".to_owned(), "main".to_owned()]));
        let config = CONFIG_22_05.replace("22.05.8", "24.11.5");
        assert_eq!(parse_config(&config), parse_config(CONFIG_22_05), "these lines have stayed");
    }

    #[test]
    fn the_configuration_of_22_05() {
        let limits = parse_config(CONFIG_22_05).unwrap();
        let expected = Limits { array: 1001, jobs: 10000, remembered: Some(Duration::from_secs(300)) };
        assert_eq!(limits, expected);
        let fewer = CONFIG_22_05.replace("bf_interval=1", "max_array_tasks=500").replace("= 300 sec", "= 0 sec");
        let fewer = parse_config(&fewer).unwrap();
        assert_eq!((fewer.array, fewer.remembered), (500, None));
        let told = |text: &str| parse_config(text).unwrap_err().to_string();
        assert_eq!(told(""), "scontrol show config: MinJobAge was expected, not ``");
        let odd = CONFIG_22_05.replace("= 1001", "= many");
        assert_eq!(told(&odd), "scontrol show config: MaxArraySize was expected, not `many`");
    }

    #[test]
    fn the_queue_is_asked_less_often_of_what_takes_long() {
        let seconds = |age, base| poll_interval(Duration::from_secs(age), Duration::from_secs(base)).as_secs();
        let found = [0, 60, 300, 600, 2_400, 86_400].map(|age| seconds(age, 15));
        assert_eq!(found, [15, 15, 15, 30, 120, 120]);
        assert_eq!(seconds(86_400, 1), 8);
    }

    #[test]
    fn minutes_are_whole_and_enough() {
        let of = |ms| minutes(Duration::from_millis(ms));
        assert_eq!([of(0), of(1), of(60_000), of(60_001), of(90_000)], [0, 1, 1, 2, 2]);
        assert_eq!(minutes(Duration::MAX), u64::MAX.div_ceil(60));
    }

    #[test]
    fn chunks_keep_within_both_limits() {
        let limits = |array| Limits { array, jobs: 10_000, remembered: None };
        assert_eq!(chunks(2_500, &limits(1_001), 10_000), [834, 833, 833]);
        assert_eq!(chunks(2_500, &limits(1_001), 200), [200]);
        assert_eq!(chunks(3, &limits(0), 10), [1, 1, 1]);
        assert_eq!(chunks(5, &limits(10), 0), [0_u32; 0]);
    }

    proptest! {
        #[test]
        fn chunks_hold_as_many_as_there_is_room_for(tasks in 0_u32..5_000, array in 0_u32..2_000, free in 0_u32..5_000) {
            let limits = Limits { array, jobs: 1, remembered: None };
            let chunks = chunks(tasks, &limits, free);
            prop_assert_eq!(chunks.iter().sum::<u32>(), tasks.min(free));
            prop_assert!(chunks.iter().all(|&chunk| chunk >= 1 && chunk <= array.max(1)));
        }
    }
}
