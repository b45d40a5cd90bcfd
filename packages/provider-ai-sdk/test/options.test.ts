import { aiSdkProviders, openAiProviders } from "@kiln/provider-ai-sdk"
import { expect, it } from "vitest"

/** A value as untyped JavaScript passes it, or a spread that hides it from the compiler. */
const given = (value: unknown): never => value as never

it.each([
  [() => openAiProviders(given({ models: {}, apikey: "k" })), 'did you mean "apiKey"?'],
  [
    () => openAiProviders(given({ models: { speach: "tts-1" } })),
    'unknown option "speach" in models; did you mean "speech"?',
  ],
  [() => openAiProviders(given({ apiKey: "k" })), "models expects its options as an object"],
  [() => aiSdkProviders(given({ images: {} })), 'unknown option "images" in aiSdkProviders(); did you mean "image"?'],
])("unknown options are rejected: %#", (make, message) => {
  expect(make).toThrow(message)
})
