/* cyclometer: counts what a CPU did, and says how far each number can be trusted.
 *
 * Made by cbindgen from bindings/c/src; do not edit. docs/guides/sdk-c.md explains it.
 *
 * Results. Every function that returns `int` returns a `cyclometer_status_t`: 0 for success, or a negative
 * number for an error, which leaves every output unchanged. Of the positive numbers, `CYCLOMETER_SCALED` and
 * `CYCLOMETER_PARTIAL` mean values that are not all exact; `CYCLOMETER_NO_SAMPLE` means no sample.
 *
 * Threads. There is no global state. A monitor may be used from any number of threads at once. Counters
 * belong to threads: a counter or region that a thread enabled or began counts that thread. The same thread
 * must disable or end it; in another thread that is an error. Counts that were handed out never change and
 * may be read in any thread. To free an object while another thread uses it is undefined behaviour. Markers
 * belong to the thread that calls them.
 *
 * Pointers. A null pointer is an error unless the function says otherwise. Functions that free an object take
 * the address of a pointer and set it to null, so that a second call is an error. Texts are UTF-8. */

#ifndef CYCLOMETER_H
#define CYCLOMETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names of events that most CPUs have. Every other name of `cyclometer stat -e` is accepted as well. */
#define CYCLOMETER_CPU_CYCLES "cpu_cycles"
#define CYCLOMETER_INSTRUCTIONS "instructions"
#define CYCLOMETER_L1D_CACHE_LOADS "l1d_cache_loads"
#define CYCLOMETER_L1D_CACHE_MISSES "l1d_cache_misses"
#define CYCLOMETER_L2_CACHE_LOADS "l2_cache_loads"
#define CYCLOMETER_L2_CACHE_MISSES "l2_cache_misses"
#define CYCLOMETER_BRANCH_INSTRUCTIONS "branch_instructions"
#define CYCLOMETER_BRANCH_MISSES "branch_misses"

/* Marks are called through a pointer that is resolved before the program starts. Otherwise the dynamic linker
 * would resolve the second mark within the first region, and its work would be counted there. */
#if defined(__ELF__) && defined(__has_attribute)
#if __has_attribute(noplt)
#ifdef __cplusplus
extern "C" {
#endif
void cyclometer_marker_begin(const char *label) __attribute__((noplt));
void cyclometer_marker_end(const char *label) __attribute__((noplt));
#ifdef __cplusplus
}
#endif
#endif
#endif

/**
 * The status of a function. The numbers never change.
 */
typedef enum {
  /**
   * Done; a value is exact.
   */
  CYCLOMETER_SUCCESS = 0,
  /**
   * Done; the value is an estimate, because the event shared its counter with others.
   */
  CYCLOMETER_SCALED = 1,
  /**
   * Done; the value is of some cores or modes only, of more than requested, or may be too small.
   */
  CYCLOMETER_PARTIAL = 2,
  /**
   * There is no sample yet; ask again later.
   */
  CYCLOMETER_NO_SAMPLE = 3,
  /**
   * No source of counts supports the architecture.
   */
  CYCLOMETER_ERR_ARCH_UNSUPPORTED = -1,
  /**
   * Counters cannot be read from user space here.
   */
  CYCLOMETER_ERR_NO_USER_ACCESS = -2,
  /**
   * Another user holds the counter.
   */
  CYCLOMETER_ERR_COUNTER_BUSY = -3,
  /**
   * The event cannot be counted on this machine.
   */
  CYCLOMETER_ERR_EVENT_UNSUPPORTED = -4,
  /**
   * Only a changed kernel gives access.
   */
  CYCLOMETER_ERR_KERNEL_PATCH_NEEDED = -5,
  /**
   * The operating system does not permit it.
   */
  CYCLOMETER_ERR_PERMISSION_DENIED = -6,
  /**
   * The request needs more counters than the hardware has.
   */
  CYCLOMETER_ERR_HARDWARE_LIMIT = -7,
  /**
   * No event has that name; `cyclometer_remedy` has the nearest ones.
   */
  CYCLOMETER_ERR_UNKNOWN_EVENT = -8,
  /**
   * An argument is invalid, or invalid in this state.
   */
  CYCLOMETER_ERR_INVALID_INPUT = -9,
  /**
   * Events that can never be counted at the same time.
   */
  CYCLOMETER_ERR_CONSTRAINT_CONFLICT = -10,
  /**
   * Counting began, but the count was lost.
   */
  CYCLOMETER_ERR_STATE_LOST = -11,
  /**
   * A process or CPU does not exist.
   */
  CYCLOMETER_ERR_NO_SUCH_TARGET = -12,
  /**
   * A file could not be read or written.
   */
  CYCLOMETER_ERR_IO = -15,
  /**
   * The operating system failed in another way.
   */
  CYCLOMETER_ERR_OS = -17,
  /**
   * The machine can count the event, but it was not counted.
   */
  CYCLOMETER_ERR_NOT_COUNTED = -100,
  /**
   * An error of the library itself; the monitor can still be closed.
   */
  CYCLOMETER_ERR_PANIC = -101,
} cyclometer_status_t;

