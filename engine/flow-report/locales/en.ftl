# English texts of tables and reports. All catalogues have the same keys and variables; a test compares them.

## Lists and units
# A space at the end of a message is written as {" "}, because Fluent trims plain ones.
mark-comma = ,{" "}
mark-semicolon = ;{" "}
mark-colon = :{" "}
mark-stop = .{" "}
mark-between-sentences = {" "}
mark-percent = %
list-comma = ,{" "}
list-and = {" "}and{" "}
list-more = { $n } more
unit-times = { $n }×
unit-points = points

## Columns
column-batch = Batch size
column-model = Model
column-version = Version
column-dataset = Dataset
column-data = Dataset
column-input_size = Input size
column-seed = Seed
column-lr = Learning rate
column-epochs = Epochs
column-freeze_epochs = Epochs before these, of the last layer alone
column-classes = Classes
column-optimizer = Optimiser
column-optimiser = Optimiser
column-precision = Precision
column-device = Device
column-torch = PyTorch
column-cuda = CUDA
column-workers = Loader threads
column-mode = mode of running
column-outcome = Outcome
column-epoch_time = Epoch time
column-iteration_time = Iteration time
column-images_per_s = Images per second
column-train_loss = Training loss
column-valid_loss = Validation loss
column-error_rate = Error rate
column-accuracy = Accuracy
column-top1 = Top-1
column-top5 = Top-5
column-gmac = GMACs
column-gmac_norm_act = GMACs, with normalisations and activations
column-parameters = Parameters
column-auxiliary_parameters = Parameters of auxiliary heads
column-layers = Layers
column-data_wait = Time waiting for data
column-wait_time = Time waiting for data
column-wall = Wall time
column-cpu_time = CPU time
column-cpu_util = CPU use
column-cpu_util_peak = Peak CPU use
column-cpu_cores = CPU cores in use
column-memory = Memory
column-disk_read = Read from disk
column-disk_written = Written to disk
column-gpu_memory = GPU memory
column-gpu_memory_mean = Mean GPU memory
column-gpu_memory_share = Share of GPU memory
column-memory_share = Share of host memory
column-gpu_memory_limit = GPU memory limit
column-gpu_load = GPU utilisation
column-gpu_load_peak = Peak GPU utilisation
column-gpu_load_above_90 = Time with GPU utilisation above 90%
column-gpu_memory_load = Memory-controller utilisation
column-gpu_memory_load_peak = Peak memory-controller utilisation
column-gpu_memory_load_above_90 = Time with GPU memory busy above 90%
column-epoch = Epoch
column-step = Step
column-part = Part
column-gpu_power = GPU power
column-energy = Energy
column-foreign_cpu = Foreign CPU use
column-gpu_shared = GPU used by other processes
column-sampler_cpu = Cost of measuring (of one core)
column-cpu_saturated = Time with the CPU saturated
column-gpus = GPUs
column-cpus = CPUs
column-host_cpus = CPUs of the host
column-gpu_model = GPU model
column-cpu_model = CPU model
column-pcie = PCIe link
growth-short = Growth{ $column }
growth-of = Growth of { $column }
ratio-of = Ratio of { $column }
speedup-of = Speed-up of { $column }

## Cells
outcome-ok = ok
outcome-out_of_memory = { $gpu ->
    [yes] out of GPU memory
   *[no] out of memory
}
outcome-timed_out = timed out
outcome-does_not_fit = does not fit
outcome-failed = failed
outcome-cancelled = cancelled
outcome-skipped = skipped
cell-spoiled = disturbed
cell-unlike = not comparable
cell-gpus-change = { $from }→{ $to } GPUs

## Notes below tables
table-absent = No table: step { $step } has no instances ({ $why }).
note-mean = Mean ± standard deviation of at least { $of } results.
note-mean-over = Mean ± standard deviation over { $over }, of at least { $of } results.
note-median = Median of at least { $of } repetitions, with the least and the largest.
note-simulated = ± is half the width of the 95% confidence interval of the mean of { $of } simulations. Columns of a row are of the same jobs: their differences are surer than these intervals, and are judged seed by seed, with Bonferroni's correction for all pairs of columns (where an order turns, in all rows).
note-unlike = Taken under unlike circumstances, so neither averaged nor compared ({ $what }: { $one } and { $other }).
note-caveats = { $label }: { $why }.
note-of-the-whole = { $name } was printed without { $axis ->
    [step] a step
   *[epoch] an epoch
}, so it is in no row.
note-steps-only = The values have steps and no epochs: `rows: step` gives a row to each step.
note-spoiled = { $label } is not to be trusted: { $why }.
note-no-metrics = { $label } lacks metrics: { $why }
note-no-metrics-several = { $label } and { $more } more lack metrics: { $why }
note-partial = { $used } of { $of } results count; { $others }.
partial-ended = { $n } { $outcome }
partial-rest = the rest gave no number to trust
note-hidden = { $name } is what flow measures; the program's metric of that name is not shown: give it another name.
note-company = { $alone } of { $of } results ran alone, the rest beside other steps of flow; with `exclusive: true` each runs alone.
note-baseline = Ratios and speed-ups are against { $of }.
note-baseline-first = Ratios and speed-ups are against the first row.
note-no-column = No result has { $name }.
note-no-column-near = No result has { $name }; is { $nearest } meant?
note-accepted = { $label } is an earlier result, kept although what it depends on has changed: { $reason }
note-resumed = The times of { $label } lack a part: it went on from a checkpoint of an attempt that was killed together with flow, and how long that took is not known
note-resumed-several = The times of { $label } and { $more } more lack a part: they went on from checkpoints of attempts that were killed together with flow, and how long those took is not known
note-went-on = The wall time of { $label } is of several attempts, each with a start-up of its own: it went on from a checkpoint
note-went-on-several = The wall times of { $label } and { $more } more are of several attempts, each with a start-up of its own: they went on from checkpoints
note-accepted-several = { $label } and { $more } more are earlier results, kept although what they depend on has changed: { $reason }
note-not-a-number = The program reported NaN or an infinite number. A loss that does so has diverged.
note-other-parameter = On { $machine } { $name } was { $theirs }, and { $own } here: numbers that rest on it cannot be compared.
note-other-input = On { $machine } another version of { $file } was used: a difference may come from that.
note-other-program = On { $machine } the command, its environment or the data were different: a difference may come from that.
note-no-machines = There is no result of another machine: `flow import` takes in what `flow export` wrote there.
note-unverified = The driver tells no memory by process: this is the card's memory less what was in use before the start.

