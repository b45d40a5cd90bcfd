import { builtIn, defaultVoices } from "@kiln/core/kinds"
import { audioJobs, imageJobs } from "../routes/JobFamily.ts"
import { jobRoute } from "../routes/jobRoute.ts"

// The operator configures the voices of an installation, so a client accepts any name.
const voices = { ...defaultVoices, isOpen: true }

/** The routes of the built-in kinds. */
export const builtInRoutes = [
  jobRoute(builtIn.transcription, { path: "/v1/audio/transcriptions", family: audioJobs, methods: "transcriptions" }),
  jobRoute(builtIn.speechSynthesis(voices), {
    path: "/v1/audio/speech",
    family: audioJobs,
    noun: "Speech",
    methods: "speech",
  }),
  jobRoute(builtIn.voiceTurn(voices), { path: "/v1/voice/turns", family: audioJobs, methods: "voiceTurns" }),
  jobRoute(builtIn.imageGeneration, {
    path: "/v1/images/generations",
    family: imageJobs,
    noun: "Image",
    methods: "images",
  }),
] as const
