import type { JobId, JobMode } from "@kiln/core/domain"
import type { ProviderName } from "@kiln/core/providers"
import type { SimulatedProcess } from "./SimulatedProcess.ts"

/** One call that reached a provider. */
export interface ProviderCallRecord {
  readonly process: SimulatedProcess
  readonly mode: JobMode
  readonly provider: ProviderName
  readonly jobId: JobId
  readonly attempt: number
  readonly beganAt: number
  /** `failed`: the provider gave no usable answer. `broken`: it reported a quota or configuration problem. */
  outcome: "running" | "answered" | "failed" | "broken" | "interrupted"
  endedAt: number | undefined
}
