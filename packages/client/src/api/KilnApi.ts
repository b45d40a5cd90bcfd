import { HttpApi, OpenApi } from "effect/http-api"
import { AudioApi } from "./AudioApi.ts"
import { describeResponses } from "./describeResponses.ts"
import { HealthApi } from "./HealthApi.ts"
import { ImagesApi } from "./ImagesApi.ts"
import { SignedUrlsApi } from "./SignedUrlsApi.ts"

/** The whole HTTP API, as data: routes, OpenAPI and clients are made from it. */
export class KilnApi extends HttpApi.make("kiln")
  .add(AudioApi, ImagesApi, SignedUrlsApi, HealthApi)
  .annotateMerge(
    OpenApi.annotations({
      title: "kiln",
      version: "1",
      description:
        "Asynchronous audio and image jobs: create one with POST, then poll it with GET until its status is `done` or `failed`. Every error has the same body; `error.code` is for programs, `error.message` for people.",
      license: { name: "MIT", identifier: "MIT" },
      servers: [{ url: "/" }],
      transform: describeResponses,
    }),
  ) {}
