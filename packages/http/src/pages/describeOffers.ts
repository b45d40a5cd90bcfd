import { Schema } from "effect"
import type { JobKind } from "@kiln/core/effect"
import type { Offer, Offers } from "../handlers/offerKinds.ts"

/**
 * The description of one installation's kinds: those it does not have are left out, those of its own are described by the
 * example of speech jobs, so that headers and errors are the same ones.
 */

type Json = Readonly<Record<string, unknown>>
const asArray = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])
const asObject = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {})

const builtIn: Readonly<Record<string, string>> = {
  "/v1/audio/transcriptions": "transcription",
  "/v1/audio/speech": "speech_synthesis",
  "/v1/voice/turns": "voice_turn",
  "/v1/images/generations": "image_generation",
}
const example = { create: "/v1/audio/speech", poll: "/v1/jobs/{id}", erase: "/v1/jobs/{id}/data" }

export const describeOffers = (spec: Json, offers: Offers): Json => {
  const paths = asObject(spec["paths"])
  const components = asObject(spec["components"])
  const schemas = asObject(components["schemas"])
  const own = [...offers.values()].flatMap((offer) =>
    offer.path === undefined ? [] : [describeOffer(offer, offer.path, paths, schemas)],
  )
  if (own.length === 0 && Object.values(builtIn).every((kind) => offers.has(kind))) return spec
  const known = Object.entries(paths).filter(([path]) => builtIn[path] === undefined || offers.has(builtIn[path]))
  return {
    ...spec,
    tags: [...asArray(spec["tags"]), ...own.map(({ tag }) => tag)],
    // What is declared stays: a kind that is polled there is one of them.
    paths: { ...merged(own.map((one) => one.paths)), ...Object.fromEntries(known) },
    components: { ...components, schemas: { ...merged(own.map((one) => one.schemas)), ...schemas } },
  }
}

const merged = (parts: ReadonlyArray<Json>): Json => Object.fromEntries(parts.flatMap((part) => Object.entries(part)))

const describeOffer = ({ family, kind, names }: Offer, path: string, paths: Json, schemas: Json) => {
  const title = kind.name.replaceAll("_", " ")
  const base = kind.name.replace(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase())
  const refersTo = (name: string) => ({ "application/json": { schema: { $ref: `#/components/schemas/${name}` } } })
  const operationOf = (from: string, method: string, operationId: string, summary: string): Json => ({
    ...asObject(asObject(paths[from])[method]),
    tags: [kind.name],
    operationId,
    summary,
  })
  const answering = (operation: Json, status: string, name: string): Json => {
    const responses = asObject(operation["responses"])
    return {
      ...operation,
      responses: { ...responses, [status]: { ...asObject(responses[status]), content: refersTo(name) } },
    }
  }
  const create = operationOf(example.create, "post", `create${base}`, `Create a ${title} job`)
  const poll = operationOf(example.poll, "get", `poll${base}`, `Poll a ${title} job`)
  const erase = operationOf(example.erase, "delete", `erase${base}Data`, `Delete the retained data of a ${title} job`)
  const pollPath = family.poll.replace(":id", "{id}")
  const request = requestSchema(kind, names.toWire)
  return {
    tag: { name: kind.name, description: `Scope \`${kind.keyScope}\`.` },
    paths: {
      [path]: {
        post: {
          ...answering(create, "202", `${base}Job`),
          requestBody: { content: refersTo(`Create${base}`), required: true },
        },
      },
      [pollPath]: { get: answering(poll, "200", `${base}JobState`) },
      [`${pollPath}/data`]: { delete: erase },
    },
    schemas: {
      ...request.definitions,
      [`Create${base}`]: request.schema,
      [`${base}Job`]: withProperty(asObject(schemas["SpeechJob"]), "type", { type: "string", enum: [kind.name] }),
      [`${base}JobState`]: withProperty(asObject(schemas["AudioJobState"]), "output", outputSchema(kind, names.toWire)),
    },
  }
}

const withProperty = (schema: Json, name: string, property: Json): Json => {
  const { examples: _, ...rest } = schema
  return { ...rest, properties: { ...asObject(schema["properties"]), [name]: property } }
}

const outputSchema = (kind: JobKind, toWire: (name: string) => string): Json => ({
  type: "object",
  description: "Once done, as long as the job keeps its data.",
  properties: Object.fromEntries(
    kind.files.map((name) => [
      `${toWire(name)}_url`,
      { type: "string", format: "uri", description: "Signed; valid for 10 minutes from this poll." },
    ]),
  ),
  additionalProperties: true,
})

type JsonSchemaInput = (options: { readonly target: string }) => unknown

/** Of an Effect Schema, or of another one that keeps the Standard JSON Schema specification; else any object. */
const jsonSchemaOf = (request: JobKind["request"]): { readonly schema: Json; readonly definitions: Json } => {
  if (!("~standard" in request)) {
    const { definitions, schema } = Schema.toJsonSchemaDocument(request)
    // The engine refuses what it does not know.
    return { schema: { ...schema, additionalProperties: false }, definitions }
  }
  const { input } = asObject(asObject(request["~standard"])["jsonSchema"])
  const {
    $defs,
    $schema: _,
    ...schema
  } = typeof input === "function"
    ? asObject((input as JsonSchemaInput)({ target: "draft-2020-12" }))
    : { type: "object" }
  return { schema, definitions: asObject($defs) }
}

/** What a request is, by the names on the wire. */
const requestSchema = (kind: JobKind, toWire: (name: string) => string) => {
  const { definitions, schema } = jsonSchemaOf(kind.request)
  const properties = Object.entries(asObject(schema["properties"])).map(
    ([name, value]) => [toWire(name), value] as const,
  )
  const required = asArray(schema["required"]).map((name) => toWire(String(name)))
  const named = { ...schema, properties: Object.fromEntries(properties), required }
  // Definitions of a schema are components of a description.
  const moved = JSON.stringify({ schema: named, definitions }).replaceAll('"#/$defs/', '"#/components/schemas/')
  return JSON.parse(moved) as { readonly schema: Json; readonly definitions: Json }
}