/**
 * Events that most CPUs have, by number, for `configure_counter`. The numbers never change.
 */
typedef enum {
  /**
   * `cpu_cycles`.
   */
  CYCLOMETER_EVENT_CPU_CYCLES = 0,
  /**
   * `instructions`.
   */
  CYCLOMETER_EVENT_INSTRUCTIONS = 1,
  /**
   * `l1d_cache_loads`.
   */
  CYCLOMETER_EVENT_L1D_CACHE_LOADS = 2,
  /**
   * `l1d_cache_misses`.
   */
  CYCLOMETER_EVENT_L1D_CACHE_MISSES = 3,
  /**
   * `l2_cache_loads`.
   */
  CYCLOMETER_EVENT_L2_CACHE_LOADS = 4,
  /**
   * `l2_cache_misses`.
   */
  CYCLOMETER_EVENT_L2_CACHE_MISSES = 5,
  /**
   * `branch_instructions`.
   */
  CYCLOMETER_EVENT_BRANCH_INSTRUCTIONS = 6,
  /**
   * `branch_misses`.
   */
  CYCLOMETER_EVENT_BRANCH_MISSES = 7,
} cyclometer_event_t;

/**
 * The target of a monitor.
 */
typedef enum {
  /**
   * The thread that enables a counter or begins a region. The default.
   */
  CYCLOMETER_SCOPE_THREAD = 0,
  /**
   * The whole process.
   */
  CYCLOMETER_SCOPE_PROCESS = 1,
  /**
   * The process with the given id, and the processes that it starts from now on.
   */
  CYCLOMETER_SCOPE_PID = 2,
  /**
   * Everything on the CPU with the given number.
   */
  CYCLOMETER_SCOPE_CPU = 3,
} cyclometer_scope_t;

/**
 * The state of a count.
 */
typedef enum {
  /**
   * No counter is configured there.
   */
  CYCLOMETER_COUNT_NONE = 0,
  /**
   * Counted for the whole time.
   */
  CYCLOMETER_COUNT_EXACT = 1,
  /**
   * An estimate: the event shared its counter with others.
   */
  CYCLOMETER_COUNT_SCALED = 2,
  /**
   * Counted on some cores or modes only, over more than requested, or by counters that may have missed
   * some events.
   */
  CYCLOMETER_COUNT_PARTIAL = 3,
  /**
   * Not counted, although the machine can count it.
   */
  CYCLOMETER_COUNT_NOT_COUNTED = 4,
  /**
   * The machine, kernel or source cannot count it.
   */
  CYCLOMETER_COUNT_NOT_SUPPORTED = 5,
  /**
   * Counting began, but the count was lost.
   */
  CYCLOMETER_COUNT_LOST = 6,
} cyclometer_count_state_t;

/**
 * The kind of counter behind a count.
 */
typedef enum {
  /**
   * None: the event was not counted.
   */
  CYCLOMETER_FROM_NOBODY = 0,
  /**
   * A counter of the CPU.
   */
  CYCLOMETER_FROM_HARDWARE = 1,
  /**
   * The operating system.
   */
  CYCLOMETER_FROM_KERNEL = 2,
  /**
   * The software PMU, which executed the program: exact.
   */
  CYCLOMETER_FROM_COUNTED = 3,
  /**
   * The software PMU's model.
   */
  CYCLOMETER_FROM_MODELLED = 4,
  /**
   * A simulated chip.
   */
  CYCLOMETER_FROM_SIMULATED = 5,
  /**
   * A source without a name in this header.
   */
  CYCLOMETER_FROM_OTHER = 6,
} cyclometer_provenance_t;