## Findings
range = { $from } to { $to }
range-sure = between { $from } and { $to }
ratio = { $range } times as high
ratio-of-time = { $range } times as long
scoped = { $scope }: { $text }
finding-flattens = { $time } hardly falls beyond { $axis } { $at } ({ $value }).
finding-flattens-stops = { $time } stops falling at { $axis } { $at } ({ $value }).
finding-flattens-rises = { $time } stops falling at { $axis } { $at } ({ $value }) and rises to { $to } at { $later }.
finding-never-falls = From { $axis } { $at } ({ $value }) on, { $time } does not fall.
finding-never-falls-rises = From { $axis } { $at } ({ $value }) on, { $time } does not fall, and it rises to { $to } at { $later }.
finding-still-falling = { $time } still falls up to { $axis } { $at } ({ $value }).
finding-time-same = { $time } is { $range }, whatever the { $axis }.
finding-time-flat = { $time } hardly depends on { $axis }: { $range }.
finding-no-trend = { $time } goes up and down with { $axis }, without a trend: { $range }.
finding-uneven = { $time } goes up and down with { $axis }: it is shortest at { $low } ({ $least }) and longest at { $high } ({ $most }).
finding-memory-faster = Where memory is scarce (memory × time), no step beyond { $axis } { $from } pays: at { $to }, { $memory } grows by { $grows } and { $time } falls by only { $falls }.
finding-memory-not-flat = { $memory } is not flat where { $axis } is small: { $least } at { $from }, { $most } at { $to }.
finding-memory-flat = Up to { $axis } { $at }, { $memory } hardly changes: { $range }.
finding-load-goes = { $load } { $rises ->
    [yes] rises
   *[no] falls
} with { $axis }, from { $first } at { $from } to { $last } at { $to }.
finding-frontier-none = { $axis } { $at } already { $memory ->
    [gpu] runs out of GPU memory
    [host] runs out of memory
   *[machine] asks for more than this machine has
}.
finding-frontier = { $axis } { $at } { $memory ->
    [gpu] runs out of GPU memory
    [host] runs out of memory
   *[machine] asks for more than this machine has
}; { $fits } still fits.
finding-frontier-used = { $axis } { $at } { $memory ->
    [gpu] runs out of GPU memory
    [host] runs out of memory
   *[machine] asks for more than this machine has
}; { $fits } still fits, with { $used }.
finding-linear = { $column } is linear in { $axis }: { $intercept } { $sign } { $slope } × { $axis }, R² = { $r2 }.
jump = { $from } and { $to } ({ $height })
finding-jumps = { $column } jumps between { $axis } { $jumps }.
finding-jumps-multiple = { $column } jumps between { $axis } { $jumps }: at the multiples of { $multiple }.
finding-bound-gpu = GPU-bound: GPU utilisation is { $range }.
finding-bound-cpu = CPU-bound: { $range } of the given CPUs are in use.
finding-bound-cpu-of = CPU-bound: { $range } of the given CPUs are in use ({ $own } of { $host }; CPU use is a share of all { $host }).
finding-bound-data = Data-bound: { $range } of an epoch is spent waiting for data.
finding-bursts = { $which ->
    [every] In every result the CPU works more at the ends of epochs (their last tenth, and until the next begins) than in their middle half, by most in { $label }: { $ends } against { $middle }
    [some] In some of the results the CPU works more at the ends of epochs (their last tenth, and until the next begins) than in their middle half, by most in { $label }: { $ends } against { $middle }
   *[one] In { $label } the CPU works more at the ends of epochs (their last tenth, and until the next begins) than in their middle half: { $ends } against { $middle }
}.
finding-no-bursts = The CPU does not burst at the ends of epochs (their last tenth, and until the next begins): at the most its use is { $ends } there against { $middle } in their middle half ({ $label }).
finding-estimate = { $column } differs from { $of } by { $range } (median of the absolute differences { $typical }).
finding-estimate-one = { $column } differs from { $of } by { $most }.
finding-agrees = { $column } agrees with the earlier figures within { $most }; { $same } of { $of } are the same to the last digit.
finding-unchanged = From { $a } to { $b }, { $column } is unchanged (differences below { $most }).
finding-hardly-changed = From { $a } to { $b }, { $column } { $how ->
    [rises] rises by less than { $most }, and falls in no row
    [falls] falls by less than { $most }, and rises in no row
   *[both] changes by less than { $most }
}.
finding-mixed = From { $a } to { $b }, { $column } rises in some rows and falls in others: { $range }.
finding-within-repetitions = From { $a } to { $b }, no change of { $column } stands out of how much repetitions differ: { $mean } on average, 95% confidence interval { $interval }.
finding-same-learned = From { $a } to { $b }, { $column } { $told ->
    [yes] changes little
   *[no] is the same within its run-to-run spread
}: the 95% confidence interval of the change is { $interval }.
finding-learned-change = From { $a } to { $b }, { $column } { $how ->
    [times] is { $mean } on average
   *[change] changes by { $mean } on average
} (95% confidence interval, from how much repeated trainings differ: { $interval }){ $told ->
    [yes] {""}
   *[no] , which is not told from chance
}.
finding-changed = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
}.
finding-changed-pair = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} ({ $paired ->
    [yes] paired t-test
   *[no] t-test
}, p { $p }).
where-axis = { $rows ->
    [two] at both values of { $axis }
   *[every] at every { $axis }
}
where-rows = { $rows ->
    [two] in both rows
   *[every] in every row
}
where-some = in { $some } of { $rows } rows
finding-changed-few = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} { $where }.
finding-changed-tested = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} { $where } (sign test over { $pairs } pairs, p { $p }).
finding-changed-once = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} { $where }{ $all ->
    [yes] {""}
   *[no] ; the median is { $median }
}. One run on each side, so no test was made.
finding-changed-most = From { $a } to { $b }, { $column } { $how ->
    [times] is { $range }
    [rises] rises by { $range }
   *[falls] falls by { $range }
} { $where } (sign test, p { $p }); the median is { $median }.
finding-changed-at = From { $a } to { $b }, { $column } { $rises ->
    [yes] rises
   *[no] falls
} at { $axis } { $places }; elsewhere no change can be told.
finding-one-training = From { $a } to { $b }, no judgement of { $columns }: a row rests on one training, and how much repeated trainings differ is not known.
finding-packed = { $pays ->
    [yes] Pack them
   *[no] Packing gains nothing
}: all are done in { $packed }, against { $alone } one after another ({ $gain } times the throughput). Each takes { $range } times as long as alone, from start to end.
finding-packed-in-runs = How long all take packed is not known, for they ran in several runs and not in one. From start to end each takes { $range } times as long as alone.
finding-packed-in-part = How much sooner all { $of } are done packed is not known, for { $without } cannot be compared with { $n ->
    [one] its run alone
   *[other] their runs alone
}: one of the two runs is missing, did not end well, was disturbed, went on from a checkpoint, or ran under other conditions. From start to end each of the other { $compared } takes { $range } times as long as alone.
finding-foreign = { $several ->
    [yes] Other programs used up to { $used } of the CPU beside results that this rests on, most beside { $label }
   *[no] Other programs used { $used } of the CPU beside { $label }, on which this rests
}: it may be due to them.
finding-foreign-table = Other programs used up to { $used } of the CPU beside { $several ->
    [yes] some results of this table, most beside { $label }
   *[no] { $label }
}, so this, and what else is found of such times, may be due to them.
finding-packed-foreign = Other programs used up to { $used } of the CPU meanwhile, so how much of this is due to packing is not known.
finding-repeated-differs = { $column } differs with { $axis } by more than repetitions do: means of { $range } ({ $paired ->
    [yes] paired F-test
   *[no] F-test
}, p { $p }).
finding-repeated-alike = No difference of { $column } with { $axis } stands out of the noise of repetitions: means of { $range } ({ $paired ->
    [yes] paired F-test
   *[no] F-test
}, p { $p }).
finding-cost-free = Cost-free: { $b } lowers { $cheaper } against { $a }{ $better ->
    [yes] , with slightly better { $accuracy }
   *[no] {" "}at the same { $accuracy }
}.

