//! The meaning of metrics, in words of ours.

/// The description of a metric; `None` for one that nobody has described yet.
pub(super) fn about(name: &str) -> Option<&'static str> {
    WORDS.iter().find(|(known, _)| *known == name).map(|(_, about)| *about)
}

const WORDS: &[(&str, &str)] = &[
    // Intel: the pipeline's slots.
    ("tma_frontend_bound", "slots that stayed empty because the front end delivered no micro-operation"),
    ("tma_bad_speculation", "slots lost to micro-operations that never retire, and to recovering from them"),
    ("tma_backend_bound", "slots that stayed empty because the back end could take no micro-operation"),
    ("tma_retiring", "slots whose micro-operations retired"),
    ("tma_fetch_latency", "front-end bound: nothing at all was delivered in the cycle"),
    ("tma_fetch_bandwidth", "front-end bound: less was delivered than the core could take"),
    ("tma_ifetch_latency", "front-end bound: waiting for the instruction cache, its TLB or a branch target"),
    ("tma_ifetch_bandwidth", "front-end bound: fetched, but not decoded fast enough"),
    ("tma_branch_mispredicts", "bad speculation: behind branches that were predicted wrongly"),
    ("tma_machine_clears", "bad speculation: behind clears of the pipeline, as of memory ordering"),
    ("tma_memory_bound", "back-end bound: waiting for loads and stores"),
    ("tma_core_bound", "back-end bound: held up inside the core, not by memory"),
    (
        "tma_resource_bound",
        "back-end bound: waiting for room in a queue or buffer, or for operations that serialise",
    ),
    ("tma_light_operations", "retiring: instructions of one micro-operation, or a few that belong together"),
    ("tma_heavy_operations", "retiring: instructions of several micro-operations, microcode included"),
    ("tma_microcode_sequencer", "retiring: micro-operations that came from microcode"),
    ("tma_info_thread_slots", "slots that the thread could have filled"),
    ("tma_info_core_core_clks", "cycles in which a thread of the core was running"),
    ("tma_info_thread_clks", "cycles in which the thread was running"),
    ("tma_info_thread_ipc", "instructions in a cycle of the thread"),
    // AMD: dispatch slots.
    ("total_dispatch_slots", "dispatch slots of the thread's cycles"),
    ("frontend_bound_latency", "front-end bound: nothing at all was delivered in the cycle"),
    ("frontend_bound_bandwidth", "front-end bound: less was delivered than could be dispatched"),
    ("frontend_bound_by_latency", "front-end bound: nothing at all was delivered in the cycle"),
    ("frontend_bound_by_bandwidth", "front-end bound: less was delivered than could be dispatched"),
    ("bad_speculation_mispredicts", "bad speculation: behind branches that were predicted wrongly"),
    ("bad_speculation_from_mispredicts", "bad speculation: behind branches that were predicted wrongly"),
    ("bad_speculation_pipeline_restarts", "bad speculation: behind restarts of the pipeline"),
    ("bad_speculation_from_pipeline_restarts", "bad speculation: behind restarts of the pipeline"),
    ("backend_bound_memory", "back-end bound: waiting for loads"),
    ("backend_bound_by_memory", "back-end bound: waiting for loads"),
    ("backend_bound_cpu", "back-end bound: waiting for anything but loads"),
    ("backend_bound_by_cpu", "back-end bound: waiting for anything but loads"),
    ("smt_contention", "slots that the other thread of the core took"),
    ("retiring_fastpath", "retiring: operations that need no microcode"),
    ("retiring_from_fastpath", "retiring: operations that need no microcode"),
    ("retiring_microcode", "retiring: operations that came from microcode"),
    ("retiring_from_microcode", "retiring: operations that came from microcode"),
    // AMD and Arm.
    ("frontend_bound", "slots that stayed empty because the front end delivered nothing"),
    ("bad_speculation", "slots lost to operations that never retire"),
    ("backend_bound", "slots that stayed empty because the back end could take nothing"),
    ("retiring", "slots whose operations retired"),
    // Arm: cycles.
    ("frontend_stalled_cycles", "cycles in which the front end delivered nothing"),
    ("backend_stalled_cycles", "cycles in which the back end took nothing"),
    ("frontend_core_bound", "cycles of front-end stalls: for reasons inside the core"),
    ("frontend_mem_bound", "cycles of front-end stalls: waiting for instructions from caches or a TLB"),
    ("backend_core_bound", "cycles of back-end stalls: for reasons inside the core"),
    ("backend_mem_bound", "cycles of back-end stalls: waiting for caches, a TLB or stores"),
];
