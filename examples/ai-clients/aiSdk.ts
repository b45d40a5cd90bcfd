// The AI SDK over durable jobs: KILN_URL and KILN_API_KEY name the service.
import { createKilnProvider } from "@kiln/client/ai-sdk"
import { generateImage, generateSpeech, transcribe } from "ai"

const { KILN_API_KEY: apiKey = "", KILN_URL: baseUrl = "http://127.0.0.1:8787" } = process.env
const kiln = createKilnProvider({ baseUrl, apiKey })

const { audio } = await generateSpeech({ model: kiln.speech(), text: "Hello from kiln.", voice: "nova" })
console.log(audio.mediaType)

// After a crash, the same call with the same key returns the result of the first job.
const { text } = await transcribe({
  model: kiln.transcription(),
  audio: audio.uint8Array,
  providerOptions: { kiln: { idempotencyKey: "recording-17" } },
})
console.log(text)

const { images } = await generateImage({ model: kiln.image(), prompt: "A red kiln", n: 2 })
console.log(images.map(({ mediaType }) => mediaType).join(" "))