/**
 * Kinds of CPU.
 */
typedef enum {
  /**
   * Another one, or not known.
   */
  CYCLOMETER_ARCH_UNKNOWN = 0,
  /**
   * Intel, x86.
   */
  CYCLOMETER_ARCH_X86_INTEL = 1,
  /**
   * AMD (and Hygon), x86.
   */
  CYCLOMETER_ARCH_X86_AMD = 2,
  /**
   * Apple M1.
   */
  CYCLOMETER_ARCH_ARM_APPLE_M1 = 3,
  /**
   * Apple M2.
   */
  CYCLOMETER_ARCH_ARM_APPLE_M2 = 4,
  /**
   * Apple M3.
   */
  CYCLOMETER_ARCH_ARM_APPLE_M3 = 5,
  /**
   * Apple M4.
   */
  CYCLOMETER_ARCH_ARM_APPLE_M4 = 6,
  /**
   * Apple M5.
   */
  CYCLOMETER_ARCH_ARM_APPLE_M5 = 7,
  /**
   * Another Arm CPU, 64-bit.
   */
  CYCLOMETER_ARCH_ARM = 8,
  /**
   * RISC-V, 64-bit.
   */
  CYCLOMETER_ARCH_RISCV = 9,
} cyclometer_arch_t;

/**
 * The counts of regions, one for each event. They never change.
 */
typedef struct cyclometer_counts_t cyclometer_counts_t;

/**
 * A region that has begun and was not ended.
 */
typedef struct cyclometer_region_t cyclometer_region_t;

/**
 * A sampling thread, and its samples.
 */
typedef struct cyclometer_samples_t cyclometer_samples_t;

/**
 * Counts up to 64 events, in a thread, a process or on a CPU.
 */
typedef struct cyclometer_t cyclometer_t;

/**
 * Capabilities of the CPU, and those that may be used.
 */
typedef struct {
  /**
   * A `cyclometer_arch_t`.
   */
  int32_t arch;
  /**
   * Number of general counters of the first core type; 0 where there are none or the number is unknown.
   */
  uint32_t pmc_count;
  /**
   * Number of fixed counters, each of which counts one event.
   */
  uint32_t fixed_counters;
  /**
   * Width of counters in bits; 0 where it is unknown.
   */
  uint32_t counter_width;
  /**
   * Whether counters can be read without a system call.
   */
  bool user_mode_access;
  /**
   * Whether access to the registers needs a changed kernel.
   */
  bool needs_kernel_patch;
  /**
   * The CPU in words (`intel sapphirerapids`), cut to what fits.
   */
  char name[64];
} cyclometer_capabilities_t;

/**
 * The unified interface: the operations on the numbered counters of a monitor. Later versions may append
 * members; `size` says how many bytes there are.
 */
typedef struct {
  /**
   * Size of this library's structure, in bytes.
   */
  size_t size;
  /**
   * Opens a monitor: `cyclometer_open`.
   */
  int (*init)(cyclometer_t **monitor);
  /**
   * Assigns a `cyclometer_event_t` to a counter; `cyclometer_configure` takes every other event by name.
   */
  int (*configure_counter)(cyclometer_t *monitor, unsigned int counter, int event);
  /**
   * Enables a counter: `cyclometer_enable`.
   */
  int (*enable_counter)(cyclometer_t *monitor, unsigned int counter);
  /**
   * Disables a counter: `cyclometer_disable`.
   */
  int (*disable_counter)(cyclometer_t *monitor, unsigned int counter);
  /**
   * Reads a counter: `cyclometer_read`.
   */
  int (*read_counter)(cyclometer_t *monitor, unsigned int counter, uint64_t *value);
  /**
   * Reads the raw counts of the counters 0 to `count - 1`. A counter that is not configured gets
   * `UINT64_MAX` and does not change the result. A configured counter without a count gets `UINT64_MAX`
   * too, never zero, and the result is `CYCLOMETER_PARTIAL`; `read_counter` returns the reason. Otherwise
   * the result is the worst status of the counters: `CYCLOMETER_SUCCESS`, `CYCLOMETER_SCALED` or
   * `CYCLOMETER_PARTIAL`.
   */
  int (*read_all_counters)(cyclometer_t *monitor, uint64_t *values, unsigned int count);
  /**
   * Resets a counter: `cyclometer_reset`.
   */
  int (*reset_counter)(cyclometer_t *monitor, unsigned int counter);
  /**
   * Reads the machine's capabilities: `cyclometer_capabilities`. `size` is
   * `sizeof(cyclometer_capabilities_t)`.
   */
  int (*get_capabilities)(cyclometer_t *monitor, cyclometer_capabilities_t *capabilities, size_t size);
  /**
   * Frees the monitor and sets the pointer to null: `cyclometer_close`.
   */
  int (*cleanup)(cyclometer_t **monitor);
} cyclometer_api_t;

