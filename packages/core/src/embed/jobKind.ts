import type { builtIn as kinds } from "../kinds/builtInKinds.ts"
import { checkDefinition } from "../kinds/checkDefinition.ts"
import type { JobKind } from "../kinds/JobKind.ts"
import type { AnySchema, BatchOptions, Kind } from "../kinds/KindDefinition.ts"
import { defaultVoices, type Voices } from "../kinds/Voices.ts"
import type { ProviderRef } from "../providers/builtInPorts.ts"
import type { AnyOutput, AsyncBatchRun } from "./AttemptTypes.ts"
import type { AsyncRun, DefinedKind, JobKindOptions, OutputOfRun } from "./JobKindOptions.ts"
import { unloadedBuiltIn, unloadedKind } from "./unloadedKind.ts"

/**
 * Defines a custom job kind: its request, output, price and attempts. Pass it to `createEngine` as one of its `kinds`, in every
 * process that submits or runs such jobs.
 */
export const jobKind = <
  const Name extends string,
  S extends AnySchema,
  Output extends object = AnyOutput,
  const File extends string = never,
  const Provider extends ProviderRef = never,
  const OrProvider extends ProviderRef = never,
  const Upload extends string = never,
  const Code extends string = never,
  const Switch extends string = never,
  const MeterName extends string = never,
  Returned = unknown,
  Chunk = never,
  const Batch extends BatchOptions | undefined = undefined,
>(
  options: JobKindOptions<
    Name,
    S,
    Output,
    File,
    Provider,
    OrProvider,
    Upload,
    Code,
    Switch,
    MeterName,
    Returned,
    Chunk,
    Batch
  >,
): DefinedKind<
  Name,
  S,
  OutputOfRun<Output, Returned>,
  File,
  Provider,
  OrProvider,
  Upload,
  Code,
  Switch,
  MeterName,
  Chunk
> => {
  checkDefinition(options)
  const { batch, name, run, sandbox, upload } = options
  const kind = unloadedKind({
    name,
    upload,
    load: ({ JobKind, runAsync, runAsyncBatch }) => {
      const runOf = (given: unknown) =>
        batch === undefined ? runAsync(given as AsyncRun) : runAsyncBatch(given as AsyncBatchRun)
      return JobKind({
        ...(options as object as Parameters<typeof JobKind>[0]),
        run: runOf(run) as never,
        ...(sandbox && { sandbox: runOf(sandbox) as never }),
      })
    },
  })
  return kind as never
}

/** The types of a kind, spelled out, because the declarations of this entry point contain no Effect types. */
type Plain<K> =
  K extends Kind<infer Name, infer Types>
    ? Kind<
        Name,
        {
          readonly input: { readonly [Field in keyof Types["input"]]: Types["input"][Field] }
          readonly request: { readonly [Field in keyof Types["request"]]: Types["request"][Field] }
          readonly output: { readonly [Field in keyof Types["output"]]: Types["output"][Field] }
          readonly needs: { readonly all: Types["needs"]["all"]; readonly or: Types["needs"]["or"] }
          readonly upload: NonNullable<Types["upload"]>
          readonly switch: NonNullable<Types["switch"]>
          readonly meter: NonNullable<Types["meter"]>
        }
      >
    : never

type PlainKinds<Kinds> = {
  readonly [Name in keyof Kinds]: Kinds[Name] extends (voices: Voices) => infer Made
    ? (voices?: Voices) => Plain<Made>
    : Plain<Kinds[Name]>
}

/** A built-in kind that is made once there is an engine: Effect Schema, which describes its request, takes long to load. */
const later = <Name extends string>(name: Name, from: (all: typeof kinds) => JobKind<Name>, upload?: string) =>
  unloadedBuiltIn({ name, upload, from }) as never

/** The same, so that the compiler spells out its type in the declarations. */
const plain = <Kinds extends object>(all: PlainKinds<Kinds>): { readonly [N in keyof Kinds]: PlainKinds<Kinds>[N] } =>
  all

/** The built-in kinds, by name. The ones that speak are functions of the voices: `builtIn.speechSynthesis()`. */
export const builtIn = plain<typeof kinds>({
  transcription: later("transcription", (all) => all.transcription, "uploadId"),
  speechSynthesis: (voices = defaultVoices) => later("speech_synthesis", (all) => all.speechSynthesis(voices)),
  voiceTurn: (voices = defaultVoices) => later("voice_turn", (all) => all.voiceTurn(voices), "uploadId"),
  imageGeneration: later("image_generation", (all) => all.imageGeneration),
})

type Made<K> = K extends (voices?: Voices) => infer Result ? Result : K
/** Any of the built-in kinds. */
export type BuiltInKind = { [Name in keyof typeof builtIn]: Made<(typeof builtIn)[Name]> }[keyof typeof builtIn]

/** Returns all built-in kinds, optionally with other voices. */
export const builtInKinds = (voices: Voices = defaultVoices): ReadonlyArray<BuiltInKind> =>
  Object.values(builtIn).map((kind) => (typeof kind === "function" ? kind(voices) : kind))