## Figures computed for findings
computed-heading = Computed for the findings
computed-figure = Figure
computed-value = Value
computed-growth = Growth of { $column }, { $axis } { $from } to { $to }
computed-jump = Jump of { $column }, { $axis } { $from } to { $to }
computed-intercept = Intercept of { $column } over { $axis }
computed-slope = Slope of { $column } over { $axis }
computed-r2 = R² of { $column } over { $axis }
computed-least = Least { $column }
computed-most = Largest { $column }
computed-of = { $column } of { $label }
computed-mean-change = Mean change of { $column }
computed-low-change = Change of { $column }, lower end of the 95% confidence interval
computed-high-change = Change of { $column }, upper end of the 95% confidence interval
computed-pairs = Pairs in the sign test of { $column }
computed-median-change = Median change of { $column }
computed-rows-changed = Rows in which { $column } changes so
computed-rows = Rows with { $column } of both
computed-sign-test = p of the sign test of { $column }
computed-f-test = F-test of { $column } over { $axis }: p, with Holm's correction for all F-tests of the section
computed-pair-test = p of the t-test of { $column }
computed-t-test = Best { $column } against { $at }: p, with Bonferroni's correction for all other points
computed-furthest = Largest difference of { $column } from the best among points not told from it
computed-axis-mean = Mean of { $column } at { $at }
computed-axis-way = Means of { $column } over { $axis }, highest less lowest
computed-compared = Compared, packed against alone
computed-packed = Packed in all
computed-foreign-beside = CPU use of other programs beside { $label }
computed-foreign = Most CPU use of other programs meanwhile
computed-at-once = Time of all, packed
computed-one-by-one = Time of all, one after another
computed-gain = Throughput of packed against one after another
computed-least-slowdown = Least slowdown, packed against alone
computed-most-slowdown = Largest slowdown, packed against alone
computed-off = Largest difference of { $column } from the earlier figures
computed-as-given = Earlier figures of { $column } that are found again to their last digit
computed-given = Earlier figures of { $column }
computed-least-off = { $column } against { $of }, least
computed-most-off = { $column } against { $of }, most
computed-typical-off = { $column } against { $of }, median of the absolute differences
computed-apart = { $column } at { $axis } { $at }, the highest over the lowest, less 1
computed-interval = { $value } ({ $range })
computed-behind = { $column } of { $part } less that of { $than } at { $axis } { $at }, with its simultaneous 95% confidence interval
computed-middle = CPU use in the middle half of the epochs of { $label }
computed-ends = CPU use at the ends of the epochs of { $label }
column-waiting_share = Share of an epoch spent waiting for data
column-own_cpu_util = Use of the CPUs given

## Co-run groups
together-members = Alone and together
together-used = Use while together
together-sum = Sum of { $group }
note-gpu-load = GPU utilisation is the share of time in which a kernel ran, however small.
note-gpu-memory-load = Memory-controller utilisation is the share of time with a read or write of GPU memory, not a share of its bandwidth.
note-short-load = The driver averages a GPU's load over up to a second, so it is not told of epochs that take less in all.
note-windows = Each figure is of the member's own epochs while all ran: the windows are not quite the same, and a sum may come to a little more than there is.
note-all-runs = Times alone and together are geometric means of all runs of each that count, or of all where none does. The table above leaves out runs that were made only for a verdict.
together-more-cpus = Alone, each run had only some of the CPUs, which { $more ->
    [yes] explains a part of the gain
   *[no] explains the whole gain
}.
together-groups = Verdicts
note-gain = ± is the half-width of a 95% interval.{ $once ->
    [yes] {" "}If a group ran once, the ± of its throughput assumes a run-to-run SD of { $assumed }, and the ± of a slowdown covers the spread between epochs only ({ $usual } if that is unknown).
   *[no] {""}
}
packed-members = Alone and packed
packed-packed = { $column } packed
packed-slowdown = Slowdown
together-alone = { $column } alone
together-together = { $column } together
together-predicted = { $column } together, predicted from alone
together-off = Prediction off by
together-of-group = { $value } ({ $group })
together-interference = Members of a group on shared GPUs are predicted to slow down by an interference coefficient times what they ask of a GPU beyond 100%. { $known ->
    [none] What sharing costs on this GPU model had not been measured: the coefficient is taken to be 1.
    [all] As measured on this GPU model before, it is { $each }.
   *[some] As measured on this GPU model before, it is { $each }; elsewhere, where nothing had been measured, it is taken to be 1.
}
together-slower = Slower by
together-cpu-alone = CPU use alone
together-foreign-alone = Foreign CPU use alone
together-foreign-together = Foreign CPU use together
together-group = Group
together-placement = GPUs
together-verdict = Verdict
together-gain = Throughput against one after another
placement-own = own GPUs
placement-shared = shared GPUs
asked-cpu = CPU demand
asked-memory = Host memory demand
asked-gpu = GPU demand
asked-gpu_memory = GPU memory demand
asked-gpu_memory_traffic = GPU memory busy time, demand
asked-used = { $asked } → used together
asked-data = Waiting for data, alone → together
verdict-parallel = parallel
verdict-parallel-within = parallel (within { $tolerance })
verdict-only-concurrent = only concurrent
verdict-no-gain = no gain
verdict-slower = slower than serial
verdict-too-noisy = undecided
verdict-overlap = not enough overlap
verdict-out-of-memory = out of memory
verdict-refused = not compared
longer = { $range } longer than alone
longer-in-times = { $range } times as long as alone
longer-or-less = from { $less } less to { $longer } longer than alone
together-parallel = Together ({ $group }): **{ $verdict }**. The member that suffers most takes { $times ->
    [yes] { $most } times as long as alone
   *[no] { $most } longer than alone
}, within the tolerance of { $tolerance }.
together-no-slower = Together ({ $group }): **{ $verdict }**. No member is measurably slower than alone.
together-only-concurrent = Together ({ $group }): **{ $verdict }**. The members take { $longer }, yet together they do { $gain } times the work of one after another.
together-slower-than = Together ({ $group }): **{ $verdict }**. The members take { $longer }, and together they do { $gain } times the work of one after another.
together-no-gain = Together ({ $group }): **{ $verdict }**. The members take { $longer }, and together they do { $gain } times the work of one after another: running them together gains nothing.
together-noisy-gain = Together ({ $group }): **{ $verdict }**. The members take { $longer }; whether that is more or less work than one after another ({ $gain } times) cannot be told from the noise.
together-noisy = Together ({ $group }): **{ $verdict }**. Whether the members are slower than alone ({ $times ->
    [yes] { $range } times as long
   *[no] { $range }
}) cannot be told from the noise.
together-runs = Runs of each, + more that would decide
together-counted = { $counted } of { $looks }
together-foreign-left-out = Foreign CPU use beside runs that do not count
together-left-out = Each was measured { $looks } times, alone and together; { $counted ->
    [0] none counts
    [one] 1 counts, and the figures are of it alone
   *[other] { $counted } count, and the figures are of these alone
}.
left-out-foreign = Other programs used up to { $used } of the CPU beside what is left out, most while { $label } ran.
left-out-incomplete = A member is missing in what is left out.
left-out-overlap = { $label }, which is left out, has no epoch while all members were running.
left-out-out-of-memory = { $label }, which is left out, ran out of memory in the group.
together-looks = Each was measured { $looks } times, alone and together.
together-more = { $looks ->
    [one] 1 run of each does not decide it
   *[other] { $looks } runs of each do not decide it
}; if the times stay as they are, about { $more } more would: `repeat: {"{"}until: decided, at_most: { $most }{"}"}`.
together-never = { $looks ->
    [one] 1 run of each does not decide it
   *[other] { $looks } runs of each do not decide it
}, nor would 100 more: the times differ too much from run to run, or too little from what decides.
together-foreign = Together ({ $group }): **{ $verdict }**. Other programs used { $used } of the CPU while { $label } ran.
together-overlap = Together ({ $group }): **{ $verdict }**. { $label } has no epoch while all members were running.
together-out-of-memory = Together ({ $group }): **{ $verdict }**. { $label } ran out of memory in the group.
together-refused = Together ({ $group }): **{ $verdict }**. { $why }
refused-one-member = The group has one member, and nothing ran beside it.
refused-not-alone = { $label }, which was to be the run alone, ran beside { $beside }; `exclusive: true` keeps others away.
refused-no-solo = { $label } has no run alone to compare with.
refused-no-time = { $label } has no time to compare.
refused-went-on = { $label } has no epochs to compare, and from start to end it took more than one start, for it went on from a checkpoint.
refused-unlike = { $label } and its run alone are not alike ({ $what }: { $other } against { $one }).
refused-ended = { $label } has no result ({ $how }).
refused-spoiled = { $label } is not to be trusted: { $why }.
rulings-in = Limiting: { $list }.
rulings-out = Not limiting: { $list }.
rulings-unclear = Undecided: { $list }.
rulings-unmeasured = No figures for { $list }.
rulings-free = Enough for all: { $list }.
ruling-asked = { $what } (demand { $asked })
ruling-used = { $what } (demand { $asked }, used { $used })
ruling-change = { $what } (up to { $together } of an epoch, up to { $alone } alone)
ruling-own = { $what } (own GPUs)
resource-cpu = CPU
resource-memory = host memory
resource-gpu = GPU
resource-gpu_memory = GPU memory
resource-gpu_memory_traffic = GPU memory busy time
resource-data = waiting for data

