import { toPascalCase } from "./fieldNames.ts"

/** The body of a polled job: `full` always has billing and codes, `brief` omits fields that do not apply. */
export type JobBody = "full" | "brief"

/**
 * Jobs that are polled and erased under one path. A job is found only under the path of its family. All kinds of a family have
 * the same key scope.
 */
export interface JobFamily<
  Group extends string = string,
  Noun extends string = string,
  Body extends JobBody = JobBody,
> {
  /** The name of its endpoints in the client for Effect: `client.audio`. */
  readonly group: Group
  /** Used in names: `Audio` gives `pollAudioJob` and `AudioJobState`. */
  readonly noun: Noun
  readonly body: Body
  /** Path that ends in `/:id`. GET polls a job; DELETE on the path followed by `/data` erases its data. */
  readonly poll: string
  /** Its heading in the OpenAPI document. */
  readonly title: string
  /** One sentence for people. */
  readonly description: string | undefined
}

/** Describes jobs of several kinds that are polled under one path, for `jobRoute`. */
export const jobFamily = <
  const Group extends string,
  const Noun extends string = Capitalize<Group>,
  const Body extends JobBody = "full",
>(
  group: Group,
  {
    body,
    description,
    noun = toPascalCase(group) as Noun,
    poll,
    title = group,
  }: {
    /** Path for polling, ends in `/:id`. */
    readonly poll: string
    /** Default: the name of the group, with a capital letter. */
    readonly noun?: Noun
    /** Default `full`. */
    readonly body?: Body
    readonly title?: string
    readonly description?: string
  },
): JobFamily<Group, Noun, Body> => ({ group, noun, body: body ?? ("full" as Body), poll, title, description })

export const audioJobs = jobFamily("audio", {
  poll: "/v1/jobs/:id",
  title: "Audio",
  description: "Uploads, transcription, speech and voice turns.",
})

export const imageJobs = jobFamily("images", {
  noun: "Image",
  body: "brief",
  poll: "/v1/images/jobs/:id",
  title: "Images",
  description: "Image generation.",
})
