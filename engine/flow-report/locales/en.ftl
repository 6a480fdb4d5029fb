# The words of tables and reports in English. Keys and variables are those of every other catalogue; a test compares them.

## Lists and units
list-comma = ,
list-and = and
unit-points = points

## Columns
column-batch = Batch size
column-model = Model
column-version = Version
column-dataset = Dataset
column-data = Dataset
column-size = Input size
column-input_size = Input size
column-seed = Seed
column-lr = Learning rate
column-epochs = Epochs
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
column-gpu_memory_limit = GPU memory limit
column-gpu_load = GPU load
column-gpu_load_peak = Peak GPU load
column-gpu_load_above_90 = Time with GPU load above 90 %
column-gpu_memory_load = Memory-controller load
column-gpu_memory_load_peak = Peak memory-controller load
column-gpu_memory_load_above_90 = Time with memory-controller load above 90 %
column-energy = Energy
column-foreign_cpu = Foreign CPU use
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
cell-spoiled = spoiled
cell-unlike = not comparable
cell-gpus-change = { $from }→{ $to } GPUs

## Notes below tables
table-absent = No table: step `{ $step }` has no instances ({ $why }).
note-mean = Mean ± standard deviation of at least { $of } results.
note-mean-over = Mean ± standard deviation over { $over }, of at least { $of } results.
note-median = Median of at least { $of } repetitions, with the least and the largest.
note-unlike = Taken under unlike circumstances, so neither averaged nor compared ({ $what }: { $one } and { $other }).
note-spoiled = `{ $label }` is not to be trusted: { $why }.
note-partial = { $used } of { $of } results count; the others have no number to trust.
note-baseline = Ratios and speed-ups are against { $of }.
note-baseline-first = Ratios and speed-ups are against the first row.
note-no-column = No result has `{ $name }`.
note-no-column-near = No result has `{ $name }`; is `{ $nearest }` meant?
note-accepted = `{ $label }` is an earlier result, kept although what it depends on has changed: { $reason }
note-unverified = The driver tells no memory by process: this is the card's memory less what was in use before the start.
