import type { ImageModelV4, SpeechModelV4, TranscriptionModelV4 } from "@ai-sdk/provider"
import type { WholeCalls } from "../Client.ts"
import { PROVIDER, responseOf, runOptionsOf, unsupported } from "./callOptions.ts"

/** Images of one call, each a job. All of a call are made together, so that they can have keys that differ. */
const MAX_IMAGES = 100

/** Image jobs as a model of the AI SDK. */
export const imageModel = (client: WholeCalls, modelId: string): ImageModelV4 => ({
  specificationVersion: "v4",
  provider: PROVIDER,
  modelId,
  maxImagesPerCall: MAX_IMAGES,
  supportsFileInputs: false,
  supportsMaskInputs: false,
  doGenerate: async ({ aspectRatio, files, mask, n, prompt = "", seed, size, ...call }) => {
    if (files?.length || mask !== undefined)
      throw new TypeError("kiln generates images from text, without files and mask")
    const options = runOptionsOf(call)
    const keyOf = (index: number) =>
      options.idempotencyKey === undefined || index === 0
        ? {}
        : { idempotencyKey: `${options.idempotencyKey}#${index + 1}` }
    const results = await Promise.all(
      Array.from({ length: n }, (_, index) =>
        client.image({ prompt, model: modelId as "svc-image" }, { ...options, ...keyOf(index) }),
      ),
    )
    return {
      images: await Promise.all(results.map(async ({ image }) => new Uint8Array(await image.arrayBuffer()))),
      warnings: unsupported({
        aspectRatio: aspectRatio === "1:1" ? undefined : aspectRatio,
        seed,
        size: size === "1024x1024" ? undefined : size,
      }),
      response: { ...responseOf(modelId), headers: undefined },
      providerMetadata: { [PROVIDER]: { images: results.map(({ state }) => ({ jobId: state.id })) } },
    }
  },
})

/** Media types by the AI SDK's names of formats that differ from their subtype. */
const subtypes: Readonly<Record<string, string>> = { mp3: "mpeg" }

/** Speech jobs as a model of the AI SDK. */
export const speechModel = (client: WholeCalls, modelId: string): SpeechModelV4 => ({
  specificationVersion: "v4",
  provider: PROVIDER,
  modelId,
  doGenerate: async ({ instructions, language, outputFormat, speed, text, voice, ...call }) => {
    const request = { input: text, ...(voice !== undefined && { voice }) }
    const { audio, state } = await client.speak(request, runOptionsOf(call))
    const isFormat = outputFormat === undefined || audio.type.endsWith(`/${subtypes[outputFormat] ?? outputFormat}`)
    return {
      audio: new Uint8Array(await audio.arrayBuffer()),
      warnings: unsupported({ instructions, language, speed, ...(!isFormat && { outputFormat }) }),
      response: { ...responseOf(modelId), headers: { "content-type": audio.type }, body: state },
      providerMetadata: { [PROVIDER]: { jobId: state.id } },
    }
  },
})

const bytesOf = (audio: Uint8Array | string): Uint8Array<ArrayBuffer> =>
  typeof audio === "string"
    ? Uint8Array.from(atob(audio), (character) => character.charCodeAt(0))
    : (audio as Uint8Array<ArrayBuffer>)

/** Transcription jobs as a model of the AI SDK. Format and length are read from the file. */
export const transcriptionModel = (client: WholeCalls, modelId: string): TranscriptionModelV4 => ({
  specificationVersion: "v4",
  provider: PROVIDER,
  modelId,
  doGenerate: async ({ audio, timestampGranularities, ...call }) => {
    const { state, transcript } = await client.transcribe(bytesOf(audio), {}, runOptionsOf(call))
    const measured = state.billing.line_items.find(({ meter }) => meter === "input_audio_seconds")
    const asked = timestampGranularities?.length ? timestampGranularities : undefined
    return {
      text: transcript,
      segments: [],
      language: undefined,
      durationInSeconds: measured?.quantity,
      warnings: unsupported({ timestampGranularities: asked }),
      response: { ...responseOf(modelId), body: state },
      providerMetadata: { [PROVIDER]: { jobId: state.id } },
    }
  },
})
