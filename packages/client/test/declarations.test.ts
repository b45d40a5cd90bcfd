import { acceptedMediaTypes, type audioFormats } from "@kiln/core/domain"
import { HttpApi } from "effect/http-api"
import { describe, expect, expectTypeOf, it } from "vitest"
import { builtInRoutes as declaredRoutes } from "../src/api/builtInRoutes.ts"
import { KilnApi } from "../src/api/KilnApi.ts"
import type * as Uploads from "../src/api/UploadBodies.ts"
import { mediaTypes } from "../src/mediaTypes.ts"
import type { WireOutput, WireRequest, WireUpload } from "../src/routes/wireTypes.ts"
import * as wire from "../src/wire.ts"

/** Every declared endpoint: name, method and path. */
const declared = new Map<string, readonly [method: string, path: string]>()
HttpApi.reflect(KilnApi, {
  onGroup: () => {},
  onEndpoint: ({ endpoint }) => void declared.set(endpoint.identifier, [endpoint.method, endpoint.path]),
})

type Declared = (typeof declaredRoutes)[number]
type Jobs = wire.BuiltInJobs

describe("the promise client matches the declarations", () => {
  it("of each built-in kind, and no other", () => {
    const expected = declaredRoutes.map(({ family: { noun, poll }, kind, methods, noun: own, path, upload }) => ({
      kind: { name: kind.name },
      path,
      family: { noun, poll },
      noun: own,
      methods,
      ...(upload !== undefined && { upload }),
    }))
    expect(wire.wireRoutes).toEqual(expected)
  })

  it("at the paths of the declared endpoints, except for signed URLs and health", () => {
    const asked = wire.wireRoutes.flatMap(({ family, noun, path }) => [
      [`create${noun}`, ["POST", path]] as const,
      [`poll${family.noun}Job`, ["GET", family.poll]] as const,
      [`erase${family.noun}JobData`, ["DELETE", `${family.poll}/data`]] as const,
    ])
    const apart = new Set(["putFile", "getFile", "headFile", "healthz", "readyz"])
    const expected = [...declared].filter(([name]) => !apart.has(name))
    const upload = ["createUpload", ["POST", "/v1/audio/uploads"]] as const
    expect(Object.fromEntries<unknown>([upload, ...asked])).toEqual(Object.fromEntries<unknown>(expected))
  })

  it("and sends files under types that are accepted", () => {
    expect(Object.keys(mediaTypes).sort()).toEqual(Object.keys(acceptedMediaTypes).sort())
    for (const [format, type] of Object.entries(mediaTypes))
      expect(acceptedMediaTypes[format as keyof typeof mediaTypes]).toContain(type)
  })

  // Checked by the compiler: the types that were written are those that the kinds infer.
  it("with the same types", () => {
    expectTypeOf<wire.CreateUpload>().toEqualTypeOf<typeof Uploads.CreateUpload.Encoded>()
    expectTypeOf<wire.Upload>().toEqualTypeOf<typeof Uploads.Upload.Encoded>()
    expectTypeOf<wire.AudioFormat>().toEqualTypeOf<(typeof audioFormats)[number]>()
    expectTypeOf<{ readonly [Type in keyof Jobs]: Jobs[Type]["request"] }>().branded.toEqualTypeOf<{
      readonly [R in Declared as R["kind"]["name"]]: WireRequest<R>
    }>()
    expectTypeOf<{
      readonly [Type in keyof Jobs]: NonNullable<Jobs[Type]["state"]["output"]>
    }>().branded.toEqualTypeOf<{ readonly [R in Declared as R["kind"]["name"]]: WireOutput<R> }>()
    expectTypeOf<{ readonly [Type in keyof Jobs]: Jobs[Type]["upload"] }>().branded.toEqualTypeOf<{
      readonly [R in Declared as R["kind"]["name"]]: WireUpload<R>
    }>()
    expectTypeOf<{ readonly [Type in keyof Jobs]: Jobs[Type]["job"]["type"] }>().branded.toEqualTypeOf<{
      readonly [Type in keyof Jobs]: Type
    }>()
  })
})