## The author's notes
note-question = Question: { $text }
note-guess = Guess: { $text }
note-todo = To do: { $text }
note-see = See { $text }
guess-confirmed = **Confirmed**: { $what } is what limits { $groups }.
guess-confirmed-relieved = **Confirmed**: { $what } is what limits { $groups }, and { $relieved }, { $kind ->
    [data] which hardly waits
   *[other] where it suffices
}, runs in parallel.
guess-confirmed-alone = **Confirmed**: { $what } is what limits the runs.
guess-refuted = **Not supported**: by its figures, { $what } does not limit { $groups }.
guess-open = **Open**: the figures neither confirm nor refute that it is { $what }.

## The page
language = English
setup-no-gpu = none
setup-gpus-there = the machine has { $there }
setup-versions = Versions
setup-profile = Profile
setup-profile-value = { $profile } ({ $why })
setup-set = Parameters set on the command line
setup-runs = Runs
setup-commit = Git commit
setup-commit-clean = { $commit }
setup-commit-dirty = { $commit }, with changes not committed
setup-method = What the words mean
method = The same, flat: within { $same }, of a share within { $share } points. Rises, falls: more than that, and back by at most { $back } of the way. Linear: R² is at least { $linear }, and no point is more than { $linear_off } off. A fitted curve: R² is at least { $fit }, and no point is more than { $fit_off } off. Jumps: { $jump } times the scatter of the differences between neighbours. Parallel: no member is more than { $parallel } slower than alone (`tolerance:` changes that). Bound: a load of at least { $full }, or { $waiting } of an epoch spent waiting for data. Found again: in the same direction, and neither effect is more than { $times } times the other. Tests: p of at most { $p }.
section-title = { $step } by { $rows }
section-title-one = { $step }
section-title-where = { $title }, { $where }
changes-title = Change from { $a } to { $b }
changes-differences = The changes of { $columns } are differences: from 0, and where a value is negative, there is no ratio.
remark-fake-gpus = The GPUs of this report were declared, not real.
remark-left-out = Left out: { $step } ({ $why }).
remark-foreign-cpu = { $label } ran while other programs used { $used } of the CPU.
remark-foreign-cpu-several = { $count } of the results were measured while other programs used the CPU: up to { $used } of it, beside { $label }.
remark-unwatched = { $count ->
    [1] While { $label } ran, flow could not see whether other runs of its machine ran steps beside it.
   *[other] While { $count } of the results were measured, among them { $label }, flow could not see whether other runs of their machine ran steps beside them.
}
remark-strangers = { $label } shared its GPU with other programs: { $names }.
remark-strangers-unnamed = { $label } shared its GPU with other programs.
remark-gpu-shared = { $count ->
    [1] { $label } shared its GPU: others used { $used } of its time
   *[other] { $count } of the results shared their GPUs: others used up to { $used } of a GPU's time, beside { $label }
}.
remark-gpu-shared-own = { $count ->
    [1] { $label } shared its GPU with other steps of flow, as planned: they used { $used } of its time
   *[other] { $count } of the results shared their GPUs with other steps of flow, as planned: these used up to { $used } of a GPU's time, beside { $label }
}.
remark-limit = GPU memory was limited to { $limit } (`memory_limit`): what runs out of that need not run out of the card's.
remark-short-epochs = { $count ->
    [1] The epochs of { $label } that count take { $least } on average, less than { $bound }
   *[other] In { $count } results the epochs that count take less than { $bound } on average, the shortest { $least } ({ $label })
}: overhead and chance weigh much in so short a time.
remark-few-epochs = { $count ->
    [1] The time of { $label } rests on { $least ->
        [1] 1 epoch
       *[other] { $least } epochs
    }
   *[other] The times of { $count } results rest on fewer than { $bound } epochs, the fewest on { $least } ({ $label })
}: how much epochs differ is hardly known.
remark-chance = { $count ->
    [1] { $label } is at chance level
   *[other] { $count } results are at chance level, among them { $label }
}: { $column } of { $value } is no more than guessing one of { $classes } classes gives, or hardly more.
chart-over = { $column } over { $axis }
chart-gpus = { $gpus ->
    [0] no GPU
    [1] 1 GPU
   *[other] { $gpus } GPUs
}
chart-bars = Error bars: { $kinds }.
chart-bands = Bands: { $kinds }.
chart-merged = Lines that differ by less than { $share } of the y axis are drawn as one.
chart-bars-sd = standard deviation
chart-bars-interval = 95% confidence interval of the mean
chart-bars-range = from the least to the largest
chart-bars-runs = from the shortest to the longest of repeated runs
chart-alone = alone
chart-predicted = together, predicted from alone
chart-together = together
chart-together-alt = Alone against together
chart-packed = packed
chart-packed-alt = Wall time alone and packed
chart-time = Time
chart-time-epochs = Time since the first epoch began
chart-load-gpu = GPU
chart-load-host = Host
chart-now = now
chart-no-result = no result
chart-odd-epochs = odd epochs
chart-load-alt = Load and memory over time of { $label }{ $shaded ->
    [yes] , odd epochs shaded
   *[no] {""}
}

