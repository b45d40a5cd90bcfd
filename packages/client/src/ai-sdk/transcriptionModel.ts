import type { TranscriptionModelV4 } from "@ai-sdk/provider"
import type { WholeCalls } from "../Client.ts"
import { PROVIDER, responseOf, runOptionsOf, unsupported } from "./callOptions.ts"

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
