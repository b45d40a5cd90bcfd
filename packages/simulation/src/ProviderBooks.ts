import type { EngineSettings } from "@kiln/core/effect"
import type { Kernel } from "./Kernel.ts"
import type { ProviderCallRecord } from "./ProviderCallRecord.ts"
import type { Coverage } from "./Coverage.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"

/** The view that one process has of one live provider. */
interface Known {
  /** When it was last told that the provider is broken. */
  brokenAt: number | undefined
  atOnce: number
}

/**
 * Checks the calls of live providers, per process: a process that learned that a provider is broken pauses it, the number of
 * concurrent calls is limited, and no call exceeds its time limit.
 */
export class ProviderBooks {
  readonly #kernel: Kernel
  readonly #settings: EngineSettings
  readonly #coverage: Coverage
  readonly #known = new Map<string, Known>()

  constructor(kernel: Kernel, settings: EngineSettings, coverage: Coverage) {
    this.#kernel = kernel
    this.#settings = settings
    this.#coverage = coverage
  }

  callBegan(call: ProviderCallRecord): void {
    if (call.mode !== "live") return
    const known = this.#knownBy(call.process, call.provider)
    const about = `${call.provider} for ${call.jobId}, attempt ${call.attempt}, by ${call.process.name}`
    known.atOnce += 1
    const { concurrency } = this.#settings.providers[call.provider]
    if (concurrency > 0 && known.atOnce > concurrency)
      this.#kernel.violate("a provider gets no more concurrent calls than its limit", about)
    if (known.brokenAt === undefined) return
    const passedMs = this.#kernel.now - known.brokenAt
    if (passedMs < this.#settings.circuit.brokenPauseMs * slowestClock)
      this.#kernel.violate(
        "a broken provider is not called during its pause",
        `${about}, ${passedMs} ms after it said so`,
      )
    this.#coverage.note("a paused provider is tried again")
  }

  callEnded(call: ProviderCallRecord): void {
    if (call.mode !== "live") return
    const known = this.#knownBy(call.process, call.provider)
    known.atOnce -= 1
    if (call.outcome === "broken") known.brokenAt = this.#kernel.now
  }

  #knownBy(process: SimulatedProcess, provider: string): Known {
    const key = `${process.name} ${provider}`
    const known = this.#known.get(key) ?? { brokenAt: undefined, atOnce: 0 }
    this.#known.set(key, known)
    return known
  }
}

/** The maximum speed of a process's clock relative to the clock of these books: its pauses are that much shorter here. */
const slowestClock = 0.9