## Reasons for outcomes, skipped steps and disturbed measurements
cause-condition-false = { $expression } is false
cause-empty-axis = its axis { $axis } is empty
cause-no-instances = it has no instances
cause-no-instances-of = { $step } has no instances
cause-no-instances-because = { $step } has no instances: { $why }
cause-all-skipped = all are skipped
cause-asks-too-much = it asks for more than there is
cause-unresolved = { $error }
cause-no-input = { $error }
cause-result-unseen = whether its result is still whole cannot be told: { $error }; it is kept, run again
cause-not-provided = there is no { $uses } here
cause-member-cannot-run = { $label } of its co-run group cannot run: { $why }
cause-need-cannot-run = { $label } cannot run
cause-need-failed = { $label } did not succeed
cause-failed-elsewhere = { $label } failed, and -k was not given
cause-member-failed = { $label } of its group did not succeed
cause-run-cancelled = the run was cancelled
cause-decided = the verdict on { $group } is known without it: { $verdict }, after { $looks ->
    [one] 1 run of each
   *[other] { $looks } runs of each
}
cause-decided-not = { $group } cannot be compared, which a repetition would not change
cause-not-run = it was not run
cause-gpu-gone = a GPU that it needs was lost
cause-not-started = it could not be started
cause-not-started-because = { $error }
cause-builtin = { $error }
cause-nothing-to-show = no section has anything to show
cause-no-schedule = it has no schedule
cause-said-failed = the program said that it failed
cause-said-ok = the program said `ok`, then { $end }
cause-said-nothing = the program { $end } without saying an outcome
cause-exited = { $end }
cause-exited-line = { $end }: { $line }
cause-out-of-memory = { $gpu ->
    [yes] its GPU's memory did not suffice
   *[no] the host's memory did not suffice
}
cause-killed-for-memory = the kernel killed it for want of host memory
cause-timed-out = it ran longer than its timeout of { $limit } s
cause-failed = failed
batch-job = job { $id }
batch-its-job = its job
batch-node-lost = the node { $node } was lost under { $job } of Slurm
batch-some-node-lost = a node was lost under { $job } of Slurm
batch-time-limit = { $job } ran into its time limit in Slurm
batch-time-limit-why = { $end }: { $why }
batch-no-checkpoint = it left nothing in `FLOW_CHECKPOINT` that another job could go on from; give the step `slurm: {"{"}time: …{"}"}` or a partition with a longer limit, or let it write checkpoints
batch-no-progress = it wrote no new checkpoint, so that another job would get no further; give the step `slurm: {"{"}time: …{"}"}` or a partition with a longer limit, or let it write checkpoints more often
batch-not-resumed = it does not go on in another job, for the step says `resume: false`; give it `slurm: {"{"}time: …{"}"}` or a partition with a longer limit
batch-group = members of a co-run group are measured together and do not go on in another job; give the step `slurm: {"{"}time: …{"}"}` or a partition with a longer limit
batch-memory = { $job } took more memory than it has from Slurm: give the step more `memory`
batch-cancelled = { $job } was cancelled in Slurm, and not by flow
batch-preempted = { $job } had to make room for another in Slurm
batch-not-launched = Slurm could not start { $job } on its node
batch-failed-code = { $job } ended in Slurm with exit code { $code } before flow could begin on its node
batch-failed = { $job } ended in Slurm before flow could write down how
batch-begun = { $job } ended in Slurm, and flow, which had begun on its node, left no word of how the step ended
batch-said = { $end }: { $said }
batch-silent = { $end }, and its log is empty
batch-unread = { $end }: `slurm.log` in the attempt's folder may say more
batch-held = Slurm holds { $job } back ({ $reason })
batch-never = { $job } would wait in Slurm for ever ({ $reason })
batch-refused = Slurm refuses its job: { $error }
batch-vanished = Slurm does not know { $job } any more, and it left no result
cause-not-listed = { $how }; { $path } lies beside the workflow and not in the step's work folder: list it in `inputs:`
cause-no-output = it ended without writing its output { $output } to { $path }
cause-no-output-nothing = it left no new file in its work folder { $work }
cause-no-output-new = new in its work folder { $work }: { $files }
cause-no-output-new-more = new in its work folder { $work }: { $files } and { $more } more
cause-output-unseen = flow cannot look at its output { $output } in { $path }: { $error }
cause-not-kept = { $error }
cause-gpu-lost = GPU { $gpu } ({ $model }) was lost while it ran
cause-gpu-lost-how = GPU { $gpu } ({ $model }) was lost while it ran ({ $how })
cause-set-up-again = { $how }; the next run sets { $plugin } up again
end-code = ended with exit code { $code }
hint-killed = flow did not kill it; the OOM killer of a container or a control group may have: `dmesg` shows that
hint-broken-pipe = a command in a pipe wrote after its reader, such as `head`, had ended (SIGPIPE); `|| true` accepts that
hint-module = this shell has no `module`; begin the script with `source /etc/profile.d/modules.sh`, or the file that defines it here
hint-conda = this shell cannot activate environments; begin the script with `source PREFIX/etc/profile.d/conda.sh`, with the folder of conda for PREFIX, or use `PREFIX/bin/conda run -n ENV …`
end-signal = was ended by { $name }
end-unknown = ended in an unknown way
lack-gpu-count = { $n ->
    [0] no GPU
    [1] 1 GPU
   *[other] { $n } GPUs
}
cpu-count = { $n ->
    [1] 1 CPU
   *[other] { $n } CPUs
}
lack-gpus = needs { $needs }, this machine has { $has }
lack-gpus-trouble = needs { $needs }, this machine has { $has } ({ $trouble })
lack-gpu-memory = needs { $needs } with { $memory } of memory each, this machine has { $has } (the largest has { $largest })
lack-cpus = needs { $needs }, this machine has { $has }
lack-memory = needs { $needs } of memory, this machine has { $has }
lack-group-gpus = is in a group of { $members } that together needs { $needs } of their own, this machine has { $has }
lack-group-gpu-memory = is in a group of { $members } that together needs { $memory } on each of { $needs }, this machine has { $has } such
lack-group-memory = is in a group of { $members } that together needs { $needs } of memory, this machine has { $has }
lack-member = is in a group with { $label }, which { $why }
filling-own = { $path } cannot be made: { $error }
filling-input = input { $path } cannot be brought to the work folder: { $error }
filling-input-in-input = input { $path } would be written into the input { $folder }: one of them needs another name
filling-input-changed = { $path } changed while the run was going on; run again
filling-artifact = { $error }
filling-no-plugin = plugin { $plugin } is gone
metrics-unread = its metrics were expected in { $file }: { $error }
metrics-no-json = { $file } with its metrics is no JSON: { $error }
metrics-no-numbers = { $file } with its metrics is neither an object of numbers nor a list of such
metrics-bad-line = { $file } with its metrics: line { $line } is no JSON object: { $text }
metrics-no-header = the first row of { $file } with its metrics is numbers; expected a header with the names of the columns
metrics-none-in-file = no number is in { $file }, which holds its metrics
metrics-none-in-table = no number is below the header of { $file }, which holds its metrics
metrics-no-event-file = no event file of TensorBoard is in { $file }, which holds its metrics
metrics-bad-event = the event file { $file } with its metrics is damaged from byte { $at } on, and what comes behind it is not read
metrics-unmatched-nearest = { $pattern } (nearest: { $line })
metrics-none-matches = no line that it printed matches { $several ->
    [yes] these patterns
   *[no] the pattern
} of its metrics: { $patterns }; `flow logs` shows the lines
refusal-other-protocol = plugin { $plugin } speaks protocol { $theirs }, this flow speaks { $ours }: { $newer ->
    [yes] use a newer flow
   *[no] build the plugin against the present protocol
}
refusal-no-hello = the program wrote a message before `hello`; its first line must be a `hello` with protocol { $protocol }
refusal-messages-unread = its messages cannot be read: { $error }
refusal-log-unread = its log cannot be read: { $error }
refusal-log-too-long = it printed more than { $most } MiB, and the file system cannot drop the middle of a log ({ $error })
refusal-not-reached = it cannot be told to go on or to end in { $folder }: { $error }
spoiled-stranger = process { $pid } ({ $name }) of somebody else computed on GPU { $gpu } meanwhile
spoiled-gpu-silent = GPU { $gpu } did not answer for { $seconds } s meanwhile: what it did then is not known
spoiled-other-runs = it wanted the machine for itself, and meanwhile other runs had steps on it, up to { $attempts } at once
spoiled-input-changed = { $path } changed while it ran
spoiled-artifact-changed = { $path } is only to be read, and { $damage }
spoiled-artifact-unseen = whether { $path } is as it was cannot be told: { $error }
caveat-first-values = its series hold the first { $kept } of { $printed } values; last, min and max are of all
caveat-output-unread = { $size } of its output were not read, so metrics may lack numbers that were printed there
spoiled-other-hardware = { $declared } was declared, and it ran on { $found }
damage-missing = is missing
damage-changed = was changed
damage-changed-in = was changed: { $path }
damage-content = has another content than its name says
profile-asked = asked for with --profile
profile-holds = { $expression } holds

