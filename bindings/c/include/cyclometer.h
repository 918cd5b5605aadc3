/* cyclometer: counts what a CPU did, and says how far each number can be trusted.
 *
 * Made by cbindgen from bindings/c/src; do not edit. docs/guides/sdk-c.md explains it.
 *
 * Results. Every function that returns `int` returns a `cyclometer_status_t`: negative for an error (nothing was
 * written to any output then), 0 for success. Two positive ones are for values that are there and not exact, one says that
 * there is no sample yet.
 *
 * Threads. There is no global state. A monitor may be used from any number of threads at once. Counters belong to
 * threads: what was enabled or begun in a thread counts that thread, and is disabled or ended there; elsewhere that is
 * an error. Counts that were handed out never change and may be read anywhere. Freeing something that another thread is
 * using is a mistake that nothing finds out. Markers are of the thread that calls them.
 *
 * Pointers. A null pointer is an error wherever nothing else is said. Functions that free take the address of a
 * pointer and set it to null, so that a second call is an error and no accident. Texts are UTF-8. */

#ifndef CYCLOMETER_H
#define CYCLOMETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names of events that most CPUs have. Every other name that `cyclometer stat -e` takes can be given as well. */
#define CYCLOMETER_CPU_CYCLES "cpu_cycles"
#define CYCLOMETER_INSTRUCTIONS "instructions"
#define CYCLOMETER_L1D_CACHE_LOADS "l1d_cache_loads"
#define CYCLOMETER_L1D_CACHE_MISSES "l1d_cache_misses"
#define CYCLOMETER_L2_CACHE_LOADS "l2_cache_loads"
#define CYCLOMETER_L2_CACHE_MISSES "l2_cache_misses"
#define CYCLOMETER_BRANCH_INSTRUCTIONS "branch_instructions"
#define CYCLOMETER_BRANCH_MISSES "branch_misses"

/* Marks are called through a pointer that is filled before the program starts: else the dynamic linker would look for the second
 * of them within the first region, and be counted there. */
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
 * What a function returns. The numbers never change.
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
   * Done; the value is of some cores or modes only, or of more than was asked for.
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
   * More was asked for than the hardware has counters for.
   */
  CYCLOMETER_ERR_HARDWARE_LIMIT = -7,
  /**
   * No event has that name; `cyclometer_remedy` has the nearest ones.
   */
  CYCLOMETER_ERR_UNKNOWN_EVENT = -8,
  /**
   * An argument makes no sense, or not now.
   */
  CYCLOMETER_ERR_INVALID_INPUT = -9,
  /**
   * Events that can never be counted at the same time.
   */
  CYCLOMETER_ERR_CONSTRAINT_CONFLICT = -10,
  /**
   * It was being counted, and something took it away.
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
   * The event could be counted here and was not.
   */
  CYCLOMETER_ERR_NOT_COUNTED = -100,
  /**
   * A mistake of the library itself; the monitor can still be closed.
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
 * What a monitor counts of.
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
   * The process whose id is given, with what it starts from now on.
   */
  CYCLOMETER_SCOPE_PID = 2,
  /**
   * Everything on the CPU whose number is given.
   */
  CYCLOMETER_SCOPE_CPU = 3,
} cyclometer_scope_t;

/**
 * What a count is.
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
   * Of some cores or modes only, or of more than was asked for.
   */
  CYCLOMETER_COUNT_PARTIAL = 3,
  /**
   * Not counted, though it could be.
   */
  CYCLOMETER_COUNT_NOT_COUNTED = 4,
  /**
   * Cannot be counted here.
   */
  CYCLOMETER_COUNT_NOT_SUPPORTED = 5,
  /**
   * Was being counted and got lost.
   */
  CYCLOMETER_COUNT_LOST = 6,
} cyclometer_count_state_t;

/**
 * Who counted.
 */