/**
 * One count. Without a count, `value` and `half_width` are NaN and the other numbers `UINT64_MAX`: never
 * zero.
 */
typedef struct {
  /**
   * A `cyclometer_count_state_t`.
   */
  int32_t state;
  /**
   * A `cyclometer_provenance_t`.
   */
  int32_t provenance;
  /**
   * The best value available, in the event's unit, less the cost of measuring where that is known.
   */
  double value;
  /**
   * Half the width of the interval around `value` that holds the true count; 0 where it is exact, NaN
   * where it is unknown.
   */
  double half_width;
  /**
   * The raw count; the estimate where it is scaled.
   */
  uint64_t raw;
  /**
   * Time that the event was enabled, in ns; `UINT64_MAX` where it was counted all that time.
   */
  uint64_t time_enabled_ns;
  /**
   * Time that it was on a counter, in ns; `UINT64_MAX` where it was all the time.
   */
  uint64_t time_running_ns;
} cyclometer_count_t;

/**
 * One read of all counters. Later versions may append fields.
 */
typedef struct {
  /**
   * Its number, from 0. The numbers of lost samples are missing.
   */
  uint64_t number;
  /**
   * Start of the read, in ns since sampling began.
   */
  uint64_t at_ns;
  /**
   * Duration of the read, in ns: the values of two counters are at most so far apart.
   */
  uint64_t skew_ns;
  /**
   * Delay of the read after its due time, in ns.
   */
  uint64_t late_ns;
  /**
   * Bit `n` is set where counter number `n` shared the hardware's counter, and counted for a part of the
   * time only. Its value is scaled up to the whole time.
   */
  uint64_t scaled;
} cyclometer_sample_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The unified interface as a structure of functions; never null, never freed.
 */
const cyclometer_api_t *cyclometer_api(void);

/**
 * Assigns an event to counter number `counter` (0 to 63), in every spelling of `cyclometer stat -e`. The
 * counts of all counters of the monitor are reset. An event that exists and cannot be counted here is no
 * error: a read of it returns the reason. A call while anything is counting is an error.
 */
int cyclometer_configure(cyclometer_t *monitor, unsigned int counter, const char *event);

/**
 * Enables a counter, which goes on from its earlier count. Where the scope is a thread, it counts the
 * calling thread.
 */
int cyclometer_enable(cyclometer_t *monitor, unsigned int counter);

/**
 * Disables a counter, which keeps its value. The caller must be the thread that enabled it.
 */
int cyclometer_disable(cyclometer_t *monitor, unsigned int counter);

/**
 * Resets the count of a counter. An enabled counter goes on from zero; the caller must then be the thread
 * that enabled it.
 */
int cyclometer_reset(cyclometer_t *monitor, unsigned int counter);

/**
 * Reads the raw count of a counter for the time that it was enabled. While it is enabled, the caller must be
 * the thread that enabled it.
 *
 * `CYCLOMETER_SUCCESS` means exact. `CYCLOMETER_SCALED` and `CYCLOMETER_PARTIAL` come with a value as well.
 * A counter without a count is an error, and no value is written: `CYCLOMETER_ERR_EVENT_UNSUPPORTED`,
 * `CYCLOMETER_ERR_NOT_COUNTED` or `CYCLOMETER_ERR_STATE_LOST`. `cyclometer_message` returns the reason.
 */
