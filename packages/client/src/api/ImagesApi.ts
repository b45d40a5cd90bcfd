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
} from "./endpoints.ts"
import { CreateImage, ImageJob, ImageJobState } from "./JobBodies.ts"

/** Image jobs. Needs a key with the scope `images.create`. */
export class ImagesApi extends HttpApiGroup.make("images")
  .add(
    HttpApiEndpoint.post("createImage", "/v1/images/generations", {
      headers: idempotencyHeader,
      payload: CreateImage,
      success: accepted(ImageJob),
      error: creationErrors(),
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Create an image generation job",
        description: "The output is a square PNG of 1024 x 1024; nothing selects other sizes, formats or qualities.",
      }),
    ),
    HttpApiEndpoint.get("pollImageJob", "/v1/images/jobs/:id", {
      params: jobIdParam,
      success: polled(ImageJobState),
      error: pollErrors,
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Poll an image job",
        description: "Every 2 seconds, until `status` is `done` or `failed`. Only for the key that created the job.",
      }),
    ),
    HttpApiEndpoint.delete("eraseImageJobData", "/v1/images/jobs/:id/data", {
      params: jobIdParam,
      success: HttpApiSchema.NoContent,
      error: eraseErrors,
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Delete the prompt and the file of a finished image job",
        description: "They are gone for good; the status stays. Again has the same answer.",
      }),
    ),
  )
  .middleware(Authentication)
  .annotateMerge(OpenApi.annotations({ title: "Images", description: "Image generation. Scope `images.create`." })) {}
