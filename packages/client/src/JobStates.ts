import type { AudioJobState, AudioOutput, ImageJobState } from "./wire.ts"

/** An audio job of a kind whose output has these fields, all of them. */
type AudioStateWith<Field extends keyof AudioOutput> = Omit<AudioJobState, "output"> & {
  /** Once done, as long as the job keeps its data. */
  readonly output?: Required<Pick<AudioOutput, Field>>
}

/** What polling a job answers, by the job's `type`. */
export interface JobStates {
  readonly transcription: AudioStateWith<"transcript">
  readonly speech_synthesis: AudioStateWith<"audio_url">
  readonly voice_turn: AudioStateWith<"text" | "audio_url">
  readonly image_generation: ImageJobState
}

export type JobType = keyof JobStates

/** A job that will not change any more, but for the loss of its data. */
export type FinishedJob<Type extends JobType = JobType> = JobStates[Type] & { readonly status: "done" | "failed" }

/** Which job is meant. A created job is one; keep `id` and `type` to find it again later. */
export interface JobReference<Type extends JobType = JobType> {
  readonly id: string
  readonly type: Type
}
