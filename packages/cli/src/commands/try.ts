import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { ApiError, type Client } from "@kiln/client"
import { type CommandFailed, misused } from "../CommandFailed.ts"
import { ProcessIo } from "../ProcessIo.ts"
import { type AudioFile, readAudio } from "../try/audioFile.ts"
import { checkOutput, type OutputPlace } from "../try/outputFile.ts"
import { printCurl } from "../try/curl.ts"
import { runTrial, type Trial, type TriedJob } from "../try/runTrial.ts"
import { stopOnSignal } from "../try/stopOnSignal.ts"
import type { Service } from "../try/Service.ts"
import { givenService, givenUrl, type TargetFlags, targetFlags } from "../try/target.ts"

const commonFlags = {
  output: Flag.String("output").pipe(
    Flag.withAlias("o"),
    Flag.withMetavar("FILE"),
    Flag.withDescription("File for the result; without it, audio and images are written to a file named after the job"),
    Flag.optional,
  ),
  force: Flag.Boolean("force").pipe(Flag.withDescription("Overwrite the file if it exists"), Flag.withDefault(false)),
  curl: Flag.Boolean("curl").pipe(
    Flag.withDescription("Print the requests as curl commands for a shell, and send nothing"),
    Flag.withDefault(false),
  ),
  ...targetFlags,
}

interface Common extends TargetFlags {
  readonly output: Option.Option<string>
  readonly force: boolean
  readonly curl: boolean
}

const run = (
  common: Common,
  prepare: Effect.Effect<Trial["job"], CommandFailed>,
  {
    requiresService = false,
    waits = true,
    ...about
  }: Pick<Trial, "type" | "recording"> & { readonly requiresService?: boolean; readonly waits?: boolean },
) => {
  let job: TriedJob | undefined
  return Effect.gen(function* () {
    const output: OutputPlace = { path: Option.getOrUndefined(common.output), force: common.force }
    if (common.curl) return yield* printCurl({ job: yield* prepare, output, waits, ...about }, yield* givenUrl(common))
    const given: Service | undefined = yield* givenService(common)
    if (requiresService && given === undefined)
      return yield* misused("a job is one of a running service: pass --url, and its API key in KILN_API_KEY")
    yield* checkOutput(output)
    const create = yield* prepare
    const { writeError } = yield* ProcessIo
    const onStop = Effect.sync(() => {
      if (job !== undefined && given !== undefined)
        writeError(`kiln: ${job.id} keeps running: kiln try job ${job.id} --watch --url ${given.url}\n`)
    })
    yield* stopOnSignal(
      runTrial({ job: create, output, waits }, given, (found) => void (job = found)),
      onStop,
    )
  })
}

const file = Argument.String("FILE").pipe(Argument.withDescription("A recording: MP3, MP4, M4A, WAV or WebM"))
const seconds = Flag.Finite("seconds").pipe(
  Flag.withDescription("Length of a recording that carries none, such as a WebM from a browser"),
  Flag.optional,
)
const voice = Flag.String("voice").pipe(Flag.withDescription("The voice that speaks"), Flag.optional)

const announced = ({ format, seconds: declared_seconds }: AudioFile) => ({ format, declared_seconds })
const optional = <Name extends string, A>(name: Name, value: Option.Option<A>): { readonly [N in Name]?: A } =>
  (Option.isSome(value) ? { [name]: value.value } : {}) as never

const transcribe = Command.make("transcribe", { file, seconds, ...commonFlags }, (given) =>
  run(
    given,
    Effect.map(
      readAudio(given.file, Option.getOrUndefined(given.seconds)),
      (audio) => (client: Client, signal: AbortSignal) =>
        client.transcriptions.createFromFile(audio.bytes, announced(audio), { signal }),
    ),
    { type: "transcription", recording: given.file },
  ),
).pipe(Command.withDescription("Transcribe a recording and print the transcript"))

const speak = Command.make(
  "speak",
  { text: Argument.String("TEXT").pipe(Argument.withDescription("The text to speak")), voice, ...commonFlags },
  (given) =>
    run(
      given,
      Effect.succeed((client: Client, signal: AbortSignal) =>
        client.speech.create({ input: given.text, ...optional("voice", given.voice) }, { signal }),
      ),
      { type: "speech_synthesis" },
    ),
).pipe(Command.withDescription("Speak a text and write the audio to a file"))

const turnFlags = {
  instructions: Flag.String("instructions").pipe(
    Flag.withDescription("Instructions for the reply, such as its tone"),
    Flag.optional,
  ),
  tokens: Flag.Int("max-output-tokens").pipe(
    Flag.withDescription("Maximum length of the reply in tokens"),
    Flag.withDefault(200),
  ),
}

const turn = Command.make("turn", { file, seconds, voice, ...turnFlags, ...commonFlags }, (given) =>
  run(
    given,
    Effect.map(
      readAudio(given.file, Option.getOrUndefined(given.seconds)),
      (audio) => (client: Client, signal: AbortSignal) =>
        client.voiceTurns.createFromFile(
          audio.bytes,
          {
            ...announced(audio),
            max_output_tokens: given.tokens,
            ...optional("instructions", given.instructions),
            ...optional("voice", given.voice),
          },
          { signal },
        ),
    ),
    { type: "voice_turn", recording: given.file },
  ),
).pipe(Command.withDescription("Answer a spoken question: print the reply and write its audio to a file"))

const image = Command.make(
  "image",
  { prompt: Argument.String("PROMPT").pipe(Argument.withDescription("A description of the image")), ...commonFlags },
  (given) =>
    run(
      given,
      Effect.succeed((client: Client, signal: AbortSignal) =>
        client.images.create({ prompt: given.prompt }, { signal }),
      ),
      { type: "image_generation" },
    ),
).pipe(Command.withDescription("Generate an image, write it to a file, and show it where the terminal can"))

/** Finds a job by its id alone: audio and image jobs have paths of their own. */
const findJob =
  (id: string) =>
  async (client: Client, signal: AbortSignal): Promise<TriedJob> => {
    const audio = { id, type: "speech_synthesis" } as const
    try {
      await client.jobs.get(audio, { signal })
      return audio
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "job_not_found") throw error
      const picture = { id, type: "image_generation" } as const
      await client.jobs.get(picture, { signal })
      return picture
    }
  }

const job = Command.make(
  "job",
  {
    id: Argument.String("JOB_ID").pipe(Argument.withDescription("The id of a job that the same key created")),
    watch: Flag.Boolean("watch").pipe(Flag.withDescription("Wait until the job is finished"), Flag.withDefault(false)),
    ...commonFlags,
  },
  (given) => run(given, Effect.succeed(findJob(given.id)), { requiresService: true, waits: given.watch }),
).pipe(Command.withDescription("Show a job of a running service, and write its result to a file"))

export const tryCommand = Command.make("try").pipe(
  Command.withDescription(
    "Run one job and see its result, on a running service or on a temporary one with sandbox models",
  ),
  Command.withSubcommands([transcribe, speak, turn, image, job]),
)
