import type { SharedV4Warning } from "@ai-sdk/provider"
import type { RunOptions } from "../ClientOptions.ts"
import { type Names, requireKnown } from "../knownOptions.ts"

/** The options of one call, as `providerOptions: { kiln: { … } }`. */
export interface KilnCallOptions {
  /** Repeat the call with the same key after a crash, and it returns the result of the first job. */
  readonly idempotencyKey?: string
  /** Maximum wait in milliseconds, default 600,000. */
  readonly timeoutMs?: number
}

/** The provider's name, and its key in `providerOptions` and `providerMetadata`. */
export const PROVIDER = "kiln"

const known: Names<KilnCallOptions> = { idempotencyKey: true, timeoutMs: true }

interface Call {
  readonly providerOptions?: Readonly<Record<string, object>> | undefined
  readonly abortSignal?: AbortSignal | undefined
}

/** Returns the options of a call for the client. Throws `TypeError` for an unknown one. */
export const runOptionsOf = ({ abortSignal, providerOptions }: Call): RunOptions => {
  const given: KilnCallOptions = providerOptions?.[PROVIDER] ?? {}
  requireKnown(`providerOptions.${PROVIDER}`, given, known)
  return { ...given, ...(abortSignal !== undefined && { signal: abortSignal }) }
}

/** Returns a warning for each setting that was given and that kiln does not have. */
export const unsupported = (settings: Readonly<Record<string, unknown>>): Array<SharedV4Warning> =>
  Object.entries(settings)
    .filter(([, value]) => value !== undefined)
    .map(([feature]) => ({ type: "unsupported", feature }))

/** The clock is that of the page or process. */
export const responseOf = (modelId: string) => ({
  timestamp: new Date(performance.timeOrigin + performance.now()),
  modelId,
})