## Schedules
gantt-time = Time ({ $unit ->
    [seconds] seconds
    [minutes] minutes
    [hours] hours
   *[days] days
})
gantt-part = the first { $shown } of { $all } { $unit ->
    [seconds] seconds
    [minutes] minutes
    [hours] hours
   *[days] days
}
gantt-part-gpus = { $shown } of { $all } GPUs
gantt-cpu = Host CPU (cores)
gantt-waiting = Jobs waiting
gantt-no-gpu = no GPU
gantt-others = others
chart-schedule-alt = Schedule of { $label }
chart-schedule-caption = Schedule of { $label }{ $of ->
    [1] {""}
   *[other] {" "}in the first of { $of } simulations
}{ $whole ->
    [yes] {""}
   *[no] : { $part }
}.
chart-schedule-how = A bar is a job, on every GPU that it holds; jobs that share a GPU lie one above the other.
column-policy = Policy
column-density = Density
column-time_in_system = Mean JCT
column-time_in_system_p99 = P99 JCT
column-waiting = Mean waiting
column-makespan = Makespan
column-gpu_use = GPU use
column-gpu_held = GPU allocation
column-cpu_use = CPU use
side = { $name } ({ $value })
rival = { $name } ({ $by }, { $range })
rival-alike = { $name } (no difference in the digits shown)
rivals = Not told apart from { $name }, by differences and their simultaneous 95% confidence intervals: { $rivals }.
finding-best = At { $axis } { $at }, { $column } is lowest with { $best } and highest with { $worst }.
finding-none-told = At { $axis } { $at }, { $column } does not tell { $split } values apart: { $best } to { $worst }, a difference of { $by } (95% interval { $range }).
finding-order = { $column }, from the lowest: { $order }.
order-place = { $axis } { $value }
order-pair = { $first } has less than { $second }
finding-order-holds = By { $column }, the order is that of { $table } at { $place }, as far as { $names } are told apart there.
finding-order-holds-in-part = By { $column }, the order is only in part that of { $table } at { $place }: here { $turned }, and there the other way round. Whatever else of { $names } is told apart there comes in the same order here.
finding-order-turned = By { $column }, the order is not that of { $table } at { $place }: here { $turned }, and there the other way round.
finding-order-open = By { $column }, no two of { $names } are told apart in { $table } at { $place }, so there is no order to hold.
finding-alike = At { $axis } { $at }, { $column } differs by { $apart } at the most, whatever the { $split }: { $range }.
turn = { $first } has less than { $second } at { $from } ({ $a } against { $b }) and more at { $to } ({ $c } against { $d })
finding-turns = The order by { $column } turns with { $axis }: { $turns }.
finding-at-most = { $column } is { $most } at the most, with { $parts } at { $axis } { $at }.

## Assumptions of simulations
assumed-heading = Assumed, not measured
assumed-heading-other = Assumed here, all else as above
assumed-kind = Kind of job
assumed-share = Of all jobs
assumed-gpus = GPUs
assumed-duration = Median duration alone (min)
assumed-spread = Spread of durations (deviation of their logarithm)
assumed-cores = Cores kept busy
assumed-busy = GPU busy
assumed-memory = Memory on each GPU (GiB)
assumed-cluster = Cluster: { $cluster } (nodes × GPUs){ $counts ->
    [yes] , { $cores } cores that all jobs share
   *[no] ; the CPU does not count
}.
assumed-arrivals = { $jobs } jobs arrive independently of each other (a Poisson process), each of a kind drawn by its share, its duration log-normal. The density of arrivals is the GPU time that they ask for over what there is.
assumed-trace = { $jobs } jobs of the trace { $file }: when they arrive, how many GPUs they hold and how long they run is as recorded.
assumed-seeds = { $seeds } simulations, with seeds 0 to { $last }: the jobs of a seed are the same under every policy, and arrive the faster the higher the density. Differences are taken seed by seed.
assumed-once = Nothing is by chance, so there is one simulation: how the differences would be for other jobs is not known.
assumed-known = Every policy knows exactly how long each job takes alone.
assumed-errors = How long a job takes alone is told to the policies with a log-normal error, whose logarithm has the deviation { $errors } (0: exactly).
assumed-one-gpu = fifo-single and sjf-single give each job one GPU; a job for several runs on one, as many times longer.
assumed-priorities = The priority of a job is one of { $levels } levels, each as likely, whatever its kind; for policy priority a level is worth an hour of waiting.
assumed-v = Lyapunov: a GPU-second of the service that a job is expected to take is worth V seconds of waiting, V = { $v }.
assumed-preempts = Running jobs make room for those of a higher tier that would else wait, within { $grace } s, and begin anew, three times at most.
assumed-preempts-kept = Running jobs make room for those of a higher tier that would else wait, within { $grace } s, and go on from a checkpoint, one every { $every } s.
assumed-slurm = Slurm: flow says which jobs are submitted, and Slurm starts them by tier, by priority and in order, letting later ones pass that fit while earlier ones do not; a job has one node, and GPUs alone count. flow has at most { $queue } jobs in the queue; an array has at most { $array } tasks; the controller knows at most { $jobs } jobs, those too that ended in the last { $remembered } s; every job waits { $delay } s for those of others; jobs start every { $tick } s, { $rate } a second at the most; a call of sbatch takes { $submit } s, and flow sees an end after { $notice } s.
assumed-sharing = Sharing: a job joins others on a GPU where memory suffices, nobody is predicted to take more than 2 times as long as alone, and what is done at once grows by a quarter of a job at least. Beyond 100% of a GPU's time all on it slow down alike; nothing of that was measured.
column-estimate_error = Error of run-time estimates
column-v = V