int cyclometer_read(cyclometer_t *monitor, unsigned int counter, uint64_t *value);

/**
 * Reads the counters 0 to `length - 1` into an array whose elements have `size` bytes each:
 * `sizeof(cyclometer_count_t)`. Each element has a state; that of a counter that is not configured is
 * `CYCLOMETER_COUNT_NONE`.
 */
int cyclometer_read_all(cyclometer_t *monitor, cyclometer_count_t *counts, unsigned int length, size_t size);

/**
 * Number of counts: one for each configured counter, in the order of their numbers. 0 for a null pointer.
 */
unsigned int cyclometer_counts_length(const cyclometer_counts_t *counts);

/**
 * Number of regions that have ended. 0 for a null pointer.
 */
uint64_t cyclometer_counts_calls(const cyclometer_counts_t *counts);

/**
 * The label; valid as long as the counts. Null for a null pointer.
 */
const char *cyclometer_counts_label(const cyclometer_counts_t *counts);

/**
 * The name of an event with its effective modes (`instructions:u`); valid as long as the counts. Null where
 * there is no such count.
 */
const char *cyclometer_counts_name(const cyclometer_counts_t *counts, unsigned int index);

/**
 * The name of an event as it was configured, without modifiers; valid as long as the counts. Null where
 * there is no such count.
 */
const char *cyclometer_counts_event(const cyclometer_counts_t *counts, unsigned int index);

/**
 * The reason why a count is not exact; valid as long as the counts. Null where it is exact, and where there
 * is no such count.
 */
const char *cyclometer_counts_reason(const cyclometer_counts_t *counts, unsigned int index);

/**
 * Copies one of the counts with its state; `size` is `sizeof(cyclometer_count_t)`.
 */
int cyclometer_counts_get(const cyclometer_counts_t *counts,
                          unsigned int index,
                          cyclometer_count_t *count,
                          size_t size);

/**
 * Finds an event by its configured name, or by its name with its modes.
 */
int cyclometer_counts_find(const cyclometer_counts_t *counts, const char *event, unsigned int *index);

/**
 * Frees counts and sets the pointer to null. A null pointer is no error here.
 */
void cyclometer_counts_free(cyclometer_counts_t **counts);

/**
 * Reads the capabilities of the machine. `size` is `sizeof(cyclometer_capabilities_t)`.
 */
int cyclometer_capabilities(cyclometer_t *monitor, cyclometer_capabilities_t *capabilities, size_t size);

/**
 * Copies the message of the last error of a monitor and its regions, cut to `size` bytes with the zero byte.
 * The result is the length of the whole text in bytes, without the zero byte; 0 where there was no error, or
 * for a null monitor. `buffer` may be null to read the length.
 */
size_t cyclometer_message(const cyclometer_t *monitor, char *buffer, size_t size);

/**
 * As `cyclometer_message`, for the remedy.
 */
size_t cyclometer_remedy(const cyclometer_t *monitor, char *buffer, size_t size);

/**
 * As `cyclometer_message`, for the sources that were tried for each event: one line for each step, with the
 * reason of each refusal and the next step.
 */
size_t cyclometer_ladder(const cyclometer_t *monitor, char *buffer, size_t size);

/**
 * The meaning of a status in words; never null, never freed.
 */
const char *cyclometer_status_text(int status);

/**
 * The version of the library; never null, never freed.
 */
const char *cyclometer_version(void);

/**
 * Marks the beginning of a region of the calling thread for `cyclometer stat -m`. In any other program the
 * mark does nothing, at the cost of a call, a load and a branch. Regions nest; those with the same label add
 * up. A null pointer is a region without a name.
 *
 * Signal handlers must not call it: a mark may allocate memory, and an allocation within a handler can wait
 * for ever for the allocation that the signal interrupted.
 */
void cyclometer_marker_begin(const char *label);

/**
 * Marks the end of the last region of this label that the calling thread began. The tool reports an end
 * without a beginning, with its label.
 */
void cyclometer_marker_end(const char *label);

/**
 * Whether `cyclometer stat -m` runs this program: whether regions are counted.
 */
bool cyclometer_marker_attached(void);

/**
 * Opens a monitor, which counts nothing yet. It is freed by `cyclometer_close`.
 */
