import { acceptedMediaTypes, type audioFormats } from "@kiln/core/domain"
import { HttpApi } from "effect/http-api"
import { describe, expect, expectTypeOf, it } from "vitest"
import type * as Jobs from "../src/api/JobBodies.ts"
import { KilnApi } from "../src/api/KilnApi.ts"
import type * as Uploads from "../src/api/UploadBodies.ts"
import type { JobStates } from "../src/JobStates.ts"
import { mediaTypes } from "../src/mediaTypes.ts"
import { routes } from "../src/routes.ts"
import type * as wire from "../src/wire.ts"

/** Every declared endpoint: name, method and path. */
const declared = new Map<string, readonly [method: string, path: string]>()
HttpApi.reflect(KilnApi, {
  onGroup: () => {},
  onEndpoint: ({ endpoint }) => void declared.set(endpoint.identifier, [endpoint.method, endpoint.path]),
})

describe("the client for promises says what is declared", () => {
  it.each(Object.entries(routes))("%s", (name, route) => {
    expect(route).toEqual(declared.get(name))
  })

  it("all of it, but for signed URLs and health", () => {
    const apart = ["putFile", "getFile", "headFile", "healthz", "readyz"]
    expect([...Object.keys(routes), ...apart].sort()).toEqual([...declared.keys()].sort())
  })

  it("and sends files under types that are accepted", () => {
    expect(Object.keys(mediaTypes).sort()).toEqual(Object.keys(acceptedMediaTypes).sort())
    for (const [format, type] of Object.entries(mediaTypes))
      expect(acceptedMediaTypes[format as keyof typeof mediaTypes]).toContain(type)
  })

  // Checked by the compiler: the types that were written are those that the schemas infer.
  it("with the same types", () => {
    expectTypeOf<wire.CreateUpload>().toEqualTypeOf<typeof Uploads.CreateUpload.Encoded>()
    expectTypeOf<wire.Upload>().toEqualTypeOf<typeof Uploads.Upload.Encoded>()
    expectTypeOf<wire.CreateTranscription>().toEqualTypeOf<typeof Jobs.CreateTranscription.Encoded>()
    expectTypeOf<wire.CreateSpeech>().toEqualTypeOf<typeof Jobs.CreateSpeech.Encoded>()
    expectTypeOf<wire.CreateVoiceTurn>().toEqualTypeOf<typeof Jobs.CreateVoiceTurn.Encoded>()
    expectTypeOf<wire.CreateImage>().toEqualTypeOf<typeof Jobs.CreateImage.Encoded>()
    expectTypeOf<wire.TranscriptionJob>().toEqualTypeOf<typeof Jobs.TranscriptionJob.Encoded>()
    expectTypeOf<wire.SpeechJob>().toEqualTypeOf<typeof Jobs.SpeechJob.Encoded>()
    expectTypeOf<wire.VoiceTurnJob>().toEqualTypeOf<typeof Jobs.VoiceTurnJob.Encoded>()
    expectTypeOf<wire.ImageJob>().toEqualTypeOf<typeof Jobs.ImageJob.Encoded>()
    expectTypeOf<wire.AudioJobState>().toEqualTypeOf<typeof Jobs.AudioJobState.Encoded>()
    expectTypeOf<wire.ImageJobState>().toEqualTypeOf<typeof Jobs.ImageJobState.Encoded>()
    expectTypeOf<wire.AudioFormat>().toEqualTypeOf<(typeof audioFormats)[number]>()
    type DeclaredTypes = (wire.TranscriptionJob | wire.SpeechJob | wire.VoiceTurnJob | wire.ImageJob)["type"]
    expectTypeOf<keyof JobStates>().toEqualTypeOf<DeclaredTypes>()
  })
})
