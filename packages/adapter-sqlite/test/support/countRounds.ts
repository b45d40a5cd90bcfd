// Counts the rounds of its thread's event loop in a shared array, at most one per millisecond.
import { workerData } from "node:worker_threads"

setInterval(() => Atomics.add(workerData as Int32Array, 0, 1), 1)