int cyclometer_open(cyclometer_t **monitor);

/**
 * Disables all counters of this thread, frees the monitor and sets the pointer to null. Counters that are
 * enabled in other threads stay enabled until these threads end. Regions that have begun can still be ended.
 */
int cyclometer_close(cyclometer_t **monitor);

/**
 * Sets the target: `scope` is a `cyclometer_scope_t`, and `id` the process or CPU where it needs one. All
 * counts are reset. A call while anything is counting is an error.
 */
int cyclometer_set_scope(cyclometer_t *monitor, int scope, unsigned int id);

/**
 * Reads a configuration file (YAML, `performance_monitoring:`); settings of the environment override it. A
 * null pointer means the file that the variable `CYCLOMETER_CONFIG` names, if it is set. All counts are
 * reset. A call while anything is counting is an error. The sampling interval and buffer size are for
 * `cyclometer_samples_open`.
 */
int cyclometer_load(cyclometer_t *monitor, const char *file);

/**
 * Begins a region in the calling thread: all configured counters count from here to `cyclometer_region_end`.
 * Regions nest, and the counts of regions with equal labels add up.
 */
int cyclometer_region_begin(cyclometer_t *monitor, const char *label, cyclometer_region_t **region);

/**
 * Ends a region, frees it and sets the pointer to null. The caller must be the thread that began it; in
 * another thread this is an error, and the region goes on. If `counts` is not null, it gets the counts of
 * this one region, to be freed by `cyclometer_counts_free`.
 */
int cyclometer_region_end(cyclometer_region_t **region, cyclometer_counts_t **counts);

/**
 * The counts of all regions with a label, over all threads, since they began or the counters were
 * configured. They are freed by `cyclometer_counts_free`.
 */
int cyclometer_total(cyclometer_t *monitor, const char *label, cyclometer_counts_t **counts);

/**
 * Starts a thread of the library that reads all configured counters `hertz` times a second, 1 to 10000,
 * until `cyclometer_samples_close`. A rate of 0 takes the configuration's `sampling_interval_ms`. The buffer
 * keeps `buffer_size` samples until they are fetched, 1 to 1048576; 0 takes the configuration's size, or
 * 1024. When it is full, the oldest samples are lost, and their number is counted.
 *
 * With the scope of a thread the whole process is sampled, including the sampling thread. Samples have
 * counters of their own: other functions of the monitor, and its end, do not change them.
 */
int cyclometer_samples_open(cyclometer_t *monitor,
                            unsigned int hertz,
                            size_t buffer_size,
                            cyclometer_samples_t **samples);

/**
 * Takes the oldest sample that was not taken yet: `size` is `sizeof(cyclometer_sample_t)`. `values[n]`
 * becomes the count of counter number `n` since sampling began, in its event's unit, for `n` from 0 to
 * `length - 1`. It is NaN, never zero, where the event was not counted or the counter is not configured. The
 * value of an event that shared its counter is scaled up to the whole time, and a bit of `scaled` is set.
 * `values` may be null where `length` is 0.
 *
 * The function does not wait. Without a sample it returns `CYCLOMETER_NO_SAMPLE` and writes nothing.
 */
int cyclometer_samples_next(cyclometer_samples_t *samples,
                            cyclometer_sample_t *sample,
                            size_t size,
                            double *values,
                            unsigned int length);

/**
 * Numbers of missing samples since sampling began: `lost` because the buffer was full, `missed` because the
 * thread was not on a CPU when they were due. Either pointer may be null. The numbers are those of the last
 * time that `cyclometer_samples_next` looked for new samples, which it does when it has handed out the
 * others. They are complete once it has returned `CYCLOMETER_NO_SAMPLE`.
 */
int cyclometer_samples_lost(cyclometer_samples_t *samples, uint64_t *lost, uint64_t *missed);

/**
 * The reason why a counter has no values in samples; valid as long as the samples. Null where it has values,
 * and where it is not configured.
 */
const char *cyclometer_samples_reason(const cyclometer_samples_t *samples, unsigned int counter);

/**
 * Ends sampling, frees the samples and sets the pointer to null.
 */
int cyclometer_samples_close(cyclometer_samples_t **samples);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CYCLOMETER_H */
