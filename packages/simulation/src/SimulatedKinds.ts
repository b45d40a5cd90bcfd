import * as Result from "effect/Result"
import type { Job, JsonObject, UploadId } from "@kiln/core/domain"
import type { JobKind } from "@kiln/core/kinds"

/** The duration of every uploaded file, in seconds. */
export const uploadSeconds = 3

/** Computes a job's usage of a meter from its request. */
export type MeterRule = (request: JsonObject, textField: string | undefined) => number

const builtInMeters: Readonly<Record<string, MeterRule>> = {
  input_audio_seconds: () => uploadSeconds,
  input_characters: (request, textField = "") => [...textIn(request[textField])].length,
  output_tokens: (request) => Number(request["maxOutputTokens"]),
  images: () => 1,
}

const textIn = (value: unknown): string => (typeof value === "string" ? value : "")

/** The providers that a simulation has, by what they answer with. */
const textProviders: ReadonlyArray<string> = ["transcription", "reply"]
const fileProviders: ReadonlyArray<string> = ["speech", "image"]

/** The expectations of a simulation about its kinds, all derived from the kinds. */
export class SimulatedKinds {
  readonly all: readonly [JobKind, ...ReadonlyArray<JobKind>]
  readonly #meters: Readonly<Record<string, MeterRule>>

  /** Throws `TypeError` for a kind that cannot be simulated: without an example, or with a meter that has no rule. */
  constructor(kinds: ReadonlyArray<JobKind>, meters: Readonly<Record<string, MeterRule>> = {}) {
    const [first, ...others] = kinds
    if (first === undefined) throw new TypeError("a simulation needs a job kind")
    this.all = [first, ...others]
    this.#meters = { ...builtInMeters, ...meters }
    for (const { example, gate, name } of kinds) {
      if (example === undefined) throw new TypeError(`job kind "${name}" needs an example to be simulated`)
      const unknown = gate.meters.find((meter) => !Object.hasOwn(this.#meters, meter))
      if (unknown !== undefined)
        throw new TypeError(`the simulation needs a rule for the meter "${unknown}" of "${name}"`)
    }
  }

  of({ kind }: Pick<Job, "kind">): JobKind {
    const found = this.all.find(({ name }) => name === kind)
    if (found === undefined) throw new TypeError(`the simulation does not run "${kind}"`)
    return found
  }

  get scopes(): ReadonlyArray<string> {
    return [...new Set(this.all.map(({ keyScope }) => keyScope))]
  }

  /** The meters of each price. */
  get prices(): ReadonlyMap<string, ReadonlyArray<string>> {
    const prices = new Map<string, ReadonlyArray<string>>()
    for (const { gate } of this.all)
      if (gate.price !== null) prices.set(gate.price, [...new Set([...(prices.get(gate.price) ?? []), ...gate.meters])])
    return prices
  }

  /** A valid request: the kind's example, with this upload, and with this text where a text may be anything. */
  inputOf(kind: JobKind, uploadId: UploadId | null, text: string): JsonObject {
    const field = textFieldOf(kind)
    return {
      ...kind.example,
      ...(kind.upload !== undefined && { [kind.upload]: uploadId }),
      ...(field !== undefined && { [field]: text }),
    }
  }

  /** Another valid request in place of this one; `undefined` where the kind takes but one. */
  otherInput(kind: JobKind, input: JsonObject): JsonObject | undefined {
    const field = textFieldOf(kind) ?? kind.upload
    return field === undefined ? undefined : { ...input, [field]: "upl_other" }
  }

  /** Returns the usage that a finished live job is charged for. */
  usageOf(job: Job): Readonly<Record<string, number>> {
    const kind = this.of(job)
    const used = kind.gate.meters.map((meter) => [
      meter,
      this.#meters[meter]?.(job.request ?? {}, textFieldOf(kind)) ?? 0,
    ])
    return Object.fromEntries(used) as Readonly<Record<string, number>>
  }

  /**
   * The providers whose answers a finished job contains: the last one that returned a text, and the last one that returned a
   * file.
   */
  answersOf(job: Job): { readonly text: string | undefined; readonly file: string | undefined } {
    const known = new Set([...textProviders, ...fileProviders])
    const asked = this.of(job).providers.find((names) => names.every((name) => known.has(name))) ?? []
    return {
      text: asked.findLast((name) => textProviders.includes(name)),
      file: asked.findLast((name) => fileProviders.includes(name)),
    }
  }
}

/** The first field of a kind's example in which any text is accepted. */
const textFieldOf = ({ example = {}, reader, upload }: JobKind): string | undefined =>
  Object.keys(example).find(
    (field) =>
      field !== upload &&
      typeof example[field] === "string" &&
      Result.isSuccess(reader.read({ ...example, [field]: "any text at all" })),
  )