## Analyses
analysis-of = Of
analysis-points = Points
fit-title = { $column } over { $axis }: which curve
fit-curve = Curve
fit-coefficients = Coefficients (± 95% confidence)
fit-r2 = R²
fit-adjusted-r2 = Adjusted R²
fit-off = Off by at most
fit-aicc = AICc above the least
fit-p = p (F-test)
fit-chosen = Chosen
fit-curve-proportional = line through 0: b x
fit-curve-affine = line: a + b x
fit-curve-inverse = hyperbola: a + b / x
fit-curve-saturating = saturation: a + b x / (x + k)
fit-curve-broken = line with a break: a + b min(x, k) + c max(0, x − k)
fit-curve-quadratic = parabola: a + b x + c x²
fit-curve-cubic = cubic: a + b x + c x² + d x³
fit-curve-without-jumps = with its jumps taken out, { $curve }
fit-note = Chosen is the curve with the fewest parameters of all whose AICc is within 2 of the least; a line through 0 whose R² is below 0, or beside which the F-test tells a constant from 0 (p < 0.05), is not chosen, and has no AICc here. The F-test is that of the line through 0 against the line, and of curves with more parameters than the line against it; a k that is looked for makes its p too small.
fit-none-chosen = Nothing is chosen where no slope is told from 0: the curve that is nearest to such points says nothing of them.
fit-relative = { $all ->
    [yes] Errors count
   *[no] Of { $curves } errors count
} relative to what was measured: that says the points better than errors of one size do, or as well with a simpler curve. R² is of errors in absolute size all the same, so it may fall as a curve gains parameters.
fit-constant = { $column } is the same at all { $points } points.
fit-few = { $points ->
    [one] { $points } point is too few to tell which curve { $column } is of over { $axis }.
   *[other] { $points } points are too few to tell which curve { $column } is of over { $axis }.
}
fit-none = { $goes ->
    [up] { $column } rises with { $axis } from each point to the next, but none of the compared curves has its form: the one chosen has R² = { $r2 } over { $points } points.
    [down] { $column } falls with { $axis } from each point to the next, but none of the compared curves has its form: the one chosen has R² = { $r2 } over { $points } points.
   *[both] { $column } does not follow from { $axis } alone: the curve chosen has R² = { $r2 } over { $points } points, so noise or something else decides too.
}
fit-far = None of the compared curves holds for { $column } over { $axis }: the best, a { $curve }, is off by up to { $off }.
fit-proportional = { $column } is proportional to { $axis }: { $slope } for each unit of it.
fit-proportional-so-far = { $column } is proportional to { $axis } as far as { $points } points tell (the intercept of a line, { $intercept }, is not told from 0): { $slope } for each unit of it.
fit-affine = { $column } { $rises ->
    [yes] rises
   *[no] falls
} by { $slope } for each unit of { $axis }; the intercept is { $intercept }.
fit-no-slope = { $column } neither rises nor falls with { $axis } as far as these points tell: the slope is { $slope } for each unit of { $axis }.
fit-inverse = { $column } is { $fixed } { $sign } { $shared } / { $axis }: { $stays ->
    [yes] a part that stays, and one that { $axis } shares out
   *[no] { $axis } shares it out, and no part that stays is told from 0
}.
fit-saturating = { $column } { $rises ->
    [yes] rises
   *[no] falls
} with { $axis } ever less: from { $from } by { $by } in all, half of it where { $axis } is { $knot }.
fit-broken = { $column } bends where { $axis } is { $knot }: for each unit of { $axis } it changes by { $before } before and by { $after } after that.
fit-without-jumps = { $column } jumps along { $axis }, which none of the compared curves does; with its jumps taken out, { $curve ->
    [proportional] a line through 0
    [affine] a straight line
    [inverse] a hyperbola
    [saturating] a curve that saturates
    [broken] a line with a break
    [quadratic] a parabola
   *[cubic] a cubic
} is the curve that suffices.
fit-quadratic = Of these curves a parabola says best how { $column } goes with { $axis }.
fit-cubic = Of these curves a cubic says best how { $column } goes with { $axis }.
fit-explains = R² is { $r2 } over { $points } points, the furthest of which is { $off } off.
fit-furthest = The furthest of { $points } points is { $off } off.
fit-explains-of-zero = R² is { $r2 } over { $points } points.
fit-parabola-adds-nothing = A straight line suffices: a parabola adds nothing (F-test, p { $p }).
fit-line-is-not-enough = A straight line is not enough: its AICc is { $more } above the least.
jumps-title = Jumps of { $column } along { $axis }
jumps-each = Where { $column } jumps along { $axis }
jumps-falls-at = Falls at
jumps-rises-at = Rises at
jumps-height-share = Of the level
jumps-both = { $column } falls at { $axis } { $falls }, and rises at { $rises }.
jumps-falls = { $column } falls at { $axis } { $falls }.
jumps-rises = { $column } jumps up at { $axis } { $rises }.
jumps-of-multiple = All are at the multiples of { $multiple }.
jumps-places = { $places } (by { $by })
jumps-fluctuation = Fluctuation
jumps-fluctuation-share = Fluctuation, of the level
jumps-between = Between
jumps-height = Difference
jumps-note = A jump is a difference of two neighbours that stands out from the curve, in a sweep that has changes of level or points off its curve that no curve, bend, growing or correlated noise explains as well. Of 100 sweeps of 16 to 70 points without any jump (lines, curves, waves, noise that correlates by up to 0.5 from one point to the next) at most one is given a jump. Fluctuation is the standard deviation about the curve.
jumps-at-multiples = { $what ->
    [falls] Falls to multiples of { $multiple }
   *[rises] Rises right after multiples of { $multiple }
} are { $more ->
    [yes] more frequent than by chance
   *[no] no more frequent than by chance
}: { $there } of { $of }, where chance would put { $chance } (p { $p } if all were independent).
jumps-expected = Jumps of { $column } along { $axis } at multiples, and by chance
jumps-what = What
jumps-what-falls = falls
jumps-what-rises = rises
jumps-there = There
jumps-of = Of
jumps-by-chance = By chance
jumps-p-chance = p (as many by chance alone)
jumps-few = { $points ->
    [one] { $points } point is too few to tell whether { $column } jumps along { $axis }.
   *[other] { $points } points are too few to tell whether { $column } jumps along { $axis }.
}
jumps-none = No jump of { $column } along { $axis } stands out of the noise; it fluctuates by { $fluctuation } of its level, and a single jump of less than about { $times } times that may not be told.
jumps-difference = The difference of { $column } between { $a } and { $b } { $jumps ->
    [0] has no jump along { $axis }: { $b } adds none.
    [one] jumps at 1 place along { $axis }.
   *[other] jumps at { $jumps } places along { $axis }.
}
jumps-fluctuate = The fluctuation of { $column } about its curve, as a share of its level, differs (Brown–Forsythe test, p { $p }): from { $low } ({ $least }) to { $high } ({ $most }).
jumps-fluctuate-alike = The fluctuation of { $column } about its curve, as a share of its level, does not differ beyond chance (Brown–Forsythe test, p { $p }): { $low } ({ $least }) to { $high } ({ $most }).
jumps-alike = Whether fluctuations of { $column } differ, as shares of the level
jumps-lowest = Lowest
jumps-highest = Highest
jumps-p = p (Brown–Forsythe test)
jumps-level = With p below 0.05 they differ.
best-title = Best { $column }
best-place = Point
best-difference = Against the best
best-p = p (t-test, of all comparisons)
best-told = Told from the best
best-told-yes = yes
best-told-no = no, within noise
best-told-unknown = not known
best-nothing = No point has { $column }.
best-point = { $goal ->
    [min] The least
   *[max] The largest
} { $column } is { $value }, at { $point }.
best-same = The same at { $points }.
best-tied = Repeated measurements do not tell it from { $points } ({ $paired ->
    [yes] paired t-tests
   *[no] t-tests
}).
best-clear = Every other point is worse by more than noise explains ({ $paired ->
    [yes] paired t-tests
   *[no] t-tests
}).
spread-identical = Repetitions gave exactly the same number, so the run-to-run spread is unknown: does the command read `${"{{"} seed {"}}"}`?
best-unknown = Points that were measured once cannot be told from noise.
best-by-name = { $goal ->
    [min] Less
   *[max] More
} counts as better, by the column's name; `goal:` says otherwise.
best-note = { $paired ->
    [yes] Paired t-tests
   *[no] t-tests
} with Bonferroni's correction for { $comparisons } comparisons. Told apart: p of at most 0.05.
best-note-medians = p compares means; shown are medians and their differences.
best-more = { $more ->
    [1] One more point is
   *[other] { $more } more points are
} worse and not shown.