typedef enum {
  /**
   * Nobody.
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
   * The software PMU, by executing: exact.
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
   * A source that this header has no name for.
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
 * What regions counted, one count for each event. It never changes.
 */
typedef struct cyclometer_counts_t cyclometer_counts_t;

/**
 * A region that has begun and was not ended.
 */
typedef struct cyclometer_region_t cyclometer_region_t;

/**
 * A thread that samples, and what it has sampled.
 */
typedef struct cyclometer_samples_t cyclometer_samples_t;

/**
 * Counts up to 64 events, in a thread or elsewhere.
 */
typedef struct cyclometer_t cyclometer_t;

/**
 * What the CPU has, and what may be used of it.
 */
typedef struct {
  /**
   * A `cyclometer_arch_t`.
   */
  int32_t arch;
  /**
   * Counters that count any event, of the first type of core; 0 where there are none or nobody tells.
   */
  uint32_t pmc_count;
  /**
   * Counters that count one event each.
   */
  uint32_t fixed_counters;
  /**
   * Width of counters in bits; 0 where nobody tells.
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
 * The unified interface: the operations on the numbered counters of a monitor. Later versions may have more members behind these,
 * never other ones; `size` says how many there are.
 */
typedef struct {
  /**
   * Bytes of the structure that this library has.
   */
  size_t size;
  /**
   * Opens a monitor: `cyclometer_open`.
   */
  int (*init)(cyclometer_t **monitor);
  /**
   * Lets a counter count a `cyclometer_event_t`; `cyclometer_configure` takes every other event by name.
   */
  int (*configure_counter)(cyclometer_t *monitor, unsigned int counter, int event);
  /**
   * Lets a counter count: `cyclometer_enable`.
   */
  int (*enable_counter)(cyclometer_t *monitor, unsigned int counter);
  /**
   * Stops a counter: `cyclometer_disable`.
   */
  int (*disable_counter)(cyclometer_t *monitor, unsigned int counter);
  /**
   * Reads a counter: `cyclometer_read`.
   */
  int (*read_counter)(cyclometer_t *monitor, unsigned int counter, uint64_t *value);
  /**
   * Reads the counters 0 to `count - 1`, in raw counts. `UINT64_MAX` stands where nothing was counted, never zero: then this
   * returns `CYCLOMETER_PARTIAL`, and `read_counter` says why. Otherwise it returns the worst status of all, and success
   * where no counter is configured.
   */
  int (*read_all_counters)(cyclometer_t *monitor, uint64_t *values, unsigned int count);
  /**
   * Forgets what a counter has counted: `cyclometer_reset`.
   */
  int (*reset_counter)(cyclometer_t *monitor, unsigned int counter);
  /**
   * Says what the machine has: `cyclometer_capabilities`. `size` is `sizeof(cyclometer_capabilities_t)`.
   */
  int (*get_capabilities)(cyclometer_t *monitor, cyclometer_capabilities_t *capabilities, size_t size);
  /**
   * Frees the monitor and sets the pointer to null: `cyclometer_close`.
   */
  int (*cleanup)(cyclometer_t **monitor);
} cyclometer_api_t;

/**
 * One count. Where nothing was counted, `value` and `half_width` are NaN and the other numbers `UINT64_MAX`: never zero.
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
   * The best number there is, in the event's unit: less what measuring added, where that is known.
   */
  double value;
  /**
   * How far the truth may be from `value`; 0 where it is exact, NaN where nobody can tell.
   */
  double half_width;
  /**
   * What was counted, in raw counts; the estimate where it is scaled.
   */
  uint64_t raw;
  /**
   * How long the event was wanted, in ns; `UINT64_MAX` where it was counted all that time.
   */
  uint64_t time_enabled_ns;
  /**
   * How long it was on a counter, in ns; `UINT64_MAX` where it was all the time.
   */
  uint64_t time_running_ns;
} cyclometer_count_t;

/**
 * One read of all counters. It only grows in later versions.
 */
typedef struct {
  /**
   * Its number, from 0; numbers of samples that were lost are missing.
   */
  uint64_t number;
  /**
   * When reading began, in ns since sampling began.
   */
  uint64_t at_ns;
  /**
   * How long reading took, in ns: so far apart at most are the values of two counters.
   */
  uint64_t skew_ns;
  /**
   * How much later it was than it should have been, in ns.
   */
  uint64_t late_ns;
  /**
   * Bit `n` is set where counter number `n` was counted for a part of the time only, as it shared the hardware's: its value is
   * scaled up to all of it.
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
 * Lets counter number `counter` (0 to 63) count an event, in every spelling of `cyclometer stat -e`, until it is configured
 * anew. Forgets what all counters of the monitor have counted. An event that exists and cannot be counted here is no
 * error: reading it says why. An error while anything is counting.
 */
int cyclometer_configure(cyclometer_t *monitor,
                         unsigned int counter,
                         const char *event);

/**
 * Lets a counter count, beginning at what it has counted before. It counts the calling thread where the scope is a thread.
 */
int cyclometer_enable(cyclometer_t *monitor,
                      unsigned int counter);

/**
 * Stops a counter, which keeps its value. In the thread that enabled it.
 */
int cyclometer_disable(cyclometer_t *monitor, unsigned int counter);

/**
 * Forgets what a counter has counted; it goes on where it is enabled, and then this is for the thread that enabled it.
 */
int cyclometer_reset(cyclometer_t *monitor,
                     unsigned int counter);

/**
 * Reads a counter: what it counted while it was enabled, in raw counts. While it is enabled, in the thread that enabled it.
 *
 * `CYCLOMETER_SUCCESS` means exact. `CYCLOMETER_SCALED` and `CYCLOMETER_PARTIAL` come with a value as well. Where nothing
 * was counted this is an error and no value is written: `CYCLOMETER_ERR_EVENT_UNSUPPORTED`, `CYCLOMETER_ERR_NOT_COUNTED`,
 * `CYCLOMETER_ERR_STATE_LOST`. `cyclometer_message` says why.
 */
int cyclometer_read(cyclometer_t *monitor,
                    unsigned int counter,
                    uint64_t *value);

/**
 * Reads the counters 0 to `length - 1` into an array whose elements have `size` bytes each: `sizeof(cyclometer_count_t)`.
 * Each element says what it is; `CYCLOMETER_COUNT_NONE` stands for counters that are not configured.
 */
int cyclometer_read_all(cyclometer_t *monitor,
                        cyclometer_count_t *counts,
                        unsigned int length,
                        size_t size);

/**
 * How many counts there are: one for each configured counter, in the order of their numbers. 0 for a null pointer.
 */
unsigned int cyclometer_counts_length(const cyclometer_counts_t *counts);

/**
 * How many regions have ended. 0 for a null pointer.
 */
uint64_t cyclometer_counts_calls(const cyclometer_counts_t *counts);

/**
 * The label; lives as long as the counts. Null for a null pointer.
 */
const char *cyclometer_counts_label(const cyclometer_counts_t *counts);

/**
 * The name of an event with the modes that were counted (`instructions:u`); lives as long as the counts. Null where there
 * is no such count.
 */
const char *cyclometer_counts_name(const cyclometer_counts_t *counts,
                                   unsigned int index);

/**
 * The name of an event as it was configured, without modifiers; lives as long as the counts. Null where there is no such
 * count.
 */
const char *cyclometer_counts_event(const cyclometer_counts_t *counts,
                                    unsigned int index);

/**
 * Why a count is not exact; lives as long as the counts. Null where it is exact, and where there is no such count.
 */
const char *cyclometer_counts_reason(const cyclometer_counts_t *counts,
                                     unsigned int index);

/**
 * Copies one of the counts; `size` is `sizeof(cyclometer_count_t)`. Its state says what it is.
 */
int cyclometer_counts_get(const cyclometer_counts_t *counts,
                          unsigned int index,
                          cyclometer_count_t *count,
                          size_t size);

/**
 * Finds an event by the name that it was configured with, or by that with its modes.
 */
int cyclometer_counts_find(const cyclometer_counts_t *counts, const char *event, unsigned int *index);

/**
 * Frees counts and sets the pointer to null. A null pointer is no error here.
 */
void cyclometer_counts_free(cyclometer_counts_t **counts);

/**
 * Says what the machine has. `size` is `sizeof(cyclometer_capabilities_t)`.
 */
int cyclometer_capabilities(cyclometer_t *monitor, cyclometer_capabilities_t *capabilities, size_t size);

/**
 * Copies what went wrong last with a monitor and its regions, cut to `size` bytes with the zero byte. Returns how many bytes
 * the whole text has, without the zero byte; 0 where nothing went wrong, or for a null monitor. `buffer` may be null to ask
 * for the length.
 */
size_t cyclometer_message(const cyclometer_t *monitor,
                          char *buffer,
                          size_t size);

/**
 * The same for what can be done about it.
 */
size_t cyclometer_remedy(const cyclometer_t *monitor, char *buffer, size_t size);

/**
 * The same for what was tried to count each event, whether it works, and what was done where it does not: one line for each
 * step.
 */
size_t cyclometer_ladder(const cyclometer_t *monitor,
                         char *buffer,
                         size_t size);

/**
 * What a status means, in words; never null, never freed.
 */
const char *cyclometer_status_text(int status);

/**
 * The version of the library; never null, never freed.
 */
const char *cyclometer_version(void);

/**
 * Marks the beginning of a region of the calling thread for `cyclometer stat -m`. Where that does not run the program, this does nothing:
 * it costs a call, a load and a branch. Regions nest; those of one label add up. A null pointer is a region without a name.
 *
 * Not for handlers of signals: a mark may allocate memory, which waits for ever in a handler that interrupted an allocation.
 */
void cyclometer_marker_begin(const char *label);

/**
 * Marks the end of the last region of this label that the calling thread began. An end that nothing began is told by the tool, with
 * its label.
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
 * Disables all counters of this thread, frees the monitor and sets the pointer to null. Counters that are enabled in other
 * threads stay so until these threads end, and harm nothing; regions that have begun can still be ended.
 */
int cyclometer_close(cyclometer_t **monitor);

/**
 * Says what is counted: `scope` is a `cyclometer_scope_t`, and `id` the process or CPU where it needs one. Forgets what was
 * counted. An error while anything is counting.
 */
int cyclometer_set_scope(cyclometer_t *monitor,
                         int scope,
                         unsigned int id);

/**
 * Reads a configuration file (YAML, `performance_monitoring:`), and over it what the environment says; without a file (null)
 * that of the variable `CYCLOMETER_CONFIG`, if there is one. Forgets what was counted. An error while anything is counting.
 * How often to sample, and how much of it to keep, is for `cyclometer_samples_open`.
 */
int cyclometer_load(cyclometer_t *monitor,
                    const char *file);

/**
 * Begins a region in the calling thread: everything from here to `cyclometer_region_end` is counted by all configured
 * counters. Regions nest, and what regions with equal labels count is added up.
 */
int cyclometer_region_begin(cyclometer_t *monitor,
                            const char *label,
                            cyclometer_region_t **region);

/**
 * Ends a region, in the thread that began it, frees it and sets the pointer to null. Where `counts` is not null it gets what
 * this one region counted, to be freed by `cyclometer_counts_free`. In another thread this is an error, and the region goes on.
 */
int cyclometer_region_end(cyclometer_region_t **region,
                          cyclometer_counts_t **counts);

/**
 * What all regions with a label have counted, over all threads, since they began or since the counters were configured. To
 * be freed by `cyclometer_counts_free`.
 */
int cyclometer_total(cyclometer_t *monitor,
                     const char *label,
                     cyclometer_counts_t **counts);

/**
 * Lets a thread of the library read all configured counters `hertz` times a second, 1 to 10000, until `cyclometer_samples_close`;
 * 0 takes the configuration's `sampling_interval_ms`. `buffer_size` samples are kept until they are fetched, 1 to 1048576; 0 takes
 * the configuration's, or 1024. Of more the oldest are lost, and counted.
 *
 * With the scope of a thread the whole process is sampled, with the sampling thread in it. Samples have counters of their own:
 * other functions of the monitor, and its end, do not change them.
 */
int cyclometer_samples_open(cyclometer_t *monitor,
                            unsigned int hertz,
                            size_t buffer_size,
                            cyclometer_samples_t **samples);

/**
 * Takes the oldest sample that was not taken yet: `size` is `sizeof(cyclometer_sample_t)`. `values[n]` becomes what counter
 * number `n` has counted since sampling began, in its event's unit, for `n` from 0 to `length - 1`; NaN where nothing was counted or
 * the counter is not configured, never zero. Where the event shared its counter it is scaled up to all of the time, and
 * a bit of `scaled` says so. `values` may be null where `length` is 0.
 *
 * `CYCLOMETER_NO_SAMPLE`, and nothing is written, where there is none yet. It does not wait.
 */
int cyclometer_samples_next(cyclometer_samples_t *samples,
                            cyclometer_sample_t *sample,
                            size_t size,
                            double *values,
                            unsigned int length);

/**
 * How many samples there never were, since sampling began: `lost` for want of room in the buffer, `missed` as the thread was not on
 * a CPU when they were due. Either may be null. It is what was known when `cyclometer_samples_next` looked for new samples last,
 * which it does when it has handed out the others: all of it once that said `CYCLOMETER_NO_SAMPLE`.
 */
int cyclometer_samples_lost(cyclometer_samples_t *samples,
                            uint64_t *lost,
                            uint64_t *missed);

/**
 * Why a counter has no values in samples; lives as long as the samples. Null where it has some, and where it is not configured.
 */
const char *cyclometer_samples_reason(const cyclometer_samples_t *samples,
                                      unsigned int counter);

/**
 * Ends sampling, frees the samples and sets the pointer to null.
 */
int cyclometer_samples_close(cyclometer_samples_t **samples);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CYCLOMETER_H */
