/** What the client asks for: the declared endpoints by name, with their methods and paths. A test compares the two. */
export const routes = {
  createUpload: ["POST", "/v1/audio/uploads"],
  createTranscription: ["POST", "/v1/audio/transcriptions"],
  createSpeech: ["POST", "/v1/audio/speech"],
  createVoiceTurn: ["POST", "/v1/voice/turns"],
  pollAudioJob: ["GET", "/v1/jobs/:id"],
  eraseAudioJobData: ["DELETE", "/v1/jobs/:id/data"],
  createImage: ["POST", "/v1/images/generations"],
  pollImageJob: ["GET", "/v1/images/jobs/:id"],
  eraseImageJobData: ["DELETE", "/v1/images/jobs/:id/data"],
} as const

export type RouteName = keyof typeof routes