## Earlier figures
reference-earlier = earlier
note-untaken = Nothing is taken from the column { $head } of { $file }: is { $nearest } meant?
note-again = { $lines ->
    [1] A line of { $file } is of the same row as an earlier one, and both are taken together: { $first }.
   *[other] { $lines } lines of { $file } are of the same rows as earlier ones, and are taken together with these, the first { $first }.
}
note-unmatched = { $lines ->
    [1] A line of { $file } is no row here and left out: { $first }.
   *[other] { $lines } lines of { $file } are no rows here and left out, the first { $first }.
}
held-title = Found in { $file }, and found now
held-then = Found in { $file }
held-now = Found now
held-holds = Reproduced
held-yes = yes
held-differs = no, different
held-gone = no, not found
held-new = not found there
held-open = undecided
held-note = Both by the same rules, over the rows and columns that both have, on as many GPUs where that is known. How far the earlier figures vary is not known.
note-no-reference = Not compared with { $file }: `reference.when` is false on this machine.

## The first screen
answer-none = No effect stands out.
answer-one-row = There is one result and nothing to compare it with.
answer-no-number = No result has a number to compare.
answer-parallel = { $group }, parallel: run the { $members } together; the worst slowdown is { $worst }.
answer-none-slower = { $group }, parallel: run the { $members } together; none is measurably slower than alone.
answer-only-concurrent = { $group }, only concurrent: run the { $members } together to finish all sooner ({ $gain } times the work of one after another); each takes longer (worst slowdown { $worst }).
answer-no-gain = { $group }, no gain: the { $members } together do { $gain } times the work of one after another, with a worst slowdown of { $worst }.
answer-slower = { $group }, slower than serial: run the { $members } one after another; together they do only { $gain } times the work, with a worst slowdown of { $worst }.
answer-undecided = { $group }: undecided. { $looks ->
    [one] 1 run of each is
   *[other] { $looks } runs of each are
} not enough: the { $members } together do { $gain } times the work of one after another.
answer-undecided-more = { $group }: undecided after { $looks ->
    [one] 1 run
   *[other] { $looks } runs
} of each: the { $members } together do { $gain } times the work of one after another. About { $more ->
    [one] 1 more run
   *[other] { $more } more runs
} of each would decide.
answer-limit = Bottleneck: { $limit }.
front-worst = Worst slowdown
front-together = { $column }, { $n } together
front-group = { $group } ({ $n } at once)
front-limit = Bottleneck
front-demand-cpu = CPU demand / used
front-demand-gpu = GPU demand / used
front-finding = Finding
front-then = Then
front-now = Now
front-compared = Compared with { $file }
front-details = All measurements, charts, findings and method
front-setup = Set-up, versions and remarks
front-data = data
front-remarks = { $more ->
    [one] One more remark is below.
   *[other] { $more } more remarks are below.
}
news-report = report
news-all = all entries
news-more = { $more ->
    [one] 1 more section in the report.
   *[other] { $more } more sections in the report.
}
front-cost = { $results ->
    [one] 1 result
   *[other] { $results } results
}, { $time }
front-cost-gpu = { $results ->
    [one] 1 result
   *[other] { $results } results
}, { $time } of GPU time
finding-goes-up = { $column } rises with { $axis }, from { $first } at { $from } to { $last } at { $to }.
finding-goes-down = { $column } falls with { $axis }, from { $first } at { $from } to { $last } at { $to }.
finding-varies = { $column } varies with { $axis }: lowest { $first } at { $from }, highest { $last } at { $to }.
finding-stays = { $column } hardly depends on { $axis }: { $first } to { $last }.
finding-winner = Best { $column }: { $value } at { $point }; next { $second } at { $next }.
finding-winner-worst = Best { $column }: { $value } at { $point }; next { $second } at { $next }, worst { $last } at { $worst }.
finding-depends = { $column } depends most on { $axis }: on average { $value } at { $best }, { $other } at { $worst }; { $second } changes it by { $by }.
finding-winner-once = Each point ran once, so the run-to-run spread is unknown: `repeat: 3`{ $command ->
    [yes] , with `${"{{"} seed {"}}"}` in the command,
   *[no] {""}
} measures it.
finding-winner-same = { $tied ->
    [one] { $next } has the same value.
   *[other] { $tied } other points have the same value.
}
finding-winner-clear = The lead is larger than the run-to-run spread ({ $paired ->
    [yes] paired t-test
   *[no] t-test
}, p { $p }).
finding-winner-tied = { $runs ->
    [one] 1 run
   *[other] { $runs } runs
} of each cannot tell it from { $tied ->
    [one] one other point
   *[other] { $tied } other points
}, up to { $furthest } away (next: { $paired ->
    [yes] paired t-test
   *[no] t-test
}, p { $p }).
finding-winner-more = If the differences stay as they are, about { $more ->
    [one] 1 more run
   *[other] { $more } more runs
} of each would tell it from { $next }.
brief-about = { $column }
brief-about-time = where { $column } stops falling
brief-about-pays = largest step at which memory × time falls
brief-about-frontier = out of memory at
brief-about-line = { $column }, a straight line
brief-about-jumps = jumps of { $column }
brief-about-cost = cheaper at the same { $column }
brief-about-turns = where the order by { $column } changes
brief-flattens = { $at }
brief-falls = not by { $at }
brief-flat = flat, { $range }
brief-flat-to = flat to { $at }, { $range }
brief-least = shortest at { $at }
brief-pays = { $at }
brief-line = yes, R² = { $r2 }
brief-same = same
held-opposite = no, the opposite
