// The same providers for the service: KILN_CONFIG=examples/local-voices/kiln.config.ts pnpm start
import type { KilnConfig } from "@kiln/cli"
import { espeakSpeech } from "./espeakSpeech.ts"
import { pocketsphinxTranscription } from "./pocketsphinxTranscription.ts"
import { reflectiveReply } from "./reflectiveReply.ts"

const config = {
  providers: {
    speech: espeakSpeech(),
    transcription: pocketsphinxTranscription(),
    reply: reflectiveReply,
  },
  voices: {
    byName: {
      alloy: "en-us+f5",
      echo: "en-us+m3",
      fable: "en-gb",
      nova: "en-us+f2",
      onyx: "en-us+m7",
      shimmer: "en-gb-scotland+f4",
    },
    default: "alloy",
  },
} satisfies KilnConfig

export default config
