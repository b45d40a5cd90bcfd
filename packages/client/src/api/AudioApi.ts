import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authentication } from "./Authentication.ts"
import {
  accepted,
  creationErrors,
  eraseErrors,
  idempotencyHeader,
  jobIdParam,
  polled,
  pollErrors,
  uploadErrors,
  uploadUseCodes,
} from "./endpoints.ts"
import {
  AudioJobState,
  CreateSpeech,
  CreateTranscription,
  CreateVoiceTurn,
  SpeechJob,
  TranscriptionJob,
  VoiceTurnJob,
} from "./JobBodies.ts"
import { CreateUpload, Upload } from "./UploadBodies.ts"

/** Uploads and audio jobs. Needs a key with the scope `audio.create`. */
export class AudioApi extends HttpApiGroup.make("audio")
  .add(
    HttpApiEndpoint.post("createUpload", "/v1/audio/uploads", {
      payload: CreateUpload,
      success: Upload.pipe(HttpApiSchema.status(201)),
      error: uploadErrors,
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Create a signed upload URL",
        description: "Then send the file to `upload_url` with PUT, and create a job with `id` as `upload_id`.",
      }),
    ),
    HttpApiEndpoint.post("createTranscription", "/v1/audio/transcriptions", {
      headers: idempotencyHeader,
      payload: CreateTranscription,
      success: accepted(TranscriptionJob),
      error: creationErrors(...uploadUseCodes),
    }).annotateMerge(OpenApi.annotations({ summary: "Create a transcription job" })),
    HttpApiEndpoint.post("createSpeech", "/v1/audio/speech", {
      headers: idempotencyHeader,
      payload: CreateSpeech,
      success: accepted(SpeechJob),
      error: creationErrors(),
    }).annotateMerge(OpenApi.annotations({ summary: "Create a speech synthesis job" })),
    HttpApiEndpoint.post("createVoiceTurn", "/v1/voice/turns", {
      headers: idempotencyHeader,
      payload: CreateVoiceTurn,
      success: accepted(VoiceTurnJob),
      error: creationErrors(...uploadUseCodes),
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Create a voice turn job",
        description: "An uploaded audio file in, text and voice out.",
      }),
    ),
    HttpApiEndpoint.get("pollAudioJob", "/v1/jobs/:id", {
      params: jobIdParam,
      success: polled(AudioJobState),
      error: pollErrors,
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Poll an audio job",
        description: "Every 2 seconds, until `status` is `done` or `failed`. Only for the key that created the job.",
      }),
    ),
    HttpApiEndpoint.delete("eraseAudioJobData", "/v1/jobs/:id/data", {
      params: jobIdParam,
      success: HttpApiSchema.NoContent,
      error: eraseErrors,
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Delete the retained data of a finished audio job",
        description:
          "Text, files and URLs are gone for good; status, codes and billing stay. Again has the same answer.",
      }),
    ),
  )
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Audio",
      description: "Uploads, transcription, speech and voice turns. Scope `audio.create`.",
    }),
  ) {}
